"""One run of SFO on one problem: ``run_sfo(problem, seed, passes, **options) -> {pass: F}``."""

from collections.abc import Iterable
from time import process_time
from typing import Any

import numpy as np

from benchmarks.competitors import Run
from benchmarks.problems import Problem, make_problem
from sumopt.core import Optimizer, Options

PASSES = (1, 2, 5, 10, 20)


def run_sfo(problem: str | Problem, seed: int = 0, passes: Iterable[int] = PASSES, **options: Any) -> dict[int, float]:
    """F over all data at ``opt.x`` when the evaluations, rejected ones included, complete each of the passes.

    Parameters
    ----------
    problem : str or Problem
        A name in `benchmarks.problems.PROBLEMS`, or a problem.
    seed : int
        Of the problem (when it is named) and of the optimizer.
    passes : iterable of int
        When to measure; one pass is N evaluations.
    **options
        As in `sumopt.core.Options`; defaults where not given.

    Returns
    -------
    dict of int to float
    """
    if isinstance(problem, str):
        problem = make_problem(problem, seed)
    return measure_sfo(problem, seed, passes, options).values


def measure_sfo(
    problem: Problem, seed: int, passes: Iterable[int], options: dict[str, Any], *, stands: bool = False
) -> Run:
    """As `run_sfo`, with the seconds and the rejected steps; where the optimizer stands, if that is wanted instead."""
    n = len(problem.batches)
    optimizer = Optimizer(problem.x0, n, np.random.default_rng(seed), Options(**options))
    values, seconds, rejected = {}, 0.0, 0
    for mark in sorted(passes):
        start = process_time()
        while optimizer.evaluations < mark * n and optimizer.failure is None:
            query = optimizer.ask()
            info = optimizer.tell(query, *problem.fun(query.position, problem.batches[query.index]))
            rejected += info.outcome in {"rejected", "not finite"}
        seconds += process_time() - start
        values[mark] = problem.objective(optimizer.here if stands else optimizer.x)
    return Run(values, seconds, rejected)
