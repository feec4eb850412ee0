"""The page of the convergence benchmark: every number and every sentence about who wins is made from the runs."""

from inspect import getdoc
from platform import python_version
from typing import Any

import numpy as np
import scipy

from benchmarks.competitors import MOMENTA, Run
from benchmarks.problems import PROBLEMS, Problem
from benchmarks.runs import PASSES
from sumopt._version import __version__

# Problem, then optimizer and setting, then seed.
Lines = dict[tuple[str, str], dict[int, Run]]
Results = dict[str, Lines]

COUNTS = {1: "one", 2: "two", 3: "three", 5: "five"}
SFO = "SFO"
LAST = PASSES[-1]


def median(by_seed: dict[int, Run], mark: int) -> float:
    """The median over seeds of F after some passes."""
    return float(np.median([run.values[mark] for run in by_seed.values()]))


def seconds(by_seed: dict[int, Run]) -> float:
    """The median over seeds of the seconds of a whole run."""
    return float(np.median([run.seconds for run in by_seed.values()]))


def chosen(lines: Lines) -> dict[tuple[str, str], dict[int, Run]]:
    """Every optimizer with the one setting that leaves the smallest F at the end; SFO first."""
    names = dict.fromkeys(optimizer for optimizer, _ in lines)
    best = [min((key for key in lines if key[0] == name), key=lambda key: median(lines[key], LAST)) for name in names]
    return {key: lines[key] for key in sorted(best, key=lambda key: key[0] != SFO)}


def opponent(lines: Lines, mark: int) -> tuple[float, str]:
    """The smallest F of all the others, with whatever setting is best at this very pass, and its name."""
    value, name = min((median(runs, mark), described(*key)) for key, runs in lines.items() if key[0] != SFO)
    return value, name


def described(optimizer: str, setting: str) -> str:
    """An optimizer and its setting."""
    return f"{optimizer} ({setting})" if setting else optimizer


def resolution(problem: Problem) -> float:
    """The gap to the minimum below which there is rounding only; zero where no minimum is subtracted."""
    return 1e-15 * problem.objective(problem.x0) if problem.convex else 0.0


def number(value: float, floor: float = 0.0) -> str:
    """A value as it stands in a table."""
    if not np.isfinite(value):
        return "diverged"
    if value < floor:
        return f"< {floor:.0e}"
    if abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.3f}" if abs(value) >= 1 else f"{value:.2e}" if abs(value) < 1e-3 else f"{value:.3g}"


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A table: words to the left, numbers to the right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def table(problem: Problem, lines: Lines) -> str:
    """F against passes: every optimizer with its one setting, the best in bold, then the best of all settings."""
    floor, picked = resolution(problem), chosen(lines)
    best = {mark: number(min(median(runs, mark) for runs in picked.values()), floor) for mark in PASSES}
    rows = []
    for key, runs in picked.items():
        cells = [number(median(runs, mark), floor) for mark in PASSES]
        bold = [f"**{cell}**" if cell == best[mark] else cell for cell, mark in zip(cells, PASSES, strict=True)]
        rows.append([described(*key), *bold, f"{seconds(runs):.2f}"])
    envelope = [number(opponent(lines, mark)[0], floor) for mark in PASSES]
    rows.append(["*any of the others, its setting chosen anew for each column*", *envelope, ""])
    measured = "F - F*" if problem.convex else "F"
    return markdown([f"{measured} after", *map(after, PASSES), "seconds"], rows)


def margin(larger: float, smaller: float) -> str:
    """By how much one value is larger than another, as percent or as a factor."""
    ratio = larger / smaller
    if ratio < 2:
        return f"{100 * (ratio - 1):.2g} %"
    return f"{ratio:.2g} times" if ratio < 99.5 else f"{float(f'{ratio:.1e}'):,.0f} times"


def verdict(problem: Problem, lines: Lines, mark: int) -> tuple[str, str]:
    """Whether SFO won, lost or tied against the best of all settings of all the others, and by how much."""
    own = median(next(runs for (name, _), runs in lines.items() if name == SFO), mark)
    other = opponent(lines, mark)[0]
    floor = resolution(problem)
    if number(own, floor) == number(other, floor):
        return "tied", ""
    outcome = "won" if own < other else "lost"
    if not np.isfinite(own + other):
        return outcome, ""
    if not problem.has_zero:
        return outcome, number(abs(own - other))
    return outcome, margin(max(own, other), max(min(own, other), floor))


def score_table(problems: dict[str, Problem], results: Results) -> str:
    """Won and lost, problem by problem and pass by pass."""
    rows = [
        [problem.title, *(", ".join(filter(None, verdict(problem, results[name], mark))) for mark in PASSES)]
        for name, problem in problems.items()
    ]
    return markdown(["SFO after", *map(after, PASSES)], rows)


def after(mark: int) -> str:
    """A number of passes in words."""
    return "1 pass" if mark == 1 else f"{mark} passes"


def losses(problem: Problem, lines: Lines) -> str:
    """Every pass count at which SFO is behind, in one sentence."""
    own = next(runs for (name, _), runs in lines.items() if name == SFO)
    floor, found = resolution(problem), []
    for mark in PASSES:
        outcome, difference = verdict(problem, lines, mark)
        if outcome == "lost":
            value, name = opponent(lines, mark)
            comparison = f"{number(median(own, mark), floor)} against {number(value, floor)} of {name}"
            more = f", {difference} {'as much' if 'times' in difference else 'more'}" if difference else ""
            found.append(f"after {after(mark)} {comparison}{more}")
    measured = f"**{problem.title}**" + " (F - F*)" * problem.convex
    if not found:
        return f"* {measured}: SFO loses at none of these pass counts."
    return f"* {measured}: SFO loses " + "; ".join(found) + "."


def slowness(problems: dict[str, Problem], results: Results) -> str:
    """What the passes cost in seconds, next to the fastest of the others."""
    ratios = []
    for name in problems:
        own, *others = (seconds(runs) for runs in chosen(results[name]).values())
        ratios.append(own / min(others))
    size = len(next(iter(problems.values())).batches[0][0])
    return (
        f"* **Seconds**: {LAST} passes of SFO take {min(ratios):.0f} to {max(ratios):.0f} times as long as those of "
        f"the fastest other. A subfunction here is {size} small images and costs next to nothing, so nearly all of "
        "this is the optimizer's own work, which does not grow with the cost of a subfunction."
    )


def rejected(by_seed: dict[int, Run]) -> str:
    """The median over seeds of the number of rejected steps."""
    return f"{np.median([run.rejected for run in by_seed.values()]):.0f}"


def tables(problems: dict[str, Problem], results: Results) -> str:
    """Problem by problem: what it is, and its table."""
    parts = []
    for name, problem in problems.items():
        lines, n = results[name], len(problem.batches)
        own = next(runs for (optimizer, _), runs in lines.items() if optimizer == SFO)
        size = f"{len(problem.x0)} parameters, N = {n}; SFO rejected {rejected(own)} of its {LAST * n} evaluations."
        parts += [f"### {problem.title}", f"{getdoc(PROBLEMS[name])} {size}", table(problem, lines)]
    return "\n\n".join(parts)


def variant_tables(problems: dict[str, Problem], results: Results) -> str:
    """SFO's design choices beside each other."""
    parts = []
    for name, problem in problems.items():
        floor = resolution(problem)
        rows = [
            [
                described(*key),
                *(number(median(runs, mark), floor) for mark in PASSES),
                rejected(runs),
                f"{seconds(runs):.2f}",
            ]
            for key, runs in results[name].items()
        ]
        header = ["F - F* after" if problem.convex else "F after", *map(after, PASSES), "rejected", "seconds"]
        parts += [f"### {problem.title}", markdown(header, rows)]
    return "\n\n".join(parts)


INTRODUCTION = """# Convergence

SFO beside SciPy's L-BFGS-B and five stochastic optimizers on five problems, at equal effective passes: F, the sum of
all subfunctions (for the convex problems F - F*, where F* is the smallest value that anything reached, a long run of
L-BFGS-B included). A program writes this page, the sentences about who wins included:

```
python -m pip install -e '.[bench]'
python -m benchmarks.convergence
```

It was written with {versions}.

**Accounting.** One pass is N evaluations of a subfunction with its gradient, and every evaluation counts, those that
SFO rejects included. SFO is measured at `opt.x`, the best completed point, whenever its evaluations complete a pass.
One pass of L-BFGS-B is one evaluation of the whole sum, those of its line search included, and it is given the best of
its evaluations so far; the first is at the start. The others go through the minibatches in a new random order at each
pass. F is measured over all data, outside the clock. Every number is the median over {seeds} seeds, each of which deals
the samples to minibatches anew and draws its own start. Seconds are processor time, on one
thread, for all {last} passes.

**Tuning.** SFO runs with its defaults on every problem. L-BFGS-B runs with its defaults but for its stopping tests,
which are off. The others are the best of a grid: step lengths {steps};
momenta {momenta}; Adam and AdaGrad with their usual other constants. A row has one setting, the best one after
{last} passes, and bold is the best of these rows. The
cosine decay is aimed at pass {last}, which that optimizer must be told beforehand; its earlier columns are on the way
there. The last row is what SFO is judged against: the best of all the others, with a setting chosen anew, knowing the
outcome, for each column.

Sixteen more problems, the paper's own algorithm beside the default, and whether F ever rises: `laboratory.md`. What was
tried without success: the end of `departures.md`."""


def page(problems: dict[str, Problem], results: Results, seeds: int, per_decade: int) -> str:
    """The whole page."""
    words: dict[str, Any] = {
        "versions": f"sumopt {__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"Python {python_version()}",
        "seeds": COUNTS.get(seeds, seeds),
        "steps": "all powers of ten from 1e-5 to 1e2, as in the paper"
        + (f", and {COUNTS.get(per_decade - 1, per_decade - 1)} more in each decade" if per_decade > 1 else ""),
        "momenta": ", ".join(f"{value:g}" for value in MOMENTA),
        "last": LAST,
    }
    lost = "\n".join(losses(problem, results[name]) for name, problem in problems.items())
    parts = [
        INTRODUCTION.format(**words),
        "## Won and lost",
        "SFO against the best of all the others, with whatever setting is best at that very pass, and by how much the\n"
        "larger value exceeds the smaller (F itself, F - F* for the convex problems, a difference for ICA).",
        score_table(problems, results),
        "## Where SFO loses",
        f"{lost}\n{slowness(problems, results)}",
        "## The tables",
        tables(problems, results),
    ]
    return "\n\n".join(parts) + "\n"
