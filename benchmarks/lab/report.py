"""The page of the laboratory, docs/laboratory.md, and its picture: every number and count is made from the runs."""

from pathlib import Path

import numpy as np

from benchmarks.lab.envelope import best_of
from benchmarks.lab.problems import make_problem
from benchmarks.lab.runs import MARKS, Record
from benchmarks.lab.verdict import by_optimizer, lowest, relapse
from benchmarks.problems import Problem

FOLDER = Path(__file__).parent.parent.parent / "docs"
SHOWN = [mark for mark in MARKS if mark <= 20]
NAMES = {"SFO default": "default", "SFO paper": 'variant="paper"'}

# A range from which on an axis is logarithmic.
WIDE = 10.0

INTRODUCTION = """# Laboratory

The default beside the paper's algorithm, `variant="paper"`, and tuned competitors, on sixteen problems: the paper's
seven at reduced size on real data (protein homology, MNIST at 14 x 14 pixels, CIFAR-10 at 16 x 16, CURVES-like images)
and what users bring. N is 50, but 30 for the physics-informed network. F is taken where the optimizer stands at the end
of a pass, not at the best position, which is what it would return; for convex problems it is F less the smallest value
that any run has seen, runs of 60 passes included. Medians of {seeds} seeds. A program writes this page, from data in
`$SUMOPT_DATA_DIR`:

```
python -m pip install -e '.[lab]'
python -m benchmarks.lab --variants default paper --envelope --write
```

**Competitors** are the best, at that very pass, of L-BFGS-B, SGD with momentum, AdaGrad, Adam, Adam with cosine decay
towards pass 20, and SAG, with step lengths from 1e-4 to 10, two a decade, and momenta 0.5 to 0.99: 89 settings, all of
them on one seed, the three best of every column on the others. SFO has nothing to tune."""

DIVERGING = """## Never diverging?

How far F at the end of a pass was ever above 1.1 times the best before, relative to F at the start, at the position
where the optimizer stands. What is below 1e-8 is none.

"""


def medians(records: list[Record], marks: list[int], least: dict[int, float]) -> dict[int, float]:
    """The median over seeds at each mark, the smallest value subtracted."""
    return {mark: float(np.median([r.values[mark] - least[r.job.seed] for r in records])) for mark in marks}


def of_problem(records: list[Record], name: str) -> list[Record]:
    """The runs on one problem."""
    return [record for record in records if record.job.problem == name]


def number(value: float) -> str:
    """A value as it stands in a table."""
    if not np.isfinite(value) or value > 1e30:
        return "diverged"
    return f"{value:.4g}" if abs(value) >= 1e-3 or value == 0.0 else f"{value:.1e}"


def curves(
    problem: Problem, runs: list[Record], rivals: list[Record], long: list[Record]
) -> dict[str, dict[int, float]]:
    """What each variant reached at each mark, and the best of the competitors."""
    seeds = {record.job.seed for record in runs}
    rivals = [record for record in rivals if record.job.seed in seeds]
    least = lowest(problem, [*runs, *rivals, *long]) if problem.convex else dict.fromkeys(seeds, 0.0)
    found = {name: medians(records, SHOWN, least) for name, records in by_optimizer(runs).items()}
    shifted = [
        Record(r.job, {mark: value - least[r.job.seed] for mark, value in r.values.items()}, 0, 0.0) for r in rivals
    ]
    return {**found, "competitors": {mark: value for mark, value in best_of(shifted).items() if mark}}


def problem_table(title: str, found: dict[str, dict[int, float]]) -> list[str]:
    """Rows of one problem, the best of each column in bold."""
    best = {mark: min(values[mark] for values in found.values()) for mark in SHOWN}
    rows = []
    for name, values in found.items():
        cells = [f"**{number(values[m])}**" if values[m] == best[m] else number(values[m]) for m in SHOWN]
        rows.append(f"| {title if not rows else ''} | {NAMES.get(name, name)} | {' | '.join(cells)} |")
    return rows


def score(results: dict[str, dict[str, dict[int, float]]]) -> str:
    """How many problems each variant wins from the best of the competitors, at each pass."""
    head = "| won from the best of all competitors | " + " | ".join(f"pass {mark}" for mark in SHOWN) + " |"
    rows = [head, "|---|" + "---:|" * len(SHOWN)]
    for name, words in NAMES.items():
        won = [
            sum(found[name][mark] < found["competitors"][mark] for found in results.values() if name in found)
            for mark in SHOWN
        ]
        rows.append(f"| {words} | " + " | ".join(f"{count} of {len(results)}" for count in won) + " |")
    return "\n".join(rows)


def relapses(problems: dict[str, Problem], runs: list[Record]) -> str:
    """The law that F never rises, problem by problem: the worst over all seeds and passes."""
    rows = ["| | seeds | passes | relapse | rejected per pass |", "|---|---:|---:|---:|---:|"]
    for name, problem in problems.items():
        if mine := of_problem(runs, name):
            worst, passes = max(map(relapse, mine)), mine[0].job.passes
            rejected = np.mean([record.rejected / passes for record in mine])
            cell = "none" if worst <= 1e-8 else f"{worst:.2g}"
            rows.append(f"| {problem.title} | {len(mine)} | {passes} | {cell} | {rejected:.1f} |")
    return "\n".join(rows)


def page(
    names: list[str], runs: list[Record], rivals: dict[str, list[Record]], long: list[Record], folder: Path = FOLDER
) -> None:
    """Write the page and the picture."""
    problems = {name: make_problem(name, 0) for name in names}
    results = {
        name: curves(problem, of_problem(runs, name), rivals[name], of_problem(long, name))
        for name, problem in problems.items()
    }
    table = ["| | | " + " | ".join(f"pass {mark}" for mark in SHOWN) + " |", "|---|---|" + "---:|" * len(SHOWN)]
    for name, found in results.items():
        table += problem_table(problems[name].title, found)
    parts = [
        INTRODUCTION.format(seeds=len({record.job.seed for record in runs})),
        "![F against passes on all problems](laboratory.png)",
        "## Won and lost\n\n" + score(results),
        DIVERGING + relapses(problems, long),
        "## All problems\n\n" + "\n".join(table),
    ]
    (folder / "laboratory.md").write_text("\n\n".join(parts) + "\n")
    draw(problems, results, folder / "laboratory.png")


def draw(problems: dict[str, Problem], results: dict[str, dict[str, dict[int, float]]], path: Path) -> None:
    """A small picture for each problem."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = -(-len(problems) // 4)
    figure, axes = plt.subplots(rows, 4, figsize=(14, 2.9 * rows), layout="constrained", squeeze=False)
    styles = {"SFO default": ("C0", "-", "o"), "SFO paper": ("C1", "--", "s"), "competitors": ("0.45", ":", "^")}
    for ax in axes.flat[len(problems) :]:
        ax.set_axis_off()
    for ax, (name, problem) in zip(axes.flat, problems.items(), strict=False):
        start = problem.objective(problem.x0)
        heights = {
            label: np.clip([values[mark] for mark in SHOWN], 1e-15 * abs(start), 1e3 * abs(start))
            for label, values in results[name].items()
        }
        for label, curve in heights.items():
            colour, line, marker = styles[label]
            ax.plot(SHOWN, curve, color=colour, linestyle=line, marker=marker, label=NAMES.get(label, label))
        wide = max(curve.max() for curve in heights.values()) > WIDE * min(curve.min() for curve in heights.values())
        ax.set(title=problem.title, xscale="log", yscale="log" if wide else "linear")
        ax.set_xticks(SHOWN, [str(mark) for mark in SHOWN])
        ax.minorticks_off()
    axes[0, 0].legend(frameon=False)
    figure.supxlabel("passes")
    figure.supylabel("F, or what is left of it")
    figure.savefig(path, dpi=80)
    plt.close(figure)
