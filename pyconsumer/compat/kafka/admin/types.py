"""The arguments and results of kafka-python's admin client: enumerations and descriptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, IntEnum
from typing import Any, NamedTuple, Self

from pyconsumer.structs import TopicPartition

__all__ = [
    "AbortTransactionSpec",
    "AlterConfigOp",
    "ConfigFilterType",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSourceType",
    "ConfigType",
    "GroupState",
    "GroupType",
    "IsolationLevel",
    "MemberToRemove",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "OffsetTimestamp",
    "PartitionProducerState",
    "ProducerState",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
]


class _Named(Enum):
    """An enumeration whose members can be given by value, or by case-insensitive name."""

    @classmethod
    def build_from(cls, given: Any) -> Self:
        """Return the member for a member, a value or a name.

        Raises:
            ValueError: there is no such member.
        """
        if isinstance(given, cls):
            return given
        try:
            return cls(given)
        except ValueError:
            pass
        try:
            return cls[str(given).strip().upper().replace("-", "_")]
        except KeyError:
            raise ValueError(f"{given!r} is not a {cls.__name__}. It must be {', '.join(cls.__members__)}") from None

    @classmethod
    def value_for(cls, given: Any) -> Any:
        """Return the value of the member that :meth:`build_from` returns."""
        return cls.build_from(given).value


class ConfigResourceType(IntEnum):
    """Types of resources that have settings."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AlterConfigOp(IntEnum):
    """Kinds of changes of a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigFilterType(_Named):
    """Filters of ``describe_configs``."""

    ALL = 0
    DYNAMIC = 1
    MODIFIED = 2
    DEFAULT = 3
    STATIC = 4


class ConfigType(IntEnum):
    """The type of a setting's value."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSourceType(IntEnum):
    """Sources of a setting's value."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigResource:
    """A resource, and the settings of it that are requested or changed.

    Args:
        resource_type: the type or its name, such as ``"topic"``.
        name: the name of a topic, or the id of a broker.
        configs: names of settings, or a mapping from names to values. None means all settings.
    """

    def __init__(
        self,
        resource_type: ConfigResourceType | str,
        name: str | int,
        configs: Iterable[str] | Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(resource_type, ConfigResourceType):
            resource_type = ConfigResourceType[str(resource_type).upper()]
        self.resource_type = resource_type
        self.name = name
        self.configs = configs

    def __repr__(self) -> str:
        return f"ConfigResource({self.resource_type.name}, {self.name!r}, {self.configs!r})"


class NewTopic:
    """A topic to create. A number of -1 is chosen by the broker."""

    def __init__(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = replica_assignments or {}
        self.topic_configs = topic_configs or {}


class NewPartitions:
    """The new number of partitions of a topic, and optionally the brokers for the new partitions."""

    def __init__(self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None) -> None:
        self.total_count = total_count
        self.new_assignments = new_assignments


class OffsetSpec(IntEnum):
    """Special offsets of a partition."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


class OffsetTimestamp(int):
    """A time in ms. This class is needed because a plain number would be read as an offset."""


class IsolationLevel(_Named):
    """Isolation levels: they decide whether records of open transactions are visible."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class GroupState(str, _Named):
    """The states of a group."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"


class GroupType(str, _Named):
    """The types of groups."""

    UNKNOWN = "Unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class MemberToRemove(NamedTuple):
    """A member to remove from a group.

    It has a member id, or the instance id of a static member, and a reason for the log.
    """

    member_id: str | None = None
    group_instance_id: str | None = None
    reason: str | None = None


class TransactionState(str, _Named):
    """The states of a transaction."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"


class TransactionListing(NamedTuple):
    """A transactional id in the result of ``list_transactions``."""

    transactional_id: str
    producer_id: int
    state: TransactionState


class TransactionDescription(NamedTuple):
    """The transaction of a transactional id. Its start is -1 if no transaction is open."""

    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int
    topic_partitions: set[TopicPartition]


class ProducerState(NamedTuple):
    """A producer, as the leader of a partition knows it. The offset is -1 if it has no open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class PartitionProducerState(NamedTuple):
    """The producers of a partition."""

    active_producers: list[ProducerState]


class AbortTransactionSpec(NamedTuple):
    """Names a producer's transaction in a partition that must be aborted."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = -1
