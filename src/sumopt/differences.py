"""A gradient compared with central differences along random directions, in one leaf or in all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas

from sumopt.structure import Structure, Vector

# Steps are these multiples of the cube root of the rounding error, where truncation and rounding balance; as soon as
# one agrees the others are not needed.
_MULTIPLES = (1.0, 1 / 8, 8.0, 1 / 64, 64.0, 1 / 512)
# Rounding errors of a value, in units of the last place. What they blur by more than a tenth is not judged.
_ROUNDING = 16.0
_BLURRED = 0.1
# Entries of a direction lie between these multiples of the typical size, away from zero, so that one wrong component
# shows, and unequal, so that two never cancel.
_ENTRIES = (0.5, 1.5)


class Answer(NamedTuple):
    """A value and a gradient in float64, and the relative rounding error of what they were."""

    value: float
    gradient: Vector
    epsilon: float


Evaluate = Callable[[Vector, int], Answer]


class Agreement(NamedTuple):
    """How a difference along a direction compares with what the gradient says."""

    error: float
    expected: float
    got: float


class Home(NamedTuple):
    """The value and the gradient in question, of one batch."""

    batch: int
    value: float
    gradient: Vector


class Shift(NamedTuple):
    """The value some way from home, how far along the direction that is, and the way itself, which rounding bends.

    Whole is a way of which rounding has left the most: along a small part of it a gradient may well be right.
    """

    value: float
    length: float
    way: Vector
    whole: bool


class Limits:
    """Evaluations and seconds that may be used, and whether they are."""

    def __init__(self, evaluations: int, seconds: float) -> None:
        self._most = evaluations
        self._end = perf_counter() + seconds
        self.evaluations = 0

    @property
    def reached(self) -> bool:
        """Whether it is time to stop."""
        return self.evaluations >= self._most or perf_counter() >= self._end


class Differences:
    """Compares at one point, with a tolerance and within limits.

    Parameters
    ----------
    evaluate : callable
        Value and gradient at a position, on a batch.
    here : ndarray
        The point.
    structure : Structure
        Where each leaf lies in it, and how it is rounded.
    tol : float, optional
        Relative error at which a comparison is settled; by default one that suits the precision.
    limits : Limits
        When to stop.
    rng : numpy.random.Generator
        Source of the directions.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        here: Vector,
        structure: Structure,
        *,
        tol: float | None,
        limits: Limits,
        rng: np.random.Generator,
    ) -> None:
        self._evaluate = evaluate
        self._here = here
        self._rounded = structure.rounded
        self._scales = _scales(here, structure)
        self._given_tol = tol
        self._limits = limits
        self._rng = rng
        # The coarsest of what takes part: a function of mixed precision is as good as that.
        self._epsilon = structure.epsilon

    @property
    def tol(self) -> float:
        """Relative error at which a comparison is settled."""
        if self._given_tol is not None:
            return self._given_tol
        # Twice the cube root of the rounding error, where truncation and rounding balance, to one digit.
        return float(f"{2 * self._epsilon ** (1 / 3):.0e}")

    def home(self, batch: int) -> tuple[Home, str | None]:
        """Value and gradient at the point itself, and a complaint if they are not finite, or not the same twice."""
        value, gradient, epsilon = self._at(self._here, batch)
        self._epsilon = max(self._epsilon, epsilon)
        home = Home(batch, value, gradient)
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            return home, f"on batch {batch} the value or the gradient is not finite there"
        with np.errstate(all="ignore"):
            steepest = float(np.abs(gradient) @ self._scales) * _ENTRIES[1]
        if not math.isfinite(steepest):
            return home, f"on batch {batch} the gradient times x overflows there"
        again, gradient_again, _ = self._at(self._here, batch)
        apart = _relative(value, again), _relative(gradient, gradient_again)
        if not max(apart) <= 1e3 * self._epsilon:
            return home, (
                f"fun is not deterministic: two calls at the same point on batch {batch} differ by {apart[0]:.1e} of "
                f"the value and {apart[1]:.1e} of the gradient (are random numbers drawn in it?)"
            )
        return home, None

    def compare(self, where: slice, home: Home, directions: int) -> Agreement:
        """Compare along some directions; the one with the median error stands for all."""
        found: list[Agreement] = []
        for _ in range(directions):
            if found and self._limits.reached:
                break
            direction = np.zeros(self._here.size)
            entries = self._rng.uniform(*_ENTRIES, where.stop - where.start)
            direction[where] = entries * self._rng.choice([-1.0, 1.0], len(entries))
            with np.errstate(all="ignore"):
                found.append(self._along(direction, home))
        return sorted(found)[(len(found) - 1) // 2]

    def _at(self, position: Vector, batch: int) -> Answer:
        """Value and gradient, counted."""
        self._limits.evaluations += 1
        return self._evaluate(position, batch)

    def _along(self, direction: Vector, home: Home) -> Agreement:
        """Relative error along a direction, in units of the scales, the difference, and what the gradient says."""
        batch, value, gradient = home
        slopes = gradient * self._scales
        typical, straight = float(blas.dnrm2(slopes * direction)), float(slopes @ direction)
        results: list[Agreement] = []
        kink: tuple[float, float] = (math.inf, math.inf)
        for multiple in _MULTIPLES:
            step = multiple * self._epsilon ** (1 / 3)
            ahead, behind = self._shifted(direction, step, batch), self._shifted(direction, -step, batch)
            if not (ahead.whole and behind.whole):
                continue
            length = ahead.length - behind.length
            expected = (ahead.value - behind.value) / length
            if not math.isfinite(expected):
                continue
            # Along the way that was really gone.
            got = float(slopes @ (ahead.way - behind.way)) / length
            size = max(abs(expected), typical)
            noise = _ROUNDING * self._epsilon * max(abs(ahead.value), abs(behind.value), abs(value)) / step
            if noise > _BLURRED * size and not abs(expected - got) <= self.tol * size:
                # Rounding may have done that. It makes no wrong gradient agree, though: agreement counts all the same.
                continue
            error = self._error(abs(expected - got), noise, size)
            results.append(Agreement(error, expected, got))
            sides = sorted([(ahead.value - value) / ahead.length, (behind.value - value) / behind.length])
            outside = max(sides[0] - got, got - sides[1], 0.0)
            # At a kink the gradient is one of many between the slopes of its sides; only the shortest step tells that.
            kink = min(kink, (step, self._error(outside, 2 * noise, size)))
            if error <= self.tol or self._limits.reached:
                break
        if not results:
            # Differences drown in rounding at every step: there is nothing to see, and nothing wrong to be seen.
            return Agreement(0.0, straight, straight)
        best = min(results)
        return best if best.error <= self.tol else best._replace(error=min(best.error, kink[1]))

    def _error(self, apart: float, noise: float, size: float) -> float:
        """A difference relative to the size; of one that is not allowed, what rounding does not explain."""
        if apart <= self.tol * size:
            return apart / size if size > 0.0 else 0.0
        return max(apart - noise, 0.0) / size if size > 0.0 else math.inf

    def _shifted(self, direction: Vector, step: float, batch: int) -> Shift:
        """The value a step away, and the step that was made, which every leaf rounds to its own precision."""
        moved = self._rounded((self._here + step * direction * self._scales).astype(self._here.dtype))
        way = (moved.astype(np.float64) - self._here) / self._scales
        made = float(way @ direction) / float(direction @ direction)
        return Shift(self._at(moved, batch).value, made, way, 0.5 < made / step < 2.0)


def _scales(here: Vector, structure: Structure) -> Vector:
    """How far to go in each component: the typical size in its leaf, or that of the other leaves where it is zero."""
    leaves = [where for where in structure.slices.values() if where.stop > where.start]
    sizes = [_size(here[where].astype(np.float64)) for where in leaves]
    positive = [size for size in sizes if size > 0.0]
    typical = float(np.median(positive)) if positive else 1.0
    scales = np.empty(here.size)
    for where, size in zip(leaves, sizes, strict=True):
        scales[where] = size or typical
    return scales


def _size(leaf: Vector) -> float:
    """The root of the mean square, free of overflow."""
    largest = float(np.max(np.abs(leaf)))
    with np.errstate(under="ignore"):
        return largest * float(np.sqrt(np.mean(np.square(leaf / largest)))) if largest > 0.0 else 0.0


def _relative(one: Any, other: Any) -> float:
    """Largest difference, relative to the size."""
    with np.errstate(all="ignore"):
        size = float(np.max(np.abs(one), initial=0.0))
        apart = float(np.max(np.abs(np.subtract(one, other)), initial=0.0))
    return apart / size if size > 0.0 else float(np.any(other))
