"""What a collapse of the subspace must keep, and what it must drop."""

import numpy as np
import problems
import pytest
from core.driving import dense, drive, start, total
from hypothesis import given, settings
from hypothesis import strategies as st

from sumopt.core.history import LEFT

seeds = st.integers(0, 10_000)


def wide(seed, n=4, m=60):
    """Logistic regression in more dimensions than the subspace holds."""
    return problems.logistic(seed=seed, n=n, m=m, samples=12)


def before_and_after_a_collapse(problem, **options):
    """An optimizer that has just collapsed, all active, and what its stacks meant in the full space before."""
    optimizer, fun = start(problem, **options)
    surrogate, meant = optimizer.surrogate, {}
    while surrogate.count < problem[2]:
        drive(optimizer, fun, 1)
    collapse, rotate = optimizer._subspace.collapse, surrogate.rotate

    def noted_collapse(directions, keep):
        meant["basis"] = optimizer._subspace.basis
        return collapse(directions, keep)

    def noted_rotate(rotation, position):
        size = len(meant["basis"])
        meant.update({name: stack[..., :size] @ meant["basis"] for name, stack in stacks(surrogate).items()})
        meant["hessians"] = [dense(surrogate.hessian(i), size) for i in range(surrogate.count)]
        rotate(rotation, position)

    optimizer._subspace.collapse, surrogate.rotate = noted_collapse, noted_rotate
    while not meant:
        drive(optimizer, fun, 1)
    return optimizer, meant


def stacks(surrogate):
    """Everything that is held in coordinates."""
    return {
        "positions": surrogate.positions.copy(),
        "gradients": surrogate.gradients.copy(),
        "vectors": surrogate.vectors.copy(),
        "steps": surrogate.history._steps.copy(),
        "changes": surrogate.history._changes.copy(),
    }


@given(seeds, st.sampled_from([{}, {"max_subspace": 7}, {"min_subspace": 20}]))
@settings(max_examples=15, deadline=None)
def test_every_stack_is_projected(seed, options):
    optimizer, meant = before_and_after_a_collapse(wide(seed), **options)
    surrogate, basis = optimizer.surrogate, optimizer._subspace.basis
    after = stacks(surrogate)
    projected = {name: meant[name] @ basis.T for name in after}
    shrunk = {
        name: np.linalg.norm(projected[name], axis=-1) < np.sqrt(LEFT) * np.linalg.norm(meant[name], axis=-1)
        for name in ("steps", "changes")
    }
    spoilt = shrunk["steps"] | shrunk["changes"]
    assert spoilt.any() or options != {"max_subspace": 7}
    projected["steps"][spoilt] = projected["changes"][spoilt] = 0.0
    for name, stack in after.items():
        assert not stack[..., len(basis) :].any(), name
        scale = np.abs(meant[name]).max()
        assert np.allclose(stack[..., : len(basis)], projected[name], rtol=0, atol=1e-9 * scale), name
    rotation = basis @ meant["basis"].T
    for i, hessian in enumerate(meant["hessians"]):
        restricted = rotation @ hessian @ rotation.T
        assert np.allclose(dense(surrogate.hessian(i), len(basis)), restricted, atol=1e-9 * np.abs(hessian).max())


@given(seeds, st.integers(4, 7))
@settings(max_examples=15, deadline=None)
def test_a_small_subspace_keeps_what_was_measured_last(seed, limit):
    optimizer, meant = before_and_after_a_collapse(wide(seed), max_subspace=limit)
    basis, kept = optimizer._subspace.basis, optimizer._keep
    newest = np.argsort(-optimizer.surrogate.measured_at)[: (kept - 1) // 2]
    home = optimizer._home.vector - optimizer._subspace.origin
    for vector in [home, *meant["gradients"][newest], *(meant["positions"][newest] - home)]:
        outside = vector - basis.T @ (basis @ vector)
        assert np.linalg.norm(outside) <= 1e-8 * max(np.linalg.norm(vector), np.linalg.norm(home) * 1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "m", "samples"), [(1, 80, 100), (2, 100, 60), (3, 400, 60), (5, 60, 20), (10, 400, 60)])
def test_few_subfunctions_of_many_parameters_do_not_run_away(n, m, samples, dtype):
    for seed in range(2):
        problem = problems.logistic(seed=seed, n=n, m=m, samples=samples)
        optimizer, fun = start(problem, seed=seed, dtype=dtype)
        first, least = total(problem, problem[1]), np.inf
        for _ in range(40):
            drive(optimizer, fun, n)
            # Where it stands, not the best position, which would hide it.
            value = total(problem, optimizer._home.vector)
            assert value <= first
            least = min(least, value)
        assert value <= 1.1 * least + 1e-6 * first


@pytest.mark.parametrize("condition", [1e2, 1e4])
def test_ill_conditioned_sums_do_not_run_away(condition):
    for seed in range(3):
        problem = problems.quadratics(seed=seed, n=4, m=100, condition=condition)
        optimizer, fun = start(problem, seed=seed)
        drive(optimizer, fun, 40 * 4)
        assert total(problem, optimizer._home.vector) <= 0.5 * total(problem, problem[1])
