"""Search among enrolled samples, and the file of scores."""
