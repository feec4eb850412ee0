"""What becomes of a step that one subfunction calls bad (appendix C.5)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from sumopt.core.arrays import Coordinates, Vector

EXPLOSION = 10.0
"""A rise of more than this many times what was expected says nothing about the curvature here."""

MOST_SHORTER, MOST_BACK = 8, 4
"""Shorter steps that are tried before the step is given up, and points on the way back before the run is."""


@dataclass(frozen=True)
class Place:
    """A point: its coordinates, and the vector that they stand for."""

    coordinates: Coordinates
    vector: Vector


@dataclass(frozen=True)
class Observation:
    """What was measured of a subfunction, and where."""

    place: Place
    value: float
    gradient: Coordinates


@dataclass(frozen=True)
class Verdict:
    """How a trial ends: what to learn, in this order, standing where the last was measured; nothing if in vain."""

    observations: tuple[Observation, ...]
    failed: bool


@dataclass(frozen=True)
class Trial:
    """A bad step being resolved by further evaluations of the subfunction that objects, each at `point`.

    First at home, the last position: if the value is as high there, it was not the step, and the step is kept. Else we
    go home. A value at the end of the step that was not finite, or exploded, teaches nothing: then shorter steps are
    tried until one does. If not even home has a finite value, the way leads back to where the subfunction last had one.

    Attributes
    ----------
    index : int
        The subfunction.
    home, step : ndarray
        The last position and the step from it.
    suspect : Observation or None
        What was measured at the end of the step; None if it was not finite.
    allowed, expected : float
        A rise above the value at home that is no objection, and the change that the models expected.
    last : ndarray or None
        Where the subfunction was measured last, if it was.
    keeps : bool
        Whether a step is kept that is not what raised the value.
    explosion : float
        A rise of more than this many times what was expected is absurd.
    """

    index: int
    home: Coordinates
    step: Coordinates
    suspect: Observation | None
    allowed: float
    expected: float
    last: Coordinates | None
    keeps: bool = True
    explosion: float = EXPLOSION
    stage: Literal["home", "shorter", "last"] = "home"
    fraction: float = 1.0
    tries: int = 0
    at_home: Observation | None = None

    @property
    def point(self) -> Coordinates:
        """Where to evaluate next."""
        if self.stage == "shorter":
            return self.home + self.fraction * self.step
        if self.stage == "last" and self.last is not None:
            return self.last + self.fraction * (self.home - self.last)
        return self.home

    def answer(self, observation: Observation | None) -> Trial | Verdict:
        """Take what was measured at the point, None if it was not finite; the trial goes on or ends."""
        if self.stage == "home":
            return self._answer_at_home(observation)
        if self.stage == "shorter":
            return self._answer_of_shorter(observation)
        if observation is not None:
            return Verdict((observation,), failed=True)
        return self._farther_back()

    def _answer_at_home(self, observation: Observation | None) -> Trial | Verdict:
        """Compare the end of the step with home."""
        if observation is None:
            return Verdict((self.suspect,), failed=False) if self.suspect is not None else self._farther_back()
        if self.suspect is None:
            return self._shorten(observation, math.inf)
        rise = self.suspect.value - observation.value
        # Departure 6: a step that lowered the objecting subfunction is kept; what raised it came before.
        if rise <= self.allowed and self.keeps:
            return Verdict((observation, self.suspect), failed=False)
        # Departure 7: an absurd value would put an absurd curvature into the history, which freezes the run.
        if not self._is_absurd(rise):
            return Verdict((self.suspect, observation), failed=True)
        return self._shorten(observation, rise)

    def _answer_of_shorter(self, observation: Observation | None) -> Trial | Verdict:
        """Compare a shorter step with home."""
        at_home = self.at_home
        assert at_home is not None
        rise = math.inf if observation is None else observation.value - at_home.value
        if observation is not None and not self._is_absurd(rise):
            ordered = (at_home, observation) if rise <= self.allowed else (observation, at_home)
            return Verdict(ordered, failed=True)
        if self.tries == MOST_SHORTER:
            return Verdict((at_home,), failed=True)
        return self._shorten(at_home, rise)

    def _is_absurd(self, rise: float) -> bool:
        """Whether a rise says nothing about the curvature here."""
        return math.isfinite(self.explosion) and rise > self.explosion * self.expected

    def _shorten(self, at_home: Observation, rise: float) -> Trial:
        """A shorter step, as short as a parabola of this rise says, within bounds."""
        factor = min(max(math.sqrt(max(self.expected, 0.0) / rise), 0.01), 0.5) if math.isfinite(rise) else 0.1
        return replace(self, stage="shorter", at_home=at_home, fraction=self.fraction * factor, tries=self.tries + 1)

    def _farther_back(self) -> Trial | Verdict:
        """A point closer to where the subfunction was measured last, if there is such a place."""
        if self.last is None or (self.last == self.home).all() or self.tries == MOST_BACK:
            return Verdict((), failed=True)
        return replace(self, stage="last", fraction=self.fraction / 4, tries=self.tries + 1)
