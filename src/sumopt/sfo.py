"""The optimizer driven by hand: ask what to evaluate, tell what it was, in the user's own structure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from scipy.linalg import blas

from sumopt.checks import (
    MOST_SUBFUNCTIONS,
    Seed,
    check_names,
    checked_count,
    checked_index,
    checked_switch,
    generator,
    scalar,
)
from sumopt.core import Info, Optimizer, Options
from sumopt.core import Query as CoreQuery
from sumopt.structure import Structure, Vector


class SFOOptions(TypedDict, total=False):
    """Options of the algorithm, as keyword arguments; what they mean is said in the documentation of `SFO`."""

    history: int
    update: Literal["bfgs", "rank-one"]
    target: Literal["distance", "random", "cyclic"]
    initially_active: int
    noise: float
    smallest_ratio: float
    min_subspace: int | None
    max_subspace: int | None
    initial_curvature: float | None
    variant: Literal["default", "paper"]
    without: Collection[int]


@dataclass(frozen=True)
class Query(CoreQuery):
    """What the optimizer wants to know next: the value and the gradient of one subfunction at one position.

    Attributes
    ----------
    ticket : int
        Number of the query, by which the optimizer knows the answer.
    index : int
        The subfunction, from 0 to n - 1.
    position : pytree
        Where, in the structure of `x0`; it is yours, and may be edited.
    """

    position: Any


class SFO:
    """The Sum of Functions Optimizer, driven by hand.

    It minimizes F(x) = sum of f_i(x) over i = 0 .. n - 1, looking at one f_i at a time. It never calls a function of
    yours: `ask` says which f_i it wants to know where, `tell` takes the answer.

    Parameters
    ----------
    x0 : pytree of arrays and numbers
        Where to start. Positions are in the same structure, with the same shapes and dtypes (integers become float64).
        The work is done in float32 where no leaf is wider than that, otherwise in float64.
    n : int
        Number of subfunctions.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Source of the random choices; the same seed gives the same run.
    **options
        Choices of the algorithm, which need no tuning:

        history : int, default 10
            History terms kept for every subfunction.
        update : {"bfgs", "rank-one"}, default "bfgs"
            How a history becomes an approximate Hessian.
        target : {"distance", "random", "cyclic"}, default "distance"
            Which subfunction is evaluated next.
        initially_active : int, default 2
            Subfunctions that take part from the start.
        noise : float, default 1.0
            How soon more become active; larger is sooner.
        smallest_ratio : float, default 1e-8
            Eigenvalues of a Hessian below this fraction of its largest count as no curvature.
        min_subspace, max_subspace : int, optional
            Size of the shared subspace after and before a collapse; by default 2 n and 3 n.
        initial_curvature : float, optional
            Curvature assumed before anything is known; by default one that suits the scale of the problem.
        variant : {"default", "paper"}, default "default"
            The paper's algorithm with all departures from it, or with none.
        without : collection of int, default ()
            Departures from the paper not to be made, by their numbers in docs/departures.md.

    Examples
    --------
    >>> import numpy as np, sumopt
    >>> targets = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> opt = sumopt.SFO(np.zeros(2), n=2, rng=0)
    >>> for _ in range(40):
    ...     query = opt.ask()
    ...     error = query.position - targets[query.index]
    ...     info = opt.tell(query, error @ error, 2 * error)
    >>> np.allclose(opt.x, [2.0, 3.0])
    True
    """

    def __init__(self, x0: Any, n: int, *, rng: Seed = None, **options: Unpack[SFOOptions]) -> None:
        check_names(options, [*SFOOptions.__annotations__], ["x0", "n", "rng"])
        chosen = Options.of(dict(options))
        count = checked_count(n, "n", MOST_SUBFUNCTIONS)
        self._structure = Structure.of(x0)
        start = self._structure.flatten(x0)
        source = generator(rng)
        with _quiet():
            self._core = Optimizer(start, count, source, chosen, self.epsilon)

    def __repr__(self) -> str:
        """A line on where it stands."""
        return (
            f"<SFO: {self._structure.size} parameters, {self.n} subfunctions ({self.active} active), "
            f"{self.evaluations} evaluations, fun={self.fun:g}>"
        )

    @property
    def x(self) -> Any:
        """The best position completed so far, in the structure of `x0`; `x0` itself before there is any."""
        with _quiet():
            return self._structure.unflatten(self._core.x)

    @property
    def fun(self) -> float:
        """F at `x`, estimated as n times the mean of the subfunctions' latest values then; nan before there is any."""
        with _quiet():
            return float(self._core.fun)

    @property
    def n(self) -> int:
        """Number of subfunctions."""
        return self._core.n

    @property
    def evaluations(self) -> int:
        """Evaluations told so far."""
        return self._core.evaluations

    @property
    def active(self) -> int:
        """Number of subfunctions that take part."""
        return self._core.active

    @property
    def values(self) -> Vector:
        """The latest value of every subfunction; nan for one that was never measured."""
        return self._core.values

    @property
    def failure(self) -> str | None:
        """Why the run cannot go on; None as long as it can."""
        return self._core.failure

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the work: float32 or float64."""
        return self._structure.dtype

    @property
    def epsilon(self) -> float:
        """The relative rounding of positions: that of the coarsest leaf of `x0`."""
        return self._structure.epsilon

    @property
    def length(self) -> float:
        """Euclidean length of `x`, over all its leaves."""
        with _quiet():
            # Free of overflow, unlike a sum of squares, in float32 as well.
            return float(blas.dnrm2(self._core.x.astype(np.float64)))

    @property
    def moved(self) -> float:
        """Euclidean distance of `x` from `x0`."""
        with _quiet():
            return float(blas.dnrm2(self._core.displacement.astype(np.float64)))

    @property
    def stands_at_best(self) -> bool:
        """Whether `x` is where the optimizer stands, not a better point that it passed before."""
        with _quiet():
            return self._core.stands_at_best

    def ask(self) -> Query:
        """Say what to evaluate next.

        Returns
        -------
        Query
            Its `index` and `position`. Until it is told, the same query is given again, with a fresh position.
        """
        with _quiet():
            query = self._core.ask()
        return Query(query.ticket, query.index, self._structure.unflatten(query.position))

    def tell(self, query: Query, value: Any, gradient: Any) -> Info:
        """Take the answer to a query.

        Parameters
        ----------
        query : Query
            What `ask` returned.
        value : float
            f_i at the position. A value or gradient that is not finite makes the optimizer step back.
        gradient : pytree
            Its gradient, in the structure and shapes of `x0`.

        Returns
        -------
        Info
            What happened.
        """
        if not isinstance(query, Query):
            raise TypeError(f"query must be what ask() returned; got {type(query).__name__}")
        # Both are checked before the core sees either, so that a mistake leaves its state as it was.
        number, flat = scalar(value), self._structure.flatten_gradient(gradient)
        with _quiet():
            return self._core.tell(query, number, flat)

    def replace(self, index: int, keep_history: bool = False) -> None:
        """Say that a subfunction is another one from now on: streamed data, or noise drawn anew.

        Parameters
        ----------
        index : int
            The subfunction, from 0 to n - 1. A pending query for it is void: `ask` again.
        keep_history : bool, default False
            Whether the curvature learnt so far still holds.
        """
        number, keep = checked_index(index, self.n), checked_switch(keep_history, "keep_history")
        with _quiet():
            self._core.replace(number, keep)


def _quiet() -> np.errstate:
    """Rounding to zero and overflow are the optimizer's to deal with, whatever numpy is told to do about the user's."""
    return np.errstate(all="ignore")
