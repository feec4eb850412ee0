"""A Hessian from a history of steps and gradient changes (section 2.4, appendices C.1 and C.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lapack

from sumopt.core.arrays import Coordinates
from sumopt.core.history import VANISHING, Pairs

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


def secant_curvatures(pairs: Pairs) -> tuple[Coordinates, Coordinates]:
    """Eigenvalues of Q, the smallest matrix that obeys the squared secant equations (eq. Q), largest first.

    They are the singular values of D = changes pinv(steps), with steps and changes as columns: no product D^T D is
    formed, and so none of their range is lost. Second comes how much of each may be due to the errors of the changes.
    """
    axes, spans, directions = np.linalg.svd(pairs.steps.T, full_matrices=False)
    # Departure 10: along a direction that the steps span by no more than their rounding, they know nothing.
    blurs = np.linalg.norm(pairs.step_errors * directions, axis=1)
    known = spans > np.maximum(PARALLEL * spans[0], blurs)
    known[0] = True
    inverse = (directions[known].T / spans[known]) @ axes[:, known].T
    _, curvatures, vectors = np.linalg.svd(pairs.changes.T @ inverse, full_matrices=False)
    weights = inverse @ vectors.T
    return curvatures, np.linalg.norm(pairs.change_errors[:, None] * weights, axis=0)


def fit(pairs: Pairs, *, update: Update, smallest_ratio: float, factor: float = 1.0) -> Hessian:
    """The Hessian that a history, one pair a row and the oldest first, speaks for.

    The work is done in the span of the history. Beyond it the curvature is the initial one, beta, times a factor.
    """
    count, dimensions = pairs.steps.shape
    axes, history = np.linalg.qr(np.concatenate([pairs.steps, pairs.changes]).T)
    steps, changes = history[:, :count], history[:, count:]
    secants, zeros = secant_curvatures(replace(pairs, steps=steps.T, changes=changes.T))
    # Departure 10: a curvature of zero comes out as rounding, and would be the smallest that is not zero.
    nonzero = secants[secants > np.maximum(smallest_ratio * secants[0], zeros)]
    beta = factor * float(nonzero[-1] if len(nonzero) else secants[0])
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
