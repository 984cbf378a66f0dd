"""The command line: parses, calls, prints. One file per command.

Exit codes: 0 done, 1 some runs failed or a rule is broken, 2 bad input, 3 the store is in use, 130 stopped.
"""

from recollect.cli import (
    atlas,
    bench,
    check,
    compare,
    demo,
    evaluate,
    export,
    failures,
    imports,
    kernels,
    listing,
    mad,
    manage,
    merge,
    papers,
    plan,
    plot,
    probe,
    report,
    reproduce,
    results,
    run,
    serve,
    show,
    status,
    watch,
)
from recollect.cli.app import app, main

__all__ = [
    "app", "atlas", "bench", "check", "compare", "demo", "evaluate", "export", "failures", "imports", "kernels", "listing",
    "mad", "main", "manage", "merge", "papers", "plan", "plot", "probe", "report", "reproduce", "results", "run", "serve",
    "show", "status", "watch",
]  # fmt: skip
