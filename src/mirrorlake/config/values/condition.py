"""Reads which records are copied."""

from mirrorlake.config.expansion import ExpandedText
from mirrorlake.config.reading import found, read_text, refuse
from mirrorlake.errors import UnsupportedError
from mirrorlake.filters.condition import Filter
from mirrorlake.filters.parsing import parse_filter


def read_condition(value: object) -> Filter:
    """Reads a condition in Spark SQL."""
    text = read_text(value)
    try:
        return parse_filter(text)
    except UnsupportedError as error:
        # What stands in a variable is not repeated.
        why = "" if isinstance(value, ExpandedText) else f": {error.message}"
        refuse(f"{found(value)} cannot be a filter{why}", error.hint)
