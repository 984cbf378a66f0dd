"""Drawings from numbers, in one style."""
