"""The best position: the last accepted one, unless the end of a pass was better beyond doubt.

F itself is never evaluated. What is compared are sums of the latest values of the same subfunctions.
"""

from __future__ import annotations

import math

from sumopt.core.arrays import Vector
from sumopt.core.surrogate import Surrogate
from sumopt.core.trial import Place

GROSS = 0.01
"""A rise of more than this part of the descent so far is no matter of which values are of which places."""


class Record:
    """The best end of a pass so far, with F there as it was estimated, and what F is hardly above."""

    def __init__(self, start: Place) -> None:
        self.place = start
        self._fun, self._most, self._returns = math.nan, math.inf, 0

    def forget(self) -> None:
        """Nothing is known to be best any more."""
        self._most = math.inf

    def best(self, here: Place, surrogate: Surrogate) -> tuple[Vector, float]:
        """The best position and F there."""
        if surrogate.count == 0 or surrogate.total() > self._most:
            return self.place.vector, self._fun
        return here.vector, surrogate.total()

    def keep(self, here: Place, surrogate: Surrogate) -> None:
        """At the end of a pass, remember a position that is as good as any before."""
        most = surrogate.most(here.coordinates)
        if most <= self._most:
            self.place, self._fun, self._most, self._returns = here, surrogate.total(), most, 0

    def is_better(self, here: Place, surrogate: Surrogate) -> bool:
        """Whether F is larger here, whatever values of other places may say, or a good part of the descent is lost."""
        if here is self.place or not surrogate.total() > self._most:
            return False
        descent = float(surrogate.first_values.sum()) - self._fun
        return surrogate.total() - self._most > GROSS * descent or surrogate.least(here.coordinates) > self._most

    def returned(self) -> float:
        """Note a return to the best position; what eta may be after it, which is halved with every return."""
        self._returns += 1
        return 0.5**self._returns
