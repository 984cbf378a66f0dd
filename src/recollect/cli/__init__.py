"""The command line: parses, calls, prints. One file per command.

Exit codes: 0 done, 1 some runs failed or a rule is broken, 2 bad input, 3 the store is in use, 130 stopped.
"""

from recollect.cli import (
    atlas,
    bench,
    check,
    demo,
    evaluate,
    export,
    imports,
    kernels,
    mad,
    merge,
    papers,
    plan,
    probe,
    report,
    reproduce,
    results,
    run,
    serve,
    show,
    status,
)
from recollect.cli.app import app, main

__all__ = [
    "app", "atlas", "bench", "check", "demo", "evaluate", "export", "imports", "kernels", "mad",
    "main", "merge", "papers", "plan", "probe", "report", "reproduce", "results",
    "run", "serve", "show", "status",
]  # fmt: skip
