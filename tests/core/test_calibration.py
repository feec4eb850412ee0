"""What is learnt about the models from how they did, and what keeps a step short."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sumopt.core.acceptance import FADED, Stride
from sumopt.core.calibration import LEAST, Calibration, Skill
from sumopt.core.hessian import Hessian

seeds = st.integers(0, 10_000)


def plain(curvature, size=6):
    """A Hessian of which nothing but the diagonal is known."""
    return Hessian(curvature, np.zeros((2, size)), np.zeros(2))


@pytest.mark.parametrize("truth", [0.1, 0.5, 1.0])
def test_assumed_curvatures_are_corrected_to_what_they_turn_out_to_be(truth):
    rng, calibration = np.random.default_rng(0), Calibration(10)
    for _ in range(200):
        step = rng.normal(size=6)
        calibration.observe(plain(3.0 * calibration.ratio), step, 3.0 * truth * step, 3.0)
    assert calibration.ratio == pytest.approx(truth, rel=1e-6)


def test_corrections_are_bounded():
    rng = np.random.default_rng(0)
    for truth, bound in ((7.0, 1.0), (0.0, LEAST), (-1.0, LEAST)):
        calibration = Calibration(10)
        for _ in range(1000):
            step = rng.normal(size=6)
            calibration.observe(plain(3.0), step, 3.0 * truth * step, 3.0)
        assert calibration.ratio == bound


def test_what_the_history_explains_is_no_matter_of_assumption():
    """The step lies in a direction of known curvature, but for rounding: whatever the change is, nothing is learnt."""
    calibration = Calibration(10)
    hessian = Hessian(1.0, np.eye(6)[:2], np.array([5.0, 9.0]))
    for _ in range(100):
        calibration.observe(hessian, np.eye(6)[0] + 1e-12, 0.01 * np.ones(6), 1.0)
    assert calibration.ratio == pytest.approx(1.0, abs=1e-6)


@given(seeds, st.floats(-9, 9), st.floats(-9, 9))
def test_calibration_and_skill_have_no_unit(seed, unit_of_x, unit_of_f):
    x, f = 10.0**unit_of_x, 10.0**unit_of_f
    ratios = []
    for length, value in ((1.0, 1.0), (x, f)):
        rng, calibration, skill = np.random.default_rng(seed), Calibration(5), Skill(5)
        for _ in range(20):
            step, change, own, mean = rng.normal(size=(4, 6))
            slope = value / length
            calibration.observe(plain(2.0 * slope / length), step * length, change * slope, 2.0 * slope / length)
            skill.observe(change * slope, own * slope, mean * slope)
        ratios.append((calibration.ratio, skill.weight))
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-9)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_mixture_is_the_one_that_foresees_best(weight):
    rng, skill = np.random.default_rng(1), Skill(10)
    assert skill.weight == 1.0
    for _ in range(200):
        own, mean = rng.normal(size=(2, 6))
        skill.observe(weight * own + (1.0 - weight) * mean, own, mean)
    assert skill.weight == pytest.approx(weight, abs=1e-6)


def test_one_prediction_that_was_far_off_does_not_drown_the_others():
    rng, skill = np.random.default_rng(2), Skill(5)
    own, mean = rng.normal(size=(2, 6))
    skill.observe(mean, 1e9 * own, mean)
    assert skill.weight < 0.1
    for _ in range(15):
        own, mean = rng.normal(size=(2, 6))
        skill.observe(own, own, mean)
    assert skill.weight > 0.9


def test_strides_are_limited_where_gradients_are_rounding_and_nowhere_else():
    epsilon, n = 2e-16, 4
    for faded in (False, True):
        stride = Stride(n, epsilon)
        scale = 0.1 * FADED * epsilon if faded else 1e-3
        assert [stride.shortening(1.0, size) for size in (1.0, scale, scale, scale)] == [1.0] * 4
        expected = (1.0 + 1.0 / n) / 50.0 if faded else 1.0
        assert stride.shortening(50.0, scale) == pytest.approx(expected)
        assert stride.shortening(0.5, scale) == 1.0
        stride.forget()
        assert stride.shortening(500.0, scale) == 1.0
