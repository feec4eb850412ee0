"""The suggested number of minibatches."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sumopt import suggest_batches
from sumopt.batches import _memory, free_memory
from sumopt.core import Optimizer

samples = st.integers(1, 10**10)
parameters = st.integers(1, 10**9)
memory = st.floats(1.0, 1e13)


@given(samples, parameters, memory, st.sampled_from([np.float32, np.float64, "float32"]))
def test_within_samples_memory_and_reason(n_samples, n_parameters, max_memory, dtype):
    n = suggest_batches(n_samples, n_parameters, dtype=dtype, max_memory=max_memory)
    assert type(n) is int and 1 <= n <= n_samples
    vectors = min(3 * n, n_parameters)
    assert n == 1 or vectors * (n_parameters * np.dtype(dtype).itemsize + 320 * n) <= max_memory


@given(samples, samples)
def test_proportional_to_the_root_of_the_samples(one, other):
    few, many = sorted([one, other])
    assert suggest_batches(few, 10, max_memory=1e12) <= suggest_batches(many, 10, max_memory=1e12)
    if few >= 10_000:
        ratio = suggest_batches(many, 10, max_memory=1e12) / suggest_batches(few, 10, max_memory=1e12)
        assert ratio == pytest.approx((many / few) ** 0.5, rel=0.05)


@given(st.integers(1, 10_000), st.integers(1, 1000))
def test_never_fewer_than_25_unless_there_are_fewer_samples(n_samples, n_parameters):
    assert suggest_batches(n_samples, n_parameters, max_memory=1e9) >= min(25, n_samples)


def test_the_examples_of_the_documentation():
    assert suggest_batches(60_000, 10**4, max_memory=1e12) == 61
    assert suggest_batches(10**6, 10**4, max_memory=1e12) == 250


def test_most_of_the_time_goes_into_the_subfunction():
    """The arithmetic of the docstring: the optimizer takes at most half of what the evaluation takes."""
    for n_samples in (10**4, 10**6, 10**8):
        n = suggest_batches(n_samples, 1000, max_memory=1e12)
        assert 0.9 * n <= 0.5 * 0.12 * n_samples / n


def test_half_the_precision_twice_the_batches():
    arguments = {"n_samples": 10**8, "n_parameters": 10**7, "max_memory": 12.01e9}
    assert suggest_batches(**arguments) == 50
    assert suggest_batches(**arguments, dtype=np.float32) == 100


def test_histories_count_as_memory():
    """A thousand minibatches of a model of a thousand parameters: the basis is nothing, what is kept of each is not."""
    assert suggest_batches(16_000_000, 1000, max_memory=1e9) == 1000
    assert suggest_batches(16_000_000, 1000, max_memory=1e8) < 320


def test_what_is_counted_is_what_is_allocated():
    surrogate = Optimizer(np.zeros(5000), 100, np.random.default_rng(0)).surrogate
    stacks = [*vars(surrogate).values(), *vars(surrogate.history).values()]
    kept = sum(stack.nbytes for stack in stacks if isinstance(stack, np.ndarray))
    assert _memory(100, 5000, 8) - 300 * 5000 * 8 == pytest.approx(kept, rel=0.15)


def test_by_default_a_quarter_of_the_free_memory(monkeypatch):
    monkeypatch.setattr("sumopt.batches.free_memory", lambda: 4 * 2.41e9)
    assert suggest_batches(10**6, 10**7) == suggest_batches(10**6, 10**7, max_memory=2.41e9) == 10


@pytest.mark.parametrize("known", [(), ("SC_PAGE_SIZE",), ("SC_PAGE_SIZE", "SC_PHYS_PAGES")])
def test_memory_is_guessed_where_the_system_does_not_say(known, monkeypatch):
    def sysconf(name):
        if name in known:
            return 4096
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", sysconf, raising=False)
    assert free_memory() == (4096 * 4096 / 2 if len(known) == 2 else 4 * 2**30)
    monkeypatch.delattr(os, "sysconf")
    assert free_memory() == 4 * 2**30


def test_there_is_memory_here():
    assert free_memory() > 0
    assert suggest_batches(1000, 10) == 25


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"n_samples": 0}, ValueError, "n_samples must be at least 1; got 0"),
        ({"n_samples": 10.0}, TypeError, "n_samples must be a positive integer; got float"),
        ({"n_parameters": -1}, ValueError, "n_parameters must be at least 1; got -1"),
        ({"n_parameters": True}, TypeError, "n_parameters must be a positive integer; got bool"),
        ({"dtype": np.int64}, ValueError, "dtype must be float32 or float64; got int64"),
        ({"dtype": "flt"}, TypeError, "dtype must be float32 or float64; got 'flt'"),
        ({"n_samples": 10**400}, ValueError, "n_samples must be at most 9223372036854775807; got an integer of 1329"),
        ({"n_parameters": 10**400}, ValueError, "n_parameters must be at most 9223372036854775807"),
        ({"max_memory": 10**400}, ValueError, "max_memory must be a number of bytes; got an integer of 1329 bits"),
        ({"max_memory": 0}, ValueError, "max_memory must be positive; got 0"),
        ({"max_memory": "1 GB"}, TypeError, "max_memory must be a number of bytes; got str"),
    ],
)
def test_bad_arguments_get_a_sentence(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        suggest_batches(**{"n_samples": 100, "n_parameters": 10, **arguments})
