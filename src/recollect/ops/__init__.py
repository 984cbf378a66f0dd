"""The arithmetic of mixing: one file an op, the plain definition first, the fast form under it."""
