"""What was wrong once, and must not come back."""

import pickle

import numpy as np
import problems
import pytest
from core.driving import drive, fresh_gradient, progress, start, total

from benchmarks.lab import networks
from sumopt.core.hessian import secant_curvatures
from sumopt.core.history import Pairs


def exponentials(seed):
    """Sums of exponentials in one variable, of very different steepness."""
    rng = np.random.default_rng(seed)
    slopes, offsets = rng.normal(size=(20, 1)), rng.normal(size=(20, 1))

    def fun(x, i):
        value = np.exp(slopes[i] @ x - offsets[i] * slopes[i]).sum()
        return value, slopes[i] * value

    return fun, rng.normal(size=1) + 3.0, 20


@pytest.mark.parametrize("seed", range(12))
def test_a_curvature_that_was_inherited_is_not_inherited_again(seed):
    """Each re-evaluation used to multiply it by how much its gradient stood out, until it overflowed."""
    problem = exponentials(seed)
    optimizer, fun = start(problem, seed)
    drive(optimizer, fun, 400)
    surrogate = optimizer.surrogate
    steepest = max(fun(position, i)[1] @ fun(position, i)[1] for position in (problem[1],) for i in range(20))
    assert surrogate.diagonals.max() < 1e12 * (1.0 + steepest)
    assert total(problem, optimizer.x) < total(problem, problem[1])


def test_what_learns_nothing_keeps_its_curvature_and_what_does_not_change_shortens_it():
    optimizer, fun = start(problems.logistic(seed=1))
    drive(optimizer, fun, 3 * optimizer.n)
    surrogate, i = optimizer.surrogate, 2
    surrogate.history.forget(i)
    place, gradient, before = surrogate.positions[i].copy(), surrogate.gradients[i].copy(), surrogate.diagonals[i]
    surrogate.observe(i, place, 1.0, 2.0 * gradient, comparable=True, resolution=1.0)
    assert surrogate.diagonals[i] == before
    surrogate.observe(i, place, 1.0, 2.0 * gradient, comparable=True, resolution=1.0)
    assert surrogate.diagonals[i] == before / 10


def test_steps_told_apart_by_rounding_alone_say_nothing():
    """Two steps that are the same but for the rounding of x, and changes that are not: no curvature comes of it."""
    step = np.array([1.0, 0.0, 0.0])
    pairs = Pairs(
        np.array([step, [1.0, 1e-7, 0.0]]),
        np.array([2.0 * step, [2.0, 0.3, 0.0]]),
        np.full(2, 1e-6),
        np.full(2, 1e-6),
    )
    curvatures, _ = secant_curvatures(pairs)
    assert curvatures[0] == pytest.approx(2.0, rel=0.1)


def test_one_uncertain_direction_does_not_hide_the_others():
    """What rounding can make of a zero is told curvature by curvature."""
    steps = np.diag([1.0, 1.0, 1e-5])
    pairs = Pairs(steps, steps * [3.0, 2.0, 4e6], np.zeros(3), np.full(3, 1e-3))
    curvatures, zeros = secant_curvatures(pairs)
    assert np.allclose(np.sort(curvatures), [2.0, 3.0, 4e6])
    assert (zeros < curvatures).all()


def test_a_replacement_is_not_judged_by_what_it_replaced():
    """A query is pending, all the others are replaced by higher ones, and the pass ends."""
    problem, other = problems.logistic(seed=0), problems.logistic(seed=100)[0]
    optimizer, fun = start(problem)
    drive(optimizer, fun, 8 * optimizer.n - 1)
    query, replaced = optimizer.ask(), set()

    def changed(x, i):
        value, gradient = (other if i in replaced else fun)(x, i)
        return value + 5.0 * (i in replaced), gradient

    replaced.update(set(range(optimizer.n)) - {query.index})
    for index in replaced:
        optimizer.replace(index)
    optimizer.tell(query, *fun(query.position, query.index))
    drive(optimizer, changed, 20 * optimizer.n)
    assert optimizer.fun == pytest.approx(total((changed, None, optimizer.n), optimizer.x), rel=1e-3)
    assert optimizer.stands_at_best


@pytest.mark.parametrize("lag", [1, 10])
def test_one_that_is_replaced_all_the_time_does_not_starve_the_others(lag):
    problem = problems.quadratics(seed=0, n=10, m=10, condition=10.0)
    optimizer, fun = start(problem)
    asked = []
    for _ in range(300):
        query = optimizer.ask()
        asked.append(query.index)
        optimizer.tell(query, *fun(query.position, query.index))
        if len(asked) >= lag:
            optimizer.replace(asked[-lag], keep_history=True)
    assert optimizer.active == 10
    assert np.bincount(asked[100:], minlength=10).min() >= 5


def test_replacing_all_means_that_all_are_wanted_soon():
    problem = problems.logistic(seed=2)
    optimizer, fun = start(problem)
    drive(optimizer, fun, 8 * optimizer.n)
    for index in range(optimizer.n):
        optimizer.replace(index)
    queries, _ = drive(optimizer, fun, 3 * optimizer.n)
    assert {query.index for query in queries} == set(range(optimizer.n))


@pytest.mark.parametrize("seed", [3, 4, 7])
def test_the_watchdog_does_not_hold_back_a_run_of_two(seed):
    """Each of two rises on the other's step, so that the sum of latest values is of places that were left."""
    rng = np.random.default_rng(seed)
    features, targets = rng.normal(size=(2, 80, 40)) * np.geomspace(1, 10, 40), rng.normal(size=(2, 80))

    def fun(x, i):
        error = features[i] @ x - targets[i]
        return 0.5 * error @ error, features[i].T @ error

    problem = fun, np.zeros(40), 2
    best = np.linalg.lstsq(features.reshape(-1, 40), targets.ravel(), rcond=None)[0]
    optimizer, _ = start(problem, seed)
    drive(optimizer, fun, 600)
    gap, whole = (total(problem, x) - total(problem, best) for x in (optimizer.here, np.zeros(40)))
    assert gap < 1e-9 * whole


@pytest.mark.parametrize("n", [10, 20])
def test_a_network_at_zero_loss_is_not_lost(n):
    """Gradients are rounding there and models flat: the published algorithm leaves, and does not come back."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(n, 5, 8))
    labels = np.argmax(inputs @ rng.normal(size=(8, 3)), axis=2)
    shapes = ((8, 12), (12,), (12, 3), (3,))
    x0 = np.concatenate([0.3 * rng.normal(size=np.prod(shape)) for shape in shapes])

    def fun(x, i):
        return networks.dense_value(x, (inputs[i], np.eye(3)[labels[i]]), shapes, ("tanh",), "softmax")

    problem = fun, x0, n
    optimizer, _ = start(problem)
    stands = []
    for _ in range(90):
        drive(optimizer, fun, n)
        stands.append(total(problem, optimizer.here))
    assert min(stands) < 1e-8 * total(problem, x0)
    assert min(stands[-10:]) < 1e-3 * total(problem, x0)


@pytest.mark.parametrize(("dtype", "size"), [(np.float64, 1e-320), (np.float64, 1e-300), (np.float32, 1e-42)])
def test_gradients_too_small_to_be_told_from_zero_count_as_zero(dtype, size):
    optimizer = start((None, np.ones(50), 3), dtype=dtype, max_subspace=8)[0]
    rng = np.random.default_rng(0)
    for _ in range(60):
        query = optimizer.ask()
        optimizer.tell(query, 1.0, (size * rng.normal(size=50)).astype(dtype))
    assert optimizer._subspace.size == 0
    assert np.array_equal(optimizer.x, np.ones(50))


def test_a_term_that_overwhelmed_the_sums_leaves_no_rounding_behind():
    optimizer, fun = start(problems.logistic(seed=4), without=(14, 15, 16, 17, 18))
    huge = int(optimizer._set.order[0])

    def shrinking(x, i):
        value, gradient = fun(x, i)
        factor = 1e14 if i == huge and optimizer.evaluations < 9 else 1.0
        return factor * value, factor * gradient

    worst = 0.0
    for _ in range(4 * optimizer.n):
        drive(optimizer, shrinking, 1)
        surrogate = optimizer.surrogate
        here = optimizer._home.coordinates
        away = here - surrogate.positions[: surrogate.count]
        bent = [np.linalg.norm(surrogate.hessian(i) @ away[i]) for i in range(surrogate.count)]
        scale = np.abs(surrogate.gradients).sum() + sum(bent)
        worst = max(worst, np.linalg.norm(surrogate.sums.gradient_at(here) - fresh_gradient(surrogate, here)) / scale)
    assert worst < 1e-9


def test_an_interrupted_tell_leaves_x_and_says_so(monkeypatch):
    optimizer, fun = start(problems.logistic(seed=2))
    drive(optimizer, fun, 30)
    kept = optimizer.x

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(optimizer.surrogate, "_fit", interrupt)
        query = optimizer.ask()
        with pytest.raises(KeyboardInterrupt):
            optimizer.tell(query, *fun(query.position, query.index))
    assert np.isfinite(optimizer.x).all()
    assert np.linalg.norm(optimizer.x - kept) < 1.0
    with pytest.raises(RuntimeError, match="interrupted"):
        optimizer.ask()


def test_an_interrupted_tell_does_not_lose_the_best_position(monkeypatch):
    problem = problems.logistic(seed=3)
    optimizer, fun = start(problem, without=(17,))
    drive(optimizer, fun, 20 * problem[2])
    drive(optimizer, lambda x, i: (fun(x, i)[0] + 10.0, fun(x, i)[1] + 1.0), 20 * problem[2])
    assert not optimizer.stands_at_best
    best, least = optimizer.x, optimizer.fun
    query = optimizer.ask()
    with monkeypatch.context() as patch:
        patch.setattr(optimizer, "_settle", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr(optimizer, "_go_on", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            optimizer.tell(query, *fun(query.position, query.index))
    assert np.array_equal(optimizer.x, best)
    assert optimizer.fun == least


# Found while building: what a first version got wrong.


@pytest.mark.parametrize("n", [2, 4, 10])
@pytest.mark.parametrize("dead", [2, 3, 1000])
def test_gradients_that_are_zero_leave_the_basis_empty_for_a_while(n, dead):
    def fun(x, i):
        return (1.0, np.zeros(100)) if i < dead else (float(x @ x), 2 * x)

    optimizer, _ = start((fun, np.ones(100), n))
    drive(optimizer, fun, 20 * n)
    assert np.allclose(optimizer.x, 0.0 if dead < n else 1.0, atol=1e-6)


@pytest.mark.parametrize(("n", "samples", "m"), [(1, 80, 50), (2, 40, 50), (5, 20, 50), (5, 8, 60), (10, 10, 50)])
def test_pairs_that_a_collapse_has_spoilt_do_no_harm(n, samples, m):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        features, targets = rng.normal(size=(n, samples, m)), rng.normal(size=(n, samples))
        best = np.linalg.lstsq(features.reshape(-1, m), targets.ravel(), rcond=None)[0]

        def fun(x, i, features=features, targets=targets):
            error = features[i] @ x - targets[i]
            return float(error @ error), 2 * features[i].T @ error

        problem = fun, np.zeros(m), n
        optimizer, _ = start(problem, seed=seed)
        queries, _ = drive(optimizer, fun, 50 * n)
        assert max(np.linalg.norm(query.position) for query in queries) < 10 * np.linalg.norm(best)
        gap = total(problem, optimizer.x) - total(problem, best)
        assert gap < 1e-3 * (total(problem, problem[1]) - total(problem, best))


def test_an_optimizer_can_be_copied_at_any_moment():
    problem = problems.ripples(seed=1)
    optimizer, fun = start(problem)
    for _ in range(60):
        twin = pickle.loads(pickle.dumps(optimizer))
        ours, theirs = optimizer.ask(), twin.ask()
        assert np.array_equal(ours.position, theirs.position)
        assert (ours.index, ours.ticket) == (theirs.index, theirs.ticket)
        assert drive(optimizer, fun, 1)[1] == drive(twin, fun, 1)[1]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_replacing_revives_a_run_that_has_ended(index):
    problem = problems.logistic(seed=4)
    optimizer, fun = start(problem)
    drive(optimizer, fun, 40)
    drive(optimizer, lambda x, _: (np.nan, np.full_like(x, np.nan)), 1000)
    assert optimizer.failure is not None
    optimizer.replace(index)
    assert optimizer.failure is None
    drive(optimizer, fun, 20 * problem[2])
    assert np.linalg.norm(sum(fun(optimizer.x, i)[1] for i in range(problem[2]))) < 1e-5


def test_a_query_of_another_optimizer_is_refused():
    ours, theirs = (start(problems.logistic(seed=2), seed=seed)[0] for seed in (0, 1))
    query = theirs.ask()
    assert ours.ask().index != query.index
    with pytest.raises(ValueError, match="not pending"):
        ours.tell(query, 1.0, np.ones(7))


def test_a_curvature_of_zero_is_not_the_smallest_one_in_float32():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(5, 6, 8))
    targets = features @ rng.normal(size=8) + rng.normal(size=(5, 6))
    best = np.linalg.lstsq(features.reshape(30, 8), targets.ravel(), rcond=None)[0]

    def fun(x, i):
        error = features[i] @ x - targets[i]
        return 0.5 * error @ error, features[i].T @ error

    problem = fun, best, 5
    optimizer, _ = start(problem, dtype=np.float32)
    drive(optimizer, fun, 100 * 5)
    assert total(problem, optimizer._home.vector) - total(problem, best) < 1e-6 * total(problem, best)


@pytest.mark.parametrize("seed", range(8))
def test_subfunctions_of_different_nature_do_not_run_away(seed):
    problem = problems.powers_of_distance(seed=seed)
    queries, _ = drive(*start(problem), 20 * problem[2])
    assert max(np.linalg.norm(query.position) for query in queries) < 1e3
    assert progress(problem, 20) > 0.99


@pytest.mark.parametrize("scale", [1.0, 5.0, 30.0])
def test_exponentials_far_out_do_not_freeze_the_run(scale):
    rng = np.random.default_rng(0)
    features = scale * rng.normal(size=(20, 30, 6))
    counts = rng.poisson(np.exp(np.clip(features @ rng.normal(size=6) / 3, -5, 5)))

    def fun(x, i):
        exponents = features[i] @ x
        with np.errstate(over="ignore"):
            rates = np.exp(exponents)
            return (rates - counts[i] * exponents).mean(), features[i].T @ (rates - counts[i]) / 30

    assert progress((fun, np.zeros(6), 20), 20) > 0.999


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_best_position_is_not_one_that_only_seemed_good(n):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        features, targets = rng.normal(size=(n, 12, 5)), rng.normal(size=(n, 12))

        def fun(x, i, features=features, targets=targets):
            error = features[i] @ x - targets[i]
            return 0.5 * error @ error, features[i].T @ error

        problem = fun, rng.normal(size=5), n
        optimizer, _ = start(problem, seed=seed)
        drive(optimizer, fun, 60 * n)
        assert total(problem, optimizer.x) <= total(problem, optimizer._home.vector) * (1 + 1e-6)
