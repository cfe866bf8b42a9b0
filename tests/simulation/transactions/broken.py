"""Rules broken on purpose. The simulation must notice each of them."""

from __future__ import annotations

from typing import Any

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.transaction.coordinator import EndResult
from pyconsumer.producer.transaction_manager import TransactionManager

RULES = {
    "no-fencing": "a new producer does not end the transaction of the one before",
    "no-markers-after-move": "a coordinator does not end the transactions that it finds prepared",
    "no-verification": "leaders let a late batch open a transaction that nobody will end",
    "no-pending": "offsets of an open transaction are visible at once",
    "no-waiting": "the producer ends a transaction before its batches are acknowledged",
    "no-timeout": "a transaction that has been left is never aborted",
    "no-epoch-check": "the coordinator accepts producers that were fenced",
}

CASES = [(rule, version) for rule in RULES for version in (0, 1, 2)]


def break_broker(broker: Broker, rule: str | None) -> None:
    """Let one broker break a rule."""
    coordinator = broker.transaction_coordinator
    if rule == "no-fencing":
        coordinator._fence = lambda metadata, epoch: Deferred.of(EndResult(0))  # type: ignore[method-assign]
    elif rule == "no-markers-after-move":
        coordinator._on_loaded = lambda epoch, loaded: None  # type: ignore[method-assign]
    elif rule == "no-timeout":
        coordinator._manager.timed_out = list  # type: ignore[method-assign]
    elif rule == "no-epoch-check":
        _forgive(coordinator)
    elif rule == "no-pending":
        groups = broker.group_coordinator
        store = groups._store_offsets

        def visible(group: Any, offsets: Any, member_id: str, **producer: Any) -> Any:
            return store(group, offsets, member_id)

        groups._store_offsets = visible  # type: ignore[method-assign]


def _forgive(coordinator: Any) -> None:
    check, check_end, check_old = coordinator._check_producer, coordinator._check_end, coordinator._check_old_end

    def known(transactional_id: str, producer_id: int, producer_epoch: int) -> Any:
        metadata = coordinator._find(transactional_id)[2]
        return check(transactional_id, producer_id, metadata.record.producer_epoch if metadata else producer_epoch)

    coordinator._check_producer = known
    coordinator._check_end = lambda metadata, number, epoch, commit: check_end(
        metadata, number, metadata.record.producer_epoch, commit=commit
    )
    coordinator._check_old_end = lambda metadata, number, epoch, commit: check_old(
        metadata, number, metadata.record.producer_epoch, commit=commit
    )


def break_manager(manager: TransactionManager, rule: str | None) -> None:
    """Let one producer break a rule."""
    if rule == "no-waiting":
        next_request = manager.next_request
        manager.next_request = lambda now, has_incomplete: next_request(now, has_incomplete=False)  # type: ignore[method-assign]
