"""How well, how fast and how reliably does a sequence model learn to recall from its context?"""

import os

# A matrix product must give a member of a cohort the same bits wherever in memory it lies; Intel's library promises that
# only when asked before its first use.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

__version__ = "0.1.0"


def __getattr__(name: str):
    """`from recollect import Study`, without loading torch for those who only want the version."""
    if name == "Study":
        from recollect.study.spec import Study

        return Study
    raise AttributeError(f"module 'recollect' has no attribute {name!r}")
