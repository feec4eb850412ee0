"""What a user may choose, with the paper's values as defaults, checked once (section 3 and appendix C)."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

from sumopt.core.departures import ALL, Departure
from sumopt.core.hessian import UPDATES
from sumopt.core.target import TARGETS

PAPERS_CURVATURE = 1e6
"""What the paper assumes of the first subfunction (appendix C.1)."""


@dataclass(frozen=True)
class Options:
    """Choices of the algorithm; every default is the paper's, but for the departures from it.

    Parameters
    ----------
    history : int
        Number of history terms kept for every subfunction (L in the paper).
    update : {"bfgs", "rank-one"}
        How a history becomes an approximate Hessian.
    target : {"distance", "random", "cyclic"}
        Which subfunction is evaluated next.
    initially_active : int
        Number of subfunctions that take part from the start. More than there are means all.
    noise : float
        One more subfunction becomes active when the mean gradient is shorter than this many of its standard errors
        (squared lengths are compared; alpha in the paper).
    smallest_ratio : float
        Eigenvalues of a subfunction's Hessian below this fraction of its largest count as no curvature (gamma in the
        paper).
    min_subspace, max_subspace : int, optional
        Directions kept when the shared subspace is collapsed, and the size beyond which it is. By default twice and
        three times the number of subfunctions.
    initial_curvature : float, optional
        Curvature assumed for the very first subfunction. By default such that the first step is short next to `x0`,
        whatever the units; the paper's is 1e6.
    variant : {"default", "paper"}
        The paper's algorithm with all departures from it, or with none.
    without : collection of int
        Departures from the paper that are not made, by their numbers in docs/departures.md.
    """

    history: int = 10
    update: str = "bfgs"
    target: str = "distance"
    initially_active: int = 2
    noise: float = 1.0
    smallest_ratio: float = 1e-8
    min_subspace: int | None = None
    max_subspace: int | None = None
    initial_curvature: float | None = None
    variant: str = "default"
    without: Collection[int] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot work, in sentences."""
        _whole("history", self.history, 1)
        _whole("initially_active", self.initially_active, 1)
        _one_of("update", self.update, UPDATES)
        _one_of("target", self.target, TARGETS)
        _number("noise", self.noise, 0.0, math.inf)
        _number("smallest_ratio", self.smallest_ratio, 0.0, 1.0)
        if self.initial_curvature is not None:
            _number("initial_curvature", self.initial_curvature, 0.0, math.inf)
        _one_of("variant", self.variant, ("default", "paper"))
        _departures("without", self.without)
        if self.min_subspace is not None:
            _whole("min_subspace", self.min_subspace, 2)
        if self.max_subspace is not None:
            _whole("max_subspace", self.max_subspace, 3)

    @property
    def departures(self) -> frozenset[Departure]:
        """The departures from the paper that are made."""
        return frozenset() if self.variant == "paper" else ALL - frozenset(map(Departure, self.without))

    @property
    def first_curvature(self) -> float | None:
        """The curvature assumed for the very first subfunction; None for one that suits the scale of the problem."""
        if self.initial_curvature is None and Departure.FIRST_CURVATURE not in self.departures:
            return PAPERS_CURVATURE
        return self.initial_curvature

    def subspace_sizes(self, n: int) -> tuple[int, int]:
        """K_min and K_max for `n` subfunctions (section 2.3)."""
        smallest = 2 * n if self.min_subspace is None else int(self.min_subspace)
        if self.max_subspace is None:
            return smallest, max(3 * n, smallest + n)
        largest = int(self.max_subspace)
        if self.min_subspace is None:
            smallest = min(smallest, 2 * largest // 3)
        if largest <= smallest:
            raise ValueError(f"max_subspace must be larger than min_subspace; got {largest} and {smallest}")
        return smallest, largest

    @classmethod
    def of(cls, choices: dict[str, Any]) -> Options:
        """Options from keyword arguments; an unknown one is a TypeError that names the nearest known one."""
        known = [field.name for field in fields(cls)]
        for name in choices:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(known)}"
                raise TypeError(f"unknown option {name!r}; {hint}")
        return cls(**choices)


def _whole(name: str, value: object, least: int) -> None:
    """Check that an option is an integer, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    if int(value) < least:
        raise ValueError(f"{name} must be at least {least}; got {value}")


def _departures(name: str, value: object) -> None:
    """Check that an option is a collection of numbers of departures."""
    if not isinstance(value, Collection) or isinstance(value, (str, bytes)):
        raise TypeError(f"{name} must be a collection of integers, like (14, 15); got {value!r}")
    for number in value:
        _whole(f"an entry of {name}", number, 1)
        if number > len(Departure):
            raise ValueError(f"an entry of {name} must be at most {len(Departure)}, the last departure; got {number}")


def _number(name: str, value: object, above: float, below: float) -> None:
    """Check that an option is a finite number strictly between two bounds."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number; got {value!r}")
    if not above < float(value) < below:
        wanted = f"above {above:g}" if math.isinf(below) else f"between {above:g} and {below:g}"
        raise ValueError(f"{name} must be a finite number {wanted}; got {value}")


def _one_of(name: str, value: object, known: Iterable[str]) -> None:
    """Check that an option is one of the names there are."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string; got {value!r}")
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}; got {value!r}")
