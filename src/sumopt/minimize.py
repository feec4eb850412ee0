"""Minimize a sum of functions with one call, in the manner of `scipy.optimize.minimize`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Protocol, TypeVar, Unpack

import numpy as np

from sumopt.checks import (
    MOST_SUBFUNCTIONS,
    Seed,
    check_names,
    checked_count,
    checked_switch,
    positive,
    tolerance,
)
from sumopt.progress import Bar, Silence
from sumopt.result import OptimizeResult
from sumopt.runner import Budget, Callback, Run
from sumopt.sfo import SFO, Query, SFOOptions
from sumopt.stopping import StoppingTest
from sumopt.words import described, shown

Batch_co = TypeVar("Batch_co", covariant=True)
Fun = Callable[..., tuple[Any, Any]]


class Batches(Protocol[Batch_co]):
    """What has a length and can be indexed: a list, a tuple, a range, an array, a dataset."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, index: int, /) -> Batch_co:
        """One of them."""


def minimize(
    fun: Fun,
    x0: Any,
    batches: Batches[Any] | int,
    *,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    passes: float = 100.0,
    max_evaluations: int | None = None,
    max_time: float | None = None,
    tol: float | None = 1e-8,
    callback: Callable[..., object] | None = None,
    progress: bool = False,
    rng: Seed = None,
    **options: Unpack[SFOOptions],
) -> OptimizeResult:
    """Minimize F(x), the sum of fun(x, batch) over all batches, with the Sum of Functions Optimizer.

    There is no step size and nothing else to tune. A few tens of batches are best: see `suggest_batches`.

    Parameters
    ----------
    fun : callable
        ``fun(x, batch, *args, **kwargs) -> (value, gradient)``: one subfunction and its gradient, a function of `x` and
        `batch` only (no fresh random numbers). `x` comes, and the gradient is returned, in the structure of `x0`.
    x0 : pytree of arrays and numbers
        Where to start: an array, or any nesting of dicts, lists, tuples and named tuples of arrays and numbers.
    batches : sequence or int
        One entry per subfunction, handed to `fun` as it is; anything with a length that can be indexed from 0. An int n
        stands for ``range(n)``.
    args, kwargs : tuple, dict, optional
        Further arguments of `fun`. As in SciPy, what is no tuple counts as the only one of them: ``args=3`` is
        ``args=(3,)``.
    passes : float, default 100
        Most effective passes: one pass is as many evaluations as there are batches, all evaluations counted.
    max_evaluations : int, optional
        Most evaluations of `fun`.
    max_time : float, optional
        Seconds after which no further evaluation is begun.
    tol : float or None, default 1e-8
        When to call it converged, looked at once a pass: roughly, when a pass changes F by less than this fraction of
        the descent so far, or the gradient of F is this small beside those of the subfunctions. None or 0: never.
    callback : callable, optional
        Called once a pass, as ``callback(intermediate_result=result)`` if that is the name of its only parameter and as
        ``callback(x)`` otherwise, which is SciPy's rule. The intermediate result has the trace so far, and ``plot()``.
        It ends the run by raising StopIteration.
    progress : bool, default False
        Whether to show a progress bar (needs tqdm).
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Source of the random choices; the same seed gives the same run.
    **options
        Options of the algorithm, as for `SFO`.

    Returns
    -------
    OptimizeResult
        ``x`` the best point completed, ``fun``, ``success``, ``message``, ``trace``, ``plot()`` and more. Ctrl-C ends
        the run with a result, too.

    Notes
    -----
    An exception in `fun` or `callback` reaches the caller as it is, and the run is lost. Whoever wants to keep the
    position then drives `SFO` by hand: its ``x`` is good whatever happens between ``ask`` and ``tell``.

    The optimizer's own algebra is small, and more BLAS threads than one slow it down. Where `fun` is cheap, set
    ``OPENBLAS_NUM_THREADS=1`` (or what your BLAS calls it) in the environment.

    Examples
    --------
    >>> import numpy as np, sumopt
    >>> batches = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    >>> def fun(x, batch):
    ...     error = x - batch
    ...     return error @ error, 2 * error
    >>> result = sumopt.minimize(fun, np.zeros(2), batches, rng=0)
    >>> result.success, np.allclose(result.x, [2.0, 3.0])
    (True, True)
    """
    if not callable(fun):
        raise TypeError(f"fun must be callable; got {type(fun).__name__}")
    _check_names(options)
    parts = checked_batches(batches)
    call = bound(fun, parts, args, kwargs)
    budget = _budget(passes, max_evaluations, max_time)
    small = tolerance(tol)
    notify = _notified(callback)
    shows = checked_switch(progress, "progress")
    opt = SFO(x0, len(parts), rng=rng, **options)
    test = StoppingTest(opt.n, small, opt.epsilon) if small > 0.0 else None
    end = budget.most_evaluations(opt.n) / opt.n
    with Bar(end) if shows else Silence() as display:
        return Run(opt, call, budget, test=test, callback=notify).to_end(display)


def checked_batches(batches: Any) -> Batches[Any]:
    """Batches as something with a length that can be indexed, or a sentence why they are none."""
    expected = "batches must be a sequence of batches, or their number (an integer)"
    if isinstance(batches, (int, np.integer)) and not isinstance(batches, bool):
        return range(checked_count(batches, "batches", MOST_SUBFUNCTIONS))
    if isinstance(batches, (bool, np.bool_, float, complex, np.number)):
        raise TypeError(f"{expected}; got {type(batches).__name__} {batches}")
    if isinstance(batches, np.ndarray) and batches.ndim == 0:
        raise TypeError(f"{expected}; got a 0-dimensional ndarray: pass int(batches)")
    came = type(batches).__name__
    if isinstance(batches, (str, bytes, bytearray)):
        raise TypeError(f"{expected}; got {came}")
    if isinstance(batches, Mapping):
        raise TypeError(f"{expected}; got {came}, a mapping: pass list(batches.values())")
    if isinstance(batches, (Iterator, Set)) or not hasattr(batches, "__getitem__"):
        hint = ", which can be gone through but not indexed: pass list(batches)" if hasattr(batches, "__iter__") else ""
        raise TypeError(f"{expected}; got {came}{hint}")
    if hasattr(batches, "iloc"):
        raise TypeError(f"{expected}; got {came}, which is indexed by columns: pass a list of its parts")
    try:
        count = len(batches)
    except TypeError as error:
        raise TypeError(f"{expected}; got {came} without a length ({error})") from None
    except OverflowError:
        raise ValueError(f"{expected}; got {shown(batches)}, which is too long") from None
    if count == 0:
        raise ValueError(f"{expected}; got an empty {came}")
    checked: Batches[Any] = batches
    return checked


def bound(
    fun: Fun, batches: Batches[Any], args: Any, kwargs: Mapping[str, Any] | None
) -> Callable[[Query], tuple[Any, Any]]:
    """How a query is evaluated: `fun` with its batch and its further arguments, and a look at what it returns."""
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs must be a dict; got {type(kwargs).__name__}")
    for keyword in kwargs or ():
        if not isinstance(keyword, str):
            raise TypeError(f"kwargs must be a dict of keywords, and keywords must be strings; got {shown(keyword)}")
    further = args if isinstance(args, tuple) else (args,)
    named = {} if kwargs is None else dict(kwargs)

    def evaluate(query: Query) -> tuple[Any, Any]:
        returned: Any = fun(query.position, batches[query.index], *further, **named)
        if not isinstance(returned, (tuple, list)) or len(returned) != 2:
            several = isinstance(returned, (tuple, list))
            came = f"{type(returned).__name__} of {len(returned)}" if several else described(returned)
            raise TypeError(f"fun must return a pair, (value, gradient); got {came} (from batch {query.index})")
        return returned[0], returned[1]

    return evaluate


def _check_names(options: Mapping[str, Any]) -> None:
    """Refuse an unknown keyword argument, with a hint."""
    parameters = inspect.signature(minimize).parameters.values()
    own = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    check_names(options, [*SFOOptions.__annotations__], own)


def _budget(passes: Any, max_evaluations: Any, max_time: Any) -> Budget:
    """The limits of a run, checked."""
    if max_evaluations is not None:
        max_evaluations = checked_count(max_evaluations, "max_evaluations")
    if max_time is not None:
        max_time = positive(max_time, "max_time")
    return Budget(positive(passes, "passes"), max_evaluations, max_time)


def _notified(callback: Any) -> Callback | None:
    """A callback, and whether it takes the intermediate result or the position (SciPy's rule)."""
    if callback is None:
        return None
    if not callable(callback):
        raise TypeError(f"callback must be callable; got {type(callback).__name__}")
    try:
        names = set(inspect.signature(callback).parameters)
    except (TypeError, ValueError):
        names = set()
    return Callback(callback, names == {"intermediate_result"})
