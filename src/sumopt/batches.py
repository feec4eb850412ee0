"""How many minibatches to make of a data set (section 4.1.1)."""

from __future__ import annotations

import bisect
import math
import os
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sumopt.checks import checked_count
from sumopt.words import shown

# Subfunctions per square root of a sample; the docstring below says why.
_PER_ROOT = 0.25
_FEWEST = 25
# Bytes kept of every subfunction for each direction: ten steps, ten changes, and a Hessian of rank twenty.
_KEPT = 40 * 8
_GUESSED_MEMORY = 8 * 2**30


def suggest_batches(
    n_samples: int, n_parameters: int, *, dtype: DTypeLike = np.float64, max_memory: float | None = None
) -> int:
    """Suggest how many minibatches to make of a data set.

    Parameters
    ----------
    n_samples : int
        Samples in the data set (D in the paper).
    n_parameters : int
        Parameters of the model (M in the paper).
    dtype : float32 or float64, default float64
        Precision of the parameters.
    max_memory : float, optional
        Bytes that the optimizer may take; by default a quarter of the memory that is free now.

    Returns
    -------
    int
        The number of minibatches N, into which the samples are best divided evenly and at random.

    Notes
    -----
    Of D samples make N minibatches of D / N. An evaluation costs about 6 M D / N operations (multiply and add, once
    forward and twice backward). The optimizer adds two passes over its basis, which holds 2 N to 3 N vectors: about
    2 * 2.5 N M numbers are read, 40 N M bytes in float64. At some 50e9 operations and 45e9 bytes a second, which an
    ordinary computer reaches, that is

        evaluation  0.12 M D / N nanoseconds,    optimizer  0.9 M N nanoseconds,

    and the optimizer's share is 7.4 N^2 / D of the evaluation. It does not depend on M, and N proportional to sqrt(D)
    keeps it the same for all D: the paper's section 4.1.1. With N = sqrt(D) / 4 it is a half: two thirds of the time go
    into the model, as "small enough that the majority of time is spent evaluating the subfunction" asks. Examples:
    D = 60 000 gives 61 minibatches of about 980 samples, D = 1 000 000 gives 250 of 4000.

    Progress per pass gains from more minibatches until there are some 25 of them, and hardly beyond 50, so there are
    never fewer than 25, unless there are fewer samples. And never more than memory allows: the basis takes up to 3 N M
    numbers, which for M = 10 million in float32 is 120 MB for every minibatch, and the histories and Hessians of all
    minibatches 960 N^2 bytes, which is a gigabyte for a thousand of them. (The basis never takes more than M vectors,
    so a small model needs little.) Where there is room for very few only, the option `max_subspace` helps.
    """
    samples = checked_count(n_samples, "n_samples")
    parameters = checked_count(n_parameters, "n_parameters")
    itemsize = _itemsize(dtype)
    memory = free_memory() / 4 if max_memory is None else _bytes(max_memory)
    ideal = min(samples, max(_FEWEST, round(_PER_ROOT * math.sqrt(samples))))
    fitting = bisect.bisect_right(range(1, ideal + 1), memory, key=lambda n: _memory(n, parameters, itemsize))
    return max(1, fitting)


def _memory(n: int, parameters: int, itemsize: int) -> float:
    """Bytes of the basis, and of what is kept of every subfunction in its coordinates, with the default options."""
    directions = min(3 * n, parameters)
    return float(directions * parameters * itemsize + n * directions * _KEPT)


def free_memory() -> float:
    """Bytes of memory that are free, as far as the system says; half of all, or a modest guess, where it does not."""
    page = _system("SC_PAGE_SIZE")
    if page is not None:
        free = _system("SC_AVPHYS_PAGES")
        if free is not None:
            return free * page
        every = _system("SC_PHYS_PAGES")
        if every is not None:
            return every * page / 2
    return _GUESSED_MEMORY / 2


def _system(name: str) -> float | None:
    """A number that the system knows; None where it does not."""
    try:
        number = os.sysconf(name)
    except (AttributeError, OSError, ValueError):
        return None
    return float(number) if number > 0 else None


def _itemsize(dtype: Any) -> int:
    """Bytes of a number, or a sentence why the dtype is not one of those that the optimizer works in."""
    try:
        resolved = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"dtype must be float32 or float64; got {dtype!r}") from None
    if resolved not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float32 or float64; got {resolved}")
    return int(resolved.itemsize)


def _bytes(memory: Any) -> float:
    """A positive number of bytes, or a sentence why it is none."""
    if isinstance(memory, (bool, np.bool_)) or not isinstance(memory, (int, float, np.integer, np.floating)):
        raise TypeError(f"max_memory must be a number of bytes; got {type(memory).__name__}")
    if not memory > 0:
        raise ValueError(f"max_memory must be positive; got {shown(memory)}")
    try:
        return float(memory)
    except OverflowError:
        raise ValueError(f"max_memory must be a number of bytes; got {shown(memory)}, too large for a float") from None
