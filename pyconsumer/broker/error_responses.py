"""Error responses: an exception becomes an error code in the response."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyconsumer.background_log import Log
from pyconsumer.errors import BrokerResponseError, Errors, KafkaStorageError, RequestTimedOutError, UnknownServerError
from pyconsumer.protocol.messages import response_type
from pyconsumer.protocol.messages.fetch import FetchResponse
from pyconsumer.protocol.primitives import Struct, WireType
from pyconsumer.protocol.schema import Message

__all__ = ["code_and_text", "error_response", "storage_error", "too_late"]

_log = Log(__name__)

#: Names of the requests' lists that are called differently in responses, by the response's message and field.
_SOURCES = {
    ("ProduceResponse", "responses"): "topic_data",
    ("TopicProduceResponse", "partition_responses"): "partition_data",
    ("FetchResponse", "responses"): "topics",
    ("DeleteTopicsResponse", "responses"): "topics",
    ("CreatePartitionsResponse", "results"): "topics",
    ("DescribeConfigsResponse", "results"): "resources",
    ("AlterConfigsResponse", "responses"): "resources",
    ("IncrementalAlterConfigsResponse", "responses"): "resources",
    ("LeaveGroupResponse", "members"): "members",
    ("FindCoordinatorResponse", "coordinators"): "coordinator_keys",
    ("DescribeGroupsResponse", "groups"): "groups",
    ("DeleteGroupsResponse", "results"): "groups_names",
    ("CreateAclsResponse", "results"): "creations",
    ("DeleteAclsResponse", "filter_results"): "filters",
    ("DescribeTransactionsResponse", "transaction_states"): "transactional_ids",
    ("ConsumerGroupDescribeResponse", "groups"): "group_ids",
    ("ShareGroupDescribeResponse", "groups"): "group_ids",
    ("DeleteShareGroupOffsetsResponse", "responses"): "topics",
    **{
        (f"{name}Response", "results"): "topics"
        for name in (
            "InitializeShareGroupState",
            "ReadShareGroupState",
            "WriteShareGroupState",
            "DeleteShareGroupState",
            "ReadShareGroupStateSummary",
        )
    },
    ("WritableTxnMarkerTopicResult", "partitions"): "partition_indexes",
    ("TopicResponse", "partitions"): "partition_indexes",
    ("OffsetFetchResponseTopic", "partitions"): "partition_indexes",
    ("AddPartitionsToTxnResponse", "results_by_topic_v3_and_below"): "v3_and_below_topics",
    ("AddPartitionsToTxnTopicResult", "results_by_partition"): "partitions",
    ("DescribeUserScramCredentialsResponse", "results"): "users",
    ("ElectLeadersResponse", "replica_election_results"): "topic_partitions",
    ("ReplicaElectionResult", "partition_result"): "partitions",
}
#: Fields with the same meaning under different names, response's first.
_ALIASES = {
    "partition_index": ("partition_index", "index", "partition"),
    "index": ("index", "partition_index", "partition"),
    "partition": ("partition", "partition_index", "index"),
    "name": ("name", "topic"),
    "topic": ("topic", "name"),
}
#: Values beside an error code that are not their type's default, as Kafka has them.
_AFTER_ERROR: dict[str, dict[str, Any]] = {
    "CreatableTopicResult": {"configs": None},
    "DescribeClientQuotasResponse": {"entries": None},
    "PartitionData": {"high_watermark": -1, "records": b""},
    "PartitionProduceResponse": {"base_offset": -1},
}
_SESSION_ERRORS = frozenset(
    {Errors.FETCH_SESSION_ID_NOT_FOUND, Errors.INVALID_FETCH_SESSION_EPOCH, Errors.FETCH_SESSION_TOPIC_ID_ERROR}
)
_NOT_COPIED = frozenset({"records", "log_start_offset", "high_watermark", "session_id"})


def code_and_text(error: BaseException) -> tuple[int, str | None]:
    """Return an error's code in the protocol, and its text for responses that have a field for it.

    An error of the disk becomes KAFKA_STORAGE_ERROR, which clients retry. An error without a code becomes
    UNKNOWN_SERVER_ERROR. Clients do not get the text of such an error, since it may contain anything (Java's
    ``ApiError.fromThrowable``).
    """
    if isinstance(error, BrokerResponseError):
        return error.errno, str(error.args[0]) if error.args else None
    if isinstance(error, OSError):
        return KafkaStorageError.errno, f"The broker cannot write or read its files: {error.strerror or error}"
    return UnknownServerError.errno, "The broker has failed to serve this request; its log says why."


def storage_error(action: str, topic: str, partition: int, folder: Path | None, error: OSError) -> KafkaStorageError:
    """Log that the disk failed to read or write a partition. Return the error for the client.

    The log line names the folder, the file and the operating system's error. The client's text names no path.

    Args:
        action: the action that failed, for instance ``"append to"``.
        folder: the folder of the broker's data.
    """
    _log.error("cannot %s %s-%d in %s: %s", action, topic, partition, folder, error)
    return KafkaStorageError(
        f"the broker cannot {action} {topic}-{partition}: its disk reported an error, which is in its log"
    )


def too_late() -> RequestTimedOutError:
    """Return the error for a change of the cluster whose timeout is over.

    Like Kafka, the broker does not start such a change.
    """
    return RequestTimedOutError("the request's timeout_ms is not positive, so its time was over before it began")


def error_response(request: Message, version: int, error_code: int, text: str | None = None) -> Message:
    """Return the response to ``request``, with each of its error fields set to this code or text."""
    kind = response_type(request.API_KEY)
    values = _values(kind, request, version, error_code, text)
    if issubclass(kind, FetchResponse) and values.get("responses") and error_code not in _SESSION_ERRORS:
        values["error_code"] = 0  # the error of a fetch as a whole is about its session
    return kind(**values)


def _values(kind: type[Struct], source: Any, version: int, error_code: int, text: str | None = None) -> dict[str, Any]:
    """Return the fields of a part of a response, from the same part of the request."""
    values: dict[str, Any] = {}
    for spec in kind.FIELDS:
        name = spec.name
        if version not in spec.versions:
            continue
        if name in ("error_code", "partition_error_code"):
            values[name] = error_code
        elif name == "error_message" and text is not None:
            values[name] = text
        elif spec.is_array:
            items = getattr(source, _SOURCES.get((kind.__name__, name), name), None)
            if name == "responses" and not items and getattr(source, "topic_names", None):
                items = source.topic_names
            if isinstance(items, list) and not isinstance(spec.type, WireType):
                values[name] = [_element(spec.type, item, version, error_code, text) for item in items]
        elif isinstance(spec.type, WireType) and source is not None and name not in _NOT_COPIED:
            values |= _copied(name, source)
    return values | _AFTER_ERROR.get(kind.__name__, {})


def _element(kind: type[Struct], source: Any, version: int, error_code: int, text: str | None) -> Struct:
    plain: dict[str, Any] = {}
    if isinstance(source, (str, int)):  # a list of names or numbers
        wanted = "string" if isinstance(source, str) else "int32"
        for spec in kind.FIELDS:
            is_plain = isinstance(spec.type, WireType) and spec.type.name == wanted
            if is_plain and spec.name not in ("error_message", "host") and version in spec.versions:
                plain[spec.name] = source
                break
        source = None
    return kind(**(plain | _values(kind, source, version, error_code, text)))


def _copied(name: str, source: Any) -> dict[str, Any]:
    known = {spec.name for spec in source.FIELDS}
    alias = next((alias for alias in _ALIASES.get(name, (name,)) if alias in known), None)
    return {} if alias is None else {name: getattr(source, alias)}
