"""Counts the modules that four journeys pass through: a record, a commit, a rebalance, a Spark batch.

``python -m tests.support.journeys`` runs each of them against an embedded broker in a thread, notes the modules of
``pyconsumer`` in which functions are entered, and prints the lists. Generated code, messages (``protocol/messages``)
and modules of which only the import runs do not count.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.broker import EmbeddedCluster

_PACKAGE = Path(__file__).parents[2] / "pyconsumer"
_BELOW = ("network/", "protocol/", "clock.py", "structs.py", "errors.py", "config.py")


class Journey:
    """Notes the modules that are entered, in every thread, while :meth:`recorded` is active."""

    def __init__(self) -> None:
        self.client: set[str] = set()
        self.broker: set[str] = set()
        self._active = False
        self._root = str(_PACKAGE) + "/"

    def install(self) -> None:
        """Watch this thread and all that start from now on."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    def _on_event(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._active and event == "call" and frame.f_code.co_filename.startswith(self._root):
            name = frame.f_code.co_filename.removeprefix(self._root)
            if not name.startswith("protocol/messages/"):
                (self.broker if threading.current_thread().name == "pyconsumer-broker" else self.client).add(name)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Start from scratch, and note modules inside the block."""
        self.client.clear()
        self.broker.clear()
        self._active = True
        try:
            yield
        finally:
            self._active = False


def _print(title: str, modules: set[str]) -> None:
    print(f"{title}: {len(modules)}")
    print("    " + " ".join(sorted(modules)))


def main() -> None:
    journey = Journey()
    journey.install()
    config = {"group.initial.rebalance.delay.ms": 0, "num.partitions": 2}
    with EmbeddedCluster(config=config, in_thread=True, data_dir=":memory:") as cluster:
        servers = cluster.bootstrap_servers
        cluster.create_topic("journeys", 2)
        with KafkaProducer(bootstrap_servers=servers) as producer:
            _record(journey, servers, producer)
            _group(journey, servers)
            _spark(journey, servers)


def _record(journey: Journey, servers: str, producer: KafkaProducer) -> None:
    with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("journeys", 0)])
        for number in range(5):  # from the second on nothing is done for the first time
            producer.send("journeys", f"{number}", partition=0).get(timeout=10)
            with journey.recorded():
                while not consumer.poll(timeout_ms=1000):
                    pass
        _print("a record, from the socket to the user", journey.client)


def _group(journey: Journey, servers: str) -> None:
    options = {"bootstrap_servers": servers, "group_id": "journeys", "auto_offset_reset": "earliest"}
    with KafkaConsumer("journeys", **options) as first:
        while not first.poll(timeout_ms=1000):
            pass
        first.commit()
        with journey.recorded():
            first.commit()
        _print("a commit, in the client", journey.client)
        _print("a commit, in the broker", journey.broker)
        with KafkaConsumer("journeys", **options) as second, journey.recorded():
            while not (len(first.assignment()) == len(second.assignment()) == 1):
                first.poll(timeout_ms=50)
                second.poll(timeout_ms=50)
        _print("a rebalance, above the socket", {name for name in journey.client if not name.startswith(_BELOW)})


def _spark(journey: Journey, servers: str) -> None:
    from pyconsumer.spark.source import KafkaDataSource

    options = {"kafka.bootstrap.servers": servers, "subscribe": "journeys"}
    with journey.recorded():
        source = KafkaDataSource(options)
        reader = source.reader(schema=_schema(source.schema()))
        rows = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
    assert rows == 5
    _print("a Spark batch, in pyconsumer.spark", {name for name in journey.client if name.startswith("spark/")})


def _schema(ddl: str) -> Any:
    from pyspark.sql.types import BinaryType, StructField, StructType

    return StructType([StructField(part.split()[0].strip("`"), BinaryType()) for part in ddl.split(",")])


if __name__ == "__main__":
    main()
