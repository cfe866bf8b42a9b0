"""Topics, groups, offsets, settings, transactions and access, for operators and tests. ``client`` is the facade.
``topics``, ``groups``, ``configs``, ``transactions``, ``access`` and ``quotas`` hold the steps of operations without
I/O. ``calls`` sends one request to the right broker until it succeeds or time is up. ``types`` are the results.
"""

from __future__ import annotations

from pyconsumer.acls import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType, parse_acl
from pyconsumer.admin.client import KafkaAdminClient
from pyconsumer.admin.delegation_tokens import DelegationToken
from pyconsumer.admin.types import (
    AclDeletion,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSynonym,
    GroupDescription,
    GroupListing,
    HangingTransaction,
    MemberDescription,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ProducerState,
    ScramUserDescription,
    ShareOffset,
    TopicDescription,
    TransactionDescription,
    TransactionListing,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pyconsumer.quotas import DEFAULT_ENTITY, QuotaEntity
from pyconsumer.scram import ScramMechanism

__all__ = [
    "DEFAULT_ENTITY",
    "AclBinding",
    "AclDeletion",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSynonym",
    "DelegationToken",
    "GroupDescription",
    "GroupListing",
    "HangingTransaction",
    "KafkaAdminClient",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "PatternType",
    "ProducerState",
    "QuotaEntity",
    "ResourceType",
    "ScramMechanism",
    "ScramUserDescription",
    "ShareOffset",
    "TopicDescription",
    "TransactionDescription",
    "TransactionListing",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "parse_acl",
]
