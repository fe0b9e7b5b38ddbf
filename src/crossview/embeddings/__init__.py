"""The embeddings: one map per view into a common space."""
