"""A corrupt length in a running log: batches behind it are lost, and its readers do not keep the broker busy."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.broker.partition import Partition
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.unit.broker.brokers import Brokers
from tests.unit.broker.support import batch

BATCHES = 10


@pytest.fixture
def brokers() -> Brokers:
    made = Brokers(None, 1)
    made.controller.create_topic("t", 1, 1)
    made.run()
    for _ in range(BATCHES):
        made.leader().append(batch(b"x" * 100))
    return made


def garble(partition: Partition, index: int, length: int) -> int:
    """Change the length of the batch of offset ``index``. Return its position."""
    (segment,) = partition.log.segments
    header = list(segment.headers())[index]
    file: Any = segment._log
    data = bytearray(file.read(0, file.size))
    data[header.position + 8 : header.position + 12] = length.to_bytes(4, "big", signed=True)
    file.truncate(0)
    file.append([data])
    return header.position


def fetch(brokers: Brokers, offset: int, **limits: int) -> list[Any]:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=limits.pop("each", 1 << 20))
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic("t", partitions=[wanted])]
    )
    return brokers.request(0, request, 11)


@pytest.mark.parametrize("length", [2**31 - 1, -1, 100_000])
def test_a_fetch_above_the_corrupt_length_waits(
    brokers: Brokers, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    position = garble(brokers.leader(), 3, length)
    for _ in range(3):
        answers = fetch(brokers, 5)
        brokers.advance(0.49)
        brokers.leader().append(batch(b"later"))  # cannot help it
        brokers.run()
        assert not answers
        brokers.advance(0.02)
        (answer,) = answers
        (found,) = answer.responses[0].partitions
        assert (found.error_code, bytes(found.records)) == (0, b"")
        assert found.high_watermark > 5
    (logged,) = caplog.records
    for part in ("t-0", "00000000000000000000.log", f"byte {position}"):
        assert part in logged.getMessage()


def test_a_fetch_of_the_corrupt_batch_gets_at_most_its_limit(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    garble(brokers.leader(), 3, 2**31 - 1)
    (answer,) = fetch(brokers, 3, each=100)
    (found,) = answer.responses[0].partitions
    assert len(found.records) == 100  # of a batch that is not whole: its reader raises an error
    assert len(caplog.records) == 1


def test_batches_before_the_corrupt_length_are_read(brokers: Brokers) -> None:
    garble(brokers.leader(), 3, 2**31 - 1)
    (answer,) = fetch(brokers, 0)
    assert len(answer.responses[0].partitions[0].records) > 3 * 100


def test_limits_alone_do_not_hold_a_fetch(brokers: Brokers) -> None:
    (answer,) = fetch(brokers, 5, each=1)
    assert answer.responses[0].partitions[0].records  # the first batch is given whole
