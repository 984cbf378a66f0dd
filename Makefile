# `make demo` and `make test` need only Python (3.11 or newer) and make: each makes .venv, installs and does the job.
PYTHON ?= python3
BIN := .venv/bin
# Two test processes on two cores: one thread each.
TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q

.PHONY: demo test test-long test-faults check docs clean

demo: .venv/installed
	$(BIN)/recollect demo

test: .venv/tested check
	$(TEST) -n 2 -m "not long" tests

test-long: .venv/tested
	$(TEST) -m long tests

# Every point at which the program may be ended, and a hundred kills.
test-faults: .venv/tested
	RECOLLECT_TEST_FAULTS=all $(TEST) -n 2 -m long tests/study/test_crash.py

check: .venv/tested
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/pyright

docs: .venv/tested
	$(BIN)/python docs/reference.py && $(BIN)/python docs/atlas.py && $(BIN)/python docs/counts.py && $(BIN)/python docs/window.py && $(BIN)/mkdocs build --strict

# The constraints pin what was tested; pyproject.toml asks only for ranges.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt -e .
	touch $@

.venv/tested: .venv/installed
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[test,dev,serve,ray,slurm,tensorboard,wandb,hf,triton,docs]"
	touch $@

clean:
	rm -rf .venv dist .pytest_cache .ruff_cache
