"""The way between the user's structure and the flat vector."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from sumopt.structure import Structure, roundoff

Pair = namedtuple("Pair", ["weights", "bias"])

floats = st.floats(-(2.0**15), 2.0**15, width=16)
arrays = hnp.arrays(
    st.sampled_from([np.float16, np.float32, np.float64]), hnp.array_shapes(min_dims=0, max_dims=3), elements=floats
)
leaves = arrays | floats | floats.map(np.float32) | floats.map(np.float64)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, min_size=1, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=6,
)


class Parameters(dict):
    """What optree takes for a leaf."""


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    else:
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
        np.testing.assert_array_equal(one, other)


def arrays_in(tree):
    if isinstance(tree, dict):
        return [array for value in tree.values() for array in arrays_in(value)]
    if isinstance(tree, (list, tuple)):
        return [array for value in tree for array in arrays_in(value)]
    return [tree] if isinstance(tree, np.ndarray) else []


@given(trees)
def test_there_and_back_is_the_same(tree):
    structure = Structure.of(tree)
    assert_same(structure.unflatten(structure.flatten(tree)), tree)


@given(trees)
def test_a_gradient_lies_where_the_parameter_lies(tree):
    structure = Structure.of(tree)
    np.testing.assert_array_equal(structure.flatten_gradient(tree), structure.flatten(tree))


@given(trees)
def test_nothing_shares_memory(tree):
    structure = Structure.of(tree)
    flat, gradient = structure.flatten(tree), structure.flatten_gradient(tree)
    back, again = structure.unflatten(flat), structure.unflatten(flat)
    for one in arrays_in(back):
        for other in [flat, *arrays_in(tree), *arrays_in(again)]:
            assert not np.shares_memory(one, other)
    assert not np.shares_memory(flat, gradient)
    for one in arrays_in(tree):
        assert not np.shares_memory(one, flat)
        assert not np.shares_memory(one, gradient)


@given(trees)
def test_the_work_is_in_single_precision_where_no_leaf_is_wider(tree):
    structure = Structure.of(tree)
    widths = [leaf.dtype.itemsize for leaf in structure._leaves]
    assert structure.flatten(tree).dtype == (np.float32 if max(widths) <= 4 else np.float64)


@pytest.mark.parametrize(
    ("x0", "expected"),
    [
        (3, 3.0),
        (np.arange(3), np.arange(3.0)),
        (np.int8(5), np.float64(5.0)),
        ([1, 2.5], [1.0, 2.5]),
        ({"a": np.ones(2, np.uint64), "b": np.float32(1)}, {"a": np.ones(2), "b": np.float32(1)}),
        (2**70, float(2**70)),
    ],
)
def test_integers_become_floats(x0, expected):
    structure = Structure.of(x0)
    assert structure.dtype == np.float64
    assert_same(structure.unflatten(structure.flatten(x0)), expected)


def test_arrays_need_not_be_contiguous():
    x0 = np.arange(12.0).reshape(3, 4).T[::2]
    structure = Structure.of(x0)
    np.testing.assert_array_equal(structure.flatten(x0), x0.reshape(-1))
    np.testing.assert_array_equal(structure.flatten_gradient(x0), x0.reshape(-1))
    np.testing.assert_array_equal(structure.unflatten(structure.flatten(x0)), x0)


def test_the_order_of_keys_does_not_matter():
    structure = Structure.of({"b": np.ones(2), "a": 0.0})
    np.testing.assert_array_equal(structure.flatten_gradient({"a": 5.0, "b": np.full(2, 7.0)}), [5.0, 7.0, 7.0])
    assert list(structure.unflatten(np.zeros(3))) == ["b", "a"]


def test_none_is_no_leaf_and_stays():
    structure = Structure.of({"weights": np.ones(2), "bias": None})
    assert structure.unflatten(np.ones(2))["bias"] is None


def test_half_precision_may_overflow_without_a_word():
    structure = Structure.of({"a": np.ones(2, np.float16)})
    assert np.isinf(structure.unflatten(np.full(2, 1e30, np.float32))["a"]).all()
    single = Structure.of(np.ones(2, np.float32))
    assert np.isinf(single.flatten_gradient(np.full(2, 1e300))).all()


@pytest.mark.parametrize(
    ("x0", "error", "sentence"),
    [
        (np.array([]), ValueError, "x0 is empty"),
        ({}, ValueError, "x0 is empty"),
        (None, ValueError, "x0 is empty.*None"),
        ([], ValueError, "x0 is empty"),
        ({"a": np.zeros((0, 3))}, ValueError, "x0 is empty"),
        ([1.0, {"b": np.array([1.0, np.nan])}], ValueError, r"x0\[1\]\['b'\] must be finite.*nan"),
        (np.array([np.inf]), ValueError, "x0 must be finite.*inf"),
        (10**400, ValueError, "x0 is an integer too large"),
        ([1.0, -(10**5000)], ValueError, r"x0\[1\] is an integer too large"),
        (np.array([10**400, 1]), TypeError, "x0 must be real numbers.*object.*too large"),
        (np.array([None, 1.0]), TypeError, "x0 must be real numbers.*object"),
        ({"a": np.ones(2, complex)}, TypeError, r"x0\['a'\] must be real numbers.*complex128"),
        (1j, TypeError, "x0 must be real numbers.*complex"),
        (True, TypeError, "x0 must be real numbers.*bool"),
        (np.array([True]), TypeError, "x0 must be real numbers.*bool"),
        ("abc", TypeError, "x0 must be real numbers.*str 'abc'"),
        (["a", 1.0], TypeError, r"x0\[0\] must be real numbers.*str"),
        (np.array(["2020-01-01"], "datetime64[D]"), TypeError, "x0 must be real numbers.*datetime64"),
        (object(), TypeError, "x0 must be real numbers.*got object$"),
        (np.float64, TypeError, "x0 must be real numbers.*got the class float64$"),
        (len, TypeError, "x0 must be real numbers.*got builtin_function_or_method$"),
        ({1.0}, TypeError, r"x0 must be real numbers.*got set \{1.0\}$"),
        (Fraction(1, 2), TypeError, r"x0 must be real numbers.*got Fraction\(1, 2\): pass float\(x0\)$"),
        ({"a": Parameters(b=1.0)}, TypeError, r"got Parameters \{'b': 1.0\} .*: pass dict\(x0\['a'\]\)$"),
        (csr_array(np.eye(2)), TypeError, r"got csr_array of dtype .*: pass x0.toarray\(\)$"),
        (np.ma.masked, ValueError, "x0 must have no masked entries"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), ValueError, r"no masked entries.*: pass x0.filled\(...\)$"),
    ],
)
def test_bad_x0_gets_a_sentence(x0, error, sentence):
    with pytest.raises(error, match=sentence):
        Structure.of(x0).flatten(x0)


@given(trees)
def test_rounded_is_what_the_leaves_hold(tree):
    structure = Structure.of(tree)
    flat = structure.flatten(tree)
    np.testing.assert_array_equal(structure.rounded(flat), flat)
    third = flat + structure.dtype.type(1 / 3)
    np.testing.assert_array_equal(structure.rounded(third), structure.flatten(structure.unflatten(third)))


def test_the_rounding_error_is_that_of_the_coarsest():
    half, single, double = (float(np.finfo(dtype).eps) for dtype in (np.float16, np.float32, np.float64))
    assert Structure.of({"a": np.ones(2), "b": np.float32(1)}).epsilon == single
    assert Structure.of([1, 2.0]).epsilon == double
    assert roundoff((1.0, {"a": np.ones(2, np.float16), "b": np.float32(3)})) == half
    assert roundoff((1.0, np.ones(2))) == double
    assert roundoff((np.ones(2, int), None)) == 0.0


@pytest.mark.skipif(np.finfo(np.longdouble).max <= np.finfo(float).max, reason="no wider type here")
def test_x0_too_large_for_the_working_precision():
    x0 = np.array([np.finfo(np.longdouble).max])
    with pytest.raises(ValueError, match="fit into float64"):
        Structure.of(x0).flatten(x0)


def test_what_numpy_cannot_read_gets_a_sentence():
    class Elsewhere:
        def __array__(self, *args, **kwargs):
            raise RuntimeError("on another device")

    with pytest.raises(TypeError, match=r"x0\['a'\] must be an array or a number.*Elsewhere.*on another device"):
        Structure.of({"a": Elsewhere()})


LAYERS = {"b_h": np.zeros(3), "w": [np.zeros((2, 3)), 1.0]}


@pytest.mark.parametrize(
    ("x0", "gradient", "error", "sentence"),
    [
        (np.zeros(3), np.zeros(4), ValueError, r"gradient must have the shape of x0, \(3,\); got \(4,\)"),
        (np.zeros((2, 3)), np.zeros(6), ValueError, r"gradient must have the shape of x0, \(2, 3\); got \(6,\)"),
        (1.0, np.zeros(1), ValueError, r"gradient must have the shape of x0, \(\); got \(1,\)"),
        (np.zeros(3), np.zeros(3, complex), TypeError, "gradient must be real numbers.*complex128"),
        (np.zeros(3), np.zeros(3, bool), TypeError, "gradient must be real numbers.*bool"),
        (np.zeros(3), np.zeros(3, object), TypeError, "gradient must be real numbers.*object"),
        (np.zeros(3), np.float64, TypeError, "gradient must be real numbers.*got the class float64$"),
        (np.zeros(3), None, ValueError, "gradient must have the structure of x0, an array; got None$"),
        (
            np.zeros(2),
            [0.0, 0.0],
            ValueError,
            r"structure of x0, an array; got a list of 2 leaves: pass numpy.array\(gradient\)$",
        ),
        (np.zeros(2), (np.zeros(2),), ValueError, r"an array; got a tuple of 1 leaf: pass gradient\[0\]$"),
        (np.zeros(2), {"a": np.zeros(2)}, ValueError, "an array; got a dict of 1 leaf$"),
        (0.0, [0.0], ValueError, r"structure of x0, a number; got a list of 1 leaf: pass gradient\[0\]$"),
        (
            {"a": defaultdict(list, b=1.0)},
            {"a": defaultdict(float, b=1.0)},
            ValueError,
            r"at \['a'\]: gradient has a defaultdict of 1 leaf there, of another default_factory than x0's$",
        ),
        (deque([1.0], 2), deque([1.0], 3), ValueError, "gradient has a deque of 1 leaf there, of another maxlen"),
        (
            OrderedDict(a=1.0, b=2.0),
            OrderedDict(b=1.0, a=2.0),
            ValueError,
            "gradient has the same keys there in another order than x0$",
        ),
        ({"a": 1.0}, OrderedDict(a=1.0), ValueError, "gradient has an OrderedDict of 1 leaf there, x0 a dict"),
        (
            LAYERS,
            {"w": [np.zeros((2, 3)), 1.0]},
            ValueError,
            r"gradient has 2 leaves, x0 has 3; first difference at \['b_h'\]: gradient lacks it",
        ),
        (
            LAYERS,
            {**LAYERS, "extra": 1.0},
            ValueError,
            r"gradient has 4 leaves, x0 has 3; first difference at \['extra'\]: x0 lacks it",
        ),
        (
            LAYERS,
            {**LAYERS, "w": (np.zeros((2, 3)), 1.0)},
            ValueError,
            r"must have the structure of x0; first difference at \['w'\]: gradient has a tuple of 2 leaves there, x0",
        ),
        (LAYERS, {**LAYERS, "w": [np.zeros((2, 3)), None]}, ValueError, r"first difference at \['w'\]\[1\]: .*None"),
        (LAYERS, {**LAYERS, "w": [np.zeros((3, 2)), 1.0]}, ValueError, r"gradient\['w'\]\[0\] must have the shape"),
        (LAYERS, {**LAYERS, "w": [np.zeros((2, 3)), 1j]}, TypeError, r"gradient\['w'\]\[1\] must be real.*complex"),
        (LAYERS, np.zeros(10), ValueError, "gradient must have the structure of x0, a dict of 3 leaves; got ndarray"),
        ([1.0, 2.0], np.zeros(2), ValueError, r"pass it as an array: numpy.array\(x0\)"),
        (Pair(1.0, 2.0), Pair(1.0, (2.0,)), ValueError, r"first difference at \.bias: gradient has a tuple of 1 leaf"),
    ],
)
def test_bad_gradient_gets_a_sentence(x0, gradient, error, sentence):
    structure = Structure.of(x0)
    with pytest.raises(error, match=sentence):
        structure.flatten_gradient(gradient)


@pytest.mark.parametrize("gradient", [np.ones(3, int), np.ones(3, np.float16), np.ones(3, np.longdouble)])
def test_real_gradients_of_any_dtype_are_taken(gradient):
    for dtype in (np.float32, np.float64):
        flat = Structure.of(np.zeros(3, dtype)).flatten_gradient(gradient)
        assert flat.dtype == dtype
        np.testing.assert_array_equal(flat, np.ones(3))


def test_a_gradient_need_not_be_finite():
    assert np.isnan(Structure.of(np.zeros(2)).flatten_gradient(np.array([np.nan, np.inf]))).any()


def test_kinds_of_dict_are_told_apart_or_taken_alike():
    # optree decides; whichever it is, values are never mixed up.
    structure = Structure.of(OrderedDict(b=1.0, a=2.0))
    np.testing.assert_array_equal(structure.flatten_gradient(OrderedDict(b=1.0, a=2.0)), [1.0, 2.0])
    with pytest.raises(ValueError, match="gradient"):
        structure.flatten_gradient({"a": 2.0, "b": 1.0})
