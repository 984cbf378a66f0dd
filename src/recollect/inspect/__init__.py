"""Models to numbers: mixing matrices, induction heads, state sizes."""
