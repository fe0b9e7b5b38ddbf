"""Matrix products on the thread pool of the eigen-solver.

The wheels of numpy and scipy each carry a BLAS with threads of its own, and those of one go on spinning for a while
when their work is done, at the cost of the other: an eigen-solve of order 400 right after a numpy product was measured
to take 10 times as long as alone. Taking the products of a linear fit from scipy keeps it in one pool. It can go when
the two share a BLAS.
"""

from scipy.linalg.blas import dgemm

from crossview._types import Array


def product(A: Array, B: Array) -> Array:
    """``A B`` of C-ordered matrices, without copying them."""
    result: Array = dgemm(1.0, B.T, A.T).T
    return result


def cross_product(A: Array, B: Array) -> Array:
    """``A' B`` of C-ordered matrices, without copying them."""
    product: Array = dgemm(1.0, B.T, A.T, trans_b=1).T
    return product


def inner_products(A: Array, B: Array, scale: float = 1.0) -> Array:
    """``scale · A B'`` of C-ordered matrices, without copying them."""
    product: Array = dgemm(scale, B.T, A.T, trans_a=1).T
    return product
