"""Linear algebra on arrays: scatter matrices of graphs, and the eigenproblems that the methods come down to."""
