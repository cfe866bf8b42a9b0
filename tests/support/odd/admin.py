"""Odd requests of admin clients: topics, partitions, configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyconsumer.protocol.messages.alter_configs import AlterableConfig as WholeConfig
from pyconsumer.protocol.messages.alter_configs import AlterConfigsRequest
from pyconsumer.protocol.messages.alter_configs import AlterConfigsResource as WholeResource
from pyconsumer.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pyconsumer.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pyconsumer.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pyconsumer.protocol.messages.describe_cluster import DescribeClusterRequest
from pyconsumer.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pyconsumer.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from pyconsumer.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from pyconsumer.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pyconsumer.protocol.messages.list_config_resources import ListConfigResourcesRequest
from pyconsumer.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from pyconsumer.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.odd.world import Case, World, asking

__all__ = ["CASES"]

LAST = 2**31 - 1
TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32


def creating(version: int = 7, *, check: bool = False, timeout_ms: int = 10_000, **changes: Any) -> Case:
    """Return the case of a CreateTopics of one topic of a new name."""

    def case(world: World) -> str:
        topic = CreatableTopic(world.fresh("c"), 1, 1)
        for key, value in changes.items():
            setattr(topic, key, value(world) if callable(value) else value)
        return world.asked(CreateTopicsRequest([topic], timeout_ms, check), version)

    return case


def with_config(name: str, value: str | None) -> Case:
    return creating(configs=[CreatableTopicConfig(name, value)])


def assigned(*partitions: tuple[int, list[str]], count: int = -1, factor: int = -1) -> Case:
    """Return the case of replicas given by hand. ``"own"`` stands for the broker's node id."""

    def assignments(world: World) -> list[CreatableReplicaAssignment]:
        (node,) = world.client.brokers()
        numbers = {"own": node, "other": node + 1000}
        return [CreatableReplicaAssignment(index, [numbers[each] for each in nodes]) for index, nodes in partitions]

    return creating(num_partitions=count, replication_factor=factor, assignments=assignments)


def several(make: Callable[[World], list[CreatableTopic]]) -> Case:
    return asking(lambda world: CreateTopicsRequest(make(world), 10_000), 7)


CREATE: dict[str, Case] = {
    "good": creating(),
    "only checked": creating(check=True),
    "timeout 0": creating(timeout_ms=0),
    "timeout -1": creating(timeout_ms=-1),
    "timeout -1, only checked": creating(timeout_ms=-1, check=True),
    "timeout -1, an illegal name": creating(timeout_ms=-1, name="a/b"),
    "timeout -1, the name of a topic": creating(timeout_ms=-1, name=lambda w: w.topic()),
    "an empty name": creating(name=""),
    "a dot": creating(name="."),
    "two dots": creating(name=".."),
    "a name with a slash": creating(name="a/b"),
    "a name with a letter beyond ASCII": creating(name="ä"),
    "a name of 249 letters": creating(name=lambda w: w.fresh("c").ljust(249, "x"), check=True),
    "a name of 250 letters": creating(name="x" * 250),
    "the name of an internal topic": creating(name="__consumer_offsets"),
    "the name of a topic": creating(name=lambda w: w.topic()),
    "the name of a topic, only checked": creating(name=lambda w: w.topic(), check=True),
    "the name of the cluster's metadata": creating(name="__cluster_metadata"),
    "a name that differs by a dot": creating(name=lambda w: w.topic().replace("-", "."), check=True),
    "no partitions": creating(num_partitions=0),
    "-1 partitions": creating(num_partitions=-1),
    "-1 partitions by version 2": creating(2, num_partitions=-1),
    "-2 partitions": creating(num_partitions=-2),
    "2**31 - 1 partitions": creating(num_partitions=LAST),
    "10001 partitions": creating(num_partitions=10_001),
    "replication factor 0": creating(replication_factor=0),
    "replication factor -1": creating(replication_factor=-1),
    "replication factor -1 by version 2": creating(2, replication_factor=-1),
    "replication factor -2": creating(replication_factor=-2),
    "replication factor 2 of one broker": creating(replication_factor=2),
    "no topics": several(lambda w: []),
    "a topic twice": several(lambda w: [CreatableTopic(w.fresh("c"), 1, 1)] * 2),
    "a good and a bad one": several(lambda w: [CreatableTopic(w.fresh("c"), 1, 1), CreatableTopic("a/b", 1, 1)]),
    "replicas by hand": assigned((0, ["own"])),
    "replicas by hand and a count": assigned((0, ["own"]), count=1),
    "replicas by hand and a factor": assigned((0, ["own"]), factor=1),
    "replicas of an unknown broker": assigned((0, ["other"])),
    "a replica twice": assigned((0, ["own", "own"])),
    "no replicas": assigned((0, [])),
    "replicas of partition 1 only": assigned((1, ["own"])),
    "replicas of partition -1": assigned((-1, ["own"])),
    "replicas of a partition twice": assigned((0, ["own"]), (0, ["own"])),
    "replicas of different numbers": assigned((0, ["own"]), (1, ["own", "other"])),
    "an unknown setting": with_config("nonsense", "1"),
    "an empty setting": with_config("", "1"),
    "a null value": with_config("retention.ms", None),
    "an empty value": with_config("retention.ms", ""),
    "a value that is no number": with_config("retention.ms", "abc"),
    "a number with blanks": with_config("retention.ms", " 5 "),
    "retention.ms -2": with_config("retention.ms", "-2"),
    "retention.ms -1": with_config("retention.ms", "-1"),
    "retention.ms 2**63": with_config("retention.ms", str(2**63)),
    "cleanup.policy nonsense": with_config("cleanup.policy", "nonsense"),
    "cleanup.policy in capitals": with_config("cleanup.policy", "COMPACT"),
    "cleanup.policy empty": with_config("cleanup.policy", ""),
    "cleanup.policy with blanks": with_config("cleanup.policy", "compact, delete"),
    "cleanup.policy twice": with_config("cleanup.policy", "delete,delete"),
    "compression.type nonsense": with_config("compression.type", "lzma"),
    "compression.type none": with_config("compression.type", "none"),
    "max.message.bytes -1": with_config("max.message.bytes", "-1"),
    "segment.bytes 1": with_config("segment.bytes", "1"),
    "min.insync.replicas 0": with_config("min.insync.replicas", "0"),
    "min.insync.replicas 5": with_config("min.insync.replicas", "5"),
    "a Boolean 'yes'": with_config("unclean.leader.election.enable", "yes"),
    "a Boolean 'TRUE'": with_config("unclean.leader.election.enable", "TRUE"),
    "message.timestamp.type nonsense": with_config("message.timestamp.type", "nonsense"),
    "message.format.version": with_config("message.format.version", "3.0"),
    "min.cleanable.dirty.ratio 2": with_config("min.cleanable.dirty.ratio", "2"),
    "compression.zstd.level 99": with_config("compression.zstd.level", "99"),
    "a setting twice": creating(
        configs=[CreatableTopicConfig("retention.ms", "1"), CreatableTopicConfig("retention.ms", "2")]
    ),
    "local.retention.ms above retention.ms": creating(
        configs=[CreatableTopicConfig("retention.ms", "1000"), CreatableTopicConfig("local.retention.ms", "2000")]
    ),
    "min.compaction.lag above max": creating(
        configs=[
            CreatableTopicConfig("min.compaction.lag.ms", "2000"),
            CreatableTopicConfig("max.compaction.lag.ms", "1000"),
        ]
    ),
    "remote storage": with_config("remote.storage.enable", "true"),
}


def by_name(*names: str | None, version: int = 6, timeout_ms: int = 10_000) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=[name or "" for name in names], timeout_ms=timeout_ms)
    return DeleteTopicsRequest([DeleteTopicState(name) for name in names], timeout_ms=timeout_ms)


def by_id(*ids: bytes, name: str | None = None) -> DeleteTopicsRequest:
    return DeleteTopicsRequest([DeleteTopicState(name, each) for each in ids], timeout_ms=10_000)


def named_twice(world: World) -> DeleteTopicsRequest:
    name = world.topic()
    return DeleteTopicsRequest([DeleteTopicState(name), DeleteTopicState(None, world.id_of(name))], timeout_ms=10_000)


DELETE: dict[str, Case] = {
    "good": asking(lambda w: by_name(w.topic()), 6),
    "by id": asking(lambda w: by_id(w.id_of(w.topic())), 6),
    "an unknown topic": asking(lambda w: by_name(w.fresh()), 6),
    "an unknown topic by version 5": asking(lambda w: by_name(w.fresh(), version=5), 5),
    "an empty name": asking(lambda w: by_name(""), 6),
    "an illegal name": asking(lambda w: by_name("a/b"), 6),
    "an unknown id": asking(lambda w: by_id(b"?" * 16), 6),
    "id 0 and no name": asking(lambda w: by_id(bytes(16)), 6),
    "an id and a name": asking(lambda w: by_id(w.id_of(w.topic()), name="another"), 6),
    "none": asking(lambda w: by_name(), 6),
    "a topic twice": asking(lambda w: by_name(*[w.topic()] * 2), 6),
    "a topic by name and by id": asking(named_twice, 6),
    "an unknown topic twice": asking(lambda w: by_name(*[w.fresh()] * 2), 6),
    "an unknown id twice": asking(lambda w: by_id(b"?" * 16, b"?" * 16), 6),
    "timeout 0": asking(lambda w: by_name(w.topic(), timeout_ms=0), 6),
    "timeout -1": asking(lambda w: by_name(w.topic(), timeout_ms=-1), 6),
    "timeout -1, an unknown topic": asking(lambda w: by_name(w.fresh(), timeout_ms=-1), 6),
}


def growing(count: int = 2, *, check: bool = False, name: str | None = None, nodes: Any = None, **more: Any) -> Case:
    def case(world: World) -> str:
        assignments = None
        if nodes is not None:
            (own,) = world.client.brokers()
            numbers = {"own": own, "other": own + 1000}
            assignments = [CreatePartitionsAssignment([numbers[each] for each in part]) for part in nodes]
        topic = CreatePartitionsTopic(world.topic() if name is None else name, count, assignments)
        request = CreatePartitionsRequest([topic] * more.get("times", 1), more.get("timeout_ms", 10_000), check)
        return world.asked(request, 3)

    return case


PARTITIONS: dict[str, Case] = {
    "good": growing(),
    "only checked": growing(check=True),
    "the same number": growing(1),
    "0": growing(0),
    "-1": growing(-1),
    "an unknown topic": growing(name="odd-nobody-made-it"),
    "an empty name": growing(name=""),
    "a topic twice": growing(times=2),
    "timeout 0": growing(timeout_ms=0),
    "timeout -1": growing(timeout_ms=-1),
    "timeout -1, an unknown topic": growing(timeout_ms=-1, name="odd-nobody-made-it"),
    "replicas by hand": growing(nodes=[["own"]]),
    "no replicas by hand": growing(nodes=[]),
    "replicas of two for one": growing(nodes=[["own"], ["own"]]),
    "replicas of an unknown broker": growing(nodes=[["other"]]),
    "replicas of none": growing(nodes=[[]]),
    "a replica twice": growing(nodes=[["own", "own"]]),
    "none": asking(lambda w: CreatePartitionsRequest([], 10_000), 3),
}


def altering(
    name: str, value: str | None, operation: int = 0, *, kind: int = TOPIC, resource: Any = None, times: int = 1
) -> Case:
    """Return the case of an IncrementalAlterConfigs, for a new topic by default."""

    def case(world: World) -> str:
        named = resource(world) if callable(resource) else resource
        changes = [AlterableConfig(name, operation, value)] * times
        target = AlterConfigsResource(kind, world.topic() if named is None else named, changes)
        return world.asked(IncrementalAlterConfigsRequest([target]), 1)

    return case


def replacing(name: str, value: str | None, *, kind: int = TOPIC, resource: str | None = None, times: int = 1) -> Case:
    def case(world: World) -> str:
        target = WholeResource(
            kind, world.topic() if resource is None else resource, [WholeConfig(name, value)] * times
        )
        return world.asked(AlterConfigsRequest([target]), 2)

    return case


ALTER: dict[str, Case] = {
    "IncrementalAlterConfigs: good": altering("retention.ms", "5"),
    "IncrementalAlterConfigs: an unknown setting": altering("nonsense", "5"),
    "IncrementalAlterConfigs: an unknown setting deleted": altering("nonsense", None, 1),
    "IncrementalAlterConfigs: an empty setting": altering("", "5"),
    "IncrementalAlterConfigs: a null value": altering("retention.ms", None),
    "IncrementalAlterConfigs: a deletion with a value": altering("retention.ms", "5", 1),
    "IncrementalAlterConfigs: a deletion of what is not set": altering("retention.ms", None, 1),
    "IncrementalAlterConfigs: operation 4": altering("retention.ms", "5", 4),
    "IncrementalAlterConfigs: operation -1": altering("retention.ms", "5", -1),
    "IncrementalAlterConfigs: appending to a number": altering("retention.ms", "5", 2),
    "IncrementalAlterConfigs: subtracting from a number": altering("retention.ms", "5", 3),
    "IncrementalAlterConfigs: appending to a list": altering("cleanup.policy", "compact", 2),
    "IncrementalAlterConfigs: appending nonsense": altering("cleanup.policy", "nonsense", 2),
    "IncrementalAlterConfigs: subtracting all": altering("cleanup.policy", "delete", 3),
    "IncrementalAlterConfigs: subtracting what is not there": altering("cleanup.policy", "compact", 3),
    "IncrementalAlterConfigs: appending null": altering("cleanup.policy", None, 2),
    "IncrementalAlterConfigs: a value that is no number": altering("retention.ms", "abc"),
    "IncrementalAlterConfigs: a value out of range": altering("min.insync.replicas", "0"),
    "IncrementalAlterConfigs: a setting twice": altering("retention.ms", "5", times=2),
    "IncrementalAlterConfigs: no settings": altering("retention.ms", "5", times=0),
    "IncrementalAlterConfigs: an unknown topic": altering("retention.ms", "5", resource="odd-nobody-made-it"),
    "IncrementalAlterConfigs: an empty topic name": altering("retention.ms", "5", resource=""),
    "IncrementalAlterConfigs: an illegal topic name": altering("retention.ms", "5", resource="a/b"),
    "IncrementalAlterConfigs: resource type 0": altering("retention.ms", "5", kind=0),
    "IncrementalAlterConfigs: resource type 1": altering("retention.ms", "5", kind=1),
    "IncrementalAlterConfigs: resource type 99": altering("retention.ms", "5", kind=99),
    "IncrementalAlterConfigs: an unknown broker": altering("log.retention.ms", "5", kind=BROKER, resource="4711"),
    "IncrementalAlterConfigs: a broker that is no number": altering(
        "log.retention.ms", "5", kind=BROKER, resource="abc"
    ),
    "IncrementalAlterConfigs: a broker's setting that cannot change": altering(
        "auto.create.topics.enable", "false", kind=BROKER, resource=""
    ),
    "IncrementalAlterConfigs: a broker's setting out of range": altering(
        "num.io.threads", "0", kind=BROKER, resource=""
    ),
    "IncrementalAlterConfigs: a group": altering(
        "consumer.session.timeout.ms", "30000", kind=GROUP, resource=lambda w: w.fresh("g")
    ),
    "IncrementalAlterConfigs: a group's setting out of range": altering(
        "consumer.session.timeout.ms", "1", kind=GROUP, resource=lambda w: w.fresh("g")
    ),
    "IncrementalAlterConfigs: a group's unknown setting": altering(
        "nonsense", "1", kind=GROUP, resource=lambda w: w.fresh("g")
    ),
    "IncrementalAlterConfigs: an empty group": altering(
        "consumer.session.timeout.ms", "30000", kind=GROUP, resource=""
    ),
    "IncrementalAlterConfigs: none": asking(lambda w: IncrementalAlterConfigsRequest([]), 1),
    "IncrementalAlterConfigs: a topic twice": asking(
        lambda w: IncrementalAlterConfigsRequest(
            [AlterConfigsResource(TOPIC, w.topic(), [AlterableConfig("retention.ms", 0, "5")])] * 2
        ),
        1,
    ),
    "AlterConfigs: good": replacing("retention.ms", "5"),
    "AlterConfigs: an unknown setting": replacing("nonsense", "5"),
    "AlterConfigs: a null value": replacing("retention.ms", None),
    "AlterConfigs: a value that is no number": replacing("retention.ms", "abc"),
    "AlterConfigs: a setting twice": replacing("retention.ms", "5", times=2),
    "AlterConfigs: no settings": replacing("retention.ms", "5", times=0),
    "AlterConfigs: an unknown topic": replacing("retention.ms", "5", resource="odd-nobody-made-it"),
    "AlterConfigs: resource type 99": replacing("retention.ms", "5", kind=99),
}


def described(kind: int, name: Any, keys: list[str] | None = None) -> Case:
    keys = ["retention.ms"] if keys is None else keys
    return asking(
        lambda w: DescribeConfigsRequest([DescribeConfigsResource(kind, name(w) if callable(name) else name, keys)]), 4
    )


def topic_of(world: World) -> str:
    return world.topic()


DESCRIBE: dict[str, Case] = {
    "DescribeConfigs: good": described(TOPIC, topic_of),
    "DescribeConfigs: an unknown topic": described(TOPIC, "odd-nobody-made-it"),
    "DescribeConfigs: an empty topic name": described(TOPIC, ""),
    "DescribeConfigs: an illegal topic name": described(TOPIC, "a/b"),
    "DescribeConfigs: an unknown setting": described(TOPIC, topic_of, ["nonsense"]),
    "DescribeConfigs: no settings": described(TOPIC, topic_of, []),
    "DescribeConfigs: an unknown broker": described(BROKER, "4711"),
    "DescribeConfigs: a broker that is no number": described(BROKER, "abc"),
    "DescribeConfigs: all brokers": described(BROKER, ""),
    "DescribeConfigs: an unknown group": described(GROUP, "odd-nobody"),
    "DescribeConfigs: an empty group": described(GROUP, ""),
    "DescribeConfigs: resource type 0": described(0, "x"),
    "DescribeConfigs: resource type 1": described(1, "x"),
    "DescribeConfigs: resource type 99": described(99, "x"),
    "DescribeConfigs: none": asking(lambda w: DescribeConfigsRequest([]), 4),
    "DescribeConfigs: a topic twice": asking(
        lambda w: DescribeConfigsRequest([DescribeConfigsResource(TOPIC, w.topic(), ["retention.ms"])] * 2), 4
    ),
    "ListConfigResources: type 99": asking(lambda w: ListConfigResourcesRequest([99]), 1),
    "ListConfigResources: type 0": asking(lambda w: ListConfigResourcesRequest([0]), 1),
    "DescribeCluster: good": asking(lambda w: DescribeClusterRequest(), 2),
    "DescribeCluster: endpoint type 2": asking(lambda w: DescribeClusterRequest(endpoint_type=2), 2),
    "DescribeCluster: endpoint type 9": asking(lambda w: DescribeClusterRequest(endpoint_type=9), 2),
    "DescribeCluster: endpoint type 0": asking(lambda w: DescribeClusterRequest(endpoint_type=0), 2),
    "UpdateFeatures: an unknown feature": asking(
        lambda w: UpdateFeaturesRequest(10_000, [FeatureUpdateKey("nonsense", 1)]), 1
    ),
    "UpdateFeatures: an unknown level": asking(
        lambda w: UpdateFeaturesRequest(10_000, [FeatureUpdateKey("transaction.version", 99)]), 1
    ),
    "UpdateFeatures: a negative level": asking(
        lambda w: UpdateFeaturesRequest(10_000, [FeatureUpdateKey("transaction.version", -1)]), 1
    ),
    "UpdateFeatures: upgrade type 9": asking(
        lambda w: UpdateFeaturesRequest(10_000, [FeatureUpdateKey("transaction.version", 1, False, 9)]), 1
    ),
    "UpdateFeatures: a lower level as an upgrade": asking(
        lambda w: UpdateFeaturesRequest(10_000, [FeatureUpdateKey("transaction.version", 1)], True), 1
    ),
    "UpdateFeatures: a feature twice": asking(
        lambda w: UpdateFeaturesRequest(10_000, [FeatureUpdateKey("transaction.version", 2)] * 2, True), 1
    ),
    "UpdateFeatures: an unknown feature by version 2": asking(
        lambda w: UpdateFeaturesRequest(10_000, [FeatureUpdateKey("nonsense", 1)]), 2
    ),
    "UpdateFeatures: none": asking(lambda w: UpdateFeaturesRequest(10_000, []), 1),
}


def electing(kind: int = 0, *partitions: int, topic: str = "", version: int = 2, timeout_ms: int = 10_000) -> Case:
    """Return the case of an election in a new topic of one partition, or in ``topic``."""
    return asking(
        lambda w: ElectLeadersRequest(kind, [TopicPartitions(topic or w.topic(), list(partitions))], timeout_ms),
        version,
    )


PLACES: dict[str, Case] = {
    "ElectLeaders: not needed": electing(0, 0),
    "ElectLeaders: not needed by version 0": electing(0, 0, version=0),
    "ElectLeaders: an unclean one that is not needed": electing(1, 0),
    "ElectLeaders: an unknown partition": electing(0, 77),
    "ElectLeaders: partition -1": electing(0, -1),
    "ElectLeaders: an unknown topic": electing(0, 0, topic="odd-nobody-made-it"),
    "ElectLeaders: an illegal topic name": electing(0, 0, topic="a/b"),
    "ElectLeaders: a partition twice": electing(0, 0, 0),
    "ElectLeaders: type 9": electing(9, 0),
    "ElectLeaders: type 9 without partitions": asking(lambda w: ElectLeadersRequest(9, []), 2),
    "ElectLeaders: a topic without partitions": electing(0),
    "ElectLeaders: none": asking(lambda w: ElectLeadersRequest(0, []), 2),
    "ElectLeaders: of all partitions": asking(lambda w: ElectLeadersRequest(1, None), 2),
    "ElectLeaders: timeout 0": electing(0, 0, timeout_ms=0),
    "ElectLeaders: timeout -1": electing(0, 0, timeout_ms=-1),
    "ElectLeaders: timeout 0, none": asking(lambda w: ElectLeadersRequest(0, [], 0), 2),
    "ListPartitionReassignments: all": asking(lambda w: ListPartitionReassignmentsRequest(), 0),
    "ListPartitionReassignments: none": asking(lambda w: ListPartitionReassignmentsRequest(topics=[]), 0),
    "ListPartitionReassignments: timeout 0": asking(lambda w: ListPartitionReassignmentsRequest(0), 0),
    "ListPartitionReassignments: timeout 0, none": asking(lambda w: ListPartitionReassignmentsRequest(0, []), 0),
    "ListPartitionReassignments: an unknown topic": asking(
        lambda w: ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics("odd-nobody", [0])]), 0
    ),
    "ListPartitionReassignments: an unknown partition": asking(
        lambda w: ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics(w.topic(), [77, -1])]), 0
    ),
    "DescribeLogDirs: good": asking(lambda w: DescribeLogDirsRequest([DescribableLogDirTopic(w.topic(), [0])]), 5),
    "DescribeLogDirs: unknown partitions": asking(
        lambda w: DescribeLogDirsRequest([DescribableLogDirTopic(w.topic(), [77, -1])]), 4
    ),
    "DescribeLogDirs: an unknown topic": asking(
        lambda w: DescribeLogDirsRequest([DescribableLogDirTopic("odd-nobody-made-it", [0])]), 3
    ),
    "DescribeLogDirs: none": asking(lambda w: DescribeLogDirsRequest([]), 1),
}

CASES: dict[str, Case] = (
    {
        f"{kind}: {words}": case
        for kind, table in {"CreateTopics": CREATE, "DeleteTopics": DELETE, "CreatePartitions": PARTITIONS}.items()
        for words, case in table.items()
    }
    | ALTER
    | DESCRIBE
    | PLACES
)
