"""The best position: the last accepted one, unless the end of a pass was better beyond doubt.

F itself is never evaluated. What is compared are sums of the latest values of the same subfunctions.
"""

from __future__ import annotations

import math

from sumopt.core.arrays import Vector
from sumopt.core.surrogate import Surrogate
from sumopt.core.trial import Place


class Record:
    """The best end of a pass so far, with F there as it was estimated, and what F is hardly above."""

    def __init__(self, start: Place) -> None:
        self.place = start
        self._fun, self._most = math.nan, math.inf

    def forget(self) -> None:
        """Nothing is known to be best any more."""
        self._most = math.inf

    def best(self, here: Place, surrogate: Surrogate) -> tuple[Vector, float]:
        """The best position and F there."""
        if surrogate.count == 0 or self.is_better(surrogate):
            return self.place.vector, self._fun
        return here.vector, surrogate.total()

    def is_better(self, surrogate: Surrogate) -> bool:
        """Whether F is larger by now, beyond doubt."""
        return surrogate.total() > self._most

    def keep(self, here: Place, surrogate: Surrogate) -> None:
        """At the end of a pass, remember a position that is as good as any before."""
        most = surrogate.most(here.coordinates)
        if most <= self._most:
            self.place, self._fun, self._most = here, surrogate.total(), most
