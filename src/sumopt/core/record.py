"""The best position: the last accepted one, unless the end of a pass was better beyond doubt.

F itself is never evaluated. What is compared are sums of the latest values of the same subfunctions.
"""

from __future__ import annotations

import math

from sumopt.core.arrays import Coordinates, Vector
from sumopt.core.surrogate import Surrogate


class Record:
    """The best end of a pass so far, with F there as it was estimated, and what F is hardly above."""

    def __init__(self, start: Vector) -> None:
        self._best, self._most = (start, math.nan), math.inf

    def forget(self) -> None:
        """Nothing is known to be best any more."""
        self._most = math.inf

    def best(self, here: Vector, surrogate: Surrogate) -> tuple[Vector, float]:
        """The best position and F there."""
        if surrogate.count == 0 or surrogate.total() > self._most:
            return self._best
        return here, surrogate.total()

    def keep(self, here: Vector, coordinates: Coordinates, surrogate: Surrogate) -> None:
        """At the end of a pass, remember a position that is as good as any before."""
        most = surrogate.most(coordinates)
        if most <= self._most:
            self._best, self._most = (here, surrogate.total()), most
