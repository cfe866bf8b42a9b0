"""The producer without a cluster. Its common rules with KafkaProducer are tested in tests/behaviour."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from pyconsumer import KafkaProducer, Producer, TopicPartition
from pyconsumer.aio import AsyncConsumer, AsyncKafkaConsumer, AsyncKafkaProducer, AsyncProducer
from pyconsumer.errors import (
    IllegalStateError,
    KafkaError,
    ProducerFencedError,
    RequestCancelledError,
    TransactionAbortedError,
)
from pyconsumer.testing import (
    AsyncMockConsumer,
    AsyncMockProducer,
    ManualClock,
    MockProducer,
    SentRecord,
    make_record,
    make_records,
    poll_result,
)


@pytest.mark.parametrize(
    ("interface", "classes"),
    [
        (Producer, (KafkaProducer, MockProducer)),
        (AsyncProducer, (AsyncKafkaProducer, AsyncMockProducer)),
        (AsyncConsumer, (AsyncKafkaConsumer, AsyncMockConsumer)),
    ],
)
def test_both_have_every_method_of_the_interface_with_the_same_arguments(interface: type, classes: tuple) -> None:
    wanted = [name for name, _ in inspect.getmembers(interface, inspect.isfunction) if not name.startswith("_")]
    assert {"close", "metrics"} <= set(wanted)
    for name in wanted:
        expected = list(inspect.signature(getattr(interface, name)).parameters)
        for cls in classes:
            assert getattr(cls, name) is not getattr(interface, name), f"{cls.__name__} has no {name} of its own"
            assert list(inspect.signature(getattr(cls, name)).parameters) == expected, (cls, name)
            assert inspect.iscoroutinefunction(getattr(cls, name)) is inspect.iscoroutinefunction(
                getattr(interface, name)
            ), (cls, name)


def test_sent_records_are_kept() -> None:
    clock = ManualClock(wall_ms=5_000)
    producer = MockProducer(value_serializer=str.encode, partitions={"t": 2}, clock=clock)
    producer.send("t", "v", b"k", [("h", b"1")], 1)
    producer.send("t", "w", timestamp_ms=7)
    assert producer.history == [
        SentRecord("t", "v", b"k", (("h", b"1"),), 1, 5_000, b"v", b"k"),
        SentRecord("t", "w", None, (), 0, 7, b"w", None),
    ]
    assert producer.partitions_for("t") == {0, 1}
    assert producer.partitions_for("other") == {0}
    producer.clear()
    assert producer.history == []
    assert producer.send("t", "x", partition=1).get().offset == 1  # the log continues


def test_the_test_completes_or_fails_each_record() -> None:
    producer, notified = MockProducer(auto_complete=False), []
    futures = [producer.send("t", b"%d" % number) for number in range(3)]
    futures[1].add_callback(notified.append).add_errback(notified.append)
    assert (producer.pending, [future.done() for future in futures]) == (3, [False] * 3)
    assert producer.complete_next()
    assert producer.error_next(KafkaError("refused"))
    assert [str(error) for error in notified] == ["refused"]
    with pytest.raises(KafkaError, match="refused"):
        futures[1].get()
    producer.flush()
    assert (producer.flushes, futures[2].get().offset) == (1, 1)
    assert not producer.complete_next()
    assert not producer.error_next(KafkaError())
    assert [record.value for record in producer.history] == [b"0", b"2"]


def test_calls_fail_as_planned() -> None:
    producer = MockProducer(transactional_id="id")
    producer.init_transactions()
    for call, run in (
        ("flush", lambda: producer.flush()),
        ("partitions_for", lambda: producer.partitions_for("t")),
        ("begin_transaction", lambda: producer.begin_transaction()),
    ):
        producer.fail_next(call, KafkaError(call))
        with pytest.raises(KafkaError, match=call):
            run()
    producer.begin_transaction()
    for call, run in (
        ("send", lambda: producer.send("t", b"v")),
        ("send_offsets_to_transaction", lambda: producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")),
        ("commit_transaction", lambda: producer.commit_transaction()),
        ("abort_transaction", lambda: producer.abort_transaction()),
        ("close", lambda: producer.close()),
    ):
        producer.fail_next(call, KafkaError(call))
        with pytest.raises(KafkaError, match=call):
            run()
    assert (producer.history, producer.uncommitted, producer.in_transaction) == ([], [], True)
    with pytest.raises(ValueError, match="a MockProducer can fail in send"):
        producer.fail_next("transaction", KafkaError())


def test_records_of_an_open_transaction_are_kept_apart() -> None:
    tp = TopicPartition("t", 0)
    producer = MockProducer(transactional_id="id", auto_complete=False)
    producer.init_transactions()
    producer.begin_transaction()
    future = producer.send("t", b"v")
    producer.send_offsets_to_transaction({tp: 3}, "g")
    assert (producer.history, len(producer.uncommitted)) == ([], 1)
    assert producer.sent_offsets["g"][tp].offset == 3
    producer.abort_transaction()
    assert isinstance(future.exception, TransactionAbortedError)
    assert (producer.uncommitted, producer.sent_offsets, producer.offsets_history) == ([], {}, [])
    with pytest.raises(RuntimeError, match="mine"), producer.transaction():
        raise RuntimeError("mine")
    with producer.transaction():
        producer.send("t", b"w")
    assert (producer.commits, producer.aborts) == (1, 2)
    assert [record.value for record in producer.history] == [b"w"]


def test_a_fenced_producer_fails_at_its_next_request_to_the_coordinator() -> None:
    producer = MockProducer(transactional_id="id")
    producer.init_transactions()
    producer.begin_transaction()
    producer.fence()
    with pytest.raises(ProducerFencedError):
        producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
    with pytest.raises(ProducerFencedError):
        producer.abort_transaction()
    with pytest.raises(IllegalStateError, match="transactional_id"):
        MockProducer().fence()


def test_closing_without_time_drops_queued_records() -> None:
    producer = MockProducer(auto_complete=False)
    future = producer.send("t", b"v")
    producer.close(timeout_ms=0)
    assert isinstance(future.exception, RequestCancelledError)
    assert producer.closed
    producer.close()
    with MockProducer(auto_complete=False) as other:
        future = other.send("t", b"v")
    assert future.succeeded()


def test_on_a_loop_a_record_waits_for_the_test() -> None:
    async def program() -> None:
        async with AsyncMockProducer(auto_complete=False) as producer:
            sending = asyncio.create_task(producer.send_and_wait("t", b"v"))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not sending.done()
            producer.mock.complete_next()
            assert (await sending).offset == 0
            sending = asyncio.create_task(producer.send_and_wait("t", b"v"))
            for _ in range(5):
                await asyncio.sleep(0)
            producer.mock.error_next(KafkaError("refused"))
            with pytest.raises(KafkaError, match="refused"):
                await sending
        assert producer.closed

    asyncio.run(program())


def test_builders() -> None:
    record = make_record("t", "v", "k", partition=2, offset=5, headers={"h": b"1"})
    assert (record.topic, record.partition, record.offset, record.value, record.key) == ("t", 2, 5, "v", "k")
    assert (record.timestamp, record.headers) == (1_700_000_000_005, [("h", b"1")])
    records = make_records("t", ["a", "b"], keys=["x", "y"], first_offset=7, timestamp_ms=100)
    assert [(r.offset, r.timestamp, r.key, r.value) for r in records] == [(7, 100, "x", "a"), (8, 101, "y", "b")]
    with pytest.raises(ValueError, match="2 values and 1 keys"):
        make_records("t", ["a", "b"], ["x"])
    found = poll_result([records[1], record, records[0]])
    assert found.count() == 3
    assert [r.offset for r in found.records(TopicPartition("t", 0))] == [7, 8]
    assert found.next_offsets()[TopicPartition("t", 0)].offset == 9
