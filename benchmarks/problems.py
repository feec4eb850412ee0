"""Five problems on scikit-learn's digits, 1797 images of 8 x 8 pixels, after section 5 and appendix A of the paper."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import digamma, expit, gammaln, log_expit
from sklearn.datasets import load_digits

N_BATCHES = 50

# Runs that diverge are part of a grid search; they must not fill the screen.
quiet = partial(np.errstate, over="ignore", invalid="ignore", divide="ignore")


@dataclass(frozen=True, eq=False)
class Problem:
    """A sum of functions: ``fun(x, batch)`` gives the value and the gradient of the subfunction of one minibatch."""

    name: str
    title: str
    convex: bool
    x0: np.ndarray
    batches: list[Any]
    fun: Callable[[np.ndarray, Any], tuple[float, np.ndarray]]
    # Whether zero means something on the scale of F, so that one value may be called so many times another.
    has_zero: bool = True

    def objective(self, x: np.ndarray) -> float:
        """F: the sum over all minibatches."""
        return float(sum(self.fun(x, batch)[0] for batch in self.batches))

    def full(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """F and its gradient."""
        values, gradients = zip(*(self.fun(x, batch) for batch in self.batches), strict=True)
        return float(sum(values)), np.sum(gradients, axis=0)


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Pixels between 0 and 1, one row per image, and the digits that they show."""
    bunch = load_digits()
    return bunch.data / 16.0, bunch.target


def split(rng: np.random.Generator, n_batches: int, *arrays: np.ndarray) -> list[Any]:
    """Minibatches of shuffled samples, of equal size but for one sample."""
    order = np.array_split(rng.permutation(len(arrays[0])), n_batches)
    return [tuple(np.ascontiguousarray(array[rows]) for array in arrays) for rows in order]


def principal_components(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores on the principal components and their variances, largest first."""
    centred = data - data.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    return left * singular, singular**2 / len(data)


def unflatten(x: np.ndarray, shapes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
    """Views of a flat vector as arrays of the given shapes."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return [x[end - int(np.prod(shape)) : end].reshape(shape) for shape, end in zip(shapes, ends, strict=True)]


def flatten(*arrays: np.ndarray) -> np.ndarray:
    """One flat vector of many arrays."""
    return np.concatenate([array.ravel() for array in arrays])


# Logistic regression (A.1)


def logistic(rng: np.random.Generator, n_batches: int) -> Problem:
    """Is the digit five or more? Linear and quadratic features of 16 principal components, and an L2 penalty of 1/n."""
    pixels, labels = digits()
    scores = principal_components(pixels)[0][:, :16]
    rows, columns = np.triu_indices(16)
    features = np.hstack([scores, scores[:, rows] * scores[:, columns]])
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    features = np.hstack([features, np.ones((len(features), 1))])
    batches = split(rng, n_batches, features, np.where(labels >= 5, 1.0, -1.0))
    x0 = rng.normal(scale=0.1, size=features.shape[1])
    fun = partial(logistic_value, penalty=1 / len(features))
    return Problem("logistic", "Logistic regression", True, x0, batches, fun)


@quiet()
def logistic_value(x: np.ndarray, batch: Any, penalty: float) -> tuple[float, np.ndarray]:
    """Mean log loss of labels +-1, with half the squared norm of x times the penalty."""
    features, signs = batch
    margins = signs * (features @ x)
    value = -log_expit(margins).mean() + 0.5 * penalty * (x @ x)
    return float(value), penalty * x - features.T @ (signs * expit(-margins)) / len(signs)


# Ising model by minimum probability flow (A.4)


def ising(rng: np.random.Generator, n_batches: int) -> Problem:
    """An Ising model of binarized digits; x holds the couplings' upper triangle with the biases on its diagonal."""
    states = (digits()[0] > 0.5).astype(float)
    return ising_of(rng, n_batches, states, "Ising model by minimum probability flow")


def ising_of(rng: np.random.Generator, n_batches: int, states: np.ndarray, title: str) -> Problem:
    """An Ising model of binary states, one a row."""
    size = states.shape[1]
    rows, columns = np.triu_indices(size)
    square = np.empty((size, size), dtype=np.intp)
    square[rows, columns] = square[columns, rows] = np.arange(len(rows))
    x0 = rng.normal(scale=0.01, size=len(rows))
    fun = partial(ising_value, square=square, triangle=np.ravel_multi_index((rows, columns), square.shape))
    return Problem("ising", title, True, x0, split(rng, n_batches, states), fun)


@quiet()
def ising_value(x: np.ndarray, batch: Any, square: np.ndarray, triangle: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean probability flow to the states with one bit flipped, exp((E(s) - E(s')) / 2), and 0.01 |x|^2."""
    (states,) = batch
    couplings = x[square]
    biases = couplings.diagonal()
    flips = 1 - 2 * states
    # A bit's own state has no part in its field: the diagonal is a bias, which counts whatever the state.
    fields = states @ couplings + (1 - states) * biases
    flows = np.exp(0.5 * flips * fields)
    slopes = 0.5 * flips * flows / len(states)
    products = states.T @ slopes
    products += products.T
    np.fill_diagonal(products, slopes.sum(axis=0))
    return float(flows.sum() / len(states) + 0.01 * (x @ x)), products.ravel()[triangle] + 0.02 * x


# Independent components analysis (A.3)


def ica(rng: np.random.Generator, n_batches: int) -> Problem:
    """Receptive fields and shapes of Student-t experts on whitened digits, log Z counted once per example."""
    # Pixels are whole sixteenths. Without noise within a level, filters that vanish on a whole level make the
    # likelihood infinite; the noise is the same for all seeds, so that they share their data.
    pixels = digits()[0]
    levels = pixels + np.random.default_rng(0).uniform(0, 1 / 16, size=pixels.shape)
    scores, variances = principal_components(levels)
    kept = variances > 1e-4 * variances[0]
    whitened = scores[:, kept] / np.sqrt(variances[kept])
    size = whitened.shape[1]
    x0 = flatten(rng.normal(size=(size, size)) / np.sqrt(size), np.full(size, np.log(5.0)))
    batches = split(rng, n_batches, whitened)
    return Problem("ica", "Independent components analysis", False, x0, batches, ica_value, has_zero=False)


@quiet()
def ica_value(x: np.ndarray, batch: Any) -> tuple[float, np.ndarray]:
    """Mean negative log likelihood; filters are rows of a matrix, shapes are logarithms of degrees of freedom."""
    (data,) = batch
    size = data.shape[1]
    filters, log_freedoms = unflatten(x, ((size, size), (size,)))
    determinant = np.linalg.slogdet(filters)[1]
    if not np.isfinite(determinant):
        return np.inf, np.full_like(x, np.nan)
    freedom = np.exp(log_freedoms)
    responses = data @ filters.T
    squares = responses**2
    logs = np.log1p(squares / freedom).mean(axis=0)
    log_normalizers = gammaln(freedom / 2) - gammaln((freedom + 1) / 2) + 0.5 * np.log(np.pi * freedom)
    value = np.sum(log_normalizers + 0.5 * (freedom + 1) * logs) - determinant

    ratios = 1 / (freedom + squares)
    by_filter = ((freedom + 1) * responses * ratios).T @ data / len(data) - np.linalg.inv(filters).T
    by_normalizer = 0.5 * (digamma(freedom / 2) - digamma((freedom + 1) / 2) + 1 / freedom)
    by_freedom = by_normalizer + 0.5 * logs - 0.5 * (freedom + 1) / freedom * (squares * ratios).mean(axis=0)
    return float(value), flatten(by_filter, by_freedom * freedom)


# Contractive autoencoder (A.2)


def autoencoder(rng: np.random.Generator, n_batches: int, hidden: int = 32, contraction: float = 0.1) -> Problem:
    """Sigmoid encoder and decoder with shared weights, squared error, the encoder's squared Jacobian times 0.1."""
    # The paper's penalty is 1, on images with ten times as many pixels and so ten times the squared error.
    pixels = digits()[0]
    size = pixels.shape[1]
    shapes = ((size, hidden), (hidden,), (size,))
    bound = np.sqrt(6 / (size + hidden))
    x0 = flatten(rng.uniform(-bound, bound, size=shapes[0]), np.zeros(hidden), np.zeros(size))
    fun = partial(autoencoder_value, shapes=shapes, contraction=contraction)
    return Problem("autoencoder", "Contractive autoencoder", False, x0, split(rng, n_batches, pixels), fun)


@quiet()
def autoencoder_value(x: np.ndarray, batch: Any, shapes: Any, contraction: float) -> tuple[float, np.ndarray]:
    """Mean squared error of the reconstruction, plus the contraction penalty."""
    (pixels,) = batch
    count = len(pixels)
    weights, encoder_bias, decoder_bias = unflatten(x, shapes)
    code = expit(pixels @ weights + encoder_bias)
    output = expit(code @ weights.T + decoder_bias)
    error = output - pixels
    slopes = code * (1 - code)
    # The Jacobian's entries are slopes times weights, so its norm is a product of two small sums.
    slope_sums, weight_sums = (slopes**2).sum(axis=0), (weights**2).sum(axis=0)
    value = ((error**2).sum() + contraction * (slope_sums @ weight_sums)) / count

    by_output = 2 * error * output * (1 - output) / count
    by_code = by_output @ weights + (2 * contraction / count) * slopes * (1 - 2 * code) * weight_sums
    by_input = by_code * slopes
    by_weights = pixels.T @ by_input + by_output.T @ code + (2 * contraction / count) * weights * slope_sums
    return float(value), flatten(by_weights, by_input.sum(axis=0), by_output.sum(axis=0))


# Network (A.5)


def network(rng: np.random.Generator, n_batches: int, layers: tuple[int, ...] = (64, 32, 32, 10)) -> Problem:
    """A tanh network with softmax, nothing but its fit to the data: it can be trained to a loss of zero."""
    pixels, labels = digits()
    sizes = list(pairwise(layers))
    shapes = tuple(shape for before, after in sizes for shape in ((before, after), (after,)))
    bounds = [np.sqrt(6 / (before + after)) for before, after in sizes]
    parts = [
        part
        for bound, (before, after) in zip(bounds, sizes, strict=True)
        for part in (rng.uniform(-bound, bound, size=(before, after)), np.zeros(after))
    ]
    batches = split(rng, n_batches, pixels, np.eye(layers[-1])[labels])
    return Problem(
        "network", "Network of tanh units", False, flatten(*parts), batches, partial(network_value, shapes=shapes)
    )


@quiet()
def network_value(x: np.ndarray, batch: Any, shapes: Any) -> tuple[float, np.ndarray]:
    """Mean cross entropy of the softmax of the last layer."""
    pixels, targets = batch
    parts = unflatten(x, shapes)
    weights, biases = parts[::2], parts[1::2]
    activations = [pixels]
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        activations.append(np.tanh(activations[-1] @ weight + bias))
    scores = activations[-1] @ weights[-1] + biases[-1]
    scores -= scores.max(axis=1, keepdims=True)
    exponentials = np.exp(scores)
    totals = exponentials.sum(axis=1, keepdims=True)
    value = (np.log(totals).sum() - (targets * scores).sum()) / len(pixels)

    delta = (exponentials / totals - targets) / len(pixels)
    gradients: list[np.ndarray] = []
    for layer in reversed(range(len(weights))):
        gradients[:0] = [activations[layer].T @ delta, delta.sum(axis=0)]
        if layer:
            delta = (delta @ weights[layer].T) * (1 - activations[layer] ** 2)
    return float(value), flatten(*gradients)


PROBLEMS = {builder.__name__: builder for builder in (logistic, ising, ica, autoencoder, network)}


def make_problem(name: str, seed: int = 0, n_batches: int = N_BATCHES) -> Problem:
    """The named problem; the seed draws its initialization and deals its samples to minibatches."""
    return PROBLEMS[name](np.random.default_rng(seed), n_batches)
