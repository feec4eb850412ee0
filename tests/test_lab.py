"""The laboratory: its gradients are right, its runs are kept, its verdicts know the spread."""

import json

import numpy as np
import pytest

from benchmarks.lab import networks, report, runs, verdict
from benchmarks.lab.data import contents, shrunk
from benchmarks.lab.data import curves as curves_like
from benchmarks.lab.envelope import best_of
from benchmarks.lab.problems import PROBLEMS, make_problem
from benchmarks.lab.runs import Job, Record, carry_out, read, sfo_job
from sumopt import check_gradient

# Those that need no files.
DRAWN = ["poisson", "separable", "pinn", "quadratic2", "quadratic8"]


def gradient_is_right(fun, x0, batches):
    return check_gradient(fun, x0, batches, rng=0).ok


@pytest.mark.parametrize("name", DRAWN)
def test_gradients_of_drawn_problems(name):
    problem = make_problem(name, 0)
    assert gradient_is_right(problem.fun, problem.x0 + 0.01, problem.batches[:3])


@pytest.mark.parametrize("unit", networks.UNITS)
@pytest.mark.parametrize("loss", ["softmax", "pixels"])
def test_gradients_of_dense_networks(unit, loss):
    rng = np.random.default_rng(0)
    layers = (5, 4, 3)
    batch = rng.random(size=(6, 5)), rng.dirichlet(np.ones(3), size=6)
    x0 = networks.dense_start(rng, layers) + 0.1 * rng.normal(size=5 * 4 + 4 + 4 * 3 + 3)

    def fun(x, rows):
        return networks.dense_value(x, rows, networks.dense_shapes(layers), (unit,), loss)

    assert gradient_is_right(fun, x0, [batch])


def test_gradient_of_the_convolutional_network():
    rng = np.random.default_rng(0)
    batch = rng.normal(size=(4, 3, 16, 16)), rng.integers(10, size=4)
    assert gradient_is_right(networks.convolution_value, networks.convolution_start(rng), [batch])


def test_martens_start_is_sparse():
    start = networks.sparse_start(np.random.default_rng(0), (30, 20, 10), count=15)
    first = networks.unflatten(start, networks.dense_shapes((30, 20, 10)))[0]
    assert (np.count_nonzero(first, axis=0) == 15).all()


def test_images_are_averaged_by_fours_and_curves_look_like_curves():
    assert np.array_equal(shrunk(np.arange(16.0).reshape(1, 4, 4)), [[[2.5, 4.5], [10.5, 12.5]]])
    images = curves_like(50)
    assert images.shape == (50, 196)
    assert images.min() >= 0.0 and 0.4 < images.max() < 0.82
    assert (images.sum(axis=1) > 1.0).all()


def test_a_file_that_is_missing_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("SUMOPT_DATA_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="train-images is missing: put the data set there"):
        contents("mnist/train-images")


def test_runs_are_kept_and_never_made_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "in_parallel", lambda jobs, _: map(runs.work, jobs))
    jobs = [sfo_job("quadratic2", seed, "default", {}, 3) for seed in range(2)]
    jobs.append(Job("quadratic2", 0, "Adam", json.dumps({"step": 0.01}), 3))
    path = tmp_path / "deep" / "runs.jsonl"
    made = carry_out(jobs, path, 1)
    assert [sorted(made[job].values) for job in jobs] == [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2]]
    monkeypatch.setattr(runs, "work", lambda job: pytest.fail("made twice"))
    assert carry_out(jobs, path, 1) == made == read(path)


def records(values, optimizer="SFO default"):
    """One run a seed, from its values at passes 0, 1, 2, 5."""
    return [
        Record(Job("tanh", seed, optimizer, "{}", 5), dict(zip((0, 1, 2, 5), row, strict=True)), 0, 0.0)
        for seed, row in enumerate(values)
    ]


def test_a_verdict_knows_the_spread():
    clear = verdict.compared(np.log([0.5, 0.52, 0.49]))
    assert clear == "0.5-"
    assert verdict.compared(np.log([0.5, 2.0, 1.1])) == "1"
    assert verdict.compared(np.log([1.02, 1.02, 1.02])) == "1"
    assert verdict.compared(np.log([3.0, 3.1, 2.9])) == "3+"


def test_a_relapse_is_a_rise_of_a_tenth_above_the_best():
    (fair, relapsed, diverged) = records([(10, 5, 5.4, 1), (10, 1, 3.1, 0), (10, 1, np.nan, 0)])
    assert verdict.relapse(fair) == 0.0
    assert verdict.relapse(relapsed) == pytest.approx(0.2)
    assert verdict.relapse(diverged) == np.inf


def test_the_envelope_is_the_best_setting_of_each_mark_that_was_run_on_all_seeds():
    rivals = [
        *records([(10, 4, 3, 2), (10, 4, 3, 2)], "Adam"),
        *records([(10, 5, 2, 1), (10, 5, 2, 1)], "SAG"),
        *records([(10, 0, 0, 0)], "AdaGrad"),
    ]
    assert best_of(rivals) == {0: 10, 1: 4, 2: 2, 5: 1}


def test_the_page_says_who_won(tmp_path):
    names = ["quadratic2", "poisson"]
    marks = (0, 1, 2, 5, 10, 20)

    def run(name, optimizer, values):
        return Record(Job(name, 0, optimizer, "{}", 20), dict(zip(marks, values, strict=True)), 0, 0.0)

    ours = [run(name, "SFO default", (9, 8, 4, 3, 2, 1)) for name in names]
    paper = [run(name, "SFO paper", (9, 8, 8, 8, 8, 8)) for name in names]
    rivals = {name: [run(name, "Adam", (9, 7, 5, 4, 3, 2))] for name in names}
    report.page(names, [*ours, *paper], rivals, ours, tmp_path)
    text = (tmp_path / "laboratory.md").read_text()
    assert "| default | 0 of 2 | 2 of 2 | 2 of 2 | 2 of 2 | 2 of 2 |" in text
    assert '| variant="paper" | 0 of 2 | 0 of 2 | 0 of 2 | 0 of 2 | 0 of 2 |' in text
    assert "| Poisson regression | 1 | 20 | none | 0.0 |" in text
    assert (tmp_path / "laboratory.png").stat().st_size > 10_000


def test_there_are_the_papers_seven_and_more():
    assert len(PROBLEMS) == 16
