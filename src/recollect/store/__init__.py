"""The results file and everything that reads or writes it: all SQL is here."""

from pathlib import Path

DEFAULT_STORE = Path("results/store.sqlite")
"""Where results are kept unless another file is named."""
