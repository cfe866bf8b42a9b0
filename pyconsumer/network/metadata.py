"""The client's view of the cluster: brokers, topics, leaders, and when it is refreshed. A core: no I/O, no clock.

Rules
1. Until the first response (and after :meth:`Metadata.rebootstrap`) the brokers are the bootstrap addresses, with
   negative node ids.
2. A response replaces the brokers. One that was asked for all topics of interest replaces the topics. One for new
   topics only adds to them.
3. Leader epochs only grow (KIP-320): the data of a partition under an older epoch than one seen before is
   ignored. A topic with another id has been created again, and its epochs start again.
4. A refresh is due when it was requested, or when the metadata is ``max_age`` old. It waits for the backoff since the
   last attempt. Failures in a row make the backoff grow, and so do requested responses without a change: a leader
   that is gone is not asked for ten times a second.
5. A response settles only the wishes from before its request was sent. Later ones are requested again. So a caller that
   waits for topics waits for :meth:`Metadata.is_settled`, not for the next response: that one may answer a request that
   was sent before the topics were added.
   A topic of interest that was asked for and that the response does not have is asked for again, after a backoff.
6. Topics of a response that are of no interest are ignored, as by Java's ``retainTopic``. A topic that counted as known
   before it is wanted would not be asked for, and a call that needs it would wait for ``max_age``.
7. Topics that the owner calls idle are forgotten when a query is made. Who needs one again adds it again (KIP-526).
8. A response settles wishes only after all of it has been applied. Ctrl-C before that means that it is asked for again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from pyconsumer import errors
from pyconsumer.errors import KafkaError
from pyconsumer.network.backoff import Backoff
from pyconsumer.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.settings.config import Address, ClientConfig
from pyconsumer.structs import BrokerMetadata, PartitionMetadata, TopicPartition

__all__ = ["Metadata", "MetadataQuery", "TopicMetadata"]

# Before this version epochs in a response may be older than they should be (KAFKA-8206), so they are left out.
_RELIABLE_EPOCHS_VERSION = 9
_REBOOTSTRAP_REQUIRED = 129
_RESPONSES_TO_BELIEVE = 3


class TopicMetadata:
    """The metadata of one topic. ``topic_id`` is 16 zero bytes if the broker has no topic ids."""

    __slots__ = ("is_internal", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes = ZERO_UUID, is_internal: bool = False) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions: dict[int, PartitionMetadata] = {}


class MetadataQuery(NamedTuple):
    """A metadata request to send, with the wishes that its response fulfils.

    Pass it to :meth:`Metadata.update` or :meth:`Metadata.failed`.
    """

    request: MetadataRequest
    partial: bool
    full_asked: int
    partial_asked: int


class Metadata:
    """The cluster's metadata, as the client knows it. See the rules of the module.

    Args:
        bootstrap: the addresses to start with.
        max_age: the metadata is refreshed after this many seconds.
        backoff: the pauses between attempts.
        allow_auto_topic_creation: True lets the broker create a missing topic (if the broker is set up to do so).
        exclude_internal_topics: True leaves internal topics such as ``__consumer_offsets`` out of :meth:`topics`.
        rebootstrap_after: after this many seconds without success ``must_rebootstrap`` is True. Infinity for never
            (KIP-1102).
        idle_topics: called with the time in monotonic seconds. Returns the topics of :meth:`add_topic` that have become
            idle.
    """

    def __init__(
        self,
        *,
        bootstrap: Sequence[Address] = (),
        max_age: float = 300.0,
        backoff: Backoff | None = None,
        allow_auto_topic_creation: bool = True,
        exclude_internal_topics: bool = True,
        rebootstrap_after: float = math.inf,
        idle_topics: Callable[[float], Collection[str]] | None = None,
    ) -> None:
        self.update_count = 0
        """Grows with each response that was taken. To wait for an update, use :meth:`is_settled`."""
        self.leaders_version = 0  # changes whenever :meth:`leader` may return something else
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.fatal_error: KafkaError | None = None
        """The error that makes attempts pointless, such as a refused login. The driver's owner raises and clears it."""
        self.topic_errors: dict[str, int] = {}
        """Error code of each topic that the last response had no data for."""
        self._unreported: set[str] = set()
        self._bootstrap = tuple(bootstrap)
        self._max_age = max_age
        self._backoff = backoff or Backoff(0.1, 1.0)
        self._allow_auto_topic_creation = allow_auto_topic_creation
        self._exclude_internal_topics = exclude_internal_topics
        self._rebootstrap_after = rebootstrap_after
        self._idle_topics = idle_topics
        self._brokers: dict[int, BrokerMetadata] = {}
        self.is_bootstrap = True
        self._topics: dict[str, TopicMetadata] = {}
        self._names: dict[bytes, str] = {}
        self._epochs: dict[TopicPartition, int] = {}
        # interest
        self._all_topics = False
        self._wanted: set[str] = set()
        self._transient: set[str] = set()
        self._new: set[str] = set()
        self._wanted_ids: frozenset[bytes] = frozenset()
        # refresh
        self._full_asked = 1
        self._full_settled = 0
        self._partial_asked = 0
        self._partial_settled = 0
        self._failures = 0
        self._unchanged = 0
        self._rebootstraps = 0
        self._last_attempt = -math.inf
        self._last_success = -math.inf
        self._not_before = -math.inf
        self._attempting_since: float | None = None
        self._next_bootstrap_id = -1
        self._use_bootstrap()

    @classmethod
    def from_config(
        cls,
        config: ClientConfig,
        *,
        allow_auto_topic_creation: bool = True,
        exclude_internal_topics: bool = True,
        idle_topics: Callable[[float], Collection[str]] | None = None,
    ) -> Metadata:
        """Create metadata with the settings of a client."""
        after_ms = config.metadata_recovery_rebootstrap_trigger_ms
        return cls(
            bootstrap=config.bootstrap_servers,
            max_age=config.metadata_max_age_ms / 1000,
            backoff=Backoff.ms(config.retry_backoff_ms, config.retry_backoff_max_ms),
            allow_auto_topic_creation=allow_auto_topic_creation,
            exclude_internal_topics=exclude_internal_topics,
            rebootstrap_after=after_ms / 1000 if config.metadata_recovery_strategy == "rebootstrap" else math.inf,
            idle_topics=idle_topics,
        )

    # -- interest ----------------------------------------------------------------------------------------------------

    def set_topics(self, topics: Collection[str]) -> bool:
        """Set the topics of interest. Return whether one of them is new. If so, an update is requested."""
        added = set(topics) - self._wanted
        self._wanted = set(topics)
        self._all_topics, was_all = False, self._all_topics
        if was_all:
            added = {topic for topic in added if topic not in self._topics}
        self._forget_unwanted()
        self._want_new(added)
        return bool(added)

    def add_topic(self, topic: str) -> bool:
        """Add a topic of interest. Return whether it is new. If so, an update is requested."""
        if topic in self._wanted:
            return False
        self._wanted.add(topic)
        if topic in self._topics:
            return False
        self._want_new({topic})
        return True

    def wanted_topics(self) -> frozenset[str]:
        """Return the topics that were set by :meth:`set_topics` and added by :meth:`add_topic`."""
        return frozenset(self._wanted)

    def set_topic_ids(self, topic_ids: Collection[bytes]) -> None:
        """Follow topics that are known only by id, and request an update.

        When the name of such a topic is known, it is a topic of interest, like those of :meth:`set_topics`.
        """
        self._wanted_ids = frozenset(topic_ids)
        if topic_ids:
            self.request_update()

    def set_all_topics(self, wanted: bool = True) -> None:
        """Make all topics topics of interest, for a pattern. If that is a change, an update is requested."""
        if wanted and not self._all_topics:
            self.request_update()
        self._all_topics = wanted

    def add_transient_topics(self, topics: Iterable[str]) -> None:
        """Add topics of interest for a single call. :meth:`clear_transient_topics` removes them."""
        added = set(topics) - self._wanted - self._transient
        self._transient |= added
        self._want_new({topic for topic in added if topic not in self._topics})

    def clear_transient_topics(self) -> None:
        """Remove the topics of :meth:`add_transient_topics`. No update is requested."""
        self._transient.clear()

    def _want_new(self, topics: set[str]) -> None:
        if topics:
            self._new |= topics
            self._partial_asked += 1
            self._unchanged = 0
            if not self._failures:
                self._not_before = -math.inf

    def _is_of_interest(self, topic: str) -> bool:
        return self._all_topics or topic in self._wanted or topic in self._transient

    def _forget_unwanted(self) -> None:
        if self._all_topics:
            return
        self._new &= self._wanted | self._transient
        for topic in self._topics.keys() - self._wanted - self._transient:
            self._drop_topic(topic)
        for topic in self.topic_errors.keys() - self._wanted - self._transient:
            self._forget_error(topic)

    def _forget_error(self, topic: str) -> None:
        self.topic_errors.pop(topic, None)
        self._unreported.discard(topic)

    # -- when to ask, and what ---------------------------------------------------------------------------------------

    def request_update(self, *, reset_backoff: bool = False) -> int:
        """Request a refresh as soon as the backoff allows it. Return the wish's number, for :meth:`is_settled`."""
        self._full_asked += 1
        if reset_backoff:
            self._unchanged = 0
            self._failures = 0
            self._not_before = -math.inf
        return self._full_asked

    def is_settled(self, wish: int) -> bool:
        """Return whether a response to a query has come that was made after a wish of :meth:`request_update` (rule 5).

        Such a query has all topics that were of interest when the update was requested.
        """
        return self._full_settled >= wish

    @property
    def settled(self) -> int:
        """Return the newest wish that is settled."""
        return self._full_settled

    def age(self, now: float) -> float | None:
        """Return how many seconds ago metadata was refreshed. None before the first response. Any thread may call."""
        then = self._last_success
        return None if then == -math.inf else now - then

    @property
    def update_requested(self) -> bool:
        """Return whether a refresh was requested, of all topics or of new ones."""
        return self._full_asked > self._full_settled or self._partial_asked > self._partial_settled

    def next_update_at(self, now: float) -> float:
        """Return when to send the next request. If it is due, that time is not later than ``now``."""
        if self._full_asked > self._full_settled or self._partial_asked > self._partial_settled:
            due = now
        else:
            due = self._last_success + self._max_age
        return due if due > self._not_before else self._not_before

    def query(self, now: float) -> MetadataQuery:
        """Return the request to send now, or None. Only one request is in flight at a time."""
        self._last_attempt = now
        if self._attempting_since is None:
            self._attempting_since = now
        if self._idle_topics is not None:
            self._wanted.difference_update(self._idle_topics(now))
            self._forget_unwanted()
        full = self._full_asked > self._full_settled or now >= self._last_success + self._max_age
        # A query by ids leaves out the topics of which only the name is known, so these are asked for before it.
        is_by_id = bool(self._wanted_ids) and self._partial_asked > self._partial_settled
        partial = (not full or is_by_id) and not self._all_topics and bool(self._new)
        topics: list[MetadataRequestTopic] | None
        if self._all_topics:
            topics = None
        else:
            names = self._new if partial else self._wanted | self._transient
            topics = [MetadataRequestTopic(name=name) for name in sorted(names)]
            if self._wanted_ids and not partial:  # a broker that is asked by id ignores the names
                ids = {self.topic_id(name) for name in names} | self._wanted_ids
                topics = [MetadataRequestTopic(topic_id=i, name=None) for i in sorted(ids - {ZERO_UUID})]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=self._allow_auto_topic_creation)
        return MetadataQuery(request, partial, self._full_asked, self._partial_asked)

    def failed(self, now: float, error: KafkaError | None = None, *, fatal: bool = False) -> None:
        """Record that a request got no response. With ``fatal``, the error is kept so that the client can raise it."""
        self._not_before = now + self._backoff.delay(self._failures)
        self._failures += 1
        if fatal and error is not None:
            self.fatal_error = error

    def give_up(self, error: KafkaError) -> None:
        """Keep an error so that the client can raise it.

        A ``BootstrapResolutionError`` is raised at each call. Requests continue.
        """
        self.fatal_error = error

    def must_rebootstrap(self, now: float) -> bool:
        """Return whether the client must start over with the bootstrap addresses (KIP-1102).

        It must if refreshes have failed for ``rebootstrap_after`` seconds.
        """
        since = self._attempting_since
        return not self.is_bootstrap and since is not None and now - since > self._rebootstrap_after

    def rebootstrap(self, now: float = -math.inf) -> None:
        """Forget the brokers and start over with the bootstrap addresses (KIP-899). Topics and epochs are kept.

        Args:
            now: monotonic seconds. If this is called again without an update in between, the next request waits for a
                growing pause. So a broker that asks for a new start in each response cannot keep the client busy.
        """
        self._use_bootstrap()
        self._attempting_since = None
        self.request_update(reset_backoff=True)
        if self._rebootstraps:
            self._not_before = now + self._backoff.delay(self._rebootstraps - 1)
        self._rebootstraps += 1

    def _use_bootstrap(self) -> None:
        # Ids are never used twice, so that nothing learnt about an old attempt sticks to a new one.
        self.is_bootstrap = True
        self.leaders_version += 1
        brokers = {}
        for address in self._bootstrap:
            brokers[self._next_bootstrap_id] = BrokerMetadata(self._next_bootstrap_id, address.host, address.port)
            self._next_bootstrap_id -= 1
        self._brokers = brokers  # at once: after Ctrl-C in between, none would be left to connect to

    # -- what a response says ----------------------------------------------------------------------------------------

    def update(
        self, response: MetadataResponse, api_version: int, now: float, query: MetadataQuery | None = None
    ) -> bool:
        """Apply a response to a metadata request.

        Args:
            response: the decoded response.
            api_version: the version of the response.
            now: monotonic seconds.
            query: the request. None means a request for all topics that was made just now.

        Returns:
            False if the broker asks the client to start over (KIP-1102). In that case the response is not applied. Call
            :meth:`rebootstrap`.
        """
        if response.error_code == _REBOOTSTRAP_REQUIRED:
            return False
        before = self.update_requested, self._leaders()
        self.cluster_id = response.cluster_id if response.cluster_id is not None else self.cluster_id
        self.controller_id = response.controller_id
        if response.brokers:
            self._brokers = {b.node_id: BrokerMetadata(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
            self.is_bootstrap = False
        asked = () if query is None else [topic.name for topic in query.request.topics or ()]
        stale = self._take_topics(response.topics, api_version, asked, replace=query is None or not query.partial)
        # After Ctrl-C before this point the response has settled nothing, and the next turn asks again (rule 8).
        self.update_count += 1
        self.leaders_version += 1
        self.fatal_error = None
        self._last_success = now
        self._rebootstraps = 0
        self._attempting_since = None
        self._failures = 0
        self._full_settled = max(self._full_settled, query.full_asked if query and not query.partial else 0)
        self._partial_settled = max(self._partial_settled, query.partial_asked if query else 0)
        if query is None:
            self._full_settled, self._partial_settled = self._full_asked, self._partial_asked
        if stale:
            self._full_asked += 1
        changed = self._leaders() != before[1]
        self._unchanged = 0 if changed or not (before[0] and stale) else self._unchanged + 1
        self._not_before = now + self._backoff.delay(max(0, self._unchanged - 1))
        return True

    def _leaders(self) -> dict[TopicPartition, tuple[int, int]]:
        return {
            TopicPartition(topic.name, number): (partition.leader, partition.leader_epoch)
            for topic in self._topics.values()
            for number, partition in topic.partitions.items()
        }

    def _take_topics(
        self, topics: Iterable[MetadataResponseTopic], api_version: int, asked: Iterable[str | None], *, replace: bool
    ) -> bool:
        """Apply the topics of a response, and return whether some of those asked for should be asked for again soon."""
        seen: set[str] = set()
        stale = False
        for topic in topics:
            name = topic.name if topic.name is not None else self._names.get(bytes(topic.topic_id))
            if name is not None and bytes(topic.topic_id) in self._wanted_ids and not topic.error_code:
                self._wanted.add(name)
            if name is None or not self._is_of_interest(name):
                continue
            seen.add(name)
            if topic.error_code:
                error = errors.for_code(topic.error_code)
                self.topic_errors[name] = topic.error_code
                self._unreported.add(name)
                stale |= error.invalid_metadata
                if name in self._topics and (not error.retriable or replace):
                    # Without topic ids a recreated topic looks like an old response: keep the epochs.
                    self._drop_topic(name, keep_epochs=self._topics[name].topic_id == ZERO_UUID)
                continue
            self._forget_error(name)
            self._new.discard(name)
            stale |= self._take_topic(name, topic, api_version)
        if replace:
            for name in self._topics.keys() - seen:
                self._drop_topic(name)
            for name in self.topic_errors.keys() - seen:
                self._forget_error(name)
            self._new -= seen
        return stale or any(name not in seen and self._is_of_interest(name) for name in asked if name is not None)

    def _take_topic(self, name: str, topic: MetadataResponseTopic, api_version: int) -> bool:
        topic_id = bytes(topic.topic_id)
        known = self._topics.get(name)
        if known is not None and ZERO_UUID not in (topic_id, known.topic_id) and topic_id != known.topic_id:
            self._drop_topic(name)
            known = None
        if topic_id != ZERO_UUID:
            self._names[topic_id] = name
        taken = TopicMetadata(name, topic_id, topic.is_internal)
        stale = False
        for partition in topic.partitions:
            stale |= partition.error_code != 0 and errors.for_code(partition.error_code).invalid_metadata
            found = self._partition(name, partition, api_version)
            previous = known.partitions.get(found.partition) if known else None
            tp = TopicPartition(name, found.partition)
            newest = self._epochs.get(tp, -1)
            if found.leader_epoch < 0:
                self._epochs.pop(tp, None)
            elif found.leader_epoch >= newest:
                self._epochs[tp] = found.leader_epoch
            elif previous is not None:
                found = previous  # rule 3
            else:
                continue
            taken.partitions[found.partition] = found
        self._topics[name] = taken
        return stale

    @staticmethod
    def _partition(topic: str, partition: MetadataResponsePartition, api_version: int) -> PartitionMetadata:
        return PartitionMetadata(
            topic,
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch if api_version >= _RELIABLE_EPOCHS_VERSION else -1,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
            partition.error_code,
        )

    def _drop_topic(self, name: str, *, keep_epochs: bool = False) -> None:
        topic = self._topics.pop(name)
        self._names.pop(topic.topic_id, None)
        if keep_epochs:
            return
        for number in topic.partitions:
            self._epochs.pop(TopicPartition(name, number), None)

    def update_leaders(
        self, leaders: Mapping[TopicPartition, tuple[int, int]], brokers: Iterable[BrokerMetadata] = ()
    ) -> set[TopicPartition]:
        """Apply leaders that the response to another request contained (KIP-951).

        Args:
            leaders: ``(node id, leader epoch)`` by partition. A leader that is not newer than the known one is ignored.
            brokers: the addresses of the leaders, as far as the response contains them.

        Returns:
            The partitions whose leader has changed.
        """
        self.leaders_version += 1
        for broker in brokers:
            self._brokers[broker.node_id] = broker
        changed: set[TopicPartition] = set()
        for tp, (leader, epoch) in leaders.items():
            topic = self._topics.get(tp.topic)
            known = topic.partitions.get(tp.partition) if topic else None
            if topic is None or known is None or leader < 0 or leader not in self._brokers:
                continue
            if epoch <= max(known.leader_epoch, self._epochs.get(tp, -1)):
                continue
            topic.partitions[tp.partition] = known._replace(leader=leader, leader_epoch=epoch, error_code=0)
            self._epochs[tp] = epoch
            changed.add(tp)
        return changed

    def see_epoch(self, tp: TopicPartition, epoch: int) -> bool:
        """Note a leader epoch that was seen in a record or in a committed offset.

        Returns:
            True if it is newer than the known one. In that case the known leader is not used any more, and an update is
            requested.
        """
        if epoch < 0 or epoch <= self._epochs.get(tp, -1):
            return False
        if tp not in self._epochs and self.partition(tp) is None:
            return False
        self._epochs[tp] = epoch
        self.leaders_version += 1
        self.request_update()
        return True

    # -- what is known -----------------------------------------------------------------------------------------------

    def brokers(self) -> list[BrokerMetadata]:
        """Return the brokers. Before the first response these are the bootstrap addresses, with negative ids."""
        return list(self._brokers.values())

    def broker(self, node_id: int) -> BrokerMetadata | None:
        """Return the address of a broker, or None if it is unknown."""
        return self._brokers.get(node_id)

    def topics(self) -> list[str]:
        """Return the names of the known topics, sorted. Internal topics are left out if they are excluded."""
        hide = self._exclude_internal_topics
        return sorted(topic.name for topic in self._topics.values() if not (hide and topic.is_internal))

    def topic(self, name: str) -> TopicMetadata | None:
        """Return the metadata of a topic, or None if it is unknown."""
        return self._topics.get(name)

    def partitions_for(self, topic: str) -> list[PartitionMetadata] | None:
        """Return the partitions of a topic by number, or None if the topic is unknown."""
        found = self._topics.get(topic)
        return None if found is None else [found.partitions[number] for number in sorted(found.partitions)]

    def partition_count(self, topic: str) -> int:
        """Return the number of a topic's partitions, or 0 if the topic is unknown."""
        found = self._topics.get(topic)
        return len(found.partitions) if found else 0

    def partition(self, tp: TopicPartition) -> PartitionMetadata | None:
        """Return a partition's data from the last response, even if it is known to be out of date."""
        topic = self._topics.get(tp[0])
        return topic.partitions.get(tp[1]) if topic else None

    def leader(self, tp: TopicPartition) -> PartitionMetadata | None:
        """Return a partition's data if its leader is known.

        Otherwise return None, and the caller should request an update.
        """
        topic = self._topics.get(tp[0])
        found = topic.partitions.get(tp[1]) if topic else None
        if found is None or found.leader not in self._brokers:
            return None
        if 0 <= found.leader_epoch < self._epochs.get(tp, -1):
            return None
        return found

    def leader_epoch(self, tp: TopicPartition) -> int:
        """Return the newest known leader epoch of a partition, or -1."""
        return self._epochs.get(tp, -1)

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic (16 bytes), or zeros if it is unknown."""
        found = self._topics.get(topic)
        return found.topic_id if found else ZERO_UUID

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, or None if it is unknown."""
        return self._names.get(topic_id)

    def absence(self, tp: TopicPartition, since: int) -> KafkaError | None:
        """Return an error if it is certain that a partition does not exist. Otherwise return None.

        For a moment after a topic or partition was created, a broker may not know it yet. So only the third response
        counts. (Java's clients repeat the request until their time is up.)

        Args:
            since: the value of :attr:`update_count` when the caller started to wait.
        """
        if self.update_count - since < _RESPONSES_TO_BELIEVE:
            return None
        known = self._topics.get(tp[0])
        if known is None:
            code = self.topic_errors.get(tp[0])
            if code != errors.Errors.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            return errors.for_code(code, f"there is no topic {tp[0]!r}")
        if not known.partitions or tp[1] in known.partitions:
            return None
        count = len(known.partitions)
        has = f"partitions 0 to {count - 1}" if count > 1 else "partition 0 alone"
        return errors.for_code(errors.Errors.UNKNOWN_TOPIC_OR_PARTITION, f"topic {tp[0]!r} has {has}, not {tp[1]}")

    def topic_error(self, topic: str) -> KafkaError | None:
        """Return the error that the last response had for a topic. None if it had none or did not cover the topic."""
        code = self.topic_errors.get(topic)
        return errors.for_code(code, topic) if code is not None else None

    @property
    def has_error(self) -> bool:
        """Return whether there may be an error for :meth:`take_fatal_error` or :meth:`take_topic_error` to return."""
        return self.fatal_error is not None or bool(self._unreported)

    def take_fatal_error(self) -> KafkaError | None:
        """Return and forget the error with which the cluster rejected this client, or None if there is none.

        An error of looking up names is kept until a broker responds, so that every call raises it (KIP-909).
        """
        error, self.fatal_error = self.fatal_error, None
        if isinstance(error, errors.BootstrapResolutionError):
            self.fatal_error = errors.BootstrapResolutionError(*error.args, stage=error.stage)  # without traceback
        return error

    def take_topic_error(self, topics: Collection[str] | None = None) -> KafkaError | None:
        """Return the error to raise for topics that may not be read or cannot exist.

        The errors of a response are returned once. Without ``topics`` those of all topics are.

        A returned error can still be read by :meth:`topic_error`.
        """
        for code in (errors.TopicAuthorizationFailedError.errno, errors.InvalidTopicError.errno):
            names = sorted(
                name
                for name in self._unreported
                if self.topic_errors[name] == code and (topics is None or name in topics)
            )
            if names:
                self._unreported.difference_update(names)
                return errors.for_code(code, ", ".join(names))
        return None
