"""Which subfunction to evaluate next (section 3.3, appendix C.3).

A rule sees the models of the active subfunctions, in the order in which they became active, and picks one of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sumopt.core.arrays import Coordinates
from sumopt.core.surrogate import Surrogate

Target = Callable[[Surrogate, Coordinates, np.random.Generator], int]


def farthest(surrogate: Surrogate, position: Coordinates, rng: np.random.Generator) -> int:
    """The one last evaluated farthest away, in its own Hessian or in the full one with even odds (eq. subf choose)."""
    away = position - surrogate.positions[: surrogate.count]
    squared = surrogate.own_distances(away) if rng.random() < 0.5 else surrogate.full_distances(away)
    # What has overflowed is far away.
    squared[np.isnan(squared)] = np.inf
    equally_far = np.flatnonzero(squared == squared.max())
    return int(equally_far[np.argmin(surrogate.measured_at[equally_far])])


def at_random(surrogate: Surrogate, _position: Coordinates, rng: np.random.Generator) -> int:
    """Any of them."""
    return int(rng.integers(surrogate.count))


def cyclic(surrogate: Surrogate, _position: Coordinates, _rng: np.random.Generator) -> int:
    """The one whose last evaluation is the oldest."""
    return int(np.argmin(surrogate.measured_at[: surrogate.count]))


TARGETS: dict[str, Target] = {"distance": farthest, "random": at_random, "cyclic": cyclic}
