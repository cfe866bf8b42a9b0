"""Conversion between records and lines of text: ``consume --format``, ``consume --json``, ``produce --json``. No state.

JSON: a record is an object with topic, partition, offset, timestamp (milliseconds), key, value and headers, which are
pairs of a name and a value, in order. Bytes that are UTF-8 text are a string. Others are ``{"base64": "..."}`` or
``{"hex": "..."}``. A missing key and the value of a tombstone are null. The conversion is lossless:
:func:`from_document` reads the record that :func:`as_document` has written.

Formats are those of kcat: text with the tokens of :data:`TOKENS`, and escapes.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from pyconsumer import ConsumerRecord

__all__ = [
    "TOKENS",
    "JsonRecord",
    "as_document",
    "bytes_as_json",
    "bytes_of_json",
    "compile_format",
    "from_document",
    "header_line",
    "plain_format",
]

_FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_NOTATIONS: Final[Mapping[str, Callable[[str], bytes]]] = {
    "base64": lambda text: base64.b64decode(text, validate=True),
    "hex": bytes.fromhex,
}
_MAX_INT64: Final = 0x7FFFFFFFFFFFFFFF


class JsonRecord(NamedTuple):
    """A record to send. Partition and timestamp are None if the line does not contain them."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None
    timestamp_ms: int | None


# ---------------------------------------------------------------- JSON


def as_document(record: ConsumerRecord, binary: str) -> dict[str, Any]:
    """Return a record as an object for JSON.

    Args:
        binary: how to write bytes that are not UTF-8 text: ``base64`` or ``hex``.
    """
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": bytes_as_json(record.key, binary),
        "value": _value(record.value, binary),
        "headers": [[name, bytes_as_json(data, binary)] for name, data in record.headers],
    }


def _value(data: Any, binary: str) -> Any:
    """Return a value, which may be a :class:`~pyconsumer.cli.avro_lines.JsonValue`."""
    return data.document if hasattr(data, "document") else bytes_as_json(data, binary)


def bytes_as_json(data: bytes | None, binary: str) -> Any:
    """Return bytes as text, or as an object if they are not UTF-8."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {binary: data.hex() if binary == "hex" else base64.b64encode(data).decode("ascii")}


def from_document(line: bytes, value_of: Callable[[Any], bytes | None] | None = None) -> JsonRecord:
    """Read one line of ``produce --json``.

    Args:
        line: the line.
        value_of: makes the bytes of the value. By default the value has the form of :func:`as_document`.

    Raises:
        ValueError: the line is not a record. The message gives the reason.
    """
    try:
        found = json.loads(line)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f'it must be an object such as {{"key": "k", "value": "v"}}, not {_short(found)}')
    unknown = found.keys() - set(_FIELDS)
    if unknown:
        raise ValueError(f"there is no field {min(unknown)!r}. The fields are {', '.join(_FIELDS)}")
    if "value" not in found:
        raise ValueError('it has no "value". For a tombstone it must be null')
    timestamp = _whole(found, "timestamp", -1, _MAX_INT64)
    return JsonRecord(
        bytes_of_json(found.get("key"), "the key"),
        bytes_of_json(found["value"], "the value") if value_of is None else value_of(found["value"]),
        _headers(found.get("headers")),
        _whole(found, "partition", 0, 0x7FFFFFFF),
        None if timestamp == -1 else timestamp,  # -1: the record has none
    )


def _whole(found: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    value = found.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} must be a whole number of at least {low}, not {_short(value)}")
    return value


def _headers(found: Any) -> list[tuple[str, bytes | None]]:
    if found is None:
        return []
    pairs = list(found.items()) if isinstance(found, dict) else found
    if not isinstance(pairs, list):
        raise ValueError(f"headers must be a list of [name, value], not {_short(found)}")
    headers = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(f"a header must be [name, value], not {_short(pair)}")
        _text_bytes(pair[0], "the name of a header")
        headers.append((pair[0], bytes_of_json(pair[1], f"header {pair[0]!r}")))
    return headers


def bytes_of_json(found: Any, what: str) -> bytes | None:
    """Read what :func:`bytes_as_json` has written.

    Raises:
        ValueError: it is none of these forms. The message begins with ``what``.
    """
    if found is None:
        return None
    if isinstance(found, str):
        return _text_bytes(found, what)
    if isinstance(found, dict) and len(found) == 1:
        ((notation, text),) = found.items()
        read = _NOTATIONS.get(notation)
        if read is not None and isinstance(text, str):
            try:
                return read(text)
            except (ValueError, binascii.Error) as error:
                raise ValueError(f"{what} is not valid {notation}: {error}") from None
    raise ValueError(
        f'{what} must be a string, null, {{"base64": "..."}} or {{"hex": "..."}}, not {_short(found)};'
        " a nested JSON document must be a string"
    )


def _text_bytes(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} contains half of a surrogate pair, which is not text") from None


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# ---------------------------------------------------------------- formats

Write = Callable[[ConsumerRecord], bytes]


def header_line(record: ConsumerRecord) -> bytes:
    """Return the headers as ``name=value,name=value``."""
    return b",".join(b"%s=%s" % (name.encode(), data or b"") for name, data in record.headers)


def _size(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


TOKENS: Final[Mapping[str, tuple[str, Write]]] = {
    "t": ("topic", lambda record: record.topic.encode()),
    "p": ("partition", lambda record: b"%d" % record.partition),
    "o": ("offset", lambda record: b"%d" % record.offset),
    "k": ("key", lambda record: record.key or b""),
    "v": ("value", lambda record: record.value or b""),
    "s": ("value, as in kcat", lambda record: record.value or b""),
    "h": ("headers: name=value,...", header_line),
    "T": ("timestamp, ms", lambda record: b"%d" % record.timestamp),
    "K": ("length of the key, -1 for none", lambda record: _size(record.key)),
    "V": ("length of the value, -1 for a tombstone", lambda record: _size(record.value)),
    "S": ("the same, as in kcat", lambda record: _size(record.value)),
}
"""The tokens of a format: the letter after the ``%``, its meaning, and the function that writes it."""

_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PART: Final = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)


def compile_format(text: str) -> Write:
    """Return a function that writes records in a format.

    Raises:
        ValueError: a token or an escape is unknown.
    """
    parts: list[bytes | Write] = []
    at = 0
    for match in _PART.finditer(text):
        parts.append(_raw(text[at : match.start()]))
        at = match.end()
        if match[0].startswith("%"):
            parts.append(b"%" if match[1] == "%" else _token(match[1]))
        else:
            parts.append(_escape(match[2]))
    parts.append(_raw(text[at:]))
    chosen = [part for part in parts if part]
    return lambda record: b"".join([part if isinstance(part, bytes) else part(record) for part in chosen])


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # bytes of the command line that are not UTF-8


def _token(letter: str) -> Write:
    if letter not in TOKENS:
        known = ", ".join(f"%{name}" for name in TOKENS)
        raise ValueError(f"%{letter} is not a token. Use {known}, or %% for a percent sign (see --help)")
    return TOKENS[letter][1]


def _escape(code: str) -> bytes:
    if len(code) == 3:
        return bytes([int(code[1:], 16)])
    if code not in _ESCAPES:
        raise ValueError(f"\\{code} is not an escape. Use \\n, \\t, \\r, \\0, \\\\ or \\xHH")
    return _ESCAPES[code]


def plain_format(*, keys: bool, headers: bool) -> Write:
    """Return the function that writes a record's value as a line.

    With headers and key, these come before the value, separated by tabs.
    """
    return compile_format(("%h\\t" if headers else "") + ("%k\\t" if keys else "") + "%v\\n")
