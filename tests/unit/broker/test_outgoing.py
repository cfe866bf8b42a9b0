"""Responses that clients do not read: their memory, their log segments, and the order of sending."""

from __future__ import annotations

import itertools
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.broker.client_connection import ClientConnection
from pyconsumer.broker.log.file_records import FileRecords, spill
from pyconsumer.broker.log.partition_log import PartitionLog
from pyconsumer.broker.log.storage import FileStorage, MemoryStorage, Storage
from pyconsumer.broker.outgoing import MOST_HELD, Outgoing, SendTurns
from pyconsumer.broker.security import SecurityConfig, Session, TlsLayer
from pyconsumer.protocol.api import encode_request, encode_response, encode_stored_response
from pyconsumer.protocol.messages.api_versions import ApiVersionsRequest
from pyconsumer.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pyconsumer.protocol.records import scan
from tests.support.certificates import Certificates
from tests.unit.broker.support import clean_log, keyed, log_in

MANY = 4 << 20  # more than the buffers of a pair of sockets take


def stored(storage: Storage, size: int = MANY, name: str = "file") -> tuple[FileRecords, bytes]:
    """A part of a file, and its content."""
    content = os.urandom(size)
    file = storage.open(name)
    before = file.size
    file.append([b"before" + content])
    return file.records(before + 6, len(content)), content


@pytest.fixture(params=["disk", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return FileStorage(tmp_path / "storage") if request.param == "disk" else MemoryStorage()


# --- records in a file


class TestFileRecords:
    def test_pieces_of_files_are_read_in_order(self, storage: Storage) -> None:
        records, content = stored(storage, 1000)
        assert (len(records), bytes(records), records.read(10)) == (1000, content, content[:10])
        records.skip(10)
        assert (len(records), bytes(records)) == (990, content[10:])

    def test_a_file_that_was_closed_and_removed_is_readable_to_their_end(self, tmp_path: Path) -> None:
        storage = FileStorage(tmp_path)
        file = storage.open("file")
        file.append([b"0123456789"])
        records, others = file.records(2, 5), file.records(0, 1)
        descriptor = records.descriptor
        file.close()
        storage.remove("file")
        assert records.read(3) == b"234"
        del others
        assert bytes(records) == b"23456"
        del records
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)

    def test_a_file_without_such_parts_is_closed_at_once(self, tmp_path: Path) -> None:
        file = FileStorage(tmp_path).open("file")
        file.append([b"0123456789"])
        descriptor = file.records(0, 1).descriptor
        file.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.read(0, 1)

    @pytest.mark.parametrize(("size", "is_cut"), [(10, False), (9, True), (3, True), (0, True)])
    def test_bytes_that_a_truncation_took_are_not_read(self, storage: Storage, size: int, is_cut: bool) -> None:
        """Even if the file has grown again: its bytes are different then."""
        file = storage.open("file")
        file.append([b"0123456789..."])
        records = file.records(4, 6)
        file.truncate(size)
        file.append([b"abcdefghijklm"])
        if is_cut:
            with pytest.raises(OSError, match="truncated"):
                records.read(1)
        else:
            assert bytes(records) == b"456789"
        assert file.records(0, 2).read(2) == file.read(0, 2), "what was asked for later is there"

    def test_a_file_that_is_too_short_is_an_error(self, tmp_path: Path) -> None:
        records, _ = stored(FileStorage(tmp_path), 100)
        os.truncate(tmp_path / "file", 50)
        with pytest.raises(OSError, match="100 bytes were expected"):
            records.read(100)


class TestLogs:
    """Changes of a log while its records are being sent."""

    @pytest.fixture(params=["disk", "memory"])
    def log(self, request: pytest.FixtureRequest, tmp_path: Path) -> PartitionLog:
        where = tmp_path if request.param == "disk" else None
        return log_in(where, segment_bytes=2000, retention_bytes=0, compact=True)

    @staticmethod
    def records(log: PartitionLog, offset: int) -> tuple[FileRecords, bytes]:
        found = log.records(offset, 1000, log.log_end_offset, at_least_one=True, most_read=0)
        assert isinstance(found, FileRecords)
        expected = log.read(offset, 1000, log.log_end_offset, at_least_one=True)
        assert len(found) == len(expected) > 500
        return found, expected

    def fill(self, log: PartitionLog) -> None:
        for index in range(100):
            log.append(keyed((b"%d" % (index % 3), b"value")), 0)
        assert len(log.segments) > 2

    def test_few_bytes_are_read_at_once(self, log: PartitionLog) -> None:
        self.fill(log)
        expected = log.read(5, 1000, 100, at_least_one=True)
        assert log.records(5, 1000, 100, at_least_one=True, most_read=len(expected)) == expected
        assert isinstance(log.records(5, 1000, 100, at_least_one=True, most_read=len(expected) - 1), FileRecords)
        assert log.records(100, 1000, 100, at_least_one=True, most_read=0) == b""

    def test_retention(self, log: PartitionLog) -> None:
        self.fill(log)
        found, expected = self.records(log, 0)
        assert log.delete_old_segments(100)
        assert bytes(found) == expected

    def test_compaction(self, log: PartitionLog) -> None:
        self.fill(log)
        found, expected = self.records(log, 0)
        clean_log(log, 1 << 50)
        assert log.read(0, 1000, 100, at_least_one=True) != expected
        assert bytes(found) == expected

    def test_truncation(self, log: PartitionLog) -> None:
        self.fill(log)
        last = log.segments[-1].base_offset
        (cut, _), (kept, expected) = self.records(log, last), self.records(log, 0)
        log.truncate_to(last + 2)
        log.append(keyed((b"k", b"x" * 1000)), 1)
        with pytest.raises(OSError, match="truncated"):
            cut.read(100)
        assert bytes(kept) == expected

    def test_the_upper_bound_is_above_each_record(self, log: PartitionLog) -> None:
        self.fill(log)
        for offset, size in itertools.product(range(0, 100, 7), (100, 500, 2000)):
            data = log.read(offset, size, 100, at_least_one=True)
            assert scan(data)[-1].next_offset <= log.upper_bound(offset, len(data)) <= 100


def test_a_frame_with_stored_records_is_the_one_with_the_bytes(storage: Storage) -> None:
    def response(*records: Any) -> FetchResponse:
        partitions = [PartitionData(index, records=one) for index, one in enumerate(records)]
        return FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])

    for sizes in ((), (100,), (100_000,), (4, 10_000, 100, 8000), (0, 5000)):
        found = [stored(storage, size, f"{index}-{size}-{len(sizes)}") for index, size in enumerate(sizes)]
        expected = b"".join(encode_response(response(*(content for _, content in found)), 12, 7))
        parts = encode_stored_response(response(*(records for records, _ in found)), 12, 7)
        assert b"".join(map(bytes, parts)) == expected
        assert sum(isinstance(part, FileRecords) for part in parts) == len(sizes)


# --- one connection


class Link:
    """A connection's outgoing side, and the client at the other end."""

    def __init__(self, folder: Path | None, certificates: Certificates | None) -> None:
        self.server, self.client = socket.socketpair()
        self.server.setblocking(False)
        self.client.setblocking(False)
        self.tls = self._client_tls = None
        if certificates is not None:
            security = SecurityConfig(cert_file=str(certificates.server_pem))
            self.tls = TlsLayer(security.ssl_context())
            self._shake_hands(certificates, self.tls)
        self.out = Outgoing(self.server, self.tls, folder)

    def _shake_hands(self, certificates: Certificates, server: TlsLayer) -> None:
        context = ssl.create_default_context(cafile=str(certificates.ca_pem))
        self._incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._client_tls = context.wrap_bio(self._incoming, outgoing, server_hostname="localhost")
        for _ in range(5):
            try:
                self._client_tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            sent = outgoing.read()
            if sent:
                server.feed(sent)
            self._incoming.write(server.pending())

    def receive(self) -> bytes:
        """Return the received bytes."""
        parts = []
        try:
            while data := self.client.recv(1 << 20):
                parts.append(data)
        except BlockingIOError:
            pass
        received = b"".join(parts)
        if self._client_tls is None:
            return received
        self._incoming.write(received)
        plain = []
        try:
            while data := self._client_tls.read(1 << 20):
                plain.append(data)
        except ssl.SSLWantReadError:
            pass
        return b"".join(plain)

    def close(self) -> None:
        self.out.clear()
        self.server.close()
        self.client.close()


@pytest.fixture(params=["plain", "tls"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Link]]:
    certificates = request.getfixturevalue("certificates") if request.param == "tls" else None
    links: list[Link] = []

    def make(folder: Path | None = None) -> Link:
        links.append(Link(folder, certificates))
        return links[-1]

    yield make
    for link in links:
        link.close()


class TestOutgoing:
    def test_records_that_are_not_read_stay_in_the_file(self, connect: Callable[..., Link], storage: Storage) -> None:
        link = connect()
        records, content = stored(storage)
        few, few_content = stored(storage, 8000, "few")
        link.out.add([b"header", records, b"", b"between", few, b"end"])
        expected = b"header" + content + b"between" + few_content + b"end"
        link.out.send(1 << 30)
        assert link.out.blocked
        assert 0 < len(records) < len(content)
        assert link.out.held_bytes <= MOST_HELD
        received = link.receive()
        while link.out:
            link.out.send(1 << 30)
            assert link.out.held_bytes <= MOST_HELD
            received += link.receive()
        assert received + link.receive() == expected
        assert link.out.held_bytes == 0

    def test_many_small_pieces_of_files_are_not_read_ahead(
        self, connect: Callable[..., Link], storage: Storage
    ) -> None:
        link = connect()
        found = [stored(storage, 10_000, str(number)) for number in range(400)]
        link.out.add([part for records, _ in found for part in (b"header", records)])
        received = b""
        while link.out:
            link.out.send(1 << 30)
            assert link.out.held_bytes <= MOST_HELD
            received += link.receive()
        assert received + link.receive() == b"".join(b"header" + content for _, content in found)

    def test_a_file_system_without_sendfile(
        self, connect: Callable[..., Link], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(*_: Any) -> int:
            raise OSError(22, "Invalid argument")

        monkeypatch.setattr(os, "sendfile", refused, raising=False)
        link = connect()
        records, content = stored(FileStorage(tmp_path), 1 << 20)
        link.out.add([records])
        received = b""
        while link.out:
            link.out.send(1 << 30)
            received += link.receive()
        assert received + link.receive() == content

    def test_a_piece_stays_within_its_limit(self, connect: Callable[..., Link], storage: Storage) -> None:
        link = connect()
        records, content = stored(storage, 1 << 20)
        link.out.add([b"x" * 300_000, records])
        total, received = 0, b""
        while link.out:
            sent = link.out.send(65_536)
            assert sent <= 65_536
            total += sent
            received += link.receive()
        assert received == b"x" * 300_000 + content

    def test_a_large_response_in_memory_is_moved_to_a_file(self, connect: Callable[..., Link], tmp_path: Path) -> None:
        link = connect(tmp_path)
        answer = os.urandom(MANY)
        link.out.add([answer[:100], answer[100:]])
        link.out.send(1 << 30)
        assert link.out.blocked
        link.out.put_aside()
        assert link.out.held_bytes <= MOST_HELD
        assert os.listdir(tmp_path) == [], "the file has no name"
        received = link.receive()
        while link.out:
            link.out.send(1 << 30)
            received += link.receive()
        assert received + link.receive() == answer

    def test_a_small_one_is_not(self, connect: Callable[..., Link], tmp_path: Path) -> None:
        link = connect(tmp_path)
        link.out.add([bytes(MOST_HELD)])
        link.out.put_aside()
        assert link.out.held_bytes == MOST_HELD

    def test_without_files_or_disk_space_a_response_stays_in_memory(
        self, connect: Callable[..., Link], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: Any) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "pwrite", full)
        for folder in (None, tmp_path):
            link = connect(folder)
            link.out.add([bytes(2 * MOST_HELD)])
            link.out.put_aside()
            assert link.out.held_bytes == 2 * MOST_HELD

    def test_records_that_were_truncated_are_an_error(self, connect: Callable[..., Link], storage: Storage) -> None:
        link = connect()
        file = storage.open("file")
        file.append([bytes(MANY)])
        link.out.add([file.records(0, MANY)])
        link.out.send(1 << 20)
        file.truncate(MANY - 1000)
        link.receive()
        with pytest.raises(OSError, match="truncated"):
            link.out.send(1 << 20)


def test_a_response_in_an_unnamed_file_is_read_back(tmp_path: Path) -> None:
    records = spill(tmp_path, [b"one", b"", bytearray(b"two"), memoryview(b"three")])
    assert bytes(records) == b"onetwothree"
    assert os.listdir(tmp_path) == []


# --- whose turn it is


class Asking:
    """A connection with data to send, whose socket takes all bytes."""

    def __init__(self, name: str, size: int, log: list[tuple[str, int]]) -> None:
        self.name = name
        self.left = size
        self.log = log
        self.blocked = False

    @property
    def can_send(self) -> bool:
        return self.left > 0 and not self.blocked

    def send_piece(self, most_bytes: int) -> int:
        sent = min(most_bytes, self.left)
        self.left -= sent
        self.log.append((self.name, sent))
        return sent


class Turns:
    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.turns = SendTurns(self.calls.append)
        self.log: list[tuple[str, int]] = []

    def ask(self, name: str, size: int) -> Asking:
        one = Asking(name, size, self.log)
        self.turns.send(one)
        return one

    def turn(self) -> list[tuple[str, int]]:
        """The writes of one turn of the loop."""
        self.log.clear()
        calls, self.calls[:] = list(self.calls), []
        for call in calls:
            call()
        return list(self.log)


class TestTurns:
    def test_a_single_connection_sends_at_once_and_continues_in_the_next_turn(self) -> None:
        turns = Turns()
        turns.ask("a", 10 << 20)
        assert turns.log == [("a", 4 << 20)]
        assert turns.turn() == [("a", 4 << 20)]
        assert turns.turn() == [("a", 2 << 20)]
        turns.turn()
        assert turns.calls == [], "nothing is left to do"

    def test_many_take_turns_in_order_and_others_are_served_between_them(self) -> None:
        turns = Turns()
        waiting = {name: turns.ask(name, 1 << 20) for name in "abcdefgh"}
        order: list[str] = [name for name, _ in turns.log]
        while any(one.left for one in waiting.values()):
            sent = turns.turn()
            assert sum(size for _, size in sent) <= 512 << 10 or len({name for name, _ in sent}) == 1
            order += [name for name, _ in sent]
        counts = {name: order.count(name) for name in waiting}
        assert max(counts.values()) <= 4
        firsts = [name for index, name in enumerate(order) if name not in order[:index]]
        assert firsts == list("abcdefgh")

    def test_a_full_socket_has_no_turn(self) -> None:
        turns = Turns()
        first, second = turns.ask("a", 10 << 20), turns.ask("b", 10 << 20)
        first.blocked = True
        turns.turn()
        assert {name for name, _ in turns.turn()} == {"b"}
        turns.turns.forget(second)
        second.blocked = True
        turns.turn()
        assert turns.turn() == []


# --- a connection of the broker


class Loop:
    def __init__(self) -> None:
        self.readers: dict[Any, Callable[[], None]] = {}
        self.writers: dict[Any, Callable[[], None]] = {}
        self.calls: list[Callable[[], None]] = []

    def time(self) -> float:
        return 0.0

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.calls.append(callback)

    def add_reader(self, sock: Any, callback: Callable[[], None]) -> None:
        self.readers[sock] = callback

    def add_writer(self, sock: Any, callback: Callable[[], None]) -> None:
        self.writers[sock] = callback

    def remove_reader(self, sock: Any) -> None:
        self.readers.pop(sock, None)

    def remove_writer(self, sock: Any) -> None:
        self.writers.pop(sock, None)

    def run(self) -> None:
        while self.calls:
            calls, self.calls = self.calls, []
            for call in calls:
                call()


class Peer:
    """A connection of the broker, and its client."""

    def __init__(self, loop: Loop, turns: SendTurns, folder: Path | None) -> None:
        self.loop = loop
        broker: Any = SimpleNamespace(
            rates=SimpleNamespace(quotas=SimpleNamespace(exist=False)),
            logs=SimpleNamespace(folder=folder),
            faults=None,
            authorizer=None,
            controller=SimpleNamespace(features={}, features_epoch=0),
        )
        broker.clock = SimpleNamespace(now=lambda: 0.0, wall_ms=lambda: 0)
        owner: Any = SimpleNamespace(
            loop=loop,
            broker=broker,
            max_request_bytes=100 << 20,
            max_login_bytes=1 << 20,
            trailing_noted=set(),
            scratch=memoryview(bytearray(256 << 10)),
            turns=turns,
            forget=lambda connection: None,
        )
        self.sock, self.client = socket.socketpair()
        self.sock.setblocking(False)
        self.client.setblocking(False)
        self.connection = ClientConnection(owner, self.sock, "PLAINTEXT", "/h", Session(), None)

    def receive(self) -> bytes:
        parts = []
        try:
            while data := self.client.recv(1 << 20):
                parts.append(data)
        except (BlockingIOError, ConnectionResetError):
            pass
        return b"".join(parts)

    def read_all(self, size: int) -> bytes:
        received = self.receive()
        while len(received) < size and (self.sock in self.loop.writers or self.loop.calls):
            if self.sock in self.loop.writers:
                self.loop.writers[self.sock]()
            self.loop.run()
            received += self.receive()
        return received

    def close(self) -> None:
        self.connection.close()
        self.client.close()


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[Callable[[], Peer]]:
    loop, made = Loop(), []
    turns = SendTurns(loop.call_soon)

    def make() -> Peer:
        made.append(Peer(loop, turns, tmp_path))
        return made[-1]

    yield make
    for peer in made:
        peer.close()


class TestConnections:
    def test_many_slow_readers_hold_little_memory_and_delay_no_other(
        self, peers: Callable[[], Peer], tmp_path: Path
    ) -> None:
        file = FileStorage(tmp_path / "log").open("file")
        content = os.urandom(8 << 20)
        file.append([content])
        lazy = [peers() for _ in range(30)]
        for number, peer in enumerate(lazy):
            if number % 2:
                peer.connection._send([b"header", file.records(0, len(content))])
            else:
                peer.connection._send([content])
        lazy[0].loop.run()
        held = [peer.connection._out.held_bytes for peer in lazy]
        assert max(held) <= MOST_HELD
        modest = peers()
        modest.connection._send([b"answer"])
        assert modest.receive() == b"answer", "a short answer has no turn to wait for"
        assert lazy[0].read_all(len(content)) == content
        assert lazy[1].read_all(len(content) + 6) == b"header" + content
        for peer in lazy[:2]:
            assert not peer.connection._out
            assert peer.sock not in peer.loop.writers

    def test_a_response_with_truncated_records_closes_the_connection(
        self, peers: Callable[[], Peer], tmp_path: Path
    ) -> None:
        file = FileStorage(tmp_path / "log").open("file")
        file.append([bytes(MANY)])
        peer = peers()
        peer.connection._send([b"header", file.records(0, MANY)])
        file.truncate(MANY // 2)
        received = peer.read_all(MANY + 6)
        assert len(received) < MANY
        assert peer.sock.fileno() < 0

    def test_requests_are_not_read_while_a_response_is_unread(self, peers: Callable[[], Peer], tmp_path: Path) -> None:
        file = FileStorage(tmp_path / "log").open("file")
        file.append([bytes(MANY)])
        peer = peers()
        peer.connection._send([file.records(0, MANY)])
        peer.loop.run()
        request = b"".join(encode_request(ApiVersionsRequest(), 0, 1, "c" * 20_000))
        sent = 0
        while peer.sock in peer.loop.readers:
            sent += peer.client.send(request)
            peer.loop.readers[peer.sock]()
        assert MOST_HELD < sent < 2 * MOST_HELD + len(request)
        assert len(peer.read_all(MANY + 1)) > MANY, "then the requests are served"
        assert peer.sock in peer.loop.readers, "and more are read"
