"""The command line: parses, calls, prints. Exit codes: 0 done, 1 some runs failed, 2 bad input, 3 store in use, 130 stopped."""

from recollect.cli import bench, evaluate, export, papers, probe, report, show, studies  # each brings its commands
from recollect.cli.app import app, main

__all__ = ["app", "bench", "evaluate", "export", "main", "papers", "probe", "report", "show", "studies"]
