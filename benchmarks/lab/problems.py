"""The problems of the laboratory: the paper's seven, reduced, on real data, and what users bring beside them."""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import expit

from benchmarks.lab.data import cifar10, curves, mnist, protein
from benchmarks.lab.networks import (
    PINN_LAYERS,
    convolution_start,
    convolution_value,
    dense_shapes,
    dense_start,
    dense_value,
    pinn_value,
    sparse_start,
)
from benchmarks.problems import (
    Problem,
    autoencoder_value,
    flatten,
    ica_value,
    ising_of,
    logistic_value,
    principal_components,
    quiet,
    split,
)

Rng = np.random.Generator
N = 50


# The paper's seven


def logistic(rng: Rng) -> Problem:
    """Logistic regression on protein homology."""
    features, signs = protein(20000)
    fun = partial(logistic_value, penalty=1 / len(features))
    return Problem(
        "logistic", "Logistic regression", True, np.zeros(features.shape[1]), split(rng, N, features, signs), fun
    )


def ising(rng: Rng) -> Problem:
    """An Ising model of digits, by minimum probability flow."""
    return ising_of(rng, N, (mnist(5000)[0] > 0.3).astype(float), "Ising model")


def ica(rng: Rng) -> Problem:
    """Independent components of whitened digits, with Student-t experts."""
    scores, variances = principal_components(mnist(10000)[0])
    kept = np.flatnonzero(variances > 1e-4 * variances[0])[:100]
    whitened = scores[:, kept] / np.sqrt(variances[kept])
    size = whitened.shape[1]
    x0 = flatten(rng.normal(size=(size, size)) / np.sqrt(size), np.full(size, np.log(5.0)))
    return Problem("ica", "Independent components", False, x0, split(rng, N, whitened), ica_value, has_zero=False)


def autoencoder(rng: Rng) -> Problem:
    """A contractive autoencoder of digits."""
    images = mnist(5000)[0]
    hidden, size = 64, images.shape[1]
    shapes = ((size, hidden), (hidden,), (size,))
    bound = np.sqrt(6 / (size + hidden))
    x0 = flatten(rng.uniform(-bound, bound, size=shapes[0]), np.zeros(hidden), np.zeros(size))
    fun = partial(autoencoder_value, shapes=shapes, contraction=0.25)
    return Problem("autoencoder", "Contractive autoencoder", False, x0, split(rng, N, images), fun)


def classifier(
    rng: Rng, name: str, title: str, *, unit: str, hidden: tuple[int, ...] = (), gain: float = 1.0, count: int = 5000
) -> Problem:
    """A dense network with softmax that tells digits apart."""
    images, labels = mnist(count)
    layers = (images.shape[1], *hidden, 10)
    fun = partial(dense_value, shapes=dense_shapes(layers), units=(unit,) * len(hidden), loss="softmax")
    batches = split(rng, N, images, np.eye(10)[labels])
    return Problem(name, title, not hidden, dense_start(rng, layers, gain), batches, fun)


def rectified(rng: Rng) -> Problem:
    """A multilayer perceptron of rectified units."""
    return classifier(rng, "rectified", "Perceptron, rectified", unit="rectified", hidden=(60, 60), gain=2.0)


def sigmoid(rng: Rng) -> Problem:
    """A multilayer perceptron of sigmoid units."""
    return classifier(rng, "sigmoid", "Perceptron, sigmoid", unit="sigmoid", hidden=(60, 60), gain=4.0)


def convolution(rng: Rng) -> Problem:
    """A convolutional network on photographs."""
    batches = split(rng, N, *cifar10(2500))
    return Problem("convolution", "Convolutional network", False, convolution_start(rng), batches, convolution_value)


def deep(rng: Rng) -> Problem:
    """A deep autoencoder of CURVES-like images, with sparse initialization."""
    images = curves(5000)
    layers = (196, 64, 32, 16, 6, 16, 32, 64, 196)
    units = ("sigmoid",) * 3 + ("linear",) + ("sigmoid",) * 3
    fun = partial(dense_value, shapes=dense_shapes(layers), units=units, loss="pixels")
    batches = split(rng, N, images, images)
    return Problem("deep", "Deep autoencoder", False, sparse_start(rng, layers), batches, fun)


# What users bring


def softmax(rng: Rng) -> Problem:
    """Softmax regression on digits."""
    return classifier(rng, "softmax", "Softmax regression", unit="linear")


def tanh(rng: Rng) -> Problem:
    """A tanh network on few digits, which can be trained to a loss of zero."""
    return classifier(rng, "tanh", "Network to zero loss, tanh", unit="tanh", hidden=(40, 40), count=2500)


def poisson(rng: Rng) -> Problem:
    """Poisson regression, whose exponentials explode beyond a short step."""
    features = rng.normal(size=(5000, 100)) * np.geomspace(1.0, 0.1, 100)
    counts = rng.poisson(np.exp(np.clip(features @ rng.normal(size=100), -5.0, 5.0))).astype(float)
    return Problem("poisson", "Poisson regression", True, np.zeros(100), split(rng, N, features, counts), poisson_value)


@quiet()
def poisson_value(x: np.ndarray, batch: tuple[np.ndarray, np.ndarray]) -> tuple[float, np.ndarray]:
    """Mean negative log likelihood of counts."""
    features, counts = batch
    exponents = features @ x
    rates = np.exp(exponents)
    return float((rates - counts * exponents).mean()), features.T @ (rates - counts) / len(counts)


def separable(rng: Rng) -> Problem:
    """Logistic regression of separable data without penalty: the minimum is at infinity."""
    features = rng.normal(size=(5000, 100)) * np.geomspace(1.0, 0.03, 100)
    signs = np.sign(features @ (rng.normal(size=100) / np.geomspace(1.0, 0.03, 100)))
    return Problem(
        "separable", "Logistic, separable", False, np.zeros(100), split(rng, N, features, signs), separable_value
    )


def separable_value(x: np.ndarray, batch: tuple[np.ndarray, np.ndarray]) -> tuple[float, np.ndarray]:
    """Mean log loss."""
    features, signs = batch
    margins = signs * (features @ x)
    return float(np.logaddexp(0.0, -margins).mean()), -features.T @ (signs * expit(-margins)) / len(signs)


def pinn(rng: Rng) -> Problem:
    """A physics-informed network: Poisson's equation on a square, with four bumps."""
    batches = []
    for _ in range(30):
        inside = rng.uniform(size=(60, 2))
        edge = rng.uniform(size=(20, 2))
        sides = rng.integers(4, size=20)
        edge[np.arange(20), sides // 2] = sides % 2
        source = 8 * np.pi**2 * np.sin(2 * np.pi * inside[:, 0]) * np.sin(2 * np.pi * inside[:, 1])
        batches.append((inside, source, edge))
    return Problem("pinn", "Physics-informed network", False, dense_start(rng, PINN_LAYERS), batches, pinn_value)


def quadratic(rng: Rng, decades: int) -> Problem:
    """Quadratics around scattered centres, whose common curvatures span some decades."""
    size = 200
    axes = np.linalg.qr(rng.normal(size=(size, size)))[0]
    curvatures = np.geomspace(1.0, 10.0**-decades, size)
    batches = [(axes * curvatures * rng.uniform(0.5, 1.5, size=size), rng.normal(size=size)) for _ in range(N)]
    fun = partial(quadratic_value, axes=axes)
    return Problem(f"quadratic{decades}", f"Quadratics, condition 1e{decades}", True, np.zeros(size), batches, fun)


def quadratic_value(x: np.ndarray, batch: tuple[np.ndarray, np.ndarray], axes: np.ndarray) -> tuple[float, np.ndarray]:
    """Half the squared distance from a centre, in the metric of the curvatures."""
    scaled, centre = batch
    gradient = scaled @ (axes.T @ (x - centre))
    return float(0.5 * (x - centre) @ gradient), gradient


PROBLEMS: dict[str, Callable[[Rng], Problem]] = {
    builder.__name__: builder
    for builder in (
        logistic, ising, ica, autoencoder, rectified, sigmoid, convolution, deep,
        softmax, tanh, poisson, separable, pinn,
    )
}  # fmt: skip
PROBLEMS |= {f"quadratic{decades}": partial(quadratic, decades=decades) for decades in (2, 5, 8)}


def make_problem(name: str, seed: int) -> Problem:
    """The named problem; the seed draws its initialization and deals its samples to minibatches."""
    return PROBLEMS[name](np.random.default_rng(seed))
