"""The check of a gradient: right ones pass, wrong ones are found and located, and nothing is evaluated without end."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sumopt import check_gradient


def network(x, batch, rectified=True):
    """A small network and its gradient by hand, in the precision of x."""
    features, targets = batch
    before = features @ x["w1"] + x["b1"]
    hidden = np.maximum(before, 0) if rectified else np.tanh(before)
    slope = (before > 0) if rectified else 1 - hidden**2
    error = hidden @ x["w2"] + x["b2"] - targets
    back = error[:, None] * x["w2"] * slope
    value = 0.5 * (error**2).sum()
    return value, {"w1": features.T @ back, "b1": back.sum(0), "w2": hidden.T @ error, "b2": error.sum()}


def problem(seed, dtype=np.float64, batches=4):
    rng = np.random.default_rng(seed)
    data = [(rng.normal(size=(20, 3)).astype(dtype), rng.normal(size=20).astype(dtype)) for _ in range(batches)]
    x = {"w1": rng.normal(size=(3, 5)), "b1": 0.1 * rng.normal(size=5), "w2": rng.normal(size=5), "b2": rng.normal()}
    return {name: dtype(leaf) if name == "b2" else leaf.astype(dtype) for name, leaf in x.items()}, data


@given(st.integers(0, 10**6), st.sampled_from([np.float32, np.float64]), st.booleans(), st.floats(-9, 9))
@settings(max_examples=40, deadline=None)
def test_a_right_gradient_is_right(seed, dtype, rectified, exponent):
    x, data = problem(seed, dtype)
    scale = dtype(10.0**exponent)

    def fun(x, batch):
        value, gradient = network(x, batch, rectified)
        return scale * value, {name: scale * leaf for name, leaf in gradient.items()}

    report = check_gradient(fun, x, data, rng=seed)
    assert report.ok and bool(report) and report.max_error <= report.tol, str(report)
    assert "The gradient is right" in str(report)


@given(st.integers(0, 10**6), st.sampled_from([np.float32, np.float64]), st.sampled_from(["w1", "b1", "w2", "b2"]))
@settings(max_examples=40, deadline=None)
def test_a_wrong_gradient_is_located(seed, dtype, wrong):
    x, data = problem(seed, dtype)

    def fun(x, batch):
        value, gradient = network(x, batch, rectified=False)
        gradient[wrong] = gradient[wrong] * dtype(1.5)
        return value, gradient

    report = check_gradient(fun, x, data, rng=seed)
    assert not report.ok and not bool(report)
    assert report.worst.leaf == f"['{wrong}']" and report.max_error > report.tol
    assert f"wrong: the relative error is {report.max_error:.1e} in ['{wrong}']" in str(report)
    right = [check.error for check in report.checks if check.leaf not in (f"['{wrong}']", "all together")]
    assert max(right) <= report.tol


@given(
    st.integers(0, 10**6),
    st.sampled_from([np.float32, np.float16]),
    st.sets(st.sampled_from(["w1", "b1", "w2", "b2"]), min_size=1),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_a_right_gradient_is_right_in_mixed_precision(seed, dtype, narrow, rectified):
    x, data = in_part(seed, dtype, narrow)

    def fun(x, batch):
        value, gradient = network(x, batch, rectified)
        return value, {name: np.asarray(leaf, x[name].dtype) for name, leaf in gradient.items()}

    report = check_gradient(fun, x, data, rng=seed)
    assert report.ok and report.tol == (1e-2 if dtype == np.float32 else 0.2), str(report)


def in_part(seed, dtype, narrow):
    x, data = problem(seed)
    return {name: dtype(leaf) if name in narrow else np.float64(leaf) for name, leaf in x.items()}, data


@pytest.mark.parametrize("narrow", ["w1", "b1", "w2", "b2"])
@pytest.mark.parametrize("wrong", ["w1", "b1", "w2", "b2"])
def test_a_wrong_gradient_is_located_in_mixed_precision(narrow, wrong):
    x, data = in_part(0, np.float32, [narrow])

    def fun(x, batch):
        value, gradient = network(x, batch)
        return value, {**gradient, wrong: 1.5 * gradient[wrong]}

    report = check_gradient(fun, x, data, rng=0)
    assert not report and report.worst.leaf == f"['{wrong}']"


@given(st.integers(0, 10**6), st.sampled_from(["value", "gradient"]))
@settings(max_examples=20, deadline=None)
def test_what_comes_back_may_be_narrower_than_x(seed, part):
    x, data = problem(seed)

    def fun(x, batch):
        value, gradient = network(x, batch)
        if part == "value":
            return np.float32(value), gradient
        return value, {name: np.float32(leaf) for name, leaf in gradient.items()}

    report = check_gradient(fun, x, data, rng=seed)
    assert report.ok and report.tol == 1e-2, str(report)


@pytest.mark.parametrize("size", [1e200, 1e-200, 1e300])
@pytest.mark.parametrize("height", [1.0, 1e100, 1e300])
def test_huge_numbers_are_compared_without_a_warning(size, height):
    x = size * np.array([1.0, 2.0, 3.0])

    def fun(factor, x, batch):
        x = x / size
        return float(x @ x) * height, 2 * x * factor * height / size

    with np.errstate(all="raise", divide="ignore", over="ignore"):
        if height / size > 1e307:
            assert "not finite" in str(check_gradient(partial(fun, 1.0), x, 2, rng=0))
            return
        assert check_gradient(partial(fun, 1.0), x, 2, rng=0)
        wrong = check_gradient(partial(fun, 0.9), x, 2, rng=0)
    assert not wrong and "relative error is 1.0e-01" in str(wrong)


def test_what_overflows_cannot_be_checked():
    report = check_gradient(lambda x, batch: (1.0, np.full(3, 1e200)), np.full(3, 1e200), 2, rng=0)
    assert not report and "the gradient times x overflows" in str(report) and "nan" not in str(report)


def test_one_wrong_component_of_many_is_found():
    def fun(x, batch):
        gradient = 2 * x
        gradient[17] *= 1.01
        return float(x @ x), gradient

    assert not check_gradient(fun, np.random.default_rng(0).normal(size=500), 3, rng=0)


def test_a_forgotten_leaf_and_a_forgotten_sign_are_found():
    x, data = problem(0)

    def forgetful(x, batch):
        value, gradient = network(x, batch)
        return value, {**gradient, "b1": np.zeros(5)}

    def negative(x, batch):
        value, gradient = network(x, batch)
        return -value, gradient

    assert check_gradient(forgetful, x, data, rng=0).worst.leaf == "['b1']"
    assert check_gradient(negative, x, data, rng=0).max_error > 1.0


def test_a_mistake_on_one_batch_is_found():
    def fun(x, batch):
        return float(x @ x), 2 * x + (batch == 1)

    report = check_gradient(fun, np.ones(3), 3, rng=0)
    assert not report and report.worst.batch == 1 and "batch 1" in report.verdict


@pytest.mark.parametrize("x", [np.zeros(4), np.array([0.0, 1.0, -2.0, 0.0])])
def test_a_point_on_a_kink_is_no_alarm(x):
    assert check_gradient(lambda x, batch: (float(np.abs(x).sum()), np.sign(x)), x, 2, rng=0)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6])
def test_units_of_x_do_not_matter(scale):
    x = scale * np.array([1.0, 2.0, 3.0])

    def fun(x, batch):
        return float(-np.log(x).sum() + (x / scale) @ (x / scale)), -1 / x + 2 * x / scale**2

    assert check_gradient(fun, x, 2, rng=0)
    assert not check_gradient(lambda x, batch: (fun(x, batch)[0], 0.9 * fun(x, batch)[1]), x, 2, rng=0)


def test_a_gradient_of_zero_is_right_where_it_is():
    assert check_gradient(lambda x, batch: (float(x @ x), 2 * x), np.zeros(3), 1, rng=0)
    assert check_gradient(lambda x, batch: (3.0, np.zeros(3)), np.ones(3), 1, rng=0)
    assert not check_gradient(lambda x, batch: (float(x.sum()), np.zeros(3)), np.ones(3), 1, rng=0)


def test_an_offset_blurs_but_does_not_hide():
    assert check_gradient(lambda x, batch: (1e9 + float(x @ x), 2 * x), np.ones(3), 1, rng=0)
    assert not check_gradient(lambda x, batch: (1e9 + float(x @ x), 1.2 * x), np.ones(3), 1, rng=0)


@pytest.mark.parametrize("part", [0, 1])
def test_random_numbers_in_fun_are_noticed(part):
    rng = np.random.default_rng(0)

    def fun(x, batch):
        noise = 1e-3 * rng.normal()
        return float(x @ x) + noise * (part == 0), 2 * x + noise * (part == 1)

    report = check_gradient(fun, np.ones(3), 3, rng=0)
    assert not report and "not deterministic" in str(report) and np.isnan(report.max_error)


@pytest.mark.parametrize(("value", "slope"), [(np.nan, 1.0), (np.inf, 1.0), (1.0, np.nan)])
def test_what_is_not_finite_is_said(value, slope):
    report = check_gradient(lambda x, batch: (value, slope * x), np.ones(3), 3, rng=0)
    assert not report and "not finite" in str(report)


def test_the_edge_of_the_domain_is_stepped_around():
    def fun(x, batch):
        with np.errstate(invalid="ignore"):
            return float(np.sqrt(x - 1).sum()), 0.5 / np.sqrt(x - 1)

    assert check_gradient(fun, np.full(3, 1 + 1e-6), 1, rng=0)


@given(st.integers(1, 300), st.integers(1, 60), st.integers(1, 5), st.integers(1, 500))
@settings(max_examples=30, deadline=None)
def test_evaluations_are_bounded_and_counted(leaves, batches, directions, most):
    calls = []

    def fun(x, batch):
        calls.append(batch)
        return float(sum(leaf @ leaf for leaf in x)), [1.9 * leaf for leaf in x]

    x = [np.ones(2)] * leaves
    report = check_gradient(fun, x, batches, directions=directions, max_evaluations=most, rng=0)
    assert report.evaluations == len(calls) <= max(most, 4) + 16
    assert len(set(calls)) <= 3
    compared = len(report.checks) + report.skipped
    assert compared == min(batches, 3) * (leaves + 1 if leaves > 1 else 1)
    assert not report


def test_time_is_bounded(monkeypatch):
    """With no time at all, the first comparison is made and no other."""
    report = check_gradient(lambda x, batch: (float(x @ x), 2 * x), np.ones(3), 9, max_time=1e-9, rng=0)
    assert report.ok and len(report.checks) == 1 and report.skipped == 2
    assert "left out to save time" in str(report)


def test_same_seed_same_report_and_fun_may_edit_what_it_gets():
    x, data = problem(3)

    def vandal(x, batch):
        found = network(x, batch)
        for name in ("w1", "b1", "w2"):
            x[name][:] = np.nan
        return found

    assert check_gradient(vandal, x, data, rng=5) == check_gradient(network, x, data, rng=5)
    assert all(np.isfinite(leaf).all() for leaf in x.values())


def test_args_and_kwargs_reach_fun():
    def fun(x, batch, scale, *, shift):
        return scale * float(x @ x) + shift, 2 * scale * x

    assert check_gradient(fun, np.ones(3), 2, args=(3.0,), kwargs={"shift": 1.0}, rng=0)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"fun": None}, TypeError, "fun must be callable"),
        ({"x": np.array([np.nan])}, ValueError, "x must be finite"),
        ({"x": []}, ValueError, "x is empty"),
        ({"batches": []}, ValueError, "batches must be"),
        ({"directions": 0}, ValueError, "directions must be at least 1"),
        ({"tol": 0.0}, ValueError, "tol must be a positive number"),
        ({"max_time": -1}, ValueError, "max_time must be a positive number"),
        ({"max_evaluations": 0}, ValueError, "max_evaluations must be at least 1"),
        ({"fun": lambda x, batch: 3.0}, TypeError, "fun must return a pair"),
        ({"fun": lambda x, batch: (1.0, np.ones(2))}, ValueError, r"must have the shape of x, .*\(from batch [01]\)$"),
        ({"kwargs": {1: 1}}, TypeError, "keywords must be strings"),
    ],
)
def test_bad_arguments_get_a_sentence(arguments, error, sentence):
    good = {"fun": lambda x, batch: (float(x @ x), 2 * x), "x": np.ones(3), "batches": 2}
    with pytest.raises(error, match=sentence):
        check_gradient(**{**good, **arguments})
