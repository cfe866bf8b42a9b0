"""One member of a consumer group, as a program: ours, confluent-kafka's or kafka-python's consumer.

``python -m tests.support.member_program OPTIONS`` takes its :class:`Options` as JSON and prints one JSON object a line
for everything that counts: partitions assigned, revoked, lost. Records processed. Offsets committed, commits refused.
A line is written before the next step begins, so that whatever a killed member did is known. A line ``leave`` on
standard input makes it leave in good order.

All members work alike: take records, process them, commit, and commit the rest in the callback when
partitions are revoked. Java's: ``GroupMembers.java``. A line ``freeze`` makes it stop (SIGSTOP) when it has worked on
its next records and has not committed them.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any, Protocol

__all__ = ["CLIENTS", "Options"]

_WRITING = threading.Lock()
_REMEMBERED = 120  # lines


@dataclass
class Options:
    """Orders to a member.

    Attributes:
        client: a name in :data:`CLIENTS`.
        name: of the member. Its client id, and the metadata of its commits.
        strategy: ``range``, ``roundrobin`` or ``cooperative-sticky``.
        batch: most records between two commits.
        work_s: how long it works on each record.
        request_timeout_ms: of a request (ours only).
        instance: group instance id of a static member.
        protocol: ``classic`` or ``consumer``. The latter has no use for strategy, session and heartbeat.
    """

    client: str
    name: str
    servers: str
    group: str
    topic: str
    strategy: str = "range"
    session_ms: int = 6000
    heartbeat_ms: int = 200
    batch: int = 25
    work_s: float = 0.0005
    request_timeout_ms: int = 30_000
    instance: str | None = None
    protocol: str = "classic"

    def text(self) -> str:
        return json.dumps(asdict(self))


Record = tuple[int, int, int]  # partition, offset, number


class Consumer(Protocol):
    """The interface that the clients have in common here."""

    one_by_one: bool  #: whether ``poll`` gives one record at most

    def poll(self) -> list[Record]: ...

    def commit(self, offsets: dict[int, int]) -> None: ...

    def close(self) -> None: ...


class TurnedAway(Exception):
    """The group does not take the member: it is of the other protocol, and the broker's policy forbids a change."""


class Work:
    """Offsets that a member has processed and not committed. Reports everything that happens."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._positions: dict[int, int] = {}
        self.uncommitted = 0
        self.consumer: Consumer

    def tell(self, what: str, **more: object) -> None:
        line = json.dumps({"at": time.monotonic(), "member": self._name, "what": what} | more) + "\n"
        with _WRITING:
            os.write(1, line.encode())

    def process(self, records: list[Record]) -> None:
        self.tell("processed", records=records)
        for partition, offset, _ in records:
            self._positions[partition] = offset + 1
        self.uncommitted += len(records)

    def commit(self, partitions: Collection[int] | None = None) -> None:
        """Commit the processed records. A refused commit is reported, and repeated while the partition stays."""
        self.uncommitted = 0
        offsets = {p: offset for p, offset in self._positions.items() if partitions is None or p in partitions}
        if not offsets:
            return
        try:
            self.consumer.commit(offsets)
        except Exception as error:
            self.tell("refused", offsets=list(offsets.items()), error=type(error).__name__, detail=str(error)[:300])
            return
        self.tell("committed", offsets=list(offsets.items()))
        for partition in offsets:
            del self._positions[partition]

    def assigned(self, partitions: Collection[int]) -> None:
        self.tell("assigned", partitions=sorted(partitions))

    def revoked(self, partitions: Collection[int], *, may_commit: bool = True) -> None:
        if may_commit:
            self.commit(partitions)
        self._gone("revoked", partitions)

    def lost(self, partitions: Collection[int]) -> None:
        self._gone("lost", partitions)

    def _gone(self, what: str, partitions: Collection[int]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)
        self.tell(what, partitions=sorted(partitions))


def _numbers(partitions: Collection[Any]) -> list[int]:
    return [one.partition for one in partitions]


class Ours:
    one_by_one = False

    def __init__(self, options: Options, work: Work) -> None:
        from pyconsumer import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition

        class Listener(ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
                work.assigned(_numbers(assigned))

            def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
                work.revoked(_numbers(revoked))

            def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
                work.lost(_numbers(lost))

        self._name = options.name
        self._at = lambda partition: TopicPartition(options.topic, partition)
        self._entry = OffsetAndMetadata
        classic: dict[str, Any] = {
            "partition_assignment_strategy": [options.strategy],
            "session_timeout_ms": options.session_ms,
            "heartbeat_interval_ms": options.heartbeat_ms,
        }
        self._consumer = KafkaConsumer(
            bootstrap_servers=options.servers,
            client_id=options.name,
            group_id=options.group,
            group_instance_id=options.instance,
            group_protocol=options.protocol,
            **(classic if options.protocol == "classic" else {}),
            request_timeout_ms=options.request_timeout_ms,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=options.batch,
        )
        self._consumer.subscribe([options.topic], listener=Listener())

    def poll(self) -> list[Record]:
        from pyconsumer.errors import GroupIdNotFoundError, InconsistentGroupProtocolError

        try:
            return [(r.partition, r.offset, int(r.value)) for r in self._consumer.poll(100).records()]
        except (GroupIdNotFoundError, InconsistentGroupProtocolError) as error:
            raise TurnedAway(repr(error)) from error

    def commit(self, offsets: dict[int, int]) -> None:
        self._consumer.commit({self._at(p): self._entry(offset, self._name) for p, offset in offsets.items()})

    def close(self) -> None:
        self._consumer.close()


class Confluent:
    one_by_one = True

    def __init__(self, options: Options, work: Work) -> None:
        import confluent_kafka

        self._library = confluent_kafka
        self._options, self._work = options, work
        settings = {
            "bootstrap.servers": options.servers,
            "client.id": options.name,
            "group.id": options.group,
            "group.protocol": options.protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
        }
        if options.protocol == "classic":
            settings["partition.assignment.strategy"] = options.strategy
            settings["session.timeout.ms"] = options.session_ms
            settings["heartbeat.interval.ms"] = options.heartbeat_ms
        if options.instance is not None:
            settings["group.instance.id"] = options.instance
        self._consumer: Any = confluent_kafka.Consumer(settings)
        self._consumer.subscribe(
            [options.topic],
            on_assign=lambda _, partitions: work.assigned(_numbers(partitions)),
            on_revoke=lambda _, partitions: work.revoked(_numbers(partitions)),
            on_lost=lambda _, partitions: work.lost(_numbers(partitions)),
        )

    def poll(self) -> list[Record]:
        # One at a time: `consume` may give records of before a rebalance that it has told us of meanwhile.
        message = self._consumer.poll(0.1)
        if message is None:
            return []
        if message.error() is not None:
            self._work.tell("error", detail=str(message.error()))
            return []
        return [(message.partition(), message.offset(), int(message.value()))]

    def commit(self, offsets: dict[int, int]) -> None:
        entry, options = self._library.TopicPartition, self._options
        self._consumer.commit(
            offsets=[entry(options.topic, p, offset, options.name) for p, offset in offsets.items()],
            asynchronous=False,
        )

    def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    one_by_one = False

    def __init__(self, options: Options, work: Work) -> None:
        import kafka
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

        class Listener(kafka.ConsumerRebalanceListener):
            """Called in the client's own thread, which must not block, so it cannot wait for a commit."""

            def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
                work.assigned(_numbers(assigned))

            def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
                work.revoked(_numbers(revoked), may_commit=False)

            def on_partitions_lost(self, lost: Collection[Any]) -> None:
                work.lost(_numbers(lost))

        assignors = (RangePartitionAssignor, RoundRobinPartitionAssignor, CooperativeStickyAssignor)
        self._library, self._options = kafka, options
        self._consumer: Any = kafka.KafkaConsumer(
            bootstrap_servers=options.servers,
            client_id=options.name,
            group_id=options.group,
            group_instance_id=options.instance,
            partition_assignment_strategy=[one for one in assignors if one.name == options.strategy],
            session_timeout_ms=options.session_ms,
            heartbeat_interval_ms=options.heartbeat_ms,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=options.batch,
            metadata_max_age_ms=1000,  # a leader that joined before it had metadata divides nothing until the next
        )
        self._consumer.subscribe([options.topic], listener=Listener())

    def poll(self) -> list[Record]:
        found = self._consumer.poll(timeout_ms=100)
        return [(r.partition, r.offset, int(r.value)) for records in found.values() for r in records]

    def commit(self, offsets: dict[int, int]) -> None:
        at, entry, options = self._library.TopicPartition, self._library.OffsetAndMetadata, self._options
        self._consumer.commit(
            {at(options.topic, p): entry(offset, options.name, -1) for p, offset in offsets.items()},
            timeout_ms=5000,
        )

    def close(self) -> None:
        self._consumer.close(autocommit=False, timeout_ms=5000)


CLIENTS: dict[str, Callable[[Options, Work], Consumer]] = {
    "ours": Ours,
    "confluent": Confluent,
    "kafka-python": KafkaPython,
}


def _listen(leave: threading.Event, freeze: threading.Event) -> None:
    with open(0, "rb", buffering=0, closefd=False) as commands:
        for line in commands:
            if line == b"leave\n":
                break
            if line == b"freeze\n":
                freeze.set()
    leave.set()


def run(options: Options) -> int:
    leave, freeze = threading.Event(), threading.Event()
    threading.Thread(target=_listen, args=(leave, freeze), daemon=True).start()
    work = Work(options.name)
    consumer = CLIENTS[options.client](options, work)
    work.consumer = consumer
    work.tell("started")
    try:
        while not leave.is_set():
            records = consumer.poll()
            if records:
                work.process(records)
                time.sleep(options.work_s * len(records))
                if freeze.is_set():
                    freeze.clear()
                    os.kill(os.getpid(), signal.SIGSTOP)
            if not records or not consumer.one_by_one or work.uncommitted >= options.batch:
                work.commit()
        consumer.close()
    except TurnedAway as error:
        work.tell("error", detail=str(error))
        consumer.close()
        return 0
    except Exception:
        work.tell("failed", detail=traceback.format_exc())
        return 1
    work.tell("left")
    return 0


class _Remembered(logging.Handler):
    """The last lines of everything, for :func:`_prepare_to_tell_all`."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=_REMEMBERED)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def _prepare_to_tell_all() -> None:
    """On SIGUSR1, say where each thread is, and all that was logged last, debug messages included."""
    form = logging.Formatter("%(created).3f %(name)s %(message)s")
    told, remembered = logging.StreamHandler(sys.stderr), _Remembered()
    told.setLevel(logging.INFO)
    for handler in (told, remembered):
        handler.setFormatter(form)
    logging.basicConfig(level=logging.INFO, handlers=[told, remembered])
    for name in ("kafka.coordinator", "kafka.cluster", "pyconsumer.consumer"):
        logging.getLogger(name).setLevel(logging.DEBUG)

    def tell(signal_number: int, frame: object) -> None:
        print("-- logged last:", *list(remembered.lines), sep="\n", file=sys.stderr, flush=True)

    signal.signal(signal.SIGUSR1, tell)
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=True)


if __name__ == "__main__":
    _prepare_to_tell_all()
    sys.exit(run(Options(**json.loads(sys.argv[1]))))
