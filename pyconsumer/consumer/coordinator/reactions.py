"""What a member does about each error code that a group coordinator answers, as tables. No I/O.

One table for each request. A code that is not in it is unexpected: it is raised to the application. Retriable codes
that a newer broker may add are retried after a pause.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from pyconsumer.error_codes import BY_CODE

__all__ = ["HEARTBEAT", "JOIN", "OFFSET_COMMIT", "OFFSET_FETCH", "SYNC", "Reaction", "react"]


class Reaction(enum.Enum):
    """What to do."""

    RETRY_NOW = "send again at once"
    BACK_OFF = "send again after a pause"
    REDISCOVER = "look for the coordinator, then send again"
    TAKE_MEMBER_ID = "send again with the member id that the answer holds"
    RESET_GENERATION = "forget the generation, keep the member id, join again"
    RESET_MEMBER = "forget generation and member id, join again"
    REJOIN = "keep generation and member id, join again"
    FENCED = "somebody took our instance id: stop"
    RAISE = "tell the application"
    COLLECT = "tell the application after looking at the other partitions"
    REFRESH_METADATA = "send again after a pause, with newer metadata"


_R = Reaction
_COORDINATOR: Final = {15: _R.REDISCOVER, 16: _R.REDISCOVER}  # COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR

JOIN: Final[Mapping[int, Reaction]] = _COORDINATOR | {
    14: _R.BACK_OFF,  # COORDINATOR_LOAD_IN_PROGRESS
    22: _R.RESET_GENERATION,  # ILLEGAL_GENERATION
    23: _R.RAISE,  # INCONSISTENT_GROUP_PROTOCOL
    24: _R.RAISE,  # INVALID_GROUP_ID
    25: _R.RESET_MEMBER,  # UNKNOWN_MEMBER_ID
    26: _R.RAISE,  # INVALID_SESSION_TIMEOUT
    27: _R.RETRY_NOW,  # REBALANCE_IN_PROGRESS
    30: _R.RAISE,  # GROUP_AUTHORIZATION_FAILED
    35: _R.RAISE,  # UNSUPPORTED_VERSION
    79: _R.TAKE_MEMBER_ID,  # MEMBER_ID_REQUIRED (KIP-394)
    81: _R.RAISE,  # GROUP_MAX_SIZE_REACHED
    82: _R.FENCED,  # FENCED_INSTANCE_ID
}

SYNC: Final[Mapping[int, Reaction]] = _COORDINATOR | {
    14: _R.BACK_OFF,
    22: _R.RESET_GENERATION,
    23: _R.RAISE,
    25: _R.RESET_MEMBER,
    27: _R.REJOIN,
    30: _R.RAISE,
    82: _R.FENCED,
}

HEARTBEAT: Final[Mapping[int, Reaction]] = _COORDINATOR | {
    14: _R.BACK_OFF,
    22: _R.RESET_GENERATION,
    25: _R.RESET_MEMBER,
    27: _R.REJOIN,
    30: _R.RAISE,
    82: _R.FENCED,
}

OFFSET_COMMIT: Final[Mapping[int, Reaction]] = _COORDINATOR | {
    3: _R.REFRESH_METADATA,  # UNKNOWN_TOPIC_OR_PARTITION
    7: _R.REDISCOVER,  # REQUEST_TIMED_OUT
    12: _R.RAISE,  # OFFSET_METADATA_TOO_LARGE
    14: _R.BACK_OFF,
    22: _R.RESET_GENERATION,
    25: _R.RESET_MEMBER,
    27: _R.REJOIN,
    28: _R.RAISE,  # INVALID_COMMIT_OFFSET_SIZE
    29: _R.COLLECT,  # TOPIC_AUTHORIZATION_FAILED
    30: _R.RAISE,
    82: _R.FENCED,
    100: _R.REFRESH_METADATA,  # UNKNOWN_TOPIC_ID
}

OFFSET_FETCH: Final[Mapping[int, Reaction]] = _COORDINATOR | {
    3: _R.RAISE,  # an offset of a topic that does not exist: no retry makes it exist
    14: _R.BACK_OFF,
    29: _R.COLLECT,
    30: _R.RAISE,
    88: _R.BACK_OFF,  # UNSTABLE_OFFSET_COMMIT (KIP-447)
    100: _R.REFRESH_METADATA,
}


def react(table: Mapping[int, Reaction], code: int) -> Reaction:
    """The reaction to an error code, none of the codes being 0."""
    known = table.get(code)
    if known is not None:
        return known
    error = BY_CODE.get(code)
    return Reaction.BACK_OFF if error is not None and error.retriable else Reaction.RAISE
