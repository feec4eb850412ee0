"""The progress bar, of tqdm, which is needed only when it is asked for."""

from __future__ import annotations

import math
import warnings
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from sumopt.sfo import SFO

# A bar is for people: it is not refreshed more often than they can see.
_INTERVAL = 0.1
# Everything must fit into 80 columns, and leave some for the bar; so what is left out here was left out on purpose.
_FORMAT = "{desc}|{bar}| {n:.1f}/{total:.4g} passes{postfix}"
_FORMAT_WITHOUT_END = "{desc}: {n:.1f} passes{postfix}"
_MEAN_WIDTH = 7


class Progress(Protocol):
    """What the loop tells of its progress."""

    def show(self, opt: SFO, evaluations: int, time_fun: float, time_optimizer: float) -> None:
        """One more evaluation is done."""


class Silence:
    """No progress display."""

    def __enter__(self) -> Silence:
        """Nothing to open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def show(self, opt: SFO, evaluations: int, time_fun: float, time_optimizer: float) -> None:
        """Say nothing."""


class Bar:
    """A bar that counts passes, in a terminal or in a notebook."""

    def __init__(self, passes: float) -> None:
        tqdm = _tqdm()
        end = passes if math.isfinite(passes) else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._bar = tqdm(
                total=end,
                desc="sumopt",
                bar_format=_FORMAT if end is not None else _FORMAT_WITHOUT_END,
                dynamic_ncols=True,
            )
        self._drawn = -math.inf
        self._last: tuple[SFO, int, float, float] | None = None

    def __enter__(self) -> Bar:
        """The bar is open already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Show the last state, and close."""
        try:
            if self._last is not None:
                self._draw(*self._last)
        finally:
            self._bar.close()

    def show(self, opt: SFO, evaluations: int, time_fun: float, time_optimizer: float) -> None:
        """Move the bar, unless it was moved a moment ago."""
        self._last = opt, evaluations, time_fun, time_optimizer
        if perf_counter() - self._drawn >= _INTERVAL:
            self._draw(*self._last)

    def _draw(self, opt: SFO, evaluations: int, time_fun: float, time_optimizer: float) -> None:
        """Move the bar."""
        values = opt.values
        measured = values[np.isfinite(values)]
        mean = float(measured.mean()) if measured.size else math.nan
        self._bar.n = evaluations / opt.n
        self._bar.set_postfix_str(
            f"mean {brief(mean)}, {'all' if opt.active == opt.n else f'{opt.active}/{opt.n}'} active, "
            f"fun {seconds(time_fun)} + own {seconds(time_optimizer)} s",
            refresh=False,
        )
        self._bar.refresh()
        self._drawn = perf_counter()


def brief(number: float) -> str:
    """A number with as many of four digits as a narrow place has room for."""
    return next((text for digits in (4, 3) if len(text := f"{number:.{digits}g}") <= _MEAN_WIDTH), f"{number:.2g}")


def seconds(time: float) -> str:
    """Seconds, with a decimal as long as it means anything."""
    return f"{time:.1f}" if time < 9.95 else f"{time:.0f}"


def _tqdm() -> Any:
    """The tqdm that suits the place; its notice that some of it is experimental is not the user's concern."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True needs tqdm: pip install 'sumopt[progress]'") from error
    return tqdm
