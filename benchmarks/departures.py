"""What each departure from the paper does: ``python -m benchmarks.departures`` runs with and without it.

Every departure is switched off alone, by patching the one function that makes it. The figures in docs/departures.md are
printed here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.optimize import minimize

from benchmarks.problems import make_problem
from sumopt.core import Optimizer, Options, acceptance, hessian, optimizer, surrogate, trial

Fun = Callable[[np.ndarray, int], tuple[float, np.ndarray]]
SEEDS = range(5)
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


def run(problem: Sum, seed: int, marks: tuple[int, ...], **options: Any) -> tuple[list[float], int]:
    """F at each mark of passes, and how many steps were rejected."""
    opt = Optimizer(problem.x0, problem.n, np.random.default_rng(seed), Options(**options))
    values, rejected = [], 0
    for mark in marks:
        while opt.evaluations < mark * problem.n and opt.failure is None:
            query = opt.ask()
            rejected += opt.tell(query, *problem.fun(query.position, query.index)).outcome == "rejected"
        values.append(problem.total(opt.x))
    return values, rejected


def due_by_rule(self: Optimizer) -> int:
    """Departure 2 off: what is due, else the rule."""
    due = self._due[: self.active]
    return int(np.argmax(due)) if due.any() else self._target(self.surrogate, self._here.coordinates, self._rng)


def objects_if_measured(self: Optimizer, slot: int, observation: Any) -> bool:
    """Departure 5 off: a first evaluation never objects."""
    return not self._due[slot] and OBJECTS(self, slot, observation)


def always_home(self: trial.Trial, observation: Any) -> Any:
    """Departure 6 off: every bad update goes home."""
    if observation is None or self.suspect is None or self.suspect.value > observation.value + self.allowed:
        return AT_HOME(self, observation)
    return trial.Verdict((self.suspect, observation), failed=True)


def learn_without_growth(self: surrogate.Surrogate, *arguments: Any) -> bool:
    """Departure 3 off: a gradient that does not change has no consequence."""
    LEARN(self, *arguments)
    return True


def spanning_positions(self: surrogate.Surrogate, position: np.ndarray) -> np.ndarray:
    """Departure 8 off: positions, not their distances from here."""
    latest = np.argsort(-self.measured_at[: self.count], kind="stable")
    pairs = np.stack([self.gradients[latest], self.positions[latest]], axis=1)
    return np.concatenate([position[None], pairs.reshape(-1, len(position)), self.history.directions()])


def spanning_measured(self: surrogate.Surrogate, position: np.ndarray) -> np.ndarray:
    """Departure 9 off: nothing but positions and gradients."""
    return SPANNING(self, position)[: 1 + 2 * self.count]


OBJECTS = Optimizer._objects
AT_HOME = trial.Trial._answer_at_home
LEARN = surrogate.Surrogate._learn
SPANNING = surrogate.Surrogate.spanning
IS_BAD = acceptance.is_bad
SECANTS = hessian.secant_curvatures


@contextmanager
def nothing() -> Iterator[None]:
    """No patch."""
    yield


@dataclass(frozen=True)
class Case:
    """One departure on one family of problems."""

    number: int
    title: str
    make: Callable[[int], Sum]
    off: Callable[[], Any]
    marks: tuple[int, ...] = (1, 2, 5, 10, 20)
    options_off: tuple[tuple[str, Any], ...] = ()


def steep(seed: int) -> Sum:
    """Logistic regression in a large unit of F."""
    return logistic(seed, 25, 100, 1e12)


def few(seed: int) -> Sum:
    """Logistic regression in few parts and dimensions."""
    return logistic(seed, 5, 10)


def many(seed: int) -> Sum:
    """Logistic regression in 25 parts and 200 dimensions."""
    return logistic(seed, 25, 200)


def without(target: Any, name: str, replacement: Any) -> Callable[[], Any]:
    """A patch, to be made anew each time."""
    return lambda: patch.object(target, name, replacement)


def deficient(seed: int) -> Sum:
    """Least squares whose parts leave directions without curvature, in float32."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(10, 6, 8))
    targets = features @ rng.normal(size=8) + rng.normal(size=(10, 6))

    def fun(x: np.ndarray, i: int) -> tuple[float, np.ndarray]:
        error = features[i] @ x - targets[i]
        return 0.5 * float(error @ error), (features[i].T @ error).astype(x.dtype)

    return Sum(fun, rng.normal(size=8).astype(np.float32), 10)


def blind(*arguments: Any) -> tuple[np.ndarray, float]:
    """Departure 10 off: every singular value above the smallest ratio is a curvature."""
    return SECANTS(*arguments)[0], 0.0


INITIAL = (("initial_curvature", 1e6),)
S = surrogate.Surrogate
CASES = (
    Case(1, "logistic", many, nothing, options_off=INITIAL),
    Case(1, "logistic, F times 1e12", steep, nothing, options_off=INITIAL),
    Case(2, "logistic, N = 5", few, without(Optimizer, "_choose", due_by_rule)),
    Case(2, "logistic", many, without(Optimizer, "_choose", due_by_rule)),
    Case(2, "network", partial(digits, name="network"), without(Optimizer, "_choose", due_by_rule)),
    Case(3, "piecewise linear", absolute, without(S, "_learn", learn_without_growth)),
    Case(4, "logistic", many, without(optimizer, "is_bad", lambda *a: IS_BAD(*a[:4], 0.0)), (10, 20, 40)),
    Case(5, "powers of distance", powers, without(Optimizer, "_objects", objects_if_measured)),
    Case(5, "network", partial(digits, name="network"), without(Optimizer, "_objects", objects_if_measured)),
    Case(
        6, "logistic on digits", partial(digits, name="logistic"), without(trial.Trial, "_answer_at_home", always_home)
    ),
    Case(6, "powers of distance", powers, without(trial.Trial, "_answer_at_home", always_home)),
    Case(7, "Poisson", poisson, without(trial, "EXPLOSION", np.inf)),
    Case(8, "logistic", many, without(S, "spanning", spanning_positions)),
    Case(9, "autoencoder", partial(digits, name="autoencoder"), without(S, "spanning", spanning_measured)),
    Case(9, "network", partial(digits, name="network"), without(S, "spanning", spanning_measured)),
    Case(10, "least squares, float32", deficient, without(hessian, "secant_curvatures", blind), (2, 5, 10, 20, 50)),
    Case(10, "logistic", many, without(hessian, "secant_curvatures", blind)),
    Case(11, "powers of distance", powers, without(S, "_relative_size", lambda *_: 1.0)),
    Case(11, "network", partial(digits, name="network"), without(S, "_relative_size", lambda *_: 1.0)),
)


def row(case: Case, *, on: bool, least: dict[int, float]) -> str:
    """A line of the table: medians over seeds."""
    values, rejected = [], []
    for seed in SEEDS:
        problem = case.make(seed)
        with nothing() if on else case.off(), np.errstate(all="ignore"):
            found, bad = run(problem, seed, case.marks, **({} if on else dict(case.options_off)))
        values.append(np.array(found) - least[seed])
        rejected.append(bad)
    medians = "".join(f"{value:10.2g}" for value in np.median(values, axis=0))
    return f"{case.number:>2} {'on ' if on else 'off'} {case.title:26}{medians}   rejected {int(np.median(rejected))}"


def main() -> None:
    """Print all cases: F less its smallest value, median over five seeds, with the departure and without."""
    for case in CASES:
        convex = not any(word in case.title for word in ("network", "autoencoder", "ICA", "piecewise"))
        least = {seed: case.make(seed).least() if convex else 0.0 for seed in SEEDS}
        print(f"   {'passes':30}" + "".join(f"{mark:10d}" for mark in case.marks))
        for on in (True, False):
            print(row(case, on=on, least=least), flush=True)


if __name__ == "__main__":
    main()
