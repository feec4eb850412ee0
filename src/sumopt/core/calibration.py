"""What evaluations say about the models: curvatures that had to be assumed, and whose Hessian foresees gradients."""

from __future__ import annotations

import numpy as np

from sumopt.core.arrays import Coordinates
from sumopt.core.hessian import Hessian

SHORTEST = 5
"""Means are over about the latest `n` observations, or over so many where there are few subfunctions."""

DISTINCT = 0.01
"""A curvature that differs by this fraction from the assumed one is another one."""

LEAST = 0.01
"""Assumptions are corrected by no more than this factor."""


class Calibration:
    """The mean ratio of curvatures found to curvatures assumed, over about the latest `n` of them.

    It starts at one. An observation counts by the part that what was assumed had in the whole curvature of the step.
    """

    def __init__(self, n: int) -> None:
        self._kept = 1.0 - 1.0 / max(n, SHORTEST)
        self._found = self._weight = 1.0

    @property
    def ratio(self) -> float:
        """What an assumed curvature is to be multiplied by to be right on average; never above one."""
        return max(self._found / self._weight, LEAST)

    def observe(self, hessian: Hessian, step: Coordinates, change: Coordinates, assumed: float) -> None:
        """Take note of a step, and of the change of gradient in the directions where curvature was assumed."""
        if not (assumed > 0.0 and hessian.diagonal > 0.0):
            return
        # Where the curvature is the assumed one after all, a direction was put into the history by rounding alone.
        explored = np.minimum(np.abs(hessian.curvatures) / (DISTINCT * hessian.diagonal), 1.0)
        beyond = step - hessian.vectors.T @ (explored * (hessian.vectors @ step))
        squared = float(beyond @ beyond)
        whole = float(step @ (hessian @ step))
        if not (squared > 0.0 and whole > 0.0):
            return
        found = float(beyond @ change) / (assumed * squared)
        weight = min(hessian.diagonal * squared / whole, 1.0)
        self._found = self._kept * self._found + weight * min(max(found, 0.0), 1.0)
        self._weight = self._kept * self._weight + weight


class Skill:
    """Whose Hessian foresees changes of gradient: each subfunction's own, or the mean of all.

    The weight of its own in the best mixture of both, by least squares over about the latest `n` changes.
    """

    def __init__(self, n: int) -> None:
        self._kept = 1.0 - 1.0 / max(n, SHORTEST)
        # Little enough to be outweighed by a change or two, and enough not to be lost in rounding.
        self._agreement = self._difference = 0.01

    @property
    def weight(self) -> float:
        """From zero, for the mean Hessian, to one, for a subfunction's own."""
        return min(max(self._agreement / self._difference, 0.0), 1.0)

    def observe(self, change: Coordinates, own: Coordinates, mean: Coordinates) -> None:
        """Take note of a change of gradient, and of what both Hessians had foreseen."""
        # Relative to all three, so that one prediction that was far off does not drown the others.
        size, apart = float(change @ change + own @ own + mean @ mean), own - mean
        if size > 0.0:
            self._agreement = self._kept * self._agreement + float((change - mean) @ apart) / size
            self._difference = self._kept * self._difference + float(apart @ apart) / size
