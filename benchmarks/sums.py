"""Small sums of functions, each of which shows one of the departures from the paper at work."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from benchmarks.problems import make_problem

Fun = Callable[[np.ndarray, int], tuple[float, np.ndarray]]
LONG = {"ftol": 0.0, "gtol": 1e-12, "maxiter": 5000}


@dataclass(frozen=True)
class Sum:
    """A sum of n functions, and where to start."""

    fun: Fun
    x0: np.ndarray
    n: int

    def total(self, x: np.ndarray) -> float:
        """F."""
        return float(sum(self.fun(x, i)[0] for i in range(self.n)))

    def least(self) -> float:
        """The smallest value that a long run of L-BFGS-B finds."""

        def full(x: np.ndarray) -> tuple[float, np.ndarray]:
            return self.total(x), np.sum([self.fun(x, i)[1] for i in range(self.n)], axis=0)

        return float(minimize(full, self.x0, jac=True, method="L-BFGS-B", options=LONG).fun)


def logistic(seed: int, n: int, m: int, factor: float = 1.0) -> Sum:
    """Logistic regression on random data."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, max(2 * m // n, 20), m)) * 4.0 / np.sqrt(m)
    signs = np.sign(features @ rng.normal(size=m) + rng.normal(size=features.shape[:2]))

    def fun(x: np.ndarray, i: int) -> tuple[float, np.ndarray]:
        margins = signs[i] * (features[i] @ x)
        pull = -signs[i] * np.exp(-np.logaddexp(0.0, margins)) / len(margins)
        value = np.logaddexp(0.0, -margins).mean() + 1e-3 * x @ x
        return factor * float(value), factor * (features[i].T @ pull + 2e-3 * x)

    return Sum(fun, np.zeros(m), n)


def digits(seed: int, name: str) -> Sum:
    """One of the problems on digits."""
    problem = make_problem(name, seed)
    return Sum(lambda x, i: problem.fun(x, problem.batches[i]), problem.x0, len(problem.batches))


def powers(seed: int) -> Sum:
    """Distances to random centres, each raised to a power between 1.1 and 4."""
    rng = np.random.default_rng(seed)
    centres, exponents = rng.normal(size=(8, 10)), rng.uniform(1.1, 4.0, size=8)

    def fun(x: np.ndarray, i: int) -> tuple[float, np.ndarray]:
        away = x - centres[i]
        distance = np.linalg.norm(away)
        return float(distance ** exponents[i]), exponents[i] * distance ** (exponents[i] - 2.0) * away

    return Sum(fun, rng.normal(size=10), 8)


def poisson(seed: int, scale: float = 5.0) -> Sum:
    """Poisson regression, whose exponentials explode beyond a short step."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(20, 30, 10)) * scale
    counts = rng.poisson(np.exp(np.clip(features @ rng.normal(size=10) / 3.0, -5.0, 5.0)))

    def fun(x: np.ndarray, i: int) -> tuple[float, np.ndarray]:
        exponents = features[i] @ x
        rates = np.exp(exponents)
        return float((rates - counts[i] * exponents).mean()), features[i].T @ (rates - counts[i]) / 30

    return Sum(fun, np.zeros(10), 20)


def absolute(seed: int) -> Sum:
    """Mean absolute deviations: piecewise linear, started far away."""
    rng = np.random.default_rng(seed)
    slopes, offsets = rng.normal(size=(20, 10, 5)), rng.normal(size=(20, 10))

    def fun(x: np.ndarray, i: int) -> tuple[float, np.ndarray]:
        residual = slopes[i] @ x - offsets[i]
        return float(np.abs(residual).mean()), slopes[i].T @ np.sign(residual) / 10

    return Sum(fun, 3.0 * rng.normal(size=5), 20)


def steep(seed: int) -> Sum:
    """Logistic regression in a large unit of F."""
    return logistic(seed, 25, 100, 1e12)


def few(seed: int) -> Sum:
    """Logistic regression in few parts and dimensions."""
    return logistic(seed, 5, 10)


def many(seed: int) -> Sum:
    """Logistic regression in 25 parts and 200 dimensions."""
    return logistic(seed, 25, 200)


def deficient(seed: int) -> Sum:
    """Least squares whose parts leave directions without curvature, in float32."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(10, 6, 8))
    targets = features @ rng.normal(size=8) + rng.normal(size=(10, 6))

    def fun(x: np.ndarray, i: int) -> tuple[float, np.ndarray]:
        error = features[i] @ x - targets[i]
        return 0.5 * float(error @ error), (features[i].T @ error).astype(x.dtype)

    return Sum(fun, rng.normal(size=8).astype(np.float32), 10)


def far_away(seed: int) -> Sum:
    """Logistic regression in float32, a hundred lengths of its minimum away from the origin of x."""
    problem = logistic(seed, 25, 200)
    shift = np.random.default_rng(seed).normal(size=200) * 10.0

    def fun(x: np.ndarray, i: int) -> tuple[float, np.ndarray]:
        value, gradient = problem.fun(x.astype(float) - shift, i)
        return value, gradient.astype(x.dtype)

    return Sum(fun, shift.astype(np.float32), 25)


def least_squares(seed: int) -> Sum:
    """Least squares in five parts and more parameters than the subspace has directions."""
    rng = np.random.default_rng(seed)
    features, targets = rng.normal(size=(5, 20, 50)), rng.normal(size=(5, 20))

    def fun(x: np.ndarray, i: int) -> tuple[float, np.ndarray]:
        error = features[i] @ x - targets[i]
        return float(error @ error), 2 * features[i].T @ error

    return Sum(fun, np.zeros(50), 5)


def uneven(seed: int) -> Sum:
    """Logistic regression, one part of which is in another unit."""
    problem = logistic(seed, 8, 40)

    def fun(x: np.ndarray, i: int) -> tuple[float, np.ndarray]:
        value, gradient = problem.fun(x, i)
        factor = 1e4 if i == seed % 8 else 1.0
        return factor * value, factor * gradient

    return Sum(fun, problem.x0, problem.n)
