"""The metrics of Java's clients, and ours: names, tags, units, descriptions and sources, as one table.

The names are those of Apache Kafka 4.3.1. A test starts Java's clients and compares. Each name is *served*, or *does
not apply* for a reason. One that does not apply is absent from all outputs, never zero. Names that Java does not have
are marked ``ours``.

The source of a metric is a text: the name of a :class:`~pyconsumer.metrics.windows.Counters` object, the kind of the
value, and one or two of its fields.

=============================  ======================================================================
source                         value
=============================  ======================================================================
``network total requests``     the field since the start
``network rate requests``      its growth per second, in the windows (per hour if the unit is ``1/h``)
``client avg between/gaps``    the growth of one field by that of another. NaN without growth
``client max longest_fetch``   the peak in the windows. NaN without an event
``partition min lead``         the smallest value, of a peak that counts downwards
``gauge connections``          a function of the client
=============================  ======================================================================

Counters have seconds. The unit decides whether a value is shown in ms or ns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["ADMIN", "CONSUMER", "CONSUMER_PROTOCOL", "FAMILIES", "PRODUCER", "SHARE_CONSUMER", "Family", "Spec"]


class Spec(NamedTuple):
    """One metric.

    Attributes:
        name: Kafka's name.
        unit: ``ms``, ``ns``, ``s``, ``bytes``, ``bytes/s``, ``1/s``, ``1/h``, ``records``, ``records/s``, ``ratio`` or
            ``""`` for a plain number.
        source: see the module. Empty if the metric does not apply.
        description: one sentence.
        reason: why the metric does not apply. Empty if it is served.
        ours: True if Java's clients do not have it.
    """

    name: str
    unit: str
    source: str
    description: str
    reason: str = ""
    ours: bool = False


class Family(NamedTuple):
    """The metrics of one group with the same tags.

    Attributes:
        group: Kafka's group, the ``type`` of Java's MBean.
        tags: the names of the tags beside ``client-id``.
        specs: the metrics.
    """

    group: str
    tags: tuple[str, ...]
    specs: tuple[Spec, ...]


def _ours(*specs: Spec) -> tuple[Spec, ...]:
    return tuple(spec._replace(ours=True) for spec in specs)


def _absent(names: Iterable[str], reason: str) -> tuple[Spec, ...]:
    return tuple(Spec(name, "", "", "Java's only.", reason) for name in names)


# -- the network ----------------------------------------------------------------------------------------------------

_NODE: Final = (
    Spec("request-rate", "1/s", "node rate requests", "Requests sent per second."),
    Spec("request-total", "", "node total requests", "Requests sent."),
    Spec("request-size-avg", "bytes", "node avg request_bytes/requests", "The average size of a request."),
    Spec("request-size-max", "bytes", "node max largest_request", "The largest size of a request."),
    Spec("response-rate", "1/s", "node rate responses", "Responses received per second."),
    Spec("response-total", "", "node total responses", "Responses received."),
    Spec("request-latency-avg", "ms", "node avg latency/responses", "The average time from a request to its response."),
    Spec("request-latency-max", "ms", "node max longest_latency", "The longest time from a request to its response."),
    Spec("incoming-byte-rate", "bytes/s", "node rate bytes_received", "Bytes received per second."),
    Spec("incoming-byte-total", "bytes", "node total bytes_received", "Bytes received."),
    Spec("outgoing-byte-rate", "bytes/s", "node rate bytes_sent", "Bytes sent per second."),
    Spec("outgoing-byte-total", "bytes", "node total bytes_sent", "Bytes sent."),
)

_NETWORK: Final = (
    Spec("connection-count", "", "gauge connections", "Connections that are established now."),
    Spec("connection-creation-rate", "1/s", "network rate connections_created", "Connections established per second."),
    Spec("connection-creation-total", "", "network total connections_created", "Connections established."),
    Spec("connection-close-rate", "1/s", "network rate connections_closed", "Connections closed per second."),
    Spec("connection-close-total", "", "network total connections_closed", "Connections closed."),
    Spec("successful-authentication-rate", "1/s", "network rate authentications", "TLS or SASL logins per second."),
    Spec("successful-authentication-total", "", "network total authentications", "TLS or SASL logins."),
    Spec(
        "successful-authentication-no-reauth-total",
        "",
        "network total authentications",
        "The same as successful-authentication-total, as in Java's clients.",
    ),
    Spec("failed-authentication-rate", "1/s", "network rate refusals", "Logins that failed per second."),
    Spec("failed-authentication-total", "", "network total refusals", "Logins that failed."),
    Spec(
        "successful-reauthentication-rate",
        "1/s",
        "network rate reauthentications",
        "Repeated logins (KIP-368) per second.",
    ),
    Spec("successful-reauthentication-total", "", "network total reauthentications", "Repeated logins (KIP-368)."),
    Spec(
        "failed-reauthentication-rate", "1/s", "network rate later_refusals", "Repeated logins that failed, per second."
    ),
    Spec("failed-reauthentication-total", "", "network total later_refusals", "Repeated logins that failed."),
    Spec(
        "reauthentication-latency-avg",
        "ms",
        "network avg reauthentication/reauthentications",
        "The average time of a repeated login.",
    ),
    Spec("reauthentication-latency-max", "ms", "network max longest_reauthentication", "The longest time of one."),
    Spec("network-io-rate", "1/s", "network rate transfers", "Reads and writes of sockets per second."),
    Spec("network-io-total", "", "network total transfers", "Reads and writes of sockets."),
    Spec("incoming-byte-rate", "bytes/s", "network rate bytes_received", "Bytes received per second."),
    Spec("incoming-byte-total", "bytes", "network total bytes_received", "Bytes received."),
    Spec("outgoing-byte-rate", "bytes/s", "network rate bytes_sent", "Bytes sent per second."),
    Spec("outgoing-byte-total", "bytes", "network total bytes_sent", "Bytes sent."),
    Spec("request-rate", "1/s", "network rate requests", "Requests sent per second."),
    Spec("request-total", "", "network total requests", "Requests sent."),
    Spec("request-size-avg", "bytes", "network avg request_bytes/requests", "The average size of a request."),
    Spec("request-size-max", "bytes", "network max largest_request", "The largest size of a request."),
    Spec("response-rate", "1/s", "network rate responses", "Responses received per second."),
    Spec("response-total", "", "network total responses", "Responses received."),
    Spec("select-rate", "1/s", "network rate selects", "Calls of the selector per second."),
    Spec("select-total", "", "network total selects", "Calls of the selector."),
    Spec(
        "io-wait-time-ns-avg", "ns", "network avg waited/selects", "The average time that a call of the selector waits."
    ),
    Spec("io-wait-time-ns-total", "ns", "network total waited", "The time that the selector has waited."),
    Spec("io-wait-ratio", "ratio", "network rate waited", "The part of the time that the selector waits."),
    Spec(
        "io-time-ns-avg",
        "ns",
        "network avg worked/selects",
        "The average time for sockets after a call of the selector.",
    ),
    Spec("io-time-ns-total", "ns", "network total worked", "The time spent on sockets."),
    Spec("io-ratio", "ratio", "network rate worked", "The part of the time that is spent on sockets."),
)

_APP_INFO: Final = Family(
    "app-info",
    (),
    (
        Spec("start-time-ms", "ms since 1970", "gauge started", "When the client was created."),
        *_absent(("version", "commit-id"), "a text. See pyconsumer.__version__"),
    ),
)
_COUNT: Final = Family(
    "kafka-metrics-count", (), (Spec("count", "", "gauge count", "The number of metrics that are served now."),)
)

# -- the consumer ---------------------------------------------------------------------------------------------------

_CONSUMER_ALONE: Final = (
    Spec("last-poll-seconds-ago", "s", "gauge last_poll", "Time since the last poll began. -1 before the first one."),
    Spec("time-between-poll-avg", "ms", "client avg between/gaps", "The average time between two polls."),
    Spec("time-between-poll-max", "ms", "client max longest_gap", "The longest time between two polls."),
    Spec(
        "poll-idle-ratio-avg",
        "ratio",
        "gauge idle_ratio",
        "The part of the time that the consumer waits for records, and not the application's code for the processor.",
    ),
    Spec("commit-sync-time-ns-total", "ns", "commit_calls total total", "The time spent in commit."),
    Spec("committed-time-ns-total", "ns", "committed_calls total total", "The time spent in committed."),
)
_CONSUMER_OURS: Final = _ours(Spec("poll-total", "", "gauge polls", "Calls of poll."))

_THREAD: Final = (
    "about the background thread and the queues of Java's consumer. Here the caller's thread does that work"
)
_INTERNALS: Final = _absent(
    (
        "application-event-queue-processing-time-avg",
        "application-event-queue-processing-time-max",
        "application-event-queue-size",
        "application-event-queue-time-avg",
        "application-event-queue-time-max",
        "application-events-expired-count",
        "background-event-queue-processing-time-avg",
        "background-event-queue-processing-time-max",
        "background-event-queue-size",
        "background-event-queue-time-avg",
        "background-event-queue-time-max",
        "time-between-network-thread-poll-avg",
        "time-between-network-thread-poll-max",
        "unsent-requests-queue-size",
        "unsent-requests-queue-time-avg",
        "unsent-requests-queue-time-max",
    ),
    _THREAD,
)

_FETCH: Final = (
    Spec("fetch-rate", "1/s", "client rate fetches", "Fetch requests per second."),
    Spec("fetch-total", "", "client total fetches", "Fetch requests that were answered."),
    Spec("fetch-latency-avg", "ms", "client avg fetch_latency/fetches", "The average time of a fetch request."),
    Spec("fetch-latency-max", "ms", "client max longest_fetch", "The longest time of a fetch request."),
    Spec(
        "fetch-size-avg", "bytes", "client avg fetch_bytes/sized_fetches", "The average size of the records of a fetch."
    ),
    Spec("fetch-size-max", "bytes", "client max largest_fetch", "The largest size of the records of a fetch."),
    Spec(
        "fetch-throttle-time-avg",
        "ms",
        "client avg throttled/fetches",
        "The average time for which a broker throttles.",
    ),
    Spec(
        "fetch-throttle-time-max", "ms", "client max longest_throttle", "The longest time for which a broker throttles."
    ),
    Spec("bytes-consumed-rate", "bytes/s", "client rate fetch_bytes", "Bytes of fetched records per second."),
    Spec("bytes-consumed-total", "bytes", "client total fetch_bytes", "Bytes of fetched records."),
    Spec("records-consumed-rate", "records/s", "client rate records", "Records returned per second."),
    Spec("records-consumed-total", "records", "gauge records_total", "Records returned to the application."),
    Spec(
        "records-per-request-avg",
        "records",
        "client avg records/sized_fetches",
        "The average number of records of a fetch.",
    ),
    Spec("records-lag-max", "records", "gauge lag_max", "The largest lag of an assigned partition in the windows."),
    Spec("records-lead-min", "records", "gauge lead_min", "The smallest lead of an assigned partition in the windows."),
)
_FETCH_OURS: Final = _ours(
    Spec("records-lag-time-max", "ms", "gauge lag_time_max", "The largest records-lag-time of all partitions."),
    Spec("fetch-failed-total", "", "gauge fetch_failures", "Fetch requests that failed."),
    Spec("buffered-bytes", "bytes", "gauge buffered", "Bytes of records that are fetched and not returned yet."),
    Spec("reserved-bytes", "bytes", "gauge reserved", "Bytes that are reserved for fetches in flight."),
    Spec("buffer-limit-bytes", "bytes", "gauge buffer_limit", "The limit of both, fetch_buffer_bytes."),
    Spec("records-skipped-total", "records", "gauge skipped", "Records that were skipped after an error."),
)

_FETCH_TOPIC: Final = (
    Spec("fetch-size-avg", "bytes", "topic avg bytes/fetches", "The average size of the topic's records in a fetch."),
    Spec("fetch-size-max", "bytes", "topic max largest", "The largest size of the topic's records in a fetch."),
    Spec("bytes-consumed-rate", "bytes/s", "topic rate bytes", "Bytes of fetched records per second."),
    Spec("bytes-consumed-total", "bytes", "topic total bytes", "Bytes of fetched records."),
    Spec("records-consumed-rate", "records/s", "topic rate records", "Records returned per second."),
    Spec("records-consumed-total", "records", "gauge records_total", "Records returned to the application."),
    Spec(
        "records-per-request-avg", "records", "topic avg records/fetches", "The average number of records of a fetch."
    ),
)
_FETCH_PARTITION: Final = (
    Spec("records-lag", "records", "gauge lag", "Records between the position and the end of the log."),
    Spec("records-lag-avg", "records", "partition avg lag/count", "The average lag after a poll."),
    Spec("records-lag-max", "records", "partition max largest_lag", "The largest lag after a poll."),
    Spec("records-lead", "records", "gauge lead", "Records between the start of the log and the position."),
    Spec("records-lead-avg", "records", "partition avg lead/count", "The average lead after a poll."),
    Spec("records-lead-min", "records", "partition min smallest_lead", "The smallest lead after a poll."),
    Spec("preferred-read-replica", "", "gauge replica", "The follower that is read from (KIP-392). -1 for the leader."),
)
_FETCH_PARTITION_OURS: Final = _ours(
    Spec("records-lag-time", "ms", "gauge lag_time", "The age of the first uncommitted record. 0 without one."),
)


def _timed(source: str, name: str, noun: str) -> tuple[Spec, ...]:
    return (
        Spec(f"{name}-avg", "ms", f"{source} avg total/count", f"The average time of {noun}."),
        Spec(f"{name}-max", "ms", f"{source} max longest", f"The longest time of {noun}."),
    )


def _counted(source: str, name: str, noun: str) -> tuple[Spec, ...]:
    return (
        Spec(f"{name}-rate", "1/s", f"{source} rate count", f"{noun} per second."),
        Spec(f"{name}-total", "", f"{source} total count", f"{noun}."),
    )


_COORDINATOR: Final = (
    Spec("assigned-partitions", "", "gauge assigned", "Partitions that are assigned now."),
    *_counted("commits", "commit", "Commits that were answered"),
    *_timed("commits", "commit-latency", "a commit"),
    *_counted("heartbeats", "heartbeat", "Heartbeats that were answered"),
    Spec("heartbeat-response-time-max", "ms", "heartbeats max longest", "The longest time of a heartbeat."),
    Spec("last-heartbeat-seconds-ago", "s", "gauge last_heartbeat", "Time since the last heartbeat. -1 before it."),
    Spec("rebalance-rate-per-hour", "1/h", "rebalances rate count", "Rebalances per hour."),
    Spec("rebalance-total", "", "rebalances total count", "Rebalances."),
    Spec("rebalance-latency-total", "ms", "rebalances total total", "The time spent in rebalances."),
    *_timed("rebalances", "rebalance-latency", "a rebalance"),
    Spec("last-rebalance-seconds-ago", "s", "gauge last_rebalance", "Time since the last rebalance. -1 before it."),
    Spec("failed-rebalance-rate-per-hour", "1/h", "failed_rebalances rate count", "Attempts that failed, per hour."),
    Spec("failed-rebalance-total", "", "failed_rebalances total count", "Attempts to rebalance that failed."),
    *_timed("assigned", "partition-assigned-latency", "the listener's on_partitions_assigned"),
    *_timed("revoked", "partition-revoked-latency", "the listener's on_partitions_revoked"),
    *_timed("lost", "partition-lost-latency", "the listener's on_partitions_lost"),
)
_CLASSIC: Final = (
    *_counted("joins", "join", "Joins of the group"),
    *_timed("joins", "join-time", "a join"),
    *_counted("syncs", "sync", "Syncs of the group"),
    *_timed("syncs", "sync-time", "a sync"),
)
_COORDINATOR_OURS: Final = _ours(Spec("commit-failed-total", "", "gauge commit_failures", "Commits that failed."))


def _consumer(internals: tuple[Spec, ...], classic: tuple[Spec, ...]) -> tuple[Family, ...]:
    return (
        Family("consumer-metrics", (), (*_NETWORK, *_CONSUMER_ALONE, *internals, *_CONSUMER_OURS)),
        Family("consumer-node-metrics", ("node-id",), _NODE),
        Family("consumer-coordinator-metrics", (), (*_COORDINATOR, *classic, *_COORDINATOR_OURS)),
        Family("consumer-fetch-manager-metrics", (), (*_FETCH, *_FETCH_OURS)),
        Family("consumer-fetch-manager-metrics", ("topic",), _FETCH_TOPIC),
        Family("consumer-fetch-manager-metrics", ("topic", "partition"), (*_FETCH_PARTITION, *_FETCH_PARTITION_OURS)),
        _APP_INFO,
        _COUNT,
    )


#: The metrics of a consumer with ``group_protocol="classic"``, and with ``"consumer"`` (KIP-848).
CONSUMER: Final = _consumer((), _CLASSIC)
CONSUMER_PROTOCOL: Final = _consumer(_INTERNALS, ())

# -- the share consumer ---------------------------------------------------------------------------------------------

_SHARE_FETCH: Final = (
    *(
        spec
        for spec in _FETCH
        if spec.name not in ("records-lag-max", "records-lead-min", "records-consumed-total", "records-per-request-avg")
    ),
    Spec("records-consumed-total", "records", "client total records", "Records returned to the application."),
    Spec(
        "records-per-request-avg",
        "records",
        "client avg records/sized_fetches",
        "The average number of records of a fetch.",
    ),
    Spec(
        "acknowledgements-send-rate",
        "records/s",
        "acknowledged rate total",
        "Records acknowledged and confirmed per second.",
    ),
    Spec("acknowledgements-send-total", "records", "acknowledged total total", "Records acknowledged and confirmed."),
    Spec("acknowledgements-error-rate", "records/s", "refused rate total", "Acknowledgements that failed per second."),
    Spec("acknowledgements-error-total", "records", "refused total total", "Acknowledgements that failed."),
)
_SHARE_FETCH_OURS: Final = _ours(
    Spec("fetch-failed-total", "", "gauge fetch_failures", "Fetch requests that failed."),
    Spec("records-skipped-total", "records", "gauge skipped", "Records that were rejected after an error."),
)
_SHARE_GROUP: Final = tuple(
    spec
    for spec in _COORDINATOR
    if spec.name.startswith(("heartbeat", "last-heartbeat", "rebalance-", "assigned-")) and "latency" not in spec.name
)
#: The metrics of a share consumer.
SHARE_CONSUMER: Final = (
    Family(
        "consumer-share-metrics",
        (),
        (
            *_NETWORK,
            *(spec for spec in _CONSUMER_ALONE if "poll" in spec.name and "idle" not in spec.name),
            *_CONSUMER_OURS,
        ),
    ),
    Family("consumer-share-node-metrics", ("node-id",), _NODE),
    Family("consumer-share-coordinator-metrics", (), _SHARE_GROUP),
    Family("consumer-share-fetch-manager-metrics", (), (*_SHARE_FETCH, *_SHARE_FETCH_OURS)),
    _APP_INFO,
    _COUNT,
)

# -- the producer ---------------------------------------------------------------------------------------------------

_PRODUCER_ALONE: Final = (
    Spec("record-send-rate", "records/s", "sends rate records", "Records sent to brokers per second."),
    Spec("record-send-total", "records", "gauge accepted", "Records that send has accepted."),
    Spec("record-retry-rate", "records/s", "sends rate retried_records", "Records sent again, per second."),
    Spec("record-retry-total", "records", "sends total retried_records", "Records sent again."),
    Spec("record-error-rate", "records/s", "sends rate failed_records", "Records that failed, per second."),
    Spec("record-error-total", "records", "sends total failed_records", "Records that failed."),
    Spec(
        "record-size-avg", "bytes", "sends avg raw_bytes/records", "The average size of a record, before compression."
    ),
    Spec(
        "record-size-max",
        "bytes",
        "",
        "The largest size of a record.",
        "it would cost time for each record. batch-size-max and request-size-max have the sizes of batches",
    ),
    Spec(
        "records-per-request-avg",
        "records",
        "sends avg records/requests",
        "The average number of records of a request.",
    ),
    Spec(
        "record-queue-time-avg",
        "ms",
        "sends avg queued/batches",
        "The average time from a batch's first record to its sending.",
    ),
    Spec("record-queue-time-max", "ms", "sends max longest_queued", "The longest such time."),
    Spec("batch-size-avg", "bytes", "sends avg bytes/batches", "The average size of a batch."),
    Spec("batch-size-max", "bytes", "sends max largest_batch", "The largest size of a batch."),
    Spec("batch-split-rate", "1/s", "sends rate splits", "Batches split because they were too large, per second."),
    Spec("batch-split-total", "", "sends total splits", "Batches split because they were too large."),
    Spec("compression-rate-avg", "ratio", "sends avg ratios/batches", "The average ratio of compressed to plain size."),
    Spec("requests-in-flight", "", "gauge in_flight", "Requests that wait for a response."),
    Spec(
        "request-latency-avg", "ms", "network avg latency/responses", "The average time from a request to its response."
    ),
    Spec(
        "request-latency-max", "ms", "network max longest_latency", "The longest time from a request to its response."
    ),
    Spec(
        "produce-throttle-time-avg",
        "ms",
        "sends avg throttled/produced",
        "The average time for which a broker throttles.",
    ),
    Spec(
        "produce-throttle-time-max",
        "ms",
        "sends max longest_throttle",
        "The longest time for which a broker throttles.",
    ),
    Spec("metadata-age", "s", "gauge metadata_age", "The age of the metadata."),
    Spec(
        "metadata-wait-time-ns-total", "ns", "metadata_waits total total", "The time that send has waited for metadata."
    ),
    Spec("buffer-total-bytes", "bytes", "gauge buffer_total", "The setting buffer_memory."),
    Spec("buffer-available-bytes", "bytes", "gauge buffer_available", "The part of it that is free."),
    Spec("buffer-exhausted-rate", "1/s", "exhausted rate count", "Sends that failed without memory, per second."),
    Spec("buffer-exhausted-total", "", "exhausted total count", "Sends that failed without memory."),
    Spec(
        "bufferpool-wait-ratio", "ratio", "memory_waits rate total", "The part of the time that send waits for memory."
    ),
    Spec(
        "bufferpool-wait-time-ns-total", "ns", "memory_waits total total", "The time that send has waited for memory."
    ),
    Spec("waiting-threads", "", "gauge waiting", "Calls that wait for memory now."),
    Spec("flush-time-ns-total", "ns", "flush total total", "The time spent in flush."),
    Spec("txn-init-time-ns-total", "ns", "init total total", "The time spent in init_transactions."),
    Spec("txn-begin-time-ns-total", "ns", "begin total total", "The time spent in begin_transaction."),
    Spec(
        "txn-send-offsets-time-ns-total", "ns", "offsets total total", "The time spent in send_offsets_to_transaction."
    ),
    Spec("txn-commit-time-ns-total", "ns", "commit total total", "The time spent in commit_transaction."),
    Spec("txn-abort-time-ns-total", "ns", "abort total total", "The time spent in abort_transaction."),
    *_absent(("txn-prepare-time-ns-total",), "about two-phase commit (KIP-939), which this producer does not have"),
)
_PRODUCER_OURS: Final = _ours(Spec("batch-send-total", "", "sends total batches", "Batches sent to brokers."))
_PRODUCER_TOPIC: Final = (
    Spec("record-send-rate", "records/s", "topic rate records", "Records sent to brokers per second."),
    Spec("record-send-total", "records", "topic total records", "Records sent to brokers."),
    Spec("byte-rate", "bytes/s", "topic rate bytes", "Bytes of batches sent per second."),
    Spec("byte-total", "bytes", "topic total bytes", "Bytes of batches sent."),
    Spec("compression-rate", "ratio", "topic avg ratios/batches", "The average ratio of compressed to plain size."),
    Spec("record-retry-rate", "records/s", "topic rate retried_records", "Records sent again, per second."),
    Spec("record-retry-total", "records", "topic total retried_records", "Records sent again."),
    Spec("record-error-rate", "records/s", "topic rate failed_records", "Records that failed, per second."),
    Spec("record-error-total", "records", "topic total failed_records", "Records that failed."),
)

#: The metrics of a producer.
PRODUCER: Final = (
    Family("producer-metrics", (), (*_NETWORK, *_PRODUCER_ALONE, *_PRODUCER_OURS)),
    Family("producer-node-metrics", ("node-id",), _NODE),
    Family("producer-topic-metrics", ("topic",), _PRODUCER_TOPIC),
    _APP_INFO,
    _COUNT,
)

#: The metrics of an admin client.
ADMIN: Final = (
    Family("admin-client-metrics", (), _NETWORK),
    Family("admin-client-node-metrics", ("node-id",), _NODE),
    _APP_INFO,
    _COUNT,
)

#: All tables by name.
FAMILIES: Final = {
    "admin": ADMIN,
    "consumer": CONSUMER,
    "consumer-protocol": CONSUMER_PROTOCOL,
    "producer": PRODUCER,
    "share-consumer": SHARE_CONSUMER,
}
