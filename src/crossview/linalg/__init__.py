"""Linear algebra on arrays: scatter matrices of graphs and classes, and the eigenproblems of the methods."""
