"""``produce`` without a cluster: errors for lines that cannot be sent, and the time of retries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.cli import _run, produce
from pyconsumer.cli.produce import in_time
from pyconsumer.errors import BufferExhaustedError, KafkaError, RecordTooLargeError
from pyconsumer.producer.config import PRODUCER_SETTINGS, ProducerConfig

SERVERS = {"bootstrap_servers": "h:1"}


class Promise:
    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def add_errback(self, call: Callable[[KafkaError], object]) -> None:
        self._producer.errbacks.append(call)


class Producer:
    """A producer that rejects lines, and fails deliveries when it is flushed."""

    def __init__(self) -> None:
        self.config: ProducerConfig | None = None
        self.refused: dict[bytes, Exception] = {}
        self.failure: KafkaError | None = None
        self.buffered: list[tuple[Any, ...]] = []
        self.sent: list[tuple[Any, ...]] = []
        self.errbacks: list[Callable[[KafkaError], object]] = []

    def open(self, options: dict[str, Any]) -> Producer:
        self.config = PRODUCER_SETTINGS.build(options)
        return self

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None: ...

    def send(self, topic: str, value: bytes, key: bytes | None, headers: Any, partition: int | None) -> Promise:
        if value in self.refused:
            raise self.refused[value]
        self.buffered.append((value, key, headers, partition))
        return Promise(self)

    def flush(self) -> None:
        self.sent += self.buffered
        self.buffered.clear()
        if self.failure is not None:
            for call in self.errbacks:
                call(self.failure)


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    """Return the stub that the command gets instead of a ``KafkaProducer``."""
    made = Producer()
    monkeypatch.setattr(produce, "KafkaProducer", made.open)
    return made


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb\nc\n")
    return str(path)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("topic 't' has partitions 0 to 3, not 99"),
        RecordTooLargeError("the record has 2000000 bytes"),
        BufferExhaustedError("the buffer is full"),
    ],
    ids=["partition", "size", "buffer"],
)
def test_a_rejected_line_is_named_and_earlier_ones_are_sent(
    producer: Producer, lines: str, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    producer.refused[b"c"] = error
    assert _run(["produce", "t", "-f", lines]) == 1
    assert capsys.readouterr().err == f"Error: line 3: {error}; the 2 records before it were sent\n"
    assert [record[0] for record in producer.sent] == [b"a", b"b"]


@pytest.mark.parametrize("arguments", [(), ("-k", "=")], ids=["refused", "no separator"])
def test_failed_lines_are_not_reported_as_sent(
    producer: Producer, lines: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    Path(lines).write_bytes(b"a=\nb")
    producer.refused[b"b"] = ValueError("no")
    producer.failure = KafkaError("the broker has gone")
    assert _run(["produce", "t", "-f", lines, *arguments]) == 1
    assert capsys.readouterr().err == "Error: the broker has gone\n"


def test_a_rejected_first_line(producer: Producer, lines: str, capsys: pytest.CaptureFixture[str]) -> None:
    producer.refused[b"a"] = ValueError("no")
    assert _run(["produce", "t", "-f", lines]) == 1
    assert capsys.readouterr().err == "Error: line 1: no; no record was sent\n"


def test_a_line_without_end_is_rejected(producer: Producer, lines: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(lines).write_bytes(b"a\n" + b"x" * 81)
    assert _run(["produce", "t", "-f", lines, "--config", "max.request.size=10"]) == 1
    assert "Error: line 2 has more than 80 bytes, too many for a record" in capsys.readouterr().err
    assert [record[0] for record in producer.sent] == [b"a"]


def test_bytes_of_the_command_line_are_sent_unchanged(producer: Producer, lines: str) -> None:
    Path(lines).write_bytes(b"k\xffv")
    assert _run(["produce", "t", "-q", "-f", lines, "-k", "\udcff", "-H", "a=\udcffé", "-p", "3"]) == 0
    assert producer.sent == [(b"v", b"k", [("a", b"\xff\xc3\xa9")], 3)]


def test_the_name_of_a_header_is_text(producer: Producer, lines: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["produce", "t", "-f", lines, "-H", "\udcff=a"]) == 2
    assert "is not UTF-8" in capsys.readouterr().err
    assert producer.config is None


@pytest.mark.parametrize(
    ("timeout_ms", "given", "block_ms", "request_ms", "delivery_ms"),
    [
        (1_000, {}, 1_000, 1_000, 1_005),
        (30_000, {}, 30_000, 30_000, 30_005),
        (90_000, {}, 90_000, 30_000, 90_000),
        (1_000, {"linger.ms": "200"}, 1_000, 1_000, 1_200),
        (1_000, {"request.timeout.ms": "9000"}, 1_000, 9_000, 9_005),
        (1_000, {"delivery.timeout.ms": "60000", "max.block.ms": "7"}, 7, 1_000, 60_000),
    ],
)
def test_the_timeout_bounds_deliveries_too(
    timeout_ms: int, given: dict[str, str], block_ms: int, request_ms: int, delivery_ms: int
) -> None:
    config = PRODUCER_SETTINGS.build(in_time(SERVERS | given, timeout_ms))
    assert (config.max_block_ms, config.request_timeout_ms, config.delivery_timeout_ms) == (
        block_ms,
        request_ms,
        delivery_ms,
    )


def test_the_command_has_that_timeout(producer: Producer, lines: str) -> None:
    assert _run(["produce", "t", "-q", "-f", lines, "--timeout-ms", "1000"]) == 0
    assert producer.config is not None
    assert producer.config.delivery_timeout_ms == 1_005
