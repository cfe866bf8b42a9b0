"""Ctrl-C at any step of a consumer's calls, over a broker in memory: it continues, and loses no record.

The program of a test runs once for each step, with Ctrl-C there. A call that Ctrl-C ended is made again, as by a
program that handles it. By default a sample of the steps is taken, the same in each run. The environment variable
``PYCONSUMER_INTERRUPT_STEPS`` sets how many steps a test takes, 0 for all of them, which is a matter of half an hour.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pyconsumer.consumer
import pyconsumer.network
from pyconsumer import KafkaConsumer, TopicPartition
from pyconsumer.errors import CommitFailedError, RebalanceInProgressError
from tests.support.interrupts import InterruptAt, RandomInterrupts, places
from tests.support.memory_broker import MemoryBroker

BATCHES = ([1, 2, 2], [2, 1, 2])
"""The numbers of records in each batch, for each partition."""
ALL = {(partition, offset) for partition in range(2) for offset in range(5)}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
UNDER = tuple(str(Path(package.__file__).parent) for package in (pyconsumer.consumer, pyconsumer.network))
"""The code that Ctrl-C interrupts. (That of the log depends on its thread, and would not take the same steps.)"""
LONG_S = 5.0  # of the broker's clock. A request's timeout is 30 s
AFTER_SEVERAL_S = 40.0  # the backoffs of connections grow


class Program:
    """A program that reads, and handles Ctrl-C by trying again."""

    def __init__(self, interrupt: InterruptAt, *, long_s: float = LONG_S, **settings: Any) -> None:
        self._long_s = long_s
        self.broker = MemoryBroker(*BATCHES)
        self.now = self.broker.clock.now
        self._interrupt = interrupt
        with self.broker.serving():
            self.consumer = KafkaConsumer(
                bootstrap_servers="127.0.0.1:9",
                clock=self.broker.clock,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                max_poll_records=3,
                **settings,
            )

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        while True:
            try:
                with self._interrupt():
                    return function(*arguments)
            except KeyboardInterrupt:
                pass

    def soon(self) -> float:
        """Return the time at which a call must have ended that waits for no timeout."""
        return self.now() + self._long_s

    def interrupted_in(self, function: str) -> bool:
        return any(place.split(" < ")[0].endswith(f" {function}") for place in self._interrupt.where)

    def read(self, wanted: set[tuple[int, int]], *, each_once: bool = True) -> None:
        """Poll until all of these records have been returned."""
        found: list[tuple[int, int]] = []
        until = self.soon()
        while set(found) != wanted:
            assert self.now() < until, f"unread: {sorted(wanted - set(found))}"
            found += [(record.partition, record.offset) for record in self.call(self.consumer.poll, 100).records()]
        assert len(found) == len(wanted) or not each_once, f"returned twice: {sorted(found)}"


def assigned(program: Program) -> None:
    """Partitions by hand: assign, read, seek, pause, resume, assign again."""
    consumer, call = program.consumer, program.call
    call(consumer.assign, [T0, T1])
    program.read(ALL)
    call(consumer.seek, T0, 1)
    call(consumer.seek_to_beginning, T1)
    program.read(ALL - {(0, 0)})
    call(consumer.pause, T0)
    call(consumer.seek, T0, 4)
    call(consumer.seek, T1, 3)
    program.read({(1, 3), (1, 4)})
    call(consumer.resume, T0)
    program.read({(0, 4)})
    call(consumer.assign, [T1])
    call(consumer.seek, T1, 2)
    program.read({(1, 2), (1, 3), (1, 4)})


def subscribed(program: Program) -> None:
    """Partitions of a group: subscribe, read, commit both ways, close. A rebalance may return records again."""
    consumer, call = program.consumer, program.call
    call(consumer.subscribe, ["t"])
    program.read(ALL, each_once=False)
    until = program.soon()
    while program.broker.committed != {0: 5, 1: 5}:
        assert program.now() < until
        try:
            call(consumer.commit)
        except (CommitFailedError, RebalanceInProgressError):  # of a rebalance, which the next poll completes
            call(consumer.poll, 100)
    ends: list[object] = []
    call(consumer.commit_async, None, lambda offsets, error: ends.append(error))
    until = program.soon()
    while not ends and not program.interrupted_in("_report"):  # Ctrl-C that comes with the callback's call ends it
        assert program.now() < until
        call(consumer.poll, 50)
    until = program.soon()
    call(consumer.close)
    assert program.now() < until, "closing waits for nothing"


def run(steps: Callable[[Program], None], interrupt: InterruptAt, *, long_s: float = LONG_S) -> None:
    """Run a program with a new consumer, and close that."""
    random.seed(1)  # backoffs and the choice of a node are the same each time
    program = Program(interrupt, long_s=long_s, **({"group_id": "g"} if steps is subscribed else {}))
    try:
        with program.broker.serving():
            steps(program)
    finally:
        program.consumer.close(timeout_ms=0)


@pytest.mark.slow
@pytest.mark.parametrize("program", [assigned, subscribed])
def test_ctrl_c_at_any_step_costs_no_record_and_little_time(program: Callable[[Program], None]) -> None:
    for _ in range(2):
        run(program, InterruptAt())  # codecs are made when they are first used
    steps = places(partial(run, program), under=UNDER)
    assert len(steps) > 5_000
    count = int(os.environ.get("PYCONSUMER_INTERRUPT_STEPS", "40"))
    failures = []
    reached = missed = 0
    for step in steps[:: len(steps) // count if count else 1]:
        interrupt = InterruptAt(step, under=UNDER)
        try:
            run(program, interrupt)
        except Exception as error:
            failures.append((step, repr(error), interrupt.where))
        reached += bool(interrupt.where)
        missed += not interrupt.where
    assert not failures
    assert missed <= reached // 10, "each run takes the same steps"


@pytest.mark.parametrize("program", [assigned, subscribed])
def test_several_ctrl_c_in_one_run_cost_no_record(program: Callable[[Program], None]) -> None:
    first = int(os.environ.get("PYCONSUMER_INTERRUPT_SEED", "1"))
    run(program, InterruptAt())
    for seed in range(first, first + int(os.environ.get("PYCONSUMER_INTERRUPT_RUNS", "8"))):
        interrupts = RandomInterrupts(seed, most=12, calls=200, under=UNDER)
        try:
            run(program, interrupts, long_s=AFTER_SEVERAL_S)
        except Exception as error:
            error.add_note(f"seed {seed}, interrupted in {interrupts.where}")
            raise
        assert interrupts.where
