"""The fast path of records into their batches, in each implementation."""

from __future__ import annotations

import enum
import gc
import os
import random
import sys
import threading
import weakref
from typing import Any

import pytest

from pyconsumer.producer import implementation
from pyconsumer.producer.partitioner import DefaultPartitioner, murmur2
from pyconsumer.protocol.compiled import load_compiled
from pyconsumer.protocol.records import BatchBuilder, iter_records
from pyconsumer.protocol.records.record import size_of_headers
from pyconsumer.structs import TopicPartition

P0 = TopicPartition("t", 0)
NOW = 1_700_000_000_000


@pytest.fixture
def native() -> Any:
    compiled, reason = load_compiled("pyconsumer.producer._native", implementation._REVISION)
    if compiled is None:
        pytest.skip(reason)
    return compiled


class Text(str):
    __slots__ = ()


class Bytes(bytes):
    pass


class Rows(list[Any]):
    pass


class Topic(enum.StrEnum):
    ORDERS = "t"


class Bench:
    """An appender with one open batch of each of four partitions."""

    def __init__(self, native: Any, *, memory: int = 1 << 20, size_limit: int = 1 << 16, **changes: Any) -> None:
        self.memory = native.BufferMemory(memory)
        self.woken = 0
        options = {"batch_size": 1000, "largest": 5000, "ignore_keys": False, "chooses": False, "reads_clock": True}
        self.appender = native.Appender(self.memory, self.wake, **(options | changes))
        self.sticky = [2, 0]
        self.batches = [
            native.ProducerBatch(TopicPartition("t", n), native.BatchBuilder(size_limit=size_limit), 0.0, self.memory)
            for n in range(4)
        ]
        for n, batch in enumerate(self.batches):
            self.appender.remember("t", 4, batch, n, self.sticky)

    def wake(self) -> None:
        self.woken += 1

    def append(self, value: Any = b"v", key: Any = None, partition: Any = None, **changes: Any) -> Any:
        options = {"topic": "t", "headers": None, "timestamp_ms": NOW} | changes
        return self.appender.append(
            options["topic"], value, key, options["headers"], partition, options["timestamp_ms"]
        )

    def records(self) -> list[list[tuple[bytes | None, bytes | None]]]:
        """Keys and values in each batch."""
        return [
            [(record.key, record.value) for record in iter_records(memoryview(batch.builder.build()))]
            for batch in self.batches
        ]


def random_records(source: random.Random, count: int) -> list[tuple[Any, ...]]:
    sizes = (0, 1, 60, 70, 8200, 20_000)
    headers = ((), [("a", b"1")], [("ä" * 70, None), ("", b""), ("x", b"y" * 200)])
    return [
        (
            NOW + source.choice((0, -5, 63, 64, 5000, -(1 << 40), 1 << 40)),
            source.choice((None, source.randbytes(source.choice(sizes)))),
            source.choice((None, source.randbytes(source.choice(sizes)))),
            source.choice(headers),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("seed", range(3))
def test_both_builders_write_the_same_bytes(codec: str, seed: int, native: Any) -> None:
    source = random.Random(seed)
    for limit, horizon in ((None, None), (30_000, None), (200, 12345), (0, None)):
        options: dict[str, Any] = {"size_limit": limit, "delete_horizon_ms": horizon, "expected_ratio": 0.5}
        one, other = BatchBuilder(codec, **options), native.BatchBuilder(codec, **options)
        for record in random_records(source, 40):
            assert one.try_append(*record) == other.try_append(*record)
            for name in ("record_count", "estimated_size", "base_timestamp", "max_timestamp", "codec"):
                assert getattr(one, name) == getattr(other, name), name
        fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 5, "is_transactional": True}
        for more in ({}, {"is_control": True, "leader_epoch": 3}, {"log_append_time_ms": 9, "last_offset_delta": 99}):
            assert one.build(10, **fields, **more) == other.build(10, **fields, **more)
        assert one.compression_ratio == other.compression_ratio


def test_both_builders_reject_the_same_records(native: Any) -> None:
    for kind in (BatchBuilder, native.BatchBuilder):
        builder = kind()
        builder.try_append(NOW, b"k", b"v", relative_offset=5)
        with pytest.raises(ValueError, match="relative offset 5 does not come after 5"):
            builder.try_append(NOW, b"k", b"v", relative_offset=5)
        with pytest.raises(ValueError, match="last offset delta 4 is less than"):
            builder.build(last_offset_delta=4)
        with pytest.raises(TypeError):
            builder.try_append(NOW, "text", b"v")
        assert builder.record_count == 1
        assert builder.try_append(NOW, bytearray(b"k"), memoryview(b"v")) == 6


def test_hashes_equal_those_of_the_partitioner(native: Any) -> None:
    source = random.Random(1)
    for length in [*range(40), 1000, 4099]:
        key = source.randbytes(length)
        assert native.murmur2(key) == murmur2(key)


def test_records_with_a_key_go_to_the_partition_of_the_partitioner(native: Any) -> None:
    bench = Bench(native)
    chooser = DefaultPartitioner(1000)
    expected: list[list[tuple[bytes | None, bytes | None]]] = [[], [], [], []]
    for number in range(100):
        key = b"key-%d" % number
        assert bench.append(b"%d" % number, key) is not None
        expected[chooser.partition("t", key, 4, [0, 1, 2, 3], 30)].append((key, b"%d" % number))
    assert bench.records() == expected
    assert all(expected)


def test_records_without_a_key_stay_in_one_partition_for_one_batch(native: Any) -> None:
    bench = Bench(native)
    appended = 0
    while bench.append(b"x" * 79) is not None:
        appended += 1
    assert appended == 10  # 21 + 79 bytes each
    assert bench.sticky == [2, 1000]
    assert [len(found) for found in bench.records()] == [0, 0, 10, 0]
    bench.sticky[:] = [1, 0]
    assert bench.append() is not None
    assert len(bench.records()[1]) == 1


def test_the_future_of_an_appended_record(native: Any) -> None:
    bench = Bench(native)
    bench.append(b"first", partition=3)
    future = bench.append("zwölf", "k", 3)
    bench.batches[3].result.finish(100, -1, None)
    found = future.get(0)
    assert tuple(found) == ("t", 3, 101, NOW, 1, 6, -1)
    assert bench.records()[3] == [(None, b"first"), (b"k", "zwölf".encode())]


@pytest.mark.parametrize("topic", [Topic.ORDERS, Text("t")])
def test_a_topic_may_be_any_kind_of_str(topic: str, native: Any) -> None:
    bench = Bench(native)
    for n, batch in enumerate(bench.batches):
        bench.appender.remember(topic, 4, batch, n, bench.sticky)
    assert bench.append(topic=topic, partition=1) is not None
    assert bench.append(partition=1) is not None
    runs: list[Any] = []
    assert bench.appender.append_many(topic, Rows([b"v", "w"]), Rows(["k", None]), 0, 1, NOW, runs) == 2
    assert bench.records()[1] == [(None, b"v"), (None, b"v"), (b"k", b"v"), (None, b"w")]


def test_subclasses_in_batches_and_results(twin: dict[str, type]) -> None:
    kinds: Any = twin
    memory = kinds["BufferMemory"](1000)
    builder = kinds["BatchBuilder"](size_limit=500)
    batch = kinds["ProducerBatch"](P0, builder, 0.0, memory)
    assert batch.append(NOW, Bytes(b"k"), Bytes(b"v"), Rows([(Text("h"), Bytes(b"1"))]), 10) == 0
    expected = BatchBuilder()
    expected.try_append(NOW, b"k", b"v", [("h", b"1")])
    assert builder.build() == expected.build()
    assert batch.built(Bytes(b"data")) == batch.data == b"data"
    batch.take_number(TopicPartition("7", 1), 5)
    assert (batch.producer, batch.base_sequence) == (("7", 1), 5)
    whole, part = kinds["BatchResult"](P0), kinds["BatchResult"](P0)
    whole.split(Rows([(0, part)]))
    assert whole.of(3) == (part, 3)


def test_hashes_of_all_bytes_like_objects(native: Any) -> None:
    for key in (Bytes(b"key"), bytearray(b"key"), memoryview(b"a key")[2:]):
        assert native.murmur2(key) == murmur2(b"key")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"topic": "other"}, "a topic without an open batch"),
        ({"topic": 7}, "no topic"),
        ({"headers": [("a", bytearray(b"b"))]}, "a header to be copied first"),
        ({"headers": [("a", b"b"), ["a", b"b"]]}, "no pair"),
        ({"headers": [("a", b"b", b"c")]}, "no pair"),
        ({"headers": [(Text("a"), b"b")]}, "text of another kind"),
        ({"headers": [("\ud800", b"b")]}, "text that UTF-8 does not have"),
        ({"headers": [("a", b"x" * 5000)]}, "too large"),
        ({"headers": {"a": b"b"}}, "no list"),
        ({"headers": iter([("a", b"b")])}, "what can be read once"),
        ({"timestamp_ms": -1}, "a time before 1970"),
        ({"timestamp_ms": 1 << 63}, "no time at all"),
        ({"timestamp_ms": 1.5}, "not a number of ms"),
        ({"partition": 4}, "no such partition"),
        ({"partition": -1}, "no partition"),
        ({"partition": True}, "no number"),
        ({"partition": 1 << 40}, "no partition"),
        ({"value": bytearray(b"v")}, "bytes to be copied first"),
        ({"value": {"a": 1}}, "nothing to be sent as it is"),
        ({"value": "\ud800"}, "text that UTF-8 does not have"),
        ({"key": "\ud800"}, "text that UTF-8 does not have"),
        ({"value": b"x" * 5000}, "too large"),
    ],
)
def test_uncommon_appends_are_left_to_python(changes: dict[str, Any], why: str, native: Any) -> None:
    bench = Bench(native)
    before = sys.getrefcount(bench.batches[2])
    assert bench.append(**changes) is None, why
    assert bench.records() == [[], [], [], []]
    assert (bench.memory.used, bench.appender.records, bench.woken) == (0, 0, 0)
    after = sys.getrefcount(bench.batches[2])
    assert after == before


def test_settings_of_a_producer_can_leave_all_appends_to_python(native: Any) -> None:
    assert Bench(native, chooses=True).append() is None
    assert Bench(native, chooses=True).append(partition=1) is not None
    assert Bench(native, reads_clock=False).append(timestamp_ms=None) is None
    assert Bench(native).append(timestamp_ms=None) is not None
    ignoring = Bench(native, ignore_keys=True)
    assert [ignoring.append(key=b"%d" % n) is not None for n in range(5)] == [True] * 5
    assert len(ignoring.records()[2]) == 5


def test_closed_batches_and_closed_producers_take_no_record(native: Any) -> None:
    bench = Bench(native)
    bench.batches[2].close()
    assert bench.append() is None
    assert bench.append(partition=1) is not None
    bench.appender.close()
    assert not bench.appender.is_open
    assert bench.append(partition=1) is None


def test_a_forgotten_batch_takes_no_record(native: Any) -> None:
    bench = Bench(native)
    assert bench.append(partition=1) is not None
    bench.appender.forget()
    assert bench.append(partition=1) is None


def test_a_full_batch_and_full_memory_take_no_record(native: Any) -> None:
    small = Bench(native, size_limit=200)
    assert small.append(b"x" * 150) is not None
    assert small.append(b"x" * 150) is None
    tight = Bench(native, memory=100)
    assert tight.append(b"x" * 70) is not None
    assert tight.append(b"x" * 70) is None
    assert tight.memory.used == 91
    tight.batches[2].release()
    assert tight.memory.used == 0


def test_the_sender_is_woken_once_when_a_batch_is_large_enough(native: Any) -> None:
    bench = Bench(native)
    for _ in range(30):
        bench.append(b"x" * 100, partition=0)
    assert bench.woken == 1


def test_a_forked_process_does_not_append_to_its_parents_batches(native: Any) -> None:
    bench = Bench(native)
    child = os.fork()
    if not child:
        os._exit(0 if bench.append() is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bench.append() is not None


def test_memory_of_records_is_given_back_with_their_batch(native: Any) -> None:
    bench = Bench(native)
    for _ in range(9):
        bench.append(b"x" * 100)
    batch = bench.batches[2]
    batch.release()
    assert (batch.memory, batch.record_count, bench.memory.used) == (0, 9, 0)
    assert batch.builder.estimated_size == 61


@pytest.mark.concurrent
def test_records_of_several_threads_are_complete_while_another_thread_closes_batches(native: Any) -> None:
    memory = native.BufferMemory(1 << 40)
    bench = Bench(native, memory=1 << 40, batch_size=1 << 40)
    taken: list[Any] = []
    stop = threading.Event()

    def next_batch() -> None:
        batch = native.ProducerBatch(P0, native.BatchBuilder(), 0.0, memory)
        old, bench.batches[0] = bench.batches[0], batch
        bench.appender.remember("t", 4, batch, 0, None)
        old.close()
        taken.append((old, old.record_count, old.builder.build()))

    def close() -> None:
        while not stop.is_set():
            next_batch()

    def send(name: int) -> None:
        sent = 0
        while sent < 20_000:
            if bench.append(b"%d-%d" % (name, sent), partition=0) is not None:
                sent += 1

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        closer = threading.Thread(target=close)
        senders = [threading.Thread(target=send, args=(name,)) for name in range(3)]
        for thread in (closer, *senders):
            thread.start()
        for thread in senders:
            thread.join()
        stop.set()
        closer.join()
    finally:
        sys.setswitchinterval(before)
    next_batch()
    values = []
    for batch, count, data in taken:
        assert batch.record_count == count
        values += [record.value for record in iter_records(memoryview(data))]
    for name in range(3):
        mine = [value for value in values if value and value.startswith(b"%d-" % name)]
        assert mine == [b"%d-%d" % (name, n) for n in range(20_000)]
    assert bench.appender.records == 60_000


def test_many_records_are_appended_until_python_must_decide(native: Any) -> None:
    bench = Bench(native)
    runs: list[Any] = []
    values = [b"%d" % n for n in range(100)]
    at = bench.appender.append_many("t", values, None, 0, None, NOW, runs)
    assert bench.sticky == [2, at * 23 if at <= 10 else 10 * 22 + (at - 10) * 23]
    assert [(first, count) for _, first, count in runs] == [(0, at)]
    assert runs[0][0] is bench.batches[2].result
    assert at < 100
    bench.sticky[:] = [1, 0]
    assert bench.appender.append_many("t", values, None, at, None, NOW, runs) > at
    assert runs[1][0] is bench.batches[1].result
    assert [value for found in (2, 1) for _, value in bench.records()[found]] == values[: sum(run[2] for run in runs)]


def test_many_records_with_keys_and_an_invalid_one(native: Any) -> None:
    bench = Bench(native)
    runs: list[Any] = []
    keys = [b"key-%d" % n for n in range(20)]
    values: list[Any] = ["x"] * 15 + [7] + ["x"] * 4
    assert bench.appender.append_many("t", values, keys, 0, None, NOW, runs) == 15
    assert sum(count for _, _, count in runs) == 15
    assert sum(map(len, bench.records())) == 15
    for wrong in ({"topic": "u"}, {"keys": keys[:3]}, {"partition": "1"}, {"timestamp_ms": -1}):
        options = {"topic": "t", "keys": keys, "partition": None, "timestamp_ms": NOW} | wrong
        found = bench.appender.append_many(
            options["topic"], values, options["keys"], 16, options["partition"], options["timestamp_ms"], runs
        )
        assert found == 16, wrong


@pytest.mark.parametrize(
    "headers", [None, (), [], [("a", b"1")], (("ä" * 70, None), ("", b""), ("x", b"y" * 200)), [("n", b"")] * 100]
)
def test_headers_are_written_as_by_the_builder(headers: Any, native: Any) -> None:
    bench = Bench(native)
    expected = BatchBuilder()
    future = bench.append(b"v", b"k", 1, headers=headers)
    assert expected.try_append(NOW, b"k", b"v", headers or ()) == 0
    runs: list[Any] = []
    assert bench.appender.append_many("t", [b"v", None], [None, b"k"], 0, 1, NOW, runs, headers) == 2
    for key, value in ((None, b"v"), (b"k", None)):
        expected.try_append(NOW, key, value, headers or ())
    batch = bench.batches[1]
    assert batch.builder.build() == expected.build()
    batch.result.finish(100, -1, None)
    assert future.get(0)[-1] == size_of_headers(headers or ())
    charge = sum(10 + 4 * len(name) + len(data or b"") for name, data in headers or ())
    assert batch.memory == bench.memory.used == 3 * (21 + charge) + 4
    assert bench.appender.append_many("t", [b"v"], None, 0, 1, NOW, runs, [("a", 7)]) == 0


def test_a_call_gives_other_threads_their_turn(native: Any) -> None:
    bench = Bench(native, batch_size=1 << 40, size_limit=1 << 40, memory=1 << 40)
    assert bench.appender.append_many("t", [b"v"] * 25_000, None, 0, None, NOW, []) == 10_000


def test_ranges_of_a_batch_that_was_split(twin: dict[str, type]) -> None:
    kind: Any = twin["BatchResult"]
    whole, parts = kind(P0), [kind(P0), kind(P0), kind(P0)]
    assert whole.ranges(2, 5) == [(whole, 2, 5)]
    whole.split([(0, parts[0]), (4, parts[1]), (6, parts[2])])
    assert whole.ranges(0, 10) == [(parts[0], 0, 4), (parts[1], 0, 2), (parts[2], 0, 4)]
    assert whole.ranges(3, 2) == [(parts[0], 3, 1), (parts[1], 0, 1)]
    assert whole.ranges(7, 1) == [(parts[2], 1, 1)]


def _futures(native: Any) -> dict[str, type[Any]]:
    """Subclasses of the compiled future: as pyconsumer.compat makes one, derived from that, and others."""
    base = native.FutureRecordMetadata
    light = native.untracked(type("Light", (base,), {"__slots__": ()}))
    return {
        "light": light,
        "derived": type("Derived", (light,), {"__slots__": ()}),
        "with attributes": native.untracked(type("WithAttributes", (base,), {"__slots__": ("a",)})),
        "with a dictionary": native.untracked(type("WithDictionary", (base,), {})),
        "plain": type("Plain", (base,), {"__slots__": ()}),
    }


@pytest.mark.parametrize("kind", ["light", "derived", "with attributes", "with a dictionary", "plain"])
def test_futures_of_a_subclass_are_whole_when_their_memory_is_used_again(native: Any, kind: str) -> None:
    future_class = _futures(native)[kind]
    bench = Bench(native, size_limit=1 << 20, memory=1 << 22, batch_size=1 << 20, future_class=future_class)
    held: list[Any] = []
    for number in range(4000):  # more than are kept, in any order
        future = bench.appender.append("t", b"v" * (number % 7), None, None, 1, NOW + number)
        assert type(future) is future_class
        assert not gc.is_tracked(future)
        assert future.place == (bench.batches[1].result, number)
        noted = weakref.ref(future)
        assert noted() is future
        held.append((future, number))
        if number % 5 == 0:
            held[:] = held[:: 2 + number % 2]
        del future
        assert noted() is held[-1][0] or noted() is None
    called: list[Any] = []
    for future, _ in held:
        future.add_callback(called.append)
    bench.batches[1].result.finish(100, -1, None)
    metadata = [future.get(0) for future, _ in held]
    assert [(each.offset, each.timestamp, each.serialized_value_size) for each in metadata] == [
        (100 + number, NOW + number, number % 7) for _, number in held
    ]
    assert called == metadata
    held.clear()
    before = sys.getrefcount(future_class)
    bench.appender.append("t", b"", None, None, 2, NOW)
    assert sys.getrefcount(future_class) == before  # each object had one reference to its class


def test_only_a_subclass_of_the_future_is_untracked(native: Any) -> None:
    for other in (native.FutureRecordMetadata, int):
        with pytest.raises(TypeError, match="subclass of FutureRecordMetadata"):
            native.untracked(other)


def test_a_future_of_an_untracked_subclass_without_a_record_is_done(native: Any) -> None:
    light = _futures(native)["light"]
    for _ in range(3):
        future = light.__new__(light)
        assert future.done()
        assert future.failed()


@pytest.mark.parametrize("takes_text", [True, False])
def test_text_may_be_left_to_python(native: Any, takes_text: bool) -> None:
    append = Bench(native, takes_text=takes_text).appender.append

    assert (append("t", "text", None, None, 1, NOW) is not None) == takes_text
    assert (append("t", b"", "text", None, 1, NOW) is not None) == takes_text
    assert append("t", b"", b"", None, 1, NOW) is not None
    assert append("t", None, None, None, 1, NOW) is not None
