"""`python -m recollect.cli`."""

from recollect.cli import main

main()
