"""Counts the modules that five journeys pass through, such as a record, a commit, a rebalance.

``tests/unit/support/test_journeys.py`` runs it and compares the counts with their aims.

``python -m tests.support.journeys`` runs each of them against an embedded broker in a thread, and prints for each

* the modules on its *way*: those on the call stack whenever the thing is handed on, at the functions of
  :data:`HAND_OVERS`. A reader who follows it from one end to the other reads these.
* all modules of ``pyconsumer`` in which any function was *entered* in the meantime, with everything else that a poll
  does (deadlines, metadata, the next fetch, counters).

Generated code, messages (``protocol/messages``) and modules of which only the import runs do not count.
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
#: Functions at which each journey is followed, by the ends of their modules' names.
HAND_OVERS = {
    "record": (
        ("network/channel.py", "Channel._read"),
        ("network/frames.py", "FrameReader.advance"),
        ("protocol/api.py", "decode_response"),
        ("protocol/schema.py", "Message.decode_from"),
        ("consumer/fetch_session.py", "FetchSessionHandler.on_response"),
        ("consumer/completed_fetch.py", "CompletedFetch.__init__"),
        ("consumer/fetch_buffer.py", "FetchBuffer.add"),
        ("consumer/fetch_buffer.py", "FetchBuffer._advance"),
        ("consumer/partition_state.py", "TopicPartitionState.pass_records"),
        ("consumer/records.py", "empty_records"),
    ),
    "commit": (
        ("consumer/coordinator/offset_commits.py", "OffsetCommitter._send"),
        ("network/client_requests.py", "UnsentRequests.enqueue"),
        ("protocol/requests/offsets.py", "offset_commit_request"),
        ("protocol/schema.py", "Message.encode_parts"),
        ("network/channel.py", "Channel.flush"),
        ("network/frames.py", "FrameReader.advance"),
        ("protocol/api.py", "decode_response"),
        ("protocol/requests/offsets.py", "read_offset_commit"),
        ("consumer/coordinator/offset_commits.py", "OffsetCommitter._judge"),
    ),
    "commit in the broker": (
        ("protocol/api.py", "decode_request_header"),
        ("broker/handlers/offset_commit.py", "handle"),
        ("broker/group/manager.py", "GroupMetadataManager.store_offsets"),
        ("broker/group/common/offset_records.py", "offset_record"),
        ("protocol/records/builder.py", "BatchBuilder.build"),
        ("broker/log/segment.py", "Segment.append"),
        ("broker/group/common/offsets.py", "GroupOffsets.on_commit_appended"),
        ("protocol/schema.py", "Message.encode_parts"),
    ),
    "rebalance": (
        ("consumer/coordinator/classic_group_membership.py", "ClassicMembership.begin_join"),
        ("consumer/coordinator/coordinator_client.py", "CoordinatorClient.send"),
        ("consumer/coordinator/classic_group_membership.py", "ClassicMembership.on_join_response"),
        ("consumer/coordinator/classic_group_rebalance.py", "perform_assignment"),
        ("assignors/range.py", "RangeAssignor.assign"),
        ("consumer/coordinator/classic_group_membership.py", "ClassicMembership.on_sync_response"),
        ("consumer/coordinator/classic_group_rebalance.py", "RebalanceSteps.complete"),
        ("consumer/coordinator/classic_group_rebalance.py", "RebalanceSteps.assign"),
        ("consumer/subscription_state.py", "SubscriptionState._set_assignment"),
        ("consumer/partition_state.py", "TopicPartitionState.move_to"),
        ("consumer/coordinator/classic_group_membership.py", "ClassicMembership.on_heartbeat_response"),
        ("consumer/coordinator/heartbeat.py", "Heartbeat.sent"),
    ),
    "Spark batch": (
        ("spark/options.py", "SourceOptions.parse"),
        ("spark/subscription.py", "parse_subscription"),
        ("spark/offset_ranges.py", "resolve"),
        ("spark/offset_reader.py", "OffsetReader._offsets"),
        ("spark/offset_ranges.py", "divide"),
        ("spark/client_cache.py", "borrow"),
        ("spark/partition_reader.py", "PartitionReader._fetch_steps"),
        ("spark/partition_reader.py", "record_batch"),
        ("spark/schema.py", "arrow_schema"),
    ),
}
_BELOW = ("network/", "protocol/", "clock.py", "structs.py", "errors.py", "config.py")


class Journey:
    """Notes the modules that are entered, in every thread, while :meth:`recorded` is active."""

    def __init__(self) -> None:
        self.client: set[str] = set()
        self.broker: set[str] = set()
        self.ways: dict[str, set[str]] = {name: set() for name in HAND_OVERS}
        self.met: set[tuple[str, str]] = set()
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
                here = (name, frame.f_code.co_qualname)
                for journey, places in HAND_OVERS.items():
                    if here in places:
                        self.met.add(here)
                        self.ways[journey].update(self._stack(frame))

    def _stack(self, frame: FrameType | None) -> Iterator[str]:
        while frame is not None:
            if frame.f_code.co_filename.startswith(self._root):
                yield frame.f_code.co_filename.removeprefix(self._root)
            frame = frame.f_back

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Start from scratch, and note modules inside the block."""
        for modules in (self.client, self.broker, *self.ways.values()):
            modules.clear()
        self._active = True
        try:
            yield
        finally:
            self._active = False


def _print(title: str, way: set[str], entered: set[str]) -> None:
    print(f"{title}: {len(way)} on its way, {len(entered)} entered")
    print("    " + " ".join(sorted(way)))
    print("    besides: " + " ".join(sorted(entered - way)))


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
    renamed = {place for places in HAND_OVERS.values() for place in places} - journey.met
    print(f"never met, so renamed or gone: {sorted(renamed)}" if renamed else "every hand-over was met")


def _record(journey: Journey, servers: str, producer: KafkaProducer) -> None:
    with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("journeys", 0)])
        for number in range(5):  # from the second on nothing is done for the first time
            producer.send("journeys", f"{number}", partition=0).get(timeout=10)
            with journey.recorded():
                while not consumer.poll(timeout_ms=1000):
                    pass
        _print("a record, from the socket to the user", journey.ways["record"] & journey.client, journey.client)


def _group(journey: Journey, servers: str) -> None:
    options = {"bootstrap_servers": servers, "group_id": "journeys", "auto_offset_reset": "earliest"}
    with KafkaConsumer("journeys", **options) as first:
        while not first.poll(timeout_ms=1000):
            pass
        first.commit()
        with journey.recorded():
            first.commit()
        _print("a commit, in the client", journey.ways["commit"] & journey.client, journey.client)
        _print("a commit, in the broker", journey.ways["commit in the broker"] & journey.broker, journey.broker)
        with KafkaConsumer("journeys", **options) as second, journey.recorded():
            while not (len(first.assignment()) == len(second.assignment()) == 1):
                first.poll(timeout_ms=50)
                second.poll(timeout_ms=50)
        entered, way = (
            {name for name in modules if not name.startswith(_BELOW)}
            for modules in (journey.client, journey.ways["rebalance"])
        )
        _print("a rebalance, above the socket", way, entered)


def _spark(journey: Journey, servers: str) -> None:
    from pyconsumer.spark.source import KafkaDataSource

    options = {"kafka.bootstrap.servers": servers, "subscribe": "journeys"}
    with journey.recorded():
        source = KafkaDataSource(options)
        reader = source.reader(schema=_schema(source.schema()))
        rows = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
    assert rows == 5
    entered, way = (
        {name for name in modules if name.startswith("spark/")}
        for modules in (journey.client, journey.ways["Spark batch"])
    )
    _print("a Spark batch, in pyconsumer.spark", way, entered)


def _schema(ddl: str) -> Any:
    from pyspark.sql.types import BinaryType, StructField, StructType

    return StructType([StructField(part.split()[0].strip("`"), BinaryType()) for part in ddl.split(",")])


if __name__ == "__main__":
    main()
