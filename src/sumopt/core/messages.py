"""What is said between the optimizer and whoever evaluates."""

from __future__ import annotations

from dataclasses import dataclass

from sumopt.core.arrays import Vector


@dataclass(frozen=True)
class Query:
    """What the optimizer wants to know: the value and gradient of subfunction `index` at `position`."""

    ticket: int
    index: int
    position: Vector


@dataclass(frozen=True)
class Info:
    """What happened when the optimizer was told an evaluation.

    Attributes
    ----------
    evaluation : int
        Evaluations told so far, this one included.
    index, value : int, float
        The subfunction, and its value.
    outcome : {"accepted", "rejected", "retry", "not finite"}
        A good evaluation; a bad one, after which the same subfunction is wanted at the last position; an evaluation
        that resolves a bad one; a value or gradient that is not finite.
    eta, step_length, predicted_gain : float
        The fraction of a Newton step taken, its length, and the descent of F that the models predict for it.
    gradient_norm, gradient_scale : float
        Length of the gradient of the summed models here, and the sum of the lengths of the gradients measured last.
    active, subspace_size : int
        Subfunctions that take part, and directions in use.
    failure : str or None
        Why the run cannot go on.
    """

    evaluation: int
    index: int
    value: float
    outcome: str
    eta: float
    step_length: float
    predicted_gain: float
    gradient_norm: float
    gradient_scale: float
    active: int
    subspace_size: int
    failure: str | None
