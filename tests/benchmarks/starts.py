"""The workload ``starts``: how long a broker takes to start on logs that are there already.

One broker at a time, the embedded one or Apache Kafka. It is started with an empty folder, and gets a topic with
batches of one or of 500 records in one or in 1,000 partitions. Then it is killed, started, stopped cleanly, and started
again. For each start the table has the time beyond that of the start with the empty folder, in the same run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.records import BatchBuilder
from tests.benchmarks.measure import Contender, alternate, child, process_cpu_s
from tests.benchmarks.results import Results, Run
from tests.benchmarks.setup import Server, Setup
from tests.benchmarks.tables import Matrix, cell_values
from tests.support.apache_kafka import ApacheKafka
from tests.support.raw_client import RawClient

__all__ = ["PAGE", "starts", "starts_tables"]

PAGE = "benchmarks-starts"
_RECORD_BYTES = 100
#: Bytes of requests that wait for their responses while a topic is filled. More could block both sides of a socket.
_IN_FLIGHT_BYTES = 100_000
_PARTITIONS_AT_A_TIME = 500
#: Kafka maps 20 MB of indexes for each partition: of a thousand they would fill the memory of a small machine.
_INDEX_BYTES = 1 << 20


@dataclass(frozen=True)
class Shape:
    """A topic: how many batches of how many records, in how many partitions."""

    batches: int
    records: int
    partitions: int

    @property
    def title(self) -> str:
        records = "1 record" if self.records == 1 else f"{self.records:,} records"
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions:,} partitions"
        return f"{self.batches:,} batches of {records}, {partitions}"


_SHAPES = (Shape(200_000, 1, 1), Shape(200_000, 1, 1000), Shape(2_000, 500, 1), Shape(2_000, 500, 1000))


class _Broker(ABC):
    """A broker in a folder, that can be started, killed and stopped."""

    @abstractmethod
    def start(self) -> str:
        """Start it, and return its address when it serves requests."""

    @property
    @abstractmethod
    def pid(self) -> int: ...

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...


class _Embedded(_Broker):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str]

    def start(self) -> str:
        command = [sys.executable, "-m", "pyconsumer", "broker", "--port", "0", "--data-dir", str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()[-1]

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        self._process.send_signal(number)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class _Apache(_Broker):
    def __init__(self, folder: Path) -> None:
        self._kafka = ApacheKafka(folder=folder, quick=False)

    def start(self) -> str:
        self._kafka.start()
        return self._kafka.bootstrap_servers

    @property
    def pid(self) -> int:
        return Server(self._kafka).pid

    def kill(self) -> None:
        self._kafka.kill()

    def stop(self) -> None:
        self._kafka.pause()

    def release(self) -> None:
        """Release its ports."""
        self._kafka.release_ports()


def starts(setup: Setup) -> None:
    """Both brokers with each kind of topic, three rounds at most."""
    for shape in _SHAPES:
        scope = setup.results.scope("starts", shape.title)
        setup.say(f"  {shape.title}")
        scaled = Shape(max(setup.scaled(shape.batches), shape.partitions), shape.records, shape.partitions)
        found = [
            Contender("embedded broker", lambda shape=scaled: _run("embedded", shape), ""),  # type: ignore[misc]
            Contender("Apache Kafka", lambda shape=scaled: _run("apache", shape), setup.tools.version),  # type: ignore[misc]
        ]
        alternate(setup.wanted(found), min(setup.rounds, 3), setup.say, scope)


def _run(kind: str, shape: Shape) -> Run:
    told = {"kind": kind, "batches": shape.batches, "records": shape.records, "partitions": shape.partitions}
    return Run("", values=child(__name__, told, timeout_s=1200.0))


def measure(arguments: dict[str, Any]) -> dict[str, float]:
    """Start a broker four times. Run as a child process. The seconds of each start."""
    shape = Shape(arguments["batches"], arguments["records"], arguments["partitions"])
    found = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker: _Broker
        if arguments["kind"] == "embedded":
            broker = _Embedded(folder / "data")
        else:
            broker = apache = _Apache(folder)
            stack.callback(apache.release)
            broker.start()  # without the formatting of the folder
            broker.stop()
        address = _timed(broker, "empty", found)
        try:
            fill(address, shape)
        except BaseException:
            broker.kill()
            raise
        found["data_mb"] = _megabytes(folder)
        broker.kill()
        _timed(broker, "killed", found)
        broker.stop()
        _timed(broker, "clean", found)
        broker.stop()
    return found


def _timed(broker: _Broker, name: str, found: dict[str, float]) -> str:
    began = time.perf_counter()
    address = broker.start()
    found[f"{name}_s"], found[f"{name}_cpu_s"] = time.perf_counter() - began, process_cpu_s(broker.pid)
    return address


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*.log") if path.stem.isdigit()) / 1e6


def fill(address: str, shape: Shape) -> None:
    """Write the batches of a topic, one of each partition in a request."""
    builder = BatchBuilder()
    for _ in range(shape.records):
        builder.try_append(int(time.time() * 1000), None, os.urandom(_RECORD_BYTES))
    batch = builder.build()
    with RawClient(address, timeout_s=300) as client:
        client.create_topic("t", shape.partitions, config={"segment.index.bytes": _INDEX_BYTES})
        left, waiting, first = shape.batches, 0, 0
        at_a_time = min(shape.partitions, _PARTITIONS_AT_A_TIME)
        most = max(1, _IN_FLIGHT_BYTES // (len(batch) * at_a_time))
        while left or waiting:
            if left and waiting < most:
                count = min(left, shape.partitions - first, _PARTITIONS_AT_A_TIME)
                parts = [PartitionProduceData(first + number, batch) for number in range(count)]
                client.send(ProduceRequest(acks=1, topic_data=[TopicProduceData("t", partition_data=parts)]), 9)
                left, waiting, first = left - count, waiting + 1, (first + count) % shape.partitions
                continue
            _, response = client.receive()
            waiting -= 1
            codes = [part.error_code for topic in response.responses for part in topic.partition_responses]
            assert set(codes) <= {0, Errors.NOT_LEADER_OR_FOLLOWER}, codes
            left += len(codes) - codes.count(0)  # Kafka makes a topic's leaders known one after another


# ------------------------------------------------------------------ tables


def starts_tables(results: Results) -> list[Matrix]:
    beyond = "beyond those of a start with an empty folder, in the same run"
    seconds = f"Seconds until it serves, {beyond}. Records of {_RECORD_BYTES} bytes."
    cpu = f"Seconds of the processor, all threads, {beyond}. Where the machine did much else, these say more."
    tables = [
        _matrix(results, "killed", "After kill -9", "s", seconds, lambda run: _beyond(run, "killed", "s")),
        _matrix(
            results, "killed-cpu", "After kill -9: processor", "CPU s", cpu, lambda run: _beyond(run, "killed", "cpu_s")
        ),
        _matrix(results, "clean", "After a clean stop", "s", seconds, lambda run: _beyond(run, "clean", "s")),
        _matrix(
            results,
            "clean-cpu",
            "After a clean stop: processor",
            "CPU s",
            cpu,
            lambda run: _beyond(run, "clean", "cpu_s"),
        ),
        _matrix(
            results,
            "empty-cpu",
            "With an empty folder: processor",
            "CPU s",
            "Seconds of the processor, all threads.",
            lambda run: run.values["empty_cpu_s"],
        ),
    ]
    return [table for table in tables if table.rows]


def _beyond(run: Run, name: str, unit: str) -> float:
    return max(run.values[f"{name}_{unit}"] - run.values[f"empty_{unit}"], 0.01)


def _matrix(results: Results, name: str, title: str, unit: str, text: str, value: Callable[[Run], float]) -> Matrix:
    table = Matrix(f"starts-{name}", title, unit, text, [], page=PAGE)
    for shape in _SHAPES:
        series = results.scope("starts", shape.title).series()
        if series:
            table.columns += [item.name for item in series if item.name not in table.columns]
            cells = {item.name: cell_values(item, value) for item in series}
            table.rows.append({"title": shape.title, "size": shape.batches, "cells": cells})
    return table


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
