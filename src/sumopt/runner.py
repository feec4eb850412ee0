"""The one loop: ask, evaluate, tell, until something ends it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

from sumopt.core import Info
from sumopt.progress import Progress
from sumopt.result import OptimizeResult
from sumopt.sfo import SFO, Query
from sumopt.stopping import StoppingTest

Evaluate = Callable[[Query], tuple[Any, Any]]

_FROM_INFO = ("index", "value", "outcome", "eta", "step_length", "active", "subspace_size")


class Ending(NamedTuple):
    """Why a run ended."""

    status: int
    message: str


class Callback(NamedTuple):
    """What is called once a pass, with the intermediate result or with the position."""

    call: Callable[..., object]
    takes_result: bool


class Record:
    """What is kept of the evaluations, in columns that grow."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._columns: dict[str, list[Any]] = {name: [] for name in ("pass", *_FROM_INFO, "seconds")}
        self._rows = 0

    def __len__(self) -> int:
        """Number of evaluations."""
        return self._rows

    @property
    def accepted(self) -> int:
        """Number of evaluations that were accepted."""
        return self._columns["outcome"][: self._rows].count("accepted")

    def add(self, info: Info, seconds: float) -> None:
        """One more evaluation."""
        rows = self._rows + 1
        row = (rows / self._n, *(getattr(info, name) for name in _FROM_INFO), seconds)
        for column, entry in zip(self._columns.values(), row, strict=True):
            column.append(entry)
        # Counted last: a row that an interrupt leaves incomplete is no row.
        self._rows = rows

    def copy(self) -> dict[str, list[Any]]:
        """The columns, to be given away."""
        return {name: column[: self._rows] for name, column in self._columns.items()}


@dataclass(frozen=True)
class Budget:
    """What a run may use up."""

    passes: float
    evaluations: int | None
    seconds: float | None

    def most_evaluations(self, n: int) -> float:
        """The number of evaluations at which a run ends."""
        # The tiny excess makes 0.29 passes of 100 subfunctions 29 evaluations, in spite of rounding.
        exact = self.passes * n + 1e-6
        passes = max(1, math.floor(exact)) if math.isfinite(exact) else math.inf
        return passes if self.evaluations is None else min(passes, self.evaluations)

    def spent(self, n: int, evaluations: int, seconds: float) -> Ending | None:
        """Whether the budget is used up."""
        if evaluations >= self.most_evaluations(n):
            if self.evaluations is not None and evaluations >= self.evaluations:
                return Ending(2, f"Stopped: max_evaluations={self.evaluations} evaluations are used up.")
            return Ending(1, f"Stopped: passes={self.passes:g} effective passes are used up.")
        if self.seconds is not None and seconds >= self.seconds:
            return Ending(3, f"Stopped: max_time={self.seconds:g} seconds are used up.")
        return None


class Run:
    """A run: the optimizer, what evaluates, and the record of what happened."""

    def __init__(
        self, opt: SFO, evaluate: Evaluate, budget: Budget, *, test: StoppingTest | None, callback: Callback | None
    ) -> None:
        self._opt = opt
        self._evaluate = evaluate
        self._budget = budget
        self._test = test
        self._callback = callback
        self._record = Record(opt.n)
        self._time_fun = self._time_optimizer = 0.0
        self._start = perf_counter()

    def to_end(self, progress: Progress) -> OptimizeResult:
        """Run until something ends it; Ctrl-C is one of the things that do."""
        ending = None
        try:
            while ending is None:
                ending = self._step(progress)
        except KeyboardInterrupt:
            ending = Ending(5, "Interrupted: x is the best point completed until then.")
        return self._result(ending)

    def _step(self, progress: Progress) -> Ending | None:
        """One evaluation, and whether it was the last."""
        started = perf_counter()
        query = self._opt.ask()
        asked = perf_counter()
        value, gradient = self._evaluate(query)
        evaluated = perf_counter()
        with from_batch(query.index):
            info = self._opt.tell(query, value, gradient)
        told = perf_counter()
        self._record.add(info, told - self._start)
        self._time_fun += evaluated - asked
        self._time_optimizer += asked - started + told - evaluated
        progress.show(self._opt, len(self._record), self._time_fun, self._time_optimizer)
        return self._after(info)

    def _after(self, info: Info) -> Ending | None:
        """Look whether a run that has just been told an evaluation is at its end."""
        evaluations, n = len(self._record), self._opt.n
        if self._test is not None:
            self._test.observe(info)
        if evaluations % n == 0 and self._callback is not None:
            try:
                self._notify(self._callback)
            except StopIteration:
                return Ending(4, "Stopped: the callback raised StopIteration.")
        if self._test is not None and (evaluations % n == 0 or info.failure is not None):
            reason = self._test.verdict(self._opt.length, self._opt.moved)
            if reason is not None:
                return self._settled(reason)
        if info.failure is not None:
            return Ending(6, f"Failed: {info.failure}.")
        return self._budget.spent(n, evaluations, perf_counter() - self._start)

    def _settled(self, reason: str) -> Ending:
        """The end of a run that the stopping test calls converged: the test is about where the optimizer stands."""
        if self._opt.stands_at_best:
            return Ending(0, f"Converged: {reason}.")
        return Ending(
            6, "Failed: the run settled where F is larger than at a point it had passed before; x is that point."
        )

    def _notify(self, callback: Callback) -> None:
        """Call back."""
        if callback.takes_result:
            callback.call(intermediate_result=self._intermediate())
        else:
            callback.call(self._opt.x)

    def _intermediate(self) -> OptimizeResult:
        """Where the run stands, and what happened so far."""
        opt, evaluations = self._opt, len(self._record)
        return OptimizeResult(
            x=opt.x,
            fun=opt.fun,
            nfev=evaluations,
            nit=self._record.accepted,
            npasses=evaluations / opt.n,
            active=opt.active,
            trace=self._record.copy(),
            time_fun=self._time_fun,
            time_optimizer=self._time_optimizer,
        )

    def _result(self, ending: Ending) -> OptimizeResult:
        """What is handed to the user."""
        result = self._intermediate()
        if math.isnan(result["fun"]):
            # Interrupted within the optimizer, which then has no estimate, or nothing was measured.
            result.update(fun=self._mean_value() * self._opt.n)
        result.update(success=ending.status == 0, status=ending.status, message=ending.message)
        return result

    def _mean_value(self) -> float:
        """Mean of the latest values; nan where there is none."""
        measured = [value for value in self._opt.values if not math.isnan(value)]
        return math.fsum(measured) / len(measured) if measured else math.nan


@contextmanager
def from_batch(index: int) -> Iterator[None]:
    """Say of an error in what was returned which batch it was returned for."""
    try:
        yield
    except (TypeError, ValueError) as error:
        error.args = (f"{error} (from batch {index})",)
        raise
