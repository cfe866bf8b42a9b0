"""Frames, headers, and the choice of the version of an API.

A frame is its size (int32), a header and the message. Functions that decode take a frame without the size. Those that
encode return a list of buffers with it, ready for a gathering write.

Header versions: a request has header 2 if its version is flexible, else 1. A response has header 1 if its version is
flexible, else 0. ApiVersions responses always have header 0, because a client must be able to read one before it knows
the versions of the broker (KIP-511).

State: encoded ends of headers, and response classes, cached for the process.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from pyconsumer.errors import ProtocolError, UnsupportedVersionError
from pyconsumer.protocol.api_keys import API, ApiInfo, ApiKey
from pyconsumer.protocol.messages import load
from pyconsumer.protocol.primitives import Buffer, StoredRecords
from pyconsumer.protocol.schema import (
    INT16,
    INT32,
    STRING,
    Encodable,
    Message,
    field,
    message,
)

__all__ = [
    "API",
    "ApiInfo",
    "ApiKey",
    "BrokerVersions",
    "RequestHeader",
    "RequestHeaderMessage",
    "ResponseHeaderMessage",
    "decode_request_header",
    "decode_response",
    "decode_response_header",
    "encode_request",
    "encode_response",
    "encode_stored_response",
    "request_header_version",
    "response_header_version",
]


_SHORT: Final = 4096
_MOST_BYTES: Final = 2**31 - 1
"""Buffers of a frame with fewer bytes are joined."""
_HEADER_START: Final = struct.Struct(">hhi")
_PLAIN_HEADER_BYTES: Final = 4
_MOST_HEADER_ENDS: Final = 1024
_header_ends: dict[tuple[int, int, str | None], bytes] = {}
_response_kinds: dict[tuple[int, int], tuple[int, type[Message]]] = {}


@message(-1, "header", versions="1-2", flexible="2+")
class RequestHeaderMessage(Message):
    request_api_key: int = field(INT16, "0+", default=0)
    request_api_version: int = field(INT16, "0+", default=0)
    correlation_id: int = field(INT32, "0+", default=0)
    client_id: str | None = field(STRING, "1+", nullable="1+", default="", compact=False)


@message(-1, "header", versions="0-1", flexible="1+")
class ResponseHeaderMessage(Message):
    correlation_id: int = field(INT32, "0+", default=0)


class RequestHeader(NamedTuple):
    """The header of a request, read from a frame. ``body_offset`` is the position of the request after the header."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def request_header_version(api_key: int, version: int) -> int:
    """Return the version of a request's header, 1 or 2. Raise ``ValueError`` for an unknown API."""
    return 2 if API[ApiKey(api_key)].is_flexible(version) else 1


def response_header_version(api_key: int, version: int) -> int:
    """Return the version of a response's header, 0 or 1. Raise ``ValueError`` for an unknown API."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if API[ApiKey(api_key)].is_flexible(version) else 0


def encode_request(request: Encodable, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """Return a request as a frame, including its size. Errors are those of :meth:`.Message.encode_parts`."""
    return _frame(_request_header(request.API_KEY, version, correlation_id, client_id), request.encode_parts(version))


def _request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a header. After the correlation id it is the same for all requests of a client with an API and version."""
    rest = _header_ends.get((api_key, version, client_id))
    if rest is None:
        header = RequestHeaderMessage(api_key, version, 0, client_id)
        rest = header.encode(request_header_version(api_key, version))[_HEADER_START.size :]
        if len(_header_ends) < _MOST_HEADER_ENDS:
            _header_ends[api_key, version, client_id] = rest
    return _HEADER_START.pack(api_key, version, correlation_id) + rest


def encode_response(response: Message, version: int, correlation_id: int) -> list[Buffer]:
    """Return a response as a frame, including its size. Errors are those of :meth:`.Message.encode_parts`."""
    header = ResponseHeaderMessage(correlation_id)
    return _frame(header.encode(response_header_version(response.API_KEY, version)), response.encode_parts(version))


def encode_stored_response(response: Message, version: int, correlation_id: int) -> list[Buffer | StoredRecords]:
    """Return a response as a frame in which :class:`StoredRecords` are not read, whatever their size."""
    header = ResponseHeaderMessage(correlation_id).encode(response_header_version(response.API_KEY, version))
    body: list[Buffer | StoredRecords] = [*response.encode_parts(version)]
    if not any(map(_is_stored, body)):
        return [*_frame(header, body)]  # type: ignore[arg-type]
    size = len(header) + sum(map(len, body))
    if size > _MOST_BYTES:
        raise ProtocolError(f"a message of {size} bytes is larger than the protocol allows ({_MOST_BYTES})")
    out: list[Buffer | StoredRecords] = []
    between: list[Buffer] = [size.to_bytes(4, "big"), header]
    for part in body:
        if isinstance(part, StoredRecords):
            out += (b"".join(between), part)
            between = []
        else:
            between.append(part)
    if between:
        out.append(b"".join(between))
    return out


def _is_stored(part: Buffer | StoredRecords) -> bool:
    return isinstance(part, StoredRecords)


def _frame(header: bytes, body: list[Buffer]) -> list[Buffer]:
    size = len(header) + sum(map(len, body))
    if size < _SHORT:
        return [b"".join((size.to_bytes(4, "big"), header, *body))]
    if size > _MOST_BYTES:
        raise ProtocolError(f"a message of {size} bytes is larger than the protocol allows ({_MOST_BYTES})")
    # Short buffers are joined, record sets are not: one write of few buffers, and no large copy.
    out: list[Buffer] = []
    short: list[Buffer] = [size.to_bytes(4, "big"), header]
    for part in body:
        if len(part) < _SHORT:
            short.append(part)
        else:
            out.append(b"".join(short))
            out.append(part)
            short = []
    if short:
        out.append(b"".join(short))
    return out


def decode_request_header(frame: Buffer) -> RequestHeader:
    """Read the header of a request.

    For ApiVersions the header of an unknown version can be read, too, so that the broker can respond (KIP-511).

    Raises:
        ProtocolError: the frame does not begin with a request header.
        UnsupportedVersionError: the API is unknown.
    """
    if len(frame) < 8:
        raise ProtocolError(f"a frame of {len(frame)} bytes is too short for a request header")
    api_key = int.from_bytes(frame[:2], "big", signed=True)
    version = int.from_bytes(frame[2:4], "big", signed=True)
    try:
        info = API[ApiKey(api_key)]
    except ValueError:
        raise UnsupportedVersionError(f"api key {api_key} is not supported") from None
    header, end = RequestHeaderMessage.decode_from(frame, 2 if info.is_flexible(version) else 1, 0)
    return RequestHeader(api_key, version, header.correlation_id, header.client_id, end)


def decode_response_header(api_key: int, version: int, frame: Buffer) -> tuple[int, int]:
    """Read the header of a response. Return the correlation id and the position of the response.

    Raises:
        ProtocolError: the frame does not begin with a response header.
    """
    header, end = ResponseHeaderMessage.decode_from(frame, response_header_version(api_key, version), 0)
    return header.correlation_id, end


def decode_response(
    api_key: int, version: int, frame: Buffer, *, on_trailing: Callable[[int, int, int], None] | None = None
) -> tuple[int, Message]:
    """Read a response with its header. Return the correlation id and the message.

    Record sets in the message are views of ``frame``.

    Args:
        on_trailing: called with API key, version and number of bytes if there are bytes after the message. If it is not
            given, such bytes are an error.

    Raises:
        ProtocolError: the frame is not a response of this API and version.
    """
    found = _response_kinds.get((api_key, version))
    if found is None:
        found = response_header_version(api_key, version), load(api_key)[1]
        _response_kinds[api_key, version] = found
    header_version, kind = found
    if len(frame) > _PLAIN_HEADER_BYTES and (not header_version or not frame[_PLAIN_HEADER_BYTES]):
        correlation_id = int.from_bytes(frame[:_PLAIN_HEADER_BYTES], "big", signed=True)
        start = _PLAIN_HEADER_BYTES + header_version  # header 1 without tagged fields: one more byte, their number
    else:
        correlation_id, start = decode_response_header(api_key, version, frame)
    if on_trailing is None:
        return correlation_id, kind.decode(memoryview(frame)[start:], version)
    message, end = kind.decode_from(frame, version, start)
    if end != len(frame):
        on_trailing(api_key, version, len(frame) - end)
    return correlation_id, message


class BrokerVersions:
    """The versions of each API that one broker supports. Chooses the version to use.

    Args:
        ranges: oldest and newest version by API key, from the broker's response to ApiVersions.
    """

    __slots__ = ("_chosen", "ranges")

    def __init__(self, ranges: Mapping[int, tuple[int, int]]) -> None:
        self.ranges = dict(ranges)
        self._chosen: dict[tuple[int, int, int | None], int] = {}

    @classmethod
    def of(cls, keys: Iterable[tuple[int, int, int]]) -> BrokerVersions:
        """Create the object from triples ``(api key, oldest version, newest version)``."""
        return cls({key: (first, last) for key, first, last in keys})

    def choose(self, api_key: int, *, min_version: int = 0, max_version: int | None = None) -> int:
        """Return the newest version that both sides support.

        Args:
            api_key: the API.
            min_version: the oldest version that the caller can use.
            max_version: the newest version that the caller can use, or None for any.

        Raises:
            UnsupportedVersionError: there is no such version. The message names both ranges.
        """
        version = self._chosen.get((api_key, min_version, max_version))
        if version is not None:
            return version
        info = API[ApiKey(api_key)]
        first = max(info.min_version, min_version)
        last = info.max_version if max_version is None else min(info.max_version, max_version)
        theirs = self.ranges.get(api_key)
        if theirs is None:
            raise UnsupportedVersionError(f"the broker does not support {info.name} at all")
        version = min(last, theirs[1])
        if version < first or version < theirs[0]:
            raise UnsupportedVersionError(
                f"the broker supports {info.name} versions {theirs[0]} to {theirs[1]}, and {first} to {last} is needed"
            )
        self._chosen[api_key, min_version, max_version] = version
        return version

    def supports(self, api_key: int, min_version: int = 0) -> bool:
        """Return whether both sides support any version from ``min_version`` on."""
        try:
            self.choose(api_key, min_version=min_version)
        except UnsupportedVersionError:
            return False
        return True
