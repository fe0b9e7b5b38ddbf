"""Match samples of one view in a gallery of another, and measure how well that works."""
