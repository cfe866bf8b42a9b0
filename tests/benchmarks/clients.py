"""The Python clients behind one small interface, so that every one of them runs the same programs.

A client is opened, given a topic, and asked for records repeatedly. It returns the lists that its own API made.
The work per record here is no more than a user would do.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

__all__ = ["CLIENTS", "Client", "Got", "Pairs"]

Pairs = list[tuple[str, bytes]]


class Got(NamedTuple):
    """Records of one partition, in order."""

    partition: int
    values: Any  #: list of bytes, or an Arrow array
    keys: Any  #: the same; empty unless keys were asked for
    records: Sequence[Any] = ()  #: the client's own objects, if it makes some


class Client:
    """A consumer.

    Args:
        servers: host:port.
        topic: the topic to read.
        partitions: how many the topic has.
        keyed: whether keys are looked at, too.
        settings: more of the client's own settings.
    """

    #: What it does for this benchmark, for the tables.
    note: ClassVar[str]
    package: ClassVar[str]
    #: Whether it gets the longer topics.
    quick: ClassVar[bool] = True

    def __init__(self, servers: str, topic: str, partitions: int, *, keyed: bool = False, **settings: Any) -> None:
        self.servers, self.topic, self.partitions, self.keyed = servers, topic, partitions, keyed
        self.settings = settings
        self.open()

    def open(self) -> None:
        """Make the consumer, outside of any group unless ``self.settings`` names one."""
        raise NotImplementedError

    def connect(self) -> None:
        """Have a connection and the topic's metadata."""

    def assign(self, *, latest: bool = False) -> None:
        """Read all partitions, from their beginning or from now on."""
        raise NotImplementedError

    def subscribe(self, on_assigned: Callable[[], None] | None = None) -> None:
        """Read the topic as the member of a group."""
        raise NotImplementedError

    def poll(self, timeout_s: float) -> Iterable[Got]:
        """Records, as many as come by one call. None if there are none in time."""
        raise NotImplementedError

    def do_not_wait_for_more(self) -> None:
        """From now on :meth:`poll` returns as soon as there is something, as those of most clients do anyway."""

    def headers(self, record: Any) -> Pairs:
        """A record's headers."""
        return list(record.headers)

    def close(self) -> None:
        raise NotImplementedError

    def _got(self, partition: int, records: Sequence[Any]) -> Got:
        values = [record.value for record in records]
        return Got(partition, values, [record.key for record in records] if self.keyed else (), records)


class _LikeKafkaPython(Client):
    """A client with the interface of kafka-python, which ours has as well."""

    module: str
    defaults: ClassVar[dict[str, Any]] = {}

    def open(self) -> None:
        self._library = importlib.import_module(self.module)
        settings = self.defaults | _underscores(self.settings)
        self.consumer = self._library.KafkaConsumer(
            bootstrap_servers=self.servers, auto_offset_reset="earliest", **settings
        )

    def connect(self) -> None:
        self.consumer.partitions_for_topic(self.topic)

    def assign(self, *, latest: bool = False) -> None:
        at = self._library.TopicPartition
        self.consumer.assign([at(self.topic, number) for number in range(self.partitions)])
        if latest:
            self.consumer.seek_to_end()

    def poll(self, timeout_s: float) -> Iterable[Got]:
        found = self.consumer.poll(timeout_ms=int(1000 * timeout_s))
        return [self._got(tp.partition, records) for tp, records in found.items()]

    def close(self) -> None:
        self.consumer.close()


class PyConsumer(_LikeKafkaPython):
    note = "`poll()`, compiled decoder"
    package = "pyconsumer"
    module = "pyconsumer"

    def subscribe(self, on_assigned: Callable[[], None] | None = None) -> None:
        from pyconsumer import ConsumerRebalanceListener

        class Told(ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Any) -> None:
                if on_assigned and assigned:
                    on_assigned()

        self.consumer.subscribe([self.topic], listener=Told())


class PyConsumerPure(PyConsumer):
    note = "`poll()`, `PYCONSUMER_PURE=1`"
    quick = False

    def open(self) -> None:
        assert os.environ.setdefault("PYCONSUMER_PURE", "1") == "1"
        super().open()


class PyConsumerColumns(PyConsumer):
    note = "`poll_arrow()`"

    def open(self) -> None:
        from pyarrow.compute import run_end_encode  # imported before the clock runs

        assert run_end_encode
        super().open()
        self._columns = ["partition", "offset", "timestamp", "key", "value"]

    def poll(self, timeout_s: float) -> Iterable[Got]:
        from pyarrow.compute import run_end_encode

        batch = self.consumer.poll_arrow(timeout_ms=1000 * timeout_s, columns=self._columns)
        start = 0
        # Rows of one partition follow each other.
        runs = run_end_encode(batch["partition"])
        for partition, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            keys = batch["key"].slice(start, end - start) if self.keyed else ()
            yield Got(partition, batch["value"].slice(start, end - start), keys)
            start = end


class KafkaPython(_LikeKafkaPython):
    note = "`poll()`"
    package = "kafka-python"
    quick = False
    module = "kafka"
    defaults: ClassVar[dict[str, Any]] = {"group_id": None}

    def subscribe(self, on_assigned: Callable[[], None] | None = None) -> None:
        self.consumer.subscribe([self.topic])


class AIOKafka(Client):
    """Each call is a run of its event loop. A call returns thousands of records, so this cost is negligible."""

    note = "`getmany()`"
    package = "aiokafka"
    quick = False

    def open(self) -> None:
        from aiokafka import AIOKafkaConsumer

        self._runner = asyncio.Runner()
        settings = {"group_id": None} | _underscores(self.settings)

        async def start() -> Any:
            consumer = AIOKafkaConsumer(bootstrap_servers=self.servers, auto_offset_reset="earliest", **settings)
            await consumer.start()
            return consumer

        self.consumer = self._runner.run(start())

    def assign(self, *, latest: bool = False) -> None:
        from aiokafka import TopicPartition

        async def assign() -> None:
            self.consumer.assign([TopicPartition(self.topic, number) for number in range(self.partitions)])
            if latest:
                await self.consumer.seek_to_end()

        self._runner.run(assign())

    def subscribe(self, on_assigned: Callable[[], None] | None = None) -> None:
        async def subscribe() -> None:
            self.consumer.subscribe([self.topic])

        self._runner.run(subscribe())

    def poll(self, timeout_s: float) -> Iterable[Got]:
        found = self._runner.get_loop().run_until_complete(self.consumer.getmany(timeout_ms=int(1000 * timeout_s)))
        return [self._got(tp.partition, records) for tp, records in found.items()]

    def close(self) -> None:
        self._runner.run(self.consumer.stop())
        self._runner.close()


class Confluent(Client):
    note = "`consume(1000)`, default settings"
    package = "confluent-kafka"
    quick = False
    #: Its own names; what its user would set for a fast read of much.
    tuned: ClassVar[dict[str, Any]] = {}

    def open(self) -> None:
        from confluent_kafka import Consumer

        self._messages = 1000  # a call waits until it has as many, or until its time is over
        settings = {
            "bootstrap.servers": self.servers,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        self.consumer = Consumer(settings | self.tuned | self.settings)

    def connect(self) -> None:
        self.consumer.list_topics(self.topic)

    def assign(self, *, latest: bool = False) -> None:
        from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

        offset = OFFSET_END if latest else OFFSET_BEGINNING
        self.consumer.assign([TopicPartition(self.topic, number, offset) for number in range(self.partitions)])

    def subscribe(self, on_assigned: Callable[[], None] | None = None) -> None:
        self.consumer.subscribe([self.topic])

    def poll(self, timeout_s: float) -> Iterable[Got]:
        by_partition: dict[int | None, list[Any]] = {}
        for message in self.consumer.consume(self._messages, timeout_s):
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
            by_partition.setdefault(message.partition(), []).append(message)
        return [
            Got(
                partition or 0,
                [message.value() for message in messages],
                [message.key() for message in messages] if self.keyed else (),
                messages,
            )
            for partition, messages in by_partition.items()
        ]

    def do_not_wait_for_more(self) -> None:
        self._messages = 1

    def headers(self, record: Any) -> Pairs:
        return record.headers() or []

    def close(self) -> None:
        self.consumer.close()


class ConfluentTuned(Confluent):
    note = "`consume(1000)`, tuned: a large queue, short backoff"
    quick = True
    tuned: ClassVar[dict[str, Any]] = {
        # With its defaults it stalls for a second whenever its queue was full.
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 1 << 20,
        "fetch.queue.backoff.ms": 5,
    }


def _underscores(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace(".", "_"): value for name, value in settings.items()}


#: By the names that the tables show.
CLIENTS: dict[str, type[Client]] = {
    "pyconsumer": PyConsumer,
    "pyconsumer, columns": PyConsumerColumns,
    "pyconsumer, pure Python": PyConsumerPure,
    "confluent-kafka": ConfluentTuned,
    "confluent-kafka, defaults": Confluent,
    "aiokafka": AIOKafka,
    "kafka-python": KafkaPython,
}
