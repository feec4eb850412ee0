"""One call that minimizes: what goes in and what comes out."""

import copy
import pickle
from collections import namedtuple

import numpy as np
import pytest
from bowl import CENTRES, LEAST, MEAN, Recorder, assert_consistent, bowl, run
from hypothesis import given, settings
from hypothesis import strategies as st

import sumopt
from sumopt import OptimizeResult, minimize


def test_converges_and_says_so():
    result = run()
    assert_consistent(result, 5)
    assert result.success and result.status == 0 and result.message.startswith("Converged: ")
    np.testing.assert_allclose(result.x, MEAN, atol=1e-4)
    assert result.fun == pytest.approx(LEAST, rel=1e-6)
    assert result.active == 5


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_any_number_of_subfunctions_and_parameters(n, m, seed):
    rng = np.random.default_rng(seed)
    factors, centres = rng.uniform(0.5, 2.0, (n, m)), rng.normal(size=(n, m))

    def fun(x, i):
        return 0.5 * float(factors[i] @ (x - centres[i]) ** 2), factors[i] * (x - centres[i])

    result = minimize(fun, rng.normal(size=m), n, rng=seed)
    assert_consistent(result, n)
    np.testing.assert_allclose(result.x, (factors * centres).sum(axis=0) / factors.sum(axis=0), atol=1e-2)
    assert result.success


@pytest.mark.parametrize(
    "batches",
    [CENTRES, list(CENTRES), tuple(CENTRES), CENTRES.astype(np.float32), dict(enumerate(CENTRES)).values()],
    ids=["array", "list", "tuple", "float32", "values"],
)
def test_batches_are_any_sequence(batches):
    if not hasattr(batches, "__getitem__"):
        with pytest.raises(TypeError, match=r"batches must be a sequence.*dict_values.*pass list\(batches\)"):
            run(batches=batches)
        return
    np.testing.assert_allclose(run(batches=batches).x, MEAN, atol=1e-4)


def test_batches_may_be_anything_with_a_length_and_an_index():
    class Loaded:
        def __len__(self):
            return 5

        def __getitem__(self, i):
            return CENTRES[i]

    np.testing.assert_array_equal(run(batches=Loaded()).x, run().x)


@pytest.mark.parametrize("batches", [5, np.int64(5), range(5)])
def test_a_number_of_batches_stands_for_their_indices(batches):
    seen = set()

    def fun(x, i):
        assert type(i) is int
        seen.add(i)
        return bowl(x, CENTRES[i])

    np.testing.assert_array_equal(run(fun, batches=batches).x, run().x)
    assert seen == set(range(5))


def never(x, batch):
    raise AssertionError("evaluated")


@pytest.mark.parametrize(
    ("batches", "error", "sentence"),
    [
        (iter([1, 2]), TypeError, r"list_iterator.*pass list\(batches\)"),
        ((i for i in range(3)), TypeError, r"generator.*pass list\(batches\)"),
        (zip([1], [2], strict=True), TypeError, r"zip.*pass list\(batches\)"),
        ({1, 2}, TypeError, r"set.*pass list\(batches\)"),
        ({"a": 1}, TypeError, r"dict, a mapping: pass list\(batches.values\(\)\)"),
        ("abc", TypeError, "got str"),
        (b"abc", TypeError, "got bytes"),
        (None, TypeError, "got NoneType"),
        (2.5, TypeError, r"batches, or their number \(an integer\); got float 2.5"),
        (np.float32(2), TypeError, r"batches, or their number \(an integer\); got float32 2.0"),
        (True, TypeError, r"batches, or their number \(an integer\); got bool True"),
        (np.True_, TypeError, r"batches, or their number \(an integer\); got bool True"),
        (np.array(3), TypeError, r"got a 0-dimensional ndarray: pass int\(batches\)"),
        (10**20, ValueError, "batches must be at most 9007199254740992; got 100000000000000000000"),
        (-(10**400), ValueError, "batches must be at least 1; got an integer of 1329 bits"),
        (range(10**20), ValueError, r"got range\(0, 100000000000000000000\), which is too long"),
        (0, ValueError, "batches must be at least 1; got 0"),
        (-2, ValueError, "batches must be at least 1; got -2"),
        ([], ValueError, "got an empty list"),
        (np.zeros((0, 3)), ValueError, "got an empty ndarray"),
    ],
)
def test_what_is_no_sequence_of_batches_gets_a_sentence(batches, error, sentence):
    with pytest.raises(error, match=f"batches must be .*{sentence}|{sentence}"):
        run(never, batches=batches)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"fun": 3}, TypeError, "fun must be callable; got int"),
        ({"x0": np.array([])}, ValueError, "x0 is empty"),
        ({"x0": np.array([np.nan])}, ValueError, "x0 must be finite"),
        ({"x0": np.array([None])}, TypeError, "x0 must be real numbers"),
        ({"x0": 10**400}, ValueError, "x0 is an integer too large"),
        ({"kwargs": [1]}, TypeError, "kwargs must be a dict; got list"),
        ({"passes": 0}, ValueError, "passes must be a positive number; got 0"),
        ({"passes": np.nan}, ValueError, "passes must be a positive number; got nan"),
        (
            {"passes": 10**400},
            ValueError,
            "passes must be a positive number; got an integer of 1329 bits, which is too",
        ),
        ({"max_time": 10**400}, ValueError, "max_time must be a positive number; got an integer of 1329 bits"),
        ({"tol": 10**400}, ValueError, "tol must be a number or None; got an integer of 1329 bits"),
        (
            {"passes": np.inf, "max_evaluations": 10**400},
            ValueError,
            "max_evaluations must be at most 9223372036854775807; got an integer of 1329 bits",
        ),
        ({"kwargs": {1: 1}}, TypeError, "keywords must be strings; got 1"),
        ({"progress": "yes"}, TypeError, "progress must be True or False; got str 'yes'"),
        ({"progress": 1}, TypeError, "progress must be True or False; got int 1"),
        ({"passes": "3"}, TypeError, "passes must be a positive number; got str"),
        ({"passes": True}, TypeError, "passes must be a positive number; got bool"),
        ({"max_evaluations": 0}, ValueError, "max_evaluations must be at least 1"),
        ({"max_evaluations": 3.0}, TypeError, "max_evaluations must be a positive integer; got float"),
        ({"max_time": -1}, ValueError, "max_time must be a positive number; got -1"),
        ({"max_time": "1 s"}, TypeError, "max_time must be a positive number; got str"),
        ({"tol": -1e-3}, ValueError, "tol must be at least 0"),
        ({"tol": np.inf}, ValueError, "tol must be at least 0, and finite"),
        ({"tol": "small"}, TypeError, "tol must be a number or None; got str"),
        ({"callback": 3}, TypeError, "callback must be callable; got int"),
        ({"rng": "x"}, TypeError, "rng must be"),
        ({"histroy": 5}, TypeError, "unknown option 'histroy'; did you mean 'history'"),
        ({"pases": 5}, TypeError, "unknown option 'pases'; did you mean 'passes'"),
        ({"callbck": 5}, TypeError, "unknown option 'callbck'; did you mean 'callback'"),
        ({"method": "BFGS"}, TypeError, "unknown option 'method'; the options are history"),
        ({"seed": 3}, TypeError, "unknown option 'seed'; did you mean 'rng'"),
        ({"epochs": 3}, TypeError, "unknown option 'epochs'; did you mean 'passes' or 'max_evaluations'"),
        ({"jac": True}, TypeError, "unknown option 'jac'; fun returns the gradient, too"),
        ({"bounds": []}, TypeError, "unknown option 'bounds'; bounds are not supported"),
        ({"lr": 0.1}, TypeError, "unknown option 'lr'; there is no step size to choose"),
        ({"history": 0}, ValueError, "history must be"),
        ({"update": "newton"}, ValueError, "update must be one of"),
        ({"noise": "much"}, TypeError, "noise must be a number"),
    ],
)
def test_bad_arguments_get_a_sentence_before_anything_is_evaluated(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        run(**{"fun": never, **arguments})


@pytest.mark.parametrize(
    ("returned", "error", "sentence"),
    [
        (1.0, TypeError, r"fun must return a pair, \(value, gradient\); got float"),
        (None, TypeError, "fun must return a pair.*got None"),
        (np.zeros(2), TypeError, "fun must return a pair.*got ndarray"),
        ((1.0,), TypeError, "fun must return a pair.*got tuple of 1"),
        ((1.0, np.zeros(3), None), TypeError, "fun must return a pair.*got tuple of 3"),
        ((np.zeros(3), 1.0), ValueError, "value must be a scalar"),
        ((np.zeros(1), np.zeros(3)), ValueError, "value must be a scalar"),
        ((1.0, np.zeros(4)), ValueError, "gradient must have the shape of x0"),
        ((1.0, {"a": 1.0}), ValueError, "gradient"),
        ((1.0, np.zeros(3, complex)), TypeError, "gradient must be real"),
        ((np.ma.masked, np.zeros(3)), ValueError, "value must be a number; got one that is masked"),
    ],
)
def test_what_fun_returns_is_checked_and_errors_name_the_batch(returned, error, sentence):
    with pytest.raises(error, match=rf"{sentence}.* \(from batch 3\)$"):
        run(lambda x, i: returned if i == 3 else bowl(x, CENTRES[i]), batches=5)


def test_args_and_kwargs_reach_fun():
    def fun(x, centre, scale, *, shift):
        value, gradient = bowl(x, centre + shift)
        return scale * value, scale * gradient

    expected = run(lambda x, centre: fun(x, centre, 2.0, shift=1.0))
    np.testing.assert_array_equal(run(fun, args=(2.0,), kwargs={"shift": 1.0}).x, expected.x)
    np.testing.assert_array_equal(run(fun, args=2.0, kwargs={"shift": 1.0}).x, expected.x)


@pytest.mark.parametrize(("scale", "dtype"), [(1e100, np.float64), (1e-100, np.float64), (1e30, np.float32)])
def test_numpy_may_be_told_to_raise_whatever_the_units(scale, dtype):
    """Rounding to zero and overflow within the package are its own affair, not the user's settings'."""

    def fun(x, centre):
        value, gradient = bowl(np.asarray(x, float) / scale, centre)
        return value, (gradient / scale).astype(dtype)

    def callback(intermediate_result):
        repr(intermediate_result)

    with np.errstate(all="raise"):
        result = run(fun, np.full(3, 2 * scale, dtype), callback=callback)
    assert result.success
    np.testing.assert_allclose(result.x / scale, MEAN, atol=1e-2)


Model = namedtuple("Model", ["weights", "bias"])


@pytest.mark.parametrize(
    ("x0", "flat"),
    [
        ({"w": np.zeros(2), "b": 0.0}, lambda x: np.array([*x["w"], x["b"]])),
        ([0.0, 0.0, 0.0], np.array),
        (Model(np.zeros((1, 2)), np.float64(0.0)), lambda x: np.array([*x.weights[0], x.bias])),
        (
            {"deep": [(np.zeros(1),), {"er": np.zeros((2, 1))}]},
            lambda x: np.array([*x["deep"][0][0], *x["deep"][1]["er"][:, 0]]),
        ),
    ],
    ids=["dict", "list", "namedtuple", "nested"],
)  # fmt: skip
def test_any_structure(x0, flat):
    structure = sumopt.structure.Structure.of(x0)
    kept = copy.deepcopy(x0)
    order = np.argsort(flat(structure.unflatten(np.arange(3.0))))

    def fun(x, centre):
        assert type(x) is type(x0)
        value, gradient = bowl(flat(x), centre)
        return value, structure.unflatten(gradient[order])

    result = run(fun, x0)
    assert type(result.x) is type(x0) and result.success
    np.testing.assert_allclose(flat(result.x), MEAN, atol=1e-4)
    np.testing.assert_array_equal(flat(x0), flat(kept))


def test_single_precision_stays_single():
    def fun(x, centre):
        assert x.dtype == np.float32
        value, gradient = bowl(x, centre)
        return np.float32(value), gradient.astype(np.float32)

    result = run(fun, np.zeros(3, np.float32))
    assert result.x.dtype == np.float32 and result.success
    np.testing.assert_allclose(result.x, MEAN, atol=1e-3)


def test_integers_are_promoted():
    x0 = np.zeros(3, int)
    result = run(x0=x0)
    assert result.x.dtype == np.float64 and x0.dtype == int
    np.testing.assert_array_equal(result.x, run().x)


def test_fun_may_edit_and_keep_what_it_gets():
    kept = []

    def vandal(x, centre):
        value, gradient = bowl(x, centre)
        x[:] = np.nan
        kept.append((x, gradient))
        for old_x, old_gradient in kept[:-1]:
            old_x[:] = 1e300
            old_gradient[:] = 1e300
        return value, gradient

    np.testing.assert_array_equal(run(vandal).x, run().x)


def test_x0_is_left_alone_and_not_returned():
    x0 = np.zeros(3)
    result = run(x0=x0)
    np.testing.assert_array_equal(x0, np.zeros(3))
    assert not np.shares_memory(result.x, x0)
    assert not np.shares_memory(run(x0=x0, max_evaluations=1).x, x0)


@pytest.mark.parametrize("evaluations", [1, 2, 3, 7, 12, 23, 40])
def test_x_is_a_point_that_was_evaluated(evaluations):
    def valley(x, shift):
        bend = x[1] - x[0] ** 2
        slope = np.array([-400 * bend * x[0] - 2 * (1 - x[0]), 200 * bend])
        return 100 * bend**2 + (1 - x[0]) ** 2 + shift * x[0], slope + np.array([shift, 0.0])

    recorder = Recorder(valley)
    result = minimize(recorder, np.array([-1.2, 1.0]), [-0.1, 0.0, 0.1], max_evaluations=evaluations, rng=0)
    assert any(np.array_equal(result.x, position) for position in recorder.positions)


def test_same_seed_same_run_and_no_global_randomness():
    before = copy.deepcopy(np.random.get_state())  # noqa: NPY002
    one, other = run(rng=3, passes=10), run(rng=np.random.default_rng(3), passes=10)
    after = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(one.x, other.x)
    assert one.trace["index"] == other.trace["index"]
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]


def test_nothing_is_printed(capfd):
    run()
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


def test_a_result_is_shown_in_brief_and_can_be_kept():
    result = run()
    shown = repr(result)
    assert len(shown) < 1500 and "message: Converged" in shown and f"trace: {result.nfev} evaluations" in shown
    assert len(result.trace["pass"]) == result.nfev
    again = pickle.loads(pickle.dumps(result))
    assert type(again) is OptimizeResult and again.trace == result.trace
    assert {"x", "trace", "plot"} <= set(dir(result))
    assert repr(OptimizeResult()) == "OptimizeResult()"


def test_one_subfunction_and_one_parameter():
    result = minimize(lambda x, i: (float((x - 3.0) ** 2), 2.0 * (x - 3.0)), 0.0, 1, rng=0)
    assert result.success and type(result.x) is float
    assert result.x == pytest.approx(3.0, abs=1e-4)
    assert_consistent(result, 1)


def test_it_reads_like_the_documentation():
    import doctest

    for module in (sumopt.minimize, sumopt.SFO, sumopt.check_gradient):
        tests = doctest.DocTestFinder(recurse=False).find(module, globs={})
        assert any(test.examples for test in tests)
        for test in tests:
            assert doctest.DocTestRunner().run(test).failed == 0
