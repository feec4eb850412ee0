"""Whether a step was bad, and how long the next one may be (section 3.5, appendix C.5)."""

from __future__ import annotations


def is_bad(value: float, previous: float, predicted: float, gain: float, rounding: float) -> bool:
    """The value rose, and is above its model by more than all models together should have gained (appendix C.5)."""
    # Departure 4: what the values' own rounding can explain is not held against a step.
    slack = rounding * max(abs(value), abs(previous))
    return value > previous + slack and value - predicted > gain + slack


def lengthened(eta: float, n: int) -> float:
    """Step length after a success (eq. eta update)."""
    return 1.0 / n + (n - 1.0) / n * eta


def shortened(eta: float) -> float:
    """Step length after a failure (eq. eta update)."""
    return 0.5 * eta
