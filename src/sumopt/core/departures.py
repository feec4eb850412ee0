"""Where we leave the paper: the numbers and names of docs/departures.md, each of which can be switched off alone."""

from enum import IntEnum, unique


@unique
class Departure(IntEnum):
    """A departure from the paper, by its number in docs/departures.md."""

    FIRST_CURVATURE = 1
    FIRST_AGAIN = 2
    LONGER_STEPS = 3
    ROUNDING = 4
    FIRST_EVALUATION_OBJECTS = 5
    KEEPS_IMPROVEMENT = 6
    ABSURD_VALUES = 7
    DISPLACEMENTS = 8
    ROOM_FOR_HISTORIES = 9
    ZERO_CURVATURE = 10
    OUTLYING_GRADIENT = 11
    SPOILT_PAIRS = 12
    GROWTH_WAITS = 13
    INHERITED_CURVATURE = 14
    SMALLEST_CURVATURE = 15
    MEAN_HESSIAN = 16
    WATCHDOG = 17
    STRIDE = 18


ALL = frozenset(Departure)
