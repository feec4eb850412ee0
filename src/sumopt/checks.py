"""Arguments that are numbers, switches, seeds or names: each is checked once, and refused in a sentence."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Iterable
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from sumopt.words import shown

Seed: TypeAlias = int | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None

MOST_SUBFUNCTIONS = 2**53
"""More than any memory holds, and still few enough for numpy to say so itself."""

# What others call what exists here, or what does not exist here for a reason.
_ELSEWHERE = {
    "seed": ("rng",),
    "random_state": ("rng",),
    "maxiter": ("passes", "max_evaluations"),
    "max_iter": ("passes", "max_evaluations"),
    "maxfun": ("max_evaluations",),
    "epochs": ("passes", "max_evaluations"),
}
_REASONS = {
    "jac": "fun returns the gradient, too: (value, gradient)",
    "bounds": "bounds are not supported",
    "constraints": "constraints are not supported",
    "lr": "there is no step size to choose",
    "learning_rate": "there is no step size to choose",
    "step_size": "there is no step size to choose",
}


def checked_count(n: Any, name: str, most: int = sys.maxsize) -> int:
    """A positive integer, or a sentence why it is none."""
    if isinstance(n, (bool, np.bool_)) or not isinstance(n, (int, np.integer)):
        raise TypeError(f"{name} must be a positive integer; got {type(n).__name__}")
    if n < 1:
        raise ValueError(f"{name} must be at least 1; got {shown(int(n))}")
    if n > most:
        raise ValueError(f"{name} must be at most {most}; got {shown(int(n))}")
    return int(n)


def checked_index(index: Any, n: int) -> int:
    """The number of a subfunction, or a sentence why it is none."""
    if isinstance(index, (bool, np.bool_)) or not isinstance(index, (int, np.integer)):
        raise TypeError(f"index must be an integer; got {type(index).__name__}")
    if not 0 <= index < n:
        raise ValueError(f"index must be from 0 to {n - 1}; got {shown(int(index))}")
    return int(index)


def checked_switch(switch: Any, name: str) -> bool:
    """True or False, or a sentence why it is neither."""
    if not isinstance(switch, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {type(switch).__name__} {shown(switch)}")
    return bool(switch)


def positive(number: Any, name: str) -> float:
    """A positive number, or a sentence why it is none."""
    real = _real(number, f"{name} must be a positive number")
    if not real > 0.0:
        raise ValueError(f"{name} must be a positive number; got {number}")
    return real


def tolerance(tol: Any) -> float:
    """A tolerance, zero for none, or a sentence why it is none."""
    if tol is None:
        return 0.0
    real = _real(tol, "tol must be a number or None")
    if not 0.0 <= real < math.inf:
        raise ValueError(f"tol must be at least 0, and finite; got {tol}")
    return real


def _real(number: Any, expected: str) -> float:
    """A number, or a sentence why it is none."""
    if isinstance(number, (bool, np.bool_)) or not isinstance(number, Real):
        raise TypeError(f"{expected}; got {type(number).__name__}")
    try:
        return float(number)
    except OverflowError:
        raise ValueError(f"{expected}; got {shown(number)}, which is too large for a float") from None


def scalar(value: Any, name: str = "value") -> float:
    """A value as a Python float, or a sentence why it is none."""
    if isinstance(value, float):
        return float(value)
    if value is None:
        raise TypeError(f"{name} must be a number; got None")
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"{name} must be a number; got one that is masked")
    try:
        array = np.asarray(value)
    except Exception as error:
        raise TypeError(f"{name} must be a number; numpy cannot read {type(value).__name__}: {error}") from error
    if isinstance(value, bool) or (array.dtype.kind not in "fiu" and not isinstance(value, int)):
        raise TypeError(f"{name} must be a real number; got {_unfit(value, array.dtype)}")
    if array.shape != ():
        raise ValueError(f"{name} must be a scalar; got an array of shape {array.shape}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is an integer too large for a float") from None


def _unfit(value: Any, dtype: np.dtype[Any]) -> str:
    """What came instead of a value, and how to make one of it where that is possible."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    if isinstance(value, np.ndarray):
        return f"{name} of dtype {dtype}"
    # Fractions, decimals and the like.
    return f"{name}: pass float(value)" if dtype.kind == "O" and hasattr(value, "__float__") else name


def generator(rng: Seed) -> np.random.Generator:
    """A random generator from what was passed as `rng`."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"rng must be None, a non-negative integer, a SeedSequence or a numpy.random.Generator; got {shown(rng)}"
        ) from error


def check_names(names: Iterable[str], options: list[str], others: list[str]) -> None:
    """Refuse names that are no options, with a hint: what it is called here, why it is not there, or what there is."""
    for name in names:
        if name not in options:
            raise TypeError(f"unknown option {name!r}; {_hint(name, options, others)}")


def _hint(name: str, options: list[str], others: list[str]) -> str:
    """What may have been meant by an unknown name."""
    if name in _REASONS:
        return _REASONS[name]
    known = [*options, *others]
    meant = [other for other in _ELSEWHERE.get(name, ()) if other in known]
    meant = meant or difflib.get_close_matches(name, known, n=1)
    if meant:
        return f"did you mean {' or '.join(map(repr, meant))}?"
    return f"the options are {', '.join(options)}"
