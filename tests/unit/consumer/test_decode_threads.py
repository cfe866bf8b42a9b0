"""The number of threads that decompress ahead, and the memory reserved in the buffer for their output."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import TopicPartition
from pyconsumer.consumer import decode_threads
from pyconsumer.consumer.decode_threads import decode_ahead, default_threads, usable_cpus
from pyconsumer.consumer.fetch_buffer import FetchBuffer
from pyconsumer.consumer.fetch_planner import ByteBudget
from pyconsumer.consumer.partition_state import FetchPosition
from tests.unit.consumer.builders import batch
from tests.unit.consumer.worlds import LEADER, Desk
from tests.unit.protocol.records.helpers import decoder_named

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
MIB = 1 << 20

native = pytest.mark.skipif(decoder_named("native") is None, reason="the compiled decoder was not built")


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


# -- how many


@pytest.mark.parametrize(
    ("cpus", "threads"), [(0.5, 0), (1, 0), (2, 0), (2.9, 0), (3, 1), (3.9, 1), (4, 2), (6, 4), (7, 4), (64, 4)]
)
def test_the_default_is_two_fewer_than_the_whole_cpus(
    monkeypatch: pytest.MonkeyPatch, cpus: float, threads: int
) -> None:
    monkeypatch.setattr(decode_threads, "usable_cpus", lambda: cpus)
    default_threads.cache_clear()
    try:
        assert default_threads() == threads
    finally:
        default_threads.cache_clear()


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, 8),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 8),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
                "sys/fs/cgroup/a/cpu.max": "200000 100000\n",
            },
            2,
        ),
        ({"proc/self/cgroup": "0::/of/the/host\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
        (
            {
                "proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/a\n",
                "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1600000 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "nonsense"}, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000 0\n"}, 8),
    ],
    ids=[
        "no cgroups",
        "a quota",
        "none",
        "that of the group above",
        "in a container",
        "version 1",
        "more than there are",
        "nonsense",
        "no period",
    ],
)
def test_usable_cpus_follow_the_affinity_and_the_lowest_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], cpus: float
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)

    assert usable_cpus(put(tmp_path, files)) == cpus


def test_the_affinity_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 5, 6}, raising=False)

    assert usable_cpus(tmp_path) == 3


def test_without_affinity_the_machines_cpus_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)

    assert usable_cpus(tmp_path) == 5


@native
@pytest.mark.parametrize(
    ("buffer_bytes", "room"), [(8 * MIB, MIB), (32 * MIB, 2 * MIB), (1 << 30, 2 * MIB), (2000, 250)]
)
def test_the_room_is_a_part_of_the_buffer_and_bounded(buffer_bytes: int, room: int) -> None:
    made = decode_ahead(2, buffer_bytes)

    assert made is not None
    assert made.size_bytes == room


def test_zero_threads_decompress_no_batch_ahead() -> None:
    assert decode_ahead(0, 8 * MIB) is None


def test_without_compiled_code_no_batch_is_decompressed_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_threads, "DecodeAhead", None)

    assert decode_ahead(4, 8 * MIB) is None


# -- what it is charged for


class Ahead:
    """Records queued batches without decompressing them."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.cursors: list[Any] = []

    @property
    def is_used(self) -> bool:
        return any(not cursor.exhausted for cursor in self.cursors)

    def add(self, cursor: Any) -> bool:
        self.cursors.append(cursor)
        return True

    def remove(self, cursor: Any) -> None:
        self.cursors = [each for each in self.cursors if each is not cursor]


class AheadDesk(Desk):
    """A buffer that has threads."""

    def __init__(self, size_bytes: int = 1000, limit: int = 10_000_000) -> None:
        super().__init__(A, B)
        self.budget = ByteBudget(limit)
        self.ahead = Ahead(size_bytes)
        self.buffer = FetchBuffer(self.subscriptions, self.budget, None, self.ahead)  # type: ignore[arg-type]

    @property
    def charged_ahead(self) -> int:
        """The reserved memory apart from that of fetches."""
        return self.budget.held - sum(fetch.charged for fetches in self.buffer._of.values() for fetch in fetches)


def zstd(first: int, batches: int = 3) -> bytes:
    return b"".join(batch(first + 10 * n, 10, codec="zstd", size=300) for n in range(batches))


@native
def test_the_memory_of_the_queue_is_charged_once_while_it_is_used() -> None:
    desk = AheadDesk()
    desk.add(A, batch(0, 10))
    assert desk.charged_ahead == 0
    desk.add(A, zstd(10))
    desk.add(B, zstd(0))
    assert len(desk.ahead.cursors) == 2
    assert desk.charged_ahead == 1000

    assert desk.collect() == {A: list(range(40)), B: list(range(30))}
    assert desk.budget.held == 0


@native
def test_the_room_stays_charged_until_the_last_fetch_is_read() -> None:
    desk = AheadDesk()
    desk.add(A, zstd(0))
    desk.add(A, zstd(30))
    desk.collect(45)
    assert desk.charged_ahead == 1000

    desk.collect(15)
    assert desk.budget.held == 0


@native
def test_without_free_memory_the_poll_decompresses() -> None:
    desk = AheadDesk(limit=2000 + 2 * len(zstd(0)))
    desk.budget.reserve(1001 + len(zstd(0)))
    desk.add(A, zstd(0))
    assert (desk.ahead.cursors, desk.charged_ahead) == ([], 0)

    desk.budget.reserve(-desk.budget.reserved)
    desk.add(B, zstd(0))
    assert (len(desk.ahead.cursors), desk.charged_ahead) == (1, 1000)


@native
def test_a_seek_frees_the_room() -> None:
    desk = AheadDesk()
    desk.add(A, zstd(0))
    desk.subscriptions.seek(A, FetchPosition(7, -1, LEADER))
    desk.apply()

    assert desk.budget.held == 0


@native
def test_paused_batches_leave_the_queue() -> None:
    desk = AheadDesk()
    desk.add(A, zstd(0))
    desk.subscriptions.pause(A)
    desk.apply()
    assert desk.collect() == {}
    assert (desk.ahead.cursors, desk.charged_ahead) == ([], 0)
    assert desk.budget.held == desk.budget.paused

    desk.subscriptions.resume(A)
    desk.apply()
    assert desk.collect() == {A: list(range(30))}


@native
def test_a_lone_batch_that_a_poll_takes_next_is_not_queued() -> None:
    desk = AheadDesk()
    desk.add(A, zstd(0, 1))
    assert desk.ahead.cursors == []
    desk.add(A, zstd(10, 1))
    assert len(desk.ahead.cursors) == 1


@native
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_other_codecs_are_not_queued(codec: str) -> None:
    desk = AheadDesk()
    desk.add(A, batch(0, 10, codec=codec) + batch(10, 10, codec=codec))

    assert (desk.ahead.cursors, desk.charged_ahead) == ([], 0)


@native
@pytest.mark.parametrize("end", ["clear", "close"])
def test_clearing_and_closing_free_the_room(end: str) -> None:
    desk = AheadDesk()
    desk.add(A, zstd(0))
    getattr(desk.buffer, end)()
    assert desk.budget.held == 0

    desk.subscriptions.seek(A, FetchPosition(0, -1, LEADER))
    desk.apply()
    desk.ahead.cursors = []
    desk.add(A, zstd(0))
    assert len(desk.ahead.cursors) == (end == "clear")
    assert desk.charged_ahead == (1000 if end == "clear" else 0)
