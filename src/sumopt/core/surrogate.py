"""G, the sum of a quadratic model of every subfunction (sections 2.1, 2.2 and 2.4), and its Newton step.

Subfunctions stand in the order in which they became active, so that those with a model are the first `count`, and
whatever is done for all of them is one product of arrays. The sums over subfunctions run along: each update replaces
one term. They are held about a centre that moves once a pass, where they are added up afresh, so that neither distance
nor rounding piles up.
"""

from __future__ import annotations

import numpy as np

from sumopt.core.arrays import Coordinates
from sumopt.core.factor import Factor
from sumopt.core.hessian import Hessian, Update, fit
from sumopt.core.history import History, speaks
from sumopt.core.subspace import rotate

OVERWHELMING = 1e6
"""A term so many times larger than the others takes digits of theirs with it when it leaves a sum."""

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
    ) -> None:
        self.count = 0
        self.size = 0
        self.positions = np.zeros((n, capacity))
        self.gradients = np.zeros((n, capacity))
        self.values = np.full(n, np.nan)
        self.moves = np.full(n, np.inf)
        self.measured_at = np.full(n, -1)
        self.history = History(n, history, capacity)
        self.diagonals = np.zeros(n)
        self.vectors = np.zeros((n, 2 * history, capacity))
        self.curvatures = np.zeros((n, 2 * history))
        self._update = update
        self._smallest_ratio = smallest_ratio
        self._first_step = first_step
        self._first_curvature = first_curvature
        self._rounding = rounding
        self.updates = 0
        self._since_refresh = 0
        self._centre = np.zeros(capacity)
        self._centre_gradient = np.zeros(capacity)
        self._diagonal = 0.0
        self._matrix = np.zeros((capacity, capacity))

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
        """What F at a position is hardly above: the higher of value and model, and how much the value moved last."""
        if self.count < len(self.values):
            return np.inf
        away = position - self.positions
        modelled = np.einsum("ij,ij->i", self.gradients, away) + 0.5 * self.own_distances(away)
        return float((self.values + np.maximum(modelled, 0.0) + self.moves).sum())

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
        bent = near @ self._matrix[: self.size, : self.size] + self._diagonal * near
        squared: Coordinates = np.einsum("ij,ij->i", bent, near)
        return squared

    def measured_gradients(self) -> Coordinates:
        """The latest gradient of every subfunction that has one; live."""
        return self.gradients[: self.count, : self.size]

    def gradient_at(self, position: Coordinates) -> Coordinates:
        """Gradient of G at a position."""
        away = position - self._centre
        return self._centre_gradient + self._diagonal * away + self._matrix @ away

    def full_hessian(self) -> Coordinates:
        """H, over the dimensions in use, freshly made."""
        matrix = self._matrix[: self.size, : self.size].copy(order="F")
        matrix[np.diag_indices(self.size)] += self._diagonal
        return matrix

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
        dull = comparable and not self._learn(i, position, gradient, resolution)
        hessian = self._fit(i, gradient, dull=dull)
        self._exchange(i, position, gradient, hessian)
        self.moves[i] = abs(value - self.values[i]) if comparable else np.inf
        self.values[i] = value
        self.count = max(self.count, i + 1)
        self.updates += 1
        self.measured_at[i] = self.updates
        self._since_refresh += 1
        if self._since_refresh >= len(self.values):
            self.refresh(position)

    def forget(self, i: int) -> None:
        """Drop the history of a subfunction; its model stays until it is measured again."""
        self.history.forget(i)

    def newton_step(self, position: Coordinates) -> tuple[Coordinates, Coordinates, Factor]:
        """Gradient of G, the step to its minimum (eq. newton step), and the factor of H that gave it."""
        gradient = self.gradient_at(position)
        factor = Factor(self.full_hessian())
        step = np.zeros_like(gradient)
        if gradient.any():
            step[: self.size] = -factor.solve(gradient[: self.size])
        return gradient, step, factor

    def predicted_gain(self, gradient: Coordinates, step: Coordinates) -> float:
        """G before a step less G after it, for the step as it is taken, shortened or not."""
        bent = self._matrix @ step + self._diagonal * step
        return float(-(gradient @ step) - 0.5 * (step @ bent))

    def spanning(self, position: Coordinates) -> Coordinates:
        """Directions that a collapse keeps (eq. subspace collapse), the latest first; then, given room, the histories.

        Distances from the position, not positions: they span the same, and keep what tells near ones apart.
        """
        # Departure 8: displacements in place of positions, here from the current one and everywhere from x0.
        latest = np.argsort(-self.measured_at[: self.count], kind="stable")
        pairs = np.stack([self.gradients[latest], self.positions[latest] - position], axis=1)
        # Departure 9: room that inactive subfunctions leave goes to the histories, which would lose their pairs.
        return np.concatenate([position[None], pairs.reshape(-1, len(position)), self.history.directions()])

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
        away = centre - self.positions[:n]
        weights = self.curvatures[:n] * np.matmul(self.vectors[:n], away[:, :, None])[:, :, 0]
        bent = np.tensordot(weights, self.vectors[:n], axes=2)
        vectors = self.vectors[:n].reshape(-1, self.vectors.shape[2])
        self._matrix = (vectors * self.curvatures[:n].reshape(-1, 1)).T @ vectors
        self._diagonal = float(self.diagonals[:n].sum())
        self._centre = centre.copy()
        self._centre_gradient = self.gradients[:n].sum(axis=0) + self.diagonals[:n] @ away + bent
        self._since_refresh = 0

    def _learn(self, i: int, position: Coordinates, gradient: Coordinates, resolution: float) -> bool:
        """Turn two successive measurements into history; False if the gradient did not change along a step."""
        step, change = position - self.positions[i], gradient - self.gradients[i]
        longest = max(float(np.linalg.norm(gradient)), float(np.linalg.norm(self.gradients[i])))
        measurable = self._rounding * longest
        length, size = float(np.linalg.norm(step)), float(np.linalg.norm(change))
        if size > measurable and speaks(step, change, resolution):
            self.history.append(i, step, change, measurable + size * resolution / length)
        return size > measurable or length <= resolution

    def _fit(self, i: int, gradient: Coordinates, *, dull: bool) -> Hessian:
        """The Hessian of one subfunction from what is known of it, else from the others'."""
        steps, changes, errors = self.history.of(i)
        if len(steps):
            return fit(
                steps[:, : self.size],
                changes[:, : self.size],
                errors,
                update=self._update,
                smallest_ratio=self._smallest_ratio,
            )
        if dull and self.diagonals[i] > 0.0:
            # Departure 3: a gradient that does not change asks for longer steps, or nothing would ever be learnt.
            curvature = self.diagonals[i] / 10.0
        else:
            curvature = self._typical_curvature(i) * self._relative_size(i, gradient)
            curvature = curvature or self._initial_curvature(gradient)
        return Hessian(float(curvature), np.empty((0, len(gradient))), np.empty(0))

    def _typical_curvature(self, i: int) -> float:
        """Median eigenvalue of the average Hessian of the others (appendix C.1); zero where there is none."""
        others = self.count - (i < self.count)
        if others == 0 or self.size == 0:
            return 0.0
        own = self.hessian(i)
        matrix = self._matrix - (own.vectors.T * own.curvatures) @ own.vectors
        eigenvalues = np.linalg.eigvalsh(matrix[: self.size, : self.size])
        return max(float(np.median(eigenvalues)) + self._diagonal - own.diagonal, 0.0) / others

    def _relative_size(self, i: int, gradient: Coordinates) -> float:
        """How many times larger a gradient is than the others' typically are, if it is another order of magnitude."""
        # Departure 11: what has a far larger gradient is taken for a function in a larger unit, curvature and all.
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
        removed = 0.0
        if i < self.count:
            self._add(i, -1.0)
            removed = float(self.diagonals[i] + self.curvatures[i].max(initial=0.0))
        self.positions[i] = position
        self.gradients[i] = gradient
        self.diagonals[i] = hessian.diagonal
        self.vectors[i] = 0.0
        self.vectors[i, :rank, : hessian.vectors.shape[1]] = hessian.vectors
        self.curvatures[i, :rank] = hessian.curvatures
        self.curvatures[i, rank:] = 0.0
        self._add(i, 1.0)
        if removed > OVERWHELMING * self._diagonal:
            # What is left of the sums may be the rounding of what went; they are due to be added up afresh.
            self._since_refresh = len(self.values)

    def _add(self, i: int, sign: float) -> None:
        """Add a subfunction's term to the running sums, or take it away."""
        hessian = self.hessian(i)
        bent = hessian @ (self._centre - self.positions[i])
        self._centre_gradient += sign * (self.gradients[i] + bent)
        self._diagonal += sign * hessian.diagonal
        self._matrix += (sign * hessian.vectors.T * hessian.curvatures) @ hessian.vectors
