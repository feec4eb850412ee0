"""Differences between successive evaluations of each subfunction: steps and changes of gradient (section 2.4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sumopt.core.arrays import Coordinates
from sumopt.core.subspace import rotate

VANISHING = 1e-12
"""Inner products below this fraction of the lengths are rounding."""

LEFT = 0.75
"""A step or a change of which collapses have left less than this, in square, no longer goes with the other."""


@dataclass(frozen=True)
class Pairs:
    """Steps and changes of gradient of one subfunction, one a row, and how much of each may be rounding."""

    steps: Coordinates
    changes: Coordinates
    step_errors: Coordinates
    change_errors: Coordinates


class History:
    """Pairs of a step and a change of gradient, up to `length` for each of `n` subfunctions, the oldest first."""

    def __init__(self, n: int, length: int, capacity: int, left: float = LEFT) -> None:
        self._left = left
        self._steps = np.zeros((n, length, capacity))
        self._changes = np.zeros((n, length, capacity))
        self._errors = np.zeros((n, length, 2))
        self._whole = np.zeros((n, length, 2))
        self._counts = np.zeros(n, np.intp)

    def of(self, i: int, size: int) -> Pairs:
        """What there is of one subfunction in the dimensions in use, but for pairs that a collapse has spoilt."""
        count = self._counts[i]
        steps, changes = self._steps[i, :count, :size], self._changes[i, :count, :size]
        good = speaks(steps, changes)
        return Pairs(steps[good], changes[good], *self._errors[i, :count][good].T)

    def append(self, i: int, step: Coordinates, change: Coordinates, errors: tuple[float, float]) -> None:
        """Add the newest pair of a subfunction, dropping the oldest of a full history."""
        count = self._counts[i]
        if count == self._steps.shape[1]:
            for stack in (self._steps, self._changes, self._errors, self._whole):
                stack[i, :-1] = stack[i, 1:]
            count -= 1
        self._steps[i, count] = step
        self._changes[i, count] = change
        self._errors[i, count] = errors
        self._whole[i, count] = np.linalg.norm(step), np.linalg.norm(change)
        self._counts[i] = count + 1

    def forget(self, i: int) -> None:
        """Drop all pairs of a subfunction."""
        self._counts[i] = 0
        self._steps[i] = self._changes[i] = 0.0

    def longest_steps(self) -> Coordinates:
        """The longest step of every subfunction's history."""
        longest: Coordinates = np.linalg.norm(self._steps, axis=-1).max(axis=1)
        return longest

    def directions(self) -> Iterator[Coordinates]:
        """Every change and step, those of the fullest histories' latest pairs first."""
        for place in reversed(range(self._steps.shape[1])):
            for change, step in zip(self._changes[:, place], self._steps[:, place], strict=True):
                yield from (change, step)

    def rotate(self, rotation: Coordinates) -> None:
        """Take everything to a collapsed subspace, but for pairs that would be untrue there."""
        lengths = []
        for stack in (self._steps, self._changes):
            rotate(stack, rotation)
            lengths.append(np.linalg.norm(stack, axis=-1))
        # Departure 12: what is left of a step did not cause what is left of the change, and gives no true curvature.
        spoilt = (np.stack(lengths, axis=-1) < np.sqrt(self._left) * self._whole).any(axis=-1)
        self._steps[spoilt] = self._changes[spoilt] = 0.0


def speaks(steps: Coordinates, changes: Coordinates, resolution: float = 0.0) -> NDArray[np.bool_]:
    """Which pairs, one a row, say anything beyond rounding about the curvature along their steps.

    The step must have a part along the change of gradient that is longer than the `resolution` of positions.
    """
    lengths = np.linalg.norm(steps, axis=-1)
    products = np.abs(np.einsum("...i,...i->...", steps, changes))
    shortest = np.maximum(VANISHING * lengths, resolution)
    good: NDArray[np.bool_] = (lengths > 0.0) & (products > shortest * np.linalg.norm(changes, axis=-1))
    return good
