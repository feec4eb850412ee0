"""Whether a step was bad, and how long the next one may be (section 3.5, appendix C.5)."""

from __future__ import annotations

from collections import deque

FADED = 1e3
"""Gradients that are so few times the rounding of what they were at their largest may be nothing else."""


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


class Stride:
    """How long a step may be where gradients have become rounding: not much longer than those of the last pass."""

    def __init__(self, n: int, epsilon: float) -> None:
        self._latest: deque[float] = deque(maxlen=n)
        self._faded = FADED * epsilon
        self._largest = 0.0

    def forget(self) -> None:
        """Gradients may be of another size from now on."""
        self._largest = 0.0

    def shortening(self, length: float, gradient_scale: float) -> float:
        """The factor by which a step is to be shortened, where the subfunctions' gradients are of such a size."""
        self._largest = max(self._largest, gradient_scale)
        longest, n = max(self._latest, default=0.0), self._latest.maxlen or 1
        allowed = (1.0 + 1.0 / n) * longest
        faded = gradient_scale <= self._faded * self._largest and len(self._latest) == n
        factor = allowed / length if faded and 0.0 < allowed < length else 1.0
        self._latest.append(factor * length)
        return factor
