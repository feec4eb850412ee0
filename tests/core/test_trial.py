"""A trial on its own: what it asks for, and what comes of it."""

import numpy as np
import pytest

from sumopt.core.trial import MOST_BACK, MOST_SHORTER, Observation, Place, Trial, Verdict

HOME, STEP = np.array([1.0, 1.0]), np.array([4.0, 0.0])


def seen(value, where=HOME):
    """An observation at a point."""
    return Observation(Place(where, where), value, np.ones(2))


def trial(value, *, allowed=0.0, expected=1.0, last=None):
    """A trial of a step whose end had this value; None where it was not finite."""
    suspect = None if value is None else seen(value, HOME + STEP)
    return Trial(3, HOME, STEP, suspect, allowed, expected, last)


def values(verdict):
    """What a verdict learns, in order."""
    assert isinstance(verdict, Verdict)
    return [observation.value for observation in verdict.observations]


def test_it_asks_for_home_first():
    assert np.array_equal(trial(5.0).point, HOME)
    assert np.array_equal(trial(None).point, HOME)


@pytest.mark.parametrize(("allowed", "home"), [(0.0, 5.0), (0.0, 9.0), (2.0, 3.0)])
def test_home_was_as_bad(allowed, home):
    verdict = trial(5.0, allowed=allowed).answer(seen(home))
    assert values(verdict) == [home, 5.0]
    assert not verdict.failed


def test_home_was_better():
    verdict = trial(5.0).answer(seen(2.0))
    assert values(verdict) == [5.0, 2.0]
    assert verdict.failed


def test_home_is_not_finite_but_the_end_of_the_step_was():
    verdict = trial(5.0).answer(None)
    assert values(verdict) == [5.0]
    assert not verdict.failed


def test_an_explosion_is_not_learnt():
    shorter = trial(1e9).answer(seen(2.0))
    assert isinstance(shorter, Trial)
    assert np.allclose(shorter.point, HOME + 0.01 * STEP)
    worse = shorter.answer(seen(3.0, shorter.point))
    assert values(worse) == [3.0, 2.0]
    better = shorter.answer(seen(1.0, shorter.point))
    assert values(better) == [2.0, 1.0]
    assert worse.failed
    assert better.failed


@pytest.mark.parametrize("rise", [11.0, 100.0, 1e3, 1e30])
def test_a_shorter_step_is_where_a_parabola_puts_the_expected_rise(rise):
    shorter = trial(2.0 + rise).answer(seen(2.0))
    assert shorter.fraction == pytest.approx(max(np.sqrt(1.0 / rise), 0.01))


@pytest.mark.parametrize("answer", [None, 1e9])
@pytest.mark.parametrize("suspect", [None, 1e9])
def test_hopeless_steps_end_at_home(answer, suspect):
    state, tried = trial(suspect).answer(seen(2.0)), 0
    while isinstance(state, Trial):
        tried += 1
        state = state.answer(None if answer is None else seen(answer, state.point))
    assert values(state) == [2.0]
    assert state.failed
    assert tried == MOST_SHORTER


def test_the_way_back_to_the_last_finite_value():
    last = np.array([-7.0, 1.0])
    state = trial(None, last=last).answer(None)
    points = []
    while isinstance(state, Trial):
        points.append(state.point)
        state = state.answer(None)
    assert values(state) == []
    assert np.allclose([p[0] for p in points], [last[0] + 8.0 / 4**k for k in range(1, MOST_BACK + 1)])
    found = trial(None, last=last).answer(None).answer(seen(4.0))
    assert values(found) == [4.0]


@pytest.mark.parametrize("last", [None, HOME])
def test_nowhere_to_go_back_to(last):
    assert values(trial(None, last=last).answer(None)) == []
