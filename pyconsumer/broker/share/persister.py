"""The way of leaders and group coordinators to share coordinators, which may be on other brokers (KIP-932).

As in replication, the brokers of a cluster call each other directly, in one process. While a share partition has no
coordinator, because its leader changes or is still loading, the call is tried again with growing pauses, for about five
seconds. A repeated change changes nothing. Only a state that is begun once more loses what came in between. So the
caller of :meth:`Persister.initialize` says whether it still wants that. This module has no state of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from pyconsumer.background_log import Log
from pyconsumer.broker.controller import SHARE_STATE_TOPIC
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.internal_topic import LocalBroker
from pyconsumer.broker.share.coordinator import ShareCoordinator, StateResult
from pyconsumer.broker.share.state import StateChange
from pyconsumer.errors import BrokerResponseError, Errors, KafkaError
from pyconsumer.protocol.share_state_topic import ShareStateKey

__all__ = ["Persister", "SharingBroker"]

_log = Log(__name__)

_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 1.0
_ATTEMPTS: Final = 12
_TRIED_AGAIN: Final = frozenset(
    {Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE, Errors.COORDINATOR_LOAD_IN_PROGRESS}
)


class SharingBroker(LocalBroker, Protocol):
    """The part of a broker that the persister needs."""

    @property
    def share_coordinator(self) -> ShareCoordinator: ...


class Persister:
    """The share coordinators of a cluster, as one of its brokers sees them.

    Args:
        peers: all live brokers by node id, including this one.
    """

    def __init__(self, broker: SharingBroker, peers: Mapping[int, SharingBroker]) -> None:
        self._broker = broker
        self._peers = peers

    def initialize(
        self, key: ShareStateKey, state_epoch: int, start_offset: int, wanted: Callable[[], bool] = lambda: True
    ) -> Deferred[StateResult]:
        """Replace the state of a share partition by a new one. See :meth:`ShareCoordinator.initialize`.

        Args:
            wanted: asked before each attempt. If it returns False, the result is NOT_COORDINATOR.
        """
        return self._call(key, lambda one: one.initialize(key, state_epoch, start_offset), wanted)

    def read(self, key: ShareStateKey, leader_epoch: int) -> Deferred[StateResult]:
        """Read the state of a share partition, as its leader."""
        return self._call(key, lambda one: one.read(key, leader_epoch))

    def write(self, key: ShareStateKey, change: StateChange) -> Deferred[StateResult]:
        """Write a change of a share partition, as its leader."""
        return self._call(key, lambda one: one.write(key, change))

    def read_summary(self, key: ShareStateKey) -> Deferred[StateResult]:
        """Read where a share partition begins."""
        return self._call(key, lambda one: Deferred.of(one.read_summary(key)))

    def delete(self, key: ShareStateKey) -> Deferred[StateResult]:
        """Delete the state of a share partition."""
        return self._call(key, lambda one: one.delete(key))

    def _call(
        self,
        key: ShareStateKey,
        work: Callable[[ShareCoordinator], Deferred[StateResult]],
        wanted: Callable[[], bool] = lambda: True,
    ) -> Deferred[StateResult]:
        done: Deferred[StateResult] = Deferred()
        self._try(key, work, wanted, done, 1, _FIRST_PAUSE_S)
        return done

    def _try(
        self,
        key: ShareStateKey,
        work: Callable[[ShareCoordinator], Deferred[StateResult]],
        wanted: Callable[[], bool],
        done: Deferred[StateResult],
        attempt: int,
        pause_s: float,
    ) -> None:
        if not wanted():
            done.set(StateResult(Errors.NOT_COORDINATOR))
            return

        def on_result(result: StateResult) -> None:
            if result.error_code in _TRIED_AGAIN and attempt < _ATTEMPTS:
                again = partial(self._try, key, work, wanted, done, attempt + 1, min(2 * pause_s, _LONGEST_PAUSE_S))
                self._broker.timer.schedule(self._broker.clock.now() + pause_s, again)
            else:
                done.set(result)

        try:
            result = work(self._coordinator(key))
        except BrokerResponseError as error:
            on_result(StateResult(error.errno, str(error)))
        except (OSError, KafkaError) as error:
            _log.error("the share coordinator of %s could not be asked: %s", key, error)
            on_result(StateResult(Errors.COORDINATOR_NOT_AVAILABLE))
        else:
            result.on_done(on_result)

    def _coordinator(self, key: ShareStateKey) -> ShareCoordinator:
        own = self._broker.share_coordinator
        number = own.partition_for(key)
        topic = self._broker.controller.topics.get(SHARE_STATE_TOPIC)
        leader = -1 if topic is None else topic.partitions[number].leader
        peer = self._peers.get(leader)
        return own if peer is None else peer.share_coordinator
