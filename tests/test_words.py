"""What came, in words: one line, whatever it is."""

from fractions import Fraction

import numpy as np
import pytest

from sumopt.words import described, shown, with_article


class Silent:
    def __repr__(self):
        raise RuntimeError("not now")


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (None, "None"),
        (3.5, "float 3.5"),
        ("abc", "str 'abc'"),
        (np.float64, "the class float64"),
        (object(), "object"),
        (lambda x: x, "function"),
        (Fraction(1, 2), "Fraction(1, 2)"),
        (10**400, "an integer of 1329 bits"),
        (np.zeros((2, 3), np.float32), "ndarray of dtype float32 and shape (2, 3)"),
        (["word"] * 100, "list ['word', 'word', 'word', 'word', 'wor..."),
        ("two\nlines", "str 'two\\nlines'"),
        (Silent(), "Silent"),
    ],
)
def test_anything_is_described_in_a_line(thing, words):
    assert described(thing) == words


def test_long_integers_are_shown_by_their_bits():
    assert shown(10**30) == "1" + 30 * "0"
    assert shown(-(10**5000)) == "an integer of 16610 bits"


@pytest.mark.parametrize(("noun", "both"), [("list", "a list"), ("OrderedDict", "an OrderedDict")])
def test_nouns_have_their_article(noun, both):
    assert with_article(noun) == both
