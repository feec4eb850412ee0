"""What the authors' code of 2014 got wrong, one test for each; each fails on the old behaviour."""

import pickle

import numpy as np
import problems
import pytest
from core.driving import drive, progress, start, total

from sumopt.core.hessian import secant_curvatures
from sumopt.core.history import Pairs


def scaled(problem, factor):
    """The same problem in another unit of F."""
    fun, x0, n = problem

    def times(x, i):
        value, gradient = fun(x, i)
        return factor * value, factor * gradient

    return times, x0, n


def distances(vectors):
    """How far each of some vectors is from each."""
    stack = np.array(vectors)
    return np.linalg.norm(stack[:, None] - stack[None], axis=-1)


# 1. A rejected first evaluation stored a false pair, and froze what is steep or ill-conditioned.


def test_a_first_evaluation_makes_no_history():
    rejected = 0
    for seed in range(8):
        optimizer, fun = start(problems.powers_of_distance(seed=seed), seed=seed)
        met = set()
        for _ in range(60):
            (query,), (info,) = drive(optimizer, fun, 1)
            if query.index in met:
                continue
            points = [query.position]
            while optimizer._trial is not None:
                points += [asked.position for asked in drive(optimizer, fun, 1)[0]]
            met.add(query.index)
            pairs = optimizer.surrogate.history.of(optimizer.surrogate.measured_at.argmax(), optimizer.surrogate.size)
            steps, changes = pairs.steps, pairs.changes
            assert len(steps) == (info.outcome == "rejected")
            if info.outcome == "rejected":
                # One pair: the difference between two of the points, and nothing from nowhere.
                gradients = [fun(point, query.index)[1] for point in points]
                found = np.linalg.norm(steps[0]), np.linalg.norm(changes[0])
                assert (np.isclose(distances(points), found[0]) & np.isclose(distances(gradients), found[1])).any()
                rejected += 1
    assert rejected >= 3


@pytest.mark.parametrize(("factor", "condition"), [(1e7, 10.0), (1.0, 1e8), (1e7, 1e4)])
def test_steep_and_ill_conditioned_problems_do_not_freeze(factor, condition):
    problem = scaled(problems.quadratics(seed=1, n=6, m=8, condition=condition), factor)
    assert progress(problem, 25) > 0.9


# 2. A first evaluation was compared with the mean and deviation of others: with one, of zero deviation.


def test_a_larger_subfunction_is_no_failed_step():
    fun, x0, n = problems.quadratics(seed=0, n=8, m=8, condition=3.0)

    def uneven(x, i):
        value, gradient = fun(x, i)
        return value + 1e4 * i, gradient

    _, infos = drive(*start((uneven, x0, n)), 12)
    level_infos = drive(*start((fun, x0, n)), 12)[1]
    assert [i.outcome for i in infos] == [i.outcome for i in level_infos]


# 3. A mean step of zero as the unit of the longest step kept it at zero for ever.


def test_a_flat_start_is_left_behind():
    fun, x0, n = problems.quadratics(seed=2, n=6, m=6, condition=10.0)

    def flat_first(x, i):
        return fun(x, i) if i > 3 else (1.0, np.zeros_like(x))

    for seed in range(6):
        assert progress((flat_first, x0, n), 30, seed=seed) > 0.99


# 4. A gradient of exactly zero made NaN of x.


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 5), (4, 1), (5, 3)])
def test_zero_gradients_are_numbers(n, m):
    optimizer, fun = start((lambda x, _: (3.0, np.zeros_like(x)), np.ones(m), n))
    _, infos = drive(optimizer, fun, 10 * n)
    assert np.array_equal(optimizer.x, np.ones(m))
    assert len(infos) == 10 * n
    assert not np.isnan(optimizer.values).any()


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 3), (3, 1), (6, 4), (40, 2)])
def test_identical_subfunctions_reach_their_minimum(n, m):
    optimizer, fun = start((lambda x, _: (0.5 * x @ x, x.copy()), np.arange(1.0, m + 1), n))
    drive(optimizer, fun, 10 * n + 40)
    assert np.abs(optimizer.x).max() < 1e-6


# 5. One value that is not finite poisoned the state; only such values never ended.


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["value", "gradient", "both"])
@pytest.mark.parametrize("when", [0, 1, 3, 30])
def test_one_bad_number_is_survived(bad, where, when):
    problem = problems.logistic(seed=4)
    fun, x0, n = problem
    calls = 0

    def spoilt(x, i):
        nonlocal calls
        calls += 1
        value, gradient = fun(x, i)
        if calls == when + 1:
            value = bad if where != "gradient" else value
            gradient = np.where(np.arange(len(x)) == 0, bad, gradient) if where != "value" else gradient
        return value, gradient

    optimizer, _ = start(problem)
    _, infos = drive(optimizer, spoilt, 40 * n)
    assert infos[when].outcome == "not finite"
    if when > 0:
        assert total(problem, optimizer.x) < 0.9 * total(problem, x0)
    else:
        # At x0 itself there is nowhere to retreat to, and the sentence says which subfunction it was.
        assert f"subfunction {infos[0].index} " in optimizer.failure


@pytest.mark.parametrize("good", [0, 1, 20])
def test_never_finite_again_ends_in_bounded_evaluations(good):
    problem = problems.logistic(seed=4)
    optimizer, fun = start(problem)
    drive(optimizer, fun, good)
    _, infos = drive(optimizer, lambda x, _: (np.nan, np.full_like(x, np.nan)), 1000)
    assert len(infos) <= 10
    assert f"subfunction {infos[-1].index} was not finite" in infos[-1].failure
    assert np.isfinite(optimizer.x).all()
    with pytest.raises(RuntimeError, match="was not finite"):
        optimizer.ask()


def test_log_barriers_are_respected():
    for seed in range(5):
        problem = problems.log_barrier(seed=seed)
        optimizer, fun = start(problem, seed=seed)
        drive(optimizer, fun, 40 * problem[2])
        gradient = sum(fun(optimizer.x, i)[1] for i in range(problem[2]))
        first = sum(fun(problem[1], i)[1] for i in range(problem[2]))
        assert np.linalg.norm(gradient) < 1e-2 * np.linalg.norm(first)


# 6. The gain predicted for a shortened step was that of a full one.


def test_gain_of_a_shortened_step():
    optimizer, fun = start(problems.ripples(seed=0), without=(18,))
    shortened = 0
    for _ in range(100):
        _, infos = drive(optimizer, fun, 1)
        eta = infos[0].eta
        if infos[0].outcome in {"rejected", "not finite"} or eta == 1.0:
            continue
        full = (optimizer._here.coordinates - optimizer._home.coordinates) / eta
        bent = optimizer.surrogate.sums.hessian(optimizer.surrogate.size) @ full[: optimizer.surrogate.size]
        expected = (eta - 0.5 * eta**2) * full[: len(bent)] @ bent
        assert infos[0].predicted_gain == pytest.approx(expected, rel=1e-6)
        shortened += 1
    assert shortened > 20


# 7. Thresholds with a unit: what is small made no progress, and what is piecewise linear neither.


@pytest.mark.parametrize("factor", [1e-30, 1e-12, 1e-6, 1e6, 1e12, 1e30])
def test_progress_in_any_unit(factor):
    assert progress(scaled(problems.logistic(seed=1), factor), 10) > 0.99


@pytest.mark.parametrize("seed", range(3))
def test_piecewise_linear_functions_make_progress(seed):
    rng = np.random.default_rng(seed)
    slopes, offsets = rng.normal(size=(20, 10, 5)), rng.normal(size=(20, 10))

    def absolute(x, i):
        residual = slopes[i] @ x - offsets[i]
        return np.abs(residual).mean(), slopes[i].T @ np.sign(residual) / 10

    problem = absolute, 3.0 * rng.normal(size=5), 20
    optimizer, fun = start(problem)
    drive(optimizer, fun, 10 * 20)
    least = sum(np.abs(slopes[i] @ x - offsets[i]).mean() for x in [np.zeros(5)] for i in range(20))
    assert total(problem, optimizer.x) < least + 0.2 * (total(problem, problem[1]) - least)


# 8. What was returned was live, and a point never evaluated; an objective that edits its argument corrupted the state.


def test_an_objective_may_edit_its_argument():
    problem = problems.logistic(seed=2)
    fun, _, n = problem

    def rude(x, i):
        answer = fun(x, i)
        x[:] = -1.0
        return answer

    polite, careless = start(problem)[0], start(problem)[0]
    for _ in range(5 * n):
        ours, theirs = polite.ask(), careless.ask()
        assert np.array_equal(ours.position, theirs.position)
        polite.tell(ours, *fun(ours.position, ours.index))
        careless.tell(theirs, *rude(theirs.position, theirs.index))


def test_x_is_a_position_that_was_evaluated():
    optimizer, fun = start(problems.ripples(seed=1))
    seen = {optimizer.x.tobytes()}
    for _ in range(120):
        seen.add(optimizer.ask().position.tobytes())
        drive(optimizer, fun, 1)
        assert optimizer.x.tobytes() in seen


# 9. Replacing kept the old value to compare with; and the range of curvatures was lost in the square of a matrix.


@pytest.mark.parametrize("keep_history", [False, True])
def test_a_replaced_subfunction_is_not_compared_with_what_it_was(keep_history):
    problem = problems.logistic(seed=2)
    optimizer, fun = start(problem)
    drive(optimizer, fun, 8 * problem[2])
    optimizer.replace(3, keep_history=keep_history)
    for _ in range(problem[2]):
        query = optimizer.ask()
        if query.index == 3:
            break
        optimizer.tell(query, *fun(query.position, query.index))
    assert query.index == 3
    slot = int(np.flatnonzero(optimizer._set.order == 3)[0])
    pairs = len(optimizer.surrogate.history.of(slot, optimizer.surrogate.size).steps)
    assert (pairs > 0) == keep_history
    value, gradient = fun(query.position, 3)
    twin = pickle.loads(pickle.dumps(optimizer))
    info, same = optimizer.tell(query, value + 1e3, gradient), twin.tell(query, value, gradient)
    assert info.outcome == same.outcome
    assert np.array_equal(optimizer.ask().position, twin.ask().position)
    if info.outcome == "accepted":
        assert len(optimizer.surrogate.history.of(slot, optimizer.surrogate.size).steps) == pairs


def test_replacing_follows_new_data():
    old, new = (
        problems.quadratics(seed=0, n=6, m=6, condition=5.0),
        problems.quadratics(seed=1, n=6, m=6, condition=5.0),
    )
    optimizer, fun = start(old)
    drive(optimizer, fun, 60)
    for i in range(6):
        optimizer.replace(i)
    drive(optimizer, new[0], 120)
    expected = start(new)[0]
    drive(expected, new[0], 200)
    assert np.allclose(optimizer.x, expected.x, atol=1e-5)


def test_a_query_for_a_replaced_subfunction_is_void():
    optimizer, fun = start(problems.logistic(seed=2))
    query = optimizer.ask()
    optimizer.replace(query.index)
    with pytest.raises(ValueError, match="not pending"):
        optimizer.tell(query, *fun(query.position, query.index))
    drive(optimizer, fun, 10)


@pytest.mark.parametrize("decades", [4, 8, 12])
def test_range_of_curvatures_is_kept(decades):
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    curvatures = np.geomspace(1.0, 10.0**-decades, 8)
    pairs = Pairs(axes.T, (axes * curvatures).T, np.zeros(8), np.zeros(8))
    found, _ = secant_curvatures(pairs)
    assert np.allclose(found, curvatures, rtol=1e-2, atol=0.0)


# 10 is Ctrl-C, and stands with the tests of minimize.
