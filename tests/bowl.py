"""A sum of bowls, and what holds of every result of minimizing it."""

import copy

import numpy as np
import scipy.optimize

from sumopt import OptimizeResult, minimize

CENTRES = np.random.default_rng(7).normal(size=(5, 3))
CURVES = np.array([1.0, 4.0, 9.0])
MEAN = CENTRES.mean(axis=0)
LEAST = sum(0.5 * float(CURVES @ (MEAN - centre) ** 2) for centre in CENTRES)
KEYS = ["pass", "index", "value", "outcome", "eta", "step_length", "active", "subspace_size", "seconds"]


def bowl(x, centre):
    return 0.5 * float(CURVES @ (x - centre) ** 2), CURVES * (x - centre)


class Recorder:
    """A function that remembers where it was evaluated."""

    def __init__(self, fun=bowl):
        self.fun = fun
        self.positions = []

    def __call__(self, x, batch):
        self.positions.append(copy.deepcopy(x))
        return self.fun(x, batch)


def run(fun=bowl, x0=None, batches=CENTRES, **arguments):
    return minimize(fun, np.zeros(3) if x0 is None else x0, batches, **{"rng": 0, **arguments})


def assert_consistent(result, n):
    """What holds of every result, however the run ended."""
    assert isinstance(result, OptimizeResult) and isinstance(result, scipy.optimize.OptimizeResult)
    assert list(result.trace) == KEYS
    assert {len(column) for column in result.trace.values()} == {result.nfev}
    assert result.npasses == result.nfev / n
    assert result.nit == result.trace["outcome"].count("accepted")
    assert result.success == (result.status == 0)
    assert result.time_fun >= 0.0 and result.time_optimizer >= 0.0
    if result.nfev:
        np.testing.assert_allclose(result.trace["pass"], np.arange(1, result.nfev + 1) / n)
        assert np.all(np.diff(result.trace["seconds"]) >= 0.0)
        assert np.all(np.diff(result.trace["active"]) >= 0)
        assert set(result.trace["index"]) <= set(range(n))
