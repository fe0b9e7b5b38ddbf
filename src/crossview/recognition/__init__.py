"""From a common space to recognition: metrics."""
