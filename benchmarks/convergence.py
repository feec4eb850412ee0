"""SFO beside tuned competitors at equal passes: ``python -m benchmarks.convergence`` writes ``docs/convergence.md``."""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks.competitors import Run, grid, minimum, run_competitor
from benchmarks.problems import N_BATCHES, PROBLEMS, Problem, make_problem
from benchmarks.runs import PASSES, measure_sfo, run_sfo
from benchmarks.tables import Results, page, score_table, tables, variant_tables

__all__ = ["main", "run_sfo"]

OUTPUT = Path(__file__).parent.parent / "docs" / "convergence.md"
SFO = "SFO"
VARIANTS: dict[str, dict[str, Any]] = {
    "standard": {},
    "all active": {"initially_active": N_BATCHES},
    "random": {"target": "random"},
    "cyclic": {"target": "cyclic"},
    "rank one": {"update": "rank-one"},
}

# What a worker is sent: problem, seed, optimizer (SFO, a variant of it, or a competitor) and its settings.
Job = tuple[str, int, str, dict[str, Any]]

problem_of = cache(make_problem)


def work(job: Job) -> tuple[Job, Run]:
    """Carry out one run."""
    name, seed, optimizer, settings = job
    problem = problem_of(name, seed)
    if optimizer == SFO or optimizer in VARIANTS:
        return job, measure_sfo(problem, seed, PASSES, settings)
    return job, run_competitor(optimizer, problem, seed, PASSES, settings)


def work_minimum(job: tuple[str, int]) -> tuple[tuple[str, int], float]:
    """Find the smallest value of one convex problem."""
    return job, minimum(problem_of(*job))


def one_thread() -> None:
    """Keep a worker's BLAS to one thread: the arrays are small, and the processes share the machine."""
    threadpool_limits(1)


def in_parallel(function: Callable[[Any], Any], jobs: list[Any], processes: int) -> Iterator[Any]:
    """The results of the jobs as they come, under a progress bar."""
    with ProcessPoolExecutor(processes, get_context("spawn"), initializer=one_thread) as pool:
        futures = [pool.submit(function, job) for job in jobs]
        for future in tqdm(as_completed(futures), total=len(jobs), unit="run", dynamic_ncols=True):
            yield future.result()


def label(settings: dict[str, Any]) -> str:
    """Settings as they stand in a table."""
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in settings.items()
    )


def collect(jobs: list[Job], convex: Iterable[str], processes: int) -> Results:
    """Run everything, and take from the convex problems the smallest value that anything reached with the same seed."""
    runs: Results = defaultdict(dict)
    # Rows stand in the order of the jobs, whichever ends first.
    for name, _, optimizer, settings in jobs:
        runs[name][optimizer, label(settings)] = {}
    for (name, seed, optimizer, settings), run in in_parallel(work, jobs, processes):
        runs[name][optimizer, label(settings)][seed] = run
    pairs = sorted({(name, seed) for name, seed, _, _ in jobs if name in convex})
    for (name, seed), found in in_parallel(work_minimum, pairs, processes) if pairs else ():
        lines = [by_seed[seed] for by_seed in runs[name].values()]
        smallest = min([found, *(value for run in lines for value in run.values.values())])
        for run in lines:
            run.values.update({mark: value - smallest for mark, value in run.values.items()})
    return runs


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convergence", description=__doc__)
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds (default 3)")
    parser.add_argument("--quick", action="store_true", help="one seed; print instead of writing the page")
    parser.add_argument("--variants", action="store_true", help="print SFO's design choices beside each other instead")
    parser.add_argument(
        "--sfo-options", type=json.loads, default={}, metavar="JSON", help="options of SFO; prints only"
    )
    parser.add_argument(
        "--per-decade", type=int, default=3, help="step lengths tried in every decade (default 3; the paper has 1)"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Run the benchmark as the command line says."""
    given = arguments(argv)
    seeds = range(1 if given.quick else given.seeds)
    problems: dict[str, Problem] = {name: make_problem(name) for name in given.problems}
    if given.variants:
        lines = [(name, {**settings, **given.sfo_options}) for name, settings in VARIANTS.items()]
    else:
        lines = [(SFO, given.sfo_options), *grid(given.per_decade)]
    jobs = [(name, seed, *line) for line in lines for name in problems for seed in seeds]
    runs = collect(jobs, [name for name, problem in problems.items() if problem.convex], given.processes)
    if given.variants:
        print(variant_tables(problems, runs))
    elif given.quick or given.sfo_options or set(problems) != set(PROBLEMS):
        print(score_table(problems, runs), tables(problems, runs), sep="\n\n")
    else:
        given.output.write_text(page(problems, runs, len(seeds), given.per_decade))
        print(f"Written: {given.output}")


if __name__ == "__main__":
    main()
