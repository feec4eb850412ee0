"""Arguments are taken or refused in a sentence; what is refused by name is tested where the name is."""

import sys

import numpy as np
import pytest

from sumopt.checks import check_names, checked_count, checked_index, checked_switch, positive, tolerance


@pytest.mark.parametrize("n", [1, np.int8(3), np.uint64(2**62), sys.maxsize])
def test_counts(n):
    assert type(checked_count(n, "n")) is int and checked_count(n, "n") == n


@pytest.mark.parametrize("switch", [True, False, np.True_, np.False_])
def test_switches(switch):
    assert checked_switch(switch, "progress") is bool(switch)


def test_indices():
    assert checked_index(np.int64(2), 3) == 2
    with pytest.raises(ValueError, match="index must be from 0 to 2; got an integer of 16610 bits"):
        checked_index(10**5000, 3)


@pytest.mark.parametrize("number", [1, 0.5, np.float32(2), np.inf, 1e308, 10**300])
def test_positive_numbers(number):
    assert positive(number, "passes") == float(number)


@pytest.mark.parametrize(("tol", "expected"), [(None, 0.0), (0, 0.0), (1e-3, 1e-3)])
def test_tolerances(tol, expected):
    assert tolerance(tol) == expected


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("histroy", "did you mean 'history'"),
        ("seed", "did you mean 'rng'"),
        ("random_state", "did you mean 'rng'"),
        ("max_iter", "did you mean 'passes'"),
        ("jac", "fun returns the gradient, too"),
        ("constraints", "constraints are not supported"),
        ("learning_rate", "there is no step size to choose"),
        ("zzz", "the options are history, noise$"),
    ],
)
def test_unknown_names_get_a_hint(name, hint):
    check_names(["noise", "history"], ["history", "noise"], [])
    with pytest.raises(TypeError, match=f"unknown option '{name}'; {hint}"):
        check_names([name], ["history", "noise"], ["rng", "passes"])
