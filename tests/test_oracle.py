"""The naive oracle checked by itself, then the library against it, evaluation by evaluation."""

from collections import Counter
from zlib import crc32

import numpy as np
import pytest
from numpy.linalg import eigh, inv, norm, pinv, qr, solve
from oracle import EPS, Oracle, bfgs, positive_definite, q_eigenvalues, rank_one, secant_hessian
from problems import COLLECTION, quadratics, ripples, unreliable

from sumopt.core import Optimizer, Options

UPDATES = ("bfgs", "rank-one")
TARGETS = ("distance", "random", "cyclic")


def drive(oracle, fun, evaluations):
    """Answer the oracle's questions; return what it asked."""
    asked = []
    for _ in range(evaluations):
        index, position = oracle.ask()
        oracle.tell(*fun(position, index))
        asked.append(position)
    return np.array(asked)


# The problems


@pytest.mark.parametrize("problem", COLLECTION)
def test_gradients_of_the_problems_are_right(problem):
    fun, x0, n = problem(seed=3)
    rng = np.random.default_rng(4)
    for i in range(n):
        x, direction = x0 + 0.05 * rng.normal(size=x0.size), rng.normal(size=x0.size)
        rise = (fun(x + 1e-5 * direction, i)[0] - fun(x - 1e-5 * direction, i)[0]) / 2e-5
        assert rise == pytest.approx(fun(x, i)[1] @ direction, rel=1e-6, abs=1e-6)
    assert x0.size <= 3 * n, "the library's subspace must be able to span the full space"


# The oracle by itself


def random_history(rng, m, length, hessian=None):
    """Pairs of steps and gradient changes, of a quadratic if its Hessian is given."""
    steps = rng.normal(size=(length, m)) * np.geomspace(1.0, 1e-3, length)[:, None]
    changes = steps @ hessian if hessian is not None else rng.normal(size=(length, m))
    return [(step, change, 1e-15, 1e-15) for step, change in zip(steps, changes, strict=True)]


@pytest.mark.parametrize("length", [1, 3, 6])
def test_q_is_the_smallest_solution_of_the_squared_secant_equation(length):
    rng = np.random.default_rng(0)
    S, Y = rng.normal(size=(2, 6, length))
    squared = pinv(S).T @ Y.T @ Y @ pinv(S)
    values, vectors = eigh(squared)
    q = vectors @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    np.testing.assert_allclose(S.T @ q @ q @ S, Y.T @ Y, atol=1e-10)
    found, _ = q_eigenvalues(Y, pinv(S), np.zeros(length))
    np.testing.assert_allclose(np.sort(found)[-length:], np.sqrt(values[-length:]), rtol=1e-8)
    outside = np.eye(6) - S @ pinv(S)
    np.testing.assert_allclose(q @ outside, 0.0, atol=1e-6)


@pytest.mark.parametrize("update", [bfgs, rank_one])
def test_last_pair_satisfies_the_secant_equation(update):
    rng = np.random.default_rng(1)
    for _ in range(20):
        pairs = random_history(rng, 7, 4)
        B, *_ = secant_hessian(pairs, update, 1e-8)
        step, change, *_ = pairs[-1]
        np.testing.assert_allclose(B @ step, change, rtol=1e-8, atol=1e-8 * norm(change))
        np.testing.assert_allclose(B, B.T, atol=1e-10 * norm(B))


def test_bfgs_agrees_with_the_formula_for_the_inverse():
    rng = np.random.default_rng(2)
    root, step = rng.normal(size=(5, 5)), rng.normal(size=5)
    B = root @ root.T + np.eye(5)
    change = B @ step + 0.1 * step
    shear = np.eye(5) - np.outer(step, change) / (change @ step)
    expected = shear @ inv(B) @ shear.T + np.outer(step, step) / (change @ step)
    np.testing.assert_allclose(inv(bfgs(B, step, change)), expected, rtol=1e-9, atol=1e-9)


def test_rank_one_recovers_a_quadratic():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(5, 5))
    hessian = root @ root.T + np.eye(5)
    B, *_ = secant_hessian(random_history(rng, 5, 5, hessian), rank_one, 1e-8)
    np.testing.assert_allclose(B, hessian, rtol=1e-6, atol=1e-6)


def test_only_too_small_eigenvalues_become_the_median_positive_one():
    rotation = qr(np.random.default_rng(4).normal(size=(6, 6)))[0]
    values = np.array([-3.0, 1e-9, 1.0, 2.0, 4.0, 5.0])
    expected = np.array([2.0, 2.0, 1.0, 2.0, 4.0, 5.0])
    B = rotation @ np.diag(values) @ rotation.T
    fixed = positive_definite(B, 1e-8, fallback=7.0)
    np.testing.assert_allclose(fixed, rotation @ np.diag(expected) @ rotation.T, atol=1e-12)
    fixed = positive_definite(-B @ B - np.eye(6), 1e-8, fallback=7.0)
    np.testing.assert_allclose(fixed, 7.0 * np.eye(6))


@pytest.mark.parametrize("initially_active", [2, 6])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("update", UPDATES)
def test_oracle_finds_the_exact_minimum_of_quadratics(update, target, initially_active):
    fun, x0, n = quadratics(seed=5)

    def total_gradient(x):
        return sum(fun(x, i)[1] for i in range(n))

    hessian = np.array([total_gradient(unit) - total_gradient(0 * x0) for unit in np.eye(x0.size)])
    minimum = -solve(hessian, total_gradient(0 * x0))
    rng = np.random.default_rng(6)
    oracle = Oracle(x0, n, rng, update=update, target=target, initially_active=initially_active)
    drive(oracle, fun, 40 * n)
    np.testing.assert_allclose(oracle.x, minimum, atol=1e-6)
    assert oracle.active_count == n


def test_newton_step_reaches_the_minimum_of_the_model():
    fun, x0, n = ripples(seed=7)
    oracle = Oracle(x0, n, np.random.default_rng(7))
    for _ in range(60):
        before = oracle.total_hessian() if oracle.measured() else None
        index, position = oracle.ask()
        if before is not None and position is oracle.x:
            short = oracle.total_gradient(oracle.home) * (1.0 - oracle.eta)
            np.testing.assert_allclose(oracle.total_gradient(position), short, atol=1e-9 * norm(before))
        oracle.tell(*fun(position, index))
        assert all(np.linalg.eigvalsh(oracle.H[i]).min() > 0.0 for i in oracle.measured())


def test_oracle_is_invariant_to_rotation_and_scale():
    fun, x0, n = quadratics(seed=8)
    rotation = 4.0 * qr(np.random.default_rng(8).normal(size=(x0.size, x0.size)))[0]

    def rotated(z, i):
        value, gradient = fun(rotation @ z, i)
        return 1e6 * value, 1e6 * rotation.T @ gradient

    plain = drive(Oracle(x0, n, np.random.default_rng(9)), fun, 40)
    turned = drive(Oracle(solve(rotation, x0), n, np.random.default_rng(9)), rotated, 40)
    np.testing.assert_allclose(turned @ rotation.T, plain, atol=1e-5)


def test_oracle_gives_up_on_what_is_never_finite():
    oracle = Oracle(np.ones(3), 2, np.random.default_rng(0))
    oracle.tell(np.nan, np.ones(3))
    assert oracle.ask() is None and oracle.failed


# The library against the oracle


class Comparison:
    """The library, the oracle, and the oracle's twin that sees slightly wrong numbers, on one problem.

    A run of this algorithm is chaotic, so two right implementations part company sooner or later. The twin tells when:
    it is fed gradients and positions with errors of a few roundings, and the library must agree with the oracle for as
    long as the oracle agrees with its twin. What is decided among roundings is not compared: values that differ by no
    more, steps no longer.
    """

    noise, twins_apart, tolerance = 5e-16, 1e-10, 1e-6

    def __init__(self, problem, seed, embedding=None, **options):
        self.fun, x0, n = problem(seed=seed)
        self.embedding = np.eye(x0.size) if embedding is None else embedding
        # The oracle has no record of the best to go back to, and no memory of strides.
        chosen = {**options, "without": (*options.get("without", ()), 17, 18)}
        self.library = Optimizer(self.embedding @ x0, n, np.random.default_rng(seed), Options(**chosen))
        self.oracle = Oracle(x0, n, np.random.default_rng(seed), **options)
        self.twin = Oracle(self.noisy(x0), n, np.random.default_rng(seed), **options)
        self.compared, self.events = 0, Counter()

    def noisy(self, vector):
        """Return the vector with an error that is always the same for the same vector, so that equals stay equal."""
        error = np.random.default_rng(crc32(vector.tobytes())).normal(size=vector.size)
        return vector + self.noise * norm(vector) * error / norm(error)

    def rounding(self):
        """Return a length that is lost in the rounding of positions."""
        oracle = self.oracle
        return 8.0 * EPS * max(norm(x) for x in (oracle.x0, oracle.x, *oracle.last_x) if x is not None)

    def difference(self, asked, state):
        """Return how far another's question is from the oracle's, in steps; infinite if anything else differs."""
        index, position = self.oracle.ask()
        if asked[0] != index or state[:2] != self.state(self.oracle)[:2] or abs(state[2] - self.oracle.eta) > 1e-12:
            return np.inf
        away = max(norm(asked[1] - position) - self.rounding(), 0.0)
        return away / (norm(self.oracle.x - self.oracle.home) + self.rounding()) if away else 0.0

    def state(self, oracle):
        """Return what must agree besides the question."""
        return oracle.outcome, oracle.active_count, oracle.eta

    def step_is_lost_in_rounding(self):
        """Whether the last step is too short to be compared."""
        return 0.0 < norm(self.oracle.x - self.oracle.home) < 8.0 * self.rounding()

    def run(self, evaluations, follow):
        """Compare until the twins part. To follow: the library leads, and the others are told where it evaluated."""
        library, oracle, twin = self.library, self.oracle, self.twin
        state = None, oracle.active_count, 1.0
        for _ in range(evaluations):
            if oracle.ask() is None or twin.ask() is None:
                assert (oracle.ask() is None) == (library.failure is not None)
                break
            query = library.ask()
            position = self.embedding.T @ query.position
            difference = self.difference((query.index, position), state)
            apart = self.difference(twin.ask(), self.state(twin))
            if apart <= self.twins_apart:
                assert difference <= self.tolerance, (
                    f"evaluation {library.evaluations}, twins {apart:.0e} steps apart, library {difference:.0e}: "
                    f"{query.index} {position} {state}, oracle {oracle.ask()} {self.state(oracle)}"
                )
                self.compared += 1
                self.events = Counter(oracle.events)
            elif not follow or np.isinf(apart) or np.isinf(difference):
                break
            value, gradient = self.fun(position, query.index)
            info = library.tell(query, value, self.embedding @ gradient)
            state = info.outcome, info.active, info.eta
            oracle.tell(value, gradient, position if follow else None)
            twin.tell(value, self.noisy(gradient), self.noisy(position) if follow else None)
            if oracle.margin <= 4.0 * EPS or self.step_is_lost_in_rounding():
                break
        return self


EVENTS = {
    "no history": 60,
    "unmeasurable": 12,
    "negative curvature": 10,
    "rejected": 20,
    "not finite": 2,
    "first objects": 5,
    "keep": 6,
    "keep, home not finite": 1,
    "go home": 10,
    "shorter": 6,
    "shorter, keep": 2,
    "shorter, go home": 1,
    "shorter, give up": 1,
    "farther back": 2,
    "outlying": 2,
    "grew: inequality": 15,
    "grew: full pass": 4,
    "grew: bad update": 3,
}
"""How often each thing must have happened at least, in the comparisons of one variant, for them to mean something."""


def compare_all(follow, **options):
    """Compare on every problem, from a short first step (the default) and from a long one."""
    cases = [(problem, seed, first, 60) for problem in COLLECTION for seed, first in ((0, None), (1, 5.0))]
    cases += [(unreliable, seed, 5.0, 160) for seed in range(4)]
    runs = [
        Comparison(problem, seed, initial_curvature=first, **options).run(evaluations, follow)
        for problem, seed, first, evaluations in cases
    ]
    return sum(run.compared for run in runs), sum((run.events for run in runs), Counter())


@pytest.mark.parametrize("follow", [False, True], ids=["alone", "following"])
@pytest.mark.parametrize("initially_active", [2, 3, 100])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("update", UPDATES)
def test_library_equals_the_oracle(update, target, initially_active, follow):
    compared, events = compare_all(follow, update=update, target=target, initially_active=initially_active)
    assert compared >= (900 if follow else 500)
    for event, least in EVENTS.items():
        never = initially_active == 100 and event.startswith("grew")
        assert events[event] >= least or never or (least < 3 and not follow), (event, events)


@pytest.mark.parametrize(
    "options",
    [
        {"history": 1},
        {"history": 3, "initially_active": 1},
        {"noise": 0.1, "smallest_ratio": 0.1},
        {"smallest_ratio": 1e-10},
        {"noise": 5.0, "smallest_ratio": 0.3, "update": "rank-one"},
        {"without": (14, 15, 16)},
        {"without": (14, 15, 16), "update": "rank-one", "target": "random"},
        {"without": (16,)},
        {"without": (14,), "target": "cyclic"},
    ],
)
def test_library_equals_the_oracle_with_other_options(options):
    assert compare_all(True, **options)[0] >= 850


@pytest.mark.parametrize("update", UPDATES)
def test_library_equals_the_oracle_in_a_proper_subspace(update):
    """Three variables among forty, the others without effect: the basis is complete after three gradients."""
    embedding = np.eye(40)[:, [3, 19, 30]]
    for seed in range(5):
        run = Comparison(lambda seed: quadratics(seed, n=6, m=3), seed, embedding, update=update).run(60, follow=True)
        assert run.compared >= 7
