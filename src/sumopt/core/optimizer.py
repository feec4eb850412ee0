"""The optimizer as two verbs, ask and tell: the parts decide, this assembles them (section 2.2)."""

from __future__ import annotations

import math

import numpy as np

from sumopt.core.acceptance import Stride, is_bad, lengthened, shortened
from sumopt.core.arrays import Coordinates, Vector
from sumopt.core.departures import Departure
from sumopt.core.growth import ActiveSet
from sumopt.core.hessian import UPDATES
from sumopt.core.messages import Info, Query
from sumopt.core.options import Options
from sumopt.core.record import Record
from sumopt.core.subspace import Subspace, rotate
from sumopt.core.surrogate import Surrogate
from sumopt.core.target import TARGETS
from sumopt.core.trial import EXPLOSION, Observation, Place, Trial, Verdict

HUGE = float(np.sqrt(np.finfo(np.float64).max))
"""Numbers beyond this have no square, and count as not finite; those below its inverse count as zero."""


class Optimizer:
    """The Sum of Functions Optimizer on flat vectors.

    Parameters
    ----------
    x0 : ndarray
        Where to start: one-dimensional, float32 or float64, which is then the dtype of the basis and of every position.
    n : int
        Number of subfunctions.
    rng : numpy.random.Generator
        Source of every random choice.
    options : Options
        Choices of the algorithm.
    epsilon : float
        Relative rounding of positions, as they are evaluated, if coarser than that of `x0`.
    """

    def __init__(
        self, x0: Vector, n: int, rng: np.random.Generator, options: Options | None = None, epsilon: float = 0.0
    ) -> None:
        options = Options() if options is None else options
        self.n = n
        self.failure: str | None = None
        self._rng = rng
        self._departures = options.departures
        self._target = TARGETS[options.target]
        self._keep, self._limit = options.subspace_sizes(n)
        # A step that is resolved by two more evaluations adds three directions before there is occasion to collapse.
        self._subspace = Subspace(x0.copy(), self._limit + 3)
        epsilon = max(epsilon, float(np.finfo(x0.dtype).eps))
        self._rounding = 8 * epsilon
        self._farthest = min(HUGE, 0.1 * float(np.finfo(x0.dtype).max))
        self.surrogate = Surrogate(
            n,
            self._subspace.capacity,
            history=options.history,
            update=UPDATES[options.update],
            smallest_ratio=options.smallest_ratio,
            first_step=epsilon ** (1 / 3) * (float(np.linalg.norm(x0.astype(np.float64))) or 1.0),
            first_curvature=options.first_curvature,
            rounding=self._rounding,
            departures=self._departures,
        )
        waits = Departure.GROWTH_WAITS in self._departures
        self._set = ActiveSet(n, options.initially_active, rng, noise=options.noise, waits=waits)
        self.evaluations = 0
        self.eta = 1.0
        self._gain = self._step_length = self._gradient_norm = self._gradient_scale = 0.0
        self._asked = 0
        self._here = self._home = Place(np.zeros(self._subspace.capacity), x0.copy())
        self._trial: Trial | None = None
        self._record, self._next_record = Record(self._home), n
        self._stride = Stride(n, epsilon)
        self._pending: tuple[int, int, Place] | None = None
        self._before: tuple[Vector, float] | None = None

    @property
    def x(self) -> Vector:
        """The best position completed so far."""
        return self._answer()[0].copy()

    @property
    def fun(self) -> float:
        """F at `x`, from the latest value of every subfunction, each measured near there; nan before there is any."""
        return self._answer()[1]

    @property
    def stands_at_best(self) -> bool:
        """Whether `x` is where the optimizer stands, and not a better position that it has passed."""
        return self._answer()[0] is self._home.vector

    @property
    def active(self) -> int:
        """Number of subfunctions that take part."""
        return self._set.size

    @property
    def displacement(self) -> Vector:
        """`x` less the start."""
        return self._answer()[0] - self._subspace.origin

    @property
    def here(self) -> Vector:
        """The last accepted position, the best or not."""
        return self._home.vector.copy()

    @property
    def values(self) -> Coordinates:
        """The latest value of every subfunction; nan for one that was never measured."""
        values = np.empty(self.n)
        values[self._set.order] = self.surrogate.values
        return values

    def ask(self) -> Query:
        """What to evaluate next; the same until it is told."""
        self._check_state()
        if self._pending is None:
            if self._trial is not None:
                slot, place = self._trial.index, self._place(self._trial.point)
            else:
                slot, place = self._choose(), self._here
            self._asked += 1
            self._pending = slot, self._asked, place
        slot, ticket, place = self._pending
        return Query(ticket, int(self._set.order[slot]), place.vector.copy())

    def tell(self, query: Query, value: float, gradient: Vector) -> Info:
        """Take the answer to a query, and move on."""
        slot, place = self._claim(query)
        self._before = self._record.best(self._home, self.surrogate)
        self._pending = None
        self.evaluations += 1
        size = self._subspace.size
        with np.errstate(all="ignore"):
            observation = self._observation(place, value, gradient)
            if self._trial is None:
                outcome = self._judge(slot, place, observation)
            else:
                outcome = self._resolve(self._trial, observation, size)
        self._before = None
        return self._info(int(self._set.order[slot]), value, outcome)

    def replace(self, index: int, keep_history: bool = False) -> None:
        """Say that a subfunction is another one from now on: wanted soon, if active, and not compared with what it was.

        Parameters
        ----------
        index : int
            The subfunction.
        keep_history : bool
            Whether its curvature is still good, as when the noise in it is drawn anew.
        """
        self._check_whole()
        slot = self._set.place_of(index)
        if self.failure is not None:
            # What ended the run may have been the subfunction that is gone now.
            self.failure, self.eta, self._here = None, 1.0, self._home
        if self._trial is not None and self._trial.index == slot:
            self._trial, self._here = None, self._home
        if self._pending is not None and self._pending[0] == slot:
            self._pending = None
        self._set.due[slot] = True
        self._record.forget()
        self._stride.forget()
        self.surrogate.replaced(slot, keep_history=keep_history)

    def _choose(self) -> int:
        """The subfunction to evaluate: one that is due, else the target rule's."""
        surrogate, again = self.surrogate, Departure.FIRST_AGAIN in self._departures
        if again and surrogate.updates == 1 and self._here is not self._home:
            # Departure 2: the assumed curvature of the first is replaced by a measured one before others inherit it.
            return 0
        first = self._set.newcomer(surrogate.count)
        if first is None:
            first = self._set.replaced(surrogate.measured_at[: surrogate.count], surrogate.updates)
        if first is not None:
            return first
        with np.errstate(all="ignore"):
            return self._target(surrogate, self._here.coordinates, self._rng)

    def _observation(self, place: Place, value: float, gradient: Vector) -> Observation | None:
        """An answer in the shared subspace, which it may expand; None if it is not finite, or its square is not."""
        if not (abs(value) < HUGE and self._subspace.length(gradient) < HUGE):
            return None
        coordinates = self._subspace.include(gradient)
        self.surrogate.size = self._subspace.size
        return Observation(place, value, coordinates)

    def _judge(self, slot: int, place: Place, observation: Observation | None) -> str:
        """Settle a good evaluation, open a trial of a bad one."""
        if observation is None:
            trial = self._trial_of(slot, place, None)
            # With no step to take back, the last position has just been tried.
            self._go_on(slot, trial.answer(None) if place is self._home else trial)
            return "not finite"
        if place is not self._home and self._objects(slot, observation):
            self._go_on(slot, self._trial_of(slot, place, observation))
            return "rejected"
        self._settle(slot, (observation,), failed=False)
        return "accepted"

    def _objects(self, slot: int, observation: Observation) -> bool:
        """Whether a subfunction calls the last step bad (appendix C.5)."""
        here = observation.place.coordinates
        if self._set.due[slot]:
            # Departure 5: without an earlier value, the slope at the end of the step says how much it may have risen.
            objects = Departure.FIRST_EVALUATION_OBJECTS in self._departures
            return objects and float(observation.gradient @ (here - self._home.coordinates)) > max(self._gain, 0.0)
        previous, predicted = float(self.surrogate.values[slot]), self.surrogate.value_at(slot, here)
        rounding = self._rounding if Departure.ROUNDING in self._departures else 0.0
        return is_bad(observation.value, previous, predicted, self._gain, rounding)

    def _trial_of(self, slot: int, place: Place, suspect: Observation | None) -> Trial:
        """The trial of a step that ended at a place."""
        gain, change, last = max(self._gain, 0.0), 0.0, None
        if slot < self.surrogate.count:
            last = self.surrogate.positions[slot].copy()
        if not self._set.due[slot]:
            change = abs(self.surrogate.value_at(slot, place.coordinates) - float(self.surrogate.values[slot]))
        return Trial(
            slot,
            self._home.coordinates,
            place.coordinates - self._home.coordinates,
            suspect,
            allowed=gain if self._set.due[slot] else 0.0,
            expected=gain + change,
            last=last,
            keeps=Departure.KEEPS_IMPROVEMENT in self._departures,
            explosion=EXPLOSION if Departure.ABSURD_VALUES in self._departures else math.inf,
        )

    def _resolve(self, trial: Trial, observation: Observation | None, size: int) -> str:
        """Hand the trial what it asked for; a shorter step that was still too long does not stay in the subspace."""
        result = trial.answer(observation)
        if trial.stage == "shorter" and isinstance(result, Trial):
            self._subspace.truncate(size)
            self.surrogate.size = size
        self._go_on(trial.index, result)
        return "not finite" if observation is None else "retry"

    def _go_on(self, slot: int, result: Trial | Verdict) -> None:
        """Go on with a trial, or with what came out of it."""
        if isinstance(result, Trial):
            self._trial = result
            return
        self._trial = None
        if result.observations:
            self._settle(slot, result.observations, failed=result.failed)
        else:
            self.failure = (
                f"subfunction {self._set.order[slot]} was not finite, or its gradient was not, at any point tried "
                f"(what is beyond {HUGE:.0e} counts as infinite); check it there, or start elsewhere"
            )

    def _settle(self, slot: int, observations: tuple[Observation, ...], *, failed: bool) -> None:
        """Learn from observations of one subfunction, stand where the last one was made, and step on."""
        before = float(self.surrogate.values[slot])
        for observation in observations:
            self.surrogate.observe(
                slot,
                observation.place.coordinates,
                observation.value,
                observation.gradient,
                comparable=not self._set.due[slot],
                resolution=self._rounding * self._subspace.length(observation.place.vector),
            )
            self._set.due[slot] = False
        self._home = observations[-1].place
        watched = Departure.WATCHDOG in self._departures and observations[-1].value > before
        if watched and self._record.is_better(self._home, self.surrogate):
            # Departure 17: not this subfunction alone rose, the sum did; the best end of a pass is where we go on.
            self._home, failed = self._record.place, True
            self.eta = min(shortened(self.eta), self._record.returned())
        else:
            self.eta = shortened(self.eta) if failed else lengthened(self.eta, self.n)
        if self.eta < np.finfo(np.float64).eps:
            self.failure = (
                "every step from here was rejected: either this is the minimum to within rounding, or gradients and "
                "values disagree (see check_gradient)"
            )
        if self.evaluations >= self._next_record:
            self._record.keep(self._home, self.surrogate)
            self._next_record += self.n
        self._step(failed=failed)

    def _answer(self) -> tuple[Vector, float]:
        """The best position and F there; what it was before a `tell` that was interrupted."""
        return self._before or self._record.best(self._home, self.surrogate)

    def _step(self, *, failed: bool) -> None:
        """Make room in the subspace, perhaps let one more subfunction in, and go where G is least."""
        home = self._home.coordinates
        if self._subspace.size > self._limit and not self._subspace.full:
            home = self._collapse(home)
        gradient, newton, factor = self.surrogate.newton_step(home)
        self._set.grow(self.surrogate.measured_gradients(), factor, failed=failed)
        step = self.eta * newton
        self._gradient_scale = float(np.linalg.norm(self.surrogate.measured_gradients(), axis=1).sum())
        if Departure.STRIDE in self._departures:
            # Departure 18: where gradients have become rounding, models are flat, and steps would leap.
            step *= self._stride.shortening(float(np.linalg.norm(step)), self._gradient_scale)
        self._gradient_norm = float(np.linalg.norm(gradient))
        self._gain = self.surrogate.predicted_gain(gradient, step)
        self._step_length = float(np.linalg.norm(step))
        self._here = self._place(home + step) if self._step_length > 0.0 else self._home
        if not np.linalg.norm(self._here.coordinates) < self._farthest:
            self.failure = "the position has grown beyond what can be represented; F seems to have no minimum"

    def _collapse(self, home: Coordinates) -> Coordinates:
        """Shrink the subspace to what was measured last, and the best end of a pass; the coordinates of home there."""
        record = self._record.place
        watched = Departure.WATCHDOG in self._departures and record is not self._home
        directions = self.surrogate.spanning(home, record.coordinates if watched else home)
        rotation = self._subspace.collapse(directions, self._keep + watched)
        shrunk = np.stack([home, record.coordinates])
        rotate(shrunk, rotation)
        stands_there = record is self._home
        self._home = Place(shrunk[0], self._home.vector)
        self._record.place = self._home if stands_there else Place(shrunk[1], record.vector)
        self.surrogate.rotate(rotation, shrunk[0])
        return self._home.coordinates

    def _place(self, coordinates: Coordinates) -> Place:
        """A point from its coordinates; home where they are home's."""
        if (coordinates == self._home.coordinates).all():
            return self._home
        return Place(coordinates, self._subspace.position(coordinates))

    def _claim(self, query: Query) -> tuple[int, Place]:
        """The pending evaluation that a query stands for."""
        self._check_state()
        slot, ticket, place = (0, None, self._home) if self._pending is None else self._pending
        if query.ticket != ticket or query.index != self._set.order[slot]:
            raise ValueError(
                f"query {query.ticket} is not pending: it was told before, or its subfunction was replaced; ask() again"
            )
        return slot, place

    def _check_whole(self) -> None:
        """Refuse to go on from half a step."""
        if self._before is not None:
            raise RuntimeError("the optimizer was interrupted within tell(); x is still good, the rest is not")

    def _check_state(self) -> None:
        """Refuse to go on where there is no way on."""
        self._check_whole()
        if self.failure is not None:
            raise RuntimeError(f"the run has ended: {self.failure}")

    def _info(self, index: int, value: float, outcome: str) -> Info:
        """What just happened."""
        return Info(
            evaluation=self.evaluations,
            index=index,
            value=float(value),
            outcome=outcome,
            eta=self.eta,
            step_length=self._step_length,
            predicted_gain=self._gain,
            gradient_norm=self._gradient_norm,
            gradient_scale=self._gradient_scale,
            active=self.active,
            subspace_size=self._subspace.size,
            failure=self.failure,
        )
