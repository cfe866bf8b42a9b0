"""The mocks of share consumers: records, acknowledgements and planned errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyconsumer import AcknowledgeType, ShareConsumer, TopicPartition
from pyconsumer.aio import AsyncShareConsumer
from pyconsumer.errors import (
    IllegalStateError,
    InvalidRecordStateError,
    KafkaError,
    NotLeaderOrFollowerError,
    WakeupError,
)
from pyconsumer.testing import AsyncMockShareConsumer, MockShareConsumer, make_record, make_records

T0 = TopicPartition("t", 0)


def explicit(*values: bytes, **options: Any) -> MockShareConsumer[None, bytes]:
    consumer: MockShareConsumer[None, bytes] = MockShareConsumer("t", share_acknowledgement_mode="explicit", **options)
    consumer.add_records(make_records("t", values))
    return consumer


def offsets(found: Any) -> list[int]:
    return [record.offset for record in found.records()]


def test_in_implicit_mode_the_next_poll_or_commit_accepts() -> None:
    consumer: MockShareConsumer[None, bytes] = MockShareConsumer("t", max_poll_records=2)
    consumer.add_records(make_records("t", [b"a", b"b", b"c"]))
    assert isinstance(consumer, ShareConsumer)
    assert offsets(consumer.poll()) == [0, 1]
    assert consumer.acknowledged == {}
    assert offsets(consumer.poll()) == [2]
    assert list(consumer.acknowledged) == [("t", 0, 0), ("t", 0, 1)]
    assert consumer.commit() == {T0: None}
    assert consumer.acknowledged[("t", 0, 2)] is AcknowledgeType.ACCEPT


def test_in_explicit_mode_each_record_is_acknowledged() -> None:
    consumer = explicit(b"a", b"b", b"c", b"d")
    for record, kind in zip(consumer.poll().records(), AcknowledgeType, strict=True):
        with pytest.raises(IllegalStateError, match="not acknowledged"):
            consumer.poll()
        consumer.acknowledge(record, kind)
    assert offsets(consumer.poll()) == [3]  # renewed, alone
    assert consumer.delivery_count(("t", 0, 3)) == 1
    consumer.acknowledge(("t", 0, 3))
    (again,) = consumer.poll().records()
    assert (again.offset, consumer.delivery_count(again)) == (1, 2)
    assert [record.offset for record in consumer.archived] == [2]
    with pytest.raises(IllegalStateError, match="cannot be acknowledged"):
        consumer.acknowledge(("t", 0, 0))


def test_a_record_that_is_released_in_its_last_delivery_is_archived() -> None:
    consumer = explicit(delivery_limit=2)
    consumer.add_record(make_record("t", b"a"), delivery_count=2)
    consumer.acknowledge(next(iter(consumer.poll().records())), AcknowledgeType.RELEASE)
    assert consumer.poll().is_empty
    assert len(consumer.archived) == 1


def test_acknowledgements_after_a_lock_has_expired_fail_and_the_records_come_again() -> None:
    consumer = explicit(b"a")
    told: list[Any] = []
    consumer.set_acknowledgement_commit_callback(lambda places, error: told.append((places, type(error))))
    (record,) = consumer.poll().records()
    consumer.expire_locks()
    consumer.acknowledge(record)
    assert isinstance(consumer.commit()[T0], InvalidRecordStateError)
    assert told == [({T0: {0}}, InvalidRecordStateError)]
    assert consumer.acknowledged == {}
    (record,) = consumer.poll().records()
    assert consumer.delivery_count(record) == 2
    consumer.acknowledge(record)
    assert consumer.commit() == {T0: None}


def test_calls_and_acknowledgements_fail_as_planned() -> None:
    consumer = explicit(b"a")
    consumer.fail_next("poll", KafkaError("no"))
    with pytest.raises(KafkaError, match="no"):
        consumer.poll()
    (record,) = consumer.poll().records()
    consumer.acknowledge(record)
    consumer.fail_next("acknowledgements", NotLeaderOrFollowerError("moved"))
    assert isinstance(consumer.commit()[T0], NotLeaderOrFollowerError)
    assert offsets(consumer.poll()) == [0]
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.commit()


def test_rows_are_polled_and_acknowledged() -> None:
    pytest.importorskip("pyarrow")
    consumer = explicit(b"a", b"b")
    batch = consumer.poll_arrow()
    assert batch.column("delivery_count").to_pylist() == [1, 1]
    consumer.acknowledge(batch, [True, False])
    consumer.commit()
    assert list(consumer.acknowledged.values()) == [AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE]
    assert consumer.poll_arrow(columns=["value"]).to_pydict() == {"value": [b"b"]}


def test_close_lets_open_records_come_again_and_refuses_later_calls() -> None:
    consumer = explicit(b"a")
    with consumer:
        consumer.poll()
    assert consumer.closed
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll()


def test_the_mock_for_asyncio_awaits_the_callback() -> None:
    told: list[Any] = []

    async def callback(places: Any, error: Any) -> None:
        await asyncio.sleep(0)
        told.append(places)

    async def program(consumer: AsyncShareConsumer[None, bytes]) -> int:
        count = 0
        async for record in consumer:
            consumer.acknowledge(record)
            await consumer.commit()
            count += 1
        return count

    async def run() -> None:
        consumer: AsyncMockShareConsumer[None, bytes] = AsyncMockShareConsumer(mock=explicit(b"a", b"b"))
        consumer.set_acknowledgement_commit_callback(callback)
        assert await program(consumer) == 2
        assert told == [{T0: {0}}, {T0: {1}}]
        await consumer.close()
        assert consumer.closed

    asyncio.run(run())
