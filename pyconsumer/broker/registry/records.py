"""Keys and values of the ``_schemas`` topic, in the form of Confluent's registry.

The order of names in a key matters: the topic is compacted by the bytes of its keys. Source: the ``@JsonPropertyOrder``
of ``SchemaKey``, ``ConfigKey``, ``ModeKey``, ``DeleteSubjectKey`` and ``ContextKey``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

__all__ = [
    "TOPIC",
    "Record",
    "config_record",
    "context_record",
    "decode",
    "delete_subject_record",
    "mode_record",
    "schema_record",
]

TOPIC: Final = "_schemas"
_TENANT: Final = "default"


class Record(NamedTuple):
    """A record as JSON values. The value None is a tombstone."""

    key: Mapping[str, Any]
    value: Mapping[str, Any] | None

    def encode(self) -> tuple[bytes, bytes | None]:
        return _bytes(self.key), None if self.value is None else _bytes(self.value)


def _bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode(key: bytes | None, value: bytes | None) -> Record | None:
    """Return a record, or None if it is not one of a registry."""
    try:
        found = json.loads(key or b"")
        content = None if value is None else json.loads(value)
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(content, dict | None):
        return None
    return Record(found, content)


def schema_record(subject: str, version: int, value: Mapping[str, Any] | None) -> Record:
    """Return the record of a version. None deletes it for good."""
    return Record({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}, value)


def config_record(subject: str | None, value: Mapping[str, Any] | None) -> Record:
    """Return the record of a subject's settings. The subject None stands for the whole registry."""
    return Record({"keytype": "CONFIG", "subject": subject, "magic": 0}, value)


def mode_record(subject: str | None, mode: str | None) -> Record:
    """Return the record of a subject's mode. The subject None stands for the whole registry."""
    value = None if mode is None else {"subject": subject, "mode": mode}
    return Record({"keytype": "MODE", "subject": subject, "magic": 0}, value)


def delete_subject_record(subject: str, version: int) -> Record:
    """Return the record that deletes a subject up to a version, which can be undone."""
    return Record(
        {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}, {"subject": subject, "version": version}
    )


def context_record(context: str) -> Record:
    """Return the record of a context."""
    key = {"keytype": "CONTEXT", "tenant": _TENANT, "context": context}
    return Record(key, {"tenant": _TENANT, "context": context})
