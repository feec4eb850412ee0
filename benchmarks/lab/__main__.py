"""The laboratory: ``python -m benchmarks.lab --variants default paper --problems tanh ica`` compares variants of SFO.

Every run is kept in a file and never made twice; the first variant is the one that the others are compared with. A
verdict like "0.8-" says that a variant has 0.8 times as much of the descent left, beyond the spread over seeds; without
a sign, within it. *Relapse* is the worst rise of F at the end of a pass above 1.1 times the best before, relative to
the start. With ``--envelope``, what beats the best of all tuned competitors at that very pass is bold.
"""

import argparse
import os
from pathlib import Path
from typing import Any

from benchmarks.lab.envelope import best_of, envelope
from benchmarks.lab.problems import PROBLEMS, make_problem
from benchmarks.lab.report import page
from benchmarks.lab.runs import Record, carry_out, sfo_job
from benchmarks.lab.verdict import by_optimizer, table
from sumopt.core.departures import Departure

RUNS = Path(os.environ.get("SUMOPT_LAB_DIR") or "~/.cache/sumopt/lab").expanduser() / "runs.jsonl"
# How SFO is run, by name: options of the core.
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {"variant": "paper"},
    **{f"without {number}": {"without": [number]} for number in Departure},
    "all active": {"initially_active": 50},
    "random": {"target": "random"},
    "cyclic": {"target": "cyclic"},
    "rank one": {"update": "rank-one"},
}


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab", description=__doc__)
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=["default"])
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--envelope", action="store_true", help="tune and run the competitors as well (an hour)")
    parser.add_argument("--write", action="store_true", help="write docs/laboratory.md; five seeds, sixty passes, too")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=RUNS, help="the file that keeps the runs")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Run what is missing, and print a table for every problem."""
    given = arguments(argv)
    jobs = [
        sfo_job(problem, seed, name, VARIANTS[name], given.passes)
        for problem in given.problems
        for name in given.variants
        for seed in range(given.seeds)
    ]
    records = list(carry_out(jobs, given.runs, given.processes).values())
    rivals: dict[str, list[Record]] = {name: [] for name in given.problems}
    if given.envelope:
        rivals = {n: envelope(n, range(given.seeds), given.runs, given.processes) for n in given.problems}
    for name in given.problems:
        mine = [record for record in records if record.job.problem == name]
        problem, best = make_problem(name, 0), best_of(rivals[name]) if rivals[name] else {}
        print(f"\n### {problem.title}\n\n{table(problem, by_optimizer(mine), best, mine[0].job.optimizer)}", flush=True)
    if given.write:
        long = [sfo_job(problem, seed, "default", {}, 60) for problem in given.problems for seed in range(5)]
        page(given.problems, records, rivals, list(carry_out(long, given.runs, given.processes).values()))


if __name__ == "__main__":
    main()
