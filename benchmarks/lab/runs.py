"""Runs of the laboratory, in parallel, each kept as one line of a file, so that none is ever made twice."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits
from tqdm import tqdm

import sumopt.core
from benchmarks.competitors import run_competitor
from benchmarks.lab.problems import make_problem
from benchmarks.problems import quiet
from benchmarks.runs import measure_sfo

MARKS = (1, 2, 5, 10, 20, 50)


@dataclass(frozen=True)
class Job:
    """One run: a problem, a seed, an optimizer with its settings as JSON, for how many passes, and of which code."""

    problem: str
    seed: int
    optimizer: str
    settings: str
    passes: int
    code: str = ""


@dataclass(frozen=True)
class Record:
    """What came of a job: F after so many passes, the start being pass 0, the rejected steps, and seconds."""

    job: Job
    values: dict[int, float]
    rejected: int
    seconds: float


problem_of = lru_cache(maxsize=4)(make_problem)


@cache
def core_code() -> str:
    """A fingerprint of the optimizer, so that runs of an older one do not pass for runs of this one."""
    files = sorted(Path(sumopt.core.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def sfo_job(problem: str, seed: int, variant: str, options: dict[str, Any], passes: int) -> Job:
    """A job for a variant of SFO: a name, and options of the core."""
    return Job(problem, seed, f"SFO {variant}", json.dumps(options, sort_keys=True), passes, core_code())


def work(job: Job) -> Record:
    """Carry out one run."""
    settings, problem = json.loads(job.settings), problem_of(job.problem, job.seed)
    if job.optimizer.startswith("SFO "):
        return run_sfo(job, settings)
    marks = [mark for mark in MARKS if mark <= job.passes]
    run = run_competitor(job.optimizer, problem, job.seed, marks, settings)
    return Record(job, {0: problem.objective(problem.x0), **run.values}, 0, run.seconds)


@quiet()
def run_sfo(job: Job, settings: dict[str, Any]) -> Record:
    """F where the optimizer stands at the end of each pass, the best completed point or not: what it hides is shown."""
    problem = problem_of(job.problem, job.seed)
    run = measure_sfo(problem, job.seed, range(1, job.passes + 1), settings, stands=True)
    return Record(job, {0: problem.objective(problem.x0), **run.values}, run.rejected, run.seconds)


def read(path: Path) -> dict[Job, Record]:
    """All runs that were kept."""
    if not path.exists():
        return {}
    records = {}
    for line in path.read_text().splitlines():
        fields = json.loads(line)
        job = Job(**fields["job"])
        values = {int(mark): value for mark, value in fields["values"].items()}
        records[job] = Record(job, values, fields["rejected"], fields["seconds"])
    return records


def carry_out(jobs: Iterable[Job], path: Path, processes: int) -> dict[Job, Record]:
    """The records of these jobs; the runs that are not in the file yet are made, and added to it as they end."""
    jobs = list(dict.fromkeys(jobs))
    known = read(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for record in in_parallel([job for job in jobs if job not in known], processes):
            file.write(json.dumps(asdict(record)) + "\n")
            file.flush()
            known[record.job] = record
    return {job: known[job] for job in jobs}


def in_parallel(jobs: list[Job], processes: int) -> Iterator[Record]:
    """Records as they come, under a progress bar."""
    if not jobs:
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), initializer=threadpool_limits, initargs=(1,)) as pool:
        futures = [pool.submit(work, job) for job in jobs]
        for future in tqdm(as_completed(futures), total=len(jobs), unit="run", dynamic_ncols=True):
            yield future.result()
