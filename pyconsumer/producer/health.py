"""``health()`` of a producer. Any thread reads while the producer works, so nothing takes a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyconsumer.log_fields import shown_error

if TYPE_CHECKING:
    from pyconsumer.metrics.health import ProducerHealth
    from pyconsumer.producer.delegate import ProducerDelegate

__all__ = ["producer_health"]


def producer_health(delegate: ProducerDelegate) -> ProducerHealth:
    """Return the state of a producer. See :meth:`pyconsumer.KafkaProducer.health`."""
    from pyconsumer.metrics.health import ProducerHealth

    now = delegate.clock.now()
    config, client, sender, accumulator = delegate.config, delegate.client, delegate.sender, delegate.accumulator
    waiting = accumulator.oldest_by_partition()
    missing, since = None, now
    for tp, _ in waiting:
        leader = delegate.metadata.leader(tp)
        down = sender.leaderless.get(tp) if leader is None else client.unreachable_since(leader.leader)
        if down is not None and down < since:
            missing, since = f"the leader of {tp}" + ("" if leader is None else f", node {leader.leader}"), down
    if missing is None and not client.ready_nodes():
        down = client.unreachable_since(None)
        if down is not None:
            missing, since = "any broker", down
    oldest = min(waiting, key=lambda one: one[1], default=None)
    sent_at = sender.counters.last_used_at if sender.counters.batches else None
    return ProducerHealth(
        client_id=config.client_id,
        transactional_id=config.transactional_id,
        closed=delegate.closed,
        forked=delegate.forked,
        is_running=delegate.thread.is_alive() and sender.failure is None,
        connected_nodes=client.ready_nodes(),
        buffered_bytes=accumulator.memory.used,
        buffer_limit=accumulator.memory.limit,
        waiting_calls=len(accumulator.calls_for_memory),
        in_flight=client.in_flight(),
        oldest_s=None if oldest is None else max(0.0, now - oldest[1]),
        since_send_s=None if sent_at is None else max(0.0, now - sent_at),
        waits_for=missing if oldest is not None and missing else None if oldest is None else f"{oldest[0]}",
        missing=missing,
        missing_s=max(0.0, now - since),
        last_error=shown_error(sender.failure or client.last_error),
    )
