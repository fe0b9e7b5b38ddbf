"""Nearest neighbours of samples, and the graphs of their patches."""
