"""JSON documents as bytes: which are read, and how they are written.

Rules

1. A document is UTF-8 without a byte order mark, with white space around it at most. One surrogate alone is refused,
   since it is no text.
2. NaN and infinity are refused in both directions: JSON has none. So is a number that no ``float`` holds.
3. Of two members with one name, the last counts, as in Python, ``orjson`` and Java's Jackson.
4. A whole number stays exact, however large. One of more digits than Python converts (4,300) is refused. ``1.0`` is a
   ``float``.
5. A document has at most :data:`MAX_LEVELS` levels of arrays and objects.
6. It is written without spaces, and characters beyond ASCII as they are, as by confluent-kafka.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final

from pyconsumer.errors import SerializationError
from pyconsumer.protocol.avro.plan import MAX_DECODED_BYTES, MAX_LEVELS

__all__ = ["MAX_DECODED_BYTES", "MAX_LEVELS", "dump_document", "load_document"]

#: The escape of a surrogate. Two of them are one character, and one alone is none.
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


#: A number that may be too large for a ``float``, which Python reads as infinity.
_HUGE: Final = re.compile(rb"[eE]\+?\d{3}|\d{200}")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        _refuse(text[:40])
    return found


_read: Final = json.JSONDecoder(parse_constant=_refuse).decode
_read_exactly: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite).decode
_write: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def load_document(data: bytes | memoryview, decode: Callable[[bytes], Any] | None = None) -> Any:
    """Return the document of some bytes.

    Args:
        data: the bytes.
        decode: the user's function in the place of ours. Then rules 1 to 4 are that function's.

    Raises:
        SerializationError: they are no document.
    """
    text = bytes(data)
    if len(text) > MAX_DECODED_BYTES:
        raise SerializationError(f"the document has {len(text)} bytes, and at most {MAX_DECODED_BYTES} are read")
    try:
        if decode is None:
            found = (_read_exactly if _HUGE.search(text) else _read)(text.decode())
            if _SURROGATE.search(text):
                _write(found).encode()
        else:
            found = decode(text)
    except RecursionError:
        raise SerializationError(f"the document has more than {MAX_LEVELS} levels") from None
    except Exception as error:
        raise SerializationError(f"the bytes are no JSON document: {error} ({_first(text)})") from error
    if text.count(b"[") + text.count(b"{") > MAX_LEVELS:
        _check_levels(found)
    return found


def _first(text: bytes) -> str:
    return f"they begin with {text[:8].hex(' ')}" if text else "there are none"


def _check_levels(document: Any) -> None:
    level, current = 0, [document]
    while current:
        inner: list[Any] = []
        for each in current:
            if isinstance(each, dict):
                inner += [value for value in each.values() if isinstance(value, dict | list)]
            elif isinstance(each, list):
                inner += [value for value in each if isinstance(value, dict | list)]
        level += 1
        if level > MAX_LEVELS:
            raise SerializationError(f"the document has more than {MAX_LEVELS} levels")
        current = inner


def dump_document(document: Any, encode: Callable[[Any], str | bytes] | None = None) -> bytes:
    """Return a document as bytes.

    Args:
        document: of Python's own types.
        encode: the user's function in the place of ours. It returns text or bytes.

    Raises:
        SerializationError: it has a value that JSON does not have.
    """
    try:
        text = _write(document) if encode is None else encode(document)
        return text.encode() if isinstance(text, str) else bytes(text)
    except RecursionError:
        raise SerializationError("the document contains itself, or has too many levels") from None
    except Exception as error:
        raise SerializationError(f"the value cannot be written as JSON: {error}") from error
