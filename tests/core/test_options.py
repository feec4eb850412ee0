"""Every option is checked in a sentence, and does something."""

import dataclasses

import numpy as np
import problems
import pytest
from core.driving import drive, start

from benchmarks import sums
from sumopt.core import Options
from sumopt.core.departures import Departure

WRONG = [
    ("history", 0, ValueError, "history must be at least 1; got 0"),
    ("history", 2.5, TypeError, "history must be an integer; got 2.5"),
    ("history", True, TypeError, "history must be an integer; got True"),
    ("update", "dfp", ValueError, "update must be one of 'bfgs', 'rank-one'; got 'dfp'"),
    ("update", None, TypeError, "update must be a string; got None"),
    ("target", "nearest", ValueError, "target must be one of 'distance', 'random', 'cyclic'; got 'nearest'"),
    ("initially_active", -1, ValueError, "initially_active must be at least 1; got -1"),
    ("noise", -1.0, ValueError, "noise must be a finite number above 0; got -1.0"),
    ("noise", float("nan"), ValueError, "noise must be a finite number above 0; got nan"),
    ("smallest_ratio", 1.0, ValueError, "smallest_ratio must be a finite number between 0 and 1; got 1.0"),
    ("initial_curvature", 0, ValueError, "initial_curvature must be a finite number above 0; got 0"),
    ("initial_curvature", "big", TypeError, "initial_curvature must be a number; got 'big'"),
    ("min_subspace", 1, ValueError, "min_subspace must be at least 2; got 1"),
    ("max_subspace", 2, ValueError, "max_subspace must be at least 3; got 2"),
]


@pytest.mark.parametrize(("name", "value", "error", "sentence"), WRONG)
def test_a_wrong_value_gets_a_sentence(name, value, error, sentence):
    with pytest.raises(error) as caught:
        Options(**{name: value})
    assert str(caught.value) == sentence


def test_an_unknown_option_gets_a_suggestion():
    with pytest.raises(TypeError, match="unknown option 'histroy'; did you mean 'history'"):
        Options.of({"histroy": 5})
    with pytest.raises(TypeError, match="unknown option 'zzz'; the options are history, update"):
        Options.of({"zzz": 5})


@pytest.mark.parametrize(
    ("chosen", "sizes"),
    [
        ({}, (20, 30)),
        ({"max_subspace": 12}, (8, 12)),
        ({"max_subspace": 100}, (20, 100)),
        ({"min_subspace": 6}, (6, 30)),
        ({"min_subspace": 40}, (40, 50)),
        ({"min_subspace": 6, "max_subspace": 9}, (6, 9)),
    ],
)
def test_sizes_of_the_subspace(chosen, sizes):
    assert Options(**chosen).subspace_sizes(10) == sizes


def test_sizes_that_leave_no_room_are_refused():
    with pytest.raises(ValueError, match="max_subspace must be larger than min_subspace; got 9 and 9"):
        Options(min_subspace=9, max_subspace=9).subspace_sizes(10)


# Problems that show a departure, where logistic regression does not.
TELLING = {
    Departure.LONGER_STEPS: sums.absolute,
    Departure.FIRST_EVALUATION_OBJECTS: sums.powers,
    Departure.ABSURD_VALUES: sums.poisson,
    Departure.ZERO_CURVATURE: sums.deficient,
    Departure.OUTLYING_GRADIENT: sums.uneven,
}
# It shows where gradients are all rounding, hundreds of evaluations on.
LATE = {Departure.STRIDE}

OTHER = {
    "history": 2,
    "update": "rank-one",
    "target": "cyclic",
    "initially_active": 6,
    "noise": 1e6,
    "smallest_ratio": 0.3,
    "min_subspace": 20,
    "max_subspace": 12,
    "initial_curvature": 1e3,
    "variant": "paper",
    "without": (14,),
}


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Options)])
def test_every_option_changes_the_run(name):
    # Many samples make the subfunctions alike, so that growth takes its time.
    problem = problems.logistic(seed=0, n=8, m=60, samples=400)
    usual, other = (drive(*start(problem, **chosen), 150)[0] for chosen in ({}, {name: OTHER[name]}))
    assert any(not np.array_equal(a.position, b.position) for a, b in zip(usual, other, strict=True))


@pytest.mark.parametrize(("chosen", "least", "most"), [({"max_subspace": 9}, 6, 9), ({"min_subspace": 30}, 30, 36)])
def test_the_subspace_keeps_to_its_sizes(chosen, least, most):
    _, infos = drive(*start(problems.logistic(seed=0, n=6, m=80, samples=20), **chosen), 200)
    sizes = np.array([info.subspace_size for info in infos])
    shrunk = sizes[1:][np.diff(sizes) < 0]
    assert len(shrunk) > 3
    # One more where the best end of a pass is elsewhere.
    assert set(shrunk) <= {least, least + 1}
    assert sizes.max() <= most + 3


@pytest.mark.parametrize("number", set(Departure) - LATE)
def test_every_departure_can_be_switched_off_alone(number):
    if number in TELLING:
        telling = TELLING[number](0)
        problem = telling.fun, telling.x0, telling.n
    else:
        problem = problems.logistic(seed=0, n=8, m=60, samples=20)
    dtype = problem[1].dtype
    runs = [drive(*start(problem, dtype=dtype, without=numbers), 400)[0] for numbers in ((), (number,))]
    assert any(not np.array_equal(a.position, b.position) for a, b in zip(*runs, strict=False))


def test_the_paper_is_all_of_them_switched_off():
    paper, none = Options(variant="paper"), Options(without=tuple(Departure))
    assert paper.departures == none.departures == frozenset()
    assert Options().departures == frozenset(Departure)
    assert paper.first_curvature == 1e6
    assert Options(variant="paper", initial_curvature=3.0).first_curvature == 3.0
    problem = problems.logistic(seed=0, n=8, m=60)
    runs = [
        drive(*start(problem, **chosen), 100)[0] for chosen in ({"variant": "paper"}, {"without": tuple(Departure)})
    ]
    assert all(np.array_equal(a.position, b.position) for a, b in zip(*runs, strict=True))


def test_a_small_subspace_still_descends():
    problem = problems.logistic(seed=0, n=6, m=60, samples=20)
    optimizer, fun = start(problem, max_subspace=6)
    drive(optimizer, fun, 40 * 6)
    reference, _ = start(problem)
    drive(reference, fun, 100 * 6)
    at = {
        name: sum(fun(x, i)[0] for i in range(6))
        for name, x in [("0", problem[1]), ("s", optimizer.x), ("r", reference.x)]
    }
    assert at["0"] - at["s"] > 0.75 * (at["0"] - at["r"])
