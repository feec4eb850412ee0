"""Which subfunctions take part, and when one more does (section 3.4, appendix C.4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sumopt.core.arrays import Coordinates
from sumopt.core.factor import Factor


class ActiveSet:
    """Subfunctions in the order in which they become active, of which the first `size` are.

    Attributes
    ----------
    order : ndarray
        Which subfunction stands where.
    due : ndarray
        Which places wait for an evaluation that is compared with nothing: their first, or that of a replacement.
    """

    def __init__(self, n: int, size: int, rng: np.random.Generator, *, noise: float, waits: bool) -> None:
        self.order = rng.permutation(n)
        self.due = np.ones(n, np.bool_)
        self.size = min(size, n)
        self._noise = noise
        self._waits = waits
        self._since_growth = 0

    def place_of(self, index: int) -> int:
        """Where a subfunction stands."""
        return int(np.flatnonzero(self.order == index)[0])

    def newcomer(self, measured: int) -> int | None:
        """The active place that was never measured, the first `measured` having been."""
        return measured if measured < self.size else None

    def replaced(self, measured_at: NDArray[np.intp], now: int) -> int | None:
        """Of the replaced ones, that which was measured longest ago; if others have had their turn meanwhile.

        Or else one that is replaced again and again would be the only one to be measured.
        """
        places = np.flatnonzero(self.due[: len(measured_at)])
        oldest = places[np.argmin(measured_at[places])] if len(places) else None
        return int(oldest) if oldest is not None and now - measured_at[oldest] >= len(measured_at) / 2 else None

    def grow(self, gradients: Coordinates, factor: Factor, *, failed: bool) -> None:
        """Perhaps let one more in: when gradients are noise, after a bad update or after a full pass (appendix C.4)."""
        self._since_growth += 1
        # Departure 13: the inequality asks for every active gradient, and one newcomer at a time is evaluated anyway.
        if self.size == len(self.order) or (self._waits and len(gradients) < self.size):
            return
        if failed or self._since_growth >= self.size or is_noisy(gradients, factor, self._noise):
            self.size += 1
            self._since_growth = 0


def is_noisy(gradients: Coordinates, factor: Factor, noise: float) -> bool:
    """Whether the mean gradient is lost in its standard error, in the metric of the inverse Hessian (appendix C.4)."""
    count = len(gradients)
    if count < 2:
        return False
    mean = float(factor.squared_lengths(gradients.mean(axis=0, keepdims=True))[0])
    error = float(factor.squared_lengths(gradients).sum()) / ((count - 1) * count)
    return mean < noise * error
