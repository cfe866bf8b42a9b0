"""The broker's and the topics' settings, with Kafka's names, defaults and bounds.

Settings are layered as in Kafka. From the strongest on: a topic's own value, dynamic values (of one broker, then of all
brokers), the values given at start, the default. Many topic settings default to a broker setting with another name. If
that exists in several units, the finest unit that is set wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyconsumer.broker.access.authorizer import STANDARD_AUTHORIZER
from pyconsumer.broker.group.common.config import SERVER_ASSIGNORS
from pyconsumer.broker.settings import (
    BrokerSetting,
    Check,
    ConfigSource,
    ConfigType,
    Value,
    between,
    did_you_mean,
    format_value,
    one_of,
    parse_value,
    some_of,
)
from pyconsumer.broker.share_settings import SHARE_BROKER_SETTINGS
from pyconsumer.errors import ConfigurationError

__all__ = [
    "BROKER_SETTINGS",
    "TOPIC_SETTINGS",
    "BrokerConfig",
    "Resolved",
    "TopicConfig",
    "known_settings",
    "parse_topic_config",
    "resolve_topic",
]

_BOOLEAN, _STRING, _INT, _SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
_MAX_LONG = 2**63 - 1
_MAX_INT = 2**31 - 1
_DAY_MS = 86_400_000

_COMPRESSION = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_POLICY = some_of("compact", "delete")


def _ignoring_case(*values: str) -> Check:
    def check(value: Value) -> str | None:
        return None if str(value).lower() in values else f"must be one of {', '.join(values)}"

    return check


_TIMESTAMP_TYPE = one_of("CreateTime", "LogAppendTime")


def _is_protocol_map(value: Value) -> str | None:
    wrong = [pair for pair in value if pair.partition(":")[2].strip() not in PROTOCOLS]
    return f"must be pairs such as INSIDE:PLAINTEXT, not {wrong[0]!r}" if wrong else None


def _is_overrides(value: Value) -> str | None:
    wrong = [pair for pair in value if not pair.rpartition(":")[2].strip().isdigit() or ":" not in pair]
    return f"must be pairs such as 127.0.0.1:100, not {wrong[0]!r}" if wrong else None


def _gzip_level(value: Value) -> str | None:
    return None if value == -1 or 1 <= value <= 9 else "must be between 1 and 9, or -1"


# --- topic settings

_TOPIC_TABLE = (
    BrokerSetting(
        "cleanup.policy",
        _LIST,
        ["delete"],
        "delete: drop old segments. compact: keep the last value of each key.",
        _POLICY,
    ),
    BrokerSetting(
        "compression.gzip.level", _INT, -1, "Level when compression.type is gzip (-1: the codec's own).", _gzip_level
    ),
    BrokerSetting("compression.lz4.level", _INT, 9, "Level when compression.type is lz4.", between(1, 17), used=False),
    BrokerSetting(
        "compression.type", _STRING, "producer", "Compression of stored batches. producer: as sent.", _COMPRESSION
    ),
    BrokerSetting("compression.zstd.level", _INT, 3, "Level when compression.type is zstd.", between(-131072, 22)),
    BrokerSetting("delete.retention.ms", _LONG, _DAY_MS, "How long a compacted topic keeps tombstones.", between(0)),
    BrokerSetting(
        "file.delete.delay.ms", _LONG, 60_000, "Delay before a deleted segment's file goes.", between(0), used=False
    ),
    BrokerSetting("flush.messages", _LONG, _MAX_LONG, "Force to disk after this many records.", between(1)),
    BrokerSetting("flush.ms", _LONG, _MAX_LONG, "Force to disk after this many ms.", between(0)),
    BrokerSetting("follower.replication.throttled.replicas", _LIST, [], "Throttled follower replicas.", used=False),
    BrokerSetting("index.interval.bytes", _INT, 4096, "Bytes of log between two index entries.", between(0)),
    BrokerSetting("leader.replication.throttled.replicas", _LIST, [], "Throttled leader replicas.", used=False),
    BrokerSetting(
        "max.compaction.lag.ms", _LONG, _MAX_LONG, "Longest time that a record may stay uncompacted.", between(1)
    ),
    BrokerSetting("max.message.bytes", _INT, 1_048_588, "Largest record batch that is accepted, in bytes.", between(0)),
    BrokerSetting(
        "message.timestamp.after.max.ms",
        _LONG,
        3_600_000,
        "How far a timestamp may lie ahead of the broker's.",
        between(0),
    ),
    BrokerSetting(
        "message.timestamp.before.max.ms",
        _LONG,
        _MAX_LONG,
        "How far a timestamp may lie behind the broker's.",
        between(0),
    ),
    BrokerSetting(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        "CreateTime (the producer's) or LogAppendTime.",
        _TIMESTAMP_TYPE,
    ),
    BrokerSetting(
        "min.cleanable.dirty.ratio", _DOUBLE, 0.5, "Share of dirty log from which compaction starts.", between(0, 1)
    ),
    BrokerSetting("min.compaction.lag.ms", _LONG, 0, "Shortest time that a record stays uncompacted.", between(0)),
    BrokerSetting("min.insync.replicas", _INT, 1, "Replicas that must have a record for acks=all.", between(1)),
    BrokerSetting("preallocate", _BOOLEAN, False, "Reserve a segment's file at once.", used=False),
    BrokerSetting(
        "retention.bytes", _LONG, -1, "Size of a partition beyond which old segments go (-1: no bound).", between(-1)
    ),
    BrokerSetting("retention.ms", _LONG, 7 * _DAY_MS, "Age at which segments go (-1: never).", between(-1)),
    BrokerSetting("segment.bytes", _INT, 2**30, "Size at which a segment is closed.", between(2**20)),
    BrokerSetting("segment.index.bytes", _INT, 10 * 2**20, "Largest size of an index file.", between(4)),
    BrokerSetting("segment.jitter.ms", _LONG, 0, "Random part taken off segment.ms.", between(0)),
    BrokerSetting("segment.ms", _LONG, 7 * _DAY_MS, "Age at which a segment is closed.", between(1)),
    BrokerSetting(
        "unclean.leader.election.enable", _BOOLEAN, False, "Whether a replica out of sync may become leader."
    ),
)
#: Overrides segment.bytes without its lower bound. As in Kafka, DescribeConfigs does not show it.
_INTERNAL_TOPIC_TABLE = (
    BrokerSetting("internal.segment.bytes", _INT, None, "Size at which a segment is closed, for tests.", between(14)),
)
TOPIC_SETTINGS: dict[str, BrokerSetting] = {setting.name: setting for setting in _TOPIC_TABLE}
_ALL_TOPIC_SETTINGS = TOPIC_SETTINGS | {setting.name: setting for setting in _INTERNAL_TOPIC_TABLE}

#: Broker settings that give a topic setting its default, strongest first, each with the factor to the topic's unit.
_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}

# --- broker settings


def _topic_default(name: str, synonym: str, default: Value = ...) -> BrokerSetting:
    """Return the broker setting that is the default of a topic setting."""
    topic = TOPIC_SETTINGS[name]
    return BrokerSetting(
        synonym, topic.type, topic.default if default is ... else default, topic.doc, topic.check, topic.used
    )


_BROKER_TABLE = (
    *(_topic_default(topic, names[0][0]) for topic, names in _SYNONYMS.items() if len(names) == 1),
    _topic_default("flush.ms", "log.flush.interval.ms", None),
    _topic_default("flush.ms", "log.flush.scheduler.interval.ms"),
    _topic_default("retention.ms", "log.retention.ms", None),
    BrokerSetting("log.retention.minutes", _INT, None, "log.retention.ms in minutes.", between(-1)),
    BrokerSetting("log.retention.hours", _INT, 168, "log.retention.ms in hours.", between(-1)),
    _topic_default("segment.ms", "log.roll.ms", None),
    BrokerSetting("log.roll.hours", _INT, 168, "log.roll.ms in hours.", between(1)),
    _topic_default("segment.jitter.ms", "log.roll.jitter.ms", None),
    BrokerSetting("log.roll.jitter.hours", _INT, 0, "log.roll.jitter.ms in hours.", between(0)),
    BrokerSetting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        _INT,
        100,
        "Longest wait for the end of the transaction before, when partitions are added to the next one.",
        between(0),
    ),
    BrokerSetting(
        "add.partitions.to.txn.retry.backoff.ms",
        _INT,
        20,
        "Pause before partitions are added again. The embedded broker knows when to, and does not pause.",
        between(1),
        used=False,
    ),
    BrokerSetting(
        "allow.everyone.if.no.acl.found",
        _BOOLEAN,
        False,
        "With an authorizer: allow everything with resources for which there is no rule.",
    ),
    BrokerSetting(
        "authorizer.class.name",
        _STRING,
        "",
        f"Empty: everything is allowed. {STANDARD_AUTHORIZER}: access control lists decide.",
        one_of("", STANDARD_AUTHORIZER),
    ),
    BrokerSetting(
        "auto.create.topics.enable", _BOOLEAN, True, "Whether asking for a topic that is not there creates it."
    ),
    BrokerSetting("auto.leader.rebalance.enable", _BOOLEAN, True, "Whether leaders move back to preferred replicas."),
    BrokerSetting("background.threads", _INT, 10, "Threads for background work.", between(1), used=False),
    BrokerSetting("broker.rack", _STRING, None, "Rack of the broker, sent to clients."),
    BrokerSetting(
        "controller.quota.window.num", _INT, 11, "Windows in which controller_mutation_rate may be used up.", between(1)
    ),
    BrokerSetting("controller.quota.window.size.seconds", _INT, 1, "Length of such a window.", between(1)),
    BrokerSetting(
        "connection.failed.authentication.delay.ms",
        _INT,
        100,
        "Delay of the answer to a failed login, in ms (KIP-306).",
        between(0),
    ),
    BrokerSetting(
        "connections.max.idle.ms", _LONG, 600_000, "Idle connections are closed after this many ms (-1: never)."
    ),
    BrokerSetting("connections.max.reauth.ms", _LONG, 0, "Session lifetime sent to SASL clients (0: none, KIP-368)."),
    BrokerSetting("controlled.shutdown.enable", _BOOLEAN, True, "Whether leaders move away before a stop.", used=False),
    BrokerSetting("default.replication.factor", _INT, 1, "Replicas of a topic for which none are named.", between(1)),
    BrokerSetting("delete.topic.enable", _BOOLEAN, True, "Whether topics can be deleted."),
    BrokerSetting("fetch.max.bytes", _INT, 55 * 2**20, "Largest response to a fetch, in bytes.", between(1024)),
    BrokerSetting(
        "group.consumer.assignment.interval.ms",
        _INT,
        1_000,
        "Shortest time between two target assignments of a group of the consumer protocol (KIP-1263).",
        between(0),
    ),
    BrokerSetting(
        "group.consumer.assignors",
        _LIST,
        list(SERVER_ASSIGNORS),
        "Assignors that members may ask for. The first is the default.",
        some_of(*SERVER_ASSIGNORS),
    ),
    BrokerSetting(
        "group.consumer.assignor.offload.enable",
        _BOOLEAN,
        True,
        "Compute target assignments in a thread of their own; here they are always computed in place.",
        used=False,
    ),
    BrokerSetting(
        "group.consumer.heartbeat.interval.ms",
        _INT,
        5_000,
        "How often members of the consumer protocol are asked to send heartbeats.",
        between(1),
    ),
    BrokerSetting(
        "group.consumer.max.assignment.interval.ms",
        _INT,
        15_000,
        "Longest consumer.assignment.interval.ms that a group may set.",
        between(0),
    ),
    BrokerSetting(
        "group.consumer.max.heartbeat.interval.ms",
        _INT,
        15_000,
        "Longest consumer.heartbeat.interval.ms that a group may set.",
        between(1),
    ),
    BrokerSetting(
        "group.consumer.max.session.timeout.ms",
        _INT,
        60_000,
        "Longest consumer.session.timeout.ms that a group may set.",
        between(1),
    ),
    BrokerSetting(
        "group.consumer.max.size", _INT, _MAX_INT, "Most members of a group of the consumer protocol.", between(1)
    ),
    BrokerSetting(
        "group.consumer.migration.policy",
        _STRING,
        "bidirectional",
        "Which groups with members may move between the protocols: bidirectional, upgrade, downgrade or disabled.",
        _ignoring_case("bidirectional", "upgrade", "downgrade", "disabled"),
    ),
    BrokerSetting(
        "group.consumer.min.assignment.interval.ms",
        _INT,
        0,
        "Shortest consumer.assignment.interval.ms that a group may set.",
        between(0),
    ),
    BrokerSetting(
        "group.consumer.min.heartbeat.interval.ms",
        _INT,
        5_000,
        "Shortest consumer.heartbeat.interval.ms that a group may set.",
        between(1),
    ),
    BrokerSetting(
        "group.consumer.min.session.timeout.ms",
        _INT,
        45_000,
        "Shortest consumer.session.timeout.ms that a group may set.",
        between(1),
    ),
    BrokerSetting(
        "group.consumer.regex.refresh.interval.ms",
        _INT,
        600_000,
        "How often the topics that match regular expressions of a group are looked for.",
        between(10_000),
    ),
    BrokerSetting(
        "group.consumer.session.timeout.ms",
        _INT,
        45_000,
        "How long a member of the consumer protocol may be silent.",
        between(1),
    ),
    BrokerSetting(
        "group.coordinator.rebalance.protocols",
        _LIST,
        ["classic", "consumer", "streams"],
        "Group protocols that are served; here they are always classic and consumer.",
        some_of("classic", "consumer", "share", "streams"),
        used=False,
    ),
    BrokerSetting(
        "group.initial.rebalance.delay.ms", _INT, 3_000, "How long an empty group waits for more members.", between(0)
    ),
    BrokerSetting(
        "group.max.session.timeout.ms", _INT, 1_800_000, "Longest session timeout that a member may ask for."
    ),
    BrokerSetting("group.max.size", _INT, _MAX_INT, "Most members of a group.", between(1)),
    BrokerSetting("group.min.session.timeout.ms", _INT, 6_000, "Shortest session timeout that a member may ask for."),
    BrokerSetting(
        "leader.imbalance.check.interval.seconds",
        _LONG,
        300,
        "Time between two looks whether leaders can move back.",
        between(1),
    ),
    BrokerSetting("log.cleaner.backoff.ms", _LONG, 15_000, "Time between two looks for logs to compact.", between(0)),
    BrokerSetting("log.cleaner.dedupe.buffer.size", _LONG, 134_217_728, "Memory of the cleaner.", used=False),
    BrokerSetting("log.cleaner.enable", _BOOLEAN, True, "Whether compacted topics are compacted."),
    BrokerSetting("log.cleaner.threads", _INT, 1, "Threads of the cleaner.", between(0), used=False),
    BrokerSetting(
        "log.flush.offset.checkpoint.interval.ms", _INT, 60_000, "How often recovery points are written.", between(0)
    ),
    BrokerSetting(
        "log.flush.start.offset.checkpoint.interval.ms",
        _INT,
        60_000,
        "How often log start offsets are written.",
        between(0),
    ),
    BrokerSetting(
        "log.initial.task.delay.ms", _LONG, 30_000, "Delay of the first retention check after a start.", between(0)
    ),
    BrokerSetting(
        "log.retention.check.interval.ms", _LONG, 300_000, "Time between two looks for old segments.", between(1)
    ),
    BrokerSetting("max.connections", _INT, _MAX_INT, "Most connections at a time.", between(0)),
    BrokerSetting(
        "max.connection.creation.rate", _INT, _MAX_INT, "Most new connections a second. Others wait.", between(1)
    ),
    BrokerSetting(
        "max.connections.per.ip.overrides",
        _LIST,
        [],
        "Other values of max.connections.per.ip, such as 127.0.0.1:100.",
        _is_overrides,
    ),
    BrokerSetting("max.connections.per.ip", _INT, _MAX_INT, "Most connections from one address.", between(0)),
    BrokerSetting(
        "max.incremental.fetch.session.cache.slots", _INT, 1_000, "Fetch sessions that are kept.", between(0)
    ),
    BrokerSetting("num.io.threads", _INT, 8, "Threads that handle requests.", between(1), used=False),
    BrokerSetting("num.network.threads", _INT, 3, "Threads that read and write sockets.", between(1), used=False),
    BrokerSetting("num.partitions", _INT, 1, "Partitions of a topic for which no count is named.", between(1)),
    BrokerSetting("num.recovery.threads.per.data.dir", _INT, 2, "Threads of recovery.", between(1), used=False),
    BrokerSetting("num.replica.fetchers", _INT, 1, "Threads that fetch from leaders.", between(1), used=False),
    BrokerSetting("offset.metadata.max.bytes", _INT, 4096, "Longest metadata of a committed offset.", between(0)),
    BrokerSetting("offsets.commit.timeout.ms", _INT, 5_000, "How long a commit waits for replicas.", between(1)),
    BrokerSetting(
        "offsets.load.buffer.size", _INT, 5 * 2**20, "Bytes read at a time when groups are loaded.", between(1)
    ),
    BrokerSetting(
        "offsets.retention.check.interval.ms", _LONG, 600_000, "Time between two looks for old offsets.", between(1)
    ),
    BrokerSetting(
        "offsets.retention.minutes", _INT, 10_080, "Minutes after which offsets of a dead group go.", between(1)
    ),
    BrokerSetting(
        "offsets.topic.compression.codec", _INT, 0, "Number of the codec for __consumer_offsets.", one_of(0, 1, 2, 3, 4)
    ),
    BrokerSetting("offsets.topic.num.partitions", _INT, 50, "Partitions of __consumer_offsets.", between(1)),
    BrokerSetting(
        "offsets.topic.replication.factor",
        _SHORT,
        3,
        "Replicas of __consumer_offsets. If it is not set, at most one per broker.",
        between(1),
    ),
    BrokerSetting("offsets.topic.segment.bytes", _INT, 104_857_600, "Segment size of __consumer_offsets.", between(1)),
    BrokerSetting(
        "producer.id.expiration.check.interval.ms",
        _INT,
        600_000,
        "Time between two looks for idle producers.",
        between(1),
    ),
    BrokerSetting(
        "producer.id.expiration.ms", _INT, _DAY_MS, "Idle time after which a producer is forgotten.", between(1)
    ),
    BrokerSetting(
        "pyconsumer.login.timeout.ms",
        _INT,
        10_000,
        "Longest time of a login, and of the handshake of TLS. Not a setting of Kafka.",
        between(1),
    ),
    BrokerSetting(
        "pyconsumer.max.pending.logins",
        _INT,
        1000,
        "Most connections without a login. The oldest one is closed for a new one. Not a setting of Kafka.",
        between(1),
    ),
    BrokerSetting(
        "pyconsumer.oauthbearer.unsecured",
        _BOOLEAN,
        False,
        "Accept tokens without a signature, and no others. For tests: anybody can write one. Not a setting of Kafka.",
    ),
    BrokerSetting(
        "pyconsumer.validate.records",
        _BOOLEAN,
        True,
        "Whether records inside a produced batch are checked, as Kafka does. That costs some time, above all of "
        "compressed batches, and most without the compiled decoder. Not a setting of Kafka.",
    ),
    BrokerSetting("queued.max.request.bytes", _LONG, -1, "Bytes of waiting requests.", used=False),
    BrokerSetting("queued.max.requests", _INT, 500, "Waiting requests.", between(1), used=False),
    BrokerSetting("quota.window.num", _INT, 11, "Windows of the rates that quotas of clients limit.", between(1)),
    BrokerSetting("quota.window.size.seconds", _INT, 1, "Length of such a window.", between(1)),
    BrokerSetting(
        "replica.fetch.max.bytes", _INT, 2**20, "Bytes of a partition that a follower copies at a time.", between(0)
    ),
    BrokerSetting(
        "replica.high.watermark.checkpoint.interval.ms",
        _LONG,
        5_000,
        "How often high watermarks are written; here together with recovery points.",
        used=False,
    ),
    BrokerSetting("replica.lag.time.max.ms", _LONG, 30_000, "Lag after which a follower leaves the ISR.", between(1)),
    BrokerSetting(
        "request.timeout.ms", _INT, 30_000, "Longest wait of a coordinator for the replicas of its records.", between(1)
    ),
    BrokerSetting(
        "sasl.enabled.mechanisms",
        _LIST,
        ["PLAIN"],
        "SASL mechanisms of the SASL listeners.",
        some_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    ),
    BrokerSetting(
        "sasl.oauthbearer.clock.skew.seconds",
        _INT,
        30,
        "Largest difference from the clock of a token's issuer.",
        between(0),
    ),
    BrokerSetting("sasl.oauthbearer.expected.audience", _LIST, [], "A token must be for one of these. Empty: anybody."),
    BrokerSetting("sasl.oauthbearer.expected.issuer", _STRING, None, "The issuer of tokens. Without it: any."),
    BrokerSetting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", _LONG, 3_600_000, "Time between two reads of the keys.", between(1)
    ),
    BrokerSetting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        _LONG,
        10_000,
        "Longest pause after a failed read of the keys.",
        between(1),
    ),
    BrokerSetting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        _LONG,
        100,
        "First pause after a failed read of the keys.",
        between(1),
    ),
    BrokerSetting(
        "sasl.oauthbearer.jwks.endpoint.url",
        _STRING,
        None,
        "The keys by which tokens are checked: file:, http: or https:. OAUTHBEARER needs them.",
    ),
    BrokerSetting("sasl.oauthbearer.scope.claim.name", _STRING, "scope", "The claim with a token's scopes."),
    BrokerSetting("sasl.oauthbearer.sub.claim.name", _STRING, "sub", "The claim with a token's user."),
    BrokerSetting(
        "sasl.server.max.receive.size", _INT, 524_288, "Largest request before a client is authenticated.", between(1)
    ),
    BrokerSetting("socket.listen.backlog.size", _INT, 50, "Connections waiting to be accepted.", between(1)),
    BrokerSetting(
        "socket.receive.buffer.bytes", _INT, 102_400, "SO_RCVBUF; -1: the system's.", between(-1), used=False
    ),
    BrokerSetting("socket.request.max.bytes", _INT, 104_857_600, "Largest request that is read.", between(1)),
    BrokerSetting("socket.send.buffer.bytes", _INT, 102_400, "SO_SNDBUF; -1: the system's.", between(-1), used=False),
    BrokerSetting(
        "ssl.client.auth",
        _STRING,
        None,
        "none, requested or required: certificates of clients. By default required if there is an authority for them.",
        one_of("none", "requested", "required"),
    ),
    BrokerSetting(
        "ssl.principal.mapping.rules",
        _STRING,
        "DEFAULT",
        "The user of a certificate's subject: DEFAULT or RULE:pattern/replacement/[LU]. The first match counts.",
    ),
    BrokerSetting("super.users", _STRING, "", "With an authorizer: who may do anything, such as User:admin;User:ops."),
    BrokerSetting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        _INT,
        10_000,
        "Time between two looks for transactions that have timed out.",
        between(1),
    ),
    BrokerSetting("transaction.max.timeout.ms", _INT, 900_000, "Longest transaction timeout.", between(1)),
    BrokerSetting(
        "transaction.partition.verification.enable",
        _BOOLEAN,
        True,
        "Whether a partition asks the transaction coordinator before it opens a transaction (KIP-890).",
    ),
    BrokerSetting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _INT,
        3_600_000,
        "Time between two looks for transactional ids to forget.",
        between(1),
    ),
    BrokerSetting(
        "transaction.state.log.load.buffer.size",
        _INT,
        5 * 2**20,
        "Bytes read at a time when transactions are loaded.",
        between(1),
    ),
    BrokerSetting("transaction.state.log.min.isr", _INT, 2, "min.insync.replicas of __transaction_state.", between(1)),
    BrokerSetting("transaction.state.log.num.partitions", _INT, 50, "Partitions of __transaction_state.", between(1)),
    BrokerSetting(
        "transaction.state.log.replication.factor", _SHORT, 3, "Replicas of __transaction_state.", between(1)
    ),
    BrokerSetting(
        "transaction.state.log.segment.bytes", _INT, 104_857_600, "Segment size of __transaction_state.", between(1)
    ),
    BrokerSetting(
        "transactional.id.expiration.ms",
        _INT,
        7 * _DAY_MS,
        "Idle time after which a transactional id is forgotten.",
        between(1),
    ),
)
BROKER_SETTINGS: dict[str, BrokerSetting] = {
    setting.name: setting
    for setting in sorted((*_BROKER_TABLE, *SHARE_BROKER_SETTINGS), key=lambda setting: setting.name)
}

#: Broker settings that IncrementalAlterConfigs may change while the broker runs.
_DYNAMIC = (
    frozenset(name for names in _SYNONYMS.values() for name, factor in names if factor == 1)
    - {"log.flush.scheduler.interval.ms"}
) | {
    "max.connections",
    "max.connections.per.ip",
    "producer.id.expiration.ms",
    "transaction.partition.verification.enable",
    # of Kafka's threads and their memory, without effect here
    "background.threads",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
}


#: Settings that a listener may have of its own, as ``listener.name.<its name in lower case>.<setting>``.
_OF_LISTENERS: Final = frozenset(
    {
        "connections.max.reauth.ms",
        "sasl.enabled.mechanisms",
        "ssl.client.auth",
        "ssl.principal.mapping.rules",
    }
)
#: The security protocols of Kafka. Each is also the name of a listener.
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PROTOCOL_MAP: Final = "listener.security.protocol.map"
#: Settings about all listeners. DescribeConfigs shows them with the addresses.
_ABOUT_LISTENERS: Final = {
    setting.name: setting
    for setting in (
        BrokerSetting(
            "inter.broker.listener.name", _STRING, None, "Not used: all brokers share a process.", used=False
        ),
        BrokerSetting("advertised.listeners", _LIST, [], "Where clients reach the broker, by listener."),
        BrokerSetting("listeners", _LIST, [], "The broker's listeners with their addresses."),
        BrokerSetting(_PROTOCOL_MAP, _LIST, [], "The security protocol of each listener.", _is_protocol_map),
    )
}


def known_settings(given: Mapping[str, object]) -> dict[str, object]:
    """Return the settings that a broker here has. A running broker keeps others, too: see :mod:`.foreign_settings`."""
    return {name: value for name, value in given.items() if name in BROKER_SETTINGS}


def _own_name(name: str) -> str | None:
    """Return the setting that a listener has of its own, by ``listener.name.<listener>.<setting>``."""
    found = name.startswith("listener.name.") and next((one for one in _OF_LISTENERS if name.endswith(f".{one}")), None)
    return found or None


#: Name of the setting, its value in a layer, the source of the value.
Layer = tuple[str, Value, ConfigSource]


class Resolved(NamedTuple):
    """The value of a setting, and all layers that have a value for it, the strongest first."""

    value: Value
    source: ConfigSource
    synonyms: list[Layer]


#: Kafka's settings that are options of the command and arguments of its function here.
_INSTEAD: Final = {
    name: f" (use {option} of `pyconsumer broker` instead)"
    for name, option in {
        "advertised.host.name": "--advertised-host",
        "port": "--port",
        "host.name": "--host",
        "log.dirs": "--data-dir",
        "log.dir": "--data-dir",
    }.items()
}


class BrokerConfig:
    """The settings of one broker.

    Args:
        given: the settings at the start, by Kafka's names, as text or as Python values.

    Raises:
        ConfigurationError: a name is unknown (the message proposes a similar name), or a value is illegal.
    """

    def __init__(self, given: Mapping[str, object] | None = None) -> None:
        self._static: dict[str, Value] = self.parse(given or {})
        self._default_dynamic: dict[str, Value] = {}
        self._dynamic: dict[str, Value] = {}

    @staticmethod
    def parse(given: Mapping[str, object]) -> dict[str, Value]:
        """Return typed values of broker settings. Errors are those of the class."""
        values = {}
        for name, value in given.items():
            setting = BROKER_SETTINGS.get(_own_name(name) or name) or _ABOUT_LISTENERS.get(name)
            if setting is None:
                hint = _INSTEAD.get(name) or did_you_mean(name, BROKER_SETTINGS)
                raise ConfigurationError(f"Unknown broker setting {name!r}{hint}")
            values[name] = parse_value(setting, value)
        return values

    @staticmethod
    def is_dynamic(name: str) -> bool:
        """Return whether a setting is dynamic, so that it may be changed while the broker runs."""
        return name in _DYNAMIC

    def set_dynamic(self, for_all: Mapping[str, object], for_this: Mapping[str, object]) -> None:
        """Replace the dynamic values for all brokers, and those for this broker. Unknown settings have no effect."""
        self._default_dynamic = self.parse(known_settings(for_all))
        self._dynamic = self.parse(known_settings(for_this))

    def resolve(self, name: str) -> Resolved:
        """Return the value of a broker setting, and its source. Raises ``KeyError`` for an unknown name."""
        layers = self.layers(name)
        return Resolved(layers[0][1], layers[0][2], layers)

    def layers(self, name: str) -> list[Layer]:
        """Return all layers that have a value for a broker setting, the strongest first."""
        setting = BROKER_SETTINGS[name]
        found: list[Layer] = []
        if name in self._dynamic:
            found.append((name, self._dynamic[name], ConfigSource.DYNAMIC_BROKER))
        if name in self._default_dynamic:
            found.append((name, self._default_dynamic[name], ConfigSource.DYNAMIC_DEFAULT_BROKER))
        if name in self._static:
            found.append((name, self._static[name], ConfigSource.STATIC_BROKER))
        if setting.default is not None or not found:
            found.append((name, setting.default, ConfigSource.DEFAULT))
        return found

    def is_set(self, name: str) -> bool:
        """Return whether a setting was given, at the start or dynamically, so that its default does not apply."""
        return name in self._static or name in self._default_dynamic or name in self._dynamic

    def value(self, name: str) -> Value:
        """Return the value of a setting, or None if it is not set. Raises ``KeyError`` for an unknown name."""
        for layer in (self._dynamic, self._default_dynamic, self._static):
            if name in layer:
                return layer[name]
        return BROKER_SETTINGS[name].default

    def of_listener(self, listener: str, name: str) -> Value:
        """Return the value of a setting for a listener, which may have one of its own."""
        own = f"listener.name.{listener.lower()}.{name}"
        return self._static[own] if own in self._static else self.value(name)

    def listeners(self, name: str) -> list[str]:
        """Return the texts of ``listeners`` or ``advertised.listeners``. Empty: the setting is not given."""
        return list(self._static.get(name, ()))

    @property
    def protocols(self) -> dict[str, str]:
        """Return the security protocols of listeners by name: Kafka's, and those of the settings."""
        pairs = (pair.partition(":") for pair in self._static.get(_PROTOCOL_MAP, ()))
        return {name: name for name in PROTOCOLS} | {name.strip(): protocol.strip() for name, _, protocol in pairs}

    def protocol(self, listener: str) -> str:
        """Return the security protocol of a listener. Raises ``ConfigurationError`` if there is no such listener."""
        protocols = self.protocols
        if listener not in protocols:
            raise ConfigurationError(f"there is no listener {listener!r}, only {', '.join(protocols)}")
        return protocols[listener]

    def integer(self, name: str) -> int:
        """Return the value of an integer setting that is always set."""
        return int(self.value(name))

    def boolean(self, name: str) -> bool:
        """Return the value of a boolean setting."""
        return bool(self.value(name))

    def strings(self, name: str) -> list[str]:
        """Return the value of a list setting."""
        return list(self.value(name))

    def text(self, name: str) -> str | None:
        """Return a setting as text in Kafka's notation, or None if it is not set."""
        return format_value(self.value(name))


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings of a topic that its logs need, including defaults from the broker. The names are Kafka's."""

    compact: bool = False
    delete: bool = True
    compression_type: str = "producer"
    gzip_level: int = -1
    zstd_level: int = 3
    delete_retention_ms: int = _DAY_MS
    flush_messages: int = _MAX_LONG
    flush_ms: int = _MAX_LONG
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = _MAX_LONG
    max_message_bytes: int = 1_048_588
    timestamp_after_max_ms: int = 3_600_000
    timestamp_before_max_ms: int = _MAX_LONG
    log_append_time: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    segment_bytes: int = 2**30
    segment_index_bytes: int = 10 * 2**20
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * _DAY_MS
    validate_records: bool = True

    @classmethod
    def of(cls, own: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
        """Combine a topic's own settings with the broker's defaults."""
        typed = parse_topic_config(own)

        def get(name: str) -> Value:
            return typed[name] if name in typed else _broker_default(name, broker)[0]

        policy = get("cleanup.policy")
        return cls(
            compact="compact" in policy,
            delete="delete" in policy,
            compression_type=get("compression.type"),
            gzip_level=get("compression.gzip.level"),
            zstd_level=get("compression.zstd.level"),
            delete_retention_ms=get("delete.retention.ms"),
            flush_messages=get("flush.messages"),
            flush_ms=get("flush.ms"),
            index_interval_bytes=get("index.interval.bytes"),
            max_compaction_lag_ms=get("max.compaction.lag.ms"),
            max_message_bytes=get("max.message.bytes"),
            timestamp_after_max_ms=get("message.timestamp.after.max.ms"),
            timestamp_before_max_ms=get("message.timestamp.before.max.ms"),
            log_append_time=get("message.timestamp.type") == "LogAppendTime",
            min_cleanable_dirty_ratio=get("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms=get("min.compaction.lag.ms"),
            min_insync_replicas=get("min.insync.replicas"),
            retention_bytes=get("retention.bytes"),
            retention_ms=get("retention.ms"),
            segment_bytes=typed.get("internal.segment.bytes") or get("segment.bytes"),
            segment_index_bytes=get("segment.index.bytes"),
            segment_jitter_ms=get("segment.jitter.ms"),
            segment_ms=get("segment.ms"),
            validate_records=broker.boolean("pyconsumer.validate.records"),
        )


def parse_topic_config(given: Mapping[str, object]) -> dict[str, Value]:
    """Return typed values of topic settings.

    Raises:
        ConfigurationError: a name is unknown (the message proposes a similar name), or a value is illegal.
    """
    values = {}
    for name, value in given.items():
        setting = _ALL_TOPIC_SETTINGS.get(name)
        if setting is None:
            raise ConfigurationError(f"Unknown topic config name: {name}{did_you_mean(name, TOPIC_SETTINGS)}")
        values[name] = parse_value(setting, value)
    low, high = values.get("min.compaction.lag.ms", 0), values.get("max.compaction.lag.ms", _MAX_LONG)
    if low > high:
        raise ConfigurationError(f"min.compaction.lag.ms ({low}) is greater than max.compaction.lag.ms ({high})")
    return values


def resolve_topic(name: str, own: Mapping[str, str], broker: BrokerConfig) -> Resolved:
    """Return the value of a topic setting, and its source. Raises ``KeyError`` for an unknown name."""
    value, synonyms = _broker_default(name, broker)
    if name in own:
        value = parse_value(_ALL_TOPIC_SETTINGS[name], own[name])
        synonyms.insert(0, (name, value, ConfigSource.TOPIC))
    return Resolved(value, synonyms[0][2], synonyms)


def _broker_default(name: str, broker: BrokerConfig) -> tuple[Value, list[Layer]]:
    """Return the default that the broker's settings give to a topic setting, and its source.

    A value in any unit is stronger than a default. The layers hold the values in their original units.
    """
    found = [
        (layer, factor)
        for synonym, factor in _SYNONYMS.get(name, ())
        for layer in broker.layers(synonym)
        if layer[1] is not None
    ]
    if not found:
        default = _ALL_TOPIC_SETTINGS[name].default
        return default, [(name, default, ConfigSource.DEFAULT)]
    found.sort(key=lambda item: item[0][2] is ConfigSource.DEFAULT)
    (_, value, _), factor = found[0]
    return value * factor if factor != 1 and value > 0 else value, [layer for layer, _ in found]
