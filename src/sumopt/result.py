"""What a run returns: SciPy's result, which can also draw itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scipy import optimize

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    class _Base(optimize.OptimizeResult[Any]):
        """SciPy's result; its stubs do not say how one is made and filled."""

        def __init__(self, *fields: Any, **more: Any) -> None: ...
        def update(self, **fields: Any) -> None:
            """Set fields."""

else:
    _Base = optimize.OptimizeResult


class OptimizeResult(_Base):
    """What `minimize` found, and how: a `scipy.optimize.OptimizeResult`.

    Attributes
    ----------
    x : pytree
        The best point completed, in the structure of `x0`.
    fun : float
        F there, estimated as n times the mean of the subfunctions' latest values then.
    success : bool
        Whether the run converged.
    status : int
        0 converged, 1 `passes` used up, 2 `max_evaluations` used up, 3 `max_time` used up, 4 stopped by the callback,
        5 interrupted, 6 failed.
    message : str
        The same in words.
    nfev, nit : int
        Evaluations of a subfunction, and accepted steps.
    npasses : float
        nfev over the number of subfunctions.
    active : int
        Subfunctions that took part at the end.
    trace : dict of lists
        One entry per evaluation: pass, index, value, outcome, eta, step_length, active, subspace_size and seconds.
    time_fun, time_optimizer : float
        Seconds spent in `fun`, and in the optimizer.
    """

    def __repr__(self) -> str:
        """As SciPy's, with the trace in a line instead of in full."""
        fields = dict(self)
        if "trace" in fields:
            fields["trace"] = f"{len(fields['trace']['index'])} evaluations: {', '.join(fields['trace'])}"
        return super(OptimizeResult, OptimizeResult(fields)).__repr__()

    def __dir__(self) -> list[str]:
        """Fields, and the method."""
        return [*self.keys(), "plot"]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the convergence: the mean value of the subfunctions against effective passes.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            Where it was drawn.
        """
        from sumopt.plot import plot_trace

        return plot_trace(self["trace"], ax)
