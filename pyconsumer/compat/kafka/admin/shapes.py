"""Conversion of pyconsumer's results into kafka-python's dictionaries and tuples."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64decode
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pyconsumer import admin as ours
from pyconsumer.acls import AclOperation
from pyconsumer.compat.error_classes import text_of
from pyconsumer.compat.kafka.admin.cluster_calls import PartitionResult, ReplicaElectionResult
from pyconsumer.compat.kafka.admin.types import (
    ConfigFilterType,
    ConfigResource,
    ConfigSourceType,
    ConfigType,
    GroupState,
    GroupType,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from pyconsumer.compat.kafka.border import border
from pyconsumer.compat.kafka.structs import GroupInformation, MemberInformation
from pyconsumer.errors import BrokerResponseError, KafkaError
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.api_versions import ApiVersionsResponse
from pyconsumer.protocol.messages.describe_log_dirs import DescribeLogDirsResult
from pyconsumer.protocol.messages.elect_leaders import ElectLeadersResponse
from pyconsumer.protocol.messages.list_partition_reassignments import OngoingPartitionReassignment
from pyconsumer.protocol.primitives import Struct

__all__ = [
    "Response",
    "add_outcome",
    "api_key",
    "cluster",
    "code",
    "created",
    "dead_group",
    "deleted",
    "elected",
    "features",
    "group",
    "hanging",
    "is_ready",
    "is_wanted",
    "listing",
    "log_dir",
    "missing_topic",
    "old_group",
    "page",
    "producer",
    "reassignment",
    "setting",
    "states",
    "topic",
    "transaction",
    "transaction_listing",
    "transaction_states",
    "types",
]


class Response(dict[str, Any]):
    """A response: a dictionary as in kafka-python 3.x. Its entries are also attributes, as in 2.x."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the response has no {name!r}. It has {', '.join(self)}") from None

    @property
    def topic_errors(self) -> list[tuple[str, int, str | None]]:
        """The name, error code and message of each topic, as in kafka-python 2.x."""
        return [(each["name"], each["error_code"], each["error_message"]) for each in self["topics"]]

    @property
    def topic_error_codes(self) -> list[tuple[str, int]]:
        """The name and error code of each topic, as in kafka-python 2.x."""
        return [(each["name"], each["error_code"]) for each in self["topics"]]


def code(error: KafkaError | None) -> tuple[int, str | None]:
    """Return the code and the message of an error. The code is 0 for success."""
    if error is None:
        return 0, None
    return (error.errno if isinstance(error, BrokerResponseError) else -1), text_of(border.crossed(error))


# -- cluster and topics ----------------------------------------------------------------------------------------------


def cluster(found: ours.ClusterDescription) -> dict[str, Any]:
    """Return the brokers, the controller and the id of a cluster."""
    brokers = [
        {
            "broker_id": each.node_id,
            "node_id": each.node_id,
            "host": each.host,
            "port": each.port,
            "rack": each.rack,
            "is_fenced": False,
        }
        for each in found.brokers
    ]
    return {
        "cluster_id": found.cluster_id,
        "controller_id": found.controller_id,
        "brokers": brokers,
        "authorized_operations": _operations(found.authorized_operations),
    }


def _operations(found: Collection[AclOperation] | None) -> list[str] | None:
    """Return the names of operations in Kafka's order."""
    return None if found is None else [each.name for each in sorted(found)]


def features(found: ApiVersionsResponse) -> dict[str, dict[str, Any]]:
    """Return the levels of features that are supported and finalized, by name."""
    shown: dict[str, dict[str, Any]] = {}
    for each in found.supported_features:
        shown.setdefault(each.name, {})["supported"] = (each.min_version, each.max_version)
    epoch = found.finalized_features_epoch if found.finalized_features_epoch >= 0 else None
    for level in found.finalized_features:
        feature = shown.setdefault(level.name, {})
        feature["finalized"] = (level.min_version_level, level.max_version_level)
        feature["finalized_epoch"] = epoch
    return shown


def api_key(number: int) -> int:
    """Return an API key together with its name, if the name is known."""
    try:
        return ApiKey(number)
    except ValueError:
        return number


def log_dir(found: DescribeLogDirsResult) -> dict[str, Any]:
    """Return a folder of logs."""
    return _plain(found)


def _plain(found: Struct) -> dict[str, Any]:
    """Return the fields of a structure as a dictionary."""
    values = {field.name: getattr(found, field.name) for field in found.FIELDS}
    return {
        name: [_plain(each) if isinstance(each, Struct) else each for each in value]
        if isinstance(value, list)
        else value
        for name, value in values.items()
    }


def reassignment(found: OngoingPartitionReassignment) -> dict[str, list[int]]:
    """Return the replicas of a partition that is being moved, but not the partition's number."""
    return {name: numbers for name, numbers in _plain(found).items() if name != "partition_index"}


def elected(found: ElectLeadersResponse) -> Response:
    """Return the outcomes of elections."""
    results = [
        ReplicaElectionResult(
            topic.topic,
            [
                PartitionResult(each.partition_id, each.error_code, each.error_message)
                for each in topic.partition_result
            ],
        )
        for topic in found.replica_election_results
    ]
    return Response(
        throttle_time_ms=found.throttle_time_ms, error_code=found.error_code, replica_election_results=results
    )


def topic(found: ours.TopicDescription) -> dict[str, Any]:
    """Return a topic with the keys of kafka-python 3.x and those of 2.x."""
    partitions = [
        {
            "error_code": each.error_code,
            "partition_index": each.partition,
            "partition": each.partition,
            "leader_id": each.leader,
            "leader": each.leader,
            "leader_epoch": each.leader_epoch,
            "replica_nodes": list(each.replicas),
            "replicas": list(each.replicas),
            "isr_nodes": list(each.isr),
            "isr": list(each.isr),
            "offline_replicas": list(each.offline_replicas),
        }
        for each in found.partitions
    ]
    return {
        "error_code": 0,
        "name": found.name,
        "topic": found.name,
        "topic_id": uuid.UUID(bytes=urlsafe_b64decode(found.topic_id + "==")),
        "is_internal": found.is_internal,
        "partitions": partitions,
        "authorized_operations": _operations(found.authorized_operations),
    }


def missing_topic(name: str, error_code: int) -> dict[str, Any]:
    """Return the entry for a topic that does not exist."""
    return {
        "error_code": error_code,
        "name": name,
        "topic": name,
        "is_internal": False,
        "partitions": [],
        "authorized_operations": None,
    }


def is_ready(described: Mapping[str, Any]) -> bool:
    """Return whether a topic exists and each of its partitions has a leader."""
    partitions = described["partitions"]
    return bool(partitions) and all(each["error_code"] == 0 and each["leader_id"] >= 0 for each in partitions)


def page(topics: Iterable[Mapping[str, Any]], limit: int, cursor: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return one page of partitions, ordered by topic and number.

    Args:
        topics: results of :func:`topic`, in order.
        limit: the most partitions of the page.
        cursor: the topic and partition with which the page begins. None for the first page.
    """
    begin = ("", -1) if cursor is None else (cursor["topic_name"], cursor["partition_index"])
    shown: list[dict[str, Any]] = []
    left = max(1, limit)
    for each in topics:
        rest = [one for one in each["partitions"] if (each["name"], one["partition_index"]) >= begin]
        if each["name"] < begin[0]:
            continue
        if rest and left == 0:
            following = {"topic_name": each["name"], "partition_index": rest[0]["partition_index"]}
            return {"topics": shown, "next_cursor": following}
        shown.append({**each, "partitions": rest[:left]})
        if len(rest) > left:
            following = {"topic_name": each["name"], "partition_index": rest[left]["partition_index"]}
            return {"topics": shown, "next_cursor": following}
        left -= len(rest)
    return {"topics": shown, "next_cursor": None}


def created(wanted: Iterable[ours.NewTopic], outcome: Mapping[str, KafkaError | None]) -> Response:
    """Return the outcome of the creation of topics."""
    topics = []
    for each in wanted:
        number, message = code(outcome[each.name])
        topics.append(
            {
                "name": each.name,
                "error_code": number,
                "error_message": message,
                "num_partitions": each.num_partitions,
                "replication_factor": each.replication_factor,
            }
        )
    return Response(topics=topics)


def deleted(outcome: Mapping[str, KafkaError | None]) -> Response:
    """Return the outcome of the deletion of topics."""
    codes = {name: code(error) for name, error in outcome.items()}
    return Response(
        topics=[
            {"name": name, "error_code": number, "error_message": message} for name, (number, message) in codes.items()
        ]
    )


# -- settings --------------------------------------------------------------------------------------------------------


def setting(entry: ours.ConfigEntry) -> dict[str, Any]:
    """Return a setting of a resource."""
    return {
        "value": entry.value,
        "read_only": entry.read_only,
        "is_default": entry.is_default,
        "config_source": ConfigSourceType(entry.source).name,
        "is_sensitive": entry.is_sensitive,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": ConfigSourceType(each.source).name}
            for each in entry.synonyms
        ],
        "config_type": ConfigType(entry.config_type).name,
        "documentation": None,
    }


def is_wanted(entry: ours.ConfigEntry, wanted: ConfigFilterType) -> bool:
    """Return whether a setting passes a filter."""
    source = ConfigSourceType(entry.source)
    is_modified = source not in (
        ConfigSourceType.DYNAMIC_DEFAULT_BROKER_CONFIG,
        ConfigSourceType.STATIC_BROKER_CONFIG,
        ConfigSourceType.DEFAULT_CONFIG,
    )
    return {
        ConfigFilterType.ALL: True,
        ConfigFilterType.DYNAMIC: not entry.read_only,
        ConfigFilterType.MODIFIED: is_modified,
        ConfigFilterType.DEFAULT: not is_modified,
        ConfigFilterType.STATIC: source is ConfigSourceType.STATIC_BROKER_CONFIG,
    }[wanted]


def add_outcome(found: dict[str, dict[str, str]], resource: ConfigResource, outcome: str) -> None:
    """Add the outcome for a resource to ``found``."""
    found.setdefault(resource.resource_type.name.lower(), {})[str(resource.name)] = outcome


# -- groups ----------------------------------------------------------------------------------------------------------


def states(given: Iterable[Any]) -> list[str]:
    """Return names of groups' states as the protocol spells them."""
    return [GroupState.value_for(each) for each in given]


def types(given: Iterable[Any]) -> list[str]:
    """Return names of groups' types as the protocol spells them."""
    return [GroupType.value_for(each) for each in given]


def listing(found: ours.GroupListing) -> dict[str, str]:
    """Return a group in the form for a list of groups."""
    return {
        "group_id": found.group_id,
        "protocol_type": found.protocol_type,
        "group_state": found.state,
        "group_type": found.group_type,
    }


def group(found: ours.GroupDescription) -> dict[str, Any]:
    """Return a group and its members."""
    return {
        "error": None,
        "group_id": found.group_id,
        "group_state": found.state,
        "protocol_type": found.protocol_type,
        "protocol_data": found.protocol,
        "members": [_member(each) for each in found.members],
        "authorized_operations": _operations(found.authorized_operations),
    }


def dead_group(group_id: str) -> dict[str, Any]:
    """Return the entry for a group that does not exist."""
    return {
        "error": None,
        "group_id": group_id,
        "group_state": "Dead",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
        "authorized_operations": None,
    }


def _member(found: ours.MemberDescription) -> dict[str, Any]:
    assigned: dict[str, list[int]] = {}
    for tp in found.assignment:
        assigned.setdefault(tp.topic, []).append(tp.partition)
    return {
        "member_id": found.member_id,
        "group_instance_id": found.group_instance_id,
        "client_id": found.client_id,
        "client_host": found.host,
        "member_metadata": {"topics": list(found.topics)},
        "member_assignment": {
            "assigned_partitions": [{"topic": name, "partitions": numbers} for name, numbers in assigned.items()]
        },
    }


class _Metadata(dict[str, Any]):
    """Subscription of a member, with the name of kafka-python 2.x."""

    @property
    def subscription(self) -> list[str]:
        return list(self["topics"])


class _Assigned(dict[str, Any]):
    """Partitions of a member, with the names of kafka-python 2.x."""

    @property
    def assignment(self) -> list[tuple[str, list[int]]]:
        return [(each["topic"], each["partitions"]) for each in self["assigned_partitions"]]


def old_group(found: Mapping[str, Any]) -> GroupInformation:
    """Return a group as kafka-python 2.x does."""
    members = [
        MemberInformation(
            each["member_id"],
            each["client_id"],
            each["client_host"],
            _Metadata(each["member_metadata"]),
            _Assigned(each["member_assignment"]),
        )
        for each in found["members"]
    ]
    return GroupInformation(
        0,
        found["group_id"],
        found["group_state"],
        found["protocol_type"],
        found["protocol_data"],
        members,
        found["authorized_operations"],
    )


# -- transactions ----------------------------------------------------------------------------------------------------


def transaction_states(given: Iterable[Any]) -> list[str]:
    """Return names of transactions' states as the protocol spells them."""
    return [TransactionState.value_for(each) for each in given]


def transaction_listing(found: ours.TransactionListing) -> TransactionListing:
    """Return a transactional id in the form for a list of ids."""
    return TransactionListing(found.transactional_id, found.producer_id, TransactionState.build_from(found.state))


def transaction(found: ours.TransactionDescription) -> TransactionDescription:
    """Return a transaction."""
    return TransactionDescription(
        found.coordinator_id,
        TransactionState.build_from(found.state),
        found.producer_id,
        found.producer_epoch,
        found.timeout_ms,
        -1 if found.start_ms is None else found.start_ms,
        set(found.partitions),
    )


def producer(found: ours.ProducerState) -> ProducerState:
    """Return a producer of a partition."""
    offset = found.transaction_start_offset
    return ProducerState(
        found.producer_id,
        found.producer_epoch,
        found.last_sequence,
        found.last_timestamp_ms,
        found.coordinator_epoch,
        -1 if offset is None else offset,
    )


def hanging(name: str, found: TransactionDescription, now_ms: float) -> dict[str, Any]:
    """Return a hanging transaction."""
    return {
        "transactional_id": name,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.state.value,
        "age_ms": int(now_ms - found.transaction_start_time_ms),
        "coordinator_id": found.coordinator_id,
        "topic_partitions": sorted(found.topic_partitions),
    }
