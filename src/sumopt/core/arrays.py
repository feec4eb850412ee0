"""Types of the arrays that the core passes around."""

import numpy as np
from numpy.typing import NDArray

Coordinates = NDArray[np.float64]
"""K-sized vectors and their stacks: small, on the host, always float64."""

Vector = NDArray[np.floating]
"""M-sized vectors: float32 or float64, touched by `Subspace` alone."""
