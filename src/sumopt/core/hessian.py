"""A Hessian from a history of steps and gradient changes (section 2.4, appendices C.1 and C.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from sumopt.core.arrays import Coordinates
from sumopt.core.history import VANISHING

Update = Callable[[Coordinates, Coordinates, Coordinates], Coordinates | None]
"""From a Hessian, a step and a change of gradient to a better Hessian, or None where the pair says nothing."""

PARALLEL = float(np.sqrt(np.finfo(np.float64).eps))
"""Steps that span a direction by less than this part of the longest do not say what the curvature along it is."""


@dataclass(frozen=True)
class Hessian:
    """diagonal I + V^T diag(curvatures) V, with orthonormal rows V in the shared subspace."""

    diagonal: float
    vectors: Coordinates
    curvatures: Coordinates

    def __matmul__(self, vector: Coordinates) -> Coordinates:
        """Product with a vector, or with each column of a matrix."""
        return self.diagonal * vector + self.vectors.T @ (self.curvatures * (self.vectors @ vector).T).T


def bfgs(hessian: Coordinates, step: Coordinates, change: Coordinates) -> Coordinates | None:
    """The BFGS update (eq. bfgs); negative curvature passes, to be mended at the end of the history."""
    along = hessian @ step
    curvature = step @ along
    if abs(curvature) <= VANISHING * np.linalg.norm(step) * np.linalg.norm(along):
        return None
    gained: Coordinates = np.outer(change, change / (change @ step)) - np.outer(along, along / curvature)
    return hessian + gained


def rank_one(hessian: Coordinates, step: Coordinates, change: Coordinates) -> Coordinates | None:
    """The symmetric rank-one update (figure C.1)."""
    missing = change - hessian @ step
    curvature = missing @ step
    if abs(curvature) <= 1e-8 * np.linalg.norm(missing) * np.linalg.norm(step):
        return None
    gained: Coordinates = np.outer(missing, missing / curvature)
    return hessian + gained


UPDATES: dict[str, Update] = {"bfgs": bfgs, "rank-one": rank_one}


def secant_curvatures(steps: Coordinates, changes: Coordinates, errors: Coordinates) -> tuple[Coordinates, float]:
    """Eigenvalues of Q, the smallest matrix that obeys the squared secant equations (eq. Q), largest first.

    They are the singular values of D = changes pinv(steps), with steps and changes as columns: no product D^T D is
    formed, and so none of their range is lost. Second comes what errors of the changes can make of a zero.
    """
    axes, spans, directions = np.linalg.svd(steps, full_matrices=False)
    known = spans > PARALLEL * spans[0]
    inverse = (directions[known].T / spans[known]) @ axes[:, known].T
    curvatures: Coordinates = np.linalg.svd(changes @ inverse, compute_uv=False)
    return curvatures, float(np.linalg.norm(errors * np.linalg.norm(inverse, axis=1)))


def fit(
    steps: Coordinates,
    changes: Coordinates,
    errors: Coordinates,
    *,
    update: Update,
    smallest_ratio: float,
) -> Hessian:
    """The Hessian that a history, one pair a row and the oldest first, speaks for.

    The work is done in the span of the history. Beyond it the curvature is the initial one, beta. `errors` says how
    much of each change may be rounding.
    """
    count, dimensions = steps.shape
    axes, history = np.linalg.qr(np.concatenate([steps, changes]).T)
    steps, changes = history[:, :count], history[:, count:]
    secants, zero = secant_curvatures(steps, changes, errors)
    # Departure 10: a curvature of zero comes out as rounding, and would be the smallest that is not zero.
    nonzero = secants[secants > max(smallest_ratio * secants[0], zero)]
    beta = nonzero[-1] if len(nonzero) else secants[0]
    hessian = np.diag(np.full(len(history), beta))
    for pair in range(count):
        updated = update(hessian, steps[:, pair], changes[:, pair])
        hessian = hessian if updated is None else updated
    eigenvalues, vectors, _ = lapack.dsyevd(hessian)
    outside = dimensions - len(history)
    eigenvalues, beta = enforce_positive(eigenvalues, beta, outside, smallest_ratio, secants[0])
    return Hessian(float(beta), (axes @ vectors).T, eigenvalues - beta)


def enforce_positive(
    eigenvalues: Coordinates, beta: float, outside: int, smallest_ratio: float, otherwise: float
) -> tuple[Coordinates, float]:
    """Set eigenvalues that are too small to the median positive one (appendix C.2), `outside` of them being beta."""
    largest = max(eigenvalues[-1], beta) if outside else eigenvalues[-1]
    threshold = smallest_ratio * max(largest, 0.0)
    if eigenvalues[0] >= threshold > 0.0 and beta >= threshold:
        return eigenvalues, beta
    everywhere = np.concatenate([eigenvalues, np.full(outside, beta)])
    positive = everywhere[everywhere > 0.0]
    median = float(np.median(positive)) if len(positive) else otherwise
    too_small = (eigenvalues < threshold) | (eigenvalues <= 0.0)
    return np.where(too_small, median, eigenvalues), beta if beta >= threshold else median
