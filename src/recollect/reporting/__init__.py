"""One HTML file over studies: what was asked, what came out, pictures to explore, and how it was made. Needs no network."""

from recollect.reporting.write import report

__all__ = ["report"]
