"""What came instead of what was expected, in the words of an error."""

from __future__ import annotations

from typing import Any

_LONGEST = 40
# Integers of more bits are not written out: Python itself refuses to write very long ones.
_MOST_BITS = 128


def described(thing: Any) -> str:
    """What a thing is: its type, and its dtype and shape, or as much of itself as fits into a line."""
    if thing is None:
        return "None"
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    kind = type(thing).__name__
    # The shape of a class, or of what is shaped in its own way, is no tuple.
    if hasattr(thing, "dtype") and isinstance(getattr(thing, "shape", None), tuple):
        return f"{kind} of dtype {thing.dtype} and shape {tuple(thing.shape)}"
    text = shown(thing)
    if text.startswith("<"):
        # Python's own way to show what it cannot: the type again, and an address.
        return kind
    return text if text.startswith((kind, "an integer")) else f"{kind} {text}".rstrip()


def shown(thing: Any) -> str:
    """A thing as Python shows it, cut to fit into a line; an integer of very many digits by their number in bits."""
    if isinstance(thing, int) and thing.bit_length() > _MOST_BITS:
        return f"an integer of {thing.bit_length()} bits"
    try:
        text = " ".join(repr(thing).split())
    except Exception:  # Whatever a foreign type does wrong must not hide the sentence that is on its way.
        return ""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def with_article(noun: str) -> str:
    """A noun with its article."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
