"""``ProducerRecord``: a record that a function returns, for the workers to send.

Rules

1. A function returns None, a :class:`ProducerRecord`, or several of them: a list, a tuple, or a generator. Another
   value is an error of the attempt. Without a ``producer`` the value is ignored.
2. At least once: the record that was processed counts as finished when the broker has acknowledged all its results. If
   one cannot be sent, the attempt has failed. So a repetition may send results again.
3. The next record of the same key or partition begins after that. So results of a key are sent in the order of its
   records.
4. With ``exactly_once`` results wait for a transaction (:mod:`.transactions`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyconsumer.errors import ConfigurationError

if TYPE_CHECKING:
    from pyconsumer.workers.dead_letters import DeadLetters

__all__ = ["ProducerRecord", "check_producer", "records_of", "send_to"]


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record to send. A function of :class:`pyconsumer.workers.Workers` returns one or several of them.

    The arguments are those of :meth:`pyconsumer.KafkaProducer.send`.

    Args:
        topic: name of the topic.
        value, key: objects for the producer's serializers. Without serializers bytes, str or None.
        headers: pairs of a name, and bytes or None.
        partition: number of the partition. By default the partitioner chooses.
        timestamp_ms: ms since the epoch. By default the time when it is sent.

    Example::

        def handle(record):
            return ProducerRecord("invoices", b"paid", key=record.key)
    """

    topic: str
    value: Any = None
    key: Any = None
    headers: Sequence[tuple[str, bytes | None]] | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


def records_of(result: object) -> list[ProducerRecord]:
    """Return the records that a function has returned.

    Args:
        result: the function's value (rule 1).

    Raises:
        TypeError: it is another value.
    """
    if result is None:
        return []
    if isinstance(result, ProducerRecord):
        return [result]
    if isinstance(result, Iterable) and not isinstance(result, str | bytes):
        found = list(result)
        if all(isinstance(one, ProducerRecord) for one in found):
            return found
    # The value itself may be secret, or have no text.
    kind = type(result).__qualname__
    raise TypeError(f"the function must return None, a ProducerRecord or a list of them, not {kind}")


def send_to(producer: Any, record: ProducerRecord) -> Any:
    """Send a record. The result is that of the producer's ``send``."""
    return producer.send(
        record.topic,
        record.value,
        key=record.key,
        headers=record.headers,
        partition=record.partition,
        timestamp_ms=record.timestamp_ms,
    )


def check_producer(producer: Any, dead_letters: DeadLetters | None, *, on_loop: bool, exactly_once: bool) -> None:
    """Check the producer of workers.

    Args:
        producer: the one for results, None for none.
        dead_letters: those of the workers.
        on_loop: True for ``AsyncWorkers``.
        exactly_once: as for the workers.

    Raises:
        ConfigurationError: it does not fit.
    """
    if producer is not None and not hasattr(getattr(producer, "config", None), "acks"):
        wanted = "an AsyncKafkaProducer" if on_loop else "a KafkaProducer"
        raise ConfigurationError(f"the producer of these workers must be {wanted}, not {producer!r}")
    if exactly_once:
        if producer is None or producer.config.transactional_id is None:
            raise ConfigurationError("exactly_once needs a producer with a transactional_id")
        if dead_letters is not None and dead_letters.producer is not producer:
            raise ConfigurationError(
                "with exactly_once, dead letters need the same producer as the workers: they are sent in the "
                "transaction of the record's offset"
            )
    elif dead_letters is not None and dead_letters.is_transactional:
        raise ConfigurationError("dead letters need a producer without a transactional_id, except with exactly_once")
    if producer is None:
        return
    if inspect.iscoroutinefunction(producer.send) != on_loop:
        wanted = "an AsyncKafkaProducer" if on_loop else "a KafkaProducer"
        raise ConfigurationError(f"these workers need {wanted}, not {producer!r}")
    if producer.config.acks not in (-1, "all"):
        raise ConfigurationError(
            f'workers need a producer with acks="all", not {producer.config.acks!r}: a record counts as finished when '
            "its results are safe"
        )
    if producer.config.transactional_id is not None and not exactly_once:
        raise ConfigurationError("a producer with a transactional_id needs exactly_once=True")
