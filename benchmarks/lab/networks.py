"""Networks of the laboratory: dense ones in NumPy, a convolutional and a physics-informed one in PyTorch."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.problems import flatten, quiet, unflatten

Shapes = tuple[tuple[int, ...], ...]

# What a unit makes of its input, and its slope in terms of its input and its output.
UNITS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "linear": (lambda z: z, lambda z, a: np.ones_like(z)),
    "rectified": (lambda z: np.maximum(z, 0.0), lambda z, a: (z > 0.0).astype(float)),
    "sigmoid": (expit, lambda z, a: a * (1.0 - a)),
    "softplus": (lambda z: np.logaddexp(0.0, z), lambda z, a: expit(z)),
    "tanh": (np.tanh, lambda z, a: 1.0 - a**2),
}


def dense_shapes(layers: tuple[int, ...]) -> Shapes:
    """Shapes of weights and biases, layer by layer."""
    return tuple(shape for before, after in pairwise(layers) for shape in ((before, after), (after,)))


def dense_start(rng: np.random.Generator, layers: tuple[int, ...], gain: float = 1.0) -> np.ndarray:
    """Uniform weights of Glorot's variance times a gain, no biases."""
    parts = []
    for shape in dense_shapes(layers):
        bound = np.sqrt(6.0 * gain / sum(shape)) if len(shape) == 2 else 0.0
        parts.append(rng.uniform(-bound, bound, size=shape))
    return flatten(*parts)


def sparse_start(rng: np.random.Generator, layers: tuple[int, ...], count: int = 15) -> np.ndarray:
    """Martens' initialization: every unit has so many incoming weights of unit variance, all others are zero."""
    parts = []
    for shape in dense_shapes(layers):
        part = np.zeros(shape)
        if len(shape) == 2:
            for unit in range(shape[1]):
                part[rng.choice(shape[0], min(count, shape[0]), replace=False), unit] = rng.normal(
                    size=min(count, shape[0])
                )
        parts.append(part)
    return flatten(*parts)


@quiet()
def dense_value(
    x: np.ndarray, batch: Any, shapes: Shapes, units: tuple[str, ...], loss: str
) -> tuple[float, np.ndarray]:
    """Mean cross entropy of a dense network's output: of a softmax, or of every pixel of an image."""
    entering, targets = batch
    parts = unflatten(x, shapes)
    weights, biases = parts[::2], parts[1::2]
    inputs, outputs = [], [entering]
    for weight, bias, unit in zip(weights, biases, (*units, "linear"), strict=True):
        inputs.append(outputs[-1] @ weight + bias)
        outputs.append(UNITS[unit][0](inputs[-1]))
    scores, count = outputs[-1], len(entering)
    if loss == "softmax":
        scores = scores - scores.max(axis=1, keepdims=True)
        exponentials = np.exp(scores)
        totals = exponentials.sum(axis=1, keepdims=True)
        value = (np.log(totals).sum() - (targets * scores).sum()) / count
        delta = (exponentials / totals - targets) / count
    else:
        value = (np.logaddexp(0.0, scores) - targets * scores).sum() / count
        delta = (expit(scores) - targets) / count
    gradients: list[np.ndarray] = []
    for layer in reversed(range(len(weights))):
        gradients[:0] = [outputs[layer].T @ delta, delta.sum(axis=0)]
        if layer:
            slope = UNITS[units[layer - 1]][1](inputs[layer - 1], outputs[layer])
            delta = (delta @ weights[layer].T) * slope
    return float(value), flatten(*gradients)


CONVOLUTION_SHAPES: Shapes = ((8, 3, 3, 3), (8,), (16, 8, 3, 3), (16,), (48, 256), (48,), (10, 48), (10,))


def convolution_start(rng: np.random.Generator) -> np.ndarray:
    """He's initialization, no biases."""
    return flatten(
        *(
            rng.normal(scale=np.sqrt(2.0 / np.prod(shape[1:])), size=shape) if len(shape) > 1 else np.zeros(shape)
            for shape in CONVOLUTION_SHAPES
        )
    )


def by_torch(x: np.ndarray, shapes: Shapes, objective: Callable[[list[Any]], Any]) -> tuple[float, np.ndarray]:
    """Value and gradient of a function of tensors."""
    import torch

    torch.set_num_threads(1)
    parts = [torch.tensor(part, requires_grad=True) for part in unflatten(x, shapes)]
    value = objective(parts)
    gradients = torch.autograd.grad(value, parts)
    return float(value.detach()), flatten(*(gradient.numpy() for gradient in gradients))


def convolution_value(x: np.ndarray, batch: Any) -> tuple[float, np.ndarray]:
    """Mean cross entropy of two convolutions with maximum pooling, a dense layer and a softmax; rectified units."""
    import torch
    from torch.nn import functional

    images, labels = (torch.from_numpy(array) for array in batch)

    def objective(parts: list[Any]) -> Any:
        hidden = images
        for kernel, bias in (parts[0:2], parts[2:4]):
            hidden = functional.max_pool2d(torch.relu(functional.conv2d(hidden, kernel, bias, padding=1)), 2)
        hidden = torch.relu(functional.linear(hidden.flatten(1), *parts[4:6]))
        return functional.cross_entropy(functional.linear(hidden, *parts[6:8]), labels)

    return by_torch(x, CONVOLUTION_SHAPES, objective)


PINN_LAYERS = (2, 32, 32, 1)


def pinn_value(x: np.ndarray, batch: Any) -> tuple[float, np.ndarray]:
    """Mean squared residual of -u_xx - u_yy = f inside, and of u = 0 on the edge, of a tanh network u(x, y)."""
    import torch

    inside, source, edge = (torch.from_numpy(array) for array in batch)

    def objective(parts: list[Any]) -> Any:
        value = inside
        slopes = [torch.zeros_like(inside) for _ in range(2)]
        for axis in range(2):
            slopes[axis][:, axis] = 1.0
        bends = [torch.zeros_like(inside) for _ in range(2)]
        for weight, bias in zip(parts[:-2:2], parts[1:-2:2], strict=True):
            value = torch.tanh(value @ weight + bias)
            slopes, bends = [slope @ weight for slope in slopes], [bend @ weight for bend in bends]
            steep = 1.0 - value**2
            bends = [steep * (bend - 2.0 * value * slope**2) for slope, bend in zip(slopes, bends, strict=True)]
            slopes = [steep * slope for slope in slopes]
        laplacian = sum(bend @ parts[-2] for bend in bends)[:, 0]
        rim = edge
        for weight, bias in zip(parts[:-2:2], parts[1:-2:2], strict=True):
            rim = torch.tanh(rim @ weight + bias)
        rim = rim @ parts[-2] + parts[-1]
        return ((laplacian + source) ** 2).mean() + 100.0 * (rim**2).mean()

    return by_torch(x, dense_shapes(PINN_LAYERS), objective)
