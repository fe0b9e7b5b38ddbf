"""Splits, parameter search, committees and the matcher."""
