"""JSON as people and programs read it, written fast: a row for each of fifty thousand offsets is no rarity."""

import json
from functools import cache

_INDENT = 2


def indented(value: object) -> str:
    """Returns what ``json.dumps(value, indent=2, ensure_ascii=False)`` does.

    That writes each single value in Python. Here a mapping without lists or mappings in it is written by the compiled
    encoder at once, with the line break in place of a separator.

    Args:
        value: of what JSON knows; keys of mappings are texts.
    """
    return _indented(value, 1)


def _indented(value: object, depth: int) -> str:
    if not isinstance(value, dict | list | tuple) or not value:
        return json.dumps(value, ensure_ascii=False)
    pad = "\n" + " " * (_INDENT * depth)
    end = pad[:-_INDENT]
    if isinstance(value, list | tuple):
        return f"[{pad}{(',' + pad).join([_indented(each, depth + 1) for each in value])}{end}]"
    if not any(isinstance(held, dict | list | tuple) for held in value.values()):
        return f"{{{pad}{_encoder(pad).encode(value)[1:-1]}{end}}}"
    items = [f"{json.dumps(key, ensure_ascii=False)}: {_indented(held, depth + 1)}" for key, held in value.items()]
    return f"{{{pad}{(',' + pad).join(items)}{end}}}"


@cache
def _encoder(pad: str) -> json.JSONEncoder:
    """Returns an encoder of flat mappings; there are as many as levels."""
    return json.JSONEncoder(ensure_ascii=False, separators=("," + pad, ": "))
