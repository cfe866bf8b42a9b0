"""A Schema Registry in memory, with the methods of a client that serializers call. Requests can be held."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pyconsumer.schemas import RegisteredSchema, Schema, SchemaNotFoundError

__all__ = ["FakeRegistry"]


class FakeRegistry:
    """See the module.

    Attributes:
        calls: the names of the calls so far.
        error: raised by each call while it is set.
        open: cleared to hold all calls until it is set.
        entered: counts the calls that have begun, those that are held included.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.error: Exception | None = None
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Semaphore(0)
        self._versions: dict[str, list[RegisteredSchema]] = {}
        self._lock = threading.Lock()
        self._ids: dict[tuple[Any, ...], int] = {}
        self._schemas: dict[int, Schema] = {}

    def _enter(self, name: str) -> None:
        self.calls.append(name)
        self.entered.release()
        if not self.open.wait(30):
            raise TimeoutError("the registry was never opened")
        if self.error is not None:
            raise self.error

    @staticmethod
    def guid(schema_id: int) -> str:
        """Return the GUID of an id."""
        return str(UUID(int=schema_id))

    def add(self, subject: str, schema: Schema | str) -> int:
        """Register a schema and return its id, without counting it as a call."""
        made = Schema(schema) if isinstance(schema, str) else schema
        with self._lock:
            key = (made.schema_str, made.schema_type, tuple(made.references))
            schema_id = self._ids.setdefault(key, len(self._ids) + 1)
            self._schemas[schema_id] = made
            versions = self._versions.setdefault(subject, [])
            if all(each.schema_id != schema_id for each in versions):
                versions.append(RegisteredSchema(subject, len(versions) + 1, schema_id, self.guid(schema_id), made))
            return schema_id

    def register_schema_full_response(self, subject: str, schema: Schema, normalize: bool = False) -> RegisteredSchema:
        self._enter("register")
        schema_id = self.add(subject, schema)
        return RegisteredSchema(subject, None, schema_id, self.guid(schema_id), schema)

    def lookup_schema(self, subject: str, schema: Schema, normalize: bool = False) -> RegisteredSchema:
        self._enter("lookup")
        for each in self._versions.get(subject, []):
            if each.schema.schema_str == schema.schema_str:
                return each
        raise SchemaNotFoundError(404, 40403, "Schema not found")

    def get_schema(self, schema_id: int) -> Schema:
        self._enter(f"id {schema_id}")
        if schema_id not in self._schemas:
            raise SchemaNotFoundError(404, 40403, "Schema not found")
        return self._schemas[schema_id]

    def get_schema_by_guid(self, guid: str) -> Schema:
        self._enter("guid")
        return self._schemas[UUID(guid).int]

    def get_version(self, subject: str, version: int, deleted: bool = False) -> RegisteredSchema:
        self._enter(f"version {version}")
        if len(self._versions.get(subject, [])) < version:
            raise SchemaNotFoundError(404, 40402, "Version not found")
        return self._versions[subject][version - 1]

    def get_latest_version(self, subject: str) -> RegisteredSchema:
        self._enter("latest")
        if subject not in self._versions:
            raise SchemaNotFoundError(404, 40401, "Subject not found")
        return self._versions[subject][-1]

    def clear_latest_caches(self) -> None:
        """Do nothing, since nothing is kept."""

    def get_latest_with_metadata(self, subject: str, metadata: Mapping[str, str]) -> RegisteredSchema:
        self._enter("metadata")
        return self._versions[subject][0]
