"""Whether a gradient is that of its function, by central differences along random directions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sumopt.checks import Seed, checked_count, generator, positive, scalar
from sumopt.differences import Answer, Differences, Home, Limits
from sumopt.minimize import Batches, Fun, bound, checked_batches
from sumopt.runner import from_batch
from sumopt.sfo import Query
from sumopt.structure import Structure, Vector, roundoff

_EVERYTHING = "all together"
_ROWS = 20


@dataclass(frozen=True)
class DirectionalCheck:
    """How well a gradient agrees with differences, in one leaf (or all together) on one batch."""

    leaf: str
    batch: int
    error: float
    expected: float
    got: float


@dataclass(frozen=True)
class GradientCheck:
    """What `check_gradient` found; true if and only if the gradient is right.

    Attributes
    ----------
    ok : bool
        Whether values and gradients are finite, reproducible, and agree.
    max_error : float
        The largest relative error, over leaves and batches, of the median over directions.
    tol : float
        What was allowed.
    worst : DirectionalCheck or None
        Where the largest error is.
    checks : tuple of DirectionalCheck
        Everything that was compared.
    complaint : str or None
        What makes a comparison pointless: a value that is not finite, or a function that is not deterministic.
    skipped : int
        Leaves and batches that there was no time to compare.
    evaluations : int
        Calls of the function.
    """

    ok: bool
    max_error: float
    tol: float
    worst: DirectionalCheck | None
    checks: tuple[DirectionalCheck, ...]
    complaint: str | None
    skipped: int
    evaluations: int

    def __bool__(self) -> bool:
        """Whether the gradient is right."""
        return self.ok

    def __str__(self) -> str:
        """A table, the largest errors first, and a verdict."""
        lines = []
        if self.checks:
            ordered = sorted(self.checks, key=lambda check: -check.error)
            width = max(len("leaf"), *(len(check.leaf) for check in ordered))
            lines = [f"{'leaf':<{width}}  batch  difference  from gradient  relative error"]
            lines += [
                f"{check.leaf:<{width}}  {check.batch:5d}  {check.expected:10.3e}  {check.got:13.3e}  "
                f"{check.error:14.1e}{'' if check.error <= self.tol else '  <-- wrong'}"
                for check in ordered[:_ROWS]
            ]
            if len(ordered) > _ROWS:
                lines.append(f"... and {len(ordered) - _ROWS} with smaller errors")
        if self.skipped:
            lines.append(f"{self.skipped} more comparisons were left out to save time")
        return "\n".join([*lines, self.verdict])

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        if self.complaint is not None:
            return f"The gradient cannot be checked: {self.complaint}."
        if self.worst is None:
            return "Nothing was compared."
        where = f"{self.worst.leaf}, batch {self.worst.batch}"
        if self.ok:
            return f"The gradient is right: the largest relative error is {self.max_error:.1e} ({where})."
        return (
            f"The gradient is wrong: the relative error is {self.max_error:.1e} in {where}; {self.tol:.0e} is allowed."
        )


def check_gradient(
    fun: Fun,
    x: Any,
    batches: Batches[Any] | int,
    *,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    directions: int = 3,
    tol: float | None = None,
    max_batches: int = 3,
    max_evaluations: int = 2000,
    max_time: float = 10.0,
    rng: Seed = None,
) -> GradientCheck:
    """Check the gradient that `fun` returns against differences of the values that it returns.

    Along random directions, in all of `x` and in each of its leaves alone, so that an error is found and located. The
    verdict is by the median over the directions, and a gradient between the one-sided differences counts as right, so
    that kinks (rectified units, absolute values) raise no false alarm.

    Parameters
    ----------
    fun, x, batches, args, kwargs
        As for `minimize`; `x` is where to check. A random point is better than a special one such as zero.
    directions : int, default 3
        Random directions for every leaf and batch.
    tol : float, optional
        Largest relative error allowed; by default 1e-5 in float64, 1e-2 in float32 and 0.2 in float16, whichever is the
        coarsest among the leaves of `x`, the value and the gradient.
    max_batches : int, default 3
        Batches to look at, chosen at random, if there are more.
    max_evaluations, max_time : int, float
        Calls of `fun`, and seconds, after which no further comparison is begun. The first one is made in any case.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Source of the directions.

    Returns
    -------
    GradientCheck
        ``ok`` (which is also its truth value), ``max_error``, and a table when printed.

    Examples
    --------
    >>> import numpy as np, sumopt
    >>> def fun(x, batch):
    ...     error = x["a"] - batch
    ...     return error @ error, {"a": 2 * error}
    >>> bool(sumopt.check_gradient(fun, {"a": np.ones(3)}, [np.zeros(3), np.ones(3)], rng=0))
    True
    """
    if not callable(fun):
        raise TypeError(f"fun must be callable; got {type(fun).__name__}")
    parts = checked_batches(batches)
    directions = checked_count(directions, "directions")
    source = generator(rng)
    structure = Structure.of(x, "x")
    here = structure.flatten(x, "x")
    call = bound(fun, parts, args, kwargs)

    def evaluate(position: Vector, batch: int) -> Answer:
        value, gradient = call(Query(0, batch, structure.unflatten(position)))
        with from_batch(batch):
            number, flat = scalar(value), structure.flatten_gradient(gradient)
        return Answer(number, flat.astype(np.float64), roundoff((value, gradient)))

    count = min(len(parts), checked_count(max_batches, "max_batches"))
    chosen = sorted(int(batch) for batch in source.choice(len(parts), count, replace=False))
    allowed = None if tol is None else positive(tol, "tol")
    limits = Limits(checked_count(max_evaluations, "max_evaluations"), positive(max_time, "max_time"))
    leaves = {path or "x": where for path, where in structure.slices.items() if where.stop > where.start}
    differences = Differences(evaluate, here, structure, tol=allowed, limits=limits, rng=source)
    places = {_EVERYTHING: slice(0, here.size)}
    if len(leaves) > 1:
        # In random order, in case there is not time for all of them.
        places |= {str(path): leaves[path] for path in source.permutation(list(leaves))}
    return _checked(differences, places, chosen, directions=directions, limits=limits)


def _checked(
    differences: Differences,
    places: dict[str, slice],
    batches: list[int],
    *,
    directions: int,
    limits: Limits,
) -> GradientCheck:
    """Compare all there is time for, what says most first."""
    homes: dict[int, Home] = {}
    for batch in batches:
        if homes and limits.reached:
            break
        homes[batch], complaint = differences.home(batch)
        if complaint is not None:
            return GradientCheck(False, math.nan, differences.tol, None, (), complaint, 0, limits.evaluations)
    tol = differences.tol
    checks: list[DirectionalCheck] = []
    for leaf, batch in _tasks(list(places)[1:], list(homes)):
        if checks and limits.reached:
            break
        agreement = differences.compare(places[leaf], homes[batch], directions)
        checks.append(DirectionalCheck(leaf, batch, *agreement))
    skipped = len(places) * len(batches) - len(checks)
    # Of what is wrong, the one that says where is worth more than the one that does not.
    worst = max(checks, key=lambda check: (check.error > tol and check.leaf != _EVERYTHING, check.error))
    ok = all(check.error <= tol for check in checks)
    return GradientCheck(ok, worst.error, tol, worst, tuple(checks), None, skipped, limits.evaluations)


def _tasks(leaves: list[str], batches: list[int]) -> list[tuple[str, int]]:
    """What to compare: everything together on every batch, every leaf on one batch, then every leaf on the next."""
    together = [(_EVERYTHING, batch) for batch in batches]
    count = len(batches)
    return together + [(leaf, batches[(i + j) % count]) for j in range(count) for i, leaf in enumerate(leaves)]
