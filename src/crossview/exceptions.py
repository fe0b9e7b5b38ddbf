"""Errors of this package that callers may want to tell apart."""

__all__ = ["NotApplicableError"]


class NotApplicableError(ValueError):
    """A method cannot learn from data of this shape, whatever its parameters."""
