"""Numbers from results: each a function from frames or models to numbers."""
