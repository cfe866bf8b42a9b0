"""Tests of decompression ahead by threads, through Python. ``python -m tests.fuzz.ahead`` tests them without it."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.errors import CorruptRecordError
from pyconsumer.protocol.records import scan
from tests.fuzz.compare import difference, read
from tests.fuzz.mutate import Inputs
from tests.support import native_faults
from tests.support.native_faults import NO_FAULT, NO_MEMORY, NO_START
from tests.unit.protocol.records.helpers import PURE, TP, batch, decoder_named, streamed_batch

if decoder_named("native") is None:
    pytest.skip("the compiled decoder was not built", allow_module_level=True)

from pyconsumer.protocol.records import _native

#: Random inputs that are compared; the proof's 100,000 are asked for by the environment.
_INPUTS = int(os.environ.get("PYCONSUMER_AHEAD_INPUTS", "3000"))
_LONG_S = 10.0


@pytest.fixture(autouse=True)
def _nothing_is_left() -> None:
    """Begin without threads."""
    wait_until_no_thread_is_left()


@pytest.fixture
def break_workers() -> Iterator[Callable[..., None]]:
    """A function that injects faults into the threads, which are those of a build for tests in this case."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[__name__], "_native", native_faults.faulty_native())
        wait_until_no_thread_is_left()
        yield native_faults.break_workers
        native_faults.break_workers(NO_FAULT)


def a_queue(threads: int = 1, size_bytes: int = 4 << 20) -> _native.DecodeAhead:
    return _native.DecodeAhead(threads, size_bytes, 1)


def a_set(batches: int = 20, codec: str = "zstd", records: int = 50) -> bytes:
    return b"".join(batch(n * records, records, codec=codec, value=b"some value " * 30) for n in range(batches))


def batch_in_zstd(base_offset: int, count: int, value: bytes) -> bytes:
    return batch(base_offset, count, codec="zstd", value=value)


def a_cursor(data: bytes | bytearray, at: int = 0, **more: Any) -> Any:
    return _native.Cursor(TP, memoryview(data), fetch_offset=at, **more)


def offsets(cursor: Any) -> list[int]:
    found = []
    while not cursor.exhausted:
        found += [record.offset for record in cursor.take(7)]
    return found


def wait_until(queue: _native.DecodeAhead, name: str, least: int) -> None:
    """Give the threads time until a count is so high."""
    end = time.monotonic() + _LONG_S
    while queue.counts()[name] < least:
        assert time.monotonic() < end, queue.counts()
        time.sleep(0.001)


def wait_until_no_thread_is_left() -> None:
    end = time.monotonic() + _LONG_S
    while _native.DecodeAhead(1, 1).counts()["threads"]:
        assert time.monotonic() < end
        gc.collect()  # what an error has a traceback of
        time.sleep(0.001)


def wait_until_free(data: bytearray, queue: _native.DecodeAhead) -> None:
    """Wait until the threads have released their views of some memory."""
    end = time.monotonic() + _LONG_S
    while True:
        queue.add(a_cursor(b""))  # whatever calls the queue lets go of what has ended
        try:
            data.append(0)
        except BufferError:
            assert time.monotonic() < end
            time.sleep(0.001)
        else:
            return


# -- the same as without threads


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4])
def test_output_of_threads_equals_that_of_pure_python(threads: int) -> None:
    queue = _native.DecodeAhead(threads, 1 << 17, 1)
    source = random.Random(threads)

    def queued(*given: Any, **named: Any) -> Any:
        cursor = _native.Cursor(*given, **named)
        queue.add(cursor)
        if source.random() < 0.3:  # sometimes they have had the time for all, sometimes for some
            time.sleep(source.choice((0.00002, 0.0002)))
        return cursor

    native = decoder_named("native")
    assert native is not None
    native = native._replace(Cursor=queued)
    made = Inputs(threads, (0, 2, 4, 4, 4, 4))
    for number in range(_INPUTS):
        data = made.next()
        wrong = difference(read(native, data, number), read(PURE, data, number))
        assert wrong is None, f"{data.hex()} {wrong}"

    counts = queue.counts()
    assert counts["queued"] > _INPUTS // 5
    assert counts["workers"] > _INPUTS // 50
    assert (counts["jobs"], counts["held"]) == (0, 0)


@pytest.mark.parametrize("make", [batch_in_zstd, streamed_batch], ids=["with its size", "as Java has it"])
def test_all_is_ready_when_the_reader_comes_late(make: Callable[..., bytes]) -> None:
    queue = a_queue()
    cursor = a_cursor(b"".join(make(n * 50, 50, value=b"some value " * 30) for n in range(20)))
    assert queue.add(cursor)
    wait_until(queue, "workers", 20)

    assert offsets(cursor) == list(range(1000))
    assert queue.counts()["workers"] == 20
    assert not queue.is_used


def test_the_reader_decompresses_everything_if_no_thread_starts(break_workers: Callable[..., None]) -> None:
    break_workers(NO_START)
    queue = a_queue()
    cursor = a_cursor(a_set())
    queue.add(cursor)

    assert offsets(cursor) == list(range(1000))
    assert queue.counts()["threads"] == queue.counts()["workers"] == 0


def test_a_thread_without_memory_leaves_the_work_to_the_reader(break_workers: Callable[..., None]) -> None:
    break_workers(NO_MEMORY)
    queue = a_queue()
    cursor = a_cursor(a_set())
    queue.add(cursor)
    wait_until(queue, "workers", 20)

    assert offsets(cursor) == list(range(1000))
    assert queue.counts()["held"] == 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_only_zstd_batches_at_wanted_offsets_are_queued(codec: str) -> None:
    queue = a_queue()

    assert not queue.add(a_cursor(a_set(codec=codec)))
    assert not queue.add(a_cursor(a_set(3), at=150))  # all of it is below the wanted offset
    assert not queue.is_used


def test_output_beyond_the_room_is_left_to_the_reader() -> None:
    queue = a_queue(size_bytes=1 << 16)
    cursor = a_cursor(a_set())  # 20 batches, of which each becomes 17 kB
    queue.add(cursor)
    wait_until(queue, "workers", 2)
    time.sleep(0.02)

    assert queue.counts()["workers"] == 2
    assert queue.counts()["held"] == 1 << 16
    assert offsets(cursor) == list(range(1000))
    assert not a_queue(size_bytes=1 << 14).add(a_cursor(a_set()))


def test_memory_is_charged_for_the_actual_output_only() -> None:
    """A frame as Java writes it says only that its one block may become 128 KiB."""
    queue = a_queue(size_bytes=1 << 18)
    cursor = a_cursor(b"".join(streamed_batch(n * 10, 10, value=b"some value " * 30) for n in range(30)))
    queue.add(cursor)
    wait_until(queue, "workers", 30)
    deadline = time.monotonic() + _LONG_S
    while queue.counts()["held"] != 30 * 4096:  # that of the last run is known when it is done
        assert time.monotonic() < deadline, queue.counts()
        time.sleep(0.001)

    assert offsets(cursor) == list(range(300))
    assert queue.counts()["held"] == 0


def test_a_damaged_batch_takes_no_room() -> None:
    queue = a_queue()
    data = bytearray(b"".join(streamed_batch(n * 10, 10, value=b"some value " * 30) for n in range(30)))
    for info in scan(bytes(data))[::2]:
        data[info.end_position - 4] ^= 0xFF
    cursor = a_cursor(data)
    queue.add(cursor)
    deadline = time.monotonic() + _LONG_S
    while queue.counts()["workers"] < 30 or queue.counts()["held"] != 15 * 4096:
        assert time.monotonic() < deadline, queue.counts()
        time.sleep(0.001)


def test_held_memory_stays_within_its_limit() -> None:
    queue = a_queue(threads=4, size_bytes=1 << 18)
    data = b"".join(streamed_batch(n * 10, 10, value=os.urandom(900)) for n in range(30))
    cursors = [a_cursor(data) for _ in range(8)]
    for cursor in cursors:
        queue.add(cursor)
    wait_until(queue, "workers", 1)
    most = 0
    for cursor in cursors:
        while not cursor.exhausted:
            cursor.take(3)
            most = max(most, queue.counts()["held"])

    assert 1 << 16 < most <= 1 << 18
    assert queue.counts()["held"] == 0


# -- damage


@pytest.mark.parametrize("check_crcs", [True, False])
@pytest.mark.parametrize("place", ["header", "content"])
def test_a_damaged_batch_is_an_error_at_its_place(place: str, check_crcs: bool) -> None:
    data = bytearray(a_set(4))
    third = scan(bytes(data))[2]
    at = third.position + 61 if place == "header" else third.end_position - 4
    data[at] ^= 0xFF
    expected = PURE.Cursor(TP, bytes(data), fetch_offset=0, check_crcs=check_crcs)
    queue = a_queue()
    cursor = a_cursor(data, check_crcs=check_crcs)
    queue.add(cursor)
    wait_until(queue, "workers", 3 if place == "header" else 4)  # whose bad frame is seen when it is queued

    for reader in (expected, cursor):
        assert [record.offset for record in reader.take(1000)] == list(range(100))
    with pytest.raises(CorruptRecordError) as wanted:
        expected.take(1)
    for _ in range(2):
        with pytest.raises(CorruptRecordError) as raised:
            cursor.take(1)
        assert str(raised.value) == str(wanted.value)
    assert raised.value.next_offset == 150
    assert offsets(a_cursor(data, 150)) == list(range(150, 200))


# -- late threads, and what they still read


def test_the_reader_waits_for_a_thread_no_longer_than_its_own_decompression_takes(
    break_workers: Callable[..., None],
) -> None:
    break_workers(NO_FAULT, 1_000_000)
    queue = a_queue()
    cursor = a_cursor(a_set())
    queue.add(cursor)
    wait_until(queue, "workers", 1)

    assert offsets(cursor) == list(range(1000))
    assert queue.counts()["late"] >= 1, "batches that the reader has left to a thread that is not done"
    break_workers(NO_FAULT)
    wait_until_free(bytearray(1), queue)


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["close", "drop", "read"])
def test_memory_stays_allocated_while_a_thread_reads_it(ends: str, break_workers: Callable[..., None]) -> None:
    break_workers(NO_FAULT, 100_000)
    queue = a_queue()
    data = bytearray(a_set())
    cursor: Any = a_cursor(data)
    queue.add(cursor)
    wait_until(queue, "workers", 1)
    if ends == "close":
        cursor.close()
    elif ends == "read":
        offsets(cursor)
    cursor = None

    with pytest.raises(BufferError):
        data.append(0)
    assert not queue.is_used
    assert queue.counts()["jobs"] == 1
    break_workers(NO_FAULT)
    wait_until_free(data, queue)
    assert queue.counts()["jobs"] == queue.counts()["held"] == 0


def test_memory_is_freed_at_once_if_no_thread_reads_it() -> None:
    queue = a_queue()
    data = bytearray(a_set())
    cursor = a_cursor(data)
    queue.add(cursor)
    wait_until(queue, "done", 20)
    cursor.take(60)
    cursor.close()

    data.append(0)


def test_a_cursor_that_leaves_the_queue_is_read_on(break_workers: Callable[..., None]) -> None:
    for delay in (0, 50_000):
        break_workers(NO_FAULT, delay)
        queue = a_queue()
        data = bytearray(a_set())
        cursor = a_cursor(data)
        queue.add(cursor)
        wait_until(queue, "workers", 1)
        first = [record.offset for record in cursor.take(75)]
        queue.remove(cursor)

        assert not queue.is_used
        assert first + offsets(cursor) == list(range(1000))
        break_workers(NO_FAULT)
        wait_until_free(data, queue)


# -- life


def test_threads_end_with_the_last_queue() -> None:
    queue = a_queue(threads=2)
    cursors = [a_cursor(a_set()) for _ in range(3)]
    for cursor in cursors:
        queue.add(cursor)
    wait_until(queue, "threads", 1)
    for cursor in cursors:
        offsets(cursor)
    del queue, cursor, cursors
    wait_until_no_thread_is_left()


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux's /proc")
def test_threads_block_all_signals() -> None:
    before = set(os.listdir("/proc/self/task"))
    queue = a_queue()
    cursor = a_cursor(a_set())
    queue.add(cursor)
    wait_until(queue, "workers", 1)
    (new,) = set(os.listdir("/proc/self/task")) - before
    status = Path(f"/proc/self/task/{new}/status").read_text()
    blocked = int(status.partition("SigBlk:")[2].split()[0], 16)

    assert all(blocked >> number - 1 & 1 for number in (1, 2, 10, 12, 14, 15))


_FORKS = """
import os, random, sys, time
from tests.support.native_faults import NO_FAULT, break_workers, faulty_native
from tests.unit.protocol.records import test_ahead
from tests.unit.protocol.records.test_ahead import a_cursor, a_queue, a_set, offsets, wait_until
test_ahead._native = faulty_native()
chance = random.Random(1)
for number in range(60):
    break_workers(NO_FAULT, chance.choice((0, 0, 300)))
    queue = a_queue(threads=2)
    cursors = [a_cursor(a_set()) for _ in range(3)]
    for cursor in cursors:
        queue.add(cursor)
    if chance.random() < 0.5:
        time.sleep(chance.random() / 2000)
    cursors[0].take(chance.randrange(1000))
    child = os.fork()
    if not child:
        assert queue.counts()["threads"] == 0
        for cursor in cursors[1:]:
            assert offsets(cursor) == list(range(1000))
        cursors[0].close()
        own = a_queue()
        cursor = a_cursor(a_set())
        own.add(cursor)
        wait_until(own, "workers", 1)
        assert offsets(cursor) == list(range(1000))
        assert queue.counts()["jobs"] == queue.counts()["held"] == 0, queue.counts()
        os._exit(7)
    for cursor in cursors[1:]:
        assert offsets(cursor) == list(range(1000))
    assert os.waitpid(child, 0)[1] == 7 << 8
print("done")
"""

_DYING = """
import time
from tests.support.native_faults import DIE, break_workers, faulty_native
from tests.unit.protocol.records import test_ahead
from tests.unit.protocol.records.test_ahead import a_cursor, a_queue, a_set, offsets, wait_until
test_ahead._native = faulty_native()
break_workers(DIE)
queue = a_queue(threads=3)
for number in range(10):
    cursors = [a_cursor(a_set()) for _ in range(3)]
    for cursor in cursors:
        queue.add(cursor)
    if not number:
        wait_until(queue, "workers", 1)
    for cursor in cursors:
        assert offsets(cursor) == list(range(1000))
assert queue.counts()["late"] >= 1, queue.counts()
print("done")
"""

_EXIT = """
from tests.support.native_faults import NO_FAULT, break_workers, faulty_native
from tests.unit.protocol.records import test_ahead
from tests.unit.protocol.records.test_ahead import a_cursor, a_queue, a_set, wait_until
test_ahead._native = faulty_native()
break_workers(NO_FAULT, 20_000_000)
queue = a_queue(threads=2)
cursors = [a_cursor(a_set()) for _ in range(3)]
for cursor in cursors:
    queue.add(cursor)
wait_until(queue, "workers", 1)
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [_FORKS, _DYING, _EXIT], ids=["forks", "dying threads", "exit"])
def test_in_a_process_of_its_own(program: str) -> None:
    root = Path(__file__).parents[4]
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    if program is _EXIT:
        assert time.monotonic() - start < 15  # a thread is delayed by 20 s


def test_faults_are_not_shipped() -> None:
    assert ctypes.CDLL(native_faults.faulty_native().__file__).pyconsumer_ahead_fault
    with pytest.raises(AttributeError, match="undefined symbol"):
        _ = ctypes.CDLL(_native.__file__).pyconsumer_ahead_fault


def test_no_batch_is_started_after_the_stop() -> None:
    program = """
from pyconsumer.protocol.records import _native
from tests.unit.protocol.records.test_ahead import a_cursor, a_queue, a_set, offsets
_native.stop_workers()
queue = a_queue()
cursor = a_cursor(a_set())
queue.add(cursor)
assert offsets(cursor) == list(range(1000))
assert queue.counts()["workers"] == queue.counts()["helped"] == queue.counts()["threads"] == 0
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
