"""Searches: which runs of a grid are worth training, given those that have ended."""
