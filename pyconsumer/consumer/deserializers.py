"""Applies deserializers to records, and handles their errors (``on_record_error``, KIP-1036).

Rules

1. A deserializer is a function of the bytes, or an object with ``deserialize(topic, headers, data)``. It is not called
   for a key or value that is None (as in Java), unless a layer for another client gives the form of records.
2. An exception of a deserializer is wrapped in a ``RecordDeserializationError``, which has the raw record. The original
   is its ``__cause__``.
3. The policy decides: ``raise``, ``skip``, a function of the error that returns ``"raise"`` or ``"skip"`` (None:
   skip), or a dead-letter sink with ``send(error)``, after which the record is skipped. An exception from the policy or
   the sink also leaves the position at that record. A sink with ``begin(error)`` delivers while the poll waits, as in
   rule 6. The record is skipped when that has succeeded.
4. Good records before a bad one are returned first. The next attempt starts at the bad record.
5. An object with ``bind(field)`` is bound to its side once (:class:`pyconsumer.generic.Bindable`).
6. ``PendingError`` and ``SchemaUnavailableError`` are no errors of a record. They stop the conversion before it, and
   the policy is not asked.

The decoder's ``convert`` applies deserializers to a batch at a time, with a fast path for ``bytes.decode`` and
``json.loads``.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Hashable
from types import ModuleType
from typing import Any, Final

from pyconsumer.errors import RecordDeserializationError, SchemaUnavailableError
from pyconsumer.generic import Arrival, PendingError, is_bindable, wait_for_arrival
from pyconsumer.protocol.records import ConsumerRecord, convert
from pyconsumer.protocol.records.conversion import Converter

__all__ = ["Deserialization", "as_converter", "failure_of", "located"]

_log = logging.getLogger("pyconsumer.consumer")

#: Deliveries to a sink that are kept at most, though nobody asks for them again, as after a seek.
_MOST_DELIVERIES: Final = 1_000
_ADVICE: Final = ". Seek past it, or set on_record_error"


def _json_loads(json: ModuleType) -> Converter:
    """Return a faster ``json.loads`` for the usual input: an object or array in UTF-8, without surrounding space."""
    read = json.JSONDecoder().raw_decode

    def loads(data: bytes) -> Any:
        if data and data[:1] in (b"{", b"[") and data[1:2] != b"\0":
            try:
                text = data.decode()
                found, end = read(text)
                if end == len(text):
                    return found
            except ValueError:
                pass
        return json.loads(data)  # any other input, and all errors

    return loads


def as_converter(deserializer: Any, field: str = "value") -> Converter:
    """Return a user's deserializer in the form that ``convert`` takes. Return None if there is no deserializer.

    Args:
        deserializer: of the user.
        field: ``"key"`` or ``"value"``, to which it is bound (rule 5).
    """
    if deserializer is None:
        return None
    if is_bindable(deserializer):
        deserializer = deserializer.bind(field)
        of_record = getattr(deserializer, "of_record", None)
        if of_record is not None:
            return of_record, True
    deserialize = getattr(deserializer, "deserialize", None)
    if deserialize is not None:
        return lambda record, data: deserialize(record.topic, record.headers, data), True
    json = sys.modules.get("json")  # if the user passes json.loads, json has been imported
    if json is not None and deserializer is json.loads:
        return _json_loads(json)
    return deserializer  # type: ignore[no-any-return]


class Deserialization:
    """Applies deserializers to the records that the decoder returns.

    Args:
        key, value: the user's deserializers. None keeps the bytes.
        on_error: ``"raise"``, ``"skip"``, a function, or an object with ``send`` (rule 3).
        form: the class of the records to return. None returns ``ConsumerRecord``.
        advice: the end of the message of an error that is raised.

    Attributes:
        skipped: how many records have been skipped.
    """

    def __init__(
        self, key: Any, value: Any, on_error: Any = "raise", form: type | None = None, *, advice: str = _ADVICE
    ) -> None:
        self._advice = advice
        self._key = as_converter(key, "key")
        self._value = as_converter(value, "value")
        #: True if a deserializer may raise ``PendingError``.
        self.may_wait = is_bindable(key) or is_bindable(value)
        #: ``on_record_error``.
        self.policy = on_error
        self._form = form
        self._deliveries: dict[Hashable, Arrival] = {}  # to a sink, of records that wait for them
        self._lock = threading.Lock()  # for these
        self.skipped = 0

    @property
    def needed(self) -> bool:
        """Return whether there is a deserializer for keys or values."""
        return self._key is not None or self._value is not None

    def __call__(self, raw: list[ConsumerRecord]) -> tuple[list[ConsumerRecord], int, Exception | None]:
        """Convert records in order, up to the first one whose error must be raised.

        Returns:
            The converted records, the number of raw records used up (skipped ones included), and the error, or None.
        """
        good: list[ConsumerRecord] = []
        used = 0
        while True:
            used, origin, error = convert(raw, used, self._key, self._value, good, self._form)
            if error is None:
                return good, used, None
            if isinstance(error, (PendingError, SchemaUnavailableError)):
                return good, used, located(error, raw[used], origin)
            record = raw[used]
            failure = failure_of(record, origin, error, self.policy, advice=self._advice)
            stop = self.decide(failure)
            if stop is not None:
                return good, used, stop
            self.count_skipped()
            used += 1

    def now(self, raw: list[ConsumerRecord]) -> tuple[list[ConsumerRecord], int, Exception | None]:
        """Convert records as a call does. Block until the first one can be converted: mocks have no driver."""
        while True:
            good, used, error = self(raw)
            if used or not isinstance(error, PendingError):
                return good, used, error
            wait_for_arrival(error.arrival)

    def count_skipped(self) -> None:
        """Count a record that is skipped."""
        self.skipped += 1

    def decide(self, failure: RecordDeserializationError) -> Exception | None:
        """Apply the policy: return the error to raise at this record, None to skip it."""
        policy = self.policy
        if policy == "raise":
            return failure
        try:
            begin = getattr(policy, "begin", None)
            send = getattr(policy, "send", None)
            if policy == "skip":
                pass
            elif begin is not None:
                pending = self._delivery(failure, begin)
                if pending is not None:
                    return pending
            elif send is not None:
                send(failure)
            else:
                answer = policy(failure)
                if answer == "raise":
                    return failure
                if answer not in (None, "skip"):
                    raise TypeError(f"on_record_error must return 'raise', 'skip' or None, not {answer!r}")
        except Exception as error:
            if error.__context__ is None and error is not failure:
                error.__context__ = failure
            return error
        _log.warning("skipped a record: %s", failure)
        return None

    def _delivery(
        self, failure: RecordDeserializationError, begin: Callable[[RecordDeserializationError], Arrival]
    ) -> PendingError | None:
        """Begin to deliver a record to a sink, at the first call. Return the wait for it, None once it has succeeded.

        Raises:
            Exception: it has failed. The next call begins again.
        """
        # With the bytes: after a topic was recreated, another record may be there.
        record = (failure.topic_partition, failure.offset, failure.timestamp, failure.key, failure.value)
        with self._lock:  # worker threads deserialize, too
            delivery = self._deliveries.get(record)
            if delivery is None:
                if len(self._deliveries) >= _MOST_DELIVERIES:
                    self._deliveries = {place: one for place, one in self._deliveries.items() if not one.done()}
                delivery = self._deliveries[record] = begin(failure)
            if not delivery.done():
                return PendingError(delivery, "a dead letter", extends_poll=False)
            self._deliveries.pop(record, None)
        delivery.result()
        return None


def located(error: Exception, record: ConsumerRecord, origin: str) -> Exception:
    """Return an error that says which record waits. A pending one stays as it is."""
    if not isinstance(error, SchemaUnavailableError):
        return error
    located = SchemaUnavailableError(
        f"the {origin} of the record {record.topic_partition} at offset {record.offset} cannot be read now: {error}."
        f" The position stays{', poll again' if error.retriable else ''}",
        retriable=error.retriable,
    )
    located.__cause__ = error
    return located


def failure_of(
    record: ConsumerRecord, origin: str, error: Exception, policy: Any, *, advice: str = _ADVICE
) -> RecordDeserializationError:
    """Return the error of a record for the policy.

    Args:
        record: the record, as it was sent.
        origin: ``"key"`` or ``"value"``.
        error: of the deserializer.
        policy: ``on_record_error``.
        advice: the end of the message, if the policy is to raise.
    """
    data = record.key if origin == "key" else record.value
    if policy != "raise":
        advice = ""
    tp = record.topic_partition
    size = 0 if data is None else len(data)
    failure = RecordDeserializationError(
        f"the {origin} ({size} bytes) of the record {tp} at offset {record.offset} cannot be deserialized:"
        f" {type(error).__name__}: {error}{advice}",
        topic_partition=tp,
        offset=record.offset,
        origin=origin,
        timestamp=record.timestamp,
        key=record.key,
        value=record.value,
        headers=record.headers,
    )
    failure.__cause__ = error
    return failure
