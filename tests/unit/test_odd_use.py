"""Compiled types in the hands of code that uses them as no one should. See ``tests/fuzz/odd.py``."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.producer import batch, fast_append, future, implementation
from pyconsumer.protocol.compiled import load_compiled
from pyconsumer.protocol.records import BatchBuilder, columns, cursor, native_module
from pyconsumer.structs import TopicPartition

ROOT = Path(__file__).parents[2]
P0 = TopicPartition("t", 0)


@pytest.fixture
def records() -> Any:
    found, reason = load_compiled("pyconsumer.protocol.records._native", native_module._REVISION)
    return found or pytest.skip(reason)


@pytest.fixture
def producer() -> Any:
    found, reason = load_compiled("pyconsumer.producer._native", implementation._REVISION)
    return found or pytest.skip(reason)


def test_no_use_of_a_compiled_type_ends_the_process(records: Any, producer: Any) -> None:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.odd", "--rounds=2", "--seeds=3"]
    run = subprocess.run(
        [*command, "--limit-memory"], cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.count("28 compiled names") == run.stdout.count("no damage") == 3, run.stdout


def test_an_object_that_cannot_be_copied_raises(records: Any, producer: Any) -> None:
    for memory, builder, result, one, cursors, builders in (
        (
            batch.BufferMemory,
            BatchBuilder,
            future.BatchResult,
            future.FutureRecordMetadata,
            cursor.Cursor,
            columns.ColumnsBuilder,
        ),
        (
            producer.BufferMemory,
            producer.BatchBuilder,
            producer.BatchResult,
            producer.FutureRecordMetadata,
            records.Cursor,
            records.ColumnsBuilder,
        ),
    ):
        kept = [memory(1), builder(), result(P0), one(result(P0), 0, 0, 0, 0), cursors(P0, b"", fetch_offset=0)]
        for made in [*kept, builders()]:
            for way in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match=f"a {type(made).__name__} cannot be copied or pickled"):
                    way(made)
    for made in (
        fast_append.Appender.__new__(fast_append.Appender),
        producer.Appender.__new__(producer.Appender),
        batch.ProducerBatch.__new__(batch.ProducerBatch),
        producer.ProducerBatch.__new__(producer.ProducerBatch),
        records.DecodeAhead(1, 1),
    ):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            copy.copy(made)


def test_a_future_without_a_record_has_failed(producer: Any) -> None:
    made = producer.FutureRecordMetadata.__new__(producer.FutureRecordMetadata)
    assert (made.done(), made.failed(), made.value) == (True, True, None)
    with pytest.raises(Exception, match="without a record"):
        made.get()


def test_a_batch_without_init_is_closed_and_empty(producer: Any) -> None:
    made = producer.ProducerBatch.__new__(producer.ProducerBatch)
    assert (made.closed, made.record_count, made.memory, made.result.done) == (True, 0, 0, False)
    assert made.append(1, b"k", b"v", [], 10) is None
    made.expire()
    made.done()
    appender = producer.Appender(producer.BufferMemory(100), None, **OPTIONS)
    appender.remember("t", 1, made, 0, [0, 0])
    assert appender.append("t", b"v", None, None, None, 5) is None


OPTIONS = {"batch_size": 100, "largest": 500, "ignore_keys": False, "chooses": False, "reads_clock": True}


@pytest.mark.parametrize("sticky", [[], [0], [None, 0], [0, None], [0, 0, 0]])
def test_a_partitioners_state_of_another_form_is_left_to_python(sticky: list[Any], producer: Any) -> None:
    memory = producer.BufferMemory(1000)
    appender = producer.Appender(memory, None, **OPTIONS)
    appender.remember("t", 1, producer.ProducerBatch(P0, producer.BatchBuilder(), 0.0, memory), 0, sticky)
    assert appender.append("t", b"v", None, None, None, 5) is None


@pytest.mark.parametrize("count", [0, -1, 1 << 30])
def test_a_topic_that_cannot_be_is_left_to_python(count: int, producer: Any) -> None:
    memory = producer.BufferMemory(1000)
    appender = producer.Appender(memory, None, **OPTIONS)
    appender.remember("t", count, producer.ProducerBatch(P0, producer.BatchBuilder(), 0.0, memory), 0, [0, 0])
    assert appender.append("t", b"v", b"key", None, None, 5) is None


def test_lists_that_shrink_during_a_call_are_not_read_past_their_end(producer: Any) -> None:
    memory = producer.BufferMemory(1 << 20)
    values = [b"v" * 150] * 1000
    appender = producer.Appender(memory, values.clear, **OPTIONS)
    appender.remember("t", 1, producer.ProducerBatch(P0, producer.BatchBuilder(), 0.0, memory), 0, [0, 0])
    first = producer.ProducerBatch(P0, producer.BatchBuilder(), 0.0, memory)
    appender.remember("t", 1, first, 0, None)
    runs: list[Any] = []
    assert appender.append_many("t", values, None, 0, 0, 5, runs) == first.record_count
    assert appender.append_many("t", [b"v"], None, -5, 0, 5, runs) == -5


def test_a_batch_does_not_take_a_view_of_itself(producer: Any) -> None:
    builder = producer.BatchBuilder()
    builder.try_append(1, b"k" * 900, b"v")
    for key in (builder, memoryview(builder)):
        with pytest.raises(BufferError):
            builder.try_append(1, key, b"v" * 5000)
    del key
    assert builder.try_append(1, b"k", b"v") == 1


def test_a_batch_that_grows_during_its_build_is_rejected(producer: Any) -> None:
    builder = producer.BatchBuilder()
    builder.try_append(1, b"k", b"v")

    class Number:
        def __index__(self) -> int:
            builder.try_append(1, b"k" * 5000, b"v")
            return 0

    with pytest.raises(BufferError, match="changed while it was built"):
        builder.build(base_sequence=Number())


@pytest.mark.parametrize("pure", [True, False])
def test_the_last_relative_offset_ends_a_batch(pure: bool, producer: Any) -> None:
    builder = (BatchBuilder if pure else producer.BatchBuilder)()
    assert builder.try_append(1, b"k", b"v", relative_offset=2**31 - 1) == 2**31 - 1
    assert builder.try_append(1, b"k", b"v") is None
    assert builder.record_count == 1


def test_results_of_split_batches_never_refer_to_each_other_in_a_circle(producer: Any) -> None:
    one, other = producer.BatchResult(P0), producer.BatchResult(P0)
    one.split([(0, other)])
    for parts in ([(0, one)], [(0, other), (1, other), (2, "x")], [(0, None)]):
        with pytest.raises(TypeError, match="a batch is split into new ones"):
            other.split(parts)
    with pytest.raises(TypeError, match="a function is called"):
        other.on_done(())


def test_functions_check_their_arguments(records: Any) -> None:
    with pytest.raises(IndexError):
        records.first_offset([])
    with pytest.raises(TypeError):
        records.first_offset(5)
    for origin in (None, (), ("t", 0, 1, 2)):
        with pytest.raises(TypeError, match="an origin is a RecordOrigin"):
            records.make_record(origin, 1, 2, b"k", b"v")
    for raw in ([None], [5], [object()]):
        with pytest.raises(TypeError):
            records.convert(raw, 0, bytes.decode, bytes.decode, [])
        with pytest.raises(TypeError):
            records.ColumnsBuilder().add(raw)
    text = records.ConsumerRecord("t", 0, 1, key="text")
    assert isinstance(records.convert([text], 0, bytes.decode, None, [])[2], TypeError)
    builder = records.ColumnsBuilder()
    with pytest.raises(TypeError, match="a column is made of bytes or None"):
        builder.add([records.ConsumerRecord("t", 0, 1, key=b"k"), text])
    assert len(builder) == 1
    assert len(builder.build().keys) == 1


def test_records_dropped_during_their_conversion_are_not_read(records: Any) -> None:
    raw = [records.ConsumerRecord("t", 0, n, value=b"v") for n in range(100)]

    def shorten(data: bytes) -> bytes:
        del raw[1:]
        return data

    with pytest.raises(IndexError):
        records.convert(raw, 0, None, shorten, [])
