"""A gradient compared with central differences along random directions, in one leaf or in all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from sumopt.structure import Vector

Evaluate = Callable[[Vector, int], tuple[float, Vector]]

# Steps are these multiples of the cube root of the rounding error, where truncation and rounding balance; as soon as
# one agrees the others are not needed.
_MULTIPLES = (1.0, 1 / 8, 8.0, 1 / 64, 64.0, 1 / 512)
# Rounding errors of a value, in units of the last place. What they blur by more than a tenth is not judged.
_ROUNDING = 16.0
_BLURRED = 0.1


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
    leaves : mapping
        Where each leaf lies in it.
    tol : float
        Relative error at which a comparison is settled.
    limits : Limits
        When to stop.
    rng : numpy.random.Generator
        Source of the directions.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        here: Vector,
        leaves: Mapping[str, slice],
        *,
        tol: float,
        limits: Limits,
        rng: np.random.Generator,
    ) -> None:
        self._evaluate = evaluate
        self._here = here
        self._scales = _scales(here, leaves)
        self._tol = tol
        self._limits = limits
        self._rng = rng
        self._epsilon = float(np.finfo(here.dtype).eps)

    def home(self, batch: int) -> tuple[Home, str | None]:
        """Value and gradient at the point itself, and a complaint if they are not finite, or not the same twice."""
        value, gradient = self._at(self._here, batch)
        home = Home(batch, value, gradient)
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            return home, f"on batch {batch} the value or the gradient is not finite there"
        again, gradient_again = self._at(self._here, batch)
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
            # Entries away from zero, so that one wrong component shows; unequal ones, so that two never cancel.
            entries = self._rng.uniform(0.5, 1.5, where.stop - where.start)
            direction[where] = entries * self._rng.choice([-1.0, 1.0], len(entries)) * self._scales[where]
            found.append(self._along(direction, home))
        return sorted(found)[(len(found) - 1) // 2]

    def _at(self, position: Vector, batch: int) -> tuple[float, Vector]:
        """Value and gradient, counted."""
        self._limits.evaluations += 1
        return self._evaluate(position, batch)

    def _along(self, direction: Vector, home: Home) -> Agreement:
        """Relative error along one direction, the difference, and what the gradient says."""
        batch, value, gradient = home
        got = float(gradient @ direction)
        typical = float(np.linalg.norm(gradient * direction))
        results: list[Agreement] = []
        kink: tuple[float, float] = (math.inf, math.inf)
        for multiple in _MULTIPLES:
            step = multiple * self._epsilon ** (1 / 3)
            ahead, behind = self._shifted(direction, step, batch), self._shifted(direction, -step, batch)
            if not (math.isfinite(ahead[0]) and math.isfinite(behind[0])):
                continue
            expected = (ahead[0] - behind[0]) / (ahead[1] - behind[1])
            size = max(abs(expected), typical)
            noise = _ROUNDING * self._epsilon * max(abs(ahead[0]), abs(behind[0]), abs(value)) / step
            if noise > _BLURRED * size:
                continue
            error = self._error(abs(expected - got), noise, size)
            results.append(Agreement(error, expected, got))
            slopes = sorted([(ahead[0] - value) / ahead[1], (behind[0] - value) / behind[1]])
            outside = max(slopes[0] - got, got - slopes[1], 0.0)
            # At a kink the gradient is one of many between the slopes of its sides; only the shortest step tells that.
            kink = min(kink, (step, self._error(outside, 2 * noise, size)))
            if error <= self._tol or self._limits.reached:
                break
        if not results:
            # Differences drown in rounding at every step: there is nothing to see, and nothing wrong to be seen.
            return Agreement(0.0, got, got)
        best = min(results)
        return best if best.error <= self._tol else best._replace(error=min(best.error, kink[1]))

    def _error(self, apart: float, noise: float, size: float) -> float:
        """A difference relative to the size; of one that is not allowed, what rounding does not explain."""
        if apart <= self._tol * size:
            return apart / size if size > 0.0 else 0.0
        return max(apart - noise, 0.0) / size if size > 0.0 else math.inf

    def _shifted(self, direction: Vector, step: float, batch: int) -> tuple[float, float]:
        """The value a step away, and the length of the step that was made, which rounding to the dtype changes."""
        moved = (self._here + step * direction).astype(self._here.dtype)
        value, _ = self._at(moved, batch)
        made = float((moved.astype(np.float64) - self._here) @ direction) / float(direction @ direction)
        return value, made if made else step


def _scales(here: Vector, leaves: Mapping[str, slice]) -> Vector:
    """How far to go in each component: the typical size in its leaf, or that of the other leaves where it is zero."""
    sizes = {leaf: float(np.sqrt(np.mean(np.square(here[where], dtype=np.float64)))) for leaf, where in leaves.items()}
    positive = [size for size in sizes.values() if size > 0.0]
    typical = float(np.median(positive)) if positive else 1.0
    scales = np.empty(here.size)
    for leaf, where in leaves.items():
        scales[where] = sizes[leaf] or typical
    return scales


def _relative(one: Any, other: Any) -> float:
    """Largest difference, relative to the size."""
    size = float(np.max(np.abs(one), initial=0.0))
    return float(np.max(np.abs(np.subtract(one, other)), initial=0.0)) / size if size > 0.0 else float(np.any(other))
