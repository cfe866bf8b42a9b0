"""``process_exactly_once``: the loop consume, transform, produce in transactions (KIP-98, KIP-447).

Rules:

1. One polled batch is one transaction: the records made of it and the positions behind it are committed together.
2. No transaction is open while ``poll`` runs. Partitions are only given up and taken over in ``poll``, so the next
   owner finds either all of a batch or none of it. A consumer that has been expelled in the meantime is refused
   by its group when it wants to commit.
3. After an abort the consumer goes back to the beginning of the batch, in the partitions that it still has.
4. A commit whose outcome is not known is repeated until it is.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.clock import seconds_of
from pyconsumer.errors import ConfigurationError, KafkaError, KafkaTimeoutError, TransactionAbortableError
from pyconsumer.generic import K, V

if TYPE_CHECKING:
    from pyconsumer.consumer.consumer import KafkaConsumer
    from pyconsumer.consumer.records import ConsumerRecords
    from pyconsumer.producer import KafkaProducer

__all__ = ["check_consumer", "process_exactly_once"]

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 10.0


def process_exactly_once(
    consumer: KafkaConsumer[K, V],
    producer: KafkaProducer[Any, Any],
    transform: Callable[[ConsumerRecords[K, V]], Iterable[tuple[Any, ...]]],
    *,
    stop: Callable[[], bool] = lambda: False,
    idle_ms: int | None = None,
    poll_timeout_ms: int = 1000,
    retries: int = 5,
) -> int:
    """Read, transform and write until ``stop`` returns True. Each record that is read has its effect exactly once.

    Args:
        consumer: a consumer with a subscription, a ``group_id``, ``isolation_level="read_committed"`` and
            ``enable_auto_commit=False``.
        producer: a producer with a ``transactional_id``, such as ``"invoices-0"``. No other producer may use this id at
            the same time, and the program must use it again after a restart. (With another id, readers would have to
            wait for ``transaction_timeout_ms`` after a crash. 10,000 is a good value for this setting.)
        transform: called once for each polled batch. It returns the records to send. Each is a tuple of arguments for
            :meth:`KafkaProducer.send`: ``(topic, value)`` or ``(topic, value, key)`` and so on. After a failure it may
            be called again with the same records. Its other effects are not undone.
        stop: called before each batch. If it returns True, the loop ends.
        idle_ms: the loop ends if no record arrives for this time. The time before the group has accepted the consumer
            does not count. None: the loop does not end in this way.
        poll_timeout_ms: the longest wait for a batch, in ms.
        retries: how often a batch is repeated if its transaction was aborted. The pauses in between grow.

    Returns:
        The number of records that were processed.

    Raises:
        ConfigurationError: a setting of the consumer or the producer is not as required above.
        ApplicationRecoverableError: another producer with this id has taken over. The batch is not committed. Close
            both clients.
        TransactionAbortableError: a batch failed more often than ``retries``. It is not committed.
        KafkaError, or an error of ``transform``: the transaction was aborted, and the consumer has gone back to the
        start of the batch.
    """
    _check(consumer, producer)
    idle = math.inf if idle_ms is None else seconds_of(idle_ms, "idle_ms")
    if not producer.is_initialized:
        producer.init_transactions()
    processed, failures = 0, 0
    last_record = time.monotonic()
    while not stop():
        records = consumer.poll(timeout_ms=poll_timeout_ms)
        if not records:
            if consumer.group_metadata().generation_id < 0:
                last_record = time.monotonic()
            if time.monotonic() - last_record > idle:
                break
            continue
        try:
            _process(consumer, producer, transform, records)
        except TransactionAbortableError as error:
            failures += 1
            if failures > retries:
                raise
            _log.warning("the transaction of a batch was aborted and is repeated: %s", error)
            time.sleep(min(_FIRST_PAUSE_S * 2 ** (failures - 1), _LONGEST_PAUSE_S))
        else:
            processed, failures = processed + records.count(), 0
        last_record = time.monotonic()
    return processed


def check_consumer(consumer: Any) -> None:
    """Check that a consumer's settings allow exactly once.

    Raises:
        ConfigurationError: they do not.
    """
    config = consumer.config
    if config.group_id is None:
        raise ConfigurationError("exactly once needs a consumer with a group_id, for its positions")
    if config.enable_auto_commit:
        raise ConfigurationError(
            "exactly once needs enable_auto_commit=False: positions are committed with the transactions"
        )
    if config.isolation_level != "read_committed":
        raise ConfigurationError(
            'exactly once needs isolation_level="read_committed", or the consumer reads aborted records'
        )


def _check(consumer: KafkaConsumer[K, V], producer: KafkaProducer[Any, Any]) -> None:
    check_consumer(consumer)
    if producer.config.transactional_id is None:
        raise ConfigurationError("exactly once needs a producer with a transactional_id")


def _process(
    consumer: KafkaConsumer[K, V],
    producer: KafkaProducer[Any, Any],
    transform: Callable[[ConsumerRecords[K, V]], Iterable[tuple[Any, ...]]],
    records: ConsumerRecords[K, V],
) -> None:
    """Process one batch in one transaction. After a failure go back."""
    try:
        producer.begin_transaction()
        try:
            for item in transform(records):
                producer.send(*item)
            producer.send_offsets_to_transaction(records.next_offsets(), consumer.group_metadata())
        except BaseException:
            _abort(producer)
            raise
        _commit(producer)
    except BaseException:
        _go_back(consumer, records)
        raise


def _commit(producer: KafkaProducer[Any, Any]) -> None:
    """Commit. A commit that takes too long is waited for once more, and then given up together with its producer."""
    try:
        try:
            producer.commit_transaction()
        except KafkaTimeoutError as error:
            _log.warning("the outcome of a commit is not known yet: %s", error)
            producer.commit_transaction()
    except TransactionAbortableError:
        _abort(producer)
        raise


def _abort(producer: KafkaProducer[Any, Any]) -> None:
    """Abort. A failure is logged, since the reason for the abort is the error to raise."""
    try:
        producer.abort_transaction()
    except KafkaError as error:
        _log.info("the transaction could not be aborted by the producer: %s", error)


def _go_back(consumer: KafkaConsumer[K, V], records: ConsumerRecords[K, V]) -> None:
    owned = consumer.assignment()
    for tp, found in records.items():
        if tp in owned and found:
            try:
                consumer.seek(tp, found[0].offset)
            except KafkaError as error:  # it was lost in this moment: whoever has it begins at what is committed
                _log.info("%s is not read again here: %s", tp, error)
