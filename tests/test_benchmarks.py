"""The benchmarks measure what they say: objectives are their definitions, and every evaluation counts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, log_softmax
from scipy.stats import t as student

from benchmarks import convergence, tables
from benchmarks.competitors import LBFGS, UPDATES, Run, grid, minimum, run_competitor
from benchmarks.problems import PROBLEMS, digits, make_problem, unflatten
from benchmarks.runs import PASSES, run_sfo
from examples import digits as example


def slopes(fun, x, gradient, rng, count=4):
    """Central differences of fun along random directions, and what the gradient says of them."""
    for _ in range(count):
        direction = rng.normal(size=x.size)
        step = 1e-5 / np.linalg.norm(direction)
        yield (fun(x + step * direction) - fun(x - step * direction)) / (2 * step), gradient @ direction


@pytest.mark.parametrize("scale", [0.0, 0.1])
@pytest.mark.parametrize("name", PROBLEMS)
def test_gradients_are_those_of_the_values(name, scale):
    rng = np.random.default_rng(1)
    problem = make_problem(name, seed=1)
    x = problem.x0 + scale * rng.normal(size=problem.x0.size)
    batch = problem.batches[0]
    for difference, predicted in slopes(lambda at: problem.fun(at, batch)[0], x, problem.fun(x, batch)[1], rng):
        assert predicted == pytest.approx(difference, rel=1e-5, abs=1e-7)


def test_gradient_of_the_example():
    rng = np.random.default_rng(1)
    layers, images = example.initial_layers(rng), digits()[0][:40]
    x, gradient = example.ravel(layers), example.ravel(example.squared_error(layers, images)[1])
    for difference, predicted in slopes(
        lambda at: example.squared_error(example.unravel(at), images)[0], x, gradient, rng
    ):
        assert predicted == pytest.approx(difference, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", PROBLEMS)
def test_minibatches_are_all_the_samples_and_sum_to_the_objective(name):
    problem = make_problem(name, seed=2)
    again = make_problem(name, seed=3)
    samples, dealt_anew = (np.concatenate([batch[0] for batch in made.batches]) for made in (problem, again))
    assert len(samples) == 1797
    assert np.array_equal(np.sort(samples.sum(axis=1)), np.sort(dealt_anew.sum(axis=1)))
    value, gradient = problem.full(problem.x0)
    assert value == problem.objective(problem.x0)
    for difference, predicted in slopes(problem.objective, problem.x0, gradient, np.random.default_rng(0), count=1):
        assert predicted == pytest.approx(difference, rel=1e-4)


def test_ising_is_the_probability_flow_to_all_states_with_one_bit_flipped():
    problem = make_problem("ising")
    x = np.random.default_rng(0).normal(scale=0.1, size=problem.x0.size)
    states = problem.batches[0][0][:3]
    couplings = np.zeros((64, 64))
    couplings[np.triu_indices(64)] = x
    biases = couplings.diagonal().copy()
    np.fill_diagonal(couplings, 0)

    def energy(state):
        return -state @ couplings @ state - biases @ state

    flow = 0.0
    for state in states:
        for bit in range(64):
            flipped = state.copy()
            flipped[bit] = 1 - flipped[bit]
            flow += np.exp((energy(state) - energy(flipped)) / 2) / len(states)
    assert problem.fun(x, (states,))[0] == pytest.approx(flow + 0.01 * x @ x)


def test_ica_is_the_likelihood_of_student_t_experts():
    problem = make_problem("ica")
    (data,) = problem.batches[0]
    size = data.shape[1]
    filters, log_freedoms = unflatten(problem.x0, ((size, size), (size,)))
    densities = student.logpdf(data @ filters.T, np.exp(log_freedoms)).sum(axis=1).mean()
    assert problem.fun(problem.x0, (data,))[0] == pytest.approx(-densities - np.linalg.slogdet(filters)[1])


def test_ica_at_a_singular_matrix_is_infinite_not_an_error():
    problem = make_problem("ica")
    assert problem.fun(np.zeros_like(problem.x0), problem.batches[0])[0] == np.inf


def test_autoencoder_penalizes_the_jacobian_of_its_encoder():
    problem = make_problem("autoencoder")
    weights, bias, decoder_bias = unflatten(problem.x0, ((64, 32), (32,), (64,)))
    pixels = problem.batches[0][0][:1]
    code = expit(pixels @ weights + bias)
    error = expit(code @ weights.T + decoder_bias) - pixels
    step = 1e-6
    shifted = pixels + step * np.eye(64)
    jacobian = (expit(shifted @ weights + bias) - code) / step
    expected = np.sum(error**2) + 0.1 * np.sum(jacobian**2)
    assert problem.fun(problem.x0, (pixels,))[0] == pytest.approx(expected, rel=1e-5)


def test_network_is_the_cross_entropy_of_its_softmax():
    problem = make_problem("network")
    first, b1, second, b2, third, b3 = unflatten(problem.x0, ((64, 32), (32,), (32, 32), (32,), (32, 10), (10,)))
    pixels, targets = problem.batches[0]
    scores = np.tanh(np.tanh(pixels @ first + b1) @ second + b2) @ third + b3
    expected = -np.mean(np.sum(targets * log_softmax(scores, axis=1), axis=1))
    assert problem.fun(problem.x0, (pixels, targets))[0] == pytest.approx(expected)


def counted(problem):
    """The problem, and a list that grows with every evaluation of a subfunction."""
    calls = []

    def fun(x, batch):
        calls.append(x.copy())
        return problem.fun(x, batch)

    return replace(problem, fun=fun), calls


@pytest.mark.parametrize("name", [LBFGS, *UPDATES])
def test_competitors_descend_and_spend_the_passes_and_no_more(name):
    problem, calls = counted(make_problem("logistic", n_batches=10))
    settings = {} if name == LBFGS else {"step": 0.01}
    if "SGD" in name:
        settings["momentum"] = 0.9
    run = run_competitor(name, problem, 0, (2, 6), settings)
    measuring = 0 if name == LBFGS else 2 * 10
    assert len(calls) == 6 * 10 + measuring
    assert run.values[6] < run.values[2] < problem.objective(problem.x0)


@pytest.mark.parametrize("problem", ["ising", "ica", "network"])
@pytest.mark.parametrize("name", UPDATES)
def test_steps_far_too_long_give_large_or_infinite_values_not_warnings(name, problem):
    problem = make_problem(problem, n_batches=10)
    settings = {"step": 1e6, **({"momentum": 0.99} if "SGD" in name else {})}
    run = run_competitor(name, problem, 0, (1, 2), settings)
    assert all(value > problem.objective(problem.x0) for value in run.values.values())


def test_the_first_pass_of_lbfgs_is_its_start():
    problem = make_problem("network")
    assert run_competitor(LBFGS, problem, 0, (1,), {}).values[1] == problem.objective(problem.x0)


def test_the_minimum_is_stationary():
    problem, calls = counted(make_problem("logistic"))
    smallest = minimum(problem)
    ends = [problem.full(x) for x in calls[-1:]]
    assert smallest == pytest.approx(ends[0][0], rel=1e-9)
    assert np.linalg.norm(ends[0][1]) < 1e-5 * np.linalg.norm(problem.full(problem.x0)[1])


def test_the_grid_is_the_papers():
    assert len(grid()) == 1 + 8 * (4 + 1 + 1 + 1 + 1)
    steps = [settings["step"] for name, settings in grid() if name == "Adam"]
    assert steps == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100])
    assert set(steps) < {settings["step"] for name, settings in grid(per_decade=3) if name == "Adam"}


def test_sfo_spends_the_passes_and_no_more_and_repeats_itself():
    problem, calls = counted(make_problem("logistic", n_batches=10))
    values = run_sfo(problem, 0, (1, 4))
    assert list(values) == [1, 4]
    assert len(calls) == 4 * 10 + 2 * 10
    assert values[4] < values[1] < problem.objective(problem.x0)
    assert run_sfo(problem, 0, (1, 4)) == values
    assert run_sfo(problem, 0, (1, 4), update="rank-one") != values


def lines_of(**values):
    """Results as the tables take them: the values of one seed, after every pass."""
    return {(name, ""): {0: Run(dict(zip(PASSES, row, strict=True)), 1.0)} for name, row in values.items()}


def test_the_page_says_where_sfo_loses_and_by_how_much():
    problem = make_problem("network")
    lines = lines_of(SFO=[30.0, 20.0, 5.0, 2.0, 1.0], Adam=[10.0, 19.0, 5.0, np.inf, 100.0])
    verdicts = [tables.verdict(problem, lines, mark) for mark in PASSES]
    assert verdicts == [("lost", "3 times"), ("lost", "5.3 %"), ("tied", ""), ("won", ""), ("won", "100 times")]
    sentence = tables.losses(problem, lines)
    assert "after 1 pass 30.000 against 10.000 of Adam, 3 times as much; after 2 passes 20.000" in sentence
    assert "after 5" not in sentence
    assert "none" in tables.losses(problem, lines_of(SFO=[1.0] * 5, Adam=[2.0] * 5))


def test_sfo_is_judged_against_the_best_setting_of_each_pass():
    lines = lines_of(SFO=[3.0, 3.0, 3.0, 3.0, 3.0])
    lines["Adam", "fast"] = {0: Run(dict.fromkeys(PASSES, 2.0) | {20: 9.0}, 1.0)}
    lines["Adam", "slow"] = {0: Run(dict.fromkeys(PASSES, 8.0) | {20: 4.0}, 1.0)}
    problem = make_problem("network")
    assert [tables.verdict(problem, lines, mark)[0] for mark in PASSES] == ["lost"] * 4 + ["won"]
    table = tables.table(problem, lines)
    assert "| Adam (slow) | 8.000 |" in table
    assert "Adam (fast)" not in table
    assert "| **3.000** | **3.000** | **3.000** | **3.000** | **3.000** |" in table


def test_the_command_writes_a_page_with_a_table_for_every_problem(monkeypatch, tmp_path):
    monkeypatch.setattr(convergence, "in_parallel", lambda function, jobs, processes: map(function, jobs))
    monkeypatch.setattr(convergence, "grid", lambda per_decade: [(LBFGS, {}), ("Adam", {"step": 0.1})])
    monkeypatch.setattr(convergence, "PROBLEMS", {"logistic": PROBLEMS["logistic"]})
    page = tmp_path / "convergence.md"
    convergence.main(["--seeds", "1", "--output", str(page)])
    text = page.read_text()
    assert "### Logistic regression" in text
    assert "| Adam (step 0.1) |" in text
    assert "NumPy " + np.__version__ in text
    # F* is the smallest of everything: no gap to it is negative.
    rows = [line for line in text.splitlines() if line.startswith(("| SFO |", "| L-BFGS-B |", "| Adam"))]
    assert len(rows) == 3
    assert "| -" not in "".join(rows)
