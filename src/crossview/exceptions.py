"""Errors of this package that callers may want to tell apart."""

__all__ = ["NotApplicableError"]


class NotApplicableError(ValueError):
    """A method cannot learn from data of this shape, whatever its parameters.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> try:
    ...     cv.MvMDA().fit(data.views[:9], range(9))
    ... except cv.exceptions.NotApplicableError as error:
    ...     print(str(error).partition(":")[0])
    each class has at most one sample in each view, which leaves no within-class scatter for MvMDA
    """
