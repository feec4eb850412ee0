"""A laboratory: variants of the optimizer, many problems, several seeds, and a verdict that knows the spread."""
