"""Tables of the laboratory: what each variant reached, and whether it differs from another beyond the seeds' spread."""

from collections import defaultdict

import numpy as np

from benchmarks.lab.runs import MARKS, Record
from benchmarks.problems import Problem

# Descents below this fraction of the whole are rounding; where F has no zero, what is left is never known so well.
FLOOR, FLOOR_WITHOUT_ZERO = 1e-8, 1e-2
RELAPSE = 1.1

Rows = dict[str, list[Record]]


def by_optimizer(records: list[Record]) -> Rows:
    """The runs of each optimizer, one a seed, in the order of seeds."""
    rows: Rows = defaultdict(list)
    for record in sorted(records, key=lambda record: record.job.seed):
        rows[record.job.optimizer].append(record)
    return rows


def lowest(problem: Problem, records: list[Record]) -> dict[int, float]:
    """What is subtracted from F, by seed: the least that any run has seen; nothing where F has a zero of its own."""
    if problem.has_zero and not problem.convex:
        return defaultdict(float)
    least: dict[int, float] = defaultdict(lambda: np.inf)
    for record in records:
        least[record.job.seed] = min(least[record.job.seed], *record.values.values())
    return least


def gap(record: Record, mark: int, least: float, floor: float) -> float:
    """What is left of the descent from the start, as a fraction."""
    whole = record.values[0] - least
    return max((record.values[mark] - least) / whole, 0.0) + floor


def log_ratios(
    runs: list[Record], others: list[Record], mark: int, least: dict[int, float], floor: float
) -> np.ndarray:
    """Logarithms of what one variant has left over what another has, seed by seed."""
    return np.array(
        [
            np.log(gap(run, mark, least[run.job.seed], floor) / gap(other, mark, least[run.job.seed], floor))
            for run, other in zip(runs, others, strict=True)
        ]
    )


def compared(ratios: np.ndarray) -> str:
    """A factor, with a sign where it is beyond the spread: twice the standard error, and five per cent."""
    mean, error = float(ratios.mean()), float(ratios.std(ddof=1) / np.sqrt(len(ratios))) if len(ratios) > 1 else np.inf
    clear = abs(mean) > max(2.0 * error, 0.05)
    return f"{np.exp(mean):.2g}{('-' if mean < 0 else '+') if clear else ''}"


def relapse(record: Record) -> float:
    """How far F at the end of a pass was above the best before it, as a fraction of the descent until then."""
    marks = sorted(record.values)
    values = np.array([record.values[mark] for mark in marks])
    if not np.isfinite(values).all():
        return np.inf
    best = np.minimum.accumulate(values)[:-1]
    above = (values[1:] - RELAPSE * best if (best > 0).all() else values[1:] - best) / abs(values[0])
    return float(max(above.max(), 0.0))


def table(problem: Problem, rows: Rows, envelope: dict[int, float], baseline: str) -> str:
    """One problem: medians over seeds, wins against the envelope in bold, and the verdict against the baseline."""
    records = [record for runs in rows.values() for record in runs]
    least = lowest(problem, records)
    floor = FLOOR if problem.has_zero else FLOOR_WITHOUT_ZERO
    marks = [mark for mark in MARKS if all(mark in record.values for record in records)]
    head = [
        "",
        *(f"pass {mark}" for mark in marks),
        "rejected",
        "relapse",
        *(f"{mark} vs {baseline}" for mark in marks),
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, runs in rows.items():
        medians = {mark: float(np.median([run.values[mark] for run in runs])) for mark in marks}
        cells = [
            f"**{medians[mark]:.5g}**" if medians[mark] < envelope.get(mark, -np.inf) else f"{medians[mark]:.5g}"
            for mark in marks
        ]
        verdicts = [compared(log_ratios(runs, rows[baseline], mark, least, floor)) for mark in marks]
        rejected = f"{np.median([run.rejected for run in runs]):.0f}"
        cells += [rejected, f"{max(map(relapse, runs)):.2g}", *verdicts]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    if envelope:
        lines.append("| envelope | " + " | ".join(f"{envelope[m]:.5g}" if m in envelope else "" for m in marks) + " |")
    return "\n".join(lines)
