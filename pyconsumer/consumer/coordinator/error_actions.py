"""The action for each error code in a response to a group request, as tables.

No I/O, no clock. ``on_join_response``, ``on_heartbeat_response`` and their like carry the actions out. A code that is
not in a request's table is unexpected: it is raised to the application. A retriable code that a newer broker may add is
retried after a pause.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from pyconsumer.errors import BY_CODE, Errors

__all__ = [
    "CONSUMER_GROUP_HEARTBEAT",
    "COORDINATOR_LOST",
    "HEARTBEAT",
    "JOIN",
    "OFFSET_COMMIT",
    "OFFSET_FETCH",
    "SHARE_GROUP_HEARTBEAT",
    "SYNC",
    "ErrorAction",
    "action_for",
]


class ErrorAction(enum.Enum):
    """The action to take for an error code."""

    RETRY_NOW = "send again at once"
    BACK_OFF = "send again after a pause"
    REDISCOVER = "look for the coordinator, then send again"
    TAKE_MEMBER_ID = "send again with the member id from the response"
    RESET_GENERATION = "forget the generation, keep the member id, join again"
    RESET_MEMBER = "forget generation and member id, join again"
    REJOIN = "keep generation and member id, join again"
    FENCED = "another process took our group_instance_id: stop"
    RAISE = "raise to the application"
    COLLECT = "raise to the application after the other partitions"
    REFRESH_METADATA = "send again after a pause, with newer metadata"
    NEW_EPOCH = "send again with the member's present epoch"
    LOSE = "treat the partitions as lost, join again under the same member id"
    STOP = "stop, and raise at every poll"


_R = ErrorAction


COORDINATOR_LOST: Final[dict[int, ErrorAction]] = {
    Errors.COORDINATOR_NOT_AVAILABLE: _R.REDISCOVER,
    Errors.NOT_COORDINATOR: _R.REDISCOVER,
}


OFFSET_COMMIT: Final[Mapping[int, ErrorAction]] = COORDINATOR_LOST | {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: _R.REFRESH_METADATA,
    Errors.REQUEST_TIMED_OUT: _R.REDISCOVER,
    Errors.OFFSET_METADATA_TOO_LARGE: _R.RAISE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS: _R.BACK_OFF,
    Errors.ILLEGAL_GENERATION: _R.RESET_GENERATION,
    Errors.UNKNOWN_MEMBER_ID: _R.RESET_MEMBER,
    Errors.REBALANCE_IN_PROGRESS: _R.REJOIN,
    Errors.INVALID_COMMIT_OFFSET_SIZE: _R.RAISE,
    Errors.TOPIC_AUTHORIZATION_FAILED: _R.COLLECT,
    Errors.GROUP_AUTHORIZATION_FAILED: _R.RAISE,
    Errors.FENCED_INSTANCE_ID: _R.FENCED,
    Errors.UNKNOWN_TOPIC_ID: _R.REFRESH_METADATA,
    Errors.STALE_MEMBER_EPOCH: _R.NEW_EPOCH,  # KIP-848, as the next
    Errors.GROUP_ID_NOT_FOUND: _R.RESET_MEMBER,
}


OFFSET_FETCH: Final[Mapping[int, ErrorAction]] = COORDINATOR_LOST | {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: _R.RAISE,  # an offset of a topic that does not exist: no retry makes it exist
    Errors.COORDINATOR_LOAD_IN_PROGRESS: _R.BACK_OFF,
    Errors.TOPIC_AUTHORIZATION_FAILED: _R.COLLECT,
    Errors.GROUP_AUTHORIZATION_FAILED: _R.RAISE,
    Errors.UNSTABLE_OFFSET_COMMIT: _R.BACK_OFF,  # KIP-447
    Errors.UNKNOWN_TOPIC_ID: _R.REFRESH_METADATA,
    Errors.STALE_MEMBER_EPOCH: _R.NEW_EPOCH,  # KIP-848
    Errors.UNKNOWN_MEMBER_ID: _R.NEW_EPOCH,  # likewise: it joins again
}


JOIN: Final[Mapping[int, ErrorAction]] = COORDINATOR_LOST | {
    Errors.COORDINATOR_LOAD_IN_PROGRESS: _R.BACK_OFF,
    Errors.ILLEGAL_GENERATION: _R.RESET_GENERATION,
    Errors.INCONSISTENT_GROUP_PROTOCOL: _R.RAISE,
    Errors.INVALID_GROUP_ID: _R.RAISE,
    Errors.UNKNOWN_MEMBER_ID: _R.RESET_MEMBER,
    Errors.INVALID_SESSION_TIMEOUT: _R.RAISE,
    Errors.REBALANCE_IN_PROGRESS: _R.RETRY_NOW,
    Errors.GROUP_AUTHORIZATION_FAILED: _R.RAISE,
    Errors.UNSUPPORTED_VERSION: _R.RAISE,
    Errors.MEMBER_ID_REQUIRED: _R.TAKE_MEMBER_ID,  # KIP-394
    Errors.GROUP_MAX_SIZE_REACHED: _R.RAISE,
    Errors.FENCED_INSTANCE_ID: _R.FENCED,
}


SYNC: Final[Mapping[int, ErrorAction]] = COORDINATOR_LOST | {
    Errors.COORDINATOR_LOAD_IN_PROGRESS: _R.BACK_OFF,
    Errors.ILLEGAL_GENERATION: _R.RESET_GENERATION,
    Errors.INCONSISTENT_GROUP_PROTOCOL: _R.RAISE,
    Errors.UNKNOWN_MEMBER_ID: _R.RESET_MEMBER,
    Errors.REBALANCE_IN_PROGRESS: _R.REJOIN,
    Errors.GROUP_AUTHORIZATION_FAILED: _R.RAISE,
    Errors.FENCED_INSTANCE_ID: _R.FENCED,
}


HEARTBEAT: Final[Mapping[int, ErrorAction]] = COORDINATOR_LOST | {
    Errors.COORDINATOR_LOAD_IN_PROGRESS: _R.BACK_OFF,
    Errors.ILLEGAL_GENERATION: _R.RESET_GENERATION,
    Errors.UNKNOWN_MEMBER_ID: _R.RESET_MEMBER,
    Errors.REBALANCE_IN_PROGRESS: _R.REJOIN,
    Errors.GROUP_AUTHORIZATION_FAILED: _R.RAISE,
    Errors.FENCED_INSTANCE_ID: _R.FENCED,
}

CONSUMER_GROUP_HEARTBEAT: Final[Mapping[int, ErrorAction]] = COORDINATOR_LOST | {
    Errors.COORDINATOR_LOAD_IN_PROGRESS: _R.BACK_OFF,
    Errors.FENCED_MEMBER_EPOCH: _R.LOSE,
    Errors.UNKNOWN_MEMBER_ID: _R.LOSE,
    # A member of a group that has vanished joins again; one that joins has met a group of the classic protocol.
    Errors.GROUP_ID_NOT_FOUND: _R.LOSE,
    Errors.TOPIC_AUTHORIZATION_FAILED: _R.RAISE,  # the member stays: access may be granted
    Errors.GROUP_AUTHORIZATION_FAILED: _R.STOP,
    Errors.INVALID_REQUEST: _R.STOP,
    Errors.GROUP_MAX_SIZE_REACHED: _R.STOP,
    Errors.UNSUPPORTED_ASSIGNOR: _R.STOP,
    Errors.UNSUPPORTED_VERSION: _R.STOP,
    Errors.UNRELEASED_INSTANCE_ID: _R.STOP,
    Errors.FENCED_INSTANCE_ID: _R.STOP,
    Errors.INVALID_REGULAR_EXPRESSION: _R.STOP,
    Errors.INCONSISTENT_GROUP_PROTOCOL: _R.STOP,
}

SHARE_GROUP_HEARTBEAT: Final[Mapping[int, ErrorAction]] = COORDINATOR_LOST | {
    Errors.COORDINATOR_LOAD_IN_PROGRESS: _R.BACK_OFF,
    Errors.FENCED_MEMBER_EPOCH: _R.LOSE,
    Errors.UNKNOWN_MEMBER_ID: _R.LOSE,
    Errors.GROUP_ID_NOT_FOUND: _R.LOSE,  # as in a consumer group
    Errors.TOPIC_AUTHORIZATION_FAILED: _R.RAISE,  # the member stays: access may be granted
    Errors.GROUP_AUTHORIZATION_FAILED: _R.STOP,
    Errors.INVALID_REQUEST: _R.STOP,
    Errors.GROUP_MAX_SIZE_REACHED: _R.STOP,
    Errors.UNSUPPORTED_VERSION: _R.STOP,
    Errors.INCONSISTENT_GROUP_PROTOCOL: _R.STOP,
}


def action_for(table: Mapping[int, ErrorAction], code: int) -> ErrorAction:
    """Return the action for an error code, from a table of this module. The code must not be NONE."""
    known = table.get(code)
    if known is not None:
        return known
    error = BY_CODE.get(code)
    return ErrorAction.BACK_OFF if error is not None and error.retriable else ErrorAction.RAISE
