"""The name in a client's certificate: its subject as Java's ``X500Principal.getName`` writes it (RFC 2253).

It is read from the certificate's bytes (DER). The names and texts that ``ssl`` gives are OpenSSL's: for an attribute
that RFC 2253 does not name, Java writes the number and the value's bytes instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from pyconsumer.broker.logins import LoginError

__all__ = ["subject_of"]

#: The attributes that RFC 2253 names.
_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
#: Tags of values that Java writes as text.
_TEXTS: Final = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E)
_VERSION: Final = 0xA0
#: The place of the subject behind the version: serial number, algorithm, issuer, validity, subject.
_SUBJECT_AT: Final = 4


class _Element(NamedTuple):
    """A part of DER: its tag, all its bytes, and its content."""

    tag: int
    whole: bytes
    content: bytes


def _elements(data: bytes) -> Iterator[_Element]:
    at = 0
    while at < len(data):
        tag, size, begin = data[at], data[at + 1], at + 2
        if size & 0x80:
            begin += size & 0x7F
            size = int.from_bytes(data[at + 2 : begin], "big")
        end = begin + size
        if end > len(data):
            raise ValueError("an element is not whole")
        yield _Element(tag, data[at:end], data[begin:end])
        at = end


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate that OpenSSL has verified, the last part first.

    Raises:
        LoginError: it is not written as DER demands.
    """
    try:
        return _subject(certificate)
    except (IndexError, ValueError):
        raise LoginError("the subject of the certificate cannot be read") from None


def _subject(certificate: bytes) -> str:
    (whole,) = _elements(certificate)
    signed, *_ = _elements(whole.content)
    fields = [each for each in _elements(signed.content) if each.tag != _VERSION]
    parts = [
        "+".join(_attribute(each.content) for each in _elements(part.content))
        for part in _elements(fields[_SUBJECT_AT].content)
    ]
    return ",".join(reversed(parts))


def _attribute(data: bytes) -> str:
    kind, value = _elements(data)
    number = _number(kind.content)
    name = _NAMES.get(number)
    if name is None or value.tag not in _TEXTS:
        return f"{name or number}=#{value.whole.hex()}"
    return f"{name}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _number(data: bytes) -> str:
    numbers, current = [], 0
    for byte in data:
        current = current << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(current)
            current = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _escaped(value: str) -> str:
    # Java escapes more than RFC 2253 demands: each "=", and "#" at any place.
    text = re.sub(r'([,=+<>#;"\\])', r"\\\1", value).replace("\0", "\\00")
    return re.sub(r"^[ \r]+|[ \r]+\Z", lambda blanks: re.sub("(?s)(.)", r"\\\1", blanks[0]), text)
