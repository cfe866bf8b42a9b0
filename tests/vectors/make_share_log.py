"""Makes ``share_log.json.gz``: what Apache Kafka writes about share groups, and what it says about them.

``python -m tests.vectors.make_share_log`` (needs Java and, the first time, Maven). It holds the one partition of
``__share_group_state`` and of ``__consumer_offsets``. In them are groups with and without members, states of which
records were accepted, released, rejected and left, snapshots and updates, altered offsets, a deleted group and a
deleted topic. Beside the logs are Kafka's answers to ReadShareGroupState and ShareGroupDescribe before it stopped.
"""

from __future__ import annotations

import base64
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

from pyconsumer import KafkaAdminClient, KafkaProducer, KafkaShareConsumer, TopicPartition
from pyconsumer.admin import ConfigResource, NewTopic
from pyconsumer.protocol.messages import read_share_group_state as read_state
from pyconsumer.structs import AcknowledgeType
from tests.support.apache_kafka import ApacheKafka
from tests.support.process import wait_until
from tests.support.raw_client import RawClient

__all__ = ["LOG", "make", "read"]

LOG = Path(__file__).with_name("share_log.json.gz")

_CONFIG: dict[str, object] = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.snapshot.update.records.per.snapshot": 4,
}
_TOPIC = "orders"
_PARTITIONS = 2
_GROUPS = ("accepted", "mixed", "altered")


def _send(servers: str, topic: str, count: int) -> None:
    with KafkaProducer(bootstrap_servers=servers, linger_ms=0) as producer:
        for number in range(count):
            for partition in range(_PARTITIONS):
                producer.send(topic, b"%d" % number, partition=partition)
            if number % 10 == 9:
                producer.flush()


def _consumer(servers: str, group: str, *topics: str) -> KafkaShareConsumer[bytes, bytes]:
    return KafkaShareConsumer(
        *topics,
        bootstrap_servers=servers,
        group_id=group,
        share_acknowledgement_mode="explicit",
        max_poll_records=10,
        fetch_max_wait_ms=200,
    )


def _read(consumer: KafkaShareConsumer[bytes, bytes], count: int, kinds: tuple[AcknowledgeType, ...]) -> None:
    done = 0

    def has_all() -> bool:
        nonlocal done
        for record in consumer.poll(timeout_ms=300).records():
            consumer.acknowledge(record, kinds[record.offset % len(kinds)])
            done += 1
        consumer.commit()
        return done >= count

    wait_until(has_all, 60, f"{count} records")


def _states(servers: str, topic_id: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with RawClient(servers) as client:
        for group in _GROUPS:
            wanted = [read_state.PartitionData(partition=index, leader_epoch=-1) for index in range(_PARTITIONS)]
            topics = [read_state.ReadStateData(topic_id=topic_id, partitions=wanted)]
            request = read_state.ReadShareGroupStateRequest(group_id=group, topics=topics)
            for one in client.request(request).results[0].partitions:
                assert one.error_code == 0, one
                found[f"{group}-{one.partition}"] = {
                    "state_epoch": one.state_epoch,
                    "start_offset": one.start_offset,
                    "batches": [
                        [each.first_offset, each.last_offset, each.delivery_state, each.delivery_count]
                        for each in one.state_batches
                    ],
                }
    return found


def make(folder: Path) -> dict[str, Any]:
    """Let Kafka write both partitions. Return them, as base64, and what it says about them."""
    with ApacheKafka(folder=folder, config=_CONFIG) as kafka:
        servers = kafka.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(_TOPIC, _PARTITIONS, 1), NewTopic("passing", _PARTITIONS, 1)])
            for group in (*_GROUPS, "deleted"):
                admin.alter_configs({ConfigResource("group", group): {"share.auto.offset.reset": "earliest"}})
            _send(servers, _TOPIC, 60)
            _send(servers, "passing", 5)
            for group, topics in (("accepted", [_TOPIC, "passing"]), ("altered", [_TOPIC]), ("deleted", [_TOPIC])):
                consumer = _consumer(servers, group, *topics)
                _read(consumer, 120, (AcknowledgeType.ACCEPT,))
                consumer.close()
            wait_until(lambda: not admin.describe_groups(["deleted"])["deleted"].members, 20, "the members have left")
            admin.alter_share_group_offsets("altered", {TopicPartition(_TOPIC, 1): 25})
            admin.delete_groups(["deleted"])
            admin.delete_topics(["passing"])
            mixed = _consumer(servers, "mixed", _TOPIC)
            kinds = (AcknowledgeType.RELEASE, AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.ACCEPT)
            _read(mixed, 100, kinds)
            topic_id = base64.urlsafe_b64decode(admin.describe_topics([_TOPIC])[0].topic_id + "==")
            groups = {}
            for group in _GROUPS:
                one = admin.describe_groups([group])[group]
                groups[group] = {
                    "state": one.state,
                    "epoch": one.epoch,
                    "assignment_epoch": one.assignment_epoch,
                    "members": [
                        [each.member_id, each.epoch, list(each.topics), [str(tp) for tp in each.assignment]]
                        for each in one.members
                    ],
                }
            states = _states(servers, topic_id)
            kafka.pause()
            logs = {}
            for name in ("__share_group_state-0", "__consumer_offsets-0"):
                (segment,) = kafka.data_folder.glob(f"{name}/*.log")
                logs[name] = base64.b64encode(segment.read_bytes()).decode()
    return {"topic_id": topic_id.hex(), "logs": logs, "groups": groups, "states": states}


def read() -> dict[str, Any]:
    """Return what :func:`make` returned, with the logs as bytes."""
    found: dict[str, Any] = json.loads(gzip.decompress(LOG.read_bytes()))
    found["logs"] = {name: base64.b64decode(data) for name, data in found["logs"].items()}
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = make(Path(folder))
    with LOG.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, mtime=0) as packed:
        packed.write(json.dumps(found).encode())
    print(f"{LOG}: {LOG.stat().st_size} bytes; states: {found['states']}")


if __name__ == "__main__":
    main()
