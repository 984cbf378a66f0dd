"""The command line: parses, calls, prints. Exit codes: 0 done, 1 some runs failed, 2 bad input, 3 store in use, 130 stopped."""

from recollect.cli import show, studies  # each brings its commands
from recollect.cli.app import app, main

__all__ = ["app", "main", "show", "studies"]
