"""The loop that applies deserializers to records, in Python.

It returns errors, which the consumer handles. No state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyconsumer.protocol.records.record import ConsumerRecord, make_form

__all__ = ["Converter", "convert"]

Converter = Callable[[bytes], Any] | tuple[Callable[[ConsumerRecord, bytes], Any], bool] | None
"""A function of the bytes, or a pair (function of record and bytes, True), or None to keep the bytes."""


def convert(
    raw: list[ConsumerRecord],
    start: int,
    key: Converter,
    value: Converter,
    good: list[Any],
    form: type | None = None,
) -> tuple[int, str, Exception | None]:
    """Convert keys and values of ``raw[start:]``, and append the records to ``good``. Stop at the first error.

    With a ``form``, which ``record.check_form`` accepts, the records are made in it. It is that of a copied client,
    whose deserializers are called for absent keys and values, too. Without a form they are not. The compiled function
    may change the records in ``raw``, so the caller must not share them.

    Returns:
        If a record failed: its index, ``"key"`` or ``"value"``, and the error. Otherwise: ``len(raw)``, "" and None.
    """
    to_key = _of_record(key)
    to_value = _of_record(value)
    index, origin = start, "key"
    try:
        for record in raw[start:] if start else raw:
            origin = "key"
            new_key = record.key
            if to_key is not None and (new_key is not None or form is not None):
                new_key = to_key(record, new_key)
            origin = "value"
            new_value = record.value
            if to_value is not None and (new_value is not None or form is not None):
                new_value = to_value(record, new_value)
            if form is None:
                good.append(record.deserialized(new_key, new_value))
            else:
                good.append(make_form(form, record, new_key, new_value))
            index += 1
    except Exception as error:
        return index, origin, error
    return index, "", None


def _of_record(converter: Converter) -> Callable[[ConsumerRecord, Any], Any] | None:
    if converter is None:
        return None
    if isinstance(converter, tuple):
        return converter[0]
    return lambda _, data: converter(data)
