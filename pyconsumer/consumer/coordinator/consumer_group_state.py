"""The table of states of a member of the consumer protocol (KIP-848), and its actions.

No I/O, no clock. Shared actions are in :mod:`.group_state`, the action for each error code in :mod:`.error_actions`.

States

1. The broker computes assignments, and members follow them. ``UNSUBSCRIBED`` -> ``JOINING`` (a heartbeat with epoch
   0) -> ``RECONCILING`` (it has an assignment to follow) -> ``ACKNOWLEDGING`` (it has followed) -> ``STABLE`` (the
   heartbeat that says so has left). A new assignment in ``STABLE`` or ``ACKNOWLEDGING`` leads to ``RECONCILING``.
2. ``FENCED``: the coordinator does not know the member, or not in this epoch. Its partitions are lost. When the
   listener has been notified, it joins again.
3. ``PREPARE_LEAVING``: it revokes its partitions in order to leave, and still sends heartbeats. ``LEAVING``: the
   heartbeat with which it leaves is next.
4. ``STALE``: it left because ``poll`` was not called in time. The next poll notifies the listener, and it joins again.
5. ``FATAL``: the coordinator refuses it permanently. Every poll raises the error. No event leads out of this state.
6. Heartbeats are sent in ``JOINING``, ``RECONCILING``, ``ACKNOWLEDGING``, ``STABLE`` and ``PREPARE_LEAVING``.

The table is the one of Java's ``MemberState`` in Apache Kafka 4.3. A test compares the two.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyconsumer.errors import IllegalStateError

__all__ = [
    "IN_GROUP",
    "NOTHING",
    "SENDING_HEARTBEATS",
    "TRANSITIONS",
    "ConsumerMemberState",
    "LocalAssignment",
    "Reconcile",
    "Release",
    "check_transition",
]


class ConsumerMemberState(enum.Enum):
    """The state of a member under the consumer protocol."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"
    PREPARE_LEAVING = "preparing to leave"
    LEAVING = "leaving"
    FATAL = "refused permanently"
    STALE = "stale"


_S = ConsumerMemberState
_MEMBERS: Final = frozenset((_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE))

#: State -> the states that may follow it. (A state may also follow itself: that is no move.)
TRANSITIONS: Final[Mapping[ConsumerMemberState, frozenset[ConsumerMemberState]]] = {
    _S.UNSUBSCRIBED: frozenset((_S.JOINING, _S.PREPARE_LEAVING, _S.FATAL)),
    _S.JOINING: frozenset((_S.RECONCILING, _S.STABLE, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL)),
    _S.RECONCILING: frozenset((_S.ACKNOWLEDGING, _S.STABLE, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL)),
    _S.ACKNOWLEDGING: frozenset((_S.RECONCILING, _S.STABLE, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL)),
    _S.STABLE: frozenset((_S.RECONCILING, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL)),
    _S.FENCED: frozenset((_S.JOINING, _S.UNSUBSCRIBED)),
    _S.PREPARE_LEAVING: frozenset((_S.LEAVING, _S.UNSUBSCRIBED, _S.FENCED, _S.FATAL)),
    _S.LEAVING: frozenset((_S.UNSUBSCRIBED, _S.STALE, _S.FENCED, _S.FATAL)),
    _S.STALE: frozenset((_S.JOINING,)),
    _S.FATAL: frozenset(),
}

#: States in which heartbeats are sent.
SENDING_HEARTBEATS: Final = _MEMBERS | {_S.PREPARE_LEAVING}

#: States in which the member belongs to the group, or is about to.
IN_GROUP: Final = _MEMBERS


def check_transition(before: ConsumerMemberState, after: ConsumerMemberState) -> None:
    """Check a change of state.

    Raises:
        IllegalStateError: the change is impossible. That is a bug in the caller.
    """
    if before is not after and after not in TRANSITIONS[before]:
        raise IllegalStateError(f"a member that is {before.value} cannot be {after.value} next")


class LocalAssignment(NamedTuple):
    """An assignment by topic id. The member numbers its assignments 0, 1, 2, ... in ``number``. -1 is none yet."""

    number: int
    partitions: Mapping[bytes, frozenset[int]]


NOTHING: Final = LocalAssignment(-1, {})


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Adopt the assignment ``target``: commit, call the listener, then call ``on_reconciled``.

    ``incarnation`` is the core's when the action was made.
    """

    incarnation: int
    target: LocalAssignment
    current: LocalAssignment


@dataclass(frozen=True, slots=True)
class Release:
    """Give up lost partitions: call the listener, drop them, then call ``on_released``."""

    incarnation: int
