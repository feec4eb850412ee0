"""What the callback of a run sees, when, and what it may do."""

import functools

import matplotlib as mpl
import numpy as np
import pytest
import scipy.optimize
from bowl import assert_consistent, bowl, run

mpl.use("Agg")

from matplotlib import pyplot as plt

from sumopt import OptimizeResult
from sumopt.runner import Record


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


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


def test_an_intermediate_result_can_be_plotted_and_has_the_trace_so_far():
    seen = []

    def callback(intermediate_result):
        assert intermediate_result.plot().get_lines()
        seen.append(intermediate_result)

    result = run(callback=callback, passes=4, tol=None)
    for step in seen:
        assert step.trace == {name: column[: step.nfev] for name, column in result.trace.items()}
        assert step.nit == step.trace["outcome"].count("accepted")
        assert 0.0 <= step.time_fun <= result.time_fun and 0.0 <= step.time_optimizer <= result.time_optimizer


def test_the_trace_is_copied_only_for_who_takes_it(monkeypatch):
    copies = []
    copy = Record.copy
    monkeypatch.setattr(Record, "copy", lambda self: copies.append(len(self)) or copy(self))
    run(callback=lambda x: None, passes=4, tol=None)
    assert copies == [20]
    run(callback=lambda intermediate_result: None, passes=4, tol=None)
    assert copies == [20, 5, 10, 15, 20, 20]


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
        for column in intermediate_result.trace.values():
            column.clear()
        intermediate_result.clear()

    result = run(callback=vandal)
    np.testing.assert_array_equal(result.x, run().x)
    assert_consistent(result, 5)


def test_callback_ends_a_run_with_stopiteration():
    def callback(intermediate_result):
        if intermediate_result.npasses == 2:
            raise StopIteration

    result = run(callback=callback, tol=None)
    assert result.nfev == 10 and result.status == 4 and not result.success and "StopIteration" in result.message
    assert_consistent(result, 5)
