"""The optimizers that SFO is measured beside, each over a grid of settings: section 5 of the paper."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from scipy.optimize import minimize

from benchmarks.problems import Problem, quiet

MOMENTA = (0.5, 0.9, 0.95, 0.99)

# Moves x, in place, by the gradient of one minibatch, given by its number; the fraction of the whole run that is over.
Update = Callable[[np.ndarray, np.ndarray, int, float], None]


@dataclass(frozen=True)
class Run:
    """F over all data when each pass was complete, the seconds without those of measuring F, and the rejected steps."""

    values: dict[int, float]
    seconds: float
    rejected: int = 0


def momentum_update(x0: np.ndarray, step: float, momentum: float) -> Update:
    """Stochastic gradient descent with momentum."""
    velocity = np.zeros_like(x0)

    def update(x: np.ndarray, gradient: np.ndarray, index: int, fraction: float) -> None:
        velocity[:] = momentum * velocity - step * gradient
        x += velocity

    return update


def adagrad_update(x0: np.ndarray, step: float) -> Update:
    """AdaGrad: every coordinate's step shrinks with the squares of its gradients."""
    squares = np.zeros_like(x0)

    def update(x: np.ndarray, gradient: np.ndarray, index: int, fraction: float) -> None:
        squares[:] += gradient**2
        x -= step * gradient / (np.sqrt(squares) + 1e-8)

    return update


def adam_update(x0: np.ndarray, step: float, cosine: bool = False) -> Update:
    """Adam with its usual betas; with `cosine`, the step length falls to zero along half a cosine."""
    mean, square, count = np.zeros_like(x0), np.zeros_like(x0), 0

    def update(x: np.ndarray, gradient: np.ndarray, index: int, fraction: float) -> None:
        nonlocal count
        count += 1
        mean[:] = 0.9 * mean + 0.1 * gradient
        square[:] = 0.999 * square + 0.001 * gradient**2
        length = step * (1 + np.cos(np.pi * fraction)) / 2 if cosine else step
        x -= length * (mean / (1 - 0.9**count)) / (np.sqrt(square / (1 - 0.999**count)) + 1e-8)

    return update


def adam_cosine_update(x0: np.ndarray, step: float) -> Update:
    """Adam whose step length falls to zero at the end of the run, which it must know."""
    return adam_update(x0, step, cosine=True)


def sag_update(x0: np.ndarray, step: float) -> Update:
    """SAG: against the mean of every minibatch's latest gradient, of those that have been seen."""
    latest: dict[int, np.ndarray] = {}
    total = np.zeros_like(x0)

    def update(x: np.ndarray, gradient: np.ndarray, index: int, fraction: float) -> None:
        total[:] += gradient - latest.get(index, 0.0)
        latest[index] = gradient
        x -= step * total / len(latest)

    return update


UPDATES: dict[str, Callable[..., Update]] = {
    "SGD with momentum": momentum_update,
    "AdaGrad": adagrad_update,
    "Adam": adam_update,
    "Adam, cosine decay": adam_cosine_update,
    "SAG": sag_update,
}
LBFGS = "L-BFGS-B"


def step_lengths(per_decade: int = 1) -> list[float]:
    """The powers of ten from 1e-5 to 1e2, and as many more between them as are wanted."""
    return [10.0 ** (power / per_decade) for power in range(-5 * per_decade, 2 * per_decade + 1)]


def grid(per_decade: int = 1) -> list[tuple[str, dict[str, float]]]:
    """Every competitor with every one of its settings."""
    runs: list[tuple[str, dict[str, float]]] = [(LBFGS, {})]
    for name in UPDATES:
        for step in step_lengths(per_decade):
            momenta: Iterable[dict[str, float]] = [{"momentum": value} for value in MOMENTA] if "SGD" in name else [{}]
            runs += [(name, {"step": step, **momentum}) for momentum in momenta]
    return runs


def run_competitor(name: str, problem: Problem, seed: int, passes: Iterable[int], settings: dict[str, float]) -> Run:
    """Run one competitor with one setting; F is infinite once it has diverged."""
    if name == LBFGS:
        return run_lbfgs(problem, passes)
    return run_stochastic(problem, UPDATES[name](problem.x0, **settings), np.random.default_rng(seed), passes)


@quiet()
def run_stochastic(problem: Problem, update: Update, rng: np.random.Generator, passes: Iterable[int]) -> Run:
    """Minibatches in a new random order at each pass."""
    marks = sorted(passes)
    n, total = len(problem.batches), marks[-1] * len(problem.batches)
    values = dict.fromkeys(marks, np.inf)
    x, done, seconds = problem.x0.copy(), 0, 0.0
    for mark in range(1, marks[-1] + 1):
        start = process_time()
        for index in rng.permutation(n):
            update(x, problem.fun(x, problem.batches[index])[1], int(index), done / total)
            done += 1
        seconds += process_time() - start
        if not np.isfinite(x).all():
            break
        if mark in values:
            value = problem.objective(x)
            values[mark] = value if np.isfinite(value) else np.inf
    return Run(values, seconds)


class _EnoughError(Exception):
    """The passes are used up."""


def run_lbfgs(problem: Problem, passes: Iterable[int]) -> Run:
    """SciPy's L-BFGS-B on the whole sum, with the best of its evaluations so far: each of them is a pass."""
    marks = sorted(passes)
    best: list[float] = []

    def full(x: np.ndarray) -> tuple[float, np.ndarray]:
        if len(best) == marks[-1]:
            raise _EnoughError
        value, gradient = problem.full(x)
        best.append(min([value, *best[-1:]]))
        return value, gradient

    start = process_time()
    with suppress(_EnoughError):
        minimize(full, problem.x0, jac=True, method="L-BFGS-B", options={"ftol": 0.0, "gtol": 0.0})
    return Run({mark: best[min(mark, len(best)) - 1] for mark in marks}, process_time() - start)


def minimum(problem: Problem) -> float:
    """The smallest value that long runs of L-BFGS-B find, each starting where the one before has stopped."""
    options: Any = {"ftol": 0.0, "gtol": 0.0, "maxiter": 20000, "maxfun": 20000, "maxcor": 30}
    x, best = problem.x0, np.inf
    while True:
        result = minimize(problem.full, x, jac=True, method="L-BFGS-B", options=options)
        if not result.fun < best:
            return best
        x, best = result.x, float(result.fun)
