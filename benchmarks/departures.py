"""What each departure from the paper does: ``python -m benchmarks.departures`` runs with and without it.

Every departure is switched off alone; what was tried and not adopted is switched on by patching one function. With
``--write``, the tables go into docs/departures.md.
"""

import argparse
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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
    uneven,
)
from sumopt.core import Optimizer, Options, hessian, optimizer, surrogate
from sumopt.core.surrogate import Surrogate

DOCUMENT = Path(__file__).parent.parent / "docs" / "departures.md"
SEEDS = range(5)


def run(
    problem: Sum, seed: int, marks: tuple[int, ...], *, stands: bool = False, **options: Any
) -> tuple[list[float], int]:
    """F at each mark of passes, at the best position or where it stands, and how many steps were rejected."""
    opt = Optimizer(problem.x0, problem.n, np.random.default_rng(seed), Options(**options))
    values, rejected = [], 0
    for mark in marks:
        while opt.evaluations < mark * problem.n and opt.failure is None:
            query = opt.ask()
            rejected += opt.tell(query, *problem.fun(query.position, query.index)).outcome == "rejected"
        values.append(problem.total(opt.here if stands else opt.x))
    return values, rejected


ENFORCE = hessian.enforce_positive
RATIO = Surrogate._ratio


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
    marks: tuple[int, ...] = (1, 2, 5, 10, 20)
    patch: Callable[[], Any] = nothing
    options: tuple[tuple[str, Any], ...] = ()

    def options_off(self) -> dict[str, Any]:
        """What is chosen otherwise."""
        return {"without": (int(self.section),)} if self.section.isdigit() else dict(self.options)


def patched(target: Any, name: str, replacement: Any) -> Callable[[], Any]:
    """A patch, to be made anew each time."""
    return lambda: patch.object(target, name, replacement)


def median_of_history(eigenvalues: np.ndarray, beta: float, outside: int, *more: float) -> Any:
    """The median of appendix C.2 over the span of the history alone."""
    return ENFORCE(eigenvalues, beta, min(outside, 1), *more)


def never_bad(*_: Any) -> bool:
    """The test of bad updates off."""
    return False


def whole_way(self: Surrogate, departure: int, *, inherited: bool) -> float:
    """The square of the ratio of departure 15, of which the root is taken."""
    ratio = RATIO(self, departure, inherited=inherited)
    return ratio if inherited else ratio**2


network, digits_logistic = partial(digits, name="network"), partial(digits, name="logistic")
autoencoder, ising, ica = (partial(digits, name=name) for name in ("autoencoder", "ising", "ica"))
MEDIAN, SUBSPACE = "The median over the span of the history", "A larger subspace for few subfunctions"
HALF = "The whole correction of departure 15"
PROPORTION, TEST = "The proportion of departure 11 always", "What the paper's test costs"
LARGER = (("min_subspace", 20), ("max_subspace", 30))
ON_DIGITS = (
    ("logistic on digits", digits_logistic),
    ("ising", ising),
    ("network", network),
    ("autoencoder", autoencoder),
)
WITH_COMPONENTS = (*ON_DIGITS, ("independent components", ica))
PROBLEMS: dict[str, tuple[tuple[str, Callable[[int], Sum]], ...]] = {
    "1": (("logistic", many), ("logistic, F times 1e12", steep)),
    "2": (("logistic, N = 5", few), ("logistic", many), ("network", network)),
    "3": (("piecewise linear", absolute),),
    "5": (("powers of distance", powers), ("network", network)),
    "6": (("logistic on digits", digits_logistic), ("powers of distance", powers)),
    "7": (("Poisson", poisson),),
    "8": (("logistic", many), ("logistic, float32, far away", far_away)),
    "9": (("autoencoder", autoencoder), ("network", network)),
    "10": (("logistic", many),),
    "11": (("powers of distance", powers), ("one in another unit", uneven), ("network", network)),
    "12": (("logistic, N = 5", partial(logistic, n=5, m=100)), *WITH_COMPONENTS),
    "13": (("logistic", many), ("network", network)),
    "14": WITH_COMPONENTS,
    "15": WITH_COMPONENTS,
    "16": WITH_COMPONENTS,
}
CASES = (
    *(Case(section, title, make) for section, cases in PROBLEMS.items() for title, make in cases),
    Case("4", "logistic", many, (10, 20, 40)),
    Case("10", "least squares, float32", deficient, (2, 5, 10, 20, 50)),
    Case("12", "least squares, N = 5", least_squares, (5, 10, 20, 50)),
    Case("17", "network, where it stands", network, (20, 40, 60, 80)),
    Case("18", "network, where it stands", network, (20, 40, 60, 80)),
    Case(MEDIAN, "ising", ising, patch=patched(hessian, "enforce_positive", median_of_history)),
    Case(MEDIAN, "network", network, patch=patched(hessian, "enforce_positive", median_of_history)),
    *(Case(SUBSPACE, f"logistic, N = {n}", partial(logistic, n=n, m=100), options=LARGER) for n in (1, 2, 3, 5, 8)),
    Case(PROPORTION, "logistic", many, patch=patched(surrogate, "OUTLYING", 1e-300)),
    Case(PROPORTION, "network", network, patch=patched(surrogate, "OUTLYING", 1e-300)),
    *(
        Case(TEST, *problem, patch=patched(optimizer, "is_bad", never_bad))
        for problem in (*ON_DIGITS, ("Poisson", poisson))
    ),
    *(Case(HALF, *problem, patch=patched(Surrogate, "_ratio", whole_way)) for problem in ON_DIGITS),
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
        with nothing() if on else case.patch(), np.errstate(all="ignore"):
            stands = "stands" in case.title
            found, bad = run(problem, seed, case.marks, stands=stands, **({} if on else case.options_off()))
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
