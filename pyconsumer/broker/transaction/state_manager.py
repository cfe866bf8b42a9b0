"""All transactional ids of one broker: loading, unloading, writing, timeouts, expiry.

A transactional id belongs to a partition of ``__transaction_state``. The leader of that partition is its coordinator,
and the partition's leader epoch is the coordinator epoch. A partition is first loading, then served. If its load fails,
its ids have no coordinator until the leader changes again. While it is loading, requests for its ids get
COORDINATOR_LOAD_IN_PROGRESS. A load ends when all in-sync replicas have every record that was read, so that no request
is served by a record that may still be lost. (Kafka serves everything in the leader's own log.) A transition that was
prepared in one coordinator epoch never takes effect in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.common.load_steps import PAUSE_S, read_step
from pyconsumer.broker.group.common.offset_records import partition_for
from pyconsumer.broker.group.common.storage import GroupStorage, StoreResult, from_append
from pyconsumer.broker.timer import Timer, TimerHandle
from pyconsumer.broker.transaction.config import TransactionConfig
from pyconsumer.broker.transaction.metadata import (
    IDLE_STATES,
    TransactionMetadata,
    TransactionRecord,
    TransactionState,
)
from pyconsumer.broker.transaction.records import metadata_from_value, state_record, tombstone
from pyconsumer.clock import Clock
from pyconsumer.errors import Errors, ProtocolError, error_name
from pyconsumer.protocol.records import SimpleRecord
from pyconsumer.protocol.transaction_topic import decode_key

__all__ = ["FoundTransaction", "TransactionStateManager"]

_log = Log(__name__)


class FoundTransaction(NamedTuple):
    """The result of ``find``: an error code, or the coordinator epoch and the id's state (None if it is unknown)."""

    error_code: int
    coordinator_epoch: int = -1
    metadata: TransactionMetadata | None = None


@dataclass(slots=True)
class _Partition:
    """A partition of ``__transaction_state`` that this broker leads: loading, served, or failed."""

    epoch: int
    #: The unread part of its log, while it is loading.
    pieces: Iterator[bytes | memoryview] | None = None
    ids: dict[str, TransactionMetadata] = field(default_factory=dict)
    task: TimerHandle | None = None
    failed: bool = False

    def schedule(self, task: TimerHandle) -> None:
        """Keep the handle of the next step of the load."""
        self.task = task

    def end_load(self, *, failed: bool = False) -> None:
        """End the load: serve the ids, or forget them if the load failed."""
        self.pieces, self.failed = None, failed
        if failed:
            self.ids.clear()

    def cancel(self) -> None:
        """Stop loading."""
        if self.task is not None:
            self.task.cancel()


class TransactionStateManager:
    """The states of all transactional ids of one broker.

    Args:
        storage: the internal topic ``__transaction_state``.
        version: returns the cluster's transaction version, which decides the format of records.
    """

    def __init__(
        self, config: TransactionConfig, storage: GroupStorage, timer: Timer, clock: Clock, version: Callable[[], int]
    ) -> None:
        self.config = config
        self._storage = storage
        self._timer = timer
        self._clock = clock
        self._version = version
        self._partitions: dict[int, _Partition] = {}
        self._partition_count = 0

    # --- lookup

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of ``__transaction_state`` for an id. If the topic does not exist, it is created.

        Raises:
            CoordinatorNotAvailableError: the topic cannot be created, because too few brokers are alive.
        """
        if self._partition_count == 0:
            self._partition_count = self._storage.partition_count()
        return partition_for(transactional_id, self._partition_count)

    def find(self, transactional_id: str) -> FoundTransaction:
        """Look up an id.

        If this broker does not serve it, the error is NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
        """
        partition = self._partitions.get(self.partition_for(transactional_id))
        if partition is None or partition.failed:
            return FoundTransaction(Errors.NOT_COORDINATOR)
        if partition.pieces is not None:
            return FoundTransaction(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        return FoundTransaction(Errors.NONE, partition.epoch, partition.ids.get(transactional_id))

    def add(self, metadata: TransactionMetadata) -> None:
        """Add an id that :meth:`find` did not know."""
        self._partitions[self.partition_for(metadata.transactional_id)].ids[metadata.transactional_id] = metadata

    def all(self) -> tuple[int, list[TransactionMetadata]]:
        """Return all ids that are served. While a partition is loading, return COORDINATOR_LOAD_IN_PROGRESS."""
        if any(partition.pieces is not None for partition in self._partitions.values()):
            return Errors.COORDINATOR_LOAD_IN_PROGRESS, []
        return Errors.NONE, [one for partition in self._partitions.values() for one in partition.ids.values()]

    # --- loading and unloading

    def load(self, number: int, epoch: int, on_loaded: Callable[[int, list[TransactionMetadata]], None]) -> None:
        """Load a partition that this broker now leads. Afterwards serve its ids.

        Args:
            epoch: the leader epoch. It becomes the coordinator epoch. If a newer epoch is known, the call has no
                effect.
            on_loaded: called with the epoch and the ids, before requests are served.
        """
        known = self._partitions.get(number)
        if known is not None:
            if epoch < known.epoch:
                return
            known.cancel()
        partition = self._partitions[number] = _Partition(epoch, self._storage.read(number))
        _log.info("Loading __transaction_state-%d at epoch %d", number, epoch)
        partition.schedule(self._timer.schedule(self._clock.now(), lambda: self._load(number, partition, on_loaded)))

    def _load(
        self, number: int, partition: _Partition, on_loaded: Callable[[int, list[TransactionMetadata]], None]
    ) -> None:
        if partition.pieces is None or self._partitions.get(number) is not partition:
            return
        try:
            most = self.config.transaction_state_log_load_buffer_size
            if read_step(partition.pieces, self._clock, most, partial(self._take, number, partition)):
                at = self._clock.now() + PAUSE_S
                partition.schedule(self._timer.schedule(at, lambda: self._load(number, partition, on_loaded)))
                return
        except Exception:
            _log.exception(
                "Loading __transaction_state-%d failed; its ids have no coordinator until the leader changes", number
            )
            partition.end_load(failed=True)
            return
        partition.end_load()
        _log.info("Loaded __transaction_state-%d: %d transactional ids", number, len(partition.ids))
        on_loaded(partition.epoch, list(partition.ids.values()))

    @staticmethod
    def _take(number: int, partition: _Partition, record: SimpleRecord) -> None:
        transactional_id = decode_key(record.key or b"")
        if transactional_id is None:
            _log.warning("__transaction_state-%d: skipped a record of unknown type at offset %d", number, record.offset)
        elif record.value is None:
            partition.ids.pop(transactional_id, None)
        else:
            try:
                partition.ids[transactional_id] = metadata_from_value(transactional_id, record.value)
            except ProtocolError as error:
                where = f"__transaction_state-{number} at offset {record.offset}"
                raise ProtocolError(f"{where}: {error}") from error

    def unload(self, number: int, epoch: int | None) -> list[TransactionMetadata]:
        """Forget the ids of a partition that this broker no longer leads. Return these ids.

        Args:
            epoch: the new leader epoch. If a newer epoch is known, the call has no effect. None always has an effect.
        """
        partition = self._partitions.get(number)
        if partition is None or (epoch is not None and epoch < partition.epoch):
            return []
        del self._partitions[number]
        partition.cancel()
        _log.info("Unloaded __transaction_state-%d: %d transactional ids", number, len(partition.ids))
        unloaded = list(partition.ids.values())
        for metadata in unloaded:
            metadata.wake(all_waiters=True)
        return unloaded

    def shutdown(self) -> None:
        """Stop loading, and stop serving ids."""
        for number in list(self._partitions):
            self.unload(number, None)

    # --- writing

    def is_current(self, transactional_id: str, epoch: int, metadata: TransactionMetadata) -> bool:
        """Return whether an id is still served in the same coordinator epoch."""
        found = self.find(transactional_id)
        return found.coordinator_epoch == epoch and found.metadata is metadata

    def write(self, metadata: TransactionMetadata, epoch: int, record: TransactionRecord) -> Deferred[int]:
        """Write a prepared transition to the log. It takes effect when all in-sync replicas have it.

        Args:
            epoch: the coordinator epoch in which the transition was prepared.

        Returns:
            An error code for the client. After an error the transition is cancelled.
        """
        transactional_id = metadata.transactional_id
        if not self.is_current(transactional_id, epoch, metadata):
            metadata.cancel()
            return Deferred.of(Errors.NOT_COORDINATOR)
        written: Deferred[int] = Deferred()

        def on_appended(result: StoreResult) -> None:
            error_code = from_append(result.error_code)
            if not self.is_current(transactional_id, epoch, metadata):
                error_code = Errors.NOT_COORDINATOR
            if error_code == Errors.NONE:
                metadata.complete(record)
            else:
                _log.info("%r: %s could not be written: %s", metadata, record.state.name, error_name(error_code))
                metadata.cancel()
            written.set(error_code)
            metadata.wake()

        entry = state_record(transactional_id, record, self._version())
        number = self.partition_for(transactional_id)
        self._storage.append(number, [entry], self._clock.wall_ms()).on_done(on_appended)
        return written

    # --- timeouts and expiry

    def timed_out(self) -> list[tuple[int, TransactionMetadata]]:
        """Return the transactions that are open for longer than their timeout, each with its coordinator epoch."""
        now_ms = self._clock.wall_ms()
        return [
            (partition.epoch, one)
            for partition in self._served()
            for one in partition.ids.values()
            if one.state is TransactionState.ONGOING
            and one.pending_state is None
            and one.record.start_ms + one.record.timeout_ms < now_ms
        ]

    def expire(self) -> None:
        """Remove ids that were not used for ``transactional.id.expiration.ms``. This writes tombstones to the log."""
        limit = self._clock.wall_ms() - self.config.transactional_id_expiration_ms
        for number, partition in list(self._partitions.items()):
            if partition.pieces is not None or partition.failed:
                continue
            idle = [
                one
                for one in partition.ids.values()
                if one.state in IDLE_STATES and one.pending_state is None and one.record.last_update_ms <= limit
            ]
            for start in range(0, len(idle), 1000):
                self._remove(number, partition, idle[start : start + 1000])

    def _remove(self, number: int, partition: _Partition, idle: list[TransactionMetadata]) -> None:
        for one in idle:
            one.prepare_dead()

        def on_appended(result: StoreResult) -> None:
            current = self._partitions.get(number) is partition
            for one in idle:
                if result.error_code == Errors.NONE and current:
                    partition.ids.pop(one.transactional_id, None)
                    one.wake(all_waiters=True)
                else:
                    one.cancel()
                    one.wake()

        records = [tombstone(one.transactional_id) for one in idle]
        self._storage.append(number, records, self._clock.wall_ms()).on_done(on_appended)

    def _served(self) -> Iterable[_Partition]:
        return [partition for partition in self._partitions.values() if partition.pieces is None]
