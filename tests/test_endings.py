"""Every way in which a run ends, and that it is said which."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from bowl import CENTRES, MEAN, Recorder, assert_consistent, bowl, run
from hypothesis import given, settings
from hypothesis import strategies as st

import sumopt


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


@pytest.mark.parametrize("passes", [1e308, np.inf, 10**300])
def test_as_many_passes_as_you_like(passes):
    result = run(passes=passes)
    assert result.success and result.nfev == run().nfev


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


def test_settling_where_f_is_larger_than_at_a_point_passed_before_is_no_convergence(monkeypatch):
    monkeypatch.setattr(sumopt.SFO, "stands_at_best", False)
    result = run()
    assert_consistent(result, 5)
    assert result.status == 6 and not result.success
    assert result.message == (
        "Failed: the run settled where F is larger than at a point it had passed before; x is that point."
    )


def test_a_run_that_converges_stands_at_its_result():
    stands = []

    class Watched(sumopt.SFO):
        def tell(self, *answer):
            info = super().tell(*answer)
            stands.append(self.stands_at_best)
            return info

    opt = Watched(np.zeros(3), 5, rng=0)
    for _ in range(100):
        query = opt.ask()
        opt.tell(query, *bowl(query.position, CENTRES[query.index]))
    assert set(stands) <= {True, False} and stands[-1]


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
