"""What SFO is judged against, per pass: the best of tuned competitors, the setting chosen anew at every mark."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.competitors import LBFGS, MOMENTA, UPDATES
from benchmarks.lab.runs import Job, Record, carry_out

PASSES = 20
STEPS = [10.0 ** (power / 2) for power in range(-8, 3)]
FINALISTS = 3


def settings_of(name: str) -> list[str]:
    """Every setting of a competitor, as JSON."""
    if name == LBFGS:
        return ["{}"]
    momenta = [{"momentum": value} for value in MOMENTA] if "SGD" in name else [{}]
    return [json.dumps({"step": step, **momentum}, sort_keys=True) for step in STEPS for momentum in momenta]


def envelope(problem: str, seeds: range, path: Path, processes: int) -> list[Record]:
    """Runs of every setting on the first seed, and on the others of those that were among the best at some pass."""
    grid = [(name, settings) for name in (LBFGS, *UPDATES) for settings in settings_of(name)]
    first = [Job(problem, seeds[0], name, settings, PASSES) for name, settings in grid]
    records = list(carry_out(first, path, processes).values())
    marks = [mark for mark in records[0].values if mark]
    best = {
        (record.job.optimizer, record.job.settings)
        for mark in marks
        for record in sorted(records, key=lambda record: record.values[mark])[:FINALISTS]
    }
    others = [Job(problem, seed, *line, PASSES) for line in sorted(best) for seed in seeds[1:]]
    return [*records, *carry_out(others, path, processes).values()]


def best_of(records: list[Record]) -> dict[int, float]:
    """At each mark, the smallest median over seeds of any setting that was run on all of them."""
    by_line: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        by_line[record.job.optimizer, record.job.settings].append(record)
    most = max(map(len, by_line.values()))
    complete = [runs for runs in by_line.values() if len(runs) == most]
    marks = complete[0][0].values
    return {mark: min(float(np.median([run.values[mark] for run in runs])) for runs in complete) for mark in marks}
