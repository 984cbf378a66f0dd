"""Models: their specification, their parts, their diagram."""
