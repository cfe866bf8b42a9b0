"""Looks up partitions, offsets and sizes in the cluster for Spark's driver.

Sizes are estimated, for limits in bytes. Brokers report offsets but not bytes. The headers of the batches at a position
have both, so one fetch to each leader, of a few batches for each partition, is enough. A partition that cannot be
fetched is left out of the result.

State: the topics and partitions that were missing at the last look (:class:`OffsetReader`). The client belongs to the
caller. Each call runs to its end before the next one.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pyconsumer.errors import CorruptRecordError, KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.calls import Calls, await_update
from pyconsumer.network.futures import Steps, Wait
from pyconsumer.protocol.messages.fetch import FetchRequest, FetchResponse
from pyconsumer.protocol.records import scan
from pyconsumer.protocol.requests.fetch import FetchSettings, fetch_request, newest_version
from pyconsumer.spark.client_cache import SparkClient
from pyconsumer.spark.offsets_json import LATEST
from pyconsumer.spark.subscription import Assign, Subscribe, Subscription
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.consumer.network_client import ConsumerNetworkClient
    from pyconsumer.network.client import ClientResponse
    from pyconsumer.network.futures import RequestFuture
    from pyconsumer.network.metadata import Metadata


__all__ = [
    "ClusterOffsets",
    "OffsetReader",
    "bytes_per_offset_in",
    "sample",
]

_log = logging.getLogger("pyconsumer.spark")

T = TypeVar("T")

_LONGEST_SAMPLING_S: Final = 5.0


class ClusterOffsets(Protocol):
    """The interface by which planning gets facts about a cluster."""

    def partitions(self, subscription: Subscription, *, missing_ok: bool = False) -> list[TopicPartition]:
        """Return the partitions to read, sorted. With ``missing_ok``, partitions that do not exist are left out."""
        ...

    def offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return each partition's first offset at or after a time in ms (-1: the end, -2: the start).

        None if there is none.
        """
        ...

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offsets of a consumer group. Partitions without a committed offset are left out."""
        ...

    def bytes_per_offset(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """Return estimates of the bytes per offset, from each position on.

        Partitions without an estimate are left out.
        """
        ...


class OffsetReader:
    """Looks up partitions, offsets and sizes in the cluster.

    Args:
        spark_client: the client to use.
        attempts: the largest number of attempts, for a call that fails with a retriable error.
        retry_ms: the pause between two attempts.
        retry_timeouts: True also retries a call that timed out. So a stream survives an outage. A batch read passes
            False, so that it reports the outage soon.
        sleep: a function that waits for a number of seconds.
    """

    def __init__(
        self,
        spark_client: SparkClient,
        *,
        attempts: int = 3,
        retry_ms: int = 1_000,
        retry_timeouts: bool = False,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._missing: frozenset[TopicPartition | str] = frozenset()  # named in the options, and did not exist
        self._spark_client = spark_client
        self._client = spark_client.client
        self._metadata = spark_client.metadata
        self._config = spark_client.config
        self._attempts = attempts
        self._retry = retry_ms / 1000
        self._retry_timeouts = retry_timeouts
        self._sleep = sleep
        self._calls = Calls(
            self._client,
            self._metadata,
            self._client.clock,
            request_timeout=self._config.request_timeout_ms / 1000,
            backoff=Backoff.ms(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms),
        )

    def partitions(self, subscription: Subscription, *, missing_ok: bool = False) -> list[TopicPartition]:
        """Return the partitions to read, sorted. If a pattern matches no topic, the list is empty.

        Args:
            missing_ok: True leaves out topics and partitions that are missing at several attempts in a row.

        Raises:
            UnknownTopicOrPartitionError: a topic or partition named in the options does not exist.
            KafkaError: the cluster cannot be reached, or access to a topic was denied.
        """
        may_miss = self._missing if missing_ok else frozenset()
        try:
            return self._retried("looking up the topics", lambda until: self._partitions(subscription, may_miss))
        except UnknownTopicOrPartitionError:
            if not missing_ok:
                raise
        # All attempts, because a broker that has just started may not know a topic for a moment: left out now, it would
        # be read from its beginning when it is back.
        return self._retried("looking up the topics", lambda until: self._partitions(subscription, None))

    def offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Look up offsets by time (see :class:`ClusterOffsets`). With ``read_committed``, -1 is the last stable offset.

        Raises:
            KafkaError: a leader could not be reached in time, or the request was rejected.
        """
        if not timestamps:
            return {}
        return self._retried("looking up offsets", lambda until: self._offsets(timestamps, until))

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Look up committed offsets (see :class:`ClusterOffsets`).

        Raises:
            KafkaError: the group's coordinator could not be reached in time, or access was denied.
        """
        with self._spark_client.admin() as admin:
            found = admin.list_group_offsets(group_id, list(partitions))
        return {tp: committed.offset for tp, committed in found.items()}

    def bytes_per_offset(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """Estimate sizes from a sample of batches (see :class:`ClusterOffsets`).

        The result is empty if that takes too long.
        """
        deadline = self._client.clock.now() + min(self._config.request_timeout_ms / 1000, _LONGEST_SAMPLING_S)
        try:
            return self._client.run(sample(self._client, self._metadata, positions), deadline)
        except KafkaTimeoutError as error:
            _log.warning("could not estimate the size of records this time: %s", self._client.failures() or error)
            return {}

    def log_end(self, tp: TopicPartition) -> Steps[int]:
        """Return the end of a log. Records of open transactions are included.

        If the leader does not know the end yet, try again (KIP-207).
        """
        found = yield from self._calls.list_offsets({tp: LATEST}, math.inf, must_exist=True)
        end = found[tp]
        return end.offset if end is not None else 0

    def _offsets(
        self, timestamps: Mapping[TopicPartition, int], deadline: float
    ) -> Steps[dict[TopicPartition, int | None]]:
        level = int(self._config.read_committed)
        found = yield from self._calls.list_offsets(timestamps, deadline, isolation_level=level, must_exist=True)
        return {tp: None if at is None else at.offset for tp, at in found.items()}

    def _retried(self, what: str, steps: Callable[[float], Steps[T]]) -> T:
        """Run a call, again after retriable errors. ``what`` names it in messages."""
        attempt = 1
        while True:
            deadline = self._client.clock.now() + self._config.default_api_timeout_ms / 1000
            try:
                return self._client.run(steps(deadline), deadline)
            except KafkaTimeoutError as error:
                reason = self._client.failures() or str(error)
                servers = ",".join(map(str, self._config.bootstrap_servers))
                late = KafkaTimeoutError(
                    f"{what} at {servers} took longer than {self._config.default_api_timeout_ms} ms: {reason}"
                )
                if not self._retry_timeouts or attempt >= self._attempts:
                    raise late from error
                _log.warning("attempt %d of %d: %s", attempt, self._attempts, late)
            except KafkaError as error:
                if not error.retriable or attempt >= self._attempts:
                    raise
                _log.warning("%s failed, attempt %d of %d: %s", what, attempt, self._attempts, error)
            self._sleep(self._retry)
            attempt += 1

    # -- partitions --------------------------------------------------------------------------------------------------

    def _partitions(
        self, subscription: Subscription, may_miss: frozenset[TopicPartition | str] | None
    ) -> Steps[list[TopicPartition]]:
        """Return the partitions that exist. Those in ``may_miss`` may be missing. With None, any may."""
        metadata = self._metadata
        if isinstance(subscription, Assign):
            names = sorted({tp.topic for tp in subscription.partitions})
        elif isinstance(subscription, Subscribe):
            names = sorted(subscription.topics)
        else:
            metadata.set_all_topics()
            yield from await_update(metadata, self._client.clock)
            matches = subscription.matcher()
            names = [name for name in metadata.topics() if matches(name)]
            return [TopicPartition(name, p.partition) for name in names for p in metadata.partitions_for(name) or ()]
        metadata.set_topics(names)
        yield from await_update(metadata, self._client.clock)
        missing = [name for name in names if metadata.topic(name) is None]
        for name in missing:
            error = metadata.topic_error(name) or UnknownTopicOrPartitionError(name)
            known = may_miss is None or name in may_miss
            if not known or not isinstance(error, UnknownTopicOrPartitionError):
                raise error
        found = [TopicPartition(name, p.partition) for name in names for p in metadata.partitions_for(name) or ()]
        if isinstance(subscription, Subscribe):
            self._missing = frozenset(missing)
            return found
        absent = sorted(set(subscription.partitions) - set(found))
        self._missing = frozenset([*missing, *absent])
        if may_miss is None or may_miss.issuperset(absent):
            return sorted(set(subscription.partitions) - set(absent))
        if absent:
            count = metadata.partition_count(absent[0].topic)
            raise UnknownTopicOrPartitionError(
                f"{', '.join(map(str, absent))}: topic {absent[0].topic} has {count} partitions"
            )
        return sorted(subscription.partitions)


_SAMPLE_BYTES: Final = 65_536  # of each partition

_RESPONSE_BYTES: Final = 16 * 1024 * 1024

_MOST_ALONE: Final = 16  # partitions whose first batch is fetched by a request of its own

_HEAD: Final = Struct(">qiibIhi")  # base offset, length, leader epoch, magic, crc, attributes, last offset delta

_BYTES_BEFORE_LENGTH: Final = 12  # the length of a batch does not include the base offset and itself


def sample(
    client: ConsumerNetworkClient, metadata: Metadata, positions: Mapping[TopicPartition, int]
) -> Steps[dict[TopicPartition, float]]:
    """Return the bytes per offset at each position. Partitions that cannot be fetched are left out."""
    by_node: dict[int, dict[TopicPartition, int]] = {}
    for tp, position in positions.items():
        leader = metadata.leader(tp)
        if leader is not None and leader.leader >= 0:
            by_node.setdefault(leader.leader, {})[tp] = position
    found = yield from _fetch(client, metadata, list(by_node.items()))
    # A batch larger than the limit is returned only if it is the first of the response.
    missing = [(node, {tp: at}) for node, group in by_node.items() for tp, at in group.items() if tp not in found]
    return found | (yield from _fetch(client, metadata, missing[:_MOST_ALONE]))


def _fetch(
    client: ConsumerNetworkClient, metadata: Metadata, groups: list[tuple[int, dict[TopicPartition, int]]]
) -> Steps[dict[TopicPartition, float]]:
    sent = [(_send(client, metadata, node, group), group) for node, group in groups]
    found: dict[TopicPartition, float] = {}
    for future, group in sent:
        while not future.done:
            yield Wait(future, math.inf)
        if future.exception is not None:
            continue
        response = future.value.message
        assert isinstance(response, FetchResponse)
        names = {metadata.topic_id(tp.topic): tp.topic for tp in group}
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                bytes_each = bytes_per_offset_in(data.records or b"")
                if bytes_each is not None and not data.error_code:
                    found[TopicPartition(name, data.partition_index)] = bytes_each
    return found


def bytes_per_offset_in(records: bytes | bytearray | memoryview) -> float | None:
    """Return the bytes per offset of the batches in a fetch response. The last batch may be cut off."""
    try:
        batches = scan(records)
    except CorruptRecordError:  # the task that reads them will raise it
        return None
    if batches:
        offsets = batches[-1].next_offset - batches[0].base_offset
        return batches[-1].end_position / max(offsets, 1)
    if len(records) < _HEAD.size:
        return None
    _, length, _, magic, _, _, delta = _HEAD.unpack_from(records)
    return (length + _BYTES_BEFORE_LENGTH) / (delta + 1) if magic >= 2 and delta >= 0 else None


def _send(
    client: ConsumerNetworkClient, metadata: Metadata, node: int, positions: Mapping[TopicPartition, int]
) -> RequestFuture[ClientResponse]:
    ids = {tp: metadata.topic_id(tp.topic) for tp in positions}
    request = fetch_request(
        FetchSettings(0, 0, _RESPONSE_BYTES),
        ((tp, (ids[tp], position, _SAMPLE_BYTES, -1)) for tp, position in positions.items()),
    )
    return client.send(node, FetchRequest, request, max_version=newest_version(ids.values()))
