"""SFO written naively in the full space, straight from the paper's formulas: slow, dense, obviously right.

Every H_i is an M x M matrix and every sum over subfunctions is a loop. The letters are the paper's: position x, step s,
gradient change y, gradient g, Hessian H. The labels cited are those of the LaTeX source. What the paper leaves open
follows the project's decisions.
"""

from collections import Counter

import numpy as np
from numpy.linalg import eigh, eigvalsh, norm, solve, svd

EPS = np.finfo(float).eps


def pseudoinverse(S, blurs):
    """S^+, but for directions along which the steps, columns of S, are parallel, or known no better than by a blur."""
    U, spans, V = svd(S, full_matrices=False)
    used = [k for k in range(len(spans)) if k == 0 or spans[k] > max(np.sqrt(EPS) * spans[0], norm(blurs * V[k]))]
    return sum(np.outer(V[k], U[:, k]) / spans[k] for k in used)


def q_eigenvalues(Y, inverse, errors):
    """Eigenvalues of Q = [S^+' Y'Y S^+]^(1/2), the singular values of Y S^+ (eq. "eq Q"), and errors of Y in each."""
    _, q, V = svd(Y @ inverse, full_matrices=False)
    return q, np.array([norm(errors * (inverse @ v)) for v in V])


def bfgs(B, s, y):
    """One column of eq. "eq bfgs"."""
    vanishes = abs(s @ B @ s) <= 1e-12 * norm(s) * norm(B @ s)
    return B if vanishes else B + np.outer(y, y) / (y @ s) - np.outer(B @ s, B @ s) / (s @ B @ s)


def rank_one(B, s, y):
    """One column of the symmetric rank one update (footnote of "sec online hessian")."""
    r = y - B @ s
    if abs(r @ s) <= 1e-8 * norm(r) * norm(s):
        return B
    return B + np.outer(r, r) / (r @ s)


def smallest_angle(pairs, beta):
    """Return the smallest cosine between a step and what the Hessian before it lacked, where it was not skipped."""
    B, angles = beta * np.eye(len(pairs[0][0])), [1.0]
    for s, y, *_ in pairs:
        r = y - B @ s
        if abs(r @ s) > 1e-8 * norm(r) * norm(s):
            angles.append(abs(r @ s) / (norm(r) * norm(s)))
        B = rank_one(B, s, y)
    return min(angles)


def secant_hessian(pairs, update, smallest_ratio, factor=1.0):
    """Return B after all pairs, oldest first, started from beta I ("app bfgs init"), beta, and the eigenvalues of Q.

    A pair is a step, a change of gradient, and how much of each may be rounding (of the latter, it makes zeros of Q
    nonzero).
    """
    S, Y = np.array([pair[0] for pair in pairs]).T, np.array([pair[1] for pair in pairs]).T
    inverse = pseudoinverse(S, np.array([pair[2] for pair in pairs]))
    q, zeros = q_eigenvalues(Y, inverse, np.array([pair[3] for pair in pairs]))
    nonzero = q[q > np.maximum(smallest_ratio * q.max(), zeros)]
    beta = factor * (nonzero.min() if nonzero.size else q.max())
    B = beta * np.eye(len(S))
    for s, y, *_ in pairs:
        B = update(B, s, y)
    return B, beta, q


def positive_definite(B, smallest_ratio, fallback):
    """Set eigenvalues below gamma lambda_max to the median positive one ("app pos def")."""
    values, vectors = eigh(B)
    if values.max() <= 0:
        return fallback * np.eye(len(B))
    fixed = np.where(values < smallest_ratio * values.max(), np.median(values[values > 0]), values)
    return vectors @ np.diag(fixed) @ vectors.T


class MeanRatio:
    """A mean of ratios that forgets: departures 14 and 15, found over assumed; departure 16, a regression."""

    def __init__(self, n, start):
        self.above = self.below = start
        self.keep = 1 - 1 / max(n, 5)

    def add(self, above, below):
        """One more observation."""
        self.above, self.below = self.keep * self.above + above, self.keep * self.below + below


def is_finite(value, gradient):
    """Whether an evaluation gave numbers."""
    return bool(np.isfinite(value) and np.all(np.isfinite(gradient)))


class Oracle:
    """The whole algorithm; `events` counts what happened, so that tests can tell that they tested it."""

    def __init__(
        self, x0, n, rng, history=10, update="bfgs", target="distance", initially_active=2, noise=1.0,
        smallest_ratio=1e-8, initial_curvature=None, without=()
    ):  # fmt: skip
        self.eps = np.finfo(x0.dtype).eps
        self.x0 = self.x = self.home = np.array(x0, float)
        self.n, self.rng, self.history, self.noise = n, rng, history, noise
        self.update = {"bfgs": bfgs, "rank-one": rank_one}[update]
        self.target, self.smallest_ratio, self.initial_curvature = target, smallest_ratio, initial_curvature
        self.order = [int(i) for i in rng.permutation(n)]
        self.active_count = min(initially_active, n)
        self.eta, self.gain, self.counter, self.clock = 1.0, 0.0, 0, 0
        self.last_x, self.f, self.g, self.H, self.when = ([None] * n for _ in range(5))
        self.pairs = [()] * n
        self.without, self.beta, self.assumed, self.inherits = without, [0.0] * n, [0.0] * n, [True] * n
        self.found = {inherits: MeanRatio(n, 1.0) for inherits in (True, False)}
        self.skill = MeanRatio(n, 0.01)
        self.outcome, self.failed, self.events, self.margin = None, False, Counter(), np.inf
        self.process = self.run()
        self.query = next(self.process)

    def ask(self):
        """Return (index, position): which subfunction to evaluate, and where."""
        return self.query

    def tell(self, value, gradient, position=None):
        """Take an evaluation; a position lets another run lead (it says where that run evaluated)."""
        position = self.query[1] if position is None else np.array(position, float)
        self.margin = np.inf
        self.query = self.process.send((position, value, np.array(gradient, float)))

    def run(self):
        """Repeat the two steps of "sec update"; yields queries, is sent (position, value, gradient)."""
        while True:
            bad = yield from self.update_subfunction(self.choose())
            if self.failed:
                yield None
            self.grow(bad)
            self.newton_step()

    @property
    def active(self):
        """The active subfunctions, in the order in which they became active."""
        return self.order[: self.active_count]

    def measured(self):
        """The active subfunctions that have a model."""
        return [i for i in self.active if self.last_x[i] is not None]

    def model_value(self, i, x):
        """g_i(x), eq. "eq subf upd"."""
        s = x - self.last_x[i]
        return self.f[i] + s @ self.g[i] + s @ self.H[i] @ s / 2

    def model_gradient(self, i, x):
        """The gradient of g_i at x, eq. "eq subf upd"."""
        return self.g[i] + self.H[i] @ (x - self.last_x[i])

    def total_hessian(self):
        """H = sum of the H_i (below eq. "eq subf upd")."""
        return sum(self.H[i] for i in self.measured())

    def total_gradient(self, x):
        """The gradient of G, eq. "eq approximating functions"; departure 16: in part by the mean Hessian."""
        active = self.measured()
        own = sum(self.model_gradient(i, x) for i in active)
        if 16 in self.without:
            return own
        mean = sum(self.g[i] + self.total_hessian() @ (x - self.last_x[i]) / len(active) for i in active)
        weight = np.clip(self.skill.above / self.skill.below, 0.0, 1.0)
        return weight * own + (1 - weight) * mean

    def newton_step(self):
        """Step from x, eq. "eq newton step"; remember what the step should gain."""
        gradient, H = self.total_gradient(self.x), self.total_hessian()
        s = -self.eta * solve(H, gradient) if gradient.any() else np.zeros_like(self.x)
        self.gain = -gradient @ s - s @ H @ s / 2
        self.x = self.x + s

    def choose(self):
        """An active subfunction never measured, else by the target rule, eq. "eq subf choose"; the very first twice."""
        if self.clock == 1 and not np.array_equal(self.x, self.home):
            return self.order[0]
        unmeasured = [i for i in self.active if self.last_x[i] is None]
        if unmeasured:
            return unmeasured[0]
        if self.target == "random":
            return self.order[self.rng.integers(self.active_count)]
        oldest_first = sorted(self.active, key=lambda i: self.when[i])
        if self.target == "cyclic":
            return oldest_first[0]
        own, H = self.rng.random() < 0.5, self.total_hessian()
        away = {i: self.x - self.last_x[i] for i in self.active}
        return max(oldest_first, key=lambda i: away[i] @ (self.H[i] if own else H) @ away[i])

    def update_subfunction(self, j):
        """Evaluate j at x and update g_j, unless the step was bad ("app bad up"). Return whether the update failed."""
        self.x, value, gradient = yield j, self.x
        finite = is_finite(value, gradient)
        if finite and not self.objects(j, value, gradient):
            self.outcome = "accepted"
            return self.settle(j, "accepted", False, (self.x, value, gradient))
        self.outcome = "rejected" if finite else "not finite"
        self.events[self.outcome] += 1
        if np.array_equal(self.x, self.home):
            return (yield from self.go_farther_back(j))
        return (yield from self.try_step(j, (self.x, value if finite else np.inf, gradient)))

    def objects(self, j, value, gradient):
        """Whether f_j rose, and exceeds its model by more than G was to gain; never measured: whether it slopes up."""
        if np.array_equal(self.x, self.home):
            return False
        if self.last_x[j] is None:
            step = self.x - self.home
            return self.is_positive(gradient @ step - max(self.gain, 0.0), norm(gradient) * norm(step))
        scale = max(abs(value), abs(self.f[j]))
        slack = 8 * self.eps * scale
        rose = self.is_positive(value - self.f[j] - slack, scale)
        scale += norm(self.g[j]) * norm(self.x)
        return self.is_positive(value - self.model_value(j, self.x) - self.gain - slack, scale) and rose

    def is_positive(self, difference, scale):
        """Whether a difference is positive; remembers how close the decision was, next to what was subtracted."""
        if np.isfinite(difference):
            self.margin = min(self.margin, abs(difference) / scale if scale else 0.0)
        return bool(difference > 0)

    def try_step(self, j, at_x):
        """Evaluate j at home and compare: keep x, go home, or, if the value at x is absurd, try shorter steps."""
        first, gain, value = self.last_x[j] is None, max(self.gain, 0.0), at_x[1]
        allowed = gain if first else 0.0
        expected = gain if first else gain + abs(self.model_value(j, self.x) - self.f[j])
        self.events["first objects"] += int(first and np.isfinite(value))
        self.home, *answer = at_home = yield j, self.home
        if not is_finite(*answer):
            self.outcome = "not finite"
            if np.isfinite(value):
                return self.settle(j, "keep, home not finite", False, at_x)
            return (yield from self.go_farther_back(j))
        self.outcome = "retry"
        rise, scale = value - at_home[1], max(abs(value), abs(at_home[1]))
        if not self.is_positive(rise - allowed, scale):
            return self.settle(j, "keep", False, at_home, at_x)
        if not self.is_positive(rise - 10 * expected, scale):
            return self.settle(j, "go home", True, at_x, at_home)
        return (yield from self.try_shorter(j, self.x - self.home, rise, at_home, allowed, expected))

    def try_shorter(self, j, step, rise, at_home, allowed, expected):
        """Evaluate j at up to eight ever shorter steps from home, until the rise of f_j is credible."""
        fraction = 1.0
        for _ in range(8):
            fraction *= np.clip(np.sqrt(expected / rise), 0.01, 0.5) if np.isfinite(rise) else 0.1
            _, *answer = at_point = yield j, self.home + fraction * step
            self.events["shorter"] += 1
            self.outcome = "retry" if is_finite(*answer) else "not finite"
            rise = answer[0] - at_home[1] if is_finite(*answer) else np.inf
            scale = max(abs(answer[0]), abs(at_home[1]))
            if self.is_positive(rise - 10 * expected, scale):
                continue
            if self.is_positive(rise - allowed, scale):
                return self.settle(j, "shorter, go home", True, at_point, at_home)
            return self.settle(j, "shorter, keep", True, at_home, at_point)
        return self.settle(j, "shorter, give up", True, at_home)

    def go_farther_back(self, j):
        """Evaluate j ever closer to where it was last measured, until it is finite."""
        last = self.last_x[j]
        if last is not None and not np.array_equal(last, self.home):
            for fraction in (1 / 4, 1 / 16, 1 / 64, 1 / 256):
                _, *answer = at_point = yield j, last + fraction * (self.home - last)
                self.outcome = "retry" if is_finite(*answer) else "not finite"
                if is_finite(*answer):
                    return self.settle(j, "farther back", True, at_point)
        self.failed = True
        return True

    def settle(self, j, event, failed, *observations):
        """Learn from observations in this order and stand where the last was made; eq. "eq eta update"."""
        self.events[event] += 1
        for observation in observations:
            self.observe(j, *observation)
        self.x = self.home = observations[-1][0]
        self.eta = self.eta / 2 if failed else 1 / self.n + (self.n - 1) / self.n * self.eta
        return failed

    def observe(self, j, x, value, gradient):
        """Update g_j, eq. "eq subf upd": the history matrices, value, gradient and H_j."""
        first, unmeasurable = self.last_x[j] is None, False
        if not first:
            s, y = x - self.last_x[j], gradient - self.g[j]
            resolution, smallest = 8 * self.eps * norm(x), 8 * self.eps * max(norm(gradient), norm(self.g[j]))
            if norm(y) > smallest and norm(s) > resolution:
                self.calibrate(j, s, y)
            unmeasurable = norm(y) <= smallest
            if norm(y) > smallest and abs(s @ y) > max(1e-12 * norm(s), resolution) * norm(y):
                error = smallest + norm(y) * resolution / norm(s)
                self.pairs[j] = [*self.pairs[j], (s, y, resolution, error)][-self.history :]
        self.last_x[j], self.f[j], self.g[j], self.when[j] = x, value, gradient, self.clock
        self.clock += 1
        if self.pairs[j]:
            self.H[j] = self.fit(j)
        elif not first and self.H[j].any():
            self.events["unmeasurable" if unmeasurable else "nothing learnt"] += 1
            self.H[j], self.beta[j] = (part / (10 if unmeasurable else 1) for part in (self.H[j], self.beta[j]))
        else:
            self.events["no history"] += 1
            self.beta[j] = self.curvature_without_history(j)
            self.H[j] = self.beta[j] * np.eye(len(x))

    def calibrate(self, j, s, y):
        """Departures 14 to 16: hold what was assumed of f_j, and what both Hessians foresaw, against what is found."""
        own, mean, beta = self.H[j] @ s, self.total_hessian() @ s / len(self.measured()), self.beta[j]
        size = y @ y + own @ own + mean @ mean
        if size > 0:
            self.skill.add((y - mean) @ (own - mean) / size, (own - mean) @ (own - mean) / size)
        if self.assumed[j] > 0 and beta > 0:
            values, vectors = eigh(self.H[j] - beta * np.eye(len(s)))
            beyond = s - vectors @ (np.minimum(abs(values) / (0.01 * beta), 1.0) * (vectors.T @ s))
            if beyond @ beyond > 0 and s @ own > 0:
                weight = min(beta * (beyond @ beyond) / (s @ own), 1.0)
                found = np.clip(beyond @ y / (self.assumed[j] * (beyond @ beyond)), 0.0, 1.0)
                self.found[self.inherits[j]].add(weight * found, weight)

    def ratio(self, inherits, departure):
        """By what an assumed curvature is to be multiplied."""
        return 1.0 if departure in self.without else max(self.found[inherits].above / self.found[inherits].below, 0.01)

    def fit(self, j):
        """H_j from its history: "sec bfgs updates", "app bfgs init", "app pos def"."""
        factor = np.sqrt(self.ratio(False, 15))
        B, beta, q = secant_hessian(self.pairs[j], self.update, self.smallest_ratio, factor)
        values = eigvalsh(B) / abs(eigvalsh(B)).max()
        self.events["negative curvature"] += bool(values.min() < 0 < values.max())
        # Whether a zero comes out positive, and so counts in the median, is decided by the rounding of a whole update.
        self.margin = min(self.margin, 1e-4 * abs(values).min())
        # A rank one update divides by what may be next to nothing, and leaves that many digits fewer.
        self.margin = min(self.margin, 1e-9 * smallest_angle(self.pairs[j], beta) if self.update is rank_one else 1.0)
        if beta < self.smallest_ratio * eigvalsh(B).max():
            beta = np.median(eigvalsh(B)[eigvalsh(B) > 0])
        self.inherits[j], self.assumed[j], self.beta[j] = False, beta / factor, beta
        return positive_definite(B, self.smallest_ratio, fallback=q.max())

    def curvature_without_history(self, j):
        """The median eigenvalue of the average Hessian of the others ("No History")."""
        self.inherits[j] = True
        others = [self.H[i] for i in self.measured() if i != j]
        if any(H.any() for H in others):
            typical = np.median([norm(self.g[i]) for i in self.measured() if i != j])
            outlying = bool(norm(self.g[j]) > 10 * typical > 0)
            self.events["outlying"] += outlying
            median = np.median(eigvalsh(sum(others) / len(others)))
            self.assumed[j] = median * (norm(self.g[j]) / typical if outlying else 1)
            return self.assumed[j] * self.ratio(True, 14)
        self.assumed[j] = norm(self.g[j]) / (self.eps ** (1 / 3) * (norm(self.x0) or 1.0))
        if self.initial_curvature is not None:
            self.assumed[j] = self.initial_curvature
        return self.assumed[j]

    def grow(self, bad):
        """Let one more in when gradients are noise, after a bad update or after a full pass ("app grow active")."""
        self.counter += 1
        if self.active_count == self.n or len(self.measured()) < self.active_count:
            return
        noisy, passed = self.is_noisy(), self.counter >= self.active_count
        if bad or noisy or passed:
            self.events["grew: " + ("bad update" if bad else "inequality" if noisy else "full pass")] += 1
            self.active_count += 1
            self.counter = 0

    def is_noisy(self):
        """Whether the average gradient is within alpha standard errors of zero, in H^-1 ("app grow active")."""
        count, H = self.active_count, self.total_hessian()
        if count == 1 or not H.any():
            return False
        mean = sum(self.g[i] for i in self.active) / count
        squares = sum(self.g[i] @ solve(H, self.g[i]) for i in self.active)
        return bool(mean @ solve(H, mean) < self.noise * squares / ((count - 1) * count))
