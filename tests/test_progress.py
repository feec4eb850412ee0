"""The progress bar: shown when it is asked for, and then what is said."""

import sys

import numpy as np
import pytest
from bowl import run


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
        run(progress=True)
