"""The algorithm of the paper, on flat vectors: NumPy and SciPy only, no printing, no calls of the user's function."""

from sumopt.core.messages import Info, Query
from sumopt.core.optimizer import Optimizer
from sumopt.core.options import Options

__all__ = ["Info", "Optimizer", "Options", "Query"]
