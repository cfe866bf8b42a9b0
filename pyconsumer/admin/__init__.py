"""Topics, groups, offsets, settings and transactions of a cluster, for operators and tests. ``client`` is the facade.
``topics``, ``groups``, ``configs`` and ``transactions`` hold the steps of each operation as generators without I/O.
``calls`` sends one request to the right broker until it succeeds or time is up. ``types`` are the results.
"""

from __future__ import annotations

from pyconsumer.admin.client import KafkaAdminClient
from pyconsumer.admin.delegation_tokens import DelegationToken
from pyconsumer.admin.types import (
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    GroupDescription,
    GroupListing,
    HangingTransaction,
    MemberDescription,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ProducerState,
    TopicDescription,
    TransactionDescription,
    TransactionListing,
)

__all__ = [
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "DelegationToken",
    "GroupDescription",
    "GroupListing",
    "HangingTransaction",
    "KafkaAdminClient",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "ProducerState",
    "TopicDescription",
    "TransactionDescription",
    "TransactionListing",
]
