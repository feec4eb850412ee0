"""Driving the optimizer in tests."""

import numpy as np

from sumopt.core import Optimizer, Options


def start(problem, seed=0, dtype=np.float64, **options):
    """A fresh optimizer for a problem (fun, x0, n), and its function."""
    fun, x0, n = problem
    return Optimizer(np.asarray(x0, dtype), n, np.random.default_rng(seed), Options(**options)), fun


def drive(optimizer, fun, evaluations):
    """Evaluate so many times, or until the run fails; what was asked and what happened."""
    queries, infos = [], []
    for _ in range(evaluations):
        if optimizer.failure is not None:
            break
        query = optimizer.ask()
        value, gradient = fun(query.position.astype(np.float64), query.index)
        infos.append(optimizer.tell(query, float(value), np.asarray(gradient, query.position.dtype)))
        queries.append(query)
    return queries, infos


def total(problem, x):
    """F."""
    fun, _, n = problem
    return sum(fun(np.asarray(x, np.float64), i)[0] for i in range(n))


def fresh_gradient(surrogate, position):
    """The gradient of G, added up one by one."""
    return sum(
        surrogate.gradients[i] + surrogate.hessian(i) @ (position - surrogate.positions[i])
        for i in range(surrogate.count)
    )


def dense(hessian, size):
    """A Hessian as a matrix over the first `size` dimensions."""
    vectors = hessian.vectors[:, :size]
    return hessian.diagonal * np.eye(size) + (vectors.T * hessian.curvatures) @ vectors


def progress(problem, passes, **options):
    """How much of the descent to the best point of a long run a run of so many passes makes."""
    fun, x0, n = problem
    best, _ = start(problem, seed=9)
    drive(best, fun, 100 * n)
    optimizer, _ = start(problem, **options)
    drive(optimizer, fun, passes * n)
    top, bottom = total(problem, x0), total(problem, best.x)
    return (top - total(problem, optimizer.x)) / (top - bottom)
