"""Arguments and results of the admin client: immutable values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from pyconsumer.acls import AclBinding, AclOperation
from pyconsumer.errors import KafkaError
from pyconsumer.scram import ITERATIONS, ScramMechanism
from pyconsumer.structs import BrokerMetadata, PartitionMetadata, TopicPartition

__all__ = [
    "AclDeletion",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSynonym",
    "GroupDescription",
    "GroupListing",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "ScramUserDescription",
    "ShareOffset",
    "TopicDescription",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]

_MOST_NAMED = 10


class OffsetSpec(IntEnum):
    """Special timestamps for ListOffsets."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


class ConfigResourceType(IntEnum):
    """Types of resources that have settings, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 lets the broker choose the number of partitions or replicas (KIP-464)."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    topic_configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The new number of partitions of a topic, and optionally the brokers for each new partition."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions in order. ``topic_id`` is in Kafka's base64 form.

    ``authorized_operations`` are those that this client may do. None: they were not asked for.
    """

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers, the id of the controller (-1 if unknown) and the cluster's id.

    ``authorized_operations`` are those that this client may do with the cluster. None: they were not asked for.
    """

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerMetadata, ...]
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list of groups. ``state`` and ``group_type`` are empty if the broker is too old to report them."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group, with the partitions that it owns and the topics that it has subscribed to.

    The attributes below exist for groups of type ``consumer`` (KIP-848). In other groups they are None.

    Attributes:
        epoch: the member's epoch. It is below the group's epoch until the member has revoked all partitions that are
            not in ``target``. Even then, other members may still hold partitions of ``target``.
        target: the partitions that the member will own in the end.
        topic_pattern: the regular expression (RE2) that the member has subscribed to.
        rack_id: the member's rack.
        member_type: ``consumer``, or ``classic`` for a member that uses the classic protocol. None if the broker does
            not report it.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    topics: tuple[str, ...]
    epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None
    topic_pattern: str | None = None
    rack_id: str | None = None
    member_type: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its state and members. ``protocol`` is the assignor's name.

    ``state`` is a word such as ``Stable`` or ``Empty``.

    Attributes:
        group_type: ``classic``, ``consumer`` for a group of the consumer protocol (KIP-848), or ``share``.
        epoch: the epoch of a group of type ``consumer`` or ``share``. Each change of members, subscriptions or topics
            raises it.
        assignment_epoch: the group epoch for which the present target assignment was made.
        authorized_operations: the operations that this client may do. None: they were not asked for.
    """

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]
    coordinator: BrokerMetadata
    group_type: str = "classic"
    epoch: int | None = None
    assignment_epoch: int | None = None
    authorized_operations: frozenset[AclOperation] | None = None

    @property
    def size(self) -> str:
        """Return the number of members in words, such as ``1 member`` or ``3 members``."""
        return "1 member" if len(self.members) == 1 else f"{len(self.members)} members"

    def who(self) -> str:
        """The state and the members in words, such as ``is Stable with 1 member: reader (/10.0.0.1)``.

        Empty if there are no members.
        """
        if not self.members:
            return ""
        shown = [
            f"{member.group_instance_id or member.client_id} ({member.host})" for member in self.members[:_MOST_NAMED]
        ]
        if len(self.members) > _MOST_NAMED:
            shown.append("...")
        return f"is {self.state} with {self.size}: {', '.join(shown)}"


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """The beginning of a share partition: the first record that its group has not finished.

    Attributes:
        lag: how many records are not finished. None if unknown (brokers before Kafka 4.3 do not tell).
    """

    start_offset: int
    leader_epoch: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A resource whose settings are read or changed. ``name`` is the name of a topic or the id of a broker.

    You can also give the type by its name or number: ``ConfigResource("topic", "orders")``.

    Raises:
        ValueError: there is no such type.
    """

    resource_type: ConfigResourceType
    name: str

    def __post_init__(self) -> None:
        given: Any = self.resource_type
        try:
            found = ConfigResourceType[given.upper()] if isinstance(given, str) else ConfigResourceType(given)
        except (KeyError, ValueError):
            known = ", ".join(kind.name for kind in ConfigResourceType)
            raise ValueError(f"{given!r} is no type of a resource. There are {known}") from None
        object.__setattr__(self, "resource_type", found)


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A place that a setting takes its value from. ``source`` is Kafka's number, as in :class:`ConfigEntry`."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a resource.

    Attributes:
        source: where the value comes from, as Kafka's number (1 topic, 4 static broker, 5 default, ...).
        config_type: type of the value, as Kafka's number (1 boolean, 2 string, 3 int, ...). 0 if unknown.
        synonyms: the places that the value may come from, the strongest first. Empty: they were not asked for.
    """

    name: str
    value: str | None
    source: int
    read_only: bool
    is_sensitive: bool
    config_type: int = 0
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        return self.source == 5


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id and its state. ``state`` is a word such as ``Ongoing`` or ``CompleteCommit``."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The transaction of a transactional id.

    Attributes:
        start_ms: start of the transaction, in ms since the epoch. None if no transaction is open.
        partitions: the partitions to which the transaction has written or whose offsets it commits. A partition is
            removed when it has its marker.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer, as the leader of a partition knows it.

    Attributes:
        last_timestamp_ms: timestamp of the producer's last batch, in ms since the epoch.
        coordinator_epoch: coordinator epoch of the last marker. -1 before the first marker.
        transaction_start_offset: first offset of the producer's open transaction. None if no transaction is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int | None

    @property
    def is_open(self) -> bool:
        """Return whether the producer has an open transaction in the partition."""
        return self.transaction_start_offset is not None


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that holds up readers of a partition and will not end.

    ``transactional_id`` is None if it is unknown.
    """

    partition: TopicPartition
    producer: ProducerState
    transactional_id: str | None


@dataclass(frozen=True, slots=True)
class AclDeletion:
    """The outcome of a filter of ``delete_acls``: the rules that were deleted, and an error or None."""

    acls: tuple[AclBinding, ...]
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class ScramUserDescription:
    """The SCRAM credentials of a user: the iterations by mechanism, or an error."""

    iterations: Mapping[ScramMechanism, int]
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """A new password of a user for one SCRAM mechanism.

    The password is salted and hashed here, so that the broker never gets it.

    Attributes:
        iterations: 4096 to 16384. More iterations make guessing slower, and each login.
        salt: by default random bytes.
    """

    user: str
    mechanism: ScramMechanism
    password: str = field(repr=False)
    iterations: int = ITERATIONS[0]
    salt: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        low, high = ITERATIONS
        if not low <= self.iterations <= high:
            raise ValueError(f"iterations must be {low} to {high}, not {self.iterations}")
        if not isinstance(self.password, str) or not self.password:
            raise ValueError(f"the password of {self.user!r} must be a string that is not empty")


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    """The removal of a user's credential for one SCRAM mechanism."""

    user: str
    mechanism: ScramMechanism
