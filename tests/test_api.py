"""The public names: visible, lazy, and never hidden by a package."""

import subprocess
import sys

import recollect

NAMES = (
    "Study", "Task", "Batch", "Mixer", "ModelSpec", "TrainSpec", "Optimiser", "run", "reproduce", "probe", "evaluate", "report",
    "load",
)  # fmt: skip


def test_every_public_name_is_in_dir_and_can_be_imported():
    assert set(NAMES) <= set(dir(recollect))
    for name in NAMES:
        assert callable(getattr(recollect, name)), name
    assert not hasattr(recollect, "os_")


def test_importing_everything_hides_no_function():
    code = (
        "import importlib, pkgutil, recollect\n"
        "for module in pkgutil.walk_packages(recollect.__path__, 'recollect.'):\n"
        "    if 'triton' not in module.name and not module.name.endswith('__main__'): importlib.import_module(module.name)\n"
        f"assert all(type(getattr(recollect, name)).__name__ != 'module' for name in {NAMES!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_does_not_load_torch():
    code = "import sys, recollect, recollect.cli, recollect.tasks, recollect.mixers; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
