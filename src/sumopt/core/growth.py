"""When one more subfunction becomes active (section 3.4, appendix C.4)."""

from __future__ import annotations

from sumopt.core.arrays import Coordinates
from sumopt.core.factor import Factor


def is_noisy(gradients: Coordinates, factor: Factor, noise: float) -> bool:
    """Whether the mean gradient is lost in its standard error, in the metric of the inverse Hessian (appendix C.4)."""
    count = len(gradients)
    if count < 2:
        return False
    mean = float(factor.squared_lengths(gradients.mean(axis=0, keepdims=True))[0])
    error = float(factor.squared_lengths(gradients).sum()) / ((count - 1) * count)
    return mean < noise * error
