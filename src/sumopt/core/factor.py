"""A positive definite matrix, factored once, as a metric and as a divisor."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from sumopt.core.arrays import Coordinates

TINY = float(np.finfo(np.float64).tiny)
"""Numbers below this lose their digits one by one, and count as zero."""


class Factor:
    """Cholesky factor of a symmetric matrix that is positive definite but for rounding.

    Parameters
    ----------
    matrix : ndarray
        Where rounding has made it indefinite, the smallest multiple of the identity that a decade search finds is
        added, relative to its size. A matrix of zeros stands for no knowledge, and divides to zero, as does one that
        has overflowed.
    """

    def __init__(self, matrix: Coordinates) -> None:
        scale = float(np.abs(matrix).max(initial=0.0))
        self.empty = not TINY <= scale < np.inf
        if self.empty:
            return
        self._lower, failed = lapack.dpotrf(matrix, lower=1, clean=0)
        shift = max(np.finfo(np.float64).eps * scale, TINY)
        while failed:
            shift *= 10.0
            self._lower, failed = lapack.dpotrf(matrix + np.diag(np.full(len(matrix), shift)), lower=1, clean=0)

    def solve(self, vector: Coordinates) -> Coordinates:
        """The inverse times a vector."""
        if self.empty:
            return np.zeros_like(vector)
        solution: Coordinates = lapack.dpotrs(self._lower, vector, lower=1)[0]
        return solution

    def squared_lengths(self, rows: Coordinates) -> Coordinates:
        """Squared lengths of vectors, one a row, in the metric of the inverse."""
        if self.empty:
            return np.zeros(len(rows))
        columns = lapack.dtrtrs(self._lower, rows.T, lower=1)[0]
        lengths: Coordinates = np.einsum("ij,ij->j", columns, columns)
        return lengths
