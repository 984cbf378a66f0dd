"""How well, how fast and how reliably does a sequence model learn to recall from its context?"""

__version__ = "0.1.0"
