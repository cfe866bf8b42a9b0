"""The consumer's settings with their defaults, such as the default assignors.

Names are kafka-python's, defaults and meaning those of Java's consumer 4.x.
"""

from __future__ import annotations

import itertools
import logging
import math
import re
from collections.abc import Callable
from typing import Any, Final

from pyconsumer.consumer.auto_offset_reset import ResetPolicy
from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.config import (
    CLIENT_HINTS,
    CLIENT_SETTINGS,
    Anything,
    Choice,
    ClientConfig,
    Duration,
    Flag,
    Function,
    Integer,
    Kind,
    ListOf,
    Setting,
    Settings,
    Text,
)
from pyconsumer.settings.foreign_names import CONSUMER_NAMES

__all__ = ["CLASSIC_ONLY", "CONSUMER_SETTINGS", "ConsumerConfig"]


class _Reset(Kind):
    """A reset policy, kept as :class:`ResetPolicy`."""

    type_text = "str"

    def check(self, value: Any) -> ResetPolicy:
        if isinstance(value, ResetPolicy):
            return value
        if not isinstance(value, str):
            raise TypeError(f"it must be a string, not {value!r}")
        return ResetPolicy.parse(value)


class _RecordErrorPolicy(Kind):
    """``raise``, ``skip``, a function of the error, or a dead-letter sink with a method ``send``."""

    type_text = 'Literal["raise", "skip", "null"] | Callable[[RecordDeserializationError], str | None] | DeadLetterSink'

    def check(self, value: Any) -> Any:
        if isinstance(value, str):
            if value.lower() in ("raise", "skip", "null"):
                return value.lower()
        elif callable(value) or callable(getattr(value, "send", None)):
            return value
        raise ValueError(f"it must be 'raise', 'skip', a function or an object with a method send, not {value!r}")


class _AssignorName(Anything):
    """The name of an assignor, or an assignor. It is checked where the group needs it."""

    type_text = "str | Assignor | type[Assignor]"


class _Interceptor(Kind):
    """An object with at least one of the hooks, or a class of such objects."""

    def check(self, value: Any) -> Any:
        if any(callable(getattr(value, hook, None)) for hook in ("on_consume", "on_commit", "close")):
            return value
        raise TypeError(f"it must have a method on_consume, on_commit or close, and {value!r} has none of them")


class ConsumerConfig(ClientConfig):
    """The settings of a consumer. See :data:`CONSUMER_SETTINGS`."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    partition_assignment_strategy: tuple[Any, ...]
    rebalance_delay_ms: int | None
    enable_auto_commit: bool
    enable_auto_offset_store: bool
    auto_commit_interval_ms: int
    auto_offset_reset: ResetPolicy
    client_rack: str
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    fetch_buffer_bytes: int
    decode_threads: int | None
    max_poll_records: int
    check_crcs: bool
    isolation_level: str
    enable_incremental_fetch_sessions: bool
    key_deserializer: Callable[[bytes], Any] | None
    value_deserializer: Callable[[bytes], Any] | None
    on_record_error: Any
    interceptors: tuple[Any, ...]
    exclude_internal_topics: bool
    allow_auto_create_topics: bool
    consumer_timeout_ms: int | None
    schema_timeout_ms: int

    @property
    def read_committed(self) -> bool:
        """Return whether records of open and aborted transactions are hidden."""
        return self.isolation_level == "read_committed"

    @classmethod
    def finish(cls, values: dict[str, Any], given: frozenset[str]) -> None:
        super().finish(values, given)
        instance_id = values["group_instance_id"]
        if instance_id is not None and (not _INSTANCE_ID.fullmatch(instance_id) or instance_id in (".", "..")):
            raise ConfigurationError(
                f"group_instance_id must be 1 to 249 letters, digits, dots, hyphens and underscores, and not '.' or"
                f" '..': {instance_id[:300]!r}"
            )
        if "client_id" not in given:
            group = f"-{values['group_id']}" if values["group_id"] else ""
            values["client_id"] = f"consumer{group}-{instance_id or next(_numbers)}"
        if (
            values["on_record_error"] == "null"
            and (values["key_deserializer"] or values["value_deserializer"]) is not None
        ):
            raise ConfigurationError(
                "on_record_error='null' is for poll_arrow(key=..., value=...): leave out key_deserializer and"
                " value_deserializer"
            )
        if values["group_id"] is None:
            if "enable_auto_commit" in given and values["enable_auto_commit"]:
                _log.warning("enable_auto_commit has no effect without a group_id to commit for")
            if instance_id is not None:
                raise ConfigurationError("group_instance_id needs a group_id")
            if "enable_auto_offset_store" in given and not values["enable_auto_offset_store"]:
                raise ConfigurationError("enable_auto_offset_store=False needs a group_id, whose offsets are committed")
            values["enable_auto_commit"] = False
        cls._check_protocol(values, given)
        heartbeat, session = values["heartbeat_interval_ms"], values["session_timeout_ms"]
        if heartbeat >= session:
            raise ConfigurationError(
                f"Heartbeat must be set lower than the session timeout: heartbeat_interval_ms is {heartbeat},"
                f" session_timeout_ms {session}. At most a third of it makes sense"
            )
        if 3 * heartbeat > session:
            _log.warning(
                "heartbeat_interval_ms (%d) is more than a third of session_timeout_ms (%d): one heartbeat that is lost"
                " or late may cost the membership",
                heartbeat,
                session,
            )
        if values["fetch_max_wait_ms"] >= values["request_timeout_ms"]:
            raise ConfigurationError(
                f"fetch_max_wait_ms ({values['fetch_max_wait_ms']}) must be below request_timeout_ms"
                f" ({values['request_timeout_ms']}): otherwise every idle fetch times out"
            )
        if values["fetch_buffer_bytes"] is None:
            values["fetch_buffer_bytes"] = 2 * values["fetch_max_bytes"]

    @staticmethod
    def _check_protocol(values: dict[str, Any], given: frozenset[str]) -> None:
        """Refuse settings of the other group protocol: they would have no effect."""
        if values["group_protocol"] == "classic":
            if values["group_remote_assignor"] is not None:
                raise ConfigurationError(
                    "group_remote_assignor needs group_protocol='consumer': under 'classic' the members assign the"
                    " partitions, see partition_assignment_strategy"
                )
            return
        for name, instead in CLASSIC_ONLY.items():
            if name in given:
                raise ConfigurationError(
                    f"{name} has no effect under group_protocol='consumer': leave it out. {instead}"
                )


#: Settings that only the classic group protocol has, with what takes their place under the other one.
CLASSIC_ONLY: Final = {
    "partition_assignment_strategy": "the broker assigns the partitions, by group_remote_assignor",
    "session_timeout_ms": "the broker sets it for the group (group.consumer.session.timeout.ms, or"
    " consumer.session.timeout.ms of the group itself)",
    "heartbeat_interval_ms": "the broker sets it for the group (group.consumer.heartbeat.interval.ms, or"
    " consumer.heartbeat.interval.ms of the group itself)",
    "rebalance_delay_ms": "it belongs to the assignor cooperative-sticky-delayed of the classic protocol",
}
_INSTANCE_ID = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # as names of topics: it is part of member ids and of log lines
_numbers = itertools.count(1)
_log = logging.getLogger("pyconsumer.consumer")

_ASSIGNORS: Final = ("range", "cooperative-sticky")

CONSUMER_SETTINGS: Final[Settings[ConsumerConfig]] = Settings(
    "consumer",
    (
        *CLIENT_SETTINGS,
        Setting(
            "group_id",
            None,
            Text(nullable=True),
            "The consumer group, needed to commit. Without it, a subscription reads all partitions.",
        ),
        Setting(
            "group_instance_id",
            None,
            Text(nullable=True),
            "A name for this member that survives its restart, unique in the group (static membership, KIP-345).",
        ),
        Setting(
            "group_protocol",
            "classic",
            Choice("classic", "consumer"),
            "Group protocol. `classic`: the members compute the assignment, and all of them stop for it. `consumer`:"
            " the broker computes it, and each member moves by itself (KIP-848, needs Apache Kafka 4.0 or newer).",
        ),
        Setting(
            "group_remote_assignor",
            None,
            Text(nullable=True),
            "Only with `group_protocol=consumer`: the broker's assignor, `uniform` or `range`. By default the group"
            " coordinator chooses.",
        ),
        Setting(
            "session_timeout_ms",
            45_000,
            Duration(1, 0x7FFFFFFF),
            "Time without a heartbeat after which the coordinator removes this member and reassigns its partitions."
            " Only with `group_protocol=classic`.",
        ),
        Setting(
            "heartbeat_interval_ms",
            3_000,
            Duration(1, 0x7FFFFFFF),
            "Time between heartbeats, at most a third of `session_timeout_ms`. Only with `group_protocol=classic`.",
        ),
        Setting(
            "max_poll_interval_ms",
            300_000,
            Duration(1, 0x7FFFFFFF),
            "Longest time between two polls. After that this consumer leaves the group.",
        ),
        Setting(
            "partition_assignment_strategy",
            _ASSIGNORS,
            ListOf(_AssignorName()),
            "Assignors in order of preference: `range`, `roundrobin`, `sticky`, `cooperative-sticky`, Java's class "
            "names of these, `cooperative-sticky-delayed`, or Assignor classes or objects of your own. Only with "
            "`group_protocol=classic`.",
        ),
        Setting(
            "rebalance_delay_ms",
            None,
            Duration(0, 0x7FFFFFFF, nullable=True),
            "Only with the assignor `cooperative-sticky-delayed`: when a member disappears, its partitions are kept for"
            " it for this time, in case it returns. By default 5 minutes. 0: other members get them at once. Kafka"
            " Connect has the same setting for its workers (KIP-415).",
            ("scheduled.rebalance.max.delay.ms", "scheduled_rebalance_max_delay_ms"),
        ),
        Setting(
            "enable_auto_commit",
            True,
            Flag(),
            "Commit positions automatically, every `auto_commit_interval_ms` and on close. Off without a `group_id`.",
        ),
        Setting(
            "enable_auto_offset_store",
            True,
            Flag(),
            "False: automatic commits, and `commit()` without offsets, commit the offsets that the program has given to"
            " `store_offsets`. True: they commit the positions. Set False to commit only records that the program has"
            " finished. librdkafka has the same setting.",
        ),
        Setting("auto_commit_interval_ms", 5_000, Duration(0, 0x7FFFFFFF), "Time between automatic commits."),
        Setting(
            "auto_offset_reset",
            ResetPolicy("latest"),
            _Reset(),
            "Start of a partition without a valid position: `latest`, `earliest`, `none` (raise) or"
            " `by_duration:P1DT12H` (that long ago, KIP-1106).",
        ),
        Setting(
            "client_rack",
            "",
            Text(blank=True),
            "Rack of this client, to fetch from a replica in the same rack (KIP-392). Assignors see it, too.",
        ),
        Setting(
            "fetch_min_bytes",
            1,
            Integer(0),
            "The broker delays a response until it has this much data, or until `fetch_max_wait_ms` is over.",
        ),
        Setting(
            "fetch_max_bytes",
            52_428_800,
            Integer(0),
            "Most bytes in one response. A larger first batch is returned nevertheless. One request asks for no more"
            " than 8 MiB (16 MiB where records are large), or eight times `max_partition_fetch_bytes`.",
        ),
        Setting(
            "fetch_max_wait_ms",
            500,
            Duration(0, 0x7FFFFFFF),
            "Longest time for which the broker delays a response that has less than `fetch_min_bytes`.",
        ),
        Setting(
            "max_partition_fetch_bytes",
            1_048_576,
            Integer(0),
            "Most bytes of one partition in one response. A larger first batch is returned nevertheless.",
        ),
        Setting(
            "fetch_buffer_bytes",
            None,
            Integer(1, 0x7FFFFFFFFFFFFFFF, nullable=True),
            "Limit of the memory for records that are fetched and not returned, in bytes, by default twice"
            " `fetch_max_bytes`.",
        ),
        Setting(
            "decode_threads",
            None,
            Integer(0, 16, nullable=True),
            "Threads that decompress fetched batches in zstd before a poll asks for them, while the application's"
            " thread does something else. The consumers of a process share them. By default two fewer than the CPUs"
            " that the process may use, at most 4. 0: the poll itself decompresses all batches. Batches of the other"
            " codecs are always decompressed by the poll.",
        ),
        Setting("max_poll_records", 500, Integer(1), "Most records that one poll returns."),
        Setting("check_crcs", True, Flag(), "Check each batch's checksum."),
        Setting(
            "isolation_level",
            "read_uncommitted",
            Choice("read_uncommitted", "read_committed"),
            "`read_committed` hides records of open and aborted transactions.",
        ),
        Setting(
            "enable_incremental_fetch_sessions",
            True,
            Flag(),
            "Send only changes to brokers from one fetch to the next (KIP-227).",
        ),
        Setting(
            "key_deserializer",
            None,
            Function("deserialize", nullable=True),
            "Deserializes keys: a function of the bytes, or an object with `deserialize(topic, headers, data)`.",
        ),
        Setting(
            "value_deserializer",
            None,
            Function("deserialize", nullable=True),
            "Deserializes values: a function of the bytes, or an object with `deserialize(topic, headers, data)`.",
        ),
        Setting(
            "on_record_error",
            "raise",
            _RecordErrorPolicy(),
            "Policy for a record that cannot be deserialized: `raise`, `skip`, a function of the"
            " RecordDeserializationError that returns `'raise'` or `'skip'` (or None, to skip), or a dead-letter sink:"
            " an object with a method `send(error)`. `null` is for `poll_arrow(value=...)`: the value is null, and"
            " column `value_error` has the reason. A damaged batch is always raised, as CorruptRecordError.",
        ),
        Setting(
            "interceptors",
            (),
            ListOf(_Interceptor()),
            "Objects with `on_consume(records)`, `on_commit(offsets)` and `close()`, all optional (KIP-42).",
            ("interceptor.classes", "interceptor_classes"),
        ),
        Setting(
            "exclude_internal_topics",
            True,
            Flag(),
            "Hide Kafka's internal topics, such as `__consumer_offsets`, from patterns and from `topics()`.",
        ),
        Setting(
            "allow_auto_create_topics",
            True,
            Flag(),
            "Allow the broker to create a topic that this consumer requests, if the broker is configured to.",
        ),
        Setting(
            "consumer_timeout_ms",
            None,
            Duration(0, special=(-1,), nullable=True),
            "Iteration ends when no record came for this long (None or -1: never).",
            blanks=(math.inf,),
        ),
        Setting(
            "schema_timeout_ms",
            1000,
            Duration(0),
            "The least time that a poll waits for a schema that a deserializer fetches from a registry. A poll with a"
            " longer `timeout_ms` waits until that.",
        ),
    ),
    ConsumerConfig,
    hints={
        **CLIENT_HINTS,
        **CONSUMER_NAMES,
        "legacy_iterator": "leave it out, there is one iterator",
        "max_in_flight_requests_per_connection": "leave it out, one fetch is in flight per node",
    },
)
"""All settings of :class:`pyconsumer.KafkaConsumer`."""
