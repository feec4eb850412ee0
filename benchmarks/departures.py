"""What each departure from the paper does: ``python -m benchmarks.departures`` runs with and without it.

Every departure is switched off alone, by patching the one function that makes it; what was tried and not adopted is
switched on in the same way. With ``--write``, the tables go into docs/departures.md.
"""

import argparse
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.sums import (
    Sum,
    absolute,
    deficient,
    digits,
    far_away,
    few,
    least_squares,
    logistic,
    many,
    poisson,
    powers,
    steep,
)
from sumopt.core import Optimizer, Options, acceptance, hessian, history, optimizer, surrogate, trial
from sumopt.core.surrogate import Surrogate

DOCUMENT = Path(__file__).parent.parent / "docs" / "departures.md"
SEEDS = range(5)


def run(problem: Sum, seed: int, marks: tuple[int, ...], **options: Any) -> tuple[list[float], int]:
    """F at each mark of passes, and how many steps were rejected."""
    opt = Optimizer(problem.x0, problem.n, np.random.default_rng(seed), Options(**options))
    values, rejected = [], 0
    for mark in marks:
        while opt.evaluations < mark * problem.n and opt.failure is None:
            query = opt.ask()
            rejected += opt.tell(query, *problem.fun(query.position, query.index)).outcome == "rejected"
        values.append(problem.total(opt.x))
    return values, rejected


def due_by_rule(self: Optimizer) -> int:
    """Departure 2 off: what is due, else the rule."""
    due = self._due[: self.active]
    return int(np.argmax(due)) if due.any() else self._target(self.surrogate, self._here.coordinates, self._rng)


def objects_if_measured(self: Optimizer, slot: int, observation: Any) -> bool:
    """Departure 5 off: a first evaluation never objects."""
    return not self._due[slot] and OBJECTS(self, slot, observation)


def always_home(self: trial.Trial, observation: Any) -> Any:
    """Departure 6 off: every bad update goes home."""
    if observation is None or self.suspect is None or self.suspect.value > observation.value + self.allowed:
        return AT_HOME(self, observation)
    return trial.Verdict((self.suspect, observation), failed=True)


def learn_without_growth(self: Surrogate, *arguments: Any) -> bool:
    """Departure 3 off: a gradient that does not change has no consequence."""
    LEARN(self, *arguments)
    return True


def spanning_positions(self: Surrogate, position: np.ndarray) -> Iterator[np.ndarray]:
    """Departure 8 off: positions, not their distances from here."""
    yield position
    for i in np.argsort(-self.measured_at[: self.count], kind="stable"):
        yield self.gradients[i]
        yield self.positions[i]
    yield from self.history.directions()


def spanning_measured(self: Surrogate, position: np.ndarray) -> Iterator[np.ndarray]:
    """Departure 9 off: nothing but positions and gradients."""
    return islice(SPANNING(self, position), 1 + 2 * self.count)


OBJECTS = Optimizer._objects
AT_HOME = trial.Trial._answer_at_home
LEARN = Surrogate._learn
SPANNING = Surrogate.spanning
IS_BAD = acceptance.is_bad
SECANTS = hessian.secant_curvatures
ENFORCE = hessian.enforce_positive


@contextmanager
def nothing() -> Iterator[None]:
    """No patch."""
    yield


@dataclass(frozen=True)
class Case:
    """A section of docs/departures.md on one family of problems: with the departure, and without."""

    section: str
    title: str
    make: Callable[[int], Sum]
    off: Callable[[], Any]
    marks: tuple[int, ...] = (1, 2, 5, 10, 20)
    options_off: tuple[tuple[str, Any], ...] = ()


def without(target: Any, name: str, replacement: Any) -> Callable[[], Any]:
    """A patch, to be made anew each time."""
    return lambda: patch.object(target, name, replacement)


def blind(pairs: history.Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Departure 10 off: every singular value above the smallest ratio is a curvature."""
    nothing = np.zeros(len(pairs.steps))
    return SECANTS(replace(pairs, step_errors=nothing, change_errors=nothing))


def median_of_history(eigenvalues: np.ndarray, beta: float, outside: int, *more: float) -> Any:
    """The median of appendix C.2 over the span of the history alone."""
    return ENFORCE(eigenvalues, beta, min(outside, 1), *more)


def never_bad(*_: Any) -> bool:
    """The test of bad updates off."""
    return False


def growing_at_once(self: Optimizer) -> bool:
    """Departure 13 off: growth does not wait."""
    return self.active < self.n


network, digits_logistic = partial(digits, name="network"), partial(digits, name="logistic")
autoencoder, ising = partial(digits, name="autoencoder"), partial(digits, name="ising")
INITIAL = (("initial_curvature", 1e6),)
LARGER = (("min_subspace", 20), ("max_subspace", 30))
MEDIAN, SUBSPACE = "The median over the span of the history", "A larger subspace for few subfunctions"
PROPORTION, TEST = "The proportion of departure 11 always", "What the paper's test costs"
CASES = (
    Case("1", "logistic", many, nothing, options_off=INITIAL),
    Case("1", "logistic, F times 1e12", steep, nothing, options_off=INITIAL),
    Case("2", "logistic, N = 5", few, without(Optimizer, "_choose", due_by_rule)),
    Case("2", "logistic", many, without(Optimizer, "_choose", due_by_rule)),
    Case("2", "network", network, without(Optimizer, "_choose", due_by_rule)),
    Case("3", "piecewise linear", absolute, without(Surrogate, "_learn", learn_without_growth)),
    Case("4", "logistic", many, without(optimizer, "is_bad", lambda *a: IS_BAD(*a[:4], 0.0)), (10, 20, 40)),
    Case("5", "powers of distance", powers, without(Optimizer, "_objects", objects_if_measured)),
    Case("5", "network", network, without(Optimizer, "_objects", objects_if_measured)),
    Case("6", "logistic on digits", digits_logistic, without(trial.Trial, "_answer_at_home", always_home)),
    Case("6", "powers of distance", powers, without(trial.Trial, "_answer_at_home", always_home)),
    Case("7", "Poisson", poisson, without(trial, "EXPLOSION", np.inf)),
    Case("8", "logistic", many, without(Surrogate, "spanning", spanning_positions)),
    Case("8", "logistic, float32, far away", far_away, without(Surrogate, "spanning", spanning_positions)),
    Case("9", "autoencoder", autoencoder, without(Surrogate, "spanning", spanning_measured)),
    Case("9", "network", network, without(Surrogate, "spanning", spanning_measured)),
    Case("10", "least squares, float32", deficient, without(hessian, "secant_curvatures", blind), (2, 5, 10, 20, 50)),
    Case("10", "logistic", many, without(hessian, "secant_curvatures", blind)),
    Case("11", "powers of distance", powers, without(Surrogate, "_relative_size", lambda *_: 1.0)),
    Case("11", "network", network, without(Surrogate, "_relative_size", lambda *_: 1.0)),
    Case("12", "least squares, N = 5", least_squares, without(history, "LOST", 1.0), (5, 10, 20, 50)),
    Case("12", "logistic, N = 5", partial(logistic, n=5, m=100), without(history, "LOST", 1.0)),
    Case("12", "logistic", many, without(history, "LOST", 1.0)),
    Case("12", "network", network, without(history, "LOST", 1.0)),
    Case("12", "autoencoder", autoencoder, without(history, "LOST", 1.0)),
    Case("12", "independent components", partial(digits, name="ica"), without(history, "LOST", 1.0)),
    Case("13", "logistic", many, without(Optimizer, "_may_grow", growing_at_once)),
    Case("13", "network", network, without(Optimizer, "_may_grow", growing_at_once)),
    Case(MEDIAN, "ising", ising, without(hessian, "enforce_positive", median_of_history)),
    Case(MEDIAN, "network", network, without(hessian, "enforce_positive", median_of_history)),
    *(
        Case(SUBSPACE, f"logistic, N = {n}", partial(logistic, n=n, m=100), nothing, options_off=LARGER)
        for n in (1, 2, 3, 5, 8)
    ),
    Case(PROPORTION, "logistic", many, without(surrogate, "OUTLYING", 1e-300)),
    Case(PROPORTION, "network", network, without(surrogate, "OUTLYING", 1e-300)),
    Case(TEST, "logistic on digits", digits_logistic, without(optimizer, "is_bad", never_bad)),
    Case(TEST, "ising", ising, without(optimizer, "is_bad", never_bad)),
    Case(TEST, "Poisson", poisson, without(optimizer, "is_bad", never_bad)),
    Case(TEST, "network", network, without(optimizer, "is_bad", never_bad)),
)


def head(marks: tuple[int, ...]) -> str:
    """The first two lines of a table."""
    cells = "".join(f" pass {mark} |" for mark in marks)
    return f"| problem | |{cells} rejected |\n" + "|---|---|" + "---|" * (len(marks) + 1)


def lines(case: Case) -> str:
    """Two lines of a table: F less its smallest value, medians over seeds, with the departure and without."""
    convex = not any(word in case.title for word in ("network", "autoencoder", "components", "piecewise"))
    least = [case.make(seed).least() if convex else 0.0 for seed in SEEDS]
    words = ("on", "off") if case.section.isdigit() else ("as it is", "so")
    return "\n".join(
        f"| {case.title} | {word} | {' | '.join(row(case, on=word == words[0], least=least))} |" for word in words
    )


def row(case: Case, *, on: bool, least: list[float]) -> list[str]:
    """The cells of a line."""
    values, rejected = [], []
    for seed in SEEDS:
        problem = case.make(seed)
        with nothing() if on else case.off(), np.errstate(all="ignore"):
            found, bad = run(problem, seed, case.marks, **({} if on else dict(case.options_off)))
        values.append(np.array(found) - least[seed])
        rejected.append(bad)
    cells = [f"{value:.{2 if abs(value) < 100 else 4}g}" for value in np.median(values, axis=0)]
    return [*cells, str(int(np.median(rejected)))]


def rewritten(text: str, tables: dict[str, dict[str, str]]) -> str:
    """The document with new tables at the end of the sections that they belong to, in place of the old ones."""
    parts = re.split(r"(?m)^(?=#+ )", text)
    for number, part in enumerate(parts):
        heading = part.partition("\n")[0].lstrip("# ")
        section = heading.partition(". ")[0] if heading[:1].isdigit() else heading
        if section in tables:
            prose = re.sub(r"(?m)^\|.*\n", "", part).rstrip()
            parts[number] = "\n\n".join([prose, *tables[section].values()]) + "\n\n"
    return "".join(parts).rstrip() + "\n"


def main(argv: list[str] | None = None) -> None:
    """Print the tables of all sections, or of some; into the document, where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.departures", description=__doc__)
    parser.add_argument("sections", nargs="*", help="numbers of departures, or headings; all by default")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/departures.md")
    given = parser.parse_args(argv)
    chosen = [case for case in CASES if not given.sections or case.section in given.sections]
    tables: dict[str, dict[str, str]] = {}
    with threadpool_limits(1):
        for case in chosen:
            first, found = head(case.marks), lines(case)
            print(f"{case.section}\n{first}\n{found}\n", flush=True)
            section = tables.setdefault(case.section, {})
            section[first] = f"{section.get(first, first)}\n{found}"
    if given.write:
        DOCUMENT.write_text(rewritten(DOCUMENT.read_text(), tables))


if __name__ == "__main__":
    main()
