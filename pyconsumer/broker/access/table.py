"""The table: which operation on which resource each request needs, as in Kafka's documentation.

It is the only place that says so. :mod:`.gate` reads it before a handler runs, and handlers ask for a row by
:meth:`.authorizer.Access.may`. A row is one of these kinds:

* :attr:`Effect.WHOLE`: without the right the whole request is refused.
* :attr:`Effect.ITEMS`: items without the right are refused, and the handler gets the others.
* :attr:`Effect.ASKED`: the gate or the handler asks, in a way that belongs to this API.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Final, NamedTuple

from pyconsumer.acls import AclOperation, ResourceType
from pyconsumer.errors import Errors
from pyconsumer.protocol.api_keys import ApiKey

__all__ = ["FREE", "TABLE", "Effect", "Rule", "error_of", "rules_of"]

_NEWEST: Final = 0x7FFF


class Effect(Enum):
    """The consequence of a missing right."""

    WHOLE = 1
    ITEMS = 2
    ASKED = 3


class Rule(NamedTuple):
    """A row of the table.

    Attributes:
        effect: see :class:`Effect`.
        names: where the request has the name of the resource: a field, or ``list.field``, or a list of names. Empty for
            the cluster.
        into: the list of the response that has the items.
        or_cluster: an operation on the cluster that is enough instead.
        first, last: the versions of the request.
        by_id: the version from which items have a topic id instead of a name.
        purpose: tells rows of one API and type apart.
    """

    api: ApiKey
    operation: AclOperation
    resource: ResourceType
    effect: Effect = Effect.WHOLE
    names: str = ""
    into: str = ""
    or_cluster: AclOperation | None = None
    first: int = 0
    last: int = _NEWEST
    by_id: int = _NEWEST
    purpose: str = ""


_A, _O, _WHOLE, _ITEMS, _ASKED = ApiKey, AclOperation, Effect.WHOLE, Effect.ITEMS, Effect.ASKED
_TOPIC, _GROUP, _CLUSTER, _TXN = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)

#: APIs that anybody may call. They come before a login, or have no secret.
FREE: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})

#: DescribeCluster is free, too, but the authorized operations in it are not.
TABLE: Final[tuple[Rule, ...]] = (
    Rule(_A.PRODUCE, _O.WRITE, _TXN, _ASKED),
    Rule(_A.PRODUCE, _O.WRITE, _TOPIC, _ASKED),
    Rule(_A.FETCH, _O.CLUSTER_ACTION, _CLUSTER, _ASKED),
    Rule(_A.FETCH, _O.READ, _TOPIC, _ASKED),
    Rule(_A.LIST_OFFSETS, _O.DESCRIBE, _TOPIC, _ITEMS, "topics.name", "topics"),
    Rule(_A.METADATA, _O.DESCRIBE, _TOPIC, _ASKED),
    Rule(_A.METADATA, _O.CREATE, _TOPIC, _ASKED, or_cluster=_O.CREATE, purpose="creation"),
    Rule(_A.METADATA, _O.DESCRIBE, _CLUSTER, _ASKED),
    Rule(_A.OFFSET_COMMIT, _O.READ, _GROUP, _WHOLE, "group_id"),
    Rule(_A.OFFSET_COMMIT, _O.READ, _TOPIC, _ITEMS, "topics.name", "topics", by_id=10),
    Rule(_A.OFFSET_FETCH, _O.DESCRIBE, _GROUP, _WHOLE, "group_id", last=7),
    Rule(_A.OFFSET_FETCH, _O.DESCRIBE, _GROUP, _ITEMS, "groups.group_id", "groups", first=8),
    Rule(_A.OFFSET_FETCH, _O.DESCRIBE, _TOPIC, _ASKED),
    Rule(_A.FIND_COORDINATOR, _O.DESCRIBE, _GROUP, _ASKED),
    Rule(_A.FIND_COORDINATOR, _O.DESCRIBE, _TXN, _ASKED),
    Rule(_A.FIND_COORDINATOR, _O.CLUSTER_ACTION, _CLUSTER, _ASKED, first=6),
    Rule(_A.JOIN_GROUP, _O.READ, _GROUP, _WHOLE, "group_id"),
    Rule(_A.HEARTBEAT, _O.READ, _GROUP, _WHOLE, "group_id"),
    Rule(_A.LEAVE_GROUP, _O.READ, _GROUP, _WHOLE, "group_id"),
    Rule(_A.SYNC_GROUP, _O.READ, _GROUP, _WHOLE, "group_id"),
    Rule(_A.DESCRIBE_GROUPS, _O.DESCRIBE, _GROUP, _ITEMS, "groups", "groups"),
    Rule(_A.LIST_GROUPS, _O.DESCRIBE, _GROUP, _ASKED, or_cluster=_O.DESCRIBE),
    Rule(_A.CREATE_TOPICS, _O.CREATE, _TOPIC, _ITEMS, "topics.name", "topics", or_cluster=_O.CREATE),
    Rule(_A.CREATE_TOPICS, _O.DESCRIBE_CONFIGS, _TOPIC, _ASKED, purpose="configs"),
    Rule(_A.DELETE_TOPICS, _O.DELETE, _TOPIC, _ASKED, or_cluster=_O.DELETE),
    Rule(_A.DELETE_TOPICS, _O.DESCRIBE, _TOPIC, _ASKED, or_cluster=_O.DELETE, purpose="existence"),
    Rule(_A.DELETE_RECORDS, _O.DELETE, _TOPIC, _ITEMS, "topics.name", "topics"),
    Rule(_A.INIT_PRODUCER_ID, _O.WRITE, _TXN, _ASKED),
    Rule(_A.INIT_PRODUCER_ID, _O.WRITE, _TOPIC, _ASKED, or_cluster=_O.IDEMPOTENT_WRITE),
    Rule(
        _A.OFFSET_FOR_LEADER_EPOCH,
        _O.DESCRIBE,
        _TOPIC,
        _ITEMS,
        "topics.topic",
        "topics",
        or_cluster=_O.CLUSTER_ACTION,
    ),
    Rule(_A.ADD_PARTITIONS_TO_TXN, _O.WRITE, _TXN, _WHOLE, "v3_and_below_transactional_id", last=3),
    Rule(_A.ADD_PARTITIONS_TO_TXN, _O.WRITE, _TOPIC, _ASKED, last=3),
    Rule(_A.ADD_PARTITIONS_TO_TXN, _O.CLUSTER_ACTION, _CLUSTER, _WHOLE, first=4),
    Rule(_A.ADD_OFFSETS_TO_TXN, _O.WRITE, _TXN, _WHOLE, "transactional_id"),
    Rule(_A.ADD_OFFSETS_TO_TXN, _O.READ, _GROUP, _WHOLE, "group_id"),
    Rule(_A.END_TXN, _O.WRITE, _TXN, _WHOLE, "transactional_id"),
    Rule(_A.WRITE_TXN_MARKERS, _O.CLUSTER_ACTION, _CLUSTER, _WHOLE, or_cluster=_O.ALTER),
    Rule(_A.TXN_OFFSET_COMMIT, _O.WRITE, _TXN, _WHOLE, "transactional_id"),
    Rule(_A.TXN_OFFSET_COMMIT, _O.READ, _GROUP, _WHOLE, "group_id"),
    Rule(_A.TXN_OFFSET_COMMIT, _O.READ, _TOPIC, _ITEMS, "topics.name", "topics", by_id=6),
    Rule(_A.DESCRIBE_ACLS, _O.DESCRIBE, _CLUSTER),
    Rule(_A.CREATE_ACLS, _O.ALTER, _CLUSTER),
    Rule(_A.DELETE_ACLS, _O.ALTER, _CLUSTER),
    Rule(_A.DESCRIBE_CONFIGS, _O.DESCRIBE_CONFIGS, _TOPIC, _ASKED),
    Rule(_A.DESCRIBE_CONFIGS, _O.DESCRIBE_CONFIGS, _GROUP, _ASKED),
    Rule(_A.DESCRIBE_CONFIGS, _O.DESCRIBE_CONFIGS, _CLUSTER, _ASKED),
    Rule(_A.ALTER_CONFIGS, _O.ALTER_CONFIGS, _TOPIC, _ASKED),
    Rule(_A.ALTER_CONFIGS, _O.ALTER_CONFIGS, _GROUP, _ASKED),
    Rule(_A.ALTER_CONFIGS, _O.ALTER_CONFIGS, _CLUSTER, _ASKED),
    Rule(_A.INCREMENTAL_ALTER_CONFIGS, _O.ALTER_CONFIGS, _TOPIC, _ASKED),
    Rule(_A.INCREMENTAL_ALTER_CONFIGS, _O.ALTER_CONFIGS, _GROUP, _ASKED),
    Rule(_A.INCREMENTAL_ALTER_CONFIGS, _O.ALTER_CONFIGS, _CLUSTER, _ASKED),
    Rule(_A.DESCRIBE_LOG_DIRS, _O.DESCRIBE, _CLUSTER),
    Rule(_A.CREATE_PARTITIONS, _O.ALTER, _TOPIC, _ITEMS, "topics.name", "results"),
    Rule(_A.DELETE_GROUPS, _O.DELETE, _GROUP, _ITEMS, "groups_names", "results"),
    Rule(_A.ELECT_LEADERS, _O.ALTER, _CLUSTER),
    Rule(_A.LIST_PARTITION_REASSIGNMENTS, _O.DESCRIBE, _CLUSTER),
    Rule(_A.OFFSET_DELETE, _O.DELETE, _GROUP, _WHOLE, "group_id"),
    Rule(_A.OFFSET_DELETE, _O.READ, _TOPIC, _ITEMS, "topics.name", "topics"),
    Rule(_A.DESCRIBE_CLIENT_QUOTAS, _O.DESCRIBE_CONFIGS, _CLUSTER),
    Rule(_A.ALTER_CLIENT_QUOTAS, _O.ALTER_CONFIGS, _CLUSTER),
    Rule(_A.DESCRIBE_USER_SCRAM_CREDENTIALS, _O.DESCRIBE, _CLUSTER),
    Rule(_A.ALTER_USER_SCRAM_CREDENTIALS, _O.ALTER, _CLUSTER),
    Rule(_A.UPDATE_FEATURES, _O.ALTER, _CLUSTER),
    Rule(_A.DESCRIBE_CLUSTER, _O.DESCRIBE, _CLUSTER, _ASKED),
    Rule(_A.DESCRIBE_PRODUCERS, _O.READ, _TOPIC, _ITEMS, "topics.name", "topics"),
    Rule(_A.DESCRIBE_TRANSACTIONS, _O.DESCRIBE, _TXN, _ITEMS, "transactional_ids", "transaction_states"),
    Rule(_A.DESCRIBE_TRANSACTIONS, _O.DESCRIBE, _TOPIC, _ASKED),
    Rule(_A.LIST_TRANSACTIONS, _O.DESCRIBE, _TXN, _ASKED),
    Rule(_A.CONSUMER_GROUP_HEARTBEAT, _O.READ, _GROUP, _WHOLE, "group_id"),
    Rule(_A.CONSUMER_GROUP_HEARTBEAT, _O.DESCRIBE, _TOPIC, _ASKED),
    Rule(_A.CONSUMER_GROUP_DESCRIBE, _O.DESCRIBE, _GROUP, _ITEMS, "group_ids", "groups"),
    Rule(_A.CONSUMER_GROUP_DESCRIBE, _O.DESCRIBE, _TOPIC, _ASKED),
    Rule(_A.LIST_CONFIG_RESOURCES, _O.DESCRIBE_CONFIGS, _CLUSTER),
    Rule(_A.SHARE_GROUP_HEARTBEAT, _O.READ, _GROUP, _WHOLE, "group_id"),
    Rule(_A.SHARE_GROUP_HEARTBEAT, _O.DESCRIBE, _TOPIC, _ASKED),
    Rule(_A.SHARE_GROUP_DESCRIBE, _O.DESCRIBE, _GROUP, _ITEMS, "group_ids", "groups"),
    Rule(_A.SHARE_GROUP_DESCRIBE, _O.DESCRIBE, _TOPIC, _ASKED),
    Rule(_A.SHARE_FETCH, _O.READ, _GROUP, _WHOLE, "group_id"),
    Rule(_A.SHARE_FETCH, _O.READ, _TOPIC, _ASKED),
    Rule(_A.SHARE_ACKNOWLEDGE, _O.READ, _GROUP, _WHOLE, "group_id"),
    Rule(_A.SHARE_ACKNOWLEDGE, _O.READ, _TOPIC, _ASKED),
    Rule(_A.INITIALIZE_SHARE_GROUP_STATE, _O.CLUSTER_ACTION, _CLUSTER),
    Rule(_A.READ_SHARE_GROUP_STATE, _O.CLUSTER_ACTION, _CLUSTER),
    Rule(_A.WRITE_SHARE_GROUP_STATE, _O.CLUSTER_ACTION, _CLUSTER),
    Rule(_A.DELETE_SHARE_GROUP_STATE, _O.CLUSTER_ACTION, _CLUSTER),
    Rule(_A.READ_SHARE_GROUP_STATE_SUMMARY, _O.CLUSTER_ACTION, _CLUSTER),
    Rule(_A.DESCRIBE_SHARE_GROUP_OFFSETS, _O.DESCRIBE, _GROUP, _ITEMS, "groups.group_id", "groups"),
    Rule(_A.DESCRIBE_SHARE_GROUP_OFFSETS, _O.DESCRIBE, _TOPIC, _ASKED),
    Rule(_A.ALTER_SHARE_GROUP_OFFSETS, _O.READ, _GROUP, _WHOLE, "group_id"),
    Rule(_A.ALTER_SHARE_GROUP_OFFSETS, _O.READ, _TOPIC, _ASKED),
    Rule(_A.DELETE_SHARE_GROUP_OFFSETS, _O.DELETE, _GROUP, _WHOLE, "group_id"),
    Rule(_A.DELETE_SHARE_GROUP_OFFSETS, _O.READ, _TOPIC, _ASKED),
)

_ERRORS: Final = {
    ResourceType.TOPIC: Errors.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: Errors.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: Errors.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def error_of(kind: ResourceType) -> Errors:
    """Return the error code for a client that lacks a right on a resource of this type."""
    return _ERRORS[kind]


@cache
def rules_of(api_key: int, version: int) -> tuple[Rule, ...]:
    """Return the rows for a request. Raises ``LookupError`` for an API that the table has forgotten."""
    found = tuple(rule for rule in TABLE if rule.api == api_key and rule.first <= version <= rule.last)
    if not found and api_key not in FREE:
        raise LookupError(f"the table of access has no row for API {api_key} version {version}")
    return found
