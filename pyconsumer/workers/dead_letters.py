"""``DeadLetters``: records that failed go to a topic, with the reason in their headers.

Rules

1. A record counts as finished only when the broker has acknowledged its dead letter. So the producer must wait for all
   replicas (``acks="all"``).
2. Key and value are the bytes that came, also if the consumer has deserializers. The record's own headers come first.
   Headers of an earlier dead letter are not among them.
3. The headers are those of :data:`HEADERS`. The text of the exception is cut after 1,000 bytes.
4. A letter that cannot be sent is tried again (``attempts``). Then the error goes to the caller.
5. A consumer that has it as ``on_record_error`` does not wait for the broker in its own thread. It begins the delivery
   (:meth:`DeadLetters.begin`), and its poll waits until its deadline. The position stays meanwhile.
6. With a transactional producer, letters are sent by the workers, in the transaction of the record's offset.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import Future
from typing import Any, Final

from pyconsumer.background_log import background
from pyconsumer.clock import SystemClock
from pyconsumer.consumer.interface import DeadLetterSink
from pyconsumer.errors import ConfigurationError, KafkaError, LastDeliveryError, RecordDeserializationError
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.workers.settings import check_count

__all__ = ["HEADERS", "DeadLetters", "Letter", "safe_text"]

#: Headers of a dead letter, with the values as UTF-8 text.
HEADERS: Final = {
    "dead-letter.topic": "the topic that the record came from",
    "dead-letter.partition": "its partition",
    "dead-letter.offset": "its offset",
    "dead-letter.timestamp": "its timestamp, in ms since 1970",
    "dead-letter.attempts": "how often the function was called for it, 0 if it could not be deserialized",
    "dead-letter.first-failure": "the time of the first failure, in ms since 1970",
    "dead-letter.error-type": "the class of the last exception, with its module",
    "dead-letter.error": "the text of the last exception, at most 1,000 bytes",
}

_MOST_TEXT_BYTES: Final = 1_000

Letter = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Key, value and headers of a dead letter."""


def safe_text(error: BaseException) -> str:
    """Return the text of an exception, which may be of a class that makes none."""
    try:
        return str(error)
    except Exception as failure:
        return f"(no text: {type(failure).__name__})"


class DeadLetters(DeadLetterSink):
    """Sends records that failed to a topic.

    Use it for :class:`pyconsumer.workers.Workers`, or as ``on_record_error`` of a consumer, for records that cannot be
    deserialized::

        KafkaConsumer("orders", on_record_error=DeadLetters(producer, "orders.dead"), ...)

    Args:
        producer: a ``KafkaProducer``. In an event loop an ``AsyncKafkaProducer``, for ``AsyncWorkers`` and for an
            ``AsyncKafkaConsumer``. It has ``acks="all"`` and no serializers. It has no ``transactional_id``, except for
            workers with ``exactly_once``, whose producer it is then. You close it, after the workers or the consumer.
        topic: the topic for dead letters.
        attempts: how often a letter is sent whose sending fails. Each lasts up to the producer's
            ``delivery_timeout_ms``.

    Raises:
        ConfigurationError: the producer has other settings, or ``attempts`` is less than 1.
    """

    def __init__(self, producer: Any, topic: str, *, attempts: int = 3) -> None:
        config: Any = getattr(producer, "config", None)
        if not hasattr(config, "acks"):
            raise ConfigurationError(f"dead letters need a KafkaProducer or an AsyncKafkaProducer, not {producer!r}")
        if config.acks not in (-1, "all"):
            raise ConfigurationError(
                f'dead letters need a producer with acks="all", not {config.acks!r}: a record counts as finished when '
                "its letter is safe"
            )
        if config.key_serializer is not None or config.value_serializer is not None:
            raise ConfigurationError("dead letters need a producer without serializers: they have the bytes that came")
        if not isinstance(topic, str) or not topic:
            raise ConfigurationError(f"the topic for dead letters must be a name, not {topic!r}")
        self.producer = producer
        self.topic = topic
        #: True if the producer is for an event loop.
        self.is_async = inspect.iscoroutinefunction(producer.send)
        #: True if letters are sent in transactions.
        self.is_transactional = config.transactional_id is not None
        self.attempts = check_count(attempts, "attempts")
        self._tasks: set[asyncio.Task[None]] = set()  # which a loop alone does not keep

    def check_consumer(self, on_loop: bool) -> None:
        """Check that a consumer can use this as ``on_record_error``. Consumers call it when they are made.

        Args:
            on_loop: True for an ``AsyncKafkaConsumer``.

        Raises:
            ConfigurationError: the producer is for an event loop and the consumer is not, or it has a
                ``transactional_id``.
        """
        if self.is_async and not on_loop:
            raise ConfigurationError(
                "the dead letters of a KafkaConsumer need a KafkaProducer, as it has no event loop"
            )
        if self.is_transactional:
            raise ConfigurationError("the dead letters of a consumer need a producer without a transactional_id")

    def begin(self, error: RecordDeserializationError, /) -> Future[None]:
        """Begin to send a record that could not be deserialized.

        Args:
            error: has the record's bytes.

        Returns:
            A future that is done when the broker has acknowledged the letter. It has the error if that failed.
        """
        return self.begin_letter(self.of_error(error, SystemClock().wall_ms()))

    def begin_letter(self, letter: Letter) -> Future[None]:
        """Begin to send a letter. The future is that of :meth:`begin`."""
        sent = Future[None]()
        if self.is_async:
            task = asyncio.get_running_loop().create_task(self.deliver_async(letter))
            self._tasks.add(task)
            task.add_done_callback(lambda done: self._ended(done, sent))
        else:
            threading.Thread(
                target=self._deliver_to, args=(letter, sent), name="pyconsumer-dead-letter", daemon=True
            ).start()
        return sent

    def _ended(self, task: asyncio.Task[None], sent: Future[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            sent.set_exception(KafkaError("the sending of a dead letter was cancelled"))
            return
        error = task.exception()
        if error is None:
            sent.set_result(None)
        else:
            sent.set_exception(error)

    @background()
    def _deliver_to(self, letter: Letter, sent: Future[None]) -> None:
        try:
            self.deliver(letter)
        except BaseException as error:
            sent.set_exception(error)
        else:
            sent.set_result(None)

    def __repr__(self) -> str:
        return f"<DeadLetters to {self.topic}>"

    def send(self, error: RecordDeserializationError, /) -> None:
        """Send a record that could not be deserialized, and wait until the broker has acknowledged it.

        Args:
            error: has the record's bytes.

        Raises:
            KafkaError: it could not be sent.
        """
        self.deliver(self.of_error(error, SystemClock().wall_ms()))

    def deliver(self, letter: Letter) -> None:
        """Send a letter, and wait until the broker has acknowledged it.

        Raises:
            KafkaError: it could not be sent.
        """
        key, value, headers = letter
        for attempt in range(1, self.attempts + 1):
            try:
                self.producer.send(self.topic, value, key=key, headers=headers).get()
            except KafkaError:
                if attempt == self.attempts:
                    raise
            else:
                return

    async def deliver_async(self, letter: Letter) -> None:
        """Send a letter with an ``AsyncKafkaProducer``, and wait until the broker has acknowledged it.

        Raises:
            KafkaError: it could not be sent.
        """
        key, value, headers = letter
        for attempt in range(1, self.attempts + 1):
            try:
                await self.producer.send_and_wait(self.topic, value, key=key, headers=headers)
            except KafkaError:
                if attempt == self.attempts:
                    raise
            else:
                return

    def of_error(self, error: RecordDeserializationError, failed_at: int) -> Letter:
        """Return the letter of a record that could not be deserialized.

        Args:
            error: has the record's bytes.
            failed_at: when, in ms since 1970.
        """
        topic, partition = error.topic_partition
        place = (topic, partition, error.offset, error.timestamp)
        attempts = error.delivery_count if isinstance(error, LastDeliveryError) else 0
        return (
            error.key,
            error.value,
            self._headers(error.headers, place, attempts, failed_at, error.__cause__ or error),
        )

    def of_record(
        self, record: ConsumerRecord[bytes, bytes], error: BaseException, attempts: int, failed_at: int
    ) -> Letter:
        """Return the letter of a record whose function has failed.

        Args:
            record: as it came, with bytes.
            error: the last exception.
            attempts: calls of the function.
            failed_at: when the first call failed, in ms since 1970.
        """
        place = (record.topic, record.partition, record.offset, record.timestamp)
        return record.key, record.value, self._headers(record.headers, place, attempts, failed_at, error)

    def _headers(
        self,
        own: Any,
        place: tuple[str, int, int, int],
        attempts: int,
        failed_at: int,
        error: BaseException,
    ) -> list[tuple[str, bytes | None]]:
        kind = type(error)
        text = safe_text(error).encode("utf-8", "replace")[:_MOST_TEXT_BYTES].decode("utf-8", "ignore")
        values = (*place, attempts, failed_at, f"{kind.__module__}.{kind.__qualname__}", text)
        kept = [header for header in own if header[0] not in HEADERS]
        return [*kept, *((name, str(value).encode()) for name, value in zip(HEADERS, values, strict=True))]
