"""State tracking: Grazzi et al. 2025 (negative eigenvalues) and Siems et al. 2025 (DeltaProduct).

A linear recurrence whose transitions have eigenvalues between 0 and 1 cannot count modulo 2 at any length; with eigenvalues down
to -1 one layer of the delta rule can, and products of two and more steps track the state of larger groups.
"""

from recollect.papers.item import Paper
from recollect.papers.statetracking2025.counting import ARITHMETIC, PARITY
from recollect.papers.statetracking2025.groups import WORDS
from recollect.papers.statetracking2025.settings import NAME
from recollect.sources.statetracking2025 import SOURCE

PAPER = Paper(NAME, SOURCE.title, (PARITY, ARITHMETIC, WORDS), ("tiny", "medium", "paper"), SOURCE.unknown)
