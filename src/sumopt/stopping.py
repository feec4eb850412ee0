"""When a run has converged: a test that compares like with like, whatever the scale and the offset of the problem.

No subfunction is ever compared with another one: they have different values, and are measured at different places. Each
is compared with itself, over a window of the latest evaluations that reaches back until every one was measured in it.
The window matters for the gradient as well. A Newton step goes where the gradient of G is zero, so what is left of it
at the next evaluation is the surprise in one subfunction; only when none of them surprises is the gradient of F small.

Steps that were rejected or cut short (eta below 1) are small for other reasons than convergence. So it is always the
full Newton step that is judged, whatever part of it was taken.
"""

from __future__ import annotations

import bisect
import math
from typing import NamedTuple

from sumopt.core import Info

# A window of fewer evaluations, as with one or two subfunctions, could be small by accident.
_SHORTEST_WINDOW = 5
# How many units of rounding the arithmetic of a subfunction may lose.
_ROUNDING = 8.0
# Gradients that are, after a window, below this fraction of what they were before are falling.
_FALLING = 0.9
# How many times steeper gradients may be here than on the way from the start.
_CURVED = 1e3


class Measured(NamedTuple):
    """The values of one subfunction, and the evaluations at which they were measured."""

    times: list[int]
    values: list[float]

    def before(self, time: int) -> float | None:
        """The latest value of before a time."""
        place = bisect.bisect_left(self.times, time)
        return self.values[place - 1] if place else None


class Change(NamedTuple):
    """How the values of all subfunctions changed, each compared with itself."""

    recent: float
    total: float
    rounding: float


class StoppingTest:
    """Watches a run, and says once a pass whether it has converged.

    Parameters
    ----------
    n : int
        Number of subfunctions.
    tol : float
        What is small: a descent beside the descent so far, a gradient beside those of the subfunctions.
    epsilon : float
        Relative rounding error of values, gradients and positions.
    """

    def __init__(self, n: int, tol: float, epsilon: float) -> None:
        self._n = n
        self._tol = tol
        self._epsilon = epsilon
        self._settled: list[Info] = []
        self._measured = [Measured([], []) for _ in range(n)]
        self._unmeasured = n
        self._at_start = 0.0
        self._first_scale = 0.0

    def observe(self, info: Info) -> None:
        """Take note of an evaluation that the optimizer has settled on; one that it rejected says nothing."""
        if info.outcome not in ("accepted", "retry") or not math.isfinite(info.value):
            return
        measured = self._measured[info.index]
        if self._unmeasured or len(self._settled) < self._n:
            # A run that exploded before it found its way has huge gradients in its first pass: the start bounds them.
            self._at_start = self._at_start or self._n * info.gradient_scale
            self._first_scale = min(self._at_start, max(self._first_scale, info.gradient_scale))
        self._unmeasured -= not measured.times
        measured.times.append(len(self._settled))
        measured.values.append(info.value)
        self._settled.append(info)

    def verdict(self, length: float, moved: float) -> str | None:
        """Why the run has converged, in words; None as long as it has not.

        `length` is that of x, and `moved` how far x is from the start.
        """
        if self._unmeasured or self._settled[-1].active < self._n:
            return None
        latest = len(self._settled)
        oldest = min(measured.times[-1] for measured in self._measured)
        start = min(oldest, latest - max(self._n, _SHORTEST_WINDOW))
        change = self._change(start)
        if change is None:
            return None
        window = self._settled[start:]
        if self._is_flat(window, change):
            return f"in the last pass the subfunctions changed by less than tol={self._tol:g} of their descent so far"
        if self._is_stationary(window):
            return f"the gradient is below tol={self._tol:g} of those of the subfunctions"
        if self._is_at_rest(window, length, moved):
            return "steps are below the rounding of x"
        return None

    def _change(self, start: int) -> Change | None:
        """How the values changed in the window, and since the first ones; None where one was not measured before it."""
        recent, total, size = [], [], []
        for measured in self._measured:
            before, now = measured.before(start), measured.values[-1]
            if before is None:
                return None
            recent.append(before - now)
            total.append(measured.values[0] - now)
            size.append(max(abs(before), abs(now)))
        return Change(math.fsum(recent), math.fsum(total), _ROUNDING * self._epsilon * math.fsum(size))

    def _is_flat(self, window: list[Info], change: Change) -> bool:
        """Whether the values have stopped changing, and the models foresee no more, with a gradient to match.

        The values alone could stand still by accident, or because steps are short. The models alone could be too steep.
        A descent of `tol` is a gradient of its square root. And while the subfunctions' gradients are falling together,
        the descent goes on: what looks small next to the whole of it may be all that matters.
        """
        # The gradient of a single function has nothing to be small beside, but what it was.
        alone = self._n == 1
        scale = self._first_scale if alone else window[-1].gradient_scale
        small = self._tol * max(change.total, 0.0) + change.rounding
        foreseen = _sum([full_gain(info) for info in window])
        return (
            math.isfinite(small)
            and abs(change.recent) <= small
            and foreseen <= small
            and (alone or not _is_falling(window))
            and _left(window) <= math.sqrt(self._tol) * scale
        )

    def _is_stationary(self, window: list[Info]) -> bool:
        """Whether the gradients of G in a window, which add up to that of F, are small beside the subfunctions'."""
        scale = window[-1].gradient_scale
        return math.isfinite(scale) and _left(window) <= max(self._tol, _ROUNDING * self._epsilon) * scale

    def _is_at_rest(self, window: list[Info], length: float, moved: float) -> bool:
        """Whether full Newton steps are too short to be told from rounding.

        This is what is left where all subfunctions reach zero together, so that everything else is rounding as well.
        The gradient that is left must not belie it: from the start it changed in proportion to the way, more or less.
        """
        short = 2 * self._epsilon * length
        return _left(window) * moved <= _CURVED * short * self._first_scale and all(
            info.step_length <= short * info.eta for info in window
        )


def _is_falling(window: list[Info]) -> bool:
    """Whether the subfunctions' gradients vanish together, and are still at it."""
    return window[-1].gradient_scale <= _FALLING * window[0].gradient_scale


def _left(window: list[Info]) -> float:
    """The gradients of G in a window, added up."""
    return math.fsum(info.gradient_norm for info in window)


def _sum(gains: list[float]) -> float:
    """A sum; of what has none that can be represented, nan, which is not small."""
    try:
        return math.fsum(gains)
    except (OverflowError, ValueError):
        return math.nan


def full_gain(info: Info) -> float:
    """Descent of F that the models foresee for a full Newton step: of a fraction eta it is eta (2 - eta) times that."""
    return info.predicted_gain / (info.eta * (2.0 - info.eta)) if info.eta > 0.0 else math.inf
