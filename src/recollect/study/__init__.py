"""Studies: grids of runs, where their results are kept, and who trains them."""
