"""Whether a step was bad, and what to do then (section 3.5, appendix B.5)."""

from __future__ import annotations

from dataclasses import dataclass

from sumopt.core.arrays import Coordinates, Vector


@dataclass(frozen=True)
class Place:
    """A point: its coordinates, and the vector that they stand for."""

    coordinates: Coordinates
    vector: Vector


@dataclass(frozen=True)
class Observation:
    """What was measured of a subfunction, and where."""

    place: Place
    value: float
    gradient: Coordinates


@dataclass(frozen=True)
class Trial:
    """A bad step being resolved: the subfunction in question is evaluated at `points`, one after the other.

    With a `suspect` observation there is one point, the last position, and the step was bad if the suspect value is
    above the one there by more than is `allowed`. Without, a value was not finite, and the first point with a finite
    one ends the trial.
    """

    index: int
    points: tuple[Coordinates, ...]
    suspect: Observation | None = None
    allowed: float = 0.0


def is_bad(value: float, previous: float, predicted: float, gain: float, rounding: float) -> bool:
    """The value rose, and is above its model by more than all models together should have gained (appendix B.5)."""
    # Departure 5: what the values' own rounding can explain is not held against a step.
    slack = rounding * max(abs(value), abs(previous))
    return value > previous + slack and value - predicted > gain + slack


def lengthened(eta: float, n: int) -> float:
    """Step length after a success (eq. eta update)."""
    return 1.0 / n + (n - 1.0) / n * eta


def shortened(eta: float) -> float:
    """Step length after a failure (eq. eta update)."""
    return 0.5 * eta


def retreat(here: Coordinates, home: Coordinates, last: Coordinates | None) -> tuple[Coordinates, ...]:
    """Points from a value that was not finite to the last position, and on to where this subfunction was finite."""
    points = [home + (here - home) * fraction for fraction in (1 / 4, 1 / 16, 1 / 64, 0.0)]
    if last is not None:
        points += [last + (home - last) * fraction for fraction in (1 / 4, 1 / 16, 1 / 64, 1 / 256)]
    distinct: list[Coordinates] = []
    for point in points:
        if not any((point == other).all() for other in [here, *distinct]):
            distinct.append(point)
    return tuple(distinct)
