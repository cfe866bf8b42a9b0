"""The states of share partitions, as a group coordinator sees them: calls of the persister. No state of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.share.states import StateSummary
from pyconsumer.broker.share.coordinator import StateResult
from pyconsumer.broker.share.partitions import SharedBroker, SharePartitions
from pyconsumer.broker.share.persister import Persister
from pyconsumer.broker.share.state import NO_OFFSET
from pyconsumer.errors import BrokerResponseError, Errors
from pyconsumer.protocol.share_state_topic import ShareStateKey

__all__ = ["GroupShareStates"]

_NO_COORDINATOR: Final = frozenset({Errors.NOT_COORDINATOR, Errors.COORDINATOR_LOAD_IN_PROGRESS})


class StatesBroker(SharedBroker, Protocol):
    """The part of a broker that this module needs."""

    @property
    def share_states(self) -> Persister: ...

    @property
    def share_partitions(self) -> SharePartitions: ...


class GroupShareStates:
    """Implements :class:`~pyconsumer.broker.group.share.states.ShareStates` for one broker.

    Before and after a state is replaced or deleted, the leaders forget it. See :mod:`.partitions`.

    Args:
        peers: all live brokers by node id, including this one.
    """

    def __init__(self, broker: StatesBroker, peers: Mapping[int, StatesBroker]) -> None:
        self._broker = broker
        self._peers = peers

    def initialize(
        self, group_id: str, topic_id: bytes, partition: int, state_epoch: int, start_offset: int
    ) -> Deferred[int]:
        """Replace the state of a share partition by a new one."""
        key = ShareStateKey(group_id, topic_id, partition)
        return self._replaced(key, lambda: self._broker.share_states.initialize(key, state_epoch, start_offset))

    def delete(self, group_id: str, topic_id: bytes, partition: int) -> Deferred[int]:
        """Delete the state of a share partition."""
        key = ShareStateKey(group_id, topic_id, partition)
        return self._replaced(key, lambda: self._broker.share_states.delete(key))

    def _replaced(self, key: ShareStateKey, call: Callable[[], Deferred[StateResult]]) -> Deferred[int]:
        """Replace or delete a state. Return the error code."""
        done: Deferred[int] = Deferred()

        def on_result(result: StateResult) -> None:
            self._forget(key)
            done.set(_mapped(result.error_code))

        self._forget(key)
        call().on_done(on_result)
        return done

    def _forget(self, key: ShareStateKey) -> None:
        for peer in tuple(self._peers.values()):
            peer.share_partitions.forget(key)

    def summary(self, group_id: str, topic_id: bytes, partition: int) -> Deferred[StateSummary]:
        """Read where a share partition begins, and how many records come after."""
        done: Deferred[StateSummary] = Deferred()

        def on_read(result: StateResult) -> None:
            state = result.state
            if state is None or result.error_code != Errors.NONE:
                done.set(StateSummary(_mapped(result.error_code), result.error_message))
                return
            end = -1 if state.start_offset == NO_OFFSET else self._end_of(topic_id, partition)
            done.set(StateSummary(0, None, state.start_offset, state.leader_epoch, state.complete_count, end))

        key = ShareStateKey(group_id, topic_id, partition)
        self._broker.share_states.read_summary(key).on_done(on_read)
        return done

    def _end_of(self, topic_id: bytes, partition: int) -> int:
        """Return the high watermark of a partition, or -1 if it has no leader now."""
        name = self._broker.topic_name(topic_id)
        if name is None:
            return -1
        leader = self._broker.controller.topics[name].partitions[partition].leader
        try:
            return self._peers[leader].partition(name, partition).high_watermark
        except (KeyError, BrokerResponseError):
            return -1


def _mapped(code: int) -> int:
    return Errors.COORDINATOR_NOT_AVAILABLE if code in _NO_COORDINATOR else code
