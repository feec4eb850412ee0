"""The progress bar: shown when it is asked for, and then what is said."""

import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from bowl import run

from sumopt.progress import Bar, brief, seconds


def test_progress_shows_passes_values_and_times(capfd):
    result = run(progress=True, passes=3, tol=None)
    shown = capfd.readouterr()
    assert shown.out == ""
    for word in ("3.0/3 passes", "mean ", "all active", "fun ", " + own "):
        assert word in shown.err
    np.testing.assert_array_equal(result.x, run(passes=3, tol=None).x)


def test_progress_without_an_end(capfd):
    run(progress=True, passes=np.inf)
    assert " passes, mean " in capfd.readouterr().err


@pytest.mark.parametrize(("passes", "n"), [(20, 40), (100, 100)])
def test_all_of_it_fits_into_80_columns(passes, n, capfd):
    bar = Bar(passes)
    bar._bar.dynamic_ncols, bar._bar.ncols = None, 80
    with bar:
        for active in (2, n - 1, n):
            opt = SimpleNamespace(values=np.full(n, 1.4321e-5), active=active, n=n)
            evaluations = n * (4 if active < n else passes)
            bar.show(opt, evaluations, 26.04, 6.4)
            bar._draw(opt, evaluations, 26.04, 6.4)
    lines = [line for line in re.split(r"[\r\n]", capfd.readouterr().err) if "active" in line]
    assert len(lines) >= 3
    for line in lines:
        assert len(line.rstrip()) <= 80
        assert line.rstrip().endswith("fun 26 + own 6.4 s")
        assert line.index("| ") - line.index("|") > 8  # columns of the bar itself


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.14321234, "0.1432"), (-123456.0, "-1.2e+05"), (1.23456e-5, "1.2e-05"), (3.0, "3"), (np.nan, "nan")],
)
def test_a_narrow_place_has_room_for_a_number(number, text):
    assert brief(number) == text


@pytest.mark.parametrize(("time", "text"), [(0.04, "0.0"), (9.94, "9.9"), (9.96, "10"), (1234.5, "1234")])
def test_seconds_have_a_decimal_as_long_as_it_means_anything(time, text):
    assert seconds(time) == text


def test_progress_without_tqdm_gets_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"pip install 'sumopt\[progress\]'"):
        run(progress=True)
