"""The optimizer driven by hand."""

import copy
import dataclasses
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sumopt
from sumopt import SFO, Info, Query

CENTRES = np.random.default_rng(5).normal(size=(4, 3))


def answer(query):
    error = query.position - CENTRES[query.index]
    return 0.5 * float(error @ error), error


def advance(opt, evaluations):
    return [opt.tell(query, *answer(query)) for query in iter_queries(opt, evaluations)]


def iter_queries(opt, evaluations):
    for _ in range(evaluations):
        yield opt.ask()


def test_finds_the_minimum():
    opt = SFO(np.zeros(3), 4, rng=0)
    infos = advance(opt, 60)
    np.testing.assert_allclose(opt.x, CENTRES.mean(axis=0), atol=1e-6)
    assert opt.evaluations == 60 and opt.n == 4 and opt.active == 4
    assert all(isinstance(info, Info) for info in infos)
    assert [info.evaluation for info in infos] == list(range(1, 61))
    expected = sum(0.5 * np.sum((opt.x - centre) ** 2) for centre in CENTRES)
    assert opt.fun == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(opt.values.sum(), expected, rtol=1e-6)


def test_before_anything_is_told():
    x0 = np.arange(3.0)
    opt = SFO(x0, 4)
    np.testing.assert_array_equal(opt.x, x0)
    assert np.isnan(opt.fun) and np.isnan(opt.values).all()
    assert opt.evaluations == 0 and opt.failure is None
    assert "3 parameters, 4 subfunctions" in repr(opt)


def test_the_same_query_comes_until_it_is_told():
    opt = SFO(np.zeros(3), 4, rng=0)
    for _ in range(20):
        first = opt.ask()
        kept = first.position.copy()
        first.position[:] = np.nan
        second = opt.ask()
        assert (first.ticket, first.index) == (second.ticket, second.index)
        np.testing.assert_array_equal(second.position, kept)
        opt.tell(second, *answer(second))


@pytest.mark.parametrize("bad", [(1j, np.zeros(3)), (1.0, np.zeros(2)), (1.0, None)])
def test_a_refused_answer_leaves_the_state_as_it_was(bad):
    careful, plain = SFO(np.zeros(3), 4, rng=1), SFO(np.zeros(3), 4, rng=1)
    for _ in range(20):
        query = careful.ask()
        with pytest.raises((ValueError, TypeError)):
            careful.tell(query, *bad)
        careful.tell(query, *answer(query))
        other = plain.ask()
        plain.tell(other, *answer(other))
        np.testing.assert_array_equal(query.position, other.position)
    assert careful.evaluations == plain.evaluations


def test_nothing_returned_is_live():
    x0 = np.zeros(3)
    opt, twin = SFO(x0, 4, rng=2), SFO(np.zeros(3), 4, rng=2)
    x0[:] = 7.0
    for _ in range(30):
        query, other = opt.ask(), twin.ask()
        np.testing.assert_array_equal(query.position, other.position)
        value, gradient = answer(query)
        opt.tell(query, value, gradient)
        twin.tell(other, *answer(other))
        for array in (query.position, gradient, opt.x, opt.values):
            array[:] = np.nan


def test_any_structure():
    x0 = {"a": np.zeros((1, 2), np.float32), "b": [np.float32(0.0)]}
    opt = SFO(x0, 4, rng=0)
    for _ in range(60):
        query = opt.ask()
        assert query.position["a"].dtype == np.float32 and query.position["a"].shape == (1, 2)
        assert isinstance(query.position["b"][0], np.float32)
        flat = np.append(query.position["a"].ravel(), query.position["b"][0])
        error = flat - CENTRES[query.index]
        opt.tell(query, error @ error, {"a": 2 * error[None, :2], "b": [2 * error[2]]})
    np.testing.assert_allclose(opt.x["a"][0], CENTRES.mean(axis=0)[:2], atol=1e-3)
    assert opt.dtype == np.float32


@given(st.integers(0, 2**31), st.integers(1, 5))
@settings(max_examples=10, deadline=None)
def test_same_seed_same_run(seed, n):
    def positions(rng):
        opt = SFO(np.zeros(3), n, rng=rng)
        found = []
        for _ in range(15):
            query = opt.ask()
            found.append((query.index, *query.position))
            opt.tell(query, *answer(Query(0, query.index % 4, query.position)))
        return found

    expected = positions(seed)
    assert positions(np.random.default_rng(seed)) == expected
    assert positions(np.random.SeedSequence(seed)) == expected


def test_the_global_random_stream_is_left_alone():
    before = copy.deepcopy(np.random.get_state())  # noqa: NPY002
    advance(SFO(np.zeros(3), 4), 20)
    after = np.random.get_state()  # noqa: NPY002
    assert before[0] == after[0] and before[2:] == after[2:]
    np.testing.assert_array_equal(before[1], after[1])


@pytest.mark.parametrize("value", [1.0, 1, np.float32(1), np.int64(1), np.array(1.0), np.array(1)])
def test_scalars_of_any_real_kind_are_values(value):
    opt = SFO(np.zeros(3), 1)
    info = opt.tell(opt.ask(), value, np.ones(3))
    assert type(info.value) is float and info.value == 1.0


@pytest.mark.parametrize(
    ("value", "error", "sentence"),
    [
        (np.ones(1), ValueError, r"value must be a scalar; got an array of shape \(1,\)"),
        ([1.0], ValueError, r"value must be a scalar; got an array of shape \(1,\)"),
        (np.ones((2, 3)), ValueError, r"shape \(2, 3\)"),
        (1j, TypeError, "value must be a real number; got complex"),
        (np.complex64(1), TypeError, "value must be a real number; got complex64"),
        (True, TypeError, "value must be a real number; got bool$"),
        (np.True_, TypeError, "value must be a real number; got bool$"),
        ("1.0", TypeError, "value must be a real number; got str"),
        (None, TypeError, "value must be a number; got None"),
        (object(), TypeError, "value must be a real number; got object$"),
        (Fraction(1, 2), TypeError, r"value must be a real number; got Fraction: pass float\(value\)"),
        (Decimal(1), TypeError, r"value must be a real number; got Decimal: pass float\(value\)"),
        (np.array(1j), TypeError, "value must be a real number; got ndarray of dtype complex128"),
        (np.float64, TypeError, "value must be a real number; got the class float64"),
        (np.ma.masked, ValueError, "value must be a number; got one that is masked"),
        (10**400, ValueError, "value is an integer too large"),
    ],
)
def test_what_is_no_value_gets_a_sentence(value, error, sentence):
    opt = SFO(np.zeros(3), 1)
    with pytest.raises(error, match=sentence):
        opt.tell(opt.ask(), value, np.ones(3))
    assert opt.evaluations == 0


def test_a_value_that_is_not_finite_is_a_rejected_step():
    opt = SFO(np.zeros(3), 2, rng=0)
    advance(opt, 6)
    info = opt.tell(opt.ask(), np.nan, np.ones(3))
    assert info.outcome == "not finite" and info.failure is None
    assert np.isfinite(opt.x).all() and np.isfinite(opt.ask().position).all()


def test_never_finite_ends_in_a_failure():
    opt = SFO(np.zeros(3), 2, rng=0)
    for _ in range(1000):
        if opt.tell(opt.ask(), np.nan, np.ones(3)).failure:
            break
    assert "not finite" in opt.failure
    with pytest.raises(RuntimeError, match="not finite"):
        opt.ask()
    np.testing.assert_array_equal(opt.x, np.zeros(3))


def test_a_query_is_told_once_and_is_what_ask_returned():
    opt = SFO(np.zeros(3), 2, rng=0)
    query = opt.ask()
    opt.tell(query, *answer(query))
    with pytest.raises(ValueError, match=f"query {query.ticket}"):
        opt.tell(query, *answer(query))
    with pytest.raises(TypeError, match="query must be what ask"):
        opt.tell((1, 0), 0.0, np.ones(3))
    with pytest.raises(dataclasses.FrozenInstanceError):
        query.index = 3


def test_replaced_subfunctions_are_followed():
    centres = CENTRES.copy()
    opt = SFO(np.zeros(3), 4, rng=0)
    for kept in (False, True):
        for _ in range(60):
            query = opt.ask()
            error = query.position - centres[query.index]
            opt.tell(query, 0.5 * error @ error, error)
        np.testing.assert_allclose(opt.x, centres.mean(axis=0), atol=1e-5)
        centres[2] += 3.0
        opt.replace(2, keep_history=kept)


def test_replacing_voids_a_pending_query():
    opt = SFO(np.zeros(3), 2, rng=0)
    query = opt.ask()
    opt.replace(query.index)
    with pytest.raises(ValueError, match="replaced"):
        opt.tell(query, *answer(query))


@pytest.mark.parametrize(
    ("index", "error"), [(2, ValueError), (-1, ValueError), (0.0, TypeError), (True, TypeError), ("0", TypeError)]
)
def test_replace_refuses_what_is_no_index(index, error):
    with pytest.raises(error, match="index must be"):
        SFO(np.zeros(3), 2).replace(index)


@pytest.mark.parametrize("keep", ["no", 1, None])
def test_replace_refuses_what_is_no_switch(keep):
    with pytest.raises(TypeError, match="keep_history must be True or False; got"):
        SFO(np.zeros(3), 2).replace(0, keep_history=keep)


@pytest.mark.parametrize(
    ("x0", "length"),
    [
        (np.array([3.0, -4.0]), 5.0),
        (np.array([3e200, 4e200]), 5e200),
        (np.array([3e-200, 4e-200]), 5e-200),
        (np.array([3e30, 4e30], np.float32), 5e30),
        ({"a": np.array([3e4], np.float16), "b": [4e4]}, 5e4),
    ],
)
def test_length_is_free_of_overflow(x0, length):
    with np.errstate(all="raise"):
        assert SFO(x0, 2).length == pytest.approx(length, rel=1e-3)


def test_it_stands_at_the_best_point_while_it_descends():
    opt = SFO(np.zeros(3), 4, rng=0)
    assert opt.stands_at_best is True
    advance(opt, 60)
    assert opt.stands_at_best is True


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"n": 10**20}, ValueError, "n must be at most 9007199254740992; got 100000000000000000000"),
        ({"n": 10**400}, ValueError, "n must be at most 9007199254740992; got an integer of 1329 bits"),
        ({"rng": -(10**5000)}, ValueError, "rng must be .*; got an integer of 16610 bits"),
        ({"seed": 3}, TypeError, "unknown option 'seed'; did you mean 'rng'"),
        ({"learning_rate": 3}, TypeError, "unknown option 'learning_rate'; there is no step size to choose"),
        ({"epochs": 3}, TypeError, "unknown option 'epochs'; the options are history"),
        ({"n": 0}, ValueError, "n must be at least 1; got 0"),
        ({"n": -3}, ValueError, "n must be at least 1"),
        ({"n": 2.0}, TypeError, "n must be a positive integer; got float"),
        ({"n": True}, TypeError, "n must be a positive integer; got bool"),
        ({"n": [1, 2]}, TypeError, "n must be a positive integer; got list"),
        ({"rng": -1}, ValueError, "rng must be None, a non-negative integer"),
        ({"rng": "seed"}, TypeError, "rng must be"),
        ({"histroy": 3}, TypeError, "unknown option 'histroy'; did you mean 'history'"),
        ({"zzz": 3}, TypeError, "unknown option 'zzz'; the options are history"),
        ({"history": 0}, ValueError, "history must be"),
        ({"target": "nearest"}, ValueError, "target must be one of"),
        ({"x0": np.array([])}, ValueError, "x0 is empty"),
        ({"x0": [np.nan]}, ValueError, "x0.* must be finite"),
    ],
)
def test_bad_arguments_get_a_sentence(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        SFO(**{"x0": np.zeros(3), "n": 2, **arguments})


@pytest.mark.parametrize(
    "options", [{"update": "rank-one"}, {"target": "random"}, {"target": "cyclic"}, {"history": 2}]
)
def test_options_reach_the_core(options):
    plain, chosen = SFO(np.zeros(3), 4, rng=0), SFO(np.zeros(3), 4, rng=0, **options)
    advance(plain, 40)
    advance(chosen, 40)
    np.testing.assert_allclose(chosen.x, CENTRES.mean(axis=0), atol=1e-3)


def test_every_option_of_the_core_is_typed():
    assert set(sumopt.sfo.SFOOptions.__annotations__) == {
        field.name for field in dataclasses.fields(sumopt.core.Options)
    }


def test_public_names():
    assert sorted(sumopt.__all__) == sorted(
        ["minimize", "SFO", "OptimizeResult", "Query", "Info", "check_gradient", "suggest_batches", "__version__"]
    )
    assert all(hasattr(sumopt, name) for name in sumopt.__all__)
