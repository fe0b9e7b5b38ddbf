"""Splits, the search for parameters, and committees of its best candidates."""
