"""What the cluster knows of itself: topics, who leads their partitions, settings, blocks of producer ids.

It stands in ``cluster.json``, which is replaced as a whole (write, force to disk, rename) before a change is
answered or any broker acts on it. Rules and errors are those of Apache Kafka's controller.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyconsumer.broker.config import BrokerConfig, parse_topic_config
from pyconsumer.broker.log.storage import replace_file
from pyconsumer.errors import (
    ConfigurationError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    PolicyViolationError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from pyconsumer.protocol.primitives import uuid_from_str, uuid_to_str

__all__ = [
    "INTERNAL_TOPICS",
    "OFFSETS_TOPIC",
    "TRANSACTION_TOPIC",
    "Controller",
    "PartitionState",
    "TopicState",
    "check_topic_name",
]

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC})

#: Producer ids handed to a broker at a time.
PRODUCER_ID_BLOCK: Final = 1000
_MAX_PARTITIONS_PER_REQUEST: Final = 10_000
_FORMAT: Final = 1
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(slots=True)
class PartitionState:
    """Who has a partition. ``leader`` is -1 without one."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(slots=True)
class TopicState:
    """A topic: its id (16 bytes), its own settings as text, and its partitions in order."""

    name: str
    topic_id: bytes
    config: dict[str, str] = field(default_factory=dict)
    partitions: list[PartitionState] = field(default_factory=list)


def check_topic_name(name: str) -> None:
    """Raise ``InvalidTopicError`` unless a topic may have this name."""
    if not name:
        problem = "it is empty"
    elif name in (".", ".."):
        problem = "it cannot be '.' or '..'"
    elif len(name) > 249:
        problem = f"it is longer than 249 characters ({len(name)})"
    elif not _LEGAL_NAME.fullmatch(name):
        problem = "it may hold only ASCII letters and digits, '.', '_' and '-'"
    else:
        return
    raise InvalidTopicError(f"the topic name {name!r} is not legal: {problem}")


class Controller:
    """The cluster's state.

    Args:
        folder: where ``cluster.json`` is kept; None keeps it in memory.
        config: defaults of new topics.

    Attributes:
        topics: by name; don't change them except through the methods here.
        names: of topics by id.
        brokers: node ids that are alive.
        on_change: called with a topic's name after it was created, changed or deleted.
        on_broker_config: called after settings of brokers were changed.
    """

    def __init__(self, folder: Path | None, config: BrokerConfig) -> None:
        self._path = None if folder is None else folder / "cluster.json"
        self._config = config
        self.topics: dict[str, TopicState] = {}
        self.names: dict[bytes, str] = {}
        self.brokers: list[int] = []
        self.cluster_id = uuid_to_str(uuid.uuid4().bytes)
        self.broker_configs: dict[str, dict[str, str]] = {}
        self._next_producer_id = 0
        self.on_change: list[Callable[[str], None]] = []
        self.on_broker_config: list[Callable[[], None]] = []
        if self._path is not None and self._path.exists():
            self._load(json.loads(self._path.read_bytes()))

    # --- the file

    def _load(self, data: Mapping[str, Any]) -> None:
        if data["format"] != _FORMAT:
            raise ConfigurationError(f"{self._path} has format {data['format']}; this version reads {_FORMAT}")
        self.cluster_id = data["cluster_id"]
        self._next_producer_id = data["next_producer_id"]
        self.broker_configs = data["broker_configs"]
        for name, topic in data["topics"].items():
            partitions = [
                PartitionState(part["leader"], part["leader_epoch"], tuple(part["replicas"]), tuple(part["isr"]))
                for part in topic["partitions"]
            ]
            self._add(TopicState(name, uuid_from_str(topic["id"]), topic["config"], partitions))

    def _save(self) -> None:
        if self._path is None:
            return
        data = {
            "format": _FORMAT,
            "cluster_id": self.cluster_id,
            "next_producer_id": self._next_producer_id,
            "broker_configs": self.broker_configs,
            "topics": {
                name: {
                    "id": uuid_to_str(topic.topic_id),
                    "config": topic.config,
                    "partitions": [
                        {"leader": p.leader, "leader_epoch": p.leader_epoch, "replicas": p.replicas, "isr": p.isr}
                        for p in topic.partitions
                    ],
                }
                for name, topic in self.topics.items()
            },
        }
        replace_file(self._path, json.dumps(data, indent=1).encode())

    def _add(self, topic: TopicState) -> None:
        self.topics[topic.name] = topic
        self.names[topic.topic_id] = topic.name

    # --- brokers

    @property
    def controller_id(self) -> int:
        """The node that clients send changes to; every node would take them."""
        return self.brokers[0] if self.brokers else -1

    def register(self, node_ids: Sequence[int]) -> None:
        """Let brokers be alive from now on. Every partition that they can lead gets a leader in a new epoch."""
        self.brokers = sorted({*self.brokers, *node_ids})
        changed = False
        for topic in self.topics.values():
            for partition in topic.partitions:
                alive = [node for node in partition.isr if node in self.brokers]
                if partition.leader in node_ids or (partition.leader not in self.brokers and alive):
                    partition.leader = partition.leader if partition.leader in alive else alive[0]
                    partition.leader_epoch += 1
                    changed = True
        if changed:
            self._save()

    def allocate_producer_ids(self) -> range:
        """A block of producer ids that nobody has had, whatever happens to the process."""
        start = self._next_producer_id
        self._next_producer_id += PRODUCER_ID_BLOCK
        self._save()
        return range(start, self._next_producer_id)

    # --- topics

    def topic(self, name: str) -> TopicState:
        """A topic by name; ``UnknownTopicOrPartitionError`` if there is none."""
        found = self.topics.get(name)
        if found is None:
            raise UnknownTopicOrPartitionError(f"there is no topic {name!r}")
        return found

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id."""
        return self.names.get(topic_id)

    def plan_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
    ) -> TopicState:
        """Check a topic that is to be created and say what it would be, without creating it.

        Args:
            partitions, replication_factor: -1 for the brokers' defaults, or with ``assignments``.
            assignments: replicas by partition.

        Raises:
            KafkaError: with the code that Kafka's controller gives.
        """
        check_topic_name(name)
        if name in self.topics:
            raise TopicAlreadyExistsError(f"Topic '{name}' already exists.")
        plain = name.replace(".", "_")
        for other in self.topics:
            if other.replace(".", "_") == plain:
                raise InvalidTopicError(f"Topic '{name}' collides with existing topic: {other}")
        own = dict(config or {})
        try:
            parse_topic_config(own)
        except ConfigurationError as error:
            raise InvalidConfigError(str(error)) from None
        if assignments:
            if partitions != -1 or replication_factor != -1:
                raise InvalidRequestError(
                    "a manual partition assignment was given, so partitions and replication factor must be -1"
                )
            return TopicState(name, uuid.uuid4().bytes, own, self._assigned(assignments, 0))
        if partitions == -1:
            partitions = self._config.integer("num.partitions")
        if replication_factor == -1:
            replication_factor = self._config.integer("default.replication.factor")
        if partitions <= 0:
            raise InvalidPartitionsError("Number of partitions was set to an invalid non-positive value.")
        if partitions > _MAX_PARTITIONS_PER_REQUEST:
            raise PolicyViolationError("Excessively large number of partitions per request.")
        return TopicState(name, uuid.uuid4().bytes, own, self._place(0, partitions, replication_factor))

    def _place(self, first: int, count: int, replication_factor: int) -> list[PartitionState]:
        if replication_factor <= 0:
            raise InvalidReplicationFactorError(
                "Replication factor must be larger than 0, or -1 to use the default value."
            )
        if replication_factor > len(self.brokers):
            raise InvalidReplicationFactorError(
                f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of"
                f" {replication_factor} cannot be reached because only {len(self.brokers)} broker(s) are registered."
            )
        placed = []
        for index in range(first, first + count):
            replicas = tuple(self.brokers[(index + step) % len(self.brokers)] for step in range(replication_factor))
            placed.append(PartitionState(replicas[0], 0, replicas, replicas))
        return placed

    def _assigned(self, assignments: Mapping[int, Sequence[int]], first: int) -> list[PartitionState]:
        placed: list[PartitionState] = []
        for index in range(first, first + len(assignments)):
            replicas = tuple(assignments.get(index, ()))
            if index not in assignments:
                raise InvalidReplicaAssignmentError("partitions should be a consecutive 0-based integer sequence")
            if not replicas or len(set(replicas)) < len(replicas):
                raise InvalidReplicaAssignmentError(f"partition {index} names no replica, or one of them twice")
            unknown = [node for node in replicas if node not in self.brokers]
            if unknown:
                raise InvalidReplicaAssignmentError(f"partition {index} names broker {unknown[0]}, which is not there")
            if placed and len(replicas) != len(placed[0].replicas):
                raise InvalidReplicaAssignmentError("the partitions have different numbers of replicas")
            placed.append(PartitionState(replicas[0], 0, replicas, replicas))
        return placed

    def create_topics(self, planned: Sequence[TopicState]) -> None:
        """Create topics that were planned."""
        for topic in planned:
            self._add(topic)
        self._save()
        for topic in planned:
            self._tell(topic.name)

    def create_topic(
        self, name: str, partitions: int = -1, replication_factor: int = -1, config: Mapping[str, str] | None = None
    ) -> TopicState:
        """Create one topic; errors as :meth:`plan_topic`."""
        topic = self.plan_topic(name, partitions, replication_factor, config)
        self.create_topics([topic])
        return topic

    def ensure_internal(self, name: str) -> TopicState:
        """An internal topic, created with its own settings if it is not there."""
        found = self.topics.get(name)
        if found is not None:
            return found
        prefix = "offsets.topic" if name == OFFSETS_TOPIC else "transaction.state.log"
        config = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
        }
        segment_bytes = self._config.integer(f"{prefix}.segment.bytes")
        # A size below what segment.bytes may be is meant for tests.
        config["segment.bytes" if segment_bytes >= 2**20 else "internal.segment.bytes"] = str(segment_bytes)
        if name == TRANSACTION_TOPIC:
            config["min.insync.replicas"] = str(
                min(len(self.brokers), self._config.integer("transaction.state.log.min.isr"))
            )
        wanted = self._config.integer(f"{prefix}.replication.factor")
        return self.create_topic(
            name, self._config.integer(f"{prefix}.num.partitions"), min(wanted, len(self.brokers)), config
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic; ``UnknownTopicOrPartitionError`` if there is none."""
        topic = self.topic(name)
        del self.topics[name]
        del self.names[topic.topic_id]
        self._save()
        self._tell(name)

    def plan_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
    ) -> list[PartitionState]:
        """The partitions that a topic would have in addition if it had ``count``; errors as Kafka's controller."""
        topic = self.topic(name)
        have = len(topic.partitions)
        if count == have:
            raise InvalidPartitionsError(f"Topic already has {count} partition(s).")
        if count < have:
            raise InvalidPartitionsError(
                f"The topic {name} currently has {have} partition(s); {count} would not be an increase."
            )
        if count - have > _MAX_PARTITIONS_PER_REQUEST:
            raise PolicyViolationError("Excessively large number of partitions per request.")
        replication_factor = len(topic.partitions[0].replicas)
        if assignments is None:
            return self._place(have, count - have, replication_factor)
        if len(assignments) != count - have:
            raise InvalidReplicaAssignmentError(
                f"{count - have} additional partition(s) were wanted, but {len(assignments)} assignment(s) given."
            )
        placed = self._assigned({have + index: nodes for index, nodes in enumerate(assignments)}, have)
        if len(placed[0].replicas) != replication_factor:
            raise InvalidReplicaAssignmentError(f"the topic has a replication factor of {replication_factor}")
        return placed

    def create_partitions(self, name: str, added: Sequence[PartitionState]) -> None:
        """Add partitions that were planned."""
        self.topic(name).partitions.extend(added)
        self._save()
        self._tell(name)

    # --- settings

    def set_topic_config(self, name: str, config: Mapping[str, str]) -> None:
        """Replace a topic's own settings, which were checked."""
        self.topic(name).config = dict(config)
        self._save()
        self._tell(name)

    def set_broker_config(self, node: str, config: Mapping[str, str]) -> None:
        """Replace settings that were set while running: those of one node, or ("") of all."""
        self.broker_configs[node] = dict(config)
        self._save()
        for listener in self.on_broker_config:
            listener()

    def _tell(self, name: str) -> None:
        for listener in self.on_change:
            listener(name)
