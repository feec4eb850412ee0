"""Minimize a sum of functions, one function at a time."""

from sumopt._version import __version__
from sumopt.batches import suggest_batches
from sumopt.core import Info
from sumopt.gradient_check import check_gradient
from sumopt.minimize import minimize
from sumopt.result import OptimizeResult
from sumopt.sfo import SFO, Query

__all__ = [
    "SFO",
    "Info",
    "OptimizeResult",
    "Query",
    "__version__",
    "check_gradient",
    "minimize",
    "suggest_batches",
]
