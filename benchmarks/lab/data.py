"""The data of the laboratory, real and reduced: files as their owners publish them, from a folder on this machine."""

import os
from functools import cache
from pathlib import Path

import numpy as np


def folder() -> Path:
    """Where data sets lie: ``$SUMOPT_DATA_DIR``, or a place in the user's cache."""
    return Path(os.environ.get("SUMOPT_DATA_DIR") or "~/.cache/sumopt/data").expanduser()


def contents(name: str) -> bytes:
    """A file of a data set, or a sentence on where it is missed."""
    path = folder() / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileNotFoundError(f"{path} is missing: put the data set there, or set SUMOPT_DATA_DIR") from error


def shrunk(images: np.ndarray) -> np.ndarray:
    """Images, one a row of the first axis, with every two by two pixels averaged."""
    height, width = images.shape[-2:]
    return images.reshape(*images.shape[:-2], height // 2, 2, width // 2, 2).mean(axis=(-3, -1))


@cache
def mnist(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first digits, 14 x 14 pixels between 0 and 1, one image a row, and which digits they are."""
    pixels = np.frombuffer(contents("mnist/train-images-idx3-ubyte"), np.uint8, count * 784, offset=16)
    labels = np.frombuffer(contents("mnist/train-labels-idx1-ubyte"), np.uint8, count, offset=8)
    return shrunk(pixels.reshape(count, 28, 28) / 255.0).reshape(count, 196), labels.astype(int)


@cache
def cifar10(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first photographs, 3 x 16 x 16 pixels between -1/2 and 1/2, and what they show."""
    rows = np.frombuffer(contents("cifar10/data_batch_1.bin"), np.uint8, count * 3073).reshape(count, 3073)
    return shrunk(rows[:, 1:].reshape(count, 3, 32, 32) / 255.0) - 0.5, rows[:, 0].astype(int)


@cache
def protein(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Candidates for homologous proteins, features of mean 0 and variance 1 and a constant one; +1 for a homologue."""
    lines = contents("protein/bio_train.dat").split(b"\n")
    # The file is sorted by block, and homologues are rare: every so many lines, to see all of it.
    chosen = lines[: -1 if not lines[-1] else None][:: max(1, len(lines) // count)][:count]
    table = np.array([line.split(b"\t") for line in chosen], dtype=float)
    features = table[:, 3:]
    features = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-12)
    return np.hstack([features, np.ones((len(features), 1))]), np.where(table[:, 2] > 0, 1.0, -1.0)


@cache
def curves(count: int) -> np.ndarray:
    """CURVES-like images, 14 x 14: the quadratic through three random points, drawn with a soft pen."""
    rng = np.random.default_rng(0)
    points = 13.5 + 9.2 * rng.uniform(-1.0, 1.0, size=(count, 3, 2))
    times = np.linspace(0.0, 1.0, 100)
    # Lagrange's polynomials for the times 0, 1/2 and 1.
    weights = np.stack([(2 * times - 1) * (times - 1), 4 * times * (1 - times), times * (2 * times - 1)], axis=1)
    lines = weights @ points
    pixels = np.arange(28.0)
    images = np.empty((count, 28, 28))
    for image, line in zip(images, lines, strict=True):
        down, across = (np.exp(-((pixels - line[:, [axis]]) ** 2) / (2 * 0.925**2)) for axis in (0, 1))
        image[:] = 0.81 * (down[:, :, None] * across[:, None, :]).max(axis=0)
    return shrunk(images).reshape(count, 196)
