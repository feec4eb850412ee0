"""The picture of a run."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt

from sumopt import OptimizeResult, minimize
from sumopt.plot import running_means


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def quartic(x, i):
    return float(((x - 0.1 * i) ** 4).sum()), 4 * (x - 0.1 * i) ** 3


def trace(values, outcomes=None, indices=None):
    n = len(values)
    return {
        "pass": [(i + 1) / 2 for i in range(n)],
        "index": indices or [i % 2 for i in range(n)],
        "value": values,
        "outcome": outcomes or ["accepted"] * n,
        "active": [2] * n,
    }


def test_means_are_of_the_latest_values():
    np.testing.assert_array_equal(running_means(trace([4.0, 2.0, 1.0, 0.0])), [4.0, 3.0, 1.5, 0.5])


def test_what_was_rejected_does_not_count():
    outcomes = ["accepted", "rejected", "retry", "not finite"]
    means = running_means(trace([4.0, 9.0, 2.0, np.nan], outcomes, [0, 1, 1, 0]))
    np.testing.assert_array_equal(means, [4.0, 4.0, 3.0, 3.0])


def test_draws_on_axes_of_its_own_or_on_given_ones():
    result = minimize(quartic, np.full(3, 2.0), 4, rng=0, passes=20)
    ax = result.plot()
    assert ax.get_xlabel() == "effective passes"
    _, given = plt.subplots()
    assert result.plot(given) is given
    drawn = np.concatenate([line.get_ydata() for line in given.get_lines()])
    assert np.isin(running_means(result.trace), drawn).all()
    ax.figure.canvas.draw()


def test_bad_steps_are_marked_where_they_happened():
    outcomes = ["accepted", "accepted", "rejected", "retry", "not finite", "accepted"]
    result = OptimizeResult(trace=trace([4.0, 4.0, 9.0, 3.0, np.inf, 2.0], outcomes))
    labels = {line.get_label(): line for line in result.plot().get_lines()}
    np.testing.assert_array_equal(labels["rejected step (1)"].get_xdata(), [1.5])
    np.testing.assert_array_equal(labels["not finite (1)"].get_xdata(), [2.5])


@pytest.mark.parametrize(
    ("values", "scale"),
    [([1000.0, 1000.0, 1.0, 1.0], "log"), ([3.0, 3.0, 2.0, 2.0], "linear"), ([1e3, 1e3, -1.0, -1.0], "linear")],
)
def test_the_axis_is_logarithmic_where_that_helps(values, scale):
    assert OptimizeResult(trace=trace(values)).plot().get_yscale() == scale


@pytest.mark.parametrize("values", [[], [np.nan, np.nan]])
def test_nothing_measured_is_drawn_as_such(values):
    ax = OptimizeResult(trace=trace(values, ["not finite"] * len(values))).plot()
    assert "nothing" in ax.texts[0].get_text()
    assert len(ax.get_yticks()) == 0
    assert labels(ax) == ([f"not finite ({len(values)})"] if values else [])


def labels(ax):
    return [line.get_label() for line in ax.get_lines()]


def test_marks_lie_along_the_bottom_and_the_curve_above_them():
    n = 200
    outcomes = ["rejected" if i % 3 == 1 else "not finite" if i % 3 == 2 else "accepted" for i in range(n)]
    ax = OptimizeResult(trace=trace([1.0 + 1.0 / (i + 1) for i in range(n)], outcomes)).plot()
    ax.figure.canvas.draw()
    heights = {}
    for line in ax.get_lines():
        places = ax.transAxes.inverted().transform(line.get_transform().transform(line.get_xydata()))
        heights[line.get_label().split(" (")[0]] = places[:, 1]
    # Their own height, of a few points, is some hundredths of that of the axes.
    assert heights["rejected step"].max() + 0.03 < heights["not finite"].min()
    assert heights["not finite"].max() + 0.02 < heights["all 2 active"].min()


def test_a_single_evaluation_can_be_seen():
    (line,) = minimize(quartic, np.full(3, 2.0), 4, rng=0, max_evaluations=1).plot().get_lines()
    assert line.get_marker() == "o" and line.get_label() == "while subfunctions join"


def test_all_are_active_only_where_all_are():
    joining = minimize(quartic, np.full(3, 2.0), 10, rng=0, max_evaluations=7)
    assert labels(joining.plot()) == ["while subfunctions join"]
    done = minimize(quartic, np.full(3, 2.0), 10, rng=0, passes=10)
    assert labels(done.plot())[:2] == ["while subfunctions join", "all 10 active"]
    together = minimize(quartic, np.full(3, 2.0), 10, rng=0, passes=2, initially_active=10)
    assert labels(together.plot())[0] == "all 10 active"


@pytest.mark.parametrize(
    "values", [[1e9 + 3, 1e9 + 3, 1e9 + 1, 1e9 + 1], [1000.0, 1000.0, 1.0, 1.0], [1e150, 1e150, 1.0, 1.0]]
)
def test_ticks_are_plain_numbers(values):
    ax = OptimizeResult(trace=trace(values)).plot()
    ax.figure.canvas.draw()
    assert ax.yaxis.get_offset_text().get_text() == ""
    texts = [label.get_text() for label in ax.get_yticklabels()]
    assert all(float(text) == pytest.approx(tick) for text, tick in zip(texts, ax.get_yticks(), strict=True))


def test_without_matplotlib_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'sumopt\[plot\]'"):
        OptimizeResult(trace=trace([1.0])).plot()


def test_extras_are_imported_only_when_they_are_needed():
    script = "import sys, sumopt; print(sorted({'matplotlib', 'tqdm', 'torch', 'jax'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout == "[]\n"
