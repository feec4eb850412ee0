"""Gradient and Hessian of G as running sums: an evaluation exchanges one term (sections 2.1 and 2.2).

They are held about a centre, G'(x) = gradient + H (x - centre), which moves once a pass. There they are added up
afresh, so that neither distance nor rounding piles up.
"""

from __future__ import annotations

import numpy as np

from sumopt.core.arrays import Coordinates
from sumopt.core.hessian import Hessian

OVERWHELMING = 1e6
"""A term so many times larger than what stays takes digits of it along when it leaves a sum."""


class RunningSums:
    """Sums over subfunctions of gradients at the centre and of Hessians, diagonal I + matrix.

    Attributes
    ----------
    diagonal, matrix : float, ndarray
        The sum of Hessians.
    stale : bool
        Whether what is left of the sums may be the rounding of what went.
    """

    def __init__(self, capacity: int) -> None:
        self.diagonal = 0.0
        self.matrix = np.zeros((capacity, capacity))
        self.stale = False
        self._centre = np.zeros(capacity)
        self._gradient = np.zeros(capacity)
        self._removed = 0.0, 0.0

    def add(self, position: Coordinates, gradient: Coordinates, hessian: Hessian, sign: float = 1.0) -> None:
        """Add the term of a subfunction measured at a position, or take it away."""
        at_centre = gradient + hessian @ (self._centre - position)
        self._gradient += sign * at_centre
        self.diagonal += sign * hessian.diagonal
        self.matrix += (sign * hessian.vectors.T * hessian.curvatures) @ hessian.vectors
        if sign < 0.0:
            largest = hessian.diagonal + float(hessian.curvatures.max(initial=0.0))
            self._removed = largest, float(np.linalg.norm(at_centre))

    def check(self, gradients: Coordinates) -> None:
        """Compare what went last with what stays: the Hessians, and the gradients, one a row."""
        curvature, gradient = self._removed
        scale = float(np.linalg.norm(gradients, axis=1).sum())
        self.stale |= curvature > OVERWHELMING * self.diagonal or gradient > OVERWHELMING * scale > 0.0

    def gradient_at(self, position: Coordinates) -> Coordinates:
        """Gradient of G at a position."""
        return self._gradient + self.times(position - self._centre)

    def times(self, vector: Coordinates) -> Coordinates:
        """H times a vector."""
        product: Coordinates = self.diagonal * vector + self.matrix @ vector
        return product

    def hessian(self, size: int) -> Coordinates:
        """H, over the dimensions in use, freshly made."""
        matrix = self.matrix[:size, :size].copy(order="F")
        matrix[np.diag_indices(size)] += self.diagonal
        return matrix

    def restart(
        self,
        centre: Coordinates,
        positions: Coordinates,
        gradients: Coordinates,
        diagonals: Coordinates,
        low_rank: tuple[Coordinates, Coordinates],
    ) -> None:
        """Add up afresh about a new centre, from the stacks of all subfunctions; `low_rank` is vectors, curvatures."""
        vectors, curvatures = low_rank
        away = centre - positions
        weights = curvatures * np.matmul(vectors, away[:, :, None])[:, :, 0]
        flat = vectors.reshape(-1, vectors.shape[2])
        self.matrix = (flat * curvatures.reshape(-1, 1)).T @ flat
        self.diagonal = float(diagonals.sum())
        self._centre = centre.copy()
        self._gradient = gradients.sum(axis=0) + diagonals @ away + np.tensordot(weights, vectors, axes=2)
        self.stale = False
