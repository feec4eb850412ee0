"""Train an autoencoder on scikit-learn's digits with SFO, beside L-BFGS and Adam; ``make demo`` runs this.

Images of 64 pixels are squeezed through a code of 12 numbers and drawn again. The parameters are a list of layers,
which SFO takes as it is.
"""

import argparse
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import sumopt

mpl.use("Agg")

Layers = list[dict[str, np.ndarray]]
Array = np.ndarray

SIZES = (64, 48, 12, 48, 64)
N_BATCHES = 40
ADAM_STEPS = (1e-3, 3e-3, 1e-2, 3e-2)
MARKS = (1, 2, 5, 10, 20, 50)
# The reconstructions in the picture are those after this many passes, while they still differ to the eye.
DRAWN_AFTER = 10


# The problem


def initial_layers(rng: np.random.Generator) -> Layers:
    """Random weights and no biases."""
    bounds = [(before, after, np.sqrt(6 / (before + after))) for before, after in pairwise(SIZES)]
    return [{"weights": rng.uniform(-b, b, (before, after)), "bias": np.zeros(after)} for before, after, b in bounds]


def activations(layers: Layers, images: Array) -> list[Array]:
    """What every layer puts out: tanh units within, sigmoid pixels at the end."""
    outputs = [images]
    for layer in layers[:-1]:
        outputs.append(np.tanh(outputs[-1] @ layer["weights"] + layer["bias"]))
    return [*outputs, expit(outputs[-1] @ layers[-1]["weights"] + layers[-1]["bias"])]


def squared_error(layers: Layers, images: Array) -> tuple[float, Layers]:
    """Squared error per image, and its gradient in the structure of the layers: one subfunction, given its images."""
    outputs = activations(layers, images)
    error = outputs[-1] - images
    delta = 2 / len(images) * error * outputs[-1] * (1 - outputs[-1])
    gradient: Layers = []
    for layer, entering in zip(reversed(layers), reversed(outputs[:-1]), strict=True):
        gradient.insert(0, {"weights": entering.T @ delta, "bias": delta.sum(axis=0)})
        delta = delta @ layer["weights"].T * (1 - entering**2)
    return float(np.sum(error**2) / len(images)), gradient


# The three optimizers


@dataclass
class Run:
    """One optimizer on the way: the error over all images at the start and after every pass, and the seconds so far."""

    name: str
    errors: list[float]
    seconds: float = 0.0
    seconds_in_problem: float = 0.0
    drawn: Layers | None = None

    def note(self, error: float, layers: Layers) -> None:
        """One more pass is done."""
        self.errors.append(error)
        if len(self.errors) - 1 <= DRAWN_AFTER:
            self.drawn = layers


def mean_error(layers: Layers, batches: list[Array]) -> float:
    """The mean over all subfunctions; the optimizers' clocks do not count it."""
    return float(np.mean([squared_error(layers, images)[0] for images in batches]))


def run_sfo(start: Layers, batches: list[Array], passes: int) -> Run:
    """SFO: nothing to choose, and a progress bar of its own."""
    run = Run("SFO", [mean_error(start, batches)])

    def callback(intermediate_result: sumopt.OptimizeResult) -> None:
        run.note(mean_error(intermediate_result.x, batches), intermediate_result.x)

    result = sumopt.minimize(
        squared_error,
        start,
        batches,
        passes=passes,
        tol=None,
        callback=callback,
        progress=True,
        rng=0,
    )
    run.seconds, run.seconds_in_problem = result.time_fun + result.time_optimizer, result.time_fun
    return run


def ravel(layers: Layers) -> Array:
    """All parameters as one vector, for the optimizers that know vectors only."""
    return np.concatenate([part.ravel() for layer in layers for part in layer.values()])


def unravel(x: Array) -> Layers:
    """The layers again."""
    layers = []
    for before, after in pairwise(SIZES):
        size = before * after
        layers.append({"weights": x[:size].reshape(before, after), "bias": x[size : size + after]})
        x = x[size + after :]
    return layers


class PassesUsedUpError(Exception):
    """Stops SciPy in the middle of a line search."""


def run_lbfgs(start: Layers, batches: list[Array], passes: int) -> Run:
    """SciPy's L-BFGS-B on all images at once, and the best of its evaluations so far: each of them is a pass."""
    run = Run("L-BFGS-B", [mean_error(start, batches)])
    best = np.inf, start
    with tqdm(total=passes, desc=run.name, unit="pass", dynamic_ncols=True) as bar:

        def full(x: Array) -> tuple[float, Array]:
            nonlocal best
            if len(run.errors) > passes:
                raise PassesUsedUpError
            parts = [squared_error(unravel(x), images) for images in batches]
            error = float(np.mean([value for value, _ in parts]))
            best = min(best, (error, unravel(x.copy())), key=lambda pair: pair[0])
            run.note(*best)
            bar.set_postfix_str(f"error {best[0]:.4g}", refresh=False)
            bar.update()
            return error, np.mean([ravel(gradient) for _, gradient in parts], axis=0)

        clock = perf_counter()
        with suppress(PassesUsedUpError):
            minimize(full, ravel(start), jac=True, method="L-BFGS-B", options={"ftol": 0.0, "gtol": 0.0})
        run.seconds = perf_counter() - clock
    run.errors += [best[0]] * (passes + 1 - len(run.errors))
    return run


def run_adam(start: Layers, batches: list[Array], passes: int, step: float) -> Run:
    """Adam with one step length, on minibatches in random order."""
    run = Run(f"Adam, step {step:g}", [mean_error(start, batches)])
    rng, x, count = np.random.default_rng(0), ravel(start), 0
    mean, square = np.zeros_like(x), np.zeros_like(x)
    with tqdm(range(passes), desc=run.name, unit="pass", dynamic_ncols=True) as bar:
        for _ in bar:
            clock = perf_counter()
            for index in rng.permutation(len(batches)):
                gradient = ravel(squared_error(unravel(x), batches[index])[1])
                count += 1
                mean += 0.1 * (gradient - mean)
                square += 0.001 * (gradient**2 - square)
                x = x - step * mean / (1 - 0.9**count) / (np.sqrt(square / (1 - 0.999**count)) + 1e-8)
            run.seconds += perf_counter() - clock
            run.note(mean_error(unravel(x), batches), unravel(x))
            bar.set_postfix_str(f"error {run.errors[-1]:.4g}", refresh=False)
    return run


# What is shown


def table(runs: list[Run], passes: int) -> str:
    """Errors after some passes, the smallest of each starred, and seconds."""
    marks = [*(mark for mark in MARKS if mark < passes), passes]
    least = {mark: min(run.errors[mark] for run in runs) for mark in marks}
    lines = [
        "squared error per image",
        f"{'after passes':17}" + "".join(f"{mark:>8} " for mark in marks) + "   seconds",
    ]
    for run in runs:
        cells = [f"{run.errors[mark]:8.3f}{'*' if run.errors[mark] == least[mark] else ' '}" for mark in marks]
        lines.append(f"{run.name:17}{''.join(cells)}{run.seconds:10.1f}")
    return "\n".join(lines)


COLOURS = {"SFO": "#c8102e", "L-BFGS-B": "#5b6470", "Adam": "#1f6fb2"}


def colour(run: Run) -> str:
    """The colour of an optimizer."""
    return COLOURS[run.name.split(",")[0]]


def draw(runs: list[Run], others: list[Run], images: Array, path: Path) -> None:
    """Error against passes, and ten digits with what the optimizers make of them."""
    figure = plt.figure(figsize=(13.0, 4.3), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.0, 1.3), wspace=0.03)
    draw_convergence(left.subplots(), runs, others)
    draw_digits(right, runs, images)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_convergence(axes: Axes, runs: list[Run], others: list[Run]) -> None:
    """The error after every pass, each line with its name at its end."""
    for i, run in enumerate(others):
        axes.plot(run.errors, color=colour(run), linewidth=0.9, alpha=0.35, label="" if i else "Adam, other steps")
    for run in reversed(runs):
        axes.plot(run.errors, color=colour(run), linewidth=2.4, solid_capstyle="round")
    end = len(runs[0].errors) - 1
    for run, height in zip(runs, label_heights([run.errors[-1] for run in runs]), strict=True):
        text = run.name.replace(", ", "\n")
        axes.annotate(
            text, (end, height), (7, 0), textcoords="offset points", va="center", color=colour(run), weight="bold"
        )
    axes.set(yscale="log", xlim=(0, end), xlabel="effective passes through the data", ylabel="squared error per image")
    axes.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.grid(color="#e6e8eb", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    axes.set_title("Autoencoder, 64 \u2013 48 \u2013 12 \u2013 48 \u2013 64", loc="left", weight="bold")


def label_heights(values: list[float], factor: float = 1.45) -> list[float]:
    """Where to put labels on a logarithmic axis so that they keep apart."""
    heights = list(values)
    lower = 0.0
    for index in np.argsort(values):
        heights[index] = lower = max(values[index], lower * factor)
    return heights


def draw_digits(figure: SubFigure, runs: list[Run], images: Array) -> None:
    """One row of originals, and one of reconstructions for every optimizer."""
    rows = [("digits", "#1b1e23", images)]
    rows += [(run.name, colour(run), activations(run.drawn, images)[-1]) for run in runs if run.drawn is not None]
    grid = figure.subplots(len(rows), len(images), squeeze=False)
    for axes_of_row, (name, ink, pictures) in zip(grid, rows, strict=True):
        for axes, picture in zip(axes_of_row, pictures, strict=True):
            axes.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        text = name.replace(", ", "\n")
        axes_of_row[0].set_ylabel(text, rotation=0, ha="right", va="center", labelpad=8, color=ink, weight="bold")
    passes = min(DRAWN_AFTER, len(runs[0].errors) - 1)
    figure.suptitle(f"Redrawn from 12 numbers each, after {passes} passes", weight="bold", x=0.5)


def main() -> None:
    """Train, print the table, draw the picture."""
    parser = argparse.ArgumentParser(description="Train an autoencoder on digits with SFO, L-BFGS and Adam.")
    parser.add_argument("--passes", type=int, default=50, help="effective passes through the data (default 50)")
    parser.add_argument("--output", type=Path, default=Path("demo.png"), help="the picture (default demo.png)")
    given = parser.parse_args()

    bunch = load_digits()
    images, rng = bunch.data / 16, np.random.default_rng(0)
    batches = [images[rows] for rows in np.array_split(rng.permutation(len(images)), N_BATCHES)]
    start = initial_layers(rng)
    size = f"{len(images)} digits in {N_BATCHES} minibatches, {len(ravel(start))} parameters"
    print(f"{size}, {given.passes} passes for each optimizer.\n")
    # The arrays are small: a second BLAS thread would slow all three down.
    with threadpool_limits(1):
        sfo = run_sfo(start, batches, given.passes)
        lbfgs = run_lbfgs(start, batches, given.passes)
        adams = [run_adam(start, batches, given.passes, step) for step in ADAM_STEPS]
    adam = min(adams, key=lambda run: run.errors[-1])

    runs = [sfo, lbfgs, adam]
    print(f"\n{table(runs, given.passes)}\n")
    print(
        f"SFO ran once, as it comes. Adam ran {len(adams)} times, and the best at the end is shown\n"
        "(the others are thin lines in the picture). A pass is one evaluation of every\n"
        "minibatch; rejected steps count. Of SFO's "
        f"{sfo.seconds:.1f} seconds the network took {sfo.seconds_in_problem:.1f}.\n"
        "The rest is its own work, which does not grow with the cost of the functions;\n"
        "these cost next to nothing."
    )
    examples = images[[int(np.flatnonzero(bunch.target == digit)[0]) for digit in range(10)]]
    draw(runs, [run for run in adams if run is not adam], examples, given.output)
    print(f"\nThe picture is {given.output.resolve()}")


if __name__ == "__main__":
    main()
