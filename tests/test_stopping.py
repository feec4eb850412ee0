"""When a run may be called converged: whenever it is, and never when it is not."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sumopt import Info, minimize
from sumopt.stopping import StoppingTest, full_gain

EPSILON = float(np.finfo(float).eps)
N = 6


def info(evaluation, index, value, **fields):
    """An evaluation of a run that goes well; the fields say otherwise."""
    good = {
        "outcome": "accepted",
        "eta": 1.0,
        "step_length": 1e-6,
        "predicted_gain": 1e-14,
        "gradient_norm": 1e-6,
        "gradient_scale": float(N),
        "active": N,
        "subspace_size": 3,
        "failure": None,
    }
    return Info(evaluation=evaluation, index=index, value=value, **{**good, **fields})


def told(rounds, tol=1e-8, length=1.0, moved=1.0):
    """The verdict after rounds, in each of which every subfunction is measured once: fields, or (value, fields)."""
    test = StoppingTest(N, tol, EPSILON)
    evaluation = 0
    for value, fields in rounds:
        for index in range(N):
            evaluation += 1
            test.observe(info(evaluation, index, value, **fields))
    return test.verdict(length, moved)


DESCENT = [(10.0, {}), (2.0, {"predicted_gain": 1.0, "gradient_norm": 1.0, "step_length": 1.0})]
REST = [(1.0, {}), (1.0, {}), (1.0, {})]


def test_a_run_at_rest_has_converged():
    assert told(DESCENT + REST) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"predicted_gain": 1e-3},
        {"gradient_norm": 1e-2, "predicted_gain": 0.0},
        {"active": N - 1},
        {"eta": 1e-6, "predicted_gain": 1e-9},
        {"gradient_norm": np.inf},
        {"gradient_norm": np.nan},
        {"predicted_gain": np.nan, "gradient_norm": 1e-5, "step_length": np.nan},
    ],
    ids=["models foresee more", "gradient left", "not all active", "cut short", "infinite", "nan", "nan gain"],
)
def test_values_at_rest_are_not_enough(fields):
    assert told(DESCENT + [(1.0, fields)] * 3) is None


def test_models_at_rest_are_not_enough():
    assert told([*DESCENT, (1.5, {}), (1.2, {}), (1.0, {"gradient_norm": 1e-5})]) is None


def test_a_rise_is_no_rest():
    assert told([*DESCENT, (1.0, {}), (1.0, {}), (1.2, {"gradient_norm": 1e-5})]) is None


def test_one_subfunction_that_was_not_measured_lately_reopens_the_case():
    """Its value of the restless time counts, together with what happened since."""
    test = StoppingTest(N, 1e-8, EPSILON)
    evaluation = 0
    for value, fields in DESCENT + REST:
        for index in range(N if value > 1.0 else N - 1):
            evaluation += 1
            test.observe(info(evaluation, index, value, **fields))
    assert test.verdict(1.0, 1.0) is None
    for index in range(N):
        test.observe(info(0, index, 1.0))
    assert test.verdict(1.0, 1.0) is None
    for index in range(N):
        test.observe(info(0, index, 1.0))
    assert test.verdict(1.0, 1.0) is not None


@pytest.mark.parametrize("outcome", ["rejected", "not finite"])
def test_evaluations_that_were_rejected_prove_nothing(outcome):
    assert told([*DESCENT, *[(1.0, {"outcome": outcome})] * 5]) is None


def test_each_must_have_been_measured_twice():
    assert told([(1.0, {})]) is None
    assert told([]) is None


def test_a_plateau_with_rejected_steps_is_not_converged():
    """Steps are short for they are cut, values stand still for steps are short; the gradient is what it was."""
    plateau = []
    for k in range(1, 8):
        eta = 0.5**k
        plateau += [
            (7.0, {"outcome": "rejected"}),
            (1.0, {"outcome": "retry", "eta": eta, "step_length": eta, "predicted_gain": eta, "gradient_norm": 0.5}),
        ]
    assert told(DESCENT + plateau) is None


def test_steps_that_were_rejected_do_not_hide_convergence():
    cut = {"outcome": "retry", "eta": 0.01, "predicted_gain": 1e-16}
    assert told(DESCENT + [(1.0 + 1e-9, {"outcome": "rejected"}), (1.0, cut)] * 4) is not None


def test_a_scale_from_an_explosion_proves_nothing():
    """Gradients that exploded on the way are no measure for what is small."""
    exploded = [(1e150, {"gradient_scale": 1e150, "gradient_norm": 1e150, "predicted_gain": 1e150})]
    still_high = [
        (1e130, {"gradient_scale": 1e120, "gradient_norm": 1e120, "predicted_gain": 1e130, "step_length": 1e9})
    ]
    test = StoppingTest(N, 1e-8, EPSILON)
    for index in range(N):
        test.observe(info(0, index, 1.0) if index == 0 else info(0, index, exploded[0][0], **exploded[0][1]))
    for value, fields in still_high * 6:
        for index in range(N):
            test.observe(info(0, index, value, **fields))
    assert test.verdict(1e30, 1.0) is None


@given(st.floats(-12, 12), st.floats(-6, 6))
def test_the_verdict_does_not_depend_on_units(value_exponent, length_exponent):
    """F in other units, and x in other units: the same verdict, whichever it is."""
    values, lengths = 10.0**value_exponent, 10.0**length_exponent
    for gains in (1e-14, 1e-3):
        rounds = DESCENT + [(1.0, {"predicted_gain": gains})] * 3
        scaled = [
            (
                value * values,
                {
                    "predicted_gain": fields.get("predicted_gain", 1e-14) * values,
                    "gradient_norm": fields.get("gradient_norm", 1e-6) * values / lengths,
                    "gradient_scale": N * values / lengths,
                    "step_length": fields.get("step_length", 1e-6) * lengths,
                },
            )
            for value, fields in rounds
        ]
        assert (told(scaled, length=lengths, moved=lengths) is None) == (told(rounds) is None)


@given(st.floats(-1e6, 1e6))
def test_the_verdict_does_not_depend_on_offsets(offset):
    for gains in (1e-14, 1e-3):
        rounds = DESCENT + [(1.0, {"predicted_gain": gains})] * 3
        shifted = [(value + offset, fields) for value, fields in rounds]
        assert (told(shifted) is None) == (told(rounds) is None)


def test_a_gradient_at_rest_is_enough_whatever_the_values():
    """Where the values go on in their rounding, or by an offset that is not there, the gradient decides."""
    assert "gradient" in told([*DESCENT, *[(1.0, {"gradient_norm": 1e-9, "predicted_gain": 1e-3})] * 3])


def test_a_gain_is_judged_as_that_of_a_full_step():
    """The quadratic model with gradient 3 and curvature 2 gains 9/4, of which a fraction eta takes its part."""
    for eta in (1.0, 0.5, 0.01):
        step = eta * 1.5
        assert full_gain(info(0, 0, 0.0, eta=eta, predicted_gain=3 * step - step**2)) == pytest.approx(9 / 4)
    assert full_gain(info(0, 0, 0.0, eta=0.0)) == np.inf


def test_steps_below_rounding_are_convergence_where_all_else_is_rounding_too():
    noise = {"predicted_gain": 1e-30, "gradient_norm": 1e-15, "gradient_scale": 1e-15, "step_length": 1e-17}
    assert "rounding of x" in told([(1e-31, noise), (2e-31, noise)] * 2, moved=1e-16)
    assert told([(1e-31, noise), (2e-31, noise)] * 2, length=1e-3, moved=1e-16) is None


def test_steps_below_rounding_with_a_gradient_as_at_the_start_are_no_convergence():
    """Models far too steep make steps too short; a start at the minimum itself is another thing."""
    stuck = [(1.0, {"step_length": 1e-17, "gradient_norm": 0.5, "predicted_gain": 1e-17})] * 4
    assert told(DESCENT + stuck) is None
    assert "rounding of x" in told([(1.0, {"step_length": 1e-17, "gradient_norm": 1.0})] * 4, moved=1e-16)


def test_a_descent_that_goes_on_is_not_small_next_to_one_that_is_over():
    """From 1e12 by a third at each pass: 1e4 is small next to 1e12, and may be everything."""
    rounds = [(3.0**-k, {"gradient_scale": N * 3.0**-k, "gradient_norm": 0.1 * 3.0**-k}) for k in range(26)]
    rounds = [(1e12 * value, {**fields, "predicted_gain": 1e11 * value}) for value, fields in rounds]
    assert told(rounds[:20]) is None
    assert told(rounds) is None
    end = {"gradient_scale": 1e-13, "gradient_norm": 1e-14, "step_length": 1e-17, "predicted_gain": 0.0}
    assert "rounding of x" in told(rounds + [(0.0, end)] * 3)


def least_squares(seed, n, noise, m=8, rows=12):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, rows, m))
    targets = features @ rng.normal(size=m) + noise * rng.normal(size=(n, rows))

    def fun(x, i):
        error = features[i] @ x - targets[i]
        return 0.5 * float(error @ error), features[i].T @ error

    flat = features.reshape(-1, m)
    best = np.linalg.lstsq(flat, targets.reshape(-1), rcond=None)[0]
    return fun, best, np.linalg.norm(flat, 2)


def total(fun, x, n):
    return sum(fun(x, i)[0] for i in range(n))


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 10]), st.sampled_from([0.0, 1.0]), st.floats(-12, 12))
@settings(max_examples=25, deadline=None)
def test_what_is_called_converged_is(seed, n, noise, exponent):
    """Never said where a good part of the way is left, in any units. It is the last point that is judged."""
    fun, best, _ = least_squares(seed, n, noise)
    scale = 10.0**exponent
    positions = []

    def scaled(x, i):
        positions.append(x)
        return tuple(scale * part for part in fun(x, i))

    x0 = np.random.default_rng(seed).normal(size=8)
    if minimize(scaled, x0, n, rng=seed, passes=300).success:
        least = total(fun, best, n)
        assert total(fun, positions[-1], n) - least <= 1e-5 * (total(fun, x0, n) - least)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [1, 3, 10])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_what_has_converged_is_called_so(seed, n, noise):
    fun, _, _ = least_squares(seed, n, noise)
    assert minimize(fun, np.zeros(8), n, rng=seed, passes=1000 if n == 1 else 100).success


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_warm_start_at_the_minimum_converges(seed, dtype, noise):
    fun, best, _ = least_squares(seed, 5, noise)
    result = minimize(fun, best.astype(dtype), 5, rng=seed)
    assert result.success, result.message


def test_constant_functions_converge():
    result = minimize(lambda x, i: (float(i), np.zeros(3)), np.ones(3), 4, rng=0)
    assert result.success
    np.testing.assert_array_equal(result.x, np.ones(3))


def test_a_start_at_zero_where_all_is_zero_converges():
    result = minimize(lambda x, i: (float(x @ x), 2 * x), np.zeros(3), 4, rng=0)
    assert result.success


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e10])
def test_an_offset_does_not_end_a_run_early(offset):
    fun, best, norm = least_squares(1, 10, 1.0)
    result = minimize(lambda x, i: (fun(x, i)[0] + offset, fun(x, i)[1]), np.zeros(8), 10, rng=1)
    assert result.success
    assert norm * np.linalg.norm(result.x - best) < 1e-2


@pytest.mark.parametrize("seed", range(3))
def test_a_slope_without_end_is_never_converged(seed):
    slopes = np.random.default_rng(seed).normal(size=(5, 3))
    result = minimize(lambda x, i: (float(slopes[i] @ x), slopes[i]), np.zeros(3), 5, rng=seed, passes=40)
    assert not result.success


@pytest.mark.parametrize("seed", range(3))
def test_a_gradient_that_is_wrong_is_never_converged(seed):
    fun, _, _ = least_squares(seed, 5, 1.0)
    result = minimize(lambda x, i: (fun(x, i)[0], -fun(x, i)[1]), np.zeros(8), 5, rng=seed, passes=40)
    assert not result.success


@pytest.mark.parametrize("seed", range(3))
def test_a_function_that_draws_random_numbers_is_never_converged(seed):
    rng = np.random.default_rng(seed)
    fun, _, _ = least_squares(seed, 5, 1.0)

    def noisy(x, i):
        value, gradient = fun(x, i)
        return value + rng.normal(), gradient + rng.normal(size=8)

    assert not minimize(noisy, np.zeros(8), 5, rng=seed, passes=40).success


@pytest.mark.parametrize("seed", range(3))
def test_a_start_near_a_saddle_is_not_converged(seed):
    """Nearly no gradient at the start, and a long way down."""
    shifts = np.random.default_rng(seed).normal(size=(6, 2)) * 1e-3

    def saddle(x, i):
        value = x[0] ** 2 - x[1] ** 2 + 0.25 * x[1] ** 4 + shifts[i] @ x
        return value, np.array([2 * x[0], -2 * x[1] + x[1] ** 3]) + shifts[i]

    result = minimize(saddle, np.array([1.0, 1e-5]), 6, rng=seed, passes=200)
    if result.success:
        assert abs(result.x[1]) > 1.0


def test_the_fields_of_info_are_those_the_test_knows():
    assert {field.name for field in dataclasses.fields(Info)} == set(vars(info(1, 0, 0.0)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_huge_start_does_not_make_everything_small(dtype):
    """F falls from 1e23 by a tenth at each pass; at 1e7 that is little of the whole, and everything of what matters."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(5, 3))

    def fun(x, i):
        x = x.astype(float)
        away = x - centres[i]
        return 0.5 * away @ away + x[0] ** 8 / 8, (away + x[0] ** 7 * np.eye(3)[0]).astype(dtype)

    result = minimize(fun, np.full(3, 100.0, dtype), 5, rng=0)
    gradient = sum(fun(result.x, i)[1].astype(float) for i in range(5))
    parts = sum(np.linalg.norm(fun(result.x, i)[1]) for i in range(5))
    assert not result.success or np.linalg.norm(gradient) < 1e-2 * parts
