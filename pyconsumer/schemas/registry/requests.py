"""The calls of a registry: each builds a request and reads the response. No I/O: see :mod:`.exchange`.

The REST API is Confluent's (docs.confluent.io, "Schema Registry API Reference", Platform 8). Arguments are those of the
clients, which document them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

from pyconsumer.clock import Clock
from pyconsumer.schemas.errors import (
    SchemaNotFoundError,
    SchemaRegistryError,
    SchemaRegistryTimeoutError,
)
from pyconsumer.schemas.registry.cache import ABANDONED, NOT_FOUND_TTL_S, Failure, Key, SchemaCache, Value
from pyconsumer.schemas.registry.exchange import Exchange, HttpRequest, Join, Steps
from pyconsumer.schemas.registry.settings import RegistrySettings
from pyconsumer.schemas.registry.values import RegisteredSchema, Schema, SchemaVersion, ServerConfig

__all__ = ["RegistryCalls"]

T = TypeVar("T")
K = TypeVar("K", RegisteredSchema, SchemaVersion, ServerConfig)

#: Kinds of cache entries that a new version or a deletion makes old.
_CHANGING: Final = ("latest", "metadata", "lookup", "version", "register")


def _context(subject: str | None) -> str:
    """Return the context of a subject, such as ``:.test:`` of ``:.test:orders-value``. Ids are unique in a context."""
    if subject is not None and subject.startswith(":."):
        end = subject.find(":", 2)
        if end > 0:
            return subject[: end + 1]
    return ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class RegistryCalls:
    """The calls of one client, with their cache. Each returns the steps of a call, for a driver.

    Args:
        settings: the client's settings.
        exchange: sends the requests.
        cache: keeps the answers.
        clock: the source of time.
    """

    def __init__(self, settings: RegistrySettings, exchange: Exchange, cache: SchemaCache, clock: Clock) -> None:
        self._settings = settings
        self._exchange = exchange
        self._cache = cache
        self._clock = clock

    # --- how a call is made

    def _send(
        self,
        deadline: float,
        method: str,
        *path: object,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Steps[Any]:
        pairs: list[tuple[str, str]] = []
        for name, value in (query or {}).items():
            values = value if isinstance(value, list) else [value]
            pairs += [(name, _text(each)) for each in values if each is not None]
        request = HttpRequest(
            method,
            "".join("/" + quote(str(part), safe="") for part in path),
            tuple(pairs),
            None if body is None else json.dumps(body, separators=(",", ":")).encode(),
        )
        return self._exchange.send(request, deadline)

    def _cached(self, key: Key, deadline: float, ask: Callable[[], Steps[T]], seconds: float | None = None) -> Steps[T]:
        """Return the answer that is kept, or that another caller waits for, or ask."""
        while True:
            outcome, flight, leads = self._cache.begin(key, deadline)
            if outcome is None and not leads:
                left = deadline - self._clock.now()
                if not flight.done() and left <= 0:
                    raise SchemaRegistryTimeoutError(
                        -1, -1, f"another call for {key[0]} {key[1]!r} had no answer within the time of this one"
                    )
                yield Join(flight, max(min(left, flight.until - self._clock.now()), 0.0))
                if not flight.done():
                    continue
                found = flight.result()
                if found is ABANDONED:
                    continue
                assert isinstance(found, Value | Failure)
                outcome = found
            if isinstance(outcome, Failure):
                raise copy.copy(outcome.error)  # each caller has a traceback of its own
            if isinstance(outcome, Value):
                result: T = outcome.value
                return result
            return (yield from self._lead(key, flight, ask, seconds))

    def _lead(self, key: Key, flight: Any, ask: Callable[[], Steps[T]], seconds: float | None) -> Steps[T]:
        try:
            answer = yield from ask()
        except SchemaRegistryTimeoutError:  # by the time of this caller. Another one may have more
            self._cache.abandon(key, flight)
            raise
        except SchemaRegistryError as error:
            kept = NOT_FOUND_TTL_S if isinstance(error, SchemaNotFoundError) else 0.0
            self._cache.fail(key, flight, copy.copy(error), kept)
            raise
        except BaseException:
            self._cache.abandon(key, flight)
            raise
        self._cache.finish(key, flight, answer, seconds)
        return answer

    def _changed(self, subject: str | None) -> None:
        """Forget all that a change of ours to a subject makes old. None: of all subjects."""
        self._cache.forget(*_CHANGING, where=lambda key: subject is None or key[1] == subject)

    # --- schemas

    def peek_schema(self, schema_id: int, subject_name: str | None = None) -> Schema | None:
        """Return a schema that is in the cache. It makes no request."""
        found = self._cache.peek(("id", _context(subject_name), schema_id, None, None))
        return None if found is None else found.schema

    def peek_schema_by_guid(self, guid: str) -> Schema | None:
        """Return a schema that is in the cache. It makes no request."""
        found = self._cache.peek(("guid", guid.lower(), None))
        return None if found is None else found.schema

    def register_schema_full_response(
        self, deadline: float, subject_name: str, schema: Schema, normalize_schemas: bool
    ) -> Steps[RegisteredSchema]:
        def ask() -> Steps[RegisteredSchema]:
            found = yield from self._send(
                deadline,
                "POST",
                "subjects",
                subject_name,
                "versions",
                query={"normalize": normalize_schemas},
                body=schema.to_dict(),
            )
            registered = _made(RegisteredSchema, {"subject": subject_name, **_mapping(found)})
            if registered.schema.schema_str is None:  # registries before 7.4 send the id alone
                registered = RegisteredSchema(
                    subject_name, registered.version, registered.schema_id, registered.guid, schema
                )
            else:
                self._keep(registered)
            self._cache.forget("latest", "metadata", "lookup", where=lambda key: key[1] == subject_name)
            return registered

        return (yield from self._cached(("register", subject_name, schema, normalize_schemas), deadline, ask))

    def _keep(self, registered: RegisteredSchema) -> None:
        """Keep a schema that came with its id under that id, too."""
        if registered.schema_id is not None:
            self._cache.put(("id", _context(registered.subject), registered.schema_id, None, None), registered)
        if registered.guid is not None:
            self._cache.put(("guid", registered.guid.lower(), None), registered)

    def register_schema(
        self, deadline: float, subject_name: str, schema: Schema, normalize_schemas: bool
    ) -> Steps[int]:
        found = yield from self.register_schema_full_response(deadline, subject_name, schema, normalize_schemas)
        return _id_of(found)

    def get_schema(
        self, deadline: float, schema_id: int, subject_name: str | None, fmt: str | None, reference_format: str | None
    ) -> Steps[Schema]:
        def ask() -> Steps[RegisteredSchema]:
            query = {"subject": subject_name, "format": fmt, "referenceFormat": reference_format}
            found = yield from self._send(deadline, "GET", "schemas", "ids", schema_id, query=query)
            registered = _with_text(_made(RegisteredSchema, {**_mapping(found), "id": schema_id}))
            if registered.guid is not None and fmt is None and reference_format is None:
                self._cache.put(("guid", registered.guid.lower(), None), registered)
            return registered

        key = ("id", _context(subject_name), schema_id, fmt or None, reference_format or None)
        return (yield from self._cached(key, deadline, ask)).schema

    def get_schema_by_guid(self, deadline: float, guid: str, fmt: str | None) -> Steps[Schema]:
        def ask() -> Steps[RegisteredSchema]:
            found = yield from self._send(deadline, "GET", "schemas", "guids", guid, query={"format": fmt})
            return _with_text(_made(RegisteredSchema, {**_mapping(found), "guid": guid}))

        return (yield from self._cached(("guid", guid.lower(), fmt or None), deadline, ask)).schema

    def get_schema_types(self, deadline: float) -> Steps[list[str]]:
        return _items((yield from self._send(deadline, "GET", "schemas", "types")))

    def get_subjects_by_schema_id(
        self, deadline: float, schema_id: int, subject_name: str | None, deleted: bool, offset: int, limit: int
    ) -> Steps[list[str]]:
        query = {"offset": offset, "limit": limit, "subject": subject_name, "deleted": deleted or None}
        return _items((yield from self._send(deadline, "GET", "schemas", "ids", schema_id, "subjects", query=query)))

    def get_schema_versions(
        self, deadline: float, schema_id: int, subject_name: str | None, deleted: bool, offset: int, limit: int
    ) -> Steps[list[SchemaVersion]]:
        query = {"offset": offset, "limit": limit, "subject": subject_name, "deleted": deleted or None}
        found = yield from self._send(deadline, "GET", "schemas", "ids", schema_id, "versions", query=query)
        return [_made(SchemaVersion, each) for each in _items(found)]

    def lookup_schema(
        self,
        deadline: float,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool,
        fmt: str | None,
        deleted: bool,
    ) -> Steps[RegisteredSchema]:
        def ask() -> Steps[RegisteredSchema]:
            query = {"normalize": normalize_schemas, "deleted": deleted, "format": fmt}
            found = yield from self._send(
                deadline, "POST", "subjects", subject_name, query=query, body=schema.to_dict()
            )
            registered = _made(RegisteredSchema, {"subject": subject_name, **_mapping(found)})
            if registered.schema.schema_str is None:
                registered = RegisteredSchema(
                    subject_name, registered.version, registered.schema_id, registered.guid, schema
                )
            elif fmt is None:
                self._keep(registered)
            return registered

        key = ("lookup", subject_name, schema, normalize_schemas, fmt or None, deleted)
        return (yield from self._cached(key, deadline, ask))

    # --- subjects and versions

    def get_subjects(
        self,
        deadline: float,
        subject_prefix: str | None,
        deleted: bool,
        deleted_only: bool,
        offset: int,
        limit: int,
    ) -> Steps[list[str]]:
        query = {
            "subjectPrefix": subject_prefix,
            "deleted": deleted,
            "deletedOnly": deleted_only,
            "offset": offset,
            "limit": limit,
        }
        return _items((yield from self._send(deadline, "GET", "subjects", query=query)))

    def delete_subject(self, deadline: float, subject_name: str, permanent: bool) -> Steps[list[int]]:
        try:
            query = {"permanent": permanent or None}
            return _items((yield from self._send(deadline, "DELETE", "subjects", subject_name, query=query)))
        finally:
            self._changed(subject_name)

    def delete_version(self, deadline: float, subject_name: str, version: int | str, permanent: bool) -> Steps[int]:
        place = ("subjects", subject_name, "versions", version)
        try:
            return _number((yield from self._send(deadline, "DELETE", *place, query={"permanent": permanent or None})))
        finally:
            self._changed(subject_name)

    def get_latest_version(self, deadline: float, subject_name: str, fmt: str | None) -> Steps[RegisteredSchema]:
        key = ("latest", subject_name, fmt or None)
        ask = self._asking_version(deadline, subject_name, "latest", False, fmt)
        return (yield from self._cached(key, deadline, ask, self._settings.latest_ttl_s))

    def get_version(
        self, deadline: float, subject_name: str, version: int | str, deleted: bool, fmt: str | None
    ) -> Steps[RegisteredSchema]:
        ask = self._asking_version(deadline, subject_name, version, deleted, fmt)
        if version in ("latest", -1):
            return (yield from ask())
        return (yield from self._cached(("version", subject_name, version, deleted, fmt or None), deadline, ask))

    def _asking_version(
        self, deadline: float, subject: str, version: int | str, deleted: bool, fmt: str | None
    ) -> Callable[[], Steps[RegisteredSchema]]:
        def ask() -> Steps[RegisteredSchema]:
            query = {"deleted": deleted or None, "format": fmt}
            found = yield from self._send(deadline, "GET", "subjects", subject, "versions", version, query=query)
            registered = _with_text(_made(RegisteredSchema, _mapping(found)))
            if fmt is None:
                self._keep(registered)
            return registered

        return ask

    def get_latest_with_metadata(
        self, deadline: float, subject_name: str, metadata: Mapping[str, str], deleted: bool, fmt: str | None
    ) -> Steps[RegisteredSchema]:
        def ask() -> Steps[RegisteredSchema]:
            query = {"deleted": deleted, "format": fmt, "key": list(metadata), "value": list(metadata.values())}
            found = yield from self._send(deadline, "GET", "subjects", subject_name, "metadata", query=query)
            registered = _made(RegisteredSchema, _mapping(found))
            if fmt is None:
                self._keep(registered)
            return registered

        key = ("metadata", subject_name, frozenset(metadata.items()), deleted, fmt or None)
        return (yield from self._cached(key, deadline, ask, self._settings.latest_ttl_s))

    def get_versions(
        self, deadline: float, subject_name: str, deleted: bool, deleted_only: bool, offset: int, limit: int
    ) -> Steps[list[int]]:
        query = {"deleted": deleted, "deletedOnly": deleted_only, "offset": offset, "limit": limit}
        return _items((yield from self._send(deadline, "GET", "subjects", subject_name, "versions", query=query)))

    def get_referenced_by(
        self, deadline: float, subject_name: str, version: int | str, offset: int, limit: int
    ) -> Steps[list[int]]:
        place = ("subjects", subject_name, "versions", version, "referencedby")
        return _items((yield from self._send(deadline, "GET", *place, query={"offset": offset, "limit": limit})))

    # --- compatibility, settings and modes

    def incompatibilities(
        self,
        deadline: float,
        subject_name: str,
        schema: Schema,
        version: int | str | None,
        normalize: bool,
        verbose: bool,
    ) -> Steps[list[str]]:
        place = ("compatibility", "subjects", subject_name, "versions", *(() if version is None else (version,)))
        query = {"normalize": normalize, "verbose": verbose}
        found = _mapping((yield from self._send(deadline, "POST", *place, query=query, body=schema.to_dict())))
        if found.get("is_compatible"):
            return []
        return _items(found.get("messages") or ["the registry gave no reason"])

    def set_compatibility(self, deadline: float, subject_name: str | None, level: str) -> Steps[str]:
        yield from self._send(deadline, "PUT", *_at("config", subject_name), body={"compatibility": level})
        return level

    def get_compatibility(self, deadline: float, subject_name: str | None) -> Steps[str]:
        found = yield from self._send(deadline, "GET", *_at("config", subject_name))
        return _word(found, "compatibilityLevel")

    def set_config(self, deadline: float, subject_name: str | None, config: ServerConfig) -> Steps[ServerConfig]:
        found = yield from self._send(deadline, "PUT", *_at("config", subject_name), body=config.to_dict())
        return _made(ServerConfig, _mapping(found))

    def get_config(self, deadline: float, subject_name: str | None) -> Steps[ServerConfig]:
        found = yield from self._send(deadline, "GET", *_at("config", subject_name))
        return _made(ServerConfig, _mapping(found))

    def delete_config(self, deadline: float, subject_name: str | None) -> Steps[ServerConfig]:
        found = yield from self._send(deadline, "DELETE", *_at("config", subject_name))
        return _made(ServerConfig, found) if isinstance(found, dict) else ServerConfig(compatibility_level=found)

    def get_mode(self, deadline: float, subject_name: str | None) -> Steps[str]:
        return _word((yield from self._send(deadline, "GET", *_at("mode", subject_name))), "mode")

    def update_mode(self, deadline: float, subject_name: str | None, mode: str, force: bool) -> Steps[str]:
        place, query = _at("mode", subject_name), {"force": force or None}
        found = yield from self._send(deadline, "PUT", *place, query=query, body={"mode": str(mode)})
        return _word(found, "mode")

    def delete_mode(self, deadline: float, subject_name: str) -> Steps[str]:
        found = yield from self._send(deadline, "DELETE", *_at("mode", subject_name))
        return _word(found, "mode") if isinstance(found, dict) else str(found)

    def get_contexts(self, deadline: float, offset: int, limit: int) -> Steps[list[str]]:
        return _items((yield from self._send(deadline, "GET", "contexts", query={"offset": offset, "limit": limit})))

    # --- the cache

    def clear_latest_caches(self) -> None:
        self._cache.forget("latest", "metadata")

    def clear_caches(self) -> None:
        self._cache.forget()


def _at(part: str, subject: str | None) -> tuple[str, ...]:
    return (part,) if subject is None else (part, subject)


def _mapping(found: Any) -> dict[str, Any]:
    if isinstance(found, dict):
        return found
    raise SchemaRegistryError(200, -1, f"the response is {type(found).__name__} where an object was expected")


def _items(found: Any) -> list[Any]:
    if isinstance(found, list):
        return found
    raise SchemaRegistryError(200, -1, f"the response is {type(found).__name__} where a list was expected")


def _number(found: Any) -> int:
    if type(found) is int:
        return found
    raise SchemaRegistryError(200, -1, f"the response is {type(found).__name__} where a number was expected")


def _word(found: Any, name: str) -> str:
    value = _mapping(found).get(name)
    if isinstance(value, str):
        return value
    raise SchemaRegistryError(200, -1, f"the response has no {name}")


def _made(kind: type[K], found: Any) -> K:
    """Return a value of the response's JSON."""
    try:
        return kind.from_dict(_mapping(found))
    except (ValueError, TypeError, AttributeError) as error:
        raise SchemaRegistryError(200, -1, f"the response has another form than a registry's: {error}") from None


def _with_text(registered: RegisteredSchema) -> RegisteredSchema:
    if isinstance(registered.schema.schema_str, str):
        return registered
    raise SchemaRegistryError(200, -1, "the response has no text of the schema. Is the url a registry's?")


def _id_of(registered: RegisteredSchema) -> int:
    if registered.schema_id is None:
        raise SchemaRegistryError(200, -1, "the response has no id of the schema")
    return registered.schema_id
