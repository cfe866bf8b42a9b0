"""One broker: its partitions and coordinators, and the dispatch of requests to handlers.

It opens no socket and knows no event loop. A server (or a test) gives it decoded requests and runs its :class:`Timer`.
All brokers of a cluster share the controller, the timer and the faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pyconsumer.background_log import Log
from pyconsumer.broker.access.authorizer import Authorizer
from pyconsumer.broker.access.rates import ClientRates
from pyconsumer.broker.config import BROKER_SETTINGS, BrokerConfig, TopicConfig
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_TOPIC,
    Controller,
    IsrChange,
    PartitionState,
)
from pyconsumer.broker.faults import Faults
from pyconsumer.broker.fetch_sessions import FetchSessions
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.coordinator import GroupCoordinator
from pyconsumer.broker.internal_topic import InternalTopicLog
from pyconsumer.broker.log.manager import LogManager, LogToOpen, Recovery
from pyconsumer.broker.partition import Partition
from pyconsumer.broker.replication import ReplicaFetcher
from pyconsumer.broker.share.config import ShareConfig
from pyconsumer.broker.share.coordinator import ShareCoordinator
from pyconsumer.broker.share.group_states import GroupShareStates
from pyconsumer.broker.share.partitions import SharePartitions
from pyconsumer.broker.share.persister import Persister
from pyconsumer.broker.share.rules import ShareGroupRules
from pyconsumer.broker.timer import Timer
from pyconsumer.broker.transaction.cluster import BrokerCluster
from pyconsumer.broker.transaction.config import TransactionConfig
from pyconsumer.broker.transaction.coordinator import TransactionCoordinator
from pyconsumer.clock import Clock
from pyconsumer.errors import KafkaError, KafkaStorageError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from pyconsumer.structs import BrokerMetadata, TopicPartition

__all__ = ["Broker", "Endpoints"]

_log = Log(__name__)

#: Backoff before retrying to open a topic's logs: the initial delay, doubled up to the maximum.
_FIRST_RETRY_S: Final = 1.0
_LONGEST_RETRY_S: Final = 60.0

#: Addresses of all brokers that are alive, by listener name.
Endpoints = Callable[[str], list[BrokerMetadata]]


class Broker:
    """A broker of the embedded cluster.

    Args:
        folder: the folder for its data. None keeps the data in memory.
        endpoints: returns the addresses of all brokers.
        peers: all live brokers, by node id.
        call_soon: runs a function after the current call.
        fenced_endpoints: returns the addresses of the brokers that are not alive.
        authorizer: decides what clients may do. None allows everything.

    Attributes:
        partitions: the replicas on this broker. ``fetcher`` copies the records of replicas that other brokers lead.
        group_coordinator: the coordinator of groups.
        share_coordinator: the coordinator of share partitions. ``share_states`` reaches that of any broker.
        share_partitions: the share partitions that this broker leads.
        transaction_coordinator: the coordinator of transactional ids.
        cluster: the interface by which transactions reach the other brokers.
        rates: the rates of clients on this broker, against their quotas.
        recovery: the progress of :meth:`opening`.
    """

    def __init__(
        self,
        node_id: int,
        *,
        folder: Path | None,
        config: BrokerConfig,
        controller: Controller,
        clock: Clock,
        timer: Timer,
        faults: Faults,
        endpoints: Endpoints,
        peers: Mapping[int, Broker],
        call_soon: Callable[[Callable[[], None]], None],
        fenced_endpoints: Endpoints = lambda listener: [],
        authorizer: Authorizer | None = None,
    ) -> None:
        self.node_id = node_id
        self.config = config
        self.controller = controller
        self.clock = clock
        self.timer = timer
        self.faults = faults
        self.endpoints = endpoints
        self.fenced_endpoints = fenced_endpoints
        self.call_soon = call_soon
        self.authorizer = authorizer
        self.rates = ClientRates(controller.quotas, config.integer)
        self.logs = LogManager(folder, clock, controller.is_deleted)
        self.partitions: dict[TopicPartition, Partition] = {}
        self.fetcher = ReplicaFetcher(
            node_id,
            self.partitions,
            peers.get,
            clock=clock,
            timer=timer,
            call_soon=call_soon,
            max_bytes=config.integer("replica.fetch.max.bytes"),
            write_log_starts=self.logs.write_log_starts,
        )
        self.fetch_sessions = FetchSessions(config.integer("max.incremental.fetch.session.cache.slots"))
        settings = {name: config.value(name) for name in BROKER_SETTINGS}
        share_rules = ShareGroupRules(config, lambda group_id: controller.group_configs.get(group_id, {}))
        share_config = ShareConfig.from_settings(settings)
        self.share_coordinator = ShareCoordinator(
            share_config, InternalTopicLog.of_share_states(self), timer, clock, self
        )
        self.share_states = Persister(self, peers)
        self.share_partitions = SharePartitions(
            self, self.share_states, share_rules, share_config.group_share_max_share_sessions
        )
        self.group_coordinator = GroupCoordinator(
            GroupConfig.from_settings(settings),
            InternalTopicLog.of_offsets(self),
            timer,
            clock,
            self,
            lambda group_id: controller.group_configs.get(group_id, {}),
            share_rules,
            GroupShareStates(self, peers),
        )
        self.cluster = BrokerCluster(self, peers)
        self.transaction_coordinator = TransactionCoordinator(
            TransactionConfig.from_settings(settings),
            InternalTopicLog.of_transactions(self),
            self.cluster,
            timer,
            clock,
        )
        self.recovery = Recovery(0)
        self._peers = peers
        self._partition_counts: dict[str, int] = {}
        self._behind: set[str] = set()  # topics with a log that could not be opened. Each has a timer.
        self._wanted_isrs: dict[TopicPartition, IsrChange] = {}
        self._producer_ids = iter(range(0))

    # --- life

    def opening(self) -> Iterator[None]:
        """Open all logs step by step, and recover those that need it. Call :meth:`start` next.

        During this the broker serves no client, and the other brokers of the process run between two steps.
        """
        self._apply_broker_config()
        wanted = []
        for name, topic in self.controller.topics.items():
            config = TopicConfig.of(topic.config, self.config)
            for index, state in enumerate(topic.partitions):
                if self.node_id in state.replicas:
                    wanted.append(LogToOpen(TopicPartition(name, index), topic.topic_id, config))
        self.recovery = Recovery(len(wanted))
        yield from self.logs.opening_all(wanted, self.recovery)

    def start(self) -> None:
        """Open the remaining logs, and become leader of the partitions that the controller has assigned."""
        known = {
            f"{name}-{index}": topic.topic_id
            for name, topic in self.controller.topics.items()
            for index, state in enumerate(topic.partitions)
            if self.node_id in state.replicas
        }
        self.logs.close_others(known)
        self.logs.remove_strays(known)
        self.controller.on_removed(self.node_id)
        self.controller.on_change.append(self._on_change)
        self.controller.on_broker_config.append(self._apply_broker_config)
        self._apply_broker_config()
        self.group_coordinator.start()
        self.transaction_coordinator.start()
        self.share_coordinator.start()
        for name in list(self.controller.topics):
            for _ in self._on_change(name):  # one log that cannot be opened does not keep the others from starting
                pass
        self.logs.started()

    def stop(self, *, flush: bool = True) -> None:
        """Shut down cleanly, so that the next start needs no recovery."""
        self._leave()
        self.logs.close(self.high_watermarks(), flush=flush)
        self.partitions.clear()

    def abandon(self) -> None:
        """End without writing anything, as if the process had been killed."""
        self._leave()
        self.logs.abandon()
        self.partitions.clear()

    def _leave(self) -> None:
        # start() may not have run, for instance because the port of a later broker was taken.
        if self._on_change in self.controller.on_change:
            self.controller.on_change.remove(self._on_change)
        if self._apply_broker_config in self.controller.on_broker_config:
            self.controller.on_broker_config.remove(self._apply_broker_config)
        self.fetcher.stop()
        self.group_coordinator.shutdown()
        self.transaction_coordinator.shutdown()
        self.share_partitions.shutdown()
        self.share_coordinator.shutdown()
        for partition in self.partitions.values():
            partition.close()

    def _apply_broker_config(self) -> None:
        configs = self.controller.broker_configs
        self.config.set_dynamic(configs.get("", {}), configs.get(str(self.node_id), {}))
        for tp, partition in self.partitions.items():
            partition.log.configure(TopicConfig.of(self.controller.topics[tp.topic].config, self.config))

    # --- partitions

    def _on_change(self, name: str) -> Iterator[None]:
        """Apply a change of the controller. A log that cannot be opened (the disk may be full) is tried again later."""
        try:
            yield from self._applying(name)
        except (OSError, KafkaError) as error:
            if name not in self._behind:
                self._behind.add(name)
                self._retry_later(name, _FIRST_RETRY_S, error)

    def _retry_later(self, name: str, pause_s: float, error: OSError | KafkaError) -> None:
        _log.error(
            "node %d: topic %s could not be applied, trying again in %g s: %s", self.node_id, name, pause_s, error
        )
        self.timer.schedule(self.clock.now() + pause_s, lambda: self._retry(name, pause_s))

    def _retry(self, name: str, pause_s: float) -> None:
        if self._on_change not in self.controller.on_change:
            return  # this broker has ended
        try:
            self.apply_topic(name)
        except (OSError, KafkaError) as error:
            self._retry_later(name, min(2 * pause_s, _LONGEST_RETRY_S), error)
        else:
            self._behind.discard(name)

    def apply_topic(self, name: str) -> None:
        """Adapt this broker's replicas of a topic to the controller's decision.

        Raises:
            OSError: the log of a partition could not be opened. The topic's other logs were opened.
        """
        for _ in self._applying(name):
            pass

    def _applying(self, name: str) -> Iterator[None]:
        """Apply a topic in steps of one log each. The topic may change between two of them."""
        topic = self.controller.topics.get(name)
        if topic is None:
            self.group_coordinator.on_topic_changed(name, created=False)
            self.share_coordinator.forget_deleted_topics()
            gone = [TopicPartition(name, index) for index in range(self._partition_counts.pop(name, 0))]
            ids = {self.partitions[tp].topic_id for tp in gone if tp in self.partitions}
            removed = [self._remove(tp) for tp in gone if tp in self.partitions]
            if all(removed) and name not in self._behind:
                self.controller.on_removed(self.node_id, ids)
            # Also without a replica here: a group that is coordinated here may have offsets of the topic.
            if gone:
                self.group_coordinator.on_partitions_deleted(gone)
            return
        before, self._partition_counts[name] = self._partition_counts.get(name), len(topic.partitions)
        if before != len(topic.partitions):
            self.group_coordinator.on_topic_changed(name, created=before is None)
        own = topic.config
        config = TopicConfig.of(own, self.config)
        failure: OSError | KafkaError | None = None
        for index in range(len(topic.partitions)):
            state = topic.partitions[index]
            if topic.config is not own:
                own = topic.config
                config = TopicConfig.of(own, self.config)
            if self.node_id not in state.replicas:
                continue
            tp = TopicPartition(name, index)
            partition = self.partitions.get(tp)
            if partition is None:
                try:
                    partition = self._open(tp, topic.topic_id, config)
                except (OSError, KafkaError) as error:
                    _log.error("%s is offline: its log in %s cannot be opened: %s", tp, self.logs.folder, error)
                    failure = failure or error
                    continue
            partition.log.configure(config)
            if (state.leader_epoch, state.isr) != (partition.leader_epoch, partition.isr):
                self._apply_state(partition, state)
            yield
            if self.controller.topics.get(name) is not topic or self._on_change not in self.controller.on_change:
                return  # it was deleted, or this broker has ended
        if failure is not None:
            raise failure

    def _open(self, tp: TopicPartition, topic_id: bytes, config: TopicConfig) -> Partition:
        log = self.logs.open(tp, topic_id, config)
        partition = self.partitions[tp] = Partition(self.node_id, tp, topic_id, log, on_isr=self._want_isr)
        partition.begin_at(self.logs.high_watermarks.get(tp, 0))
        return partition

    def _apply_state(self, partition: Partition, state: PartitionState) -> None:
        was_leader, is_new_epoch = partition.is_leader, state.leader_epoch != partition.leader_epoch
        if len(state.replicas) > 1:
            partition.notify_followers(self._wake_followers)
        partition.lead(state.leader, state.leader_epoch, state.replicas, state.isr, self.clock.now())
        if not is_new_epoch:
            return
        self.share_partitions.on_partition_changed(partition.topic_id, partition.tp.partition)
        if not partition.is_leader and partition.leader >= 0:
            self.fetcher.wake(partition.tp)
        coordinator = self._coordinator_of(partition.tp.topic)
        if coordinator is not None and partition.is_leader:
            coordinator.on_become_leader(partition.tp.partition, partition.leader_epoch)
        elif coordinator is not None and was_leader:
            coordinator.on_resign(partition.tp.partition, partition.leader_epoch)

    def _coordinator_of(self, topic: str) -> GroupCoordinator | TransactionCoordinator | ShareCoordinator | None:
        """Return the coordinator whose records an internal topic holds."""
        if topic == OFFSETS_TOPIC:
            return self.group_coordinator
        if topic == SHARE_STATE_TOPIC:
            return self.share_coordinator
        return self.transaction_coordinator if topic == TRANSACTION_TOPIC else None

    def _remove(self, tp: TopicPartition) -> bool:
        partition = self.partitions.pop(tp)
        coordinator = self._coordinator_of(tp.topic)
        if coordinator is not None and partition.is_leader:
            coordinator.on_resign(tp.partition, None)
        self.share_partitions.on_partition_changed(partition.topic_id, tp.partition)
        partition.close()
        return self.logs.remove(tp)

    def partition(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """Return a partition for a client. This broker must lead it.

        Args:
            current_leader_epoch: the leader epoch that the client knows, or -1 if the request has none.

        Raises:
            UnknownTopicOrPartitionError, NotLeaderOrFollowerError, FencedLeaderEpochError, UnknownLeaderEpochError:
                with Kafka's error codes.
        """
        partition = self.partitions.get(TopicPartition(topic, index))
        if partition is None:
            known = self.controller.topics.get(topic)
            if known is not None and 0 <= index < len(known.partitions):
                if topic in self._behind:
                    raise KafkaStorageError(f"{topic}-{index} is offline: its log is not open on node {self.node_id}")
                if self.node_id in known.partitions[index].replicas:
                    raise NotLeaderOrFollowerError(f"node {self.node_id} has not opened the log of {topic}-{index} yet")
                raise NotLeaderOrFollowerError(f"{topic}-{index} has no replica on node {self.node_id}")
            raise UnknownTopicOrPartitionError(f"there is no partition {topic}-{index}")
        partition.check_leader(current_leader_epoch)
        return partition

    def replica(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """Return a partition from which a consumer may read. This broker leads it or follows its leader (KIP-392).

        Errors are those of :meth:`partition`.
        """
        partition = self.partitions.get(TopicPartition(topic, index))
        if partition is None:
            return self.partition(topic, index, current_leader_epoch)
        partition.check_epoch(current_leader_epoch)
        return partition

    # --- replication

    def _wake_followers(self, partition: Partition, informed: int) -> None:
        for node in partition.followers:
            peer = self._peers.get(node)
            if peer is not None and node != informed:
                peer.fetcher.wake(partition.tp)

    def _want_isr(self, partition: Partition, isr: tuple[int, ...]) -> None:
        tp = partition.tp
        self._wanted_isrs[tp] = IsrChange(tp.topic, tp.partition, partition.leader_epoch, isr)

    def propose_isrs(self) -> None:
        """Propose all changes of ISRs since the last call to the controller, in one request."""
        if self._wanted_isrs:
            wanted, self._wanted_isrs = self._wanted_isrs, {}
            self.controller.alter_isrs(self.node_id, list(wanted.values()))

    def shrink_isrs(self) -> None:
        """Propose that lagging followers leave the ISRs (``replica.lag.time.max.ms``)."""
        now, lag_s = self.clock.now(), self.config.integer("replica.lag.time.max.ms") / 1000
        for partition in self.partitions.values():
            if partition.is_leader and partition.followers:
                out = partition.lagging(now, lag_s)
                if out:
                    _log.info("%s: nodes %s lag behind and leave the ISR", partition.tp, ", ".join(map(str, out)))
                    self._want_isr(partition, tuple(node for node in partition.isr if node not in out))
        self.propose_isrs()

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {tp: partition.high_watermark for tp, partition in self.partitions.items()}

    # --- questions of handlers

    def remove_before(self, partition: int, offset: int) -> None:
        """Remove the records of a partition of ``__share_group_state`` before an offset."""
        found = self.partitions.get(TopicPartition(SHARE_STATE_TOPIC, partition))
        if found is not None and found.is_leader and found.log.log_start_offset < offset <= found.high_watermark:
            found.start_at(offset)
            self.logs.write_log_starts()

    def topic_id(self, name: str) -> bytes | None:
        """Return the id of a topic, or None if there is no such topic."""
        topic = self.controller.topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, or None."""
        return self.controller.name_of(topic_id)

    def partition_count(self, topic: str) -> int | None:
        """Return the number of a topic's partitions, or None if there is no such topic."""
        found = self.controller.topics.get(topic)
        return None if found is None else len(found.partitions)

    def topic_names(self) -> list[str]:
        """Return the names of all topics."""
        return list(self.controller.topics)

    def partition_racks(self, topic: str, partition: int) -> list[str]:
        """Return the racks of the brokers with a replica of a partition. Brokers without a rack are left out."""
        found = []
        for node in self.controller.topics[topic].partitions[partition].replicas:
            peer = self._peers.get(node)
            rack = None if peer is None else peer.config.text("broker.rack")
            if rack is not None:
                found.append(rack)
        return found

    def coordinator_node(self, topic_name: str, partition: int, context: RequestContext) -> BrokerMetadata | None:
        """Return the leader of an internal topic's partition, with its address on the client's listener.

        None if there is no leader.
        """
        topic = self.controller.ensure_internal(topic_name)
        leader = topic.partitions[partition].leader
        for node in self.endpoints(context.listener):
            if node.node_id == leader:
                return node
        return None

    # --- producers

    def next_producer_id(self) -> int:
        """Return a producer id that was never used in this cluster."""
        for producer_id in self._producer_ids:
            return producer_id
        self._producer_ids = iter(self.controller.allocate_producer_ids())
        return next(self._producer_ids)

    # --- periodic work, called by a host

    def delete_old_segments(self) -> None:
        """Apply ``retention.ms`` and ``retention.bytes``, and do the other periodic checks of the logs."""
        for partition in self.partitions.values():
            if partition.log.config.delete:
                removed = partition.log.delete_old_segments(partition.high_watermark)
                if removed:
                    _log.info(
                        "%s: removed %d old segments, so the log now starts at %d",
                        partition.tp,
                        removed,
                        partition.log.log_start_offset,
                    )

    def checkpoint(self) -> None:
        """Write recovery points, log start offsets and high watermarks."""
        self.logs.checkpoint(self.high_watermarks())
