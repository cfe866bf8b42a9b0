"""Decompression ahead, by no, one and four threads: the application sees the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer import ConsumerRecord, KafkaConsumer, TopicPartition
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.records import scan
from tests.behaviour.consumer_support import (
    append,
    check_damage,
    consuming,
    fill,
    offsets,
    poll_until,
    read,
    use_decoder,
)
from tests.support import native_faults
from tests.support.cluster import Cluster
from tests.support.native_faults import NO_FAULT
from tests.support.proxy import KafkaProxy
from tests.unit.protocol.records.helpers import decoder_named, decoder_of, streamed_batch

if decoder_named("native") is None:
    pytest.skip("the compiled decoder was not built", allow_module_level=True)

from pyconsumer.consumer import decode_threads as module
from pyconsumer.protocol.records import _native

pytestmark = [pytest.mark.concurrent, pytest.mark.faces]

_LONG_S = 30.0


@pytest.fixture(params=[0, 1, 4])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of threads. Even the smallest batch wakes them."""
    made = _native.DecodeAhead
    monkeypatch.setattr(module, "DecodeAhead", lambda *given: made(*given, 1))
    return int(request.param)


def counts(consumer: KafkaConsumer) -> dict[str, int]:
    """Return the queue's counters. Zeros without threads."""
    ahead = consumer._delegate.fetcher.buffer._ahead
    return dict.fromkeys(("queued", "workers", "jobs", "held", "threads"), 0) if ahead is None else ahead.counts()


def begin(consumer: KafkaConsumer, threads: int) -> list[ConsumerRecord]:
    """Poll until more is buffered, and wait until the threads have done some of it and return the records that came."""
    found: list[ConsumerRecord] = []
    buffer = consumer._delegate.fetcher.buffer
    deadline = time.monotonic() + _LONG_S
    while not buffer or (threads and not counts(consumer)["workers"]):
        assert time.monotonic() < deadline, counts(consumer)
        if not buffer:
            found += consumer.poll(100).records()
        time.sleep(0.001)
    return found


def fill_as_java(cluster: Cluster, topic: str, count: int, each: int) -> None:
    """Append batches whose zstd frames do not say their size."""
    with cluster.raw() as client:
        for _ in range(0, count, each):
            data = PartitionProduceData(index=0, records=streamed_batch(0, each, value=b"some value " * 30))
            sent = [TopicProduceData(name=topic, partition_data=[data])]
            answer = client.request(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=sent), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0


def test_records_of_all_codecs_come_in_order(cluster: Cluster, make_topic: Callable[..., str], threads: int) -> None:
    topic = make_topic(3)
    partitions = [TopicPartition(topic, number) for number in range(3)]
    codecs = ["zstd", "none", "zstd", "lz4", "gzip", "zstd", "snappy"]
    with cluster.raw() as client:
        for tp in partitions:
            for number in range(40):
                values: list[bytes | None] = [b"%d" % n * 40 for n in range(number * 50, number * 50 + 50)]
                append(client, topic, values, partition=tp.partition, codec=codecs[(number + tp.partition) % 7])
    with consuming(cluster, *partitions, decode_threads=threads, max_poll_records=70) as consumer:
        records = read(consumer, 6000)
        seen = counts(consumer)
    for tp in partitions:
        of_this = [record for record in records if record.partition == tp.partition]
        assert offsets(of_this) == list(range(2000))
        assert [record.value for record in of_this] == [b"%d" % n * 40 for n in range(2000)]
    assert (seen["queued"] > 0) == (threads > 0)


def test_frames_that_do_not_say_their_size_are_read(cluster: Cluster, topic: str, threads: int) -> None:
    fill(cluster, topic, 1)  # waits until the topic is there
    fill_as_java(cluster, topic, 1000, 50)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp, decode_threads=threads) as consumer:
        records = begin(consumer, threads)
        records += read(consumer, 1001 - len(records))
        assert (counts(consumer)["workers"] > 0) == (threads > 0)
        consumer.seek(tp, 0)
        rows = 0
        while rows < 1001:
            rows += consumer.poll_arrow(1000).num_rows
    assert offsets(records) == list(range(1001))
    assert {record.value for record in records[1:]} == {b"some value " * 30}


@pytest.mark.slow
def test_a_seek_drops_decompressed_records(cluster: Cluster, topic: str, threads: int) -> None:
    with cluster.raw() as client:
        for start in range(0, 3000, 100):
            append(client, topic, [b"%d" % n * 20 for n in range(start, start + 100)], codec="zstd")
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp, decode_threads=threads, max_poll_records=130) as consumer:
        for target in (1500, 10, 2950, 0, 1499):
            consumer.seek(tp, target)
            found = read(consumer, min(400, 3000 - target))
            assert offsets(found) == list(range(target, target + len(found)))
            assert [record.value for record in found] == [b"%d" % n * 20 for n in offsets(found)]
        consumer.seek(tp, 3000)
        consumer.poll(0)
        assert not consumer._delegate.fetcher.buffer._ahead_bytes
        deadline = time.monotonic() + _LONG_S
        while counts(consumer)["jobs"] or counts(consumer)["held"]:  # what a thread is still at
            assert time.monotonic() < deadline, counts(consumer)
            time.sleep(0.001)


def test_a_pause_and_a_resume_lose_no_record(cluster: Cluster, make_topic: Callable[..., str], threads: int) -> None:
    topic = make_topic(2)
    partitions = [TopicPartition(topic, number) for number in range(2)]
    with cluster.raw() as client:
        for tp in partitions:
            for start in range(0, 1500, 50):
                values: list[bytes | None] = [b"%d" % n * 20 for n in range(start, start + 50)]
                append(client, topic, values, partition=tp.partition, codec="zstd")
    with consuming(cluster, *partitions, decode_threads=threads, max_poll_records=60) as consumer:
        found = read(consumer, 100)
        consumer.pause(partitions[0])
        found += read(consumer, 300)
        consumer.resume(partitions[0])
        found += read(consumer, 3000 - len(found))
    for tp in partitions:
        assert offsets(r for r in found if r.partition == tp.partition) == list(range(1500))


@pytest.mark.parametrize("check_crcs", [True, False])
def test_a_damaged_batch_is_raised_when_poll_reaches_it(
    cluster: Cluster, topic: str, proxy: KafkaProxy, threads: int, check_crcs: bool
) -> None:
    with cluster.raw() as client:
        for start in range(0, 500, 50):
            append(client, topic, [b"%d" % n * 20 for n in range(start, start + 50)], codec="zstd")
    tp = TopicPartition(topic, 0)

    def damage(message: Any) -> None:
        for answer in message.responses:
            for partition in answer.partitions:
                data = bytearray(partition.records or b"")
                for info in scan(bytes(data)):
                    if info.base_offset == 200:
                        data[info.end_position - 5] ^= 0xFF
                        data[info.position + 61 + 8] ^= 0xFF
                partition.records = bytes(data)

    with consuming(
        proxy.bootstrap_servers, tp, decode_threads=threads, check_crcs=check_crcs, max_poll_records=30
    ) as consumer:
        rule = proxy.edit(ApiKey.FETCH, damage)
        found = begin(consumer, threads)
        assert offsets(found + read(consumer, 200 - len(found))) == list(range(200))
        check_damage(consumer, tp, rule, damaged=200, after=250, end=500)


@pytest.mark.blocking_only("the threads are late and the test knows when it calls")
def test_closing_does_not_wait_for_the_threads(
    cluster: Cluster, topic: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_zstd = [b"%d" % n * 20 for n in range(50)]
    with cluster.raw() as client:
        for _ in range(40):
            append(client, topic, fill_zstd, codec="zstd")
    native = native_faults.faulty_native()
    use_decoder(decoder_of(native), monkeypatch)
    monkeypatch.setattr(module, "DecodeAhead", lambda *given: native.DecodeAhead(*given, 1))
    native_faults.break_workers(NO_FAULT, 20_000_000)
    with consuming(cluster, TopicPartition(topic, 0), decode_threads=threads) as consumer:
        begin(consumer, threads)
        budget = consumer._delegate.fetcher.planner.budget
        start = time.monotonic()
        consumer.close()
        assert time.monotonic() - start < 15, "a thread is delayed by 20 s"
        assert budget.held == 0
    native_faults.break_workers(NO_FAULT)


def test_threads_are_begun_for_the_first_batch_in_zstd(cluster: Cluster, topic: str, threads: int) -> None:
    deadline = time.monotonic() + _LONG_S
    while _native.DecodeAhead(1, 1).counts()["threads"]:  # of the test before
        assert time.monotonic() < deadline
        time.sleep(0.005)
    with cluster.raw() as client:
        for codec in ("none", "gzip", "snappy", "lz4"):
            append(client, topic, [b"value" * 100] * 100, codec=codec)
    before = threading.active_count()
    with consuming(cluster, TopicPartition(topic, 0), decode_threads=threads) as consumer:
        read(consumer, 400)
        assert counts(consumer)["threads"] == 0
        with cluster.raw() as client:
            for _ in range(20):
                append(client, topic, [b"%d" % n * 20 for n in range(50)], codec="zstd")
        read(consumer, 1000)
        consumer.seek(TopicPartition(topic, 0), 400)
        poll_until(consumer, lambda: not threads or counts(consumer)["threads"])
        assert counts(consumer)["threads"] <= threads
        assert threading.active_count() - before <= 1  # these are no threads of Python
