"""``KafkaAdminClient`` with kafka-python's methods and results, over :class:`pyconsumer.KafkaAdminClient`.

Results are dictionaries with the names of Kafka's protocol, as in kafka-python 3.x; methods that only 2.x has return
the same results as there. Methods that are not supported raise ``UnsupportedVersionError``, which names an alternative.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Final, Never, Self

import pyconsumer
from pyconsumer import admin as ours
from pyconsumer.clock import seconds_of
from pyconsumer.compat.kafka.admin import access_shapes, cluster_calls, shapes
from pyconsumer.compat.kafka.admin.acl_resource import ACL, ACLFilter
from pyconsumer.compat.kafka.admin.connections import ClientOfAdmin
from pyconsumer.compat.kafka.admin.types import (
    AbortTransactionSpec,
    AlterConfigOp,
    ConfigFilterType,
    ConfigResource,
    ConfigResourceType,
    IsolationLevel,
    MemberToRemove,
    NewPartitions,
    OffsetSpec,
    OffsetTimestamp,
    PartitionProducerState,
    TransactionDescription,
    TransactionListing,
)
from pyconsumer.compat.kafka.admin.users import UserScramCredentialDeletion, UserScramCredentialUpsertion
from pyconsumer.compat.kafka.border import border
from pyconsumer.compat.kafka.client_async import KafkaClient
from pyconsumer.compat.kafka.defaults import ADMIN_DEFAULTS
from pyconsumer.compat.kafka.errors import IllegalArgumentError, NoError
from pyconsumer.compat.kafka.settings import GivenConfig, connect, translate
from pyconsumer.compat.kafka.structs import GroupInformation
from pyconsumer.errors import (
    BrokerResponseError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    for_code,
)
from pyconsumer.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition, whole_number

__all__ = ["KafkaAdminClient"]

_DEFAULTS: Final[Mapping[str, Any]] = {
    "bootstrap_servers": "localhost:9092",
    "reconnect_backoff_max_ms": 30_000,
    "request_timeout_ms": 30_000,
}
_BOOTSTRAP_TIMEOUT_MS: Final = 30_000
_CHECK_INTERVAL_S: Final = 0.1
_HANGING_MARGIN_MS: Final = 300_000  # as in Kafka's own tool


@border.guard
class KafkaAdminClient:
    """An admin client for programs that were written for kafka-python.

    Args:
        configs: settings of kafka-python and of pyconsumer. If ``api_version`` is given, the constructor does not
            connect.

    Raises:
        NoBrokersAvailableError: no broker could be reached within ``bootstrap_timeout_ms`` (30 s).
        ConfigurationError: a setting is unknown, has a wrong value, or is not supported.

    Attributes:
        client: the wrapped :class:`pyconsumer.KafkaAdminClient`.
    """

    #: kafka-python's defaults by name.
    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = dict(ADMIN_DEFAULTS)

    def __init__(self, **configs: Any) -> None:
        given = dict(configs)
        bootstrap_ms = configs.pop("bootstrap_timeout_ms", _BOOTSTRAP_TIMEOUT_MS)
        self.client = cluster_calls.Client(translate(configs, defaults=_DEFAULTS, documented=ADMIN_DEFAULTS))
        self.config = GivenConfig(self.client.config, ADMIN_DEFAULTS, given)
        try:
            if configs.get("api_version") is None:
                connect(self.client.config, bootstrap_ms)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    @property
    def _client(self) -> KafkaClient:
        """The brokers that are known, for programs that read kafka-python's network client."""
        return ClientOfAdmin(self.client, self.client.metadata)

    _manager = _client  # its name in kafka-python 3.x

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- cluster and topics ------------------------------------------------------------------------------------------

    def describe_cluster(self) -> dict[str, Any]:
        """Return the brokers, the controller, the cluster's id and what the user may do with the cluster."""
        try:
            return shapes.cluster(self.client.describe_cluster(include_authorized_operations=True))
        except UnsupportedVersionError:  # before Apache Kafka 2.8
            return shapes.cluster(self.client.describe_cluster())

    def describe_features(self, send_request_to_controller: bool = False) -> dict[str, dict[str, Any]]:
        """Return the features of the cluster by name (KIP-584).

        Args:
            send_request_to_controller: True asks the controller. False asks any broker.

        Returns:
            ``supported`` (first and last level) of each feature. For a finalized feature also ``finalized`` and
            ``finalized_epoch``.
        """
        found = self.client.run(partial(cluster_calls.versions, of_controller=send_request_to_controller))
        return shapes.features(found)

    def api_versions(self) -> dict[int, tuple[int, int]]:
        """Return the first and last version of each API that a broker supports, by API key."""
        found = self.client.run(cluster_calls.versions)
        return {shapes.api_key(each.api_key): (each.min_version, each.max_version) for each in found.api_keys}

    def describe_log_dirs(
        self,
        topic_partitions: Mapping[str, Iterable[int]] | Iterable[str] | None = None,
        brokers: Iterable[int] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the folders of the brokers' logs with their disks and the sizes of the replicas.

        Args:
            topic_partitions: partition numbers by topic, or names of topics. By default all.
            brokers: ids of brokers. By default all.

        Returns:
            ``broker`` and ``log_dirs`` for each broker.
        """
        wanted = self._partitions_of(topic_partitions)
        if brokers is None:
            brokers = [broker.node_id for broker in self.client.describe_cluster().brokers]
        found = []
        for node in brokers:
            dirs = self.client.run(partial(cluster_calls.log_dirs, broker=node, partitions=wanted))
            found.append({"broker": node, "log_dirs": [shapes.log_dir(each) for each in dirs]})
        return found

    def elect_leaders(
        self,
        election_type: int,
        topic_partitions: Mapping[str, Iterable[int]] | Iterable[str] | None = None,
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> shapes.Response:
        """Elect leaders of partitions (KIP-460).

        Args:
            election_type: 0 elects the preferred leaders. 1 elects any replica of a partition without a leader, which
                may lose records.
            topic_partitions: partition numbers by topic, or names of topics. By default all.

        Returns:
            ``replica_election_results``: for each topic the number, error code and message of its partitions. The code
                is 84 if a partition needs no election.

        Raises:
            KafkaError: the first error, unless ``raise_errors`` is False. The code 84 does not count as an error.
            ValueError: ``election_type`` is not 0 or 1.
        """
        if election_type not in (0, 1):
            raise ValueError(f"election_type is 0 (preferred) or 1 (unclean), not {election_type!r}")
        wanted = self._partitions_of(topic_partitions)
        time_ms = self.client.config.request_timeout_ms if timeout_ms is None else timeout_ms
        found = self.client.run(
            partial(
                cluster_calls.elect_leaders,
                election_type=int(election_type),
                partitions=wanted,
                timeout_ms=time_ms,
            )
        )
        response = shapes.elected(found)
        error = cluster_calls.first_error(response.replica_election_results) if raise_errors else None
        if error is not None:
            raise error
        return response

    perform_leader_election = elect_leaders  # kafka-python 2.x

    def list_partition_reassignments(
        self,
        topic_partitions: Mapping[str, Iterable[int]] | Iterable[TopicPartition] | None = None,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, dict[str, list[int]]]:
        """Return the partitions whose replicas are being moved (KIP-455).

        Args:
            topic_partitions: partitions, or partition numbers by topic. By default all.

        Returns:
            ``replicas``, ``adding_replicas`` and ``removing_replicas`` for each partition that is being moved.
        """
        wanted: dict[str, list[int]] | None = None
        if isinstance(topic_partitions, Mapping):
            wanted = {topic: list(numbers) for topic, numbers in topic_partitions.items()}
        elif topic_partitions is not None:
            wanted = {}
            for topic, number in topic_partitions:
                wanted.setdefault(topic, []).append(number)
        time_ms = self.client.config.request_timeout_ms if timeout_ms is None else timeout_ms
        found = self.client.run(partial(cluster_calls.reassignments, partitions=wanted, timeout_ms=time_ms))
        return {
            TopicPartition(topic.name, each.partition_index): shapes.reassignment(each)
            for topic in found
            for each in topic.partitions
        }

    def _partitions_of(self, given: Mapping[str, Iterable[int]] | Iterable[str] | None) -> dict[str, list[int]]:
        if isinstance(given, Mapping):
            return {topic: list(numbers) for topic, numbers in given.items()}
        return {
            topic["name"]: [each["partition_index"] for each in topic["partitions"]]
            for topic in self.describe_topics(given)
        }

    def list_topics(self) -> list[str]:
        """Return the names of all topics, including Kafka's own."""
        return self.client.list_topics(include_internal=True)

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Return partitions, leaders and replicas of topics. A topic that does not exist has ``error_code`` 3."""
        if topics is None:
            return list(map(shapes.topic, self.client.describe_topics(include_authorized_operations=True)))
        described: list[dict[str, Any]] = []
        for name in topics:
            try:
                described += map(shapes.topic, self.client.describe_topics([name], include_authorized_operations=True))
            except UnknownTopicOrPartitionError as error:
                described.append(shapes.missing_topic(name, error.errno))
        return described

    def describe_topic_partitions(
        self, topics: Iterable[str], response_partition_limit: int = 2000, cursor: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return one page of the partitions of topics. It has ``topics`` and ``next_cursor`` (None on the last page).

        Args:
            response_partition_limit: the largest number of partitions on a page.
            cursor: the ``next_cursor`` of the previous page. None for the first page.
        """
        return shapes.page(self.describe_topics(sorted(set(topics))), response_partition_limit, cursor)

    def create_topics(
        self,
        new_topics: Iterable[Any] | Mapping[str, Mapping[str, Any]],
        timeout_ms: int | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
        wait_for_metadata: bool = False,
    ) -> shapes.Response:
        """Create topics.

        Args:
            new_topics: names, :class:`NewTopic` objects, or a mapping from names to options. The options are
                ``num_partitions``, ``replication_factor``, ``assignments`` and ``configs``.
            wait_for_metadata: True waits until every partition has a leader.

        Raises:
            KafkaError: the first error, unless ``raise_errors`` is False.
            ValueError: no topic is given, or both ``validate_only`` and ``wait_for_metadata`` are True.
        """
        if validate_only and wait_for_metadata:
            raise ValueError("wait_for_metadata cannot be used with validate_only, which creates no topic")
        wanted = _new_topics(new_topics)
        outcome = self.client.create_topics(
            wanted, validate_only=validate_only, raise_errors=raise_errors, timeout_ms=timeout_ms
        )
        if wait_for_metadata:
            self.wait_for_topics([topic.name for topic in wanted])
        return shapes.created(wanted, outcome)

    def wait_for_topics(self, topic_names: Iterable[str], timeout_ms: float = 10_000) -> None:
        """Wait until every partition of topics has a leader.

        Raises:
            KafkaTimeoutError: a partition has no leader after ``timeout_ms``.
        """
        names = list(topic_names)
        deadline = time.monotonic() + seconds_of(timeout_ms)
        while waiting := [topic["name"] for topic in self.describe_topics(names) if not shapes.is_ready(topic)]:
            if time.monotonic() >= deadline:
                raise KafkaTimeoutError(f"topics without leaders after {timeout_ms:g} ms: {', '.join(waiting)}")
            time.sleep(_CHECK_INTERVAL_S)

    def delete_topics(
        self, topics: Iterable[str], timeout_ms: int | None = None, raise_errors: bool = True
    ) -> shapes.Response:
        """Delete topics.

        Raises:
            KafkaError: the first error, unless ``raise_errors`` is False.
        """
        outcome = self.client.delete_topics(list(topics), raise_errors=raise_errors, timeout_ms=timeout_ms)
        return shapes.deleted(outcome)

    def create_partitions(
        self,
        topic_partitions: Mapping[str, Any],
        timeout_ms: int | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> shapes.Response:
        """Increase the number of partitions.

        Args:
            topic_partitions: for each topic the total number of partitions, a :class:`NewPartitions`, or a mapping with
                ``count`` and ``assignments``.

        Raises:
            KafkaError: the first error, unless ``raise_errors`` is False.
        """
        outcome = self.client.create_partitions(
            {name: _new_partitions(given) for name, given in topic_partitions.items()},
            validate_only=validate_only,
            raise_errors=raise_errors,
            timeout_ms=timeout_ms,
        )
        return shapes.Response(results=[(name, *shapes.code(error)) for name, error in outcome.items()])

    def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, int],
        timeout_ms: int | None = None,
        partition_leader_id: int | None = None,
    ) -> dict[TopicPartition, dict[str, int]]:
        """Delete the records before an offset (-1: all records). ``partition_leader_id`` has no effect."""
        self._known(records_to_delete)
        left = self.client.delete_records(records_to_delete, timeout_ms=timeout_ms)
        return {
            tp: {"low_watermark": offset, "error_code": 0, "partition_index": tp.partition}
            for tp, offset in left.items()
        }

    def _known(self, partitions: Iterable[TopicPartition]) -> None:
        """Check that partitions exist, as kafka-python does, instead of waiting for them.

        Raises:
            UnknownTopicOrPartitionError: one does not.
        """
        topics = {topic["name"]: topic for topic in self.describe_topics(sorted({tp.topic for tp in partitions}))}
        unknown = [
            tp
            for tp in partitions
            if tp.partition not in {found["partition_index"] for found in topics[tp.topic]["partitions"]}
        ]
        if unknown:
            raise UnknownTopicOrPartitionError(f"these partitions do not exist: {', '.join(map(str, unknown))}")

    def list_partition_offsets(
        self,
        topic_partition_specs: Mapping[TopicPartition, OffsetSpec | int],
        isolation_level: Any = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return an offset of each partition: the first, the last, or the first at or after a time.

        -1 if there is none.
        """
        found = self.client.list_offsets(
            {tp: _spec(given) for tp, given in topic_partition_specs.items()},
            isolation_level=IsolationLevel.build_from(isolation_level).name.lower(),
            timeout_ms=timeout_ms,
        )
        return {tp: OffsetAndTimestamp(-1, -1) if offset is None else offset for tp, offset in found.items()}

    # -- settings ----------------------------------------------------------------------------------------------------

    def describe_configs(
        self,
        config_resources: Iterable[ConfigResource],
        include_synonyms: bool = False,
        config_filter: Any = "modified",
    ) -> dict[str, dict[str, dict[str, Any]]]:
        """Return settings, by type of resource, name of resource and name of setting.

        Args:
            include_synonyms: also return the places that a value may come from.
            config_filter: the settings to return: ``modified`` (no defaults), ``dynamic``, ``default``, ``static`` or
                ``all``.
        """
        wanted = ConfigFilterType.build_from(config_filter)
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for resource in config_resources:
            entries = self._entries(resource, synonyms=include_synonyms)
            kept = {name: shapes.setting(entry) for name, entry in entries.items() if shapes.is_wanted(entry, wanted)}
            found.setdefault(resource.resource_type.name.lower(), {})[str(resource.name)] = kept
        return found

    def list_config_resources(self, resource_types: Iterable[Any] | None = None) -> dict[str, list[str]]:
        """Return the names of topics and brokers, by type of resource. Other types of resources are not listed."""
        wanted = {str(getattr(each, "name", each)).upper() for each in resource_types or ("TOPIC", "BROKER")}
        found: dict[str, list[str]] = {}
        if "TOPIC" in wanted:
            found["topic"] = self.list_topics()
        if "BROKER" in wanted:
            found["broker"] = [str(broker.node_id) for broker in self.client.describe_cluster().brokers]
        return found

    def _entries(self, resource: ConfigResource, *, synonyms: bool = False) -> dict[str, ours.ConfigEntry]:
        target = _resource(resource)
        entries = self.client.describe_configs([target], include_synonyms=synonyms)[target]
        if resource.configs is None:
            return entries
        return {name: entry for name, entry in entries.items() if name in resource.configs}

    def alter_configs(
        self,
        config_resources: Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> dict[str, dict[str, str]]:
        """Change the given settings, and no others.

        Args:
            config_resources: resources with values, or with pairs of an :class:`AlterConfigOp` (``SET`` or ``DELETE``)
                and a value.
            raise_on_unknown: True raises ValueError for a setting that the resource does not have.
            incremental: True or None.

        Returns:
            ``"OK"`` or an error message, by type and name of resource.

        Raises:
            ValueError: a setting is unknown, an operation is not supported, or ``incremental`` is False.
        """
        if incremental is False:
            raise ValueError(
                "incremental=False, which would reset all other settings, is not supported: changes are always"
                " incremental (KIP-339)"
            )
        found: dict[str, dict[str, str]] = {}
        for resource in config_resources:
            if not isinstance(resource.configs, Mapping):
                raise TypeError("configs must be a mapping of names of settings to values")
            changes = {name: _change(name, given) for name, given in resource.configs.items()}
            if raise_on_unknown:
                self._refuse_unknown(resource)
            shapes.add_outcome(found, resource, self._alter(resource, changes, validate_only))
        return found

    def reset_configs(
        self,
        config_resources: Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> dict[str, dict[str, str]]:
        """Reset settings to their defaults: the given ones, or all modified ones. See :meth:`alter_configs`."""
        found: dict[str, dict[str, str]] = {}
        for resource in config_resources:
            if raise_on_unknown:
                self._refuse_unknown(resource)
            names: Iterable[str] = resource.configs or [
                name
                for name, entry in self._entries(ConfigResource(resource.resource_type, resource.name)).items()
                if shapes.is_wanted(entry, ConfigFilterType.MODIFIED)
            ]
            shapes.add_outcome(found, resource, self._alter(resource, dict.fromkeys(names), validate_only))
        return found

    def _refuse_unknown(self, resource: ConfigResource) -> None:
        known = self._entries(ConfigResource(resource.resource_type, resource.name))
        unknown = sorted(set(resource.configs or ()) - {name for name, entry in known.items() if not entry.read_only})
        if unknown:
            raise ValueError(f"{resource.resource_type.name.lower()} {resource.name} has no setting {unknown[0]!r}")

    def _alter(self, resource: ConfigResource, changes: Mapping[str, str | None], validate_only: bool) -> str:
        try:
            if changes:
                self.client.alter_configs({_resource(resource): changes}, validate_only=validate_only)
        except BrokerResponseError as error:
            return str(border.crossed(error))
        return "OK"

    # -- groups ------------------------------------------------------------------------------------------------------

    def list_groups(
        self,
        broker_ids: Iterable[int] | None = None,
        states_filter: Iterable[Any] | None = None,
        types_filter: Iterable[Any] | None = None,
    ) -> list[dict[str, str]]:
        """Return all groups, or only those of some coordinators, states and types."""
        found = self.client.list_groups(
            states=shapes.states(states_filter or ()), types=shapes.types(types_filter or ())
        )
        brokers = None if broker_ids is None else set(broker_ids)
        return [shapes.listing(group) for group in found if brokers is None or group.coordinator_id in brokers]

    def describe_groups(
        self,
        group_ids: Iterable[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> dict[str, dict[str, Any]]:
        """Return groups and their members, by group id. A group that does not exist is ``Dead``.

        Args:
            include_authorized_operations: has no effect. The operations are always in the result, as in kafka-python.
        """
        found = {}
        for group_id in group_ids:
            try:
                described = self.client.describe_groups([group_id], include_authorized_operations=True)
                found[group_id] = shapes.group(described[group_id])
            except GroupIdNotFoundError:
                found[group_id] = shapes.dead_group(group_id)
        return found

    def delete_groups(self, group_ids: Iterable[str], group_coordinator_id: int | None = None) -> dict[str, str]:
        """Delete groups that have no members. Return for each group ``"OK"`` or the name of the error."""
        outcome = self.client.delete_groups(list(group_ids), raise_errors=False)
        return {group: "OK" if error is None else border.kind(error).__name__ for group, error in outcome.items()}

    def list_group_offsets(self, group_specs: Any) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return committed offsets by group.

        Args:
            group_specs: a group, several groups, or a mapping from groups to partitions. None means all partitions with
                a committed offset.
        """
        if isinstance(group_specs, str):
            group_specs = [group_specs]
        if not isinstance(group_specs, Mapping):
            group_specs = dict.fromkeys(group_specs)
        if not group_specs:
            raise ValueError("no group was given")
        return {group: self.list_consumer_group_offsets(group, None, wanted) for group, wanted in group_specs.items()}

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group_coordinator_id: int | None = None,
    ) -> dict[TopicPartition, type[KafkaError]]:
        """Set the committed offsets of a group that has no members. Return the error class for each partition."""
        if not offsets:
            return {}
        outcome: type[KafkaError] = NoError
        try:
            self.client.alter_group_offsets(group_id, {tp: _epoch_known(offset) for tp, offset in offsets.items()})
        except BrokerResponseError as error:
            outcome = border.kind(error)
        return dict.fromkeys(offsets, outcome)

    def reset_group_offsets(
        self, group_id: str, offset_specs: Mapping[TopicPartition, Any], group_coordinator_id: int | None = None
    ) -> dict[TopicPartition, dict[str, Any]]:
        """Set the committed offsets of a group that has no members.

        If an offset is outside the log, the nearest end of the log is used.

        Args:
            offset_specs: an offset, :class:`OffsetSpec` or :class:`OffsetTimestamp` for each partition.

        Returns:
            ``error`` (an error class) and ``offset`` for each partition.
        """
        for tp, given in offset_specs.items():
            if whole_number(given) is None:
                raise TypeError(f"{tp}: {given!r} must be an offset, an OffsetSpec or an OffsetTimestamp")
        first = self.client.list_offsets(dict.fromkeys(offset_specs, ours.OffsetSpec.EARLIEST))
        last = self.client.list_offsets(dict.fromkeys(offset_specs, ours.OffsetSpec.LATEST))
        specs = {tp: given for tp, given in offset_specs.items() if isinstance(given, OffsetSpec | OffsetTimestamp)}
        found = self.list_partition_offsets(specs) if specs else {}
        chosen = {}
        for tp, given in offset_specs.items():
            low, high = first[tp], last[tp]
            assert low is not None
            assert high is not None
            offset = found[tp].offset if tp in found else int(given)
            chosen[tp] = high.offset if offset < 0 else min(max(offset, low.offset), high.offset)
        now = self.list_consumer_group_offsets(group_id)
        outcome = self.alter_group_offsets(
            group_id,
            {tp: now.get(tp, OffsetAndMetadata(0))._replace(offset=offset) for tp, offset in chosen.items()},
        )
        return {tp: {"error": outcome[tp], "offset": offset} for tp, offset in chosen.items()}

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], group_coordinator_id: int | None = None
    ) -> dict[TopicPartition, type[KafkaError]]:
        """Delete the committed offsets of a group for the given partitions.

        Return the error class for each partition.
        """
        wanted = list(partitions)
        outcome: type[KafkaError] = NoError
        try:
            if wanted:
                self.client.delete_group_offsets(group_id, wanted)
        except GroupSubscribedToTopicError as error:
            outcome = border.kind(error)
        return dict.fromkeys(wanted, outcome)

    def remove_group_members(
        self, group_id: str, members: Iterable[MemberToRemove], group_coordinator_id: int | None = None
    ) -> dict[str | None, type[KafkaError]]:
        """Remove members from a group, so that the other members get their partitions at once (KIP-345).

        If a removed member is still running, it joins again.

        Returns:
            The error class for each member, by its member id. If it has none, by its instance id.
        """
        wanted = list(members)
        if not wanted:
            return {}
        found = self.client.run(partial(cluster_calls.remove_members, group_id=group_id, members=wanted))
        return {name: border.kind(for_code(code)) if code else NoError for name, code in found.items()}

    # -- groups, by the names of kafka-python 2.x --------------------------------------------------------------------

    def list_consumer_groups(self, broker_ids: Iterable[int] | None = None) -> list[tuple[str, str]]:
        """Return pairs of group id and protocol type, as in kafka-python 2.x."""
        return [(group["group_id"], group["protocol_type"]) for group in self.list_groups(broker_ids)]

    def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> list[GroupInformation]:
        """Return groups as tuples, as in kafka-python 2.x.

        Args:
            include_authorized_operations: also return the names of the operations that the user may do.
        """
        groups = [shapes.old_group(group) for group in self.describe_groups(group_ids).values()]
        return (
            groups if include_authorized_operations else [each._replace(authorized_operations=None) for each in groups]
        )

    def list_consumer_group_offsets(
        self,
        group_id: str,
        group_coordinator_id: int | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group. -1 for a requested partition that has none."""
        wanted = None if partitions is None else [TopicPartition(*tp) for tp in partitions]
        found = self.client.list_group_offsets(group_id, wanted)
        return {**dict.fromkeys(wanted or (), OffsetAndMetadata(-1)), **found}

    def delete_consumer_groups(
        self, group_ids: Iterable[str], group_coordinator_id: int | None = None
    ) -> list[tuple[str, type[KafkaError]]]:
        """Delete groups. Return pairs of group id and error class, as in kafka-python 2.x."""
        outcome = self.client.delete_groups(list(group_ids), raise_errors=False)
        return [(group, NoError if error is None else border.kind(error)) for group, error in outcome.items()]

    # -- transactions ------------------------------------------------------------------------------------------------

    def list_transactions(
        self,
        broker_ids: Iterable[int] | None = None,
        producer_id_filters: Iterable[int] | None = None,
        state_filters: Iterable[Any] | None = None,
        duration_filter_ms: int | None = None,
        transactional_id_pattern: str | None = None,
    ) -> dict[int, list[TransactionListing]]:
        """Return the transactional ids that each broker coordinates."""
        found = self.client.list_transactions(
            states=shapes.transaction_states(state_filters or ()),
            producer_ids=producer_id_filters or (),
            min_duration_ms=duration_filter_ms,
            pattern=transactional_id_pattern,
        )
        if broker_ids is None:
            broker_ids = [broker.node_id for broker in self.client.describe_cluster().brokers]
        return {
            broker: [shapes.transaction_listing(each) for each in found if each.coordinator_id == broker]
            for broker in broker_ids
        }

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Return state, producer and partitions of transactions."""
        found = self.client.describe_transactions(list(transactional_ids))
        return {name: shapes.transaction(described) for name, described in found.items()}

    def create_acls(self, acls: Iterable[ACL]) -> dict[str, list[Any]]:
        """Create rules. Return ``succeeded`` with the rules and ``failed`` with the classes of errors.

        Raises:
            IllegalArgumentError: one of them is not an :class:`ACL`.
        """
        wanted = _checked(acls, ACL, "acls must contain ACL objects")
        outcome = self.client.create_acls([access_shapes.binding(acl) for acl in wanted], raise_errors=False)
        found: dict[str, list[Any]] = {"succeeded": [], "failed": []}
        for acl in wanted:
            error = outcome[access_shapes.binding(acl)]
            if error is None:
                found["succeeded"].append(acl)
            else:
                found["failed"].append(access_shapes.code_class(error))
        return found

    def describe_acls(self, acl_filter: ACLFilter) -> tuple[list[ACL], type[Any]]:
        """Return the rules that a filter selects, and ``NoError``."""
        found = self.client.describe_acls(access_shapes.filter_of(acl_filter))
        return [access_shapes.acl(one) for one in found], NoError

    def delete_acls(self, acl_filters: Iterable[ACLFilter]) -> list[tuple[ACLFilter, list[ACL], type[Any]]]:
        """Delete the rules that filters select. Return for each filter: the filter, the rules, the error's class.

        Raises:
            IllegalArgumentError: one of them is not an :class:`ACLFilter`.
        """
        wanted = _checked(acl_filters, ACLFilter, "acl_filters must contain ACLFilter type objects")
        outcome = self.client.delete_acls([access_shapes.filter_of(one) for one in wanted], raise_errors=False)
        found = []
        for one in wanted:
            deletion = outcome[access_shapes.filter_of(one)]
            acls = [access_shapes.acl(acl) for acl in deletion.acls]
            found.append((one, acls, access_shapes.code_class(deletion.error)))
        return found

    def alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialDeletion | UserScramCredentialUpsertion]
    ) -> dict[str, str | None]:
        """Set and delete SCRAM credentials. Return the text of each user's error, or None.

        Raises:
            IllegalArgumentError: one of them has another type.
        """
        kinds = (UserScramCredentialDeletion, UserScramCredentialUpsertion)
        text = "alterations must be UserScramCredentialDeletion or UserScramCredentialUpsertion"
        wanted = [one.to_ours() for one in _checked(alterations, kinds, text)]
        outcome = self.client.alter_user_scram_credentials(wanted, raise_errors=False)
        return {user: access_shapes.message(error) for user, error in outcome.items()}

    def describe_user_scram_credentials(self, users: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        """Return ``error`` and ``credential_infos`` of users. Without names, of all users."""
        names = None if users is None else list(users)
        return access_shapes.users(self.client.describe_user_scram_credentials(names, raise_errors=False))

    def describe_producers(
        self, partitions: Iterable[TopicPartition], broker_id: int | None = None
    ) -> dict[TopicPartition, PartitionProducerState]:
        """Return the active producers of partitions, as the leaders know them. ``broker_id`` has no effect."""
        found = self.client.describe_producers(partitions)
        return {tp: PartitionProducerState([shapes.producer(each) for each in states]) for tp, states in found.items()}

    def abort_transaction(self, spec: AbortTransactionSpec) -> None:
        """Abort the open transaction of a producer in a partition.

        Raises:
            InvalidTxnStateError: the producer has no open transaction in this partition.
        """
        tp = spec.topic_partition
        for state in self.client.describe_producers([tp])[tp]:
            if state.producer_id == spec.producer_id and state.transaction_start_offset is not None:
                self.client.abort_transaction(tp, state.transaction_start_offset)
                return
        raise pyconsumer.errors.InvalidTxnStateError(f"producer {spec.producer_id} has no open transaction in {tp}")

    def find_hanging_transactions(
        self, broker_ids: Iterable[int] | None = None, max_transaction_timeout_ms: int = 900_000
    ) -> list[dict[str, Any]]:
        """Return transactions that have been open for five minutes longer than the brokers allow."""
        names = sorted(
            {each.transactional_id for found in self.list_transactions(broker_ids).values() for each in found}
        )
        now_ms = time.time() * 1000
        return [
            shapes.hanging(name, found, now_ms)
            for name, found in self.describe_transactions(names).items()
            if found.transaction_start_time_ms >= 0
            and now_ms - found.transaction_start_time_ms >= max_transaction_timeout_ms + _HANGING_MARGIN_MS
        ]


def _unsupported(name: str, instead: str) -> Any:
    def call(self: KafkaAdminClient, *args: Any, **kwargs: Any) -> Never:
        raise border.crossed(UnsupportedVersionError(f"{name}() is not available in pyconsumer: {instead}"))

    call.__name__ = name
    call.__doc__ = f"Raise ``UnsupportedVersionError``: {instead}."
    return call


#: Methods that are not supported, with an alternative.
UNSUPPORTED: Final = {
    "alter_partition_reassignments": "use kafka-reassign-partitions.sh",
    "alter_replica_log_dirs": "use kafka-reassign-partitions.sh",
    "describe_metadata_quorum": "use kafka-metadata-quorum.sh",
    "get_broker_version_data": "use api_versions()",
    "send_request": "your own requests cannot be sent; call the method of this client for what you need",
    "send_requests": "your own requests cannot be sent; call the method of this client for what you need",
    "update_features": "use kafka-features.sh",
}
for _name, _instead in UNSUPPORTED.items():
    setattr(KafkaAdminClient, _name, _unsupported(_name, _instead))


def _checked(given: Iterable[Any], kind: Any, text: str) -> list[Any]:
    found = list(given)
    if not all(isinstance(one, kind) for one in found):
        raise border.crossed(IllegalArgumentError(text))
    return found


def _new_topics(given: Any) -> list[ours.NewTopic]:
    if isinstance(given, Mapping):
        found = [
            ours.NewTopic(
                name,
                options.get("num_partitions", -1),
                options.get("replication_factor", -1),
                options.get("assignments") or {},
                options.get("configs") or {},
            )
            for name, options in given.items()
        ]
    else:
        found = [
            ours.NewTopic(topic)
            if isinstance(topic, str)
            else ours.NewTopic(
                topic.name,
                topic.num_partitions,
                topic.replication_factor,
                topic.replica_assignments,
                topic.topic_configs,
            )
            for topic in given
        ]
    if not found:
        raise ValueError("no topic was given")
    return found


def _new_partitions(given: int | Mapping[str, Any] | NewPartitions) -> int | ours.NewPartitions:
    if isinstance(given, NewPartitions):
        return ours.NewPartitions(given.total_count, given.new_assignments)
    if isinstance(given, Mapping):
        return ours.NewPartitions(given["count"], given.get("assignments"))
    number = whole_number(given)
    if number is None:
        raise TypeError(f"{given!r} must be a number of partitions or a NewPartitions")
    return number


def _spec(given: Any) -> ours.OffsetSpec | int:
    number = whole_number(given)
    if number is None:
        raise TypeError(f"{given!r} must be a time in ms or an OffsetSpec")
    return ours.OffsetSpec(number) if number < 0 else number


def _resource(resource: ConfigResource) -> ours.ConfigResource:
    if resource.resource_type is ConfigResourceType.BROKER and not str(resource.name).isdecimal():
        raise ValueError(f"the name of a broker must be its id, a number, not {resource.name!r}")
    return ours.ConfigResource(ours.ConfigResourceType(resource.resource_type), str(resource.name))


def _change(name: str, given: Any) -> str | None:
    operation, value = given if isinstance(given, tuple) else (AlterConfigOp.SET, given)
    if isinstance(operation, str):
        operation = AlterConfigOp[operation.upper()]
    if operation == AlterConfigOp.DELETE:
        return None
    if operation != AlterConfigOp.SET:
        raise ValueError(f"{name}: only SET and DELETE are supported. Read the value, change it, and SET it")
    return None if value is None else str(value)


def _epoch_known(offset: Any) -> OffsetAndMetadata:
    number, metadata, epoch = (*offset, "", -1)[:3] if isinstance(offset, tuple) else (offset, "", -1)
    return OffsetAndMetadata(number, metadata or "", -1 if epoch is None else epoch)
