"""The type of pandas frames in the views."""

from typing import Any, TypeAlias

Frame: TypeAlias = Any
"""A pandas frame or series. Pandas' own annotations are so wide that a type checker finds a date or a complex number in every
cell; store/frames.py documents the contents of the frames."""
