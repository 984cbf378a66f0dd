"""Sequence mixers: one file each, an nn.Module (batch, length, width) -> same."""
