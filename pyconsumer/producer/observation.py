"""Sends that :data:`pyconsumer.telemetry.hooks` observe, around the steps of :mod:`.delegate`.

The caller has looked at ``hooks.active``: a producer that nobody observes runs the steps themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from pyconsumer.network.futures import Steps
from pyconsumer.producer.future_records import FutureRecords
from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.telemetry import Client, Sending, hooks

__all__ = ["observed_send", "observed_send_many"]


def observed_send(
    send_at_once: Callable[..., FutureRecordMetadata | None],
    send: Callable[..., Steps[FutureRecordMetadata]],
    client: Client,
    topic: str,
    value: Any,
    key: Any,
    headers: Any,
    partition: int | None,
    timestamp_ms: int | None,
) -> Steps[FutureRecordMetadata]:
    """Send a record, and tell of it and of its outcome.

    Args:
        send_at_once, send: the two ways to send. The first one returns None if the second one is needed.
        client, topic, value, key, headers, partition, timestamp_ms: the record.
    """
    active = hooks.active
    if active is None:
        return (yield from send(topic, value, key, headers, partition, timestamp_ms))
    if isinstance(headers, Iterator):
        headers = list(headers)  # they are read more than once
    sending = active.sending(client, topic, headers, key=key, tombstone=value is None, partition=partition)
    if sending is None or not sending.ends:
        if sending is not None:
            headers = sending.headers
        at_once = send_at_once(topic, value, key, headers, partition, timestamp_ms)
        return (yield from send(topic, value, key, headers, partition, timestamp_ms)) if at_once is None else at_once
    try:
        future = yield from send(topic, value, key, sending.headers, partition, timestamp_ms)
    except BaseException as error:
        sending.sent(error)
        raise
    FutureRecordMetadata.add_both(future, sending.sent)
    return future


def observed_send_many(
    send: Callable[[Any], Steps[FutureRecords]], client: Client, topic: str, count: int, *, carries: bool
) -> Steps[FutureRecords]:
    """Send many records, and tell of them and of the outcome of all.

    Args:
        send: sends them with the headers that it gets.
        client, topic: of the records.
        count: how many there are.
        carries: True if the headers are sent with each record.
    """
    active = hooks.active
    if active is None:
        return (yield from send(None))
    sending = active.sending_many(client, topic, count, carries=carries)
    if sending is None or not sending.ends:
        return (yield from send(None if sending is None else sending.headers))
    try:
        records = yield from send(sending.headers)
    except BaseException as error:
        sending.sent(error)
        raise
    _when_done(records, sending)
    return records


def _when_done(records: FutureRecords, sending: Sending) -> None:
    """End the observation when the last batch of the records has a result."""
    results = {id(result): result for result, _, _ in records.runs}
    lock = threading.Lock()
    waiting = len(results)
    if not waiting:
        sending.sent(None)

    def one_done() -> None:
        nonlocal waiting
        with lock:
            waiting -= 1
            is_last = not waiting
        if is_last:
            sending.sent(records.exception)

    for result in results.values():
        result.on_done(one_done)
