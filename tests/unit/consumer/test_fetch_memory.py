"""The bound on memory and the turns of partitions, with brokers that always have more records."""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from itertools import islice
from typing import Any

import pytest

from pyconsumer import TopicPartition
from pyconsumer.protocol.messages.fetch import PartitionData
from pyconsumer.protocol.records import IMPLEMENTATION, ColumnsBuilder, patch_batch
from tests.support.examples import FULL
from tests.support.fake_network import SentRequest
from tests.unit.consumer.builders import batch, response
from tests.unit.consumer.worlds import FetcherWorld

PARTITION = 4096
"""``max_partition_fetch_bytes``."""
RECORDS = 5
"""Records of a batch."""

SMALL = batch(0, RECORDS, size=100)
PACKED = batch(0, RECORDS, size=3_000, codec="gzip")  # 150 bytes or so, UNPACKED when it is read
UNPACKED = 15_200
ZSTD = batch(0, RECORDS, size=3_000, codec="zstd")  # the same, and threads may decompress it before
OVERSIZED = batch(0, RECORDS, size=2_000)


class Broker:
    """The leader of some endless partitions: fills each response as Kafka does.

    The response stays within the limits of the request, and a partition's last batch is cut off there. A partition
    without room for one batch stays empty. If all of them are empty, the first batch of one is sent whole. Partitions
    with data move to the end of the session.
    """

    def __init__(self, kinds: tuple[bytes, ...]) -> None:
        self._kinds = kinds
        self._session: dict[TopicPartition, int] = {}

    def answer(self, sent: SentRequest) -> None:
        request = sent.request
        if request.session_epoch <= 0:
            self._session = {}
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                self._session.pop(TopicPartition("t", number), None)
        for topic in request.topics:
            for asked in topic.partitions:
                self._session[TopicPartition("t", asked.partition)] = asked.fetch_offset
        found: dict[TopicPartition, PartitionData] = {}
        room = request.max_bytes
        for tp, offset in self._session.items():
            records = self._read(offset, min(PARTITION, room), whole=room == request.max_bytes)
            room -= min(len(records), room)
            if records or request.session_epoch <= 0:
                found[tp] = PartitionData(records=records)
        frame = bytearray(b"".join(data.records or b"" for data in found.values()))
        place = 0
        for tp, data in found.items():
            if data.records:
                self._session[tp] = self._session.pop(tp)
                data.records = memoryview(frame)[place : place + len(data.records)]
                place += len(data.records)
        sent.give(response(found, session_id=0 if request.session_epoch < 0 else 5))  # the memory itself

    def _read(self, offset: int, room: int, *, whole: bool) -> bytes:
        records = b""
        while len(records) < room:
            following = bytearray(self._kinds[offset // RECORDS % len(self._kinds)])
            patch_batch(following, base_offset=offset)
            if not records and len(following) > room:
                return bytes(following) if whole else b""
            records += following
            offset += RECORDS
        return records[:room]


class Reading:
    """A consumer of endless partitions with several leaders. Checks the bound on memory at each step."""

    def __init__(self, partitions: int, brokers: int, *kinds: bytes, unpacked: int = 0, **options: Any) -> None:
        self.partitions = [TopicPartition("t", number) for number in range(partitions)]
        self.world = FetcherWorld(max_partition_fetch_bytes=PARTITION, **options)
        self.world.lead({tp.partition: (self.leader(tp, brokers), 3) for tp in self.partitions})
        self.world.subscriptions.assign_from_user(self.partitions)
        for tp in self.partitions:
            self.world.seek(tp, 0)
        self.brokers = {number: Broker(kinds) for number in range(1, brokers + 1)}
        self.budget = self.world.fetcher.planner.budget
        self.under_way: deque[SentRequest] = deque()
        self.taken: Counter[TopicPartition] = Counter()
        self.turns: Counter[TopicPartition] = Counter()
        self.highest = 0
        self._most = self.budget.limit + unpacked
        if IMPLEMENTATION == "pure":  # it makes all records of a batch at once
            self._most += max(map(len, kinds))
        # Each broker may send one batch that is larger than what was asked for.
        self._most += brokers * sum(max(0, len(kind) - PARTITION) for kind in kinds)

    @staticmethod
    def leader(tp: TopicPartition, brokers: int) -> int:
        return 1 + tp.partition % brokers

    def send(self) -> None:
        self.world.fetcher.send_fetches()
        sent = self.world.client.take_all()
        if sent:
            assert self.budget.held + self.budget.reserved <= self.budget.limit
        self.under_way += sent

    def answer(self, at: int = 0) -> None:
        sent = self.under_way[at]
        del self.under_way[at]
        self.brokers[sent.node].answer(sent)
        self.check()

    def collect(self, count: int) -> None:
        for tp, offsets in self.world.collect(count).items():
            assert offsets == list(range(self.taken[tp], self.taken[tp] + len(offsets)))
            self.taken[tp] += len(offsets)
            self.turns[tp] += 1
        self.check()

    def collect_columns(self, count: int) -> None:
        builder = ColumnsBuilder()
        self.world.fetcher.apply_changes(self.world.clock.now())
        runs = self.world.fetcher.buffer.collect_columns(builder, count, 1 << 20)
        offsets = iter(builder.build().offsets)
        for tp, rows in runs:
            assert list(islice(offsets, rows)) == list(range(self.taken[tp], self.taken[tp] + rows))
            self.taken[tp] += rows
        self.check()

    def check(self) -> None:
        buffered = [fetch for fetches in self.world.fetcher.buffer._of.values() for fetch in fetches]
        frames = {id(fetch.memory): len(fetch.memory or b"") for fetch in buffered if fetch.frame is not None}
        buffer = self.world.fetcher.buffer
        fetched = sum(fetch.size_bytes for fetch in buffered) + sum(frames.values())
        assert self.budget.held == fetched + buffer._ahead_bytes
        if buffer._ahead is not None:
            end = time.monotonic() + 10
            while buffer._ahead.counts()["held"] > buffer._ahead_bytes:  # of a dropped fetch
                assert time.monotonic() < end, (buffer._ahead.counts(), buffer._ahead_bytes)
                time.sleep(0.001)
        self.highest = max(self.highest, self.budget.held + self.budget.reserved)
        assert self.highest <= self._most


# -- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer", [3 * PARTITION, 16 * PARTITION, 200 * PARTITION])
@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize(
    ("kinds", "unpacked"),
    [
        ((SMALL,), 0),
        ((PACKED, SMALL), UNPACKED),
        ((ZSTD, SMALL), UNPACKED),
        ((OVERSIZED, SMALL), 0),
        ((OVERSIZED, PACKED, ZSTD, SMALL), UNPACKED),
    ],
    ids=["small", "compressed", "ahead", "oversized", "all"],
)
def test_the_bound_holds_for_all_responses_in_any_order(
    kinds: tuple[bytes, ...], unpacked: int, brokers: int, buffer: int
) -> None:
    source = random.Random(buffer + brokers)
    reading = Reading(12, brokers, *kinds, unpacked=unpacked, fetch_buffer_bytes=buffer, decode_threads=2)
    for _ in range(300 if FULL else 100):
        what = source.random()
        if what < 0.4 and reading.under_way:
            reading.answer(source.randrange(len(reading.under_way)))
        elif what < 0.7:
            source.choice((reading.collect, reading.collect_columns))(source.choice((1, 7, 100)))
        else:
            reading.send()
    assert reading.highest > 0
    for _ in range(60):  # and nobody is forgotten
        reading.send()
        while reading.under_way:
            reading.answer()
        reading.collect(1000)
    assert min(reading.taken[tp] for tp in reading.partitions) > 20

    reading.world.subscriptions.assign_from_user([])
    reading.world.fetcher.apply_changes(reading.world.clock.now())
    while reading.under_way:
        reading.answer()
    assert (reading.budget.held, reading.budget.reserved) == (0, 0)


# -- turns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sessions", [True, False])
@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("limit", [PARTITION, 5 * PARTITION // 2, 100 * PARTITION])
def test_partitions_that_all_have_more_get_as_many_turns_as_each_other(
    limit: int, brokers: int, sessions: bool
) -> None:
    reading = Reading(12, brokers, SMALL, fetch_max_bytes=limit, enable_incremental_fetch_sessions=sessions)
    for _ in range(50):
        reading.send()
        while reading.under_way:
            reading.answer()
        reading.collect(10_000)

    for broker in reading.brokers:
        turns = [reading.turns[tp] for tp in reading.partitions if reading.leader(tp, brokers) == broker]
        assert max(turns) - min(turns) <= 1
    assert min(reading.turns[tp] for tp in reading.partitions) >= 3


def test_polls_of_few_records_give_each_partition_its_turn() -> None:
    reading = Reading(6, 1, SMALL, fetch_max_bytes=PARTITION)
    for _ in range(1000):
        reading.send()
        while reading.under_way:
            reading.answer()
        reading.collect(3)

    taken = [reading.taken[tp] for tp in reading.partitions]
    assert max(taken) - min(taken) <= 2 * (PARTITION // len(SMALL)) * RECORDS
    assert min(taken) > 300
