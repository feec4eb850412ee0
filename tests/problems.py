"""A collection of small sums of functions, each a function returning (fun(x, i) -> (value, gradient), x0, n)."""

import numpy as np


def quadratics(seed=0, n=6, m=8, condition=100.0):
    """Quadratics with eigenvalues from 1 to the condition number, in random directions around random centres."""
    rng = np.random.default_rng(seed)
    rotations = np.linalg.qr(rng.normal(size=(n, m, m)))[0]
    hessians = rotations * np.geomspace(1.0, condition, m) @ rotations.swapaxes(1, 2)
    centres = rng.normal(size=(n, m))

    def fun(x, i):
        gradient = hessians[i] @ (x - centres[i])
        return 0.5 * (x - centres[i]) @ gradient, gradient

    return fun, rng.normal(size=m), n


def bowl_and_slopes(seed=0, n=6, m=5):
    """One quadratic and n - 1 linear functions, whose gradients never change."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=(n, m))

    def fun(x, i):
        if i == 0:
            return n * x @ x + slopes[0] @ x, 2 * n * x + slopes[0]
        return slopes[i] @ x, slopes[i].copy()

    return fun, rng.normal(size=m), n


def least_squares(seed=0, n=6, m=6, samples=2, spread=1e3):
    """Least squares with fewer samples than parameters, and so zero curvatures, in units of very different size."""
    rng = np.random.default_rng(seed)
    units = np.sqrt(np.geomspace(1.0, spread, n))[:, None]
    features, targets = units[..., None] * rng.normal(size=(n, samples, m)), units * rng.normal(size=(n, samples))

    def fun(x, i):
        error = features[i] @ x - targets[i]
        return 0.5 * error @ error, features[i].T @ error

    return fun, rng.normal(size=m), n


def logistic(seed=0, n=6, m=7, samples=8):
    """Logistic regression on random data with a small quadratic penalty, started from zero."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, samples, m)) * np.geomspace(1.0, 3.0, m)
    labels = np.sign(features @ rng.normal(size=m) + rng.normal(size=(n, samples)))

    def fun(x, i):
        margins = labels[i] * (features[i] @ x)
        pull = -labels[i] * np.exp(-np.logaddexp(0.0, margins))
        value = np.logaddexp(0.0, -margins).mean() + 0.005 * x @ x
        return value, features[i].T @ pull / samples + 0.01 * x

    return fun, np.zeros(m), n


def rosenbrock(seed=0, n=5):
    """The chained Rosenbrock function in n + 1 variables, one link per subfunction."""
    rng = np.random.default_rng(seed)

    def fun(x, i):
        bend = x[i + 1] - x[i] ** 2
        gradient = np.zeros(n + 1)
        gradient[i] = -40.0 * bend * x[i] - 2.0 * (1.0 - x[i])
        gradient[i + 1] = 20.0 * bend
        return 10.0 * bend**2 + (1.0 - x[i]) ** 2, gradient

    return fun, rng.normal(size=n + 1), n


def powers_of_distance(seed=0, n=8, m=10):
    """Distances to random centres, each raised to a power between 1 and 4."""
    rng = np.random.default_rng(seed)
    centres, powers = rng.normal(size=(n, m)), rng.uniform(1.1, 4.0, size=n)

    @np.errstate(over="ignore", invalid="ignore")
    def fun(x, i):
        away = x - centres[i]
        distance = np.linalg.norm(away)
        if distance == 0.0:
            return 0.0, np.zeros(m)
        return distance ** powers[i], powers[i] * distance ** (powers[i] - 2.0) * away

    return fun, rng.normal(size=m), n


def tanh_network(seed=0, n=6, samples=5):
    """A network with two inputs, three tanh units and one output (12 weights), fitted to a wavy function."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(n, samples, 2))
    wanted = np.sin(2.0 * inputs[..., 0]) + inputs[..., 1] ** 2

    def fun(x, i):
        weights, biases, output = x[:6].reshape(2, 3), x[6:9], x[9:]
        hidden = np.tanh(inputs[i] @ weights + biases)
        error = hidden @ output - wanted[i]
        back = np.outer(error, output) * (1.0 - hidden**2)
        gradient = np.concatenate([(inputs[i].T @ back).ravel(), back.sum(0), hidden.T @ error]) / samples
        return 0.5 * error @ error / samples + 0.001 * x @ x, gradient + 0.002 * x

    return fun, 0.5 * rng.normal(size=12), n


def log_barrier(seed=0, n=6, m=6, walls=12):
    """Linear functions inside a polytope with logarithmic walls that they all share; NaN outside."""
    rng = np.random.default_rng(seed)
    normals, slopes = rng.normal(size=(walls, m)), rng.normal(size=(n, m))

    def fun(x, i):
        room, box = 1.0 - normals @ x, 2.0 - x @ x
        if min(room.min(), box) <= 0.0:
            return np.nan, np.full(m, np.nan)
        value = slopes[i] @ x - 0.1 * np.log(room).sum() - 0.1 * np.log(box)
        return value, slopes[i] + 0.1 * normals.T @ (1.0 / room) + 0.2 * x / box

    return fun, np.zeros(m), n


def ripples(seed=0, n=6, m=6, height=1.0):
    """Bowls with waves along random directions: negative curvature, and many a bad update."""
    rng = np.random.default_rng(seed)
    directions, centres = 2.0 * rng.normal(size=(n, 3, m)), rng.normal(size=(n, m))

    def fun(x, i):
        phases = directions[i] @ x
        away = x - centres[i]
        value = 0.5 * away @ away + height * np.cos(phases).sum()
        return value, away - height * directions[i].T @ np.sin(phases)

    return fun, 2.0 * rng.normal(size=m), n


def unreliable(seed=0, n=5, m=6):
    """Quadratics with spells of wrong values, of four kinds in turn: not functions at all.

    First one high value and then one NaN; then high values at all places but those seen before; then NaN there; then
    NaN everywhere for five evaluations.
    """
    quadratic, x0, _ = quadratics(seed, n, m)
    rng = np.random.default_rng(seed)
    places, script = set(), [None] * 12
    spells = (["high", "nan"], ["high if new"] * 3, ["nan if new"] * 10, ["nan"] * 5)
    for spell in spells * 20:
        script += [*spell, *[None] * rng.integers(2, 6)]
    script = iter(script)

    def fun(x, i):
        value, gradient = quadratic(x, i)
        what = next(script)
        if what is None or ("if new" in what and x.tobytes() in places):
            places.add(x.tobytes())
            return value, gradient
        return (np.nan if "nan" in what else value + 100.0 * abs(value)), gradient

    return fun, x0, n


COLLECTION = (
    quadratics,
    bowl_and_slopes,
    least_squares,
    logistic,
    rosenbrock,
    powers_of_distance,
    tanh_network,
    log_barrier,
    ripples,
)
