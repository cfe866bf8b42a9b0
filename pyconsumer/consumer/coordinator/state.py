"""The states of a group member under the classic protocol (JoinGroup, SyncGroup), as a table. No I/O, no clock.

Rules

1. A member is somebody by its :class:`Generation`: the group's generation, its own member id, the assignor chosen.
   Every request names it; the coordinator refuses requests of a generation that is over.
2. ``UNJOINED`` -> ``PREPARING_REBALANCE`` when JoinGroup is sent, -> ``COMPLETING_REBALANCE`` when it is answered,
   -> ``STABLE`` when SyncGroup is answered. An answer counts only in the state that waits for it.
3. A failed step leads back to ``UNJOINED``. The generation survives that, unless the coordinator does not know it.
4. Losing the generation means having lost the partitions: the listener hears *lost*, not *revoked*.
   ILLEGAL_GENERATION takes the generation and leaves the member id, which may still be valid; UNKNOWN_MEMBER_ID, the
   end of ``max_poll_interval_ms`` and leaving take both.
5. Heartbeats are sent in ``COMPLETING_REBALANCE`` and ``STABLE``. Before, a parked JoinGroup tells that we live.
6. Offsets are committed in ``STABLE`` only, and not before the application knows its new partitions.
7. ``FENCED``: another process took our ``group_instance_id`` (KIP-345). Every poll raises; only leaving ends it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from pyconsumer.errors import IllegalStateError

__all__ = ["NO_GENERATION", "TRANSITIONS", "Event", "Generation", "MemberState", "next_state"]


class MemberState(enum.Enum):
    """Where a member stands in its group."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"
    FENCED = "fenced"


class Event(enum.Enum):
    """What changes a member's state."""

    JOIN_SENT = "JoinGroup sent"
    JOIN_ANSWERED = "JoinGroup answered"
    SYNC_ANSWERED = "SyncGroup answered"
    STEP_FAILED = "JoinGroup or SyncGroup failed"
    RESET = "generation lost"
    FENCED = "fenced"


class Generation(NamedTuple):
    """Who a member is: generation id (-1 for none), member id ("" for none), name of the chosen assignor."""

    generation_id: int = -1
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def joined(self) -> bool:
        """Whether it was given by a finished JoinGroup and not lost since."""
        return self.generation_id >= 0

    def __str__(self) -> str:
        return f"generation {self.generation_id} of member {self.member_id or '(none)'}"


NO_GENERATION: Final = Generation()

_S = MemberState
TRANSITIONS: Final[Mapping[Event, Mapping[MemberState, MemberState]]] = {
    Event.JOIN_SENT: {_S.UNJOINED: _S.PREPARING_REBALANCE, _S.STABLE: _S.PREPARING_REBALANCE},
    Event.JOIN_ANSWERED: {_S.PREPARING_REBALANCE: _S.COMPLETING_REBALANCE},
    Event.SYNC_ANSWERED: {_S.COMPLETING_REBALANCE: _S.STABLE},
    Event.STEP_FAILED: {_S.PREPARING_REBALANCE: _S.UNJOINED, _S.COMPLETING_REBALANCE: _S.UNJOINED},
    Event.RESET: dict.fromkeys(_S, _S.UNJOINED),
    Event.FENCED: dict.fromkeys(_S, _S.FENCED),
}
"""Event -> state -> next state; what is not in it cannot happen."""


def next_state(state: MemberState, event: Event) -> MemberState:
    """The state after an event.

    Raises:
        IllegalStateError: the event is impossible in that state, so there is a fault in the caller.
    """
    try:
        return TRANSITIONS[event][state]
    except KeyError:
        raise IllegalStateError(f"{event.value} is impossible for a member that is {state.value}") from None
