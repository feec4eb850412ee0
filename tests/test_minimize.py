"""One call that minimizes: what goes in, what comes out, and every way in which a run ends."""

import copy
import functools
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from collections import namedtuple

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import sumopt
from sumopt import OptimizeResult, minimize

CENTRES = np.random.default_rng(7).normal(size=(5, 3))
CURVES = np.array([1.0, 4.0, 9.0])
MEAN = CENTRES.mean(axis=0)
LEAST = sum(0.5 * float(CURVES @ (MEAN - centre) ** 2) for centre in CENTRES)
KEYS = ["pass", "index", "value", "outcome", "eta", "step_length", "active", "subspace_size", "seconds"]


def bowl(x, centre):
    return 0.5 * float(CURVES @ (x - centre) ** 2), CURVES * (x - centre)


class Recorder:
    """A function that remembers where it was evaluated."""

    def __init__(self, fun=bowl):
        self.fun = fun
        self.positions = []

    def __call__(self, x, batch):
        self.positions.append(copy.deepcopy(x))
        return self.fun(x, batch)


def run(fun=bowl, x0=None, batches=CENTRES, **arguments):
    return minimize(fun, np.zeros(3) if x0 is None else x0, batches, **{"rng": 0, **arguments})


def assert_consistent(result, n):
    """What holds of every result, however the run ended."""
    assert isinstance(result, OptimizeResult) and isinstance(result, scipy.optimize.OptimizeResult)
    assert list(result.trace) == KEYS
    assert {len(column) for column in result.trace.values()} == {result.nfev}
    assert result.npasses == result.nfev / n
    assert result.nit == result.trace["outcome"].count("accepted")
    assert result.success == (result.status == 0)
    assert result.time_fun >= 0.0 and result.time_optimizer >= 0.0
    if result.nfev:
        np.testing.assert_allclose(result.trace["pass"], np.arange(1, result.nfev + 1) / n)
        assert np.all(np.diff(result.trace["seconds"]) >= 0.0)
        assert np.all(np.diff(result.trace["active"]) >= 0)
        assert set(result.trace["index"]) <= set(range(n))


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
        (2.0, TypeError, "batches must be a positive integer; got float"),
        (True, TypeError, "batches must be a positive integer; got bool"),
        (np.True_, TypeError, "batches must be a positive integer; got bool"),
        (np.array(3), TypeError, "ndarray without a length"),
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
        ({"jac": True}, TypeError, "unknown option 'jac'; the options are history"),
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
        (None, TypeError, "fun must return a pair.*got NoneType"),
        (np.zeros(2), TypeError, "fun must return a pair.*got ndarray"),
        ((1.0,), TypeError, "fun must return a pair.*got tuple of 1"),
        ((1.0, np.zeros(3), None), TypeError, "fun must return a pair.*got tuple of 3"),
        ((np.zeros(3), 1.0), ValueError, "value must be a scalar"),
        ((np.zeros(1), np.zeros(3)), ValueError, "value must be a scalar"),
        ((1.0, np.zeros(4)), ValueError, "gradient must have the shape of x0"),
        ((1.0, {"a": 1.0}), ValueError, "gradient"),
        ((1.0, np.zeros(3, complex)), TypeError, "gradient must be real"),
    ],
)
def test_what_fun_returns_is_checked(returned, error, sentence):
    with pytest.raises(error, match=sentence):
        run(lambda x, batch: returned)


def test_args_and_kwargs_reach_fun():
    def fun(x, centre, scale, *, shift):
        value, gradient = bowl(x, centre + shift)
        return scale * value, scale * gradient

    expected = run(lambda x, centre: fun(x, centre, 2.0, shift=1.0))
    np.testing.assert_array_equal(run(fun, args=(2.0,), kwargs={"shift": 1.0}).x, expected.x)
    np.testing.assert_array_equal(run(fun, args=2.0, kwargs={"shift": 1.0}).x, expected.x)


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


@given(st.floats(0.01, 4.0), st.integers(1, 20))
@settings(max_examples=25, deadline=None)
def test_passes_are_exact(passes, n):
    result = run(lambda x, i: bowl(x, CENTRES[i % 5]), batches=n, passes=passes, tol=None)
    exact = passes * n
    assert result.nfev <= max(exact + 1e-5, 1) and result.nfev > exact - 1 - 1e-5
    assert_consistent(result, n)
    assert not result.success and result.status == 1 and "passes" in result.message


@pytest.mark.parametrize(
    ("passes", "n", "evaluations"), [(0.29, 100, 29), (0.1, 30, 3), (1, 7, 7), (1.5, 3, 4), (0.1, 3, 1)]
)
def test_passes_do_not_suffer_from_rounding(passes, n, evaluations):
    assert run(lambda x, i: bowl(x, CENTRES[i % 5]), batches=n, passes=passes, tol=None).nfev == evaluations


@pytest.mark.parametrize("most", [1, 4, 5, 13])
def test_max_evaluations_is_exact(most):
    recorder = Recorder()
    result = run(recorder, max_evaluations=most)
    assert result.nfev == most == len(recorder.positions)
    assert not result.success and result.status == 2 and "max_evaluations" in result.message
    assert_consistent(result, 5)


def test_the_smaller_of_two_budgets_ends_the_run():
    assert run(passes=1, max_evaluations=100, tol=None).status == 1
    assert run(passes=100, max_evaluations=5, tol=None).status == 2


def test_max_time_ends_a_run_after_the_evaluation_under_way():
    result = run(passes=np.inf, max_time=1e-9, tol=None)
    assert result.nfev == 1 and result.status == 3 and not result.success and "max_time" in result.message
    result = run(passes=np.inf, max_time=0.05, tol=None)
    assert result.status == 3 and result.trace["seconds"][-2] < 0.05
    assert_consistent(result, 5)


@pytest.mark.parametrize("tol", [None, 0, 0.0])
def test_without_tolerance_only_the_budget_ends_a_run(tol):
    result = run(tol=tol, passes=40)
    assert result.nfev == 200 and result.status == 1


def test_a_looser_tolerance_ends_sooner():
    evaluations = [run(tol=tol).nfev for tol in (1e-2, 1e-6, 1e-12)]
    assert evaluations == sorted(evaluations) and evaluations[0] < evaluations[-1]


def test_a_problem_that_is_never_finite_fails_in_bounded_evaluations():
    result = run(lambda x, centre: (np.nan, x), passes=np.inf)
    assert_consistent(result, 5)
    assert not result.success and result.status == 6 and "not finite" in result.message
    assert result.nfev < 100
    np.testing.assert_array_equal(result.x, np.zeros(3))
    assert np.isnan(result.fun)


def test_values_that_are_not_finite_now_and_then_do_not_matter():
    calls = iter(range(10**6))

    def flaky(x, centre):
        value, gradient = bowl(x, centre)
        return (np.inf if next(calls) % 7 == 3 else value), gradient

    result = run(flaky, passes=200)
    assert "not finite" in result.trace["outcome"]
    np.testing.assert_allclose(result.x, MEAN, atol=1e-2)


class Custom(Exception):
    pass


@pytest.mark.parametrize("error", [Custom("mine"), StopIteration("mine"), ZeroDivisionError("mine"), SystemExit(3)])
def test_an_exception_in_fun_reaches_the_caller_as_it_is(error):
    def fun(x, centre):
        raise error

    with pytest.raises(type(error)) as caught:
        run(fun)
    assert caught.value is error


@pytest.mark.parametrize("progress", [False, True])
def test_an_exception_in_the_callback_reaches_the_caller_as_it_is(progress, capfd):
    def callback(x):
        raise Custom("mine")

    with pytest.raises(Custom, match="mine"):
        run(callback=callback, progress=progress)


def test_callback_sees_the_intermediate_result_once_a_pass():
    seen = []

    def callback(intermediate_result):
        seen.append(intermediate_result)

    result = run(callback=callback, x0={"w": np.zeros(2), "b": 0.0}, fun=in_dict, passes=6.5, tol=None)
    assert [step.npasses for step in seen] == [1, 2, 3, 4, 5, 6]
    assert result.nfev == 32
    for step in seen:
        assert isinstance(step, OptimizeResult) and set(step) >= {"x", "fun", "nfev", "nit", "npasses", "active"}
        assert step.nfev == 5 * step.npasses and set(step.x) == {"w", "b"} and type(step.x["b"]) is float
        assert np.isfinite(step.fun)


def in_dict(x, centre):
    value, gradient = bowl(np.array([*x["w"], x["b"]]), centre)
    return value, {"w": gradient[:2], "b": gradient[2]}


class Method:
    def __init__(self):
        self.seen = []

    def both(self, intermediate_result):
        self.seen.append(intermediate_result)

    def position(self, xk):
        self.seen.append(xk)


def test_callback_with_another_parameter_gets_x():
    seen = []
    run(callback=seen.append, passes=3, tol=None)
    assert [type(x) for x in seen] == [np.ndarray] * 3


def test_callback_conventions_are_those_of_scipy():
    def keyword(*, intermediate_result):
        seen.append(intermediate_result)

    def two(intermediate_result, other=None):
        seen.append(intermediate_result)

    method = Method()
    for callback in (keyword, two, method.both, method.position, functools.partial(two, other=3)):
        kinds = []
        for solve in (
            lambda callback: scipy.optimize.minimize(lambda x: x @ x, np.ones(3), method="BFGS", callback=callback),
            lambda callback: run(callback=callback, passes=2, tol=None),
        ):
            seen = method.seen = []
            solve(callback)
            kinds.append({isinstance(thing, scipy.optimize.OptimizeResult) for thing in seen})
        assert kinds[0] == kinds[1] and len(kinds[0]) == 1


def test_what_the_callback_gets_may_be_edited():
    def vandal(intermediate_result):
        intermediate_result.x[:] = np.nan
        intermediate_result.clear()

    np.testing.assert_array_equal(run(callback=vandal).x, run().x)


def test_callback_ends_a_run_with_stopiteration():
    def callback(intermediate_result):
        if intermediate_result.npasses == 2:
            raise StopIteration

    result = run(callback=callback, tol=None)
    assert result.nfev == 10 and result.status == 4 and not result.success and "StopIteration" in result.message
    assert_consistent(result, 5)


@pytest.mark.parametrize("at", [1, 2, 9])
@pytest.mark.parametrize("progress", [False, True])
def test_an_interrupt_in_fun_ends_the_run_with_a_result(at, progress, capfd):
    calls = iter(range(10**6))

    def fun(x, centre):
        if next(calls) == at - 1:
            raise KeyboardInterrupt
        return bowl(x, centre)

    result = run(fun, progress=progress)
    assert result.nfev == at - 1 and result.status == 5 and not result.success and "nterrupted" in result.message
    assert_consistent(result, 5)
    if at == 9:
        np.testing.assert_array_equal(result.x, run(max_evaluations=8).x)


def test_an_interrupt_in_the_callback_ends_the_run_with_a_result():
    def callback(x):
        raise KeyboardInterrupt

    result = run(callback=callback)
    assert result.nfev == 5 and result.status == 5
    assert_consistent(result, 5)


@pytest.mark.parametrize("call", ["surrogate.observe", "surrogate.newton_step", "_subspace.include"])
def test_an_interrupt_within_the_optimizer_ends_the_run_with_a_result(call, monkeypatch):
    owner, name = call.split(".")
    steps = iter(range(10**6))

    class Interrupted(sumopt.sfo.SFO):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            part = getattr(self._core, owner)
            method = getattr(part, name)

            def interrupted(*args, **kwargs):
                found = method(*args, **kwargs)
                if next(steps) == 11:
                    raise KeyboardInterrupt
                return found

            setattr(part, name, interrupted)

    # The module, which the function of the same name hides.
    monkeypatch.setattr(sys.modules["sumopt.minimize"], "SFO", Interrupted)
    recorder = Recorder()
    result = run(recorder)
    assert result.status == 5 and result.nfev == len(recorder.positions) - 1
    assert any(np.array_equal(result.x, position) for position in recorder.positions)
    assert np.isfinite(result.fun)
    assert_consistent(result, 5)


@pytest.mark.skipif(os.name != "posix", reason="signals are sent the POSIX way")
def test_ctrl_c_in_a_real_process():
    script = """
        import sys, numpy as np, sumopt
        def fun(x, i):
            if started:
                print("running", flush=True)
                started.clear()
            return float(np.cos(x).sum() + x @ x + i), -np.sin(x) + 2 * x
        started = [True]
        result = sumopt.minimize(fun, np.ones(5), 3, passes=np.inf, tol=None)
        print("status", result.status, len(result.x), len(set(map(len, result.trace.values()))), flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "running\n"
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert output == "status 5 5 1\n" and errors == "" and process.returncode == 0


def test_progress_shows_passes_values_and_times(capfd):
    result = run(progress=True, passes=3, tol=None)
    shown = capfd.readouterr()
    assert shown.out == ""
    for word in ("3.0/3 passes", "mean value", "active 5/5", "fun ", "optimizer "):
        assert word in shown.err
    np.testing.assert_array_equal(result.x, run(passes=3, tol=None).x)


def test_progress_without_an_end(capfd):
    run(progress=True, passes=np.inf)
    assert "passes [" in capfd.readouterr().err


def test_progress_without_tqdm_gets_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"pip install 'sumopt\[progress\]'"):
        run(never, progress=True)


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
