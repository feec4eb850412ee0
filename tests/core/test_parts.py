"""Laws of the parts: subspace, Hessian, surrogate, target, growth, factor."""

import tracemalloc

import numpy as np
import pytest
from core.driving import dense
from hypothesis import given, settings
from hypothesis import strategies as st

from sumopt.core.acceptance import is_bad, lengthened, shortened
from sumopt.core.factor import Factor
from sumopt.core.growth import is_noisy
from sumopt.core.hessian import bfgs, enforce_positive, fit, rank_one, secant_curvatures
from sumopt.core.history import History, Pairs, speaks
from sumopt.core.subspace import Subspace, rotate

seeds = st.integers(0, 10_000)


def generator(seed):
    """A stream of its own."""
    return np.random.default_rng(seed)


def positive(rng, size):
    """A random positive definite matrix."""
    root = rng.normal(size=(size, size))
    return root @ root.T + 0.1 * np.eye(size)


# Subspace


@given(seeds, st.sampled_from([np.float32, np.float64]), st.integers(-25, 25))
@settings(max_examples=40, deadline=None)
def test_included_vectors_come_back(seed, dtype, decade):
    rng = generator(seed)
    subspace = Subspace(np.zeros(50, dtype), 12)
    eps = np.finfo(dtype).eps
    for _ in range(12):
        vector = (rng.normal(size=50) * 10.0**decade).astype(dtype)
        coordinates = subspace.include(vector)
        assert np.allclose(subspace.position(coordinates), vector, rtol=0, atol=50 * eps * np.abs(vector).max())
    basis = subspace.basis.astype(np.float64)
    assert np.abs(basis @ basis.T - np.eye(12)).max() < 20 * eps


@pytest.mark.parametrize("gap", [1e-3, 1e-7, 1e-11])
def test_nearly_parallel_vectors_leave_the_basis_orthonormal(gap):
    rng = generator(0)
    subspace, first = Subspace(np.zeros(100), 30), rng.normal(size=100)
    for _ in range(30):
        subspace.include(first + gap * rng.normal(size=100))
    assert subspace.size == 30
    assert np.abs(subspace.basis @ subspace.basis.T - np.eye(30)).max() < 1e-13


def test_nothing_new_takes_no_room():
    rng = generator(0)
    subspace, vector = Subspace(np.zeros(100), 5), rng.normal(size=100)
    for factor in (1.0, -3.0, 1e-30, 0.0):
        subspace.include(factor * vector)
    assert subspace.size == 1


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_a_collapse_keeps_what_it_should_and_no_more(seed):
    rng = generator(seed)
    origin = rng.normal(size=40)
    subspace = Subspace(origin, 12)
    stack = np.array([subspace.include(rng.normal(size=40)) for _ in range(10)])
    before = [subspace.position(c) for c in stack]
    rotation = subspace.collapse(stack[:4], 9)
    rotate(stack, rotation)
    assert rotation.shape == (4, 10)
    assert subspace.size == 4
    for c, position in zip(stack[:4], before, strict=False):
        assert np.allclose(subspace.position(c), position)
    basis = subspace.basis
    assert np.allclose(stack[9, :4], basis @ (before[9] - origin))
    assert not stack[:, 4:].any()


def test_a_collapse_prefers_the_first_directions():
    rng = generator(1)
    subspace = Subspace(np.zeros(40), 12)
    stack = np.array([subspace.include(rng.normal(size=40)) for _ in range(10)])
    kept = subspace.position(stack[2])
    rotation = subspace.collapse(stack[[2, 2, 5, 7]], 2)
    rotate(stack, rotation)
    assert len(rotation) == 2
    assert np.allclose(subspace.position(stack[2]), kept)


def test_a_collapse_does_not_copy_the_basis():
    rng = generator(0)
    subspace = Subspace(np.zeros(100_000), 20)
    stack = np.array([subspace.include(rng.normal(size=100_000)) for _ in range(15)])
    tracemalloc.start()
    try:
        subspace.collapse(stack[:10], 10)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 0.1 * subspace._basis.nbytes


# Hessian


def exact(steps, changes):
    """Pairs without rounding."""
    return Pairs(steps, changes, np.zeros(len(steps)), np.zeros(len(steps)))


@given(seeds, st.integers(1, 8), st.sampled_from([bfgs, rank_one]))
@settings(max_examples=60, deadline=None)
def test_a_fit_is_positive_and_obeys_the_newest_pair(seed, count, update):
    rng = generator(seed)
    curvature = positive(rng, 12)
    steps = rng.normal(size=(count, 12))
    fitted = fit(exact(steps, steps @ curvature), update=update, smallest_ratio=1e-8)
    matrix = dense(fitted, 12)
    assert np.linalg.eigvalsh(matrix)[0] > 0
    if update is bfgs:
        assert np.allclose(matrix @ steps[-1], curvature @ steps[-1], rtol=1e-6)


def test_rank_one_finds_a_quadratic():
    rng = generator(3)
    curvature = positive(rng, 6)
    steps = rng.normal(size=(7, 6))
    assert np.allclose(
        dense(fit(exact(steps, steps @ curvature), update=rank_one, smallest_ratio=1e-8), 6),
        curvature,
        rtol=1e-5,
    )


@given(seeds, st.integers(1, 10))
@settings(max_examples=60, deadline=None)
def test_q_solves_the_squared_secant_equation(seed, count):
    rng = generator(seed)
    steps, changes = rng.normal(size=(12, count)), rng.normal(size=(12, count))
    ratio = changes @ np.linalg.pinv(steps)
    eigenvalues = np.sqrt(np.maximum(np.linalg.eigvalsh(ratio.T @ ratio)[::-1][:count], 0))
    assert np.allclose(secant_curvatures(exact(steps.T, changes.T))[0][:count], eigenvalues, rtol=1e-5)


def test_negative_curvature_becomes_the_median_of_all_directions():
    eigenvalues, beta = enforce_positive(np.array([-2.0, 1e-12, 3.0, 10.0]), 1.0, 0, 1e-8, 5.0)
    assert np.array_equal(eigenvalues, [3.0, 3.0, 3.0, 10.0])
    assert beta == 1.0
    eigenvalues, _ = enforce_positive(np.array([-2.0, 1e-12, 3.0, 10.0]), 1.0, 7, 1e-8, 5.0)
    assert np.array_equal(eigenvalues, [1.0, 1.0, 3.0, 10.0])
    eigenvalues, beta = enforce_positive(np.array([3.0, 4e9]), 1.0, 0, 1e-8, 5.0)
    assert beta == pytest.approx(2e9 + 1.5)


def test_a_history_that_spans_everything_leaves_nothing_for_beta_to_be():
    eigenvalues, _ = enforce_positive(np.array([1.0, 3.0, 10.0]), 427.0, 0, 0.1, 5.0)
    assert np.array_equal(eigenvalues, [1.0, 3.0, 10.0])
    eigenvalues, _ = enforce_positive(np.array([-2.0, -1.0, 0.0]), 1.0, 0, 1e-8, 5.0)
    assert np.array_equal(eigenvalues, [5.0, 5.0, 5.0])


def test_the_fit_does_not_depend_on_units():
    rng = generator(5)
    curvature = positive(rng, 10)
    steps = rng.normal(size=(5, 10))
    plain = dense(fit(exact(steps, steps @ curvature), update=bfgs, smallest_ratio=1e-8), 10)
    for unit_x, unit_f in [(1e-9, 1.0), (1e9, 1e-12), (1.0, 1e12)]:
        pairs = exact(steps * unit_x, steps @ curvature * unit_f / unit_x)
        other = fit(pairs, update=bfgs, smallest_ratio=1e-8)
        assert np.allclose(dense(other, 10) * unit_x**2 / unit_f, plain, rtol=1e-9)


# History


def test_the_oldest_pair_goes_first():
    history = History(2, 3, 4)
    for k in range(1, 6):
        history.append(1, np.full(4, float(k)), np.full(4, 10.0 * k), (k / 1e6, 100.0 * k))
    pairs = history.of(1, 4)
    assert np.array_equal(pairs.step_errors, [3e-6, 4e-6, 5e-6])
    assert np.array_equal(pairs.change_errors, [300.0, 400.0, 500.0])
    assert np.array_equal(pairs.steps[:, 0], [3.0, 4.0, 5.0])
    assert np.array_equal(pairs.changes[:, 0], [30.0, 40.0, 50.0])
    assert np.allclose(history.longest_steps(), [0.0, 10.0])
    assert len(history.of(0, 4).steps) == 0
    history.forget(1)
    assert len(history.of(1, 4).steps) == 0
    assert not np.any(list(history.directions()))


@pytest.mark.parametrize("unit", [1e-100, 1.0, 1e100])
def test_what_speaks_has_no_unit(unit):
    along, across = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert speaks(along * unit, along / unit)
    assert speaks(along * unit, -along * unit)
    assert not speaks(along * unit, across * unit)
    assert not speaks(0 * along, across * unit)
    assert not speaks(along * unit, 0 * along)


# Factor


@given(seeds, st.integers(1, 12), st.integers(-200, 200))
@settings(max_examples=40, deadline=None)
def test_a_factor_divides_and_measures(seed, size, decade):
    rng = generator(seed)
    matrix = positive(rng, size) * 10.0**decade
    inverse = np.linalg.inv(matrix / 10.0**decade) / 10.0**decade
    factor, vectors = Factor(np.asfortranarray(matrix)), rng.normal(size=(4, size))
    assert np.allclose(factor.solve(vectors[0]), inverse @ vectors[0], rtol=1e-6, atol=1e-9 * 10.0**-decade)
    assert np.allclose(factor.squared_lengths(vectors), np.einsum("ki,ij,kj->k", vectors, inverse, vectors), rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-150, 1.0, 1e150])
def test_a_matrix_that_rounding_made_indefinite_still_divides(unit):
    direction = np.array([1.0, 1.0, 0.0])
    matrix = (np.outer(direction, direction) + np.diag([0.0, -1e-17, 0.0])) * unit
    solution = Factor(np.asfortranarray(matrix)).solve(direction * unit)
    assert np.allclose(solution, direction / 2, atol=0.05)


def test_no_knowledge_divides_to_zero():
    factor = Factor(np.zeros((3, 3), order="F"))
    assert not factor.solve(np.ones(3)).any()
    assert not factor.squared_lengths(np.ones((2, 3))).any()


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1.0])
def test_a_factor_of_anything_ends(scale):
    factor = Factor(scale * np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert np.isfinite(factor.solve(scale * np.ones(2))).all()


# Growth and acceptance


@given(seeds, st.integers(2, 10))
@settings(max_examples=60, deadline=None)
def test_growth_is_the_inequality_of_the_paper(seed, count):
    rng = generator(seed)
    matrix = positive(rng, 5)
    gradients = rng.normal(size=(count, 5)) + rng.uniform(0, 2)
    inverse, mean = np.linalg.inv(matrix), gradients.mean(axis=0)
    error = sum(g @ inverse @ g for g in gradients) / ((count - 1) * count)
    for noise in (0.1, 1.0, 10.0):
        assert is_noisy(gradients, Factor(np.asfortranarray(matrix.copy())), noise) == (
            mean @ inverse @ mean < noise * error
        )


def test_two_subfunctions_are_always_noisy_but_one_never_is():
    metric = np.eye(2, order="F")
    assert is_noisy(np.array([[1.0, 0.0], [1.1, 0.1]]), Factor(metric.copy(order="F")), 1.0)
    assert not is_noisy(np.array([[1.0, 0.0]]), Factor(metric.copy(order="F")), 1.0)


def test_bad_needs_both_a_rise_and_a_surprise():
    assert is_bad(2.0, 1.0, 0.5, 1.0, 1e-15)
    assert not is_bad(2.0, 1.0, 1.5, 1.0, 1e-15)
    assert not is_bad(0.9, 1.0, -5.0, 1.0, 1e-15)
    assert not is_bad(1.0 + 1e-15, 1.0, 1.0, 0.0, 1e-14)


@given(st.integers(1, 1000), st.floats(1e-6, 1.0))
def test_eta_recovers_in_a_pass(n, eta):
    assert shortened(eta) == eta / 2
    recovered = eta
    for _ in range(n):
        recovered = lengthened(recovered, n)
    assert 1 - recovered <= (1 - eta) * np.exp(-1) + 1e-12
    assert lengthened(1.0, n) == pytest.approx(1.0)
