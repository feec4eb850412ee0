"""Differences between successive evaluations of each subfunction: steps and changes of gradient (section 2.4.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sumopt.core.arrays import Coordinates
from sumopt.core.subspace import rotate

VANISHING = 1e-12
"""Inner products below this fraction of the lengths are rounding."""

LOST = 0.5
"""A step or a change of which a collapse cuts off more than this fraction no longer goes with the other."""


class History:
    """Pairs of a step and a change of gradient, up to `length` for each of `n` subfunctions, the oldest first."""

    def __init__(self, n: int, length: int, capacity: int) -> None:
        self._steps = np.zeros((n, length, capacity))
        self._changes = np.zeros((n, length, capacity))
        self._errors = np.zeros((n, length))
        self._counts = np.zeros(n, np.intp)

    def of(self, i: int) -> tuple[Coordinates, Coordinates, Coordinates]:
        """Steps and changes of one subfunction, one a row, but for those that a collapse has spoilt.

        And how much of each change may be rounding.
        """
        count = self._counts[i]
        steps, changes = self._steps[i, :count], self._changes[i, :count]
        good = speaks(steps, changes)
        return steps[good], changes[good], self._errors[i, :count][good]

    def append(self, i: int, step: Coordinates, change: Coordinates, error: float) -> None:
        """Add the newest pair of a subfunction, dropping the oldest of a full history."""
        count = self._counts[i]
        if count == self._steps.shape[1]:
            for stack in (self._steps, self._changes, self._errors):
                stack[i, :-1] = stack[i, 1:]
            count -= 1
        self._steps[i, count] = step
        self._changes[i, count] = change
        self._errors[i, count] = error
        self._counts[i] = count + 1

    def forget(self, i: int) -> None:
        """Drop all pairs of a subfunction."""
        self._counts[i] = 0
        self._steps[i] = self._changes[i] = 0.0

    def directions(self) -> Coordinates:
        """Every step and change, those of the fullest histories' latest pairs first."""
        pairs = np.stack([self._changes, self._steps], axis=2)[:, ::-1].swapaxes(0, 1)
        return pairs.reshape(-1, pairs.shape[-1])

    def rotate(self, rotation: Coordinates) -> None:
        """Take everything to a collapsed subspace, but for pairs that would be untrue there."""
        # Departure 12: what is left of a step did not cause what is left of the change, and gives no true curvature.
        spoilt = _rotate_most(self._steps, rotation) | _rotate_most(self._changes, rotation)
        self._steps[spoilt] = self._changes[spoilt] = 0.0


def _rotate_most(stack: Coordinates, rotation: Coordinates) -> NDArray[np.bool_]:
    """Take vectors to a collapsed subspace, in place; which of them lost more than a part of their length."""
    before = np.linalg.norm(stack, axis=-1)
    rotate(stack, rotation)
    lost: NDArray[np.bool_] = np.linalg.norm(stack, axis=-1) < np.sqrt(1.0 - LOST**2) * before
    return lost


def speaks(steps: Coordinates, changes: Coordinates, resolution: float = 0.0) -> NDArray[np.bool_]:
    """Which pairs, one a row, say anything beyond rounding about the curvature along their steps.

    The step must have a part along the change of gradient that is longer than the `resolution` of positions.
    """
    lengths = np.linalg.norm(steps, axis=-1)
    products = np.abs(np.einsum("...i,...i->...", steps, changes))
    shortest = np.maximum(VANISHING * lengths, resolution)
    good: NDArray[np.bool_] = (lengths > 0.0) & (products > shortest * np.linalg.norm(changes, axis=-1))
    return good
