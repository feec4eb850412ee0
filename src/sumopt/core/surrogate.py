"""G, the sum of a quadratic model of every subfunction (sections 2.1, 2.2 and 2.4), and its Newton step.

Subfunctions stand in the order in which they became active, so that those with a model are the first `count`, and
whatever is done for all of them is one product of arrays; what is needed at every step runs along as a sum (sums.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Set

import numpy as np

from sumopt.core.arrays import Coordinates
from sumopt.core.calibration import Calibration, Skill
from sumopt.core.departures import ALL, Departure
from sumopt.core.factor import Factor
from sumopt.core.hessian import Hessian, Update, fit
from sumopt.core.history import LEFT, History, speaks
from sumopt.core.subspace import rotate
from sumopt.core.sums import RunningSums

OUTLYING = 10.0
"""A gradient so many times longer than the others' is of another kind."""


class Surrogate:
    """The models g_i = value + gradient.(x - position) + (x - position).H_i (x - position) / 2 and their sum.

    Parameters
    ----------
    n, capacity : int
        Number of subfunctions, and of entries of a vector of coordinates.
    history : int
        Pairs kept per subfunction.
    update : callable
        How a pair changes a Hessian.
    smallest_ratio : float
        Eigenvalues below this fraction of the largest are no curvature.
    first_step : float
        Length of the first step of all, from which the curvature before any history follows.
    first_curvature : float, optional
        That curvature itself.
    rounding : float
        Relative change of a gradient that is rounding.
    departures : set of Departure
        Where to leave the paper.
    """

    def __init__(
        self,
        n: int,
        capacity: int,
        *,
        history: int,
        update: Update,
        smallest_ratio: float,
        first_step: float,
        first_curvature: float | None,
        rounding: float,
        departures: Set[Departure] = ALL,
    ) -> None:
        self.count = 0
        self.size = 0
        self.positions = np.zeros((n, capacity))
        self.gradients = np.zeros((n, capacity))
        self.values = np.full(n, np.nan)
        self.moves = np.full(n, np.inf)
        self.first_values = np.full(n, np.nan)
        self.measured_at = np.full(n, -1)
        self.history = History(n, history, capacity, LEFT if Departure.SPOILT_PAIRS in departures else 0.0)
        self.diagonals = np.zeros(n)
        self.vectors = np.zeros((n, 2 * history, capacity))
        self.curvatures = np.zeros((n, 2 * history))
        self._inherited = np.ones(n, np.bool_)
        self._assumed = np.zeros(n)
        self._calibrations = {inherited: Calibration(n) for inherited in (True, False)}
        self._skill = Skill(n)
        self._departures = departures
        self._update = update
        self._smallest_ratio = smallest_ratio
        self._first_step = first_step
        self._first_curvature = first_curvature
        self._rounding = rounding
        self.updates = 0
        self._since_refresh = 0
        self.sums = RunningSums(capacity)

    def hessian(self, i: int) -> Hessian:
        """The Hessian of one model; its arrays are live."""
        return Hessian(float(self.diagonals[i]), self.vectors[i], self.curvatures[i])

    def value_at(self, i: int, position: Coordinates) -> float:
        """g_i at a position (eq. subf upd)."""
        away = position - self.positions[i]
        return float(self.values[i] + self.gradients[i] @ away + 0.5 * away @ (self.hessian(i) @ away))

    def total(self) -> float:
        """F from the latest values, and their mean where one is missing."""
        return float(self.values[: self.count].mean()) * len(self.values)

    def most(self, position: Coordinates) -> float:
        """What F at a position is hardly above: the higher of value and model, and how much the value moved last.

        Infinite where a model would have to be believed farther out than it was ever tested.
        """
        away = position - self.positions
        if self.count < len(self.values) or (np.linalg.norm(away, axis=1) > self.history.longest_steps()).any():
            return np.inf
        return float((self.values + np.maximum(self._modelled(away), 0.0) + self.moves).sum())

    def least(self, position: Coordinates) -> float:
        """What F at a position is hardly below: the lower of value and model, less how much the value moved last."""
        away = position - self.positions
        return float((self.values + np.minimum(self._modelled(away), 0.0) - self.moves).sum())

    def _modelled(self, away: Coordinates) -> Coordinates:
        """How much higher every model is, so far away from where its subfunction was measured."""
        modelled: Coordinates = np.einsum("ij,ij->i", self.gradients, away) + 0.5 * self.own_distances(away)
        return modelled

    def own_distances(self, away: Coordinates) -> Coordinates:
        """Squared lengths of vectors, one a row for each measured subfunction, in the metric of its own Hessian."""
        n = len(away)
        along = np.matmul(self.vectors[:n], away[:, :, None])[:, :, 0]
        bent = np.einsum("ij,ij->i", self.curvatures[:n], along**2)
        squared: Coordinates = self.diagonals[:n] * np.einsum("ij,ij->i", away, away) + bent
        return squared

    def full_distances(self, away: Coordinates) -> Coordinates:
        """Squared lengths of vectors, one a row, in the metric of the full Hessian."""
        near = away[:, : self.size]
        squared: Coordinates = np.einsum("ij,ij->i", near @ self.sums.hessian(self.size), near)
        return squared

    def measured_gradients(self) -> Coordinates:
        """The latest gradient of every subfunction that has one; live."""
        return self.gradients[: self.count, : self.size]

    def observe(
        self,
        i: int,
        position: Coordinates,
        value: float,
        gradient: Coordinates,
        *,
        comparable: bool,
        resolution: float = 0.0,
    ) -> None:
        """Update the model of one subfunction with a value and a gradient (eq. subf upd).

        Where the last measurement is `comparable`, one of the same function, the difference to it becomes history, if
        it is above the `resolution` of positions.
        """
        changed = self._learn(i, position, gradient, resolution) if comparable else None
        hessian = self._fit(i, gradient, changed=changed)
        self._exchange(i, position, gradient, hessian)
        self.moves[i] = abs(value - self.values[i]) if comparable else np.inf
        if not comparable:
            self.first_values[i] = value
        self.values[i] = value
        self.count = max(self.count, i + 1)
        self.updates += 1
        self.measured_at[i] = self.updates
        self._since_refresh += 1
        if self._since_refresh >= len(self.values) or self.sums.stale:
            self.refresh(position)

    def replaced(self, i: int, *, keep_history: bool) -> None:
        """Take note that a subfunction is another one now; its model stays until it is measured again."""
        self.moves[i] = np.inf
        if not keep_history:
            self.history.forget(i)

    def gradient_at(self, position: Coordinates) -> Coordinates:
        """Gradient of G at a position: the latest of all, each taken there by its own Hessian, or by the mean one."""
        own = self.sums.gradient_at(position)
        weight = self._skill.weight
        if weight == 1.0 or Departure.MEAN_HESSIAN not in self._departures:
            return own
        # Departure 16: while its own Hessian foresees less than the mean of all, the mean is believed instead.
        n = self.count
        mean = self.gradients[:n].sum(axis=0) + self.sums.times(position - self.positions[:n].mean(axis=0))
        mixed: Coordinates = weight * own + (1.0 - weight) * mean
        return mixed

    def newton_step(self, position: Coordinates) -> tuple[Coordinates, Coordinates, Factor]:
        """Gradient of G, the step to its minimum (eq. newton step), and the factor of H that gave it."""
        gradient = self.gradient_at(position)
        factor = Factor(self.sums.hessian(self.size))
        step = np.zeros_like(gradient)
        if gradient.any():
            step[: self.size] = -factor.solve(gradient[: self.size])
        return gradient, step, factor

    def predicted_gain(self, gradient: Coordinates, step: Coordinates) -> float:
        """G before a step less G after it, for the step as it is taken, shortened or not."""
        return float(-(gradient @ step) - 0.5 * (step @ self.sums.times(step)))

    def spanning(self, position: Coordinates, record: Coordinates) -> Iterator[Coordinates]:
        """Directions that a collapse keeps (eq. subspace collapse), the latest first; then, given room, the histories.

        Distances from the position, not positions: they span the same, and keep what tells near ones apart.
        """
        # Departure 8: displacements in place of positions, here from the current one and everywhere from x0.
        origin = position if Departure.DISPLACEMENTS in self._departures else np.zeros_like(position)
        yield position
        yield record - origin
        for i in np.argsort(-self.measured_at[: self.count], kind="stable"):
            yield self.gradients[i]
            yield self.positions[i] - origin
        # Departure 9: room that inactive subfunctions leave goes to the histories, which would lose their pairs.
        if Departure.ROOM_FOR_HISTORIES in self._departures:
            yield from self.history.directions()

    def rotate(self, rotation: Coordinates, position: Coordinates) -> None:
        """Take everything to a collapsed subspace, and add up afresh about a position there."""
        for stack in (self.positions, self.gradients, self.vectors):
            rotate(stack, rotation)
        self.history.rotate(rotation)
        self.size = len(rotation)
        self.refresh(position)

    def refresh(self, centre: Coordinates) -> None:
        """Add up the running sums from their parts, about a new centre."""
        n = self.count
        low_rank = self.vectors[:n], self.curvatures[:n]
        self.sums.restart(centre, self.positions[:n], self.gradients[:n], self.diagonals[:n], low_rank)
        self._since_refresh = 0

    def _learn(self, i: int, position: Coordinates, gradient: Coordinates, resolution: float) -> bool:
        """Turn two successive measurements into history; False if the gradient did not change."""
        step, change = position - self.positions[i], gradient - self.gradients[i]
        longest = max(float(np.linalg.norm(gradient)), float(np.linalg.norm(self.gradients[i])))
        measurable = self._rounding * longest
        length, size = float(np.linalg.norm(step)), float(np.linalg.norm(change))
        if size > measurable and length > resolution:
            self._compare(i, step, change)
        if size > measurable and speaks(step, change, resolution):
            errors = resolution, measurable + size * resolution / length
            self.history.append(i, step, change, errors if Departure.ZERO_CURVATURE in self._departures else (0.0, 0.0))
        return size > measurable

    def _compare(self, i: int, step: Coordinates, change: Coordinates) -> None:
        """Hold a change of gradient against what was foreseen of it."""
        hessian = self.hessian(i)
        self._calibrations[bool(self._inherited[i])].observe(hessian, step, change, float(self._assumed[i]))
        self._skill.observe(change, hessian @ step, self.sums.times(step) / self.count)

    def _fit(self, i: int, gradient: Coordinates, *, changed: bool | None) -> Hessian:
        """The Hessian of one subfunction from its history; without one, from what it was, else from the others'.

        `changed` says whether the gradient is another one than before; None where there is no before.
        """
        pairs = self.history.of(i, self.size)
        if len(pairs.steps):
            # Departure 15: beta, meant as a guess at the unexplored, is corrected half way by what it turned out to be.
            factor = math.sqrt(self._ratio(Departure.SMALLEST_CURVATURE, inherited=False))
            hessian = fit(pairs, update=self._update, smallest_ratio=self._smallest_ratio, factor=factor)
            self._inherited[i], self._assumed[i] = False, hessian.diagonal / factor
            return hessian
        curvature = float(self.diagonals[i])
        if changed is None or curvature == 0.0:
            # Departure 14: what is inherited is corrected by what came of it with the others.
            assumed = self._typical_curvature(i) * self._relative_size(i, gradient)
            factor = self._ratio(Departure.INHERITED_CURVATURE, inherited=True) if assumed else 1.0
            assumed = assumed or self._initial_curvature(gradient)
            self._inherited[i], self._assumed[i] = True, assumed
            curvature = assumed * factor
        elif not changed and Departure.LONGER_STEPS in self._departures:
            # Departure 3: a gradient that does not change asks for longer steps, or nothing would ever be learnt.
            curvature /= 10.0
        return Hessian(curvature, np.empty((0, len(gradient))), np.empty(0))

    def _ratio(self, departure: Departure, *, inherited: bool) -> float:
        """By how much an assumed curvature is corrected, if it is to be."""
        return self._calibrations[inherited].ratio if departure in self._departures else 1.0

    def _typical_curvature(self, i: int) -> float:
        """Median eigenvalue of the average Hessian of the others (appendix C.1); zero where there is none."""
        others = self.count - (i < self.count)
        if others == 0 or self.size == 0:
            return 0.0
        own = self.hessian(i)
        matrix = self.sums.matrix - (own.vectors.T * own.curvatures) @ own.vectors
        eigenvalues = np.linalg.eigvalsh(matrix[: self.size, : self.size])
        return max(float(np.median(eigenvalues)) + self.sums.diagonal - own.diagonal, 0.0) / others

    def _relative_size(self, i: int, gradient: Coordinates) -> float:
        """How many times larger a gradient is than the others' typically are, if it is another order of magnitude."""
        # Departure 11: what has a far larger gradient is taken for a function in a larger unit, curvature and all.
        if Departure.OUTLYING_GRADIENT not in self._departures:
            return 1.0
        others = np.linalg.norm(self.measured_gradients()[np.arange(self.count) != i], axis=1)
        typical = float(np.median(others)) if len(others) else 0.0
        length = float(np.linalg.norm(gradient))
        return length / typical if length > OUTLYING * typical > 0.0 else 1.0

    def _initial_curvature(self, gradient: Coordinates) -> float:
        """The curvature to assume where none is known, as for the first subfunction of all."""
        # Departure 1: the paper's 1e6 supposes a unit; a short first step does not.
        length = float(np.linalg.norm(gradient))
        return self._first_curvature if self._first_curvature is not None else length / self._first_step

    def _exchange(self, i: int, position: Coordinates, gradient: Coordinates, hessian: Hessian) -> None:
        """Replace the term of one subfunction in the running sums."""
        rank = len(hessian.curvatures)
        if i < self.count:
            self.sums.add(self.positions[i], self.gradients[i], self.hessian(i), sign=-1.0)
        self.positions[i] = position
        self.gradients[i] = gradient
        self.diagonals[i] = hessian.diagonal
        self.vectors[i] = 0.0
        self.vectors[i, :rank, : hessian.vectors.shape[1]] = hessian.vectors
        self.curvatures[i, :rank] = hessian.curvatures
        self.curvatures[i, rank:] = 0.0
        self.sums.add(position, gradient, self.hessian(i))
        if i < self.count:
            self.sums.check(self.measured_gradients())
