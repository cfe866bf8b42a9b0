"""Random histories of a cluster: acknowledged records survive every death, move and delay, once and in order.

Brokers have files, and are killed and started as by the host. Every step is called by the test.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyconsumer.broker.elections import NO_LEADER
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.structs import TopicPartition
from tests.unit.broker.brokers import Brokers
from tests.unit.broker.support import batch, records_of

TP = TopicPartition("t", 0)
NODES = st.integers(0, 2)
#: Errors after which a producer sends again; after the last three the record may be stored.
RETRIED = {6, 19, 7, 20}


class _Producer:
    """An idempotent producer of one batch at a time: it sends the same one until it is acknowledged."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.sequence = 0
        self.answers: list[Any] | None = None

    @property
    def value(self) -> bytes:
        return b"%d:%d" % (self.producer_id, self.sequence)

    def send(self, brokers: Brokers) -> None:
        leader = brokers.state()[0]
        if leader == NO_LEADER:
            return
        data = batch(self.value, producer_id=self.producer_id, epoch=0, sequence=self.sequence)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=1_000,
            topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, bytes(data))])],
        )
        self.answers = brokers.request(leader, request, 12)

    def collect(self) -> bytes | None:
        """The value, if it was acknowledged."""
        if not self.answers:
            return None
        code = self.answers[0].responses[0].partition_responses[0].error_code
        self.answers = None
        if code:
            assert code in RETRIED, code
            return None
        value = self.value
        self.sequence += 1
        return value


class Histories(RuleBasedStateMachine):
    """Events of a partition of three replicas."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="pyconsumer-histories-"))
        self.brokers = Brokers(self.folder, forgetful=True)
        self.producers = [_Producer(number) for number in range(2)]
        self.acknowledged: list[bytes] = []
        #: What consumers may have read, by offset; it must never change.
        self.seen: dict[int, bytes | None] = {}

    @initialize(min_insync=st.sampled_from([1, 2]))
    def make_topic(self, min_insync: int) -> None:
        config = {"min.insync.replicas": str(min_insync), "internal.segment.bytes": "600"}
        self.brokers.controller.create_topic("t", 1, 3, config)

    # --- what happens

    @rule(number=st.integers(0, 1))
    def produce(self, number: int) -> None:
        producer = self.producers[number]
        if producer.answers is None:
            producer.send(self.brokers)

    @rule(steps=st.integers(1, 4))
    def some_calls(self, steps: int) -> None:
        for _ in range(steps):
            self.brokers.step()

    @rule()
    def all_calls(self) -> None:
        self.brokers.run()

    @rule()
    def time(self) -> None:
        self.brokers.advance(2.0)

    @rule(node=NODES)
    def kill(self, node: int) -> None:
        if node in self.brokers.alive:
            # Requests to it get no answer: the producer sends again.
            for producer in self.producers:
                if producer.answers is not None and not producer.answers and self.brokers.state()[0] == node:
                    producer.answers = None
            self.brokers.kill(node)

    @rule(node=NODES)
    def restart(self, node: int) -> None:
        if node not in self.brokers.alive:
            self.brokers.restart(node)

    @rule(node=NODES)
    def move(self, node: int) -> None:
        leader, _, isr = self.brokers.state()
        if leader not in (NO_LEADER, node) and node in isr and node in self.brokers.alive:
            self.brokers.controller.move_leader("t", 0, node)

    @rule(node=NODES)
    def pause(self, node: int) -> None:
        if node in self.brokers.alive:
            self.brokers.alive[node].fetcher.pause()

    @rule(node=NODES)
    def resume(self, node: int) -> None:
        if node in self.brokers.alive:
            self.brokers.alive[node].fetcher.resume()

    @precondition(lambda self: len(self.brokers.alive) == 3)
    @rule()
    def lag(self) -> None:
        self.brokers.advance(40.0)
        for broker in self.brokers.alive.values():
            broker.shrink_isrs()

    # --- what holds at any time

    @invariant()
    def what_was_read_never_changes(self) -> None:
        for producer in self.producers:
            value = producer.collect()
            if value is not None:
                self.acknowledged.append(value)
        for broker in self.brokers.alive.values():
            partition = broker.partitions.get(TP)
            if partition is None:
                continue
            assert partition.high_watermark <= partition.log.log_end_offset
            for record in records_of(partition.log):
                if record.offset < partition.high_watermark:
                    assert self.seen.setdefault(record.offset, record.value) == record.value
        if self.brokers.controller.topics and self.brokers.state()[0] != NO_LEADER:
            # All replicas in sync have what may have been read or was acknowledged.
            end = max(self.seen, default=-1) + 1
            for node in self.brokers.state()[2]:
                if node in self.brokers.alive:
                    assert self.brokers.replica(node).log.log_end_offset >= end

    def teardown(self) -> None:
        try:
            if self.brokers.controller.topics:
                self._come_to_rest()
        finally:
            self.brokers.stop()
            shutil.rmtree(self.folder)

    def _come_to_rest(self) -> None:
        for node in range(3):
            if node not in self.brokers.alive:
                self.brokers.restart(node)
            self.brokers.alive[node].fetcher.resume()
        self.brokers.advance(5.0)
        self.what_was_read_never_changes()
        assert set(self.brokers.state()[2]) == {0, 1, 2}
        logs = [records_of(self.brokers.replica(node).log) for node in range(3)]
        assert logs[0] == logs[1] == logs[2]
        assert {self.brokers.replica(node).high_watermark for node in range(3)} == {len(logs[0])}
        stored = [record.value for record in logs[0]]
        assert len(stored) == len(set(stored)), "a record is stored twice"
        assert set(self.acknowledged) <= set(stored), "an acknowledged record is lost"
        for producer in self.producers:
            own = [value for value in self.acknowledged if value and value.startswith(b"%d:" % producer.producer_id)]
            assert own == [value for value in stored if value in own], "records of a producer are out of order"


@pytest.mark.slow
def test_random_histories() -> None:
    """Short histories. ``python -m tests.unit.broker.test_replication_histories SEED COUNT`` plays long ones."""
    Histories.TestCase.settings = settings(
        max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
    )
    Histories.TestCase().runTest()


def play(seed: int, steps: int = 200) -> None:
    """One long history from a seed, without hypothesis."""
    chance = random.Random(seed)
    machine = Histories()
    try:
        machine.make_topic(chance.choice([1, 2]))
        for _ in range(steps):
            name = chance.choices(
                ["produce", "some_calls", "all_calls", "time", "kill", "restart", "move", "pause", "resume", "lag"],
                [30, 20, 15, 3, 6, 8, 6, 4, 6, 2],
            )[0]
            if name == "produce":
                machine.produce(chance.randrange(2))
            elif name == "some_calls":
                machine.some_calls(chance.randint(1, 4))
            elif name in ("all_calls", "time"):
                getattr(machine, name)()
            elif name == "lag":
                if len(machine.brokers.alive) == 3:
                    machine.lag()
            else:
                getattr(machine, name)(chance.randrange(3))
            machine.what_was_read_never_changes()
    finally:
        machine.teardown()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_long_histories(seed: int) -> None:
    play(seed)


if __name__ == "__main__":
    import sys

    first, count = int(sys.argv[1]), int(sys.argv[2])
    for seed in range(first, first + count):
        try:
            play(seed)
        except BaseException:
            print(f"seed {seed}")
            raise
    print(f"{count} histories from seed {first}")
