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
_DARK = "#1b1e23"
_GREY = "#5b6470"
# Of the height; the marks have room below the curve.
_MARGIN = 0.1
# A range of values with more than this ratio is easier to read on a logarithmic axis.
_WIDE = 20.0
# With more than this one, powers of ten are ticks enough.
_VERY_WIDE = 1e3


def plot_trace(trace: Mapping[str, list[Any]], ax: Axes | None = None) -> Axes:
    """Draw the running mean of the latest values of the subfunctions measured so far, with bad steps marked below.

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
    if np.isfinite(means).any():
        _draw_means(ax, trace, passes, means)
    else:
        word = "nothing finite" if len(passes) else "nothing"
        ax.text(0.5, 0.5, f"{word} was measured", transform=ax.transAxes, ha="center", color=_GREY)
        ax.set_yticks([])
    _draw_marks(ax, passes, np.asarray(trace["outcome"]))
    if len(passes):
        ax.set_xlim(left=0.0)
        ax.legend(frameon=False)
    else:
        ax.set_xticks([])
    ax.margins(y=_MARGIN)
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


def _draw_means(ax: Axes, trace: Mapping[str, list[Any]], passes: Any, means: Any) -> None:
    """Draw the curve, the part of it before all subfunctions take part in a paler colour."""
    active, n = np.asarray(trace["active"]), round(1.0 / passes[0])
    growing = int(np.argmax(active == n)) if active.max() == n else len(active)
    parts = (
        (slice(0, growing + 1), _FAINT, "while subfunctions join", growing > 0),
        (slice(growing, None), _LINE, f"all {n} active", growing < len(active)),
    )
    for part, colour, label, wanted in parts:
        shown = np.isfinite(means[part])
        if wanted and shown.any():
            # A single point has no line.
            marker = "o" if shown.sum() == 1 else ""
            ax.plot(passes[part][shown], means[part][shown], marker=marker, color=colour, linewidth=1.8, label=label)
    _scale(ax, means[np.isfinite(means)])


def _draw_marks(ax: Axes, passes: Any, outcomes: Any) -> None:
    """Mark bad steps by ticks along the bottom, where a hundred of them cover nothing."""
    for outcome, colour, height, label in (
        ("rejected", _BAD, 0.02, "rejected step"),
        ("not finite", _DARK, 0.055, "not finite"),
    ):
        marked = passes[outcomes == outcome]
        if len(marked):
            ax.plot(
                marked, np.full(len(marked), height), "|", transform=ax.get_xaxis_transform(), color=colour,
                markersize=6.0, label=f"{label} ({len(marked)})",
            )  # fmt: skip


def _scale(ax: Axes, means: Any) -> None:
    """A logarithmic axis where that is easier to read, and plain numbers at its ticks."""
    from matplotlib import ticker

    if means.min() > 0.0 and means.max() > _WIDE * means.min():
        ax.set_yscale("log")
        steps = (1.0, 2.0, 5.0) if means.max() < _VERY_WIDE * means.min() else (1.0,)
        ax.yaxis.set_major_locator(ticker.LogLocator(subs=steps))
        ax.yaxis.set_minor_formatter(ticker.NullFormatter())
        ax.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    else:
        # As many digits as are in use, and no offset to be added in the head.
        ax.yaxis.set_major_formatter(ticker.FormatStrFormatter("%.10g"))


def _new_axes() -> Axes:
    """Axes on a figure of their own."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plot() needs matplotlib: pip install 'sumopt[plot]'") from error
    _, ax = pyplot.subplots(figsize=(7.0, 4.2), layout="constrained")
    return ax
