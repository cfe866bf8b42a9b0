"""Output to clients: the bytes that wait to be sent, and the turns in which connections send them.

These rules bound the memory for a client that requests much and does not read:

1. The records of a Fetch response stay in the log's file until the socket accepts them. ``sendfile`` copies from there.
   With TLS and in a cluster without files, pieces are read. An encrypted piece must be kept until it is sent, so it is
   small.
2. Any other response is in memory. If the socket does not accept it and it is larger than :data:`MOST_HELD`, it is
   written to a file without a name. So a connection holds no more than that. A cluster without files keeps it.
3. A connection reads no further requests while it has pending output and requests of :data:`MOST_HELD` bytes wait.
4. Connections with much output take turns, a piece each. All of a broker's send at most :data:`_TURN_BYTES` before
   requests are served. A connection that is alone sends more in one go. A short response is sent at once.
5. If records can no longer be read, because the log was truncated or the disk fails, the connection is closed, because
   the response's size has been sent. If the log is truncated after the system has read the records from the file, the
   client notices it by the checksum. (Kafka does the same.)
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from pyconsumer.background_log import Log
from pyconsumer.broker.log.file_records import FileRecords, spill
from pyconsumer.broker.security import TlsLayer
from pyconsumer.protocol.primitives import Buffer

__all__ = ["MOST_HELD", "Outgoing", "Part", "SendTurns"]

_log = Log(__name__)

#: Most bytes in memory that a connection holds while its socket is blocked.
MOST_HELD: Final = 256 << 10
#: The piece that is encrypted at a time. OpenSSL keeps as much memory again.
_ENCRYPTED_BYTES: Final = 64 << 10
#: The piece that a connection sends while others wait for their turn.
_PIECE_BYTES: Final = 256 << 10
#: Most bytes sent in one turn of the loop: by several connections, and by one that is alone.
_TURN_BYTES: Final = 512 << 10
_TURN_BYTES_ALONE: Final = 4 << 20
#: Records up to this size in bytes are read at once and sent together with the bytes beside them.
_FEW_BYTES: Final = 16 << 10
_MOST_BUFFERS: Final = 256
#: The file system has no ``sendfile``.
_NO_SENDFILE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_CAN_SENDFILE: Final = hasattr(os, "sendfile") and sys.platform == "linux"
#: More follows at once, so that a response's header does not travel in a packet of its own.
_MORE: Final = getattr(socket, "MSG_MORE", 0)

Part = Buffer | FileRecords


class Outgoing:
    """The pending output of a connection.

    Args:
        sock: the socket, which must be non-blocking.
        tls: the TLS layer, on a listener with TLS.
        folder: the folder of the broker's files. None in a cluster without files.

    Attributes:
        blocked: True if the socket accepted no more bytes at the last attempt.
    """

    __slots__ = ("_encrypted", "_folder", "_parts", "_sock", "_tls", "blocked")

    def __init__(self, sock: socket.socket, tls: TlsLayer | None, folder: Path | None) -> None:
        self._sock = sock
        self._tls = tls
        self._folder = folder
        self._parts: deque[Part] = deque()
        #: With TLS, encrypted bytes that are sent before all others.
        self._encrypted: Buffer = b""
        self.blocked = False

    def __bool__(self) -> bool:
        return bool(self._parts) or bool(self._encrypted)

    @property
    def held_bytes(self) -> int:
        """Return the number of bytes in memory."""
        return len(self._encrypted) + sum(len(part) for part in self._parts if not isinstance(part, FileRecords))

    @property
    def is_short(self) -> bool:
        """Return whether the output is short, and all of it is in memory (rule 4)."""
        size = len(self._encrypted)
        for part in self._parts:
            size += len(part)
            if size > _PIECE_BYTES or isinstance(part, FileRecords):
                return False
        return True

    def add(self, parts: Sequence[Part]) -> None:
        """Add output. On a connection with TLS it is encrypted just before it is sent."""
        self._parts.extend(part for part in parts if len(part))

    def add_encrypted(self, data: bytes) -> None:
        """Add bytes of the TLS protocol itself."""
        self._encrypted = b"".join((self._encrypted, data)) if self._encrypted else data

    def unblock(self) -> None:
        """Record that the socket accepts bytes again."""
        self.blocked = False

    def clear(self) -> None:
        """Drop all output. Files that are no longer used are closed."""
        self._parts.clear()
        self._encrypted = b""

    def send(self, most_bytes: int) -> int:
        """Send until the output is empty, the socket is blocked, or ``most_bytes`` have been sent.

        Returns:
            The number of bytes sent, counted before encryption.

        Raises:
            OSError: the connection is lost, or records cannot be read (rule 5).
        """
        sent = 0
        self.blocked = False
        try:
            while self and sent < most_bytes:
                sent += self._send_encrypted() if self._tls is not None else self._send_plain(most_bytes - sent)
        except (BlockingIOError, InterruptedError):
            self.blocked = True
        return sent

    def _send_plain(self, most_bytes: int) -> int:
        first = self._parts[0]
        if isinstance(first, FileRecords):
            if len(first) > _FEW_BYTES and first.descriptor >= 0 and _CAN_SENDFILE:
                return self._send_file(first, most_bytes)
            if len(first) > _FEW_BYTES:
                data = first.read(min(_PIECE_BYTES, most_bytes))
                sent = self._sock.send(data)  # the rest of the piece is read again, not held
                self._skip(first, sent)
                return sent
        buffers: list[Buffer] = []
        follows = False
        most_bytes = min(most_bytes, MOST_HELD // 2)
        for index, part in enumerate(self._parts):
            if isinstance(part, FileRecords):
                if len(part) > _FEW_BYTES:
                    follows = True
                    break
                part = self._parts[index] = bytes(part)
            buffers.append(part if len(part) <= most_bytes else memoryview(part)[:most_bytes])
            most_bytes -= len(part)
            if most_bytes <= 0 or len(buffers) == _MOST_BUFFERS:
                break
        if follows and _MORE:
            sent = self._sock.sendmsg(buffers, (), _MORE)
        else:
            sent = self._sock.sendmsg(buffers)
        self._drop(sent)
        return sent

    def _send_file(self, records: FileRecords, most_bytes: int) -> int:
        records.check()
        try:
            sent = os.sendfile(self._sock.fileno(), records.descriptor, records.position, min(len(records), most_bytes))
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise
            records.read_only()
            return 0
        if not sent:
            raise OSError("the file ends before the records whose size was announced")
        self._skip(records, sent)
        return sent

    def _skip(self, records: FileRecords, sent: int) -> None:
        if sent == len(records):
            self._parts.popleft()
        else:
            records.skip(sent)

    def _drop(self, sent: int) -> None:
        """Remove sent bytes from the first parts, which are in memory."""
        while sent:
            first = self._parts[0]
            assert not isinstance(first, FileRecords)
            if sent < len(first):
                self._parts[0] = memoryview(first)[sent:]
                return
            sent -= len(first)
            self._parts.popleft()

    def _send_encrypted(self) -> int:
        plain_bytes = 0
        if not self._encrypted:
            assert self._tls is not None
            pieces: list[Buffer] = []
            while self._parts and plain_bytes < _ENCRYPTED_BYTES:
                piece = self._take(_ENCRYPTED_BYTES - plain_bytes)
                plain_bytes += len(piece)
                pieces.append(piece)
            self._encrypted = self._tls.encrypt(pieces)
        encrypted = self._encrypted
        sent = self._sock.send(encrypted)
        self._encrypted = memoryview(encrypted)[sent:] if sent < len(encrypted) else b""
        return max(plain_bytes, 1)

    def _take(self, size: int) -> Buffer:
        first = self._parts[0]
        if len(first) <= size:
            self._parts.popleft()
            return bytes(first) if isinstance(first, FileRecords) else first
        if isinstance(first, FileRecords):
            data = first.read(size)
            first.skip(size)
            return data
        view = memoryview(first)
        self._parts[0] = view[size:]
        return view[:size]

    def put_aside(self) -> None:
        """Write the output in memory to a file, if the socket is blocked and the output is large (rule 2)."""
        if self._folder is None or self.held_bytes <= MOST_HELD:
            return
        kept: deque[Part] = deque()
        run: list[Buffer] = []
        try:
            for part in self._parts:
                if not isinstance(part, FileRecords):
                    run.append(part)
                    continue
                if run:
                    kept.append(spill(self._folder, run))
                    run = []
                kept.append(part)
            if run:
                kept.append(spill(self._folder, run))
        except OSError as error:
            _log.warning(
                "a response of %d bytes stays in memory, because it cannot be written to a file: %s",
                self.held_bytes,
                error,
            )
            self._folder = None  # the next attempts would fail, too
            return
        self._parts = kept


class Sender(Protocol):
    """A connection with pending output."""

    def send_piece(self, most_bytes: int) -> int:
        """Send at most about ``most_bytes``. Return the number of bytes that were sent."""

    @property
    def can_send(self) -> bool:
        """Return whether there is output, and the socket may accept it."""


class SendTurns:
    """The connections of a broker that have much output, in the order of their turns (rule 4).

    Args:
        call_soon: runs a function in the next iteration of the loop.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: dict[Sender, None] = {}
        self._scheduled = False
        #: The bytes that may still be sent in this turn of the loop.
        self._room = self._full_room = _TURN_BYTES_ALONE

    def send(self, sender: Sender) -> None:
        """Let a connection send: now if no other connection waits, otherwise when it is its turn."""
        if not self._waiting and self._room > 0:
            self._room -= sender.send_piece(self._room)
        if sender.can_send:
            self._waiting[sender] = None
        self._schedule()

    def forget(self, sender: Sender) -> None:
        """Forget a connection that was closed."""
        self._waiting.pop(sender, None)

    def _schedule(self) -> None:
        if not self._scheduled and (self._waiting or self._room < self._full_room // 2):
            self._scheduled = True
            self._call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        self._room = self._full_room = _TURN_BYTES if len(self._waiting) > 1 else _TURN_BYTES_ALONE
        while self._waiting and self._room > 0:
            sender = next(iter(self._waiting))
            del self._waiting[sender]
            self._room -= sender.send_piece(_PIECE_BYTES if self._waiting else self._room)
            if sender.can_send:
                self._waiting[sender] = None
        self._schedule()
