"""A page that follows stores while they are written: the views of the report, live. It only reads."""

from recollect.serve.server import serve

__all__ = ["serve"]
