"""SIGTERM: the records read are processed, positions are committed, and the member leaves its group at once."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, stop_on_signals
from pyconsumer.errors import IllegalStateError, WakeupError
from tests.support.cluster import Cluster
from tests.support.process import GuardedProcess, wait_until

_PROGRAM = """
import sys
from pyconsumer import KafkaConsumer, stop_on_signals
servers, group, topic = sys.argv[1:]
with (
    KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest") as consumer,
    stop_on_signals(consumer) as stopped,
):
    for record in consumer:
        print(record.offset, flush=True)
print("ended in good order", stopped.signal.name, flush=True)
"""
_ON_A_LOOP = """
import asyncio, importlib, sys
from pyconsumer import stop_on_signals
from pyconsumer.aio import AsyncKafkaConsumer
servers, group, topic, loops = sys.argv[1:]
async def main():
    consumer = AsyncKafkaConsumer(topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest")
    async with consumer:
        with stop_on_signals(consumer) as stopped:
            async for record in consumer:
                print(record.offset, flush=True)
    print("ended in good order", stopped.signal.name, flush=True)
with asyncio.Runner(loop_factory=importlib.import_module(loops).new_event_loop) as runner:
    runner.run(main())
"""


def fill(cluster: Cluster, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_many(topic, ["v"] * 10)


def members_of(cluster: Cluster, group_id: str) -> int:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        return len(admin.describe_groups([group_id])[group_id].members)


@pytest.mark.concurrent
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("loop", ["", "asyncio", "uvloop"])
def test_a_program_ends_in_good_order(
    loop: str, number: signal.Signals, cluster: Cluster, topic: str, group_id: str
) -> None:
    if loop:
        pytest.importorskip(loop)
    fill(cluster, topic)
    code = [_ON_A_LOOP if loop else _PROGRAM, cluster.bootstrap_servers, group_id, topic, *([loop] if loop else [])]
    program = GuardedProcess([sys.executable, "-c", *code])
    try:
        wait_until(lambda: "9\n" in program.stdout, 60, "ten records")
        program.signal(number)
        assert program.wait(30) == 0
    finally:
        program.kill()
    assert program.stdout.splitlines()[-1] == f"ended in good order {number.name}"
    assert members_of(cluster, group_id) == 0
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id) as reader:
        assert reader.committed(TopicPartition(topic, 0)) == 10


@pytest.mark.concurrent
def test_the_command_leaves_its_group(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic)
    arguments = [topic, "-b", cluster.bootstrap_servers, "-g", group_id, "--from-beginning"]
    program = GuardedProcess([sys.executable, "-m", "pyconsumer", "consume", *arguments])
    try:
        wait_until(lambda: program.stdout.count("v\n") == 10, 60, "ten records")
        program.signal(signal.SIGTERM)
        assert program.wait(30) == 128 + signal.SIGTERM
    finally:
        program.kill()
    assert "Traceback" not in program.stderr
    assert members_of(cluster, group_id) == 0


def test_other_wakeups_are_raised_and_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def program(consumer: KafkaConsumer) -> None:
        with stop_on_signals(consumer):
            assert signal.getsignal(signal.SIGTERM) is not before
            consumer.assign([TopicPartition("t", 0)])
            consumer.wakeup()
            consumer.poll(1000)

    with KafkaConsumer(bootstrap_servers="localhost:1") as consumer, pytest.raises(WakeupError):
        program(consumer)
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_second_signal_acts_as_before() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with stop_on_signals() as stopped:
            signal.raise_signal(signal.SIGTERM)
            assert stopped.signal is signal.SIGTERM
            assert seen == []
            signal.raise_signal(signal.SIGTERM)
            assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_another_thread_gets_a_clear_error() -> None:
    found: list[Any] = []

    def run() -> None:
        try:
            with stop_on_signals():
                pass
        except IllegalStateError as error:
            found.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == ["stop_on_signals works in the main thread alone, as Python handles signals there"]
