"""Values as JSON has them. Pure; imports no Spark."""

import base64
import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any


def plain(value: Any) -> Any:
    """Returns a value as JSON has it: bytes as base64, times as ISO 8601, decimals and NaN as text, rows as objects."""
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
        case None | bool() | int() | str():
            return value
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case dict():
            # Loops: a comprehension is a call of its own, and values may be nested half as deep as calls.
            found = {}
            for key, each in value.items():
                found[_key(key)] = plain(each)
            return found
        case _ if hasattr(value, "asDict"):
            return {key: plain(each) for key, each in value.asDict().items()}
        case list() | tuple():
            items = []
            for each in value:
                items.append(plain(each))
            return items
    return str(value)


def _key(value: Any) -> str:
    found = plain(value)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
