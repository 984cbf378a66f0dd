"""The arithmetic of mixing: one file per op, the plain definition first, the fast form under it."""
