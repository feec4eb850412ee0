"""The shared low-dimensional subspace, x = x0 + P p (section 2.3); the only code that touches M-sized vectors."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.linalg.blas import dnrm2, snrm2

from sumopt.core.arrays import Coordinates, Vector

BLOCK = 4096
"""Columns of the basis that a collapse works on at a time: small enough for the cache, large enough for BLAS."""

SAFE_SHRINKAGE = 0.7
"""A Gram-Schmidt sweep that leaves more than this fraction of a vector has left it orthogonal to rounding."""

MOST_SWEEPS = 4
"""Two sweeps are enough, but for vectors that are all rounding."""

TINY = float(1.0 / np.sqrt(np.finfo(np.float64).max))
"""A number whose square is lost counts as zero."""


class Subspace:
    """An orthonormal basis of the directions in use, one vector a row, around the origin `x0`.

    Coordinates have `capacity` entries, the last ones zero, so that a vector known before the subspace was expanded is
    known after it as it stands. Where there is room for every direction, the basis is the identity, and not stored.

    Parameters
    ----------
    origin : ndarray
        The point that has coordinates zero. Its dtype is that of the basis.
    capacity : int
        The number of directions that there is room for.
    """

    def __init__(self, origin: Vector, capacity: int) -> None:
        self.origin = origin
        self.full = capacity >= origin.size
        self.capacity = min(capacity, origin.size)
        self.size = origin.size if self.full else 0
        self._basis: Vector = np.empty((0 if self.full else self.capacity, origin.size), origin.dtype)
        numbers = np.finfo(origin.dtype)
        self._rounding = 8 * float(numbers.eps)
        self._tiny = max(float(numbers.tiny) / float(numbers.eps), TINY)

    @property
    def basis(self) -> Vector:
        """A copy of P transposed: one direction a row."""
        return np.eye(self.size, dtype=self.origin.dtype) if self.full else self._basis[: self.size].copy()

    def length(self, vector: Vector) -> float:
        """Euclidean norm, free of overflow; not finite where an entry is not."""
        return float(snrm2(vector) if vector.dtype == np.float32 else dnrm2(vector))

    def include(self, vector: Vector) -> Coordinates:
        """Coordinates of a vector; what is new in it becomes a direction (eq. subfunction append)."""
        coordinates = np.zeros(self.capacity)
        if self.full:
            coordinates[:] = vector
            return coordinates
        basis = self._basis[: self.size]
        residual, length = vector, self.length(vector)
        negligible, remains = max(self._rounding * length, self._tiny), length
        for _ in range(MOST_SWEEPS):
            if remains <= negligible:
                return coordinates
            before = remains
            part = basis @ residual
            residual = residual - part @ basis
            coordinates[: self.size] += part
            remains = self.length(residual)
            if remains > max(SAFE_SHRINKAGE * before, negligible):
                break
        else:
            return coordinates
        self._append(residual, remains)
        coordinates[self.size - 1] = remains
        return coordinates

    def _append(self, residual: Vector, length: float) -> None:
        """One more direction."""
        np.divide(residual, self.origin.dtype.type(length), out=self._basis[self.size])
        self.size += 1

    def truncate(self, size: int) -> None:
        """Drop the directions that were appended last."""
        self.size = size

    def position(self, coordinates: Coordinates) -> Vector:
        """The point with these coordinates, freshly made."""
        if self.full:
            return np.asarray(self.origin + coordinates, self.origin.dtype)
        lifted = coordinates[: self.size].astype(self.origin.dtype) @ self._basis[: self.size]
        lifted += self.origin
        return lifted

    def collapse(self, directions: Iterable[Coordinates], keep: int) -> Coordinates:
        """Shrink to the span of the first `keep` independent ones of `directions` (eq. subspace collapse).

        Returns the matrix T = P'^T P that takes old coordinates to new ones. It is found among the coordinates, so that
        the basis itself is read and written once, in place.
        """
        rotation = _orthonormal_rows(directions, self.size, keep)
        kept = len(rotation)
        matrix = rotation.astype(self.origin.dtype)
        for start in range(0, self.origin.size, BLOCK):
            columns = slice(start, start + BLOCK)
            self._basis[:kept, columns] = matrix @ self._basis[: self.size, columns]
        self.size = kept
        return rotation


def rotate(stack: Coordinates, rotation: Coordinates) -> None:
    """Take the coordinates in a stack (last axis) to a collapsed subspace, in place."""
    new, old = rotation.shape
    stack[..., :new] = stack[..., :old] @ rotation.T
    stack[..., new:] = 0.0


def _orthonormal_rows(directions: Iterable[Coordinates], size: int, keep: int) -> Coordinates:
    """Orthonormal basis of the first `keep` independent directions, in their order, each judged by its own length."""
    rows = np.empty((min(keep, size), size))
    count = 0
    for direction in directions:
        if count == len(rows):
            break
        length = np.linalg.norm(direction[:size])
        if length == 0.0:
            continue
        residual = direction[:size] / length
        for _ in range(2):
            residual = residual - (rows[:count] @ residual) @ rows[:count]
            length = np.linalg.norm(residual)
            if length < 1e-10:
                break
            residual /= length
        else:
            rows[count] = residual
            count += 1
    return rows[:count]
