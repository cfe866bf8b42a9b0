"""The controller's state: topics, leaders of partitions, live brokers, settings, producer ids, users, rights.

A change is written to the cluster's files (:mod:`.cluster_file`) before the response is sent or any broker acts on it.
If the write fails, the state is unchanged, and the caller gets the ``OSError``.

Deleted topics are remembered by id until every node with a replica has removed its folder. A node that crashed or was
down may remove a folder only if its topic is known to be deleted.

Rules and errors are those of Apache Kafka's controller.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyconsumer.background_log import Log
from pyconsumer.broker.access.quotas import QuotaStore
from pyconsumer.broker.access.rates import ClientRates
from pyconsumer.broker.access.store import AclStore
from pyconsumer.broker.cluster_file import ClusterFile, partition_from_json, partition_to_json, topic_to_json
from pyconsumer.broker.config import BrokerConfig, parse_topic_config, resolve_topic
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.elections import (
    NO_LEADER,
    PartitionState,
    TopicState,
    after_death,
    after_return,
    after_unclean_election,
    moved_to,
)
from pyconsumer.broker.scram_users import ScramUsers
from pyconsumer.broker.steps import call_each, run_in_steps
from pyconsumer.broker.topic_names import CLUSTER_METADATA, check_topic_name, plain_name
from pyconsumer.errors import (
    ConfigurationError,
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    InvalidUpdateVersionError,
    PolicyViolationError,
    PreferredLeaderNotAvailableError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from pyconsumer.protocol.primitives import uuid_from_str, uuid_to_str

__all__ = [
    "INTERNAL_TOPICS",
    "OFFSETS_TOPIC",
    "SHARE_STATE_TOPIC",
    "SUPPORTED_FEATURES",
    "TRANSACTION_TOPIC",
    "Controller",
    "IsrChange",
    "PartitionState",
    "TopicState",
    "check_feature",
    "check_topic_name",
]

_log = Log(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC, SHARE_STATE_TOPIC})
#: The beginnings of the names of the settings of internal topics.
_PREFIXES: Final = {
    OFFSETS_TOPIC: "offsets.topic",
    TRANSACTION_TOPIC: "transaction.state.log",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic",
}

#: The supported features, with their lowest and highest version.
SUPPORTED_FEATURES: Final[dict[str, tuple[int, int]]] = {
    "group.version": (0, 1),
    "share.version": (0, 1),
    "transaction.version": (0, 2),
}

#: Producer ids in a block that a broker gets.
PRODUCER_ID_BLOCK: Final = 1000
_MAX_PARTITIONS_PER_REQUEST: Final = 10_000


def check_feature(name: str, level: int) -> None:
    """Raise ``InvalidUpdateVersionError`` if a feature is unknown, or does not have this version."""
    least, most = SUPPORTED_FEATURES.get(name, (0, -1))
    if not least <= level <= most:
        known = f"has the versions {least} to {most}" if name in SUPPORTED_FEATURES else "is not known"
        raise InvalidUpdateVersionError(f"{name} cannot be set to {level}: this feature {known} here")


class IsrChange(NamedTuple):
    """A leader's request for a new ISR of one of its partitions, with the leader epoch of the request."""

    topic: str
    partition: int
    leader_epoch: int
    isr: tuple[int, ...]


class Controller:
    """The cluster's state.

    Args:
        folder: the folder for the cluster's files. None keeps the state in memory.
        config: settings with the defaults for new topics.

    Attributes:
        topics: the topics by name. Only the methods of this class may change them.
        names: the names of topics by id.
        brokers: ids of the live nodes. ``registered`` has the ids of all nodes of the cluster.
        features: finalized version of each feature. Every change raises ``features_epoch``.
        scram: the users that log in by SCRAM. ``acls`` has the rules for what users may do, and
            ``quotas`` the bounds of how much. ``rates`` counts the partitions that clients create and delete.
        on_change: functions that are called with a topic's name after it was created, changed or deleted. Each may
            return its work as steps, between which other calls may run. If one raises, the error is logged, the other
            functions still run, and the caller who made the change does not see the error.
        on_broker_config: functions that are called in the same way after settings of brokers were changed.
    """

    def __init__(self, folder: Path | None, config: BrokerConfig) -> None:
        self._file = None if folder is None else ClusterFile(folder)
        self._config = config
        self.topics: dict[str, TopicState] = {}
        self.names: dict[bytes, str] = {}
        #: Names of topics by their names in metrics, where '.' and '_' are the same.
        self._plain_names: dict[str, str] = {}
        #: Ids of deleted topics, each with the nodes that may still have folders of it.
        self._deleted: dict[bytes, set[int]] = {}
        self.brokers: list[int] = []
        self.registered: list[int] = []
        self.cluster_id = uuid_to_str(uuid.uuid4().bytes)
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        self._next_producer_id = 0
        self.scram = ScramUsers(self._save)
        self.acls = AclStore(self._save)
        self.quotas = QuotaStore(self._save)
        self.rates = ClientRates(self.quotas, config.integer)
        self.features: dict[str, int] = {name: levels[1] for name, levels in SUPPORTED_FEATURES.items()}
        self.features_epoch = 0
        self.on_change: list[Callable[[str], Iterator[None] | None]] = []
        self.on_broker_config: list[Callable[[], None]] = []
        if self._file is not None:
            self._load(self._file)

    # --- the files

    def _load(self, file: ClusterFile) -> None:
        """Read the state. ``BrokerStartError`` if that fails."""
        found = file.load()
        if found is None:
            return
        data, changes = found
        try:
            self.cluster_id = str(data["cluster_id"])
            for change in (data, *changes):
                self._apply(change)
        except InvalidTopicError as error:
            raise file.damaged(error.args[0]) from None
        except KeyError as error:
            raise file.damaged(f"{error} is missing") from None
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise file.damaged(error) from None

    def _apply(self, change: Mapping[str, Any]) -> None:
        """Apply a change from the journal. The snapshot has the same form."""
        for key, nodes in change.get("deleted", {}).items():
            topic_id = uuid_from_str(key)
            self._deleted[topic_id] = set(nodes)
            if topic_id in self.names:
                self._drop(self.topics[self.names[topic_id]])
        for name, data in change.get("topics", {}).items():
            check_topic_name(name)
            partitions = [partition_from_json(part) for part in data["partitions"]]
            if not partitions:
                raise ValueError(f"the topic {name} has no partitions")
            self._add(TopicState(name, uuid_from_str(data["id"]), dict(data["config"]), partitions))
        for name, states in change.get("partitions", {}).items():
            partitions = self.topics[name].partitions
            for index, part in states.items():
                partitions[int(index) : int(index) + 1] = [partition_from_json(part)]
        for name, config in change.get("config", {}).items():
            self.topics[name].configure(config)
        if "group_configs" in change:
            self.group_configs = {group: dict(config) for group, config in change["group_configs"].items()}
        if "broker_configs" in change:
            self.broker_configs = {node: dict(config) for node, config in change["broker_configs"].items()}
        self.scram.load(change)
        self.acls.load(change)
        self.quotas.load(change)
        self._next_producer_id = int(change.get("next_producer_id", self._next_producer_id))
        if "features" in change:
            # A feature that is not in the file has its version of a new cluster.
            self.features |= {str(name): int(level) for name, level in change["features"].items()}
            self.features_epoch = int(change["features_epoch"])

    def _save(self, undo: Callable[[], None], change: Mapping[str, Any]) -> None:
        """Store a change that was made in memory. It is undone if that fails."""
        if self._file is None:
            return
        try:
            self._file.save(change, self._snapshot)
        except OSError as error:
            _log.error("a change of the cluster is refused because its file cannot be written: %s", error)
            undo()
            raise

    def _snapshot(self) -> dict[str, Any]:
        return {
            "cluster_id": self.cluster_id,
            "next_producer_id": self._next_producer_id,
            "broker_configs": self.broker_configs,
            "group_configs": self.group_configs,
            "features": self.features,
            "features_epoch": self.features_epoch,
            **self.scram.snapshot(),
            **self.acls.snapshot(),
            **self.quotas.snapshot(),
            "deleted": {uuid_to_str(topic_id): sorted(nodes) for topic_id, nodes in self._deleted.items()},
            "topics": {name: topic_to_json(topic) for name, topic in self.topics.items()},
        }

    def close(self) -> None:
        """Write a complete ``cluster.json`` at a clean shutdown."""
        if self._file is not None:
            self._file.compact(self._snapshot)

    def _add(self, topic: TopicState) -> None:
        self.topics[topic.name] = topic
        self.names[topic.topic_id] = topic.name
        self._plain_names[plain_name(topic.name)] = topic.name

    def _drop(self, topic: TopicState) -> None:
        del self.topics[topic.name]
        del self.names[topic.topic_id]
        self._plain_names.pop(plain_name(topic.name), None)

    # --- deleted topics

    def is_deleted(self, topic_id: bytes) -> bool:
        """Return whether a topic with this id is remembered as deleted."""
        return topic_id in self._deleted

    def on_removed(self, node: int, topic_ids: Iterable[bytes] | None = None) -> None:
        """Record that a node has removed the folders of deleted topics. None means all deleted topics.

        The next snapshot stores it. If that is lost, the node finds no folder to remove, which does no harm.
        """
        for topic_id in list(self._deleted) if topic_ids is None else topic_ids:
            nodes = self._deleted.get(topic_id, set())
            nodes.discard(node)
            if not nodes:
                self._deleted.pop(topic_id, None)

    # --- brokers

    @property
    def controller_id(self) -> int:
        """Return the node to which clients send changes. It is the first live node. Every node would accept them."""
        return self.brokers[0] if self.brokers else -1

    def register(self, node_ids: Sequence[int]) -> None:
        """Mark brokers as alive.

        A new epoch begins for each partition that they lead, or can now lead because it had no leader.
        """
        before = self.registered, self.brokers
        self.registered = sorted({*self.registered, *node_ids})
        self.brokers = sorted({*self.brokers, *node_ids})

        def change(state: PartitionState, unclean: bool) -> PartitionState:
            missing = [node for node in state.isr if node not in self.brokers]
            found = after_death(state, missing, self.brokers, unclean=unclean)
            if found.leader_epoch > state.leader_epoch and found.leader != NO_LEADER:
                return found  # a new leader was found already
            return after_return(found, node_ids, self.brokers, unclean=unclean)

        try:
            self._change_all(change)
        except OSError:
            self.registered, self.brokers = before
            raise

    def unregister(self, node_ids: Sequence[int]) -> None:
        """Remove dead brokers from the ISRs. In a new epoch their partitions get other leaders, or none.

        The brokers count as dead in any case. If the file cannot be written, the other changes are made later, when a
        broker starts or stops.
        """
        self.brokers = [node for node in self.brokers if node not in node_ids]

        def change(state: PartitionState, unclean: bool) -> PartitionState:
            dead = [node for node in state.isr if node not in self.brokers]
            return after_death(state, dead, self.brokers, unclean=unclean)

        self._change_all(change)

    def _change_all(self, change: Callable[[PartitionState, bool], PartitionState]) -> None:
        changed = {}
        for topic in self.topics.values():
            unclean = bool(resolve_topic("unclean.leader.election.enable", topic.config, self._config).value)
            partitions = [change(state, unclean) for state in topic.partitions]
            if partitions != topic.partitions:
                changed[topic.name] = partitions
        self._replace_partitions(changed)

    def _replace_partitions(self, changed: Mapping[str, list[PartitionState]]) -> None:
        """Replace the partitions of topics."""
        if not changed:
            return
        before = {name: self.topics[name].partitions for name in changed}

        def put(partitions: Mapping[str, list[PartitionState]]) -> None:
            for name, states in partitions.items():
                self.topics[name].become(states)

        put(changed)
        parts = {
            name: {
                str(index): partition_to_json(state)
                for index, state in enumerate(states)
                if index >= len(before[name]) or state != before[name][index]
            }
            for name, states in changed.items()
        }
        self._save(lambda: put(before), {"partitions": parts})
        for name in changed:
            self._notify(name)

    def alter_isrs(self, node: int, changes: Sequence[IsrChange]) -> None:
        """Apply ISRs that leaders propose because replicas have caught up or fallen behind.

        Late changes are skipped, which are those of a former leader and those of deleted topics. Brokers that are not
        alive cannot enter an ISR (KIP-903).
        """
        changed: dict[str, list[PartitionState]] = {}
        for change in changes:
            topic = self.topics.get(change.topic)
            if topic is None or change.partition >= len(topic.partitions):
                continue
            partitions = changed.get(change.topic, topic.partitions)
            state = partitions[change.partition]
            if (state.leader, state.leader_epoch) != (node, change.leader_epoch):
                continue
            may_be_in = {*state.isr, *self.brokers}.intersection(change.isr)
            isr = tuple(one for one in state.replicas if one in may_be_in)
            if node in isr and isr != state.isr:
                partitions = changed.setdefault(change.topic, list(partitions))
                partitions[change.partition] = replace(state, isr=isr)
        self._replace_partitions(changed)

    def move_leader(self, name: str, partition: int, node: int | None = None) -> int:
        """Make another in-sync replica the leader of a partition. Return its node id.

        Args:
            node: the new leader. None takes the next replica in the order of the replicas.

        Raises:
            UnknownTopicOrPartitionError: there is no such partition.
            EligibleLeadersNotAvailableError: the node has no replica that is alive and in sync. Or, without ``node``,
                no other node has one.
            ElectionNotNeededError: the node is the leader already.
        """
        topic = self.topic(name)
        if not 0 <= partition < len(topic.partitions):
            raise UnknownTopicOrPartitionError(f"there is no partition {name}-{partition}")
        state = topic.partitions[partition]
        eligible = [one for one in state.replicas if one in state.isr and one in self.brokers]
        if node is None:
            at = state.replicas.index(state.leader) if state.leader != NO_LEADER else -1
            others = [one for one in (*state.replicas[at + 1 :], *state.replicas[: max(at, 0)]) if one in eligible]
            if not others:
                raise EligibleLeadersNotAvailableError(f"no other replica of {name}-{partition} is in sync")
            node = others[0]
        elif node not in eligible:
            raise EligibleLeadersNotAvailableError(f"node {node} is no replica in sync of {name}-{partition}")
        if node == state.leader:
            raise ElectionNotNeededError(f"node {node} leads {name}-{partition} already")
        partitions = list(topic.partitions)
        partitions[partition] = moved_to(state, node)
        self._replace_partitions({name: partitions})
        return node

    def elect_leader(self, name: str, partition: int, *, unclean: bool = False) -> None:
        """Make the first replica the leader of a partition.

        With ``unclean``, any live replica may become the leader of a partition that has none.

        Args:
            unclean: True chooses the first live replica, and prefers one in sync. It works only for a partition without
                a leader.

        Raises:
            UnknownTopicOrPartitionError: there is no such partition.
            ElectionNotNeededError: the first replica is the leader already. With ``unclean``: the partition has a
                leader.
            PreferredLeaderNotAvailableError: the first replica is dead or not in sync.
            EligibleLeadersNotAvailableError: all replicas are dead.
        """
        topic = self.topic(name)
        if not 0 <= partition < len(topic.partitions):
            raise UnknownTopicOrPartitionError(f"there is no partition {name}-{partition}")
        state = topic.partitions[partition]
        if (state.leader != NO_LEADER) if unclean else (state.leader == state.preferred_leader):
            raise ElectionNotNeededError(f"{name}-{partition} is led by node {state.leader}")
        if not unclean:
            try:
                self.move_leader(name, partition, state.preferred_leader)
            except EligibleLeadersNotAvailableError as error:
                raise PreferredLeaderNotAvailableError(str(error.args[0])) from error
            return
        elected = after_unclean_election(state, self.brokers)
        if elected.leader == NO_LEADER:
            raise EligibleLeadersNotAvailableError(f"no replica of {name}-{partition} is alive")
        partitions = list(topic.partitions)
        partitions[partition] = elected
        self._replace_partitions({name: partitions})

    def elect_preferred_leaders(self) -> int:
        """Make the first replica of each partition its leader, if it is in sync.

        Return how many leaders have changed.
        """
        moved = 0

        def change(state: PartitionState, unclean: bool) -> PartitionState:
            nonlocal moved
            preferred = state.preferred_leader
            if preferred == state.leader or preferred not in state.isr or preferred not in self.brokers:
                return state
            moved += 1
            return moved_to(state, preferred)

        self._change_all(change)
        return moved

    def allocate_producer_ids(self) -> range:
        """Return a block of producer ids. They are never given out again, even if the process is killed."""
        start = self._next_producer_id
        self._next_producer_id += PRODUCER_ID_BLOCK
        self._save(lambda: None, {"next_producer_id": self._next_producer_id})  # after a failure these ids stay unused
        return range(start, self._next_producer_id)

    # --- features

    def update_features(self, levels: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Set finalized versions of features (KIP-584).

        Raises:
            InvalidUpdateVersionError: a feature is unknown, or does not have this version. No feature was changed.
        """
        for name, level in levels.items():
            check_feature(name, level)
        if validate_only or not levels:
            return
        before = self.features, self.features_epoch
        self.features, self.features_epoch = {**self.features, **levels}, self.features_epoch + 1

        def undo() -> None:
            self.features, self.features_epoch = before

        self._save(undo, {"features": self.features, "features_epoch": self.features_epoch})

    # --- topics

    def topic(self, name: str) -> TopicState:
        """Return a topic by name. Raises ``UnknownTopicOrPartitionError`` if there is no such topic."""
        found = self.topics.get(name)
        if found is None:
            raise UnknownTopicOrPartitionError(f"there is no topic {name!r}")
        return found

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, or None."""
        return self.names.get(topic_id)

    def plan_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
    ) -> TopicState:
        """Check a topic that is about to be created. Return its state, but do not create it yet.

        Args:
            partitions, replication_factor: -1 takes the broker's default. If ``assignments`` is given, both must be -1.
            assignments: the replicas of each partition.

        Raises:
            KafkaError: the topic cannot be created. The error code is that of Kafka's controller.
        """
        check_topic_name(name)
        if name == CLUSTER_METADATA:
            raise InvalidRequestError(f"the topic {name} cannot be created: it is Kafka's own metadata log")
        if name in self.topics:
            raise TopicAlreadyExistsError(f"Topic '{name}' already exists.")
        other = self._plain_names.get(plain_name(name))
        if other is not None:
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
        if replication_factor > len(self.registered):
            raise InvalidReplicationFactorError(
                f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of"
                f" {replication_factor} cannot be reached because only {len(self.registered)} broker(s) are registered."
            )
        if not self.brokers:
            raise InvalidReplicationFactorError("All brokers are currently fenced.")
        dead = [node for node in self.registered if node not in self.brokers]
        placed = []
        for index in range(first, first + count):
            # Brokers that are not alive come last, but they do get replicas, which are in sync after a restart.
            at, behind = index % len(self.brokers), index % len(dead) if dead else 0
            nodes = [*self.brokers[at:], *self.brokers[:at], *dead[behind:], *dead[:behind]]
            placed.append(self._new_partition(tuple(nodes[:replication_factor])))
        return placed

    def _new_partition(self, replicas: tuple[int, ...]) -> PartitionState:
        isr = tuple(node for node in replicas if node in self.brokers)
        return PartitionState(isr[0], 0, replicas, isr)

    def _assigned(self, assignments: Mapping[int, Sequence[int]], first: int) -> list[PartitionState]:
        placed: list[PartitionState] = []
        for index in range(first, first + len(assignments)):
            replicas = tuple(assignments.get(index, ()))
            if index not in assignments:
                raise InvalidReplicaAssignmentError("partitions should be a consecutive 0-based integer sequence")
            if not replicas or len(set(replicas)) < len(replicas):
                raise InvalidReplicaAssignmentError(f"partition {index} names no replica, or one of them twice")
            unknown = [node for node in replicas if node not in self.registered]
            if unknown:
                raise InvalidReplicaAssignmentError(f"partition {index} names broker {unknown[0]}, which is not there")
            if placed and len(replicas) != len(placed[0].replicas):
                raise InvalidReplicaAssignmentError("the partitions have different numbers of replicas")
            if not any(node in self.brokers for node in replicas):
                raise InvalidReplicaAssignmentError(f"all brokers that partition {index} names are fenced")
            placed.append(self._new_partition(replicas))
        return placed

    def create_topics(self, planned: Sequence[TopicState]) -> None:
        """Create planned topics in a single write of the cluster's file."""
        self._commit_topics(planned)
        for topic in planned:
            self._notify(topic.name)

    def create_topics_in_steps(
        self, planned: Sequence[TopicState], call_soon: Callable[[Callable[[], None]], None]
    ) -> Deferred[None]:
        """Create planned topics. The result is set when all their logs are open (see :func:`run_in_steps`).

        Until then, a request for a partition without a log gets a retriable error.
        """
        self._commit_topics(planned)
        return run_in_steps(itertools.chain.from_iterable(self._steps(topic.name) for topic in planned), call_soon)

    def _commit_topics(self, planned: Sequence[TopicState]) -> None:
        for topic in planned:
            self._add(topic)

        def undo() -> None:
            for topic in planned:
                self._drop(topic)

        self._save(undo, {"topics": {topic.name: topic_to_json(topic) for topic in planned}})

    def create_topic(
        self, name: str, partitions: int = -1, replication_factor: int = -1, config: Mapping[str, str] | None = None
    ) -> TopicState:
        """Create one topic. Errors are those of :meth:`plan_topic`."""
        topic = self.plan_topic(name, partitions, replication_factor, config)
        self.create_topics([topic])
        return topic

    def ensure_internal(self, name: str) -> TopicState:
        """Return an internal topic. If it does not exist, it is created with its own settings."""
        found = self.topics.get(name)
        if found is not None:
            return found
        prefix = _PREFIXES[name]
        config = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
        }
        if name == SHARE_STATE_TOPIC:  # its coordinator removes what is not needed
            config |= {"cleanup.policy": "delete", "retention.ms": "-1"}
        segment_bytes = self._config.integer(f"{prefix}.segment.bytes")
        # Tests use sizes below the minimum of segment.bytes.
        config["segment.bytes" if segment_bytes >= 2**20 else "internal.segment.bytes"] = str(segment_bytes)
        replicas, min_isr = self._internal_replicas(name, prefix)
        if min_isr is not None:
            config["min.insync.replicas"] = str(min_isr)
        return self.create_topic(name, self._config.integer(f"{prefix}.num.partitions"), replicas, config)

    def _internal_replicas(self, name: str, prefix: str) -> tuple[int, int | None]:
        """Return an internal topic's replication factor, and its own min.insync.replicas (None: the brokers').

        The defaults fit the cluster: a factor of min(3, brokers) and min(2, factor) replicas in sync. With an explicit
        factor, the topic cannot be created while fewer brokers are alive.

        Raises:
            InvalidReplicationFactorError: fewer brokers are alive. Creation is tried again at the next request.
        """
        setting = f"{prefix}.replication.factor"
        replicas = self._config.integer(setting)
        if not self._config.is_set(setting):
            replicas = min(replicas, len(self.registered))
        elif replicas > len(self.brokers):
            raise InvalidReplicationFactorError(
                f"The topic {name} cannot be created: {setting} is {replicas}, and {len(self.brokers)} broker(s) are "
                f"alive. Start more brokers or set a lower {setting}."
            )
        min_isr = "min.insync.replicas" if name == OFFSETS_TOPIC else f"{prefix}.min.isr"
        if not self._config.is_set(min_isr):
            return replicas, min(2, replicas)
        return replicas, None if name == OFFSETS_TOPIC else self._config.integer(min_isr)

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises ``UnknownTopicOrPartitionError`` if there is no such topic."""
        self.delete_topics([name])

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete several topics in a single write of the cluster's file. If the write fails, none is deleted.

        Raises:
            UnknownTopicOrPartitionError: there is no topic with one of the names.
            OSError: the change cannot be stored.
        """
        topics = [self.topic(name) for name in names]
        if not topics:
            return
        nodes = {topic.topic_id: {node for state in topic.partitions for node in state.replicas} for topic in topics}
        for topic in topics:
            self._drop(topic)
        self._deleted.update(nodes)

        def undo() -> None:
            for topic in topics:
                self._add(topic)
                del self._deleted[topic.topic_id]

        self._save(undo, {"deleted": {uuid_to_str(topic_id): sorted(having) for topic_id, having in nodes.items()}})
        for topic in topics:
            self._notify(topic.name)

    def plan_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
    ) -> list[PartitionState]:
        """Return the partitions to add to a topic, so that it has ``count``. Errors are those of Kafka's controller."""
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
        """Add partitions to a topic. Their replicas were chosen before."""
        self.create_partitions_of({name: added})

    def create_partitions_of(self, added: Mapping[str, Sequence[PartitionState]]) -> None:
        """Add planned partitions, by topic, in a single write of the cluster's file."""
        if added:
            self._replace_partitions(
                {name: [*self.topic(name).partitions, *partitions] for name, partitions in added.items()}
            )

    # --- settings

    def set_topic_config(self, name: str, config: Mapping[str, str]) -> None:
        """Replace a topic's own settings. The new settings have been checked."""
        topic = self.topic(name)
        before = topic.configure(config)

        def undo() -> None:
            topic.configure(before)

        self._save(undo, {"config": {name: topic.config}})
        self._notify(name)

    def set_broker_config(self, node: str, config: Mapping[str, str]) -> None:
        """Replace the dynamic settings of one node, or of all nodes if ``node`` is empty."""
        before = self.broker_configs
        self.broker_configs = before | {node: dict(config)}

        def undo() -> None:
            self.broker_configs = before

        self._save(undo, {"broker_configs": self.broker_configs})
        call_each(self.on_broker_config, "changed settings")

    def set_group_config(self, group_id: str, config: Mapping[str, str]) -> None:
        """Replace the dynamic settings of a group. An empty mapping removes the group's entry."""
        before = self.group_configs
        self.group_configs = {name: own for name, own in before.items() if name != group_id}
        if config:
            self.group_configs[group_id] = dict(config)

        def undo() -> None:
            self.group_configs = before

        self._save(undo, {"group_configs": self.group_configs})

    def _notify(self, name: str) -> None:
        for _ in self._steps(name):
            pass

    def _steps(self, name: str) -> Iterator[None]:
        """Make brokers follow a change of a topic, in steps of about one log each."""
        for listener in list(self.on_change):
            try:
                yield from listener(name) or ()
            except Exception:
                _log.exception("a broker cannot follow a change of the topic %s", name)
