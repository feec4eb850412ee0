"""The picture of a run: the mean value of the subfunctions against effective passes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINE = "#1f5fa8"
_FAINT = "#9db8d6"
_BAD = "#d1495b"
_GREY = "#5b6470"
# A range of values with more than this ratio is easier to read on a logarithmic axis.
_WIDE = 20.0


def plot_trace(trace: Mapping[str, list[Any]], ax: Axes | None = None) -> Axes:
    """Draw the running mean of the latest values of the subfunctions measured so far, with rejected steps marked.

    Parameters
    ----------
    trace : dict of lists
        As in the result of `minimize`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Where it was drawn.
    """
    if ax is None:
        ax = _new_axes()
    passes = np.asarray(trace["pass"], dtype=float)
    means = running_means(trace)
    shown = np.isfinite(means)
    if shown.any():
        _draw(ax, trace, passes, means, shown)
    else:
        ax.text(0.5, 0.5, "nothing was measured", transform=ax.transAxes, ha="center", color=_GREY)
    ax.set_xlabel("effective passes")
    ax.set_ylabel("mean value of the subfunctions")
    ax.grid(visible=True, which="major", color="#e3e6ea", linewidth=0.8)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def running_means(trace: Mapping[str, list[Any]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """After every evaluation, the mean of the latest values of all subfunctions measured so far; nan before the first.

    Values of rejected steps, and values that are not finite, do not count.
    """
    latest: dict[int, float] = {}
    total = 0.0
    means = []
    for index, value, outcome in zip(trace["index"], trace["value"], trace["outcome"], strict=True):
        if outcome in ("accepted", "retry") and math.isfinite(value):
            latest[index] = value
            # Summed afresh: a running total would keep the rounding of the large values of the beginning.
            total = math.fsum(latest.values())
        means.append(total / len(latest) if latest else math.nan)
    return np.asarray(means, dtype=np.float64)


def _draw(ax: Axes, trace: Mapping[str, list[Any]], passes: Any, means: Any, shown: Any) -> None:
    """Draw the curve, the part of it before all subfunctions take part in a paler colour, and the marks."""
    active = np.asarray(trace["active"])
    growing = int(np.argmax(active == active.max()))
    if growing > 0:
        early = shown.copy()
        early[growing + 1 :] = False
        ax.plot(passes[early], means[early], color=_FAINT, linewidth=1.8, label="while subfunctions join", zorder=2)
    late = shown.copy()
    late[:growing] = False
    ax.plot(passes[late], means[late], color=_LINE, linewidth=1.8, label=f"all {int(active.max())} active", zorder=3)
    outcomes = np.asarray(trace["outcome"])
    for outcome, marker, label in (("rejected", "x", "rejected step"), ("not finite", "v", "not finite")):
        marked = shown & (outcomes == outcome)
        if marked.any():
            ax.plot(
                passes[marked], means[marked], marker, color=_BAD, markersize=4.5, alpha=0.75,
                label=f"{label} ({int(marked.sum())})", zorder=4,
            )  # fmt: skip
    finite = means[shown]
    if finite.min() > 0.0 and finite.max() > _WIDE * finite.min():
        ax.set_yscale("log")
    ax.set_xlim(left=0.0)
    ax.legend(frameon=False)


def _new_axes() -> Axes:
    """Axes on a figure of their own."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plot() needs matplotlib: pip install 'sumopt[plot]'") from error
    _, ax = pyplot.subplots(figsize=(7.0, 4.2), layout="constrained")
    return ax
