"""Between what the user holds, any nesting of arrays and scalars, and the one flat vector that the core works on."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import optree
from numpy.typing import NDArray

from sumopt.words import described, with_article

Vector = NDArray[np.floating[Any]]

# Where leaves come from, and so what they are given back as.
ARRAY: Final = "array"
NUMPY_SCALAR: Final = "numpy scalar"
PYTHON_SCALAR: Final = "python scalar"


# What may differ between containers of the same type and with the same entries.
_FURTHER: dict[Any, str] = {defaultdict: "default_factory", deque: "maxlen"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array or scalar of a structure: what it is, and where it lies in the flat vector."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    kind: str
    start: int
    stop: int

    def restore(self, flat: Vector) -> Any:
        """This leaf, freshly made from the flat vector."""
        piece = flat[self.start : self.stop]
        if self.kind == PYTHON_SCALAR:
            return float(piece[0])
        with np.errstate(all="ignore"):
            array = piece.reshape(self.shape).astype(self.dtype, copy=True)
        return array[()] if self.kind == NUMPY_SCALAR else array


def roundoff(numbers: Any) -> float:
    """The relative rounding error of the coarsest floating-point number in a nesting; zero where there is none."""
    dtypes = [np.asarray(leaf).dtype for leaf in optree.tree_leaves(numbers)]
    return max((float(np.finfo(dtype).eps) for dtype in dtypes if dtype.kind == "f"), default=0.0)


class Structure:
    """How a nesting of arrays and scalars lies in one flat vector.

    Made by `Structure.of`. `dtype` is that of the flat vector: float32 where no leaf is wider, otherwise float64.
    """

    def __init__(self, spec: optree.PyTreeSpec, leaves: list[Leaf], name: str) -> None:
        self._spec = spec
        self._leaves = leaves
        self._name = name
        self.size = leaves[-1].stop
        narrow = all(leaf.dtype.itemsize <= 4 for leaf in leaves)
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if narrow else np.float64)
        # The common case, one array, is in the hot path and takes a short cut.
        alone = leaves[0] if spec.is_leaf() and leaves[0].kind == ARRAY else None
        self._shape = None if alone is None else alone.shape
        self._as_is = alone is not None and alone.dtype == self.dtype

    @classmethod
    def of(cls, x0: Any, name: str = "x0") -> Structure:
        """The structure of `x0`, after checking that it can be optimized."""
        raw, spec = optree.tree_flatten(x0)
        leaves: list[Leaf] = []
        stop = 0
        for path, leaf in zip(_paths(x0), raw, strict=True):
            if hasattr(leaf, "__dlpack__") and not isinstance(leaf, (np.ndarray, np.generic)):
                # It would come to the user's function as an array of NumPy's.
                raise TypeError(
                    f"{name}{path} must be a NumPy array or a number; got {described(leaf)}: "
                    f"pass numpy.asarray({name}{path}), and make of positions what is needed"
                )
            array = _number_array(leaf, name + path)
            start, stop = stop, stop + array.size
            leaves.append(Leaf(path, array.shape, array.dtype, _kind(leaf), start, stop))
        if stop == 0:
            raise ValueError(f"{name} is empty: expected at least one number, got {described(x0)}")
        return cls(spec, leaves, name)

    @property
    def epsilon(self) -> float:
        """The relative rounding error of the coarsest leaf, or of the flat vector if that is coarser."""
        return max(float(np.finfo(dtype).eps) for dtype in (self.dtype, *(leaf.dtype for leaf in self._leaves)))

    @property
    def scalars_only(self) -> bool:
        """Whether there is no array in it, as in a list of Python numbers."""
        return not self._spec.is_leaf() and all(leaf.kind != ARRAY for leaf in self._leaves)

    @property
    def slices(self) -> dict[str, slice]:
        """Where each leaf lies in the flat vector, by its path."""
        return {leaf.path: slice(leaf.start, leaf.stop) for leaf in self._leaves}

    def flatten(self, x: Any, name: str = "x0") -> Vector:
        """A fresh flat vector of finite numbers from `x`, which has this structure."""
        flat = self._flatten(x, name)
        if not np.isfinite(flat).all():
            where = int(np.flatnonzero(~np.isfinite(flat))[0])
            path = next(leaf.path for leaf in self._leaves if leaf.start <= where < leaf.stop)
            raise ValueError(f"{name}{path} must be finite, and fit into {self.dtype}; got {flat[where]}")
        return flat

    def flatten_gradient(self, gradient: Any) -> Vector:
        """A fresh flat vector from a gradient, which must have the structure and shapes of `x0`."""
        if self._shape is not None and type(gradient) is np.ndarray and gradient.shape == self._shape:
            if gradient.dtype is self.dtype:
                return gradient.flatten()
            if gradient.dtype.kind in "fiu":
                with np.errstate(all="ignore"):
                    return np.asarray(gradient, self.dtype).flatten()
        return self._flatten(gradient, "gradient")

    def unflatten(self, flat: Vector) -> Any:
        """What the user holds, freshly made from the flat vector."""
        if self._as_is and self._shape is not None:
            return flat.copy().reshape(self._shape)
        return self._spec.unflatten([leaf.restore(flat) for leaf in self._leaves])

    def rounded(self, flat: Vector) -> Vector:
        """A flat vector as the leaves hold it: each in its own precision."""
        return self.flatten_gradient(self.unflatten(flat))

    def _flatten(self, tree: Any, name: str) -> Vector:
        """A fresh flat vector from `tree`, or a sentence on how it differs from this structure."""
        raw, spec = optree.tree_flatten(tree)
        if spec != self._spec:
            raise ValueError(self._difference(tree, raw, spec, name))
        flat = np.empty(self.size, self.dtype)
        for leaf, value in zip(self._leaves, raw, strict=True):
            array = _number_array(value, name + leaf.path)
            if array.shape != leaf.shape:
                raise ValueError(
                    f"{name}{leaf.path} must have the shape of {self._name}{leaf.path}, {leaf.shape}; got {array.shape}"
                )
            with np.errstate(all="ignore"):
                flat[leaf.start : leaf.stop] = array.reshape(-1)
        return flat

    def _difference(self, tree: Any, leaves: list[Any], spec: optree.PyTreeSpec, name: str) -> str:
        """How a tree differs from this structure, in a sentence."""
        must = f"{name} must have the structure of {self._name}"
        if self._spec.is_leaf():
            wanted = "an array" if self._leaves[0].kind == ARRAY else "a number"
            return f"{must}, {wanted}; got {_container(spec)}{_remedy(name, leaves, spec, self._leaves[0].kind)}"
        if spec.is_leaf():
            sentence = f"{must}, {_container(self._spec)}; got {described(tree)}"
            if self.scalars_only and isinstance(tree, np.ndarray):
                own = self._name
                sentence += f" (is {own} meant as one vector? then pass it as an array: numpy.array({own}))"
            return sentence
        path, difference = _first_difference(self._spec, spec, name, self._name)
        if len(leaves) != len(self._leaves):
            must = f"{name} has {_leaves(len(leaves))}, {self._name} has {len(self._leaves)}"
        return f"{must}; first difference at {path or 'the top'}: {difference}"


def _number_array(leaf: Any, name: str) -> NDArray[Any]:
    """A leaf as an array of finite-precision real numbers, integers as float64; or a sentence why not."""
    if type(leaf) is int:
        try:
            return np.asarray(float(leaf))
        except OverflowError:
            raise ValueError(f"{name} is an integer too large for a float, of {leaf.bit_length()} bits") from None
    if isinstance(leaf, np.ma.MaskedArray) and np.ma.is_masked(leaf):
        raise ValueError(f"{name} must have no masked entries; got {described(leaf)}: pass {name}.filled(...)")
    try:
        array = np.asarray(leaf)
    except Exception as error:
        raise TypeError(f"{name} must be an array or a number; numpy cannot read {described(leaf)}: {error}") from error
    if array.dtype.kind in "iu":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        hint = _hint(leaf, name) if array.dtype.kind == "O" else ""
        raise TypeError(f"{name} must be real numbers, floats or integers; got {described(leaf)}{hint}")
    return array


def _hint(leaf: Any, name: str) -> str:
    """What may be done about a leaf that numpy takes for an object."""
    if isinstance(leaf, (np.ndarray, list)):
        return " (integers too large for numpy, or rows of different lengths?)"
    if isinstance(leaf, type):
        return ""
    if isinstance(leaf, dict):
        return f" (only dict, OrderedDict and defaultdict are taken apart): pass dict({name})"
    if hasattr(leaf, "toarray"):
        return f": pass {name}.toarray()"
    return f": pass float({name})" if hasattr(leaf, "__float__") else ""


def _kind(leaf: Any) -> str:
    """What a leaf is given back as."""
    if type(leaf) in (int, float):
        return PYTHON_SCALAR
    return NUMPY_SCALAR if isinstance(leaf, np.generic) else ARRAY


def _paths(tree: Any) -> list[str]:
    """Where each leaf is, as it is written in Python: ['layers'][0]."""
    return [accessor.codify("") for accessor in optree.tree_accessors(tree)]


def _first_difference(expected: optree.PyTreeSpec, got: optree.PyTreeSpec, name: str, other: str) -> tuple[str, str]:
    """Where two different structures first differ, and how."""
    if expected.type is not got.type:
        return "", f"{name} has {_container(got)} there, {other} {_container(expected)}"
    entries, got_entries = expected.entries(), got.entries()
    for entry in entries:
        if entry not in got_entries:
            return f"[{entry!r}]", f"{name} lacks it"
    for entry in got_entries:
        if entry not in entries:
            return f"[{entry!r}]", f"{other} lacks it"
    if entries != got_entries:
        return "", f"{name} has the same keys there in another order than {other}"
    for entry, child, got_child in zip(entries, expected.children(), got.children(), strict=True):
        if child != got_child:
            path, difference = _first_difference(child, got_child, name, other)
            fields = getattr(expected.type, "_fields", None)
            return (f".{fields[entry]}" if fields else f"[{entry!r}]") + path, difference
    differs = _FURTHER.get(expected.type, "kind")
    return "", f"{name} has {_container(got)} there, of another {differs} than {other}'s"


def _remedy(name: str, leaves: list[Any], spec: optree.PyTreeSpec, kind: str) -> str:
    """What to do with a list that came instead of an array or a number."""
    if spec.type not in (list, tuple) or not leaves:
        return ""
    scalars = all(np.isscalar(leaf) for leaf in leaves)
    if kind == ARRAY and scalars:
        return f": pass numpy.array({name})"
    return f": pass {name}[0]" if spec.num_children == 1 and scalars == (kind != ARRAY) else ""


def _container(spec: optree.PyTreeSpec) -> str:
    """What a node of a structure is, with its article."""
    if spec.is_leaf():
        return "an array or number"
    if spec.type is type(None):
        return "None"
    return f"{with_article(getattr(spec.type, '__name__', str(spec.type)))} of {_leaves(spec.num_leaves)}"


def _leaves(number: int) -> str:
    """A number of leaves, in words."""
    return "1 leaf" if number == 1 else f"{number} leaves"
