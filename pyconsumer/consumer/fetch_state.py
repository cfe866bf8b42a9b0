"""The fetch states of a partition and the legal ways between them. Nothing else: no position, no clock.

Rules

1. A partition that was just assigned is INITIALIZING: it has no position, and its committed offset is looked up.
2. AWAIT_RESET: it has no position and waits for the log's start, end or an offset by time (ListOffsets).
3. AWAIT_VALIDATION: it has a position, and the leader is asked whether the log still contains it (KIP-320).
4. FETCHING: its position may be fetched from. No other state's may.
5. A move that the table does not have changes nothing, and is no error: the event came too late to matter. So there is
   no way from INITIALIZING or AWAIT_VALIDATION back to INITIALIZING, and none from AWAIT_RESET to AWAIT_VALIDATION: a
   reset first finds a position (FETCHING), which may then need validation.
6. Entering a state that needs no position drops the one there was. Entering one that needs a position without having
   one is a mistake of ours and raises.

How a partition lives::

    assigned -> INITIALIZING -> AWAIT_VALIDATION -> FETCHING        (committed offset with a leader epoch)
                INITIALIZING -> FETCHING                            (committed offset without an epoch)
                INITIALIZING -> AWAIT_RESET -> FETCHING             (nothing committed)
    FETCHING -> AWAIT_RESET                                         (out of range, truncated, seek_to_beginning/end)
    FETCHING -> AWAIT_VALIDATION -> FETCHING                        (leader changed)
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

__all__ = ["RULES", "FetchState", "StateRule", "next_state"]


class FetchState(Enum):
    """Where a partition stands on its way to being fetched."""

    INITIALIZING = "INITIALIZING"
    FETCHING = "FETCHING"
    AWAIT_RESET = "AWAIT_RESET"
    AWAIT_VALIDATION = "AWAIT_VALIDATION"


class StateRule(NamedTuple):
    """What holds in one state: where it may go, whether it needs a position, whether that may be fetched from."""

    next_states: frozenset[FetchState]
    requires_position: bool
    has_valid_position: bool


_I, _F, _R, _V = FetchState.INITIALIZING, FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION

RULES: Final[dict[FetchState, StateRule]] = {
    _I: StateRule(frozenset((_F, _R, _V)), requires_position=False, has_valid_position=False),
    _F: StateRule(frozenset((_F, _R, _V)), requires_position=True, has_valid_position=True),
    _R: StateRule(frozenset((_F, _R)), requires_position=False, has_valid_position=False),
    _V: StateRule(frozenset((_F, _R, _V)), requires_position=True, has_valid_position=False),
}


def next_state(current: FetchState, wanted: FetchState) -> FetchState:
    """``wanted`` if the table allows it, else ``current`` (rule 5)."""
    return wanted if wanted in RULES[current].next_states else current
