"""From HTTP requests to the registry's calls: a table of paths and methods."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from pyconsumer.broker.registry.errors import RegistryError, RegistryErrors
from pyconsumer.broker.registry.formats import TYPES
from pyconsumer.broker.registry.operations import EVERYWHERE, Operations, Result
from pyconsumer.broker.registry.state import DEFAULT_CONTEXT, Version

__all__ = ["Call", "Operation", "encode", "find"]


class Call(NamedTuple):
    """A request, as a route gets it.

    Attributes:
        arguments: the variable parts of the path.
        query: the last value of each name, and all values.
        body: the JSON object, empty without one.
        context: of the prefix ``/contexts/...``, ``.`` without it.
    """

    arguments: tuple[str, ...]
    query: Mapping[str, str]
    queries: Mapping[str, list[str]]
    body: Mapping[str, Any]
    context: str

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def subject(self, index: int = 0) -> str:
        """Return a subject of the path, in the context of the request."""
        return self.within(self.arguments[index])

    def within(self, subject: str) -> str:
        if self.context == DEFAULT_CONTEXT or subject.startswith(":."):
            return subject
        return f":{self.context}:{subject}"

    @property
    def own_subject(self) -> str | None:
        """The subject in the query, by which a context is chosen."""
        found = self.query.get("subject")
        return found if found is None and self.context == DEFAULT_CONTEXT else self.within(found or "")

    def prefix(self, default: str) -> str:
        """Return the prefix of subjects in the query, in the context of the request."""
        found = self.query.get("subjectPrefix", default)
        return found if self.context == DEFAULT_CONTEXT else self.within(found.removeprefix(EVERYWHERE))

    def page(self, items: list[Any]) -> list[Any]:
        """Return the part of a list that ``offset`` and ``limit`` name."""
        offset, limit = self.number("offset", 0), self.number("limit", -1)
        return items[offset:] if limit < 0 else items[offset : offset + limit]

    def number(self, name: str, default: int) -> int:
        try:
            return int(self.query.get(name, default))
        except ValueError:
            raise RegistryError(RegistryErrors.UNPROCESSABLE, f"{name} is no number") from None

    def id(self) -> int:
        try:
            return int(self.arguments[0])
        except ValueError:
            raise RegistryError(RegistryErrors.NOT_FOUND, "HTTP 404 Not Found") from None


Handler = Callable[[Operations, Call], Any]
Operation = Callable[[Operations], Result]
"""A call of a request, still to be made."""


def _schema_of(version: Version) -> dict[str, Any]:
    """Return a schema found by its id: as of a version, without the type of Avro."""
    found = version.to_json()
    del found["id"]
    if found["schemaType"] == "AVRO":
        del found["schemaType"]
    return found


def _by_id(operations: Operations, call: Call) -> Any:
    return _schema_of(operations.schema_by_id(call.id(), call.own_subject))


def _text_by_id(operations: Operations, call: Call) -> Any:
    return _Text(operations.schema_by_id(call.id(), call.own_subject).content["schema"])


def _subjects_by_id(operations: Operations, call: Call) -> Any:
    found = operations.versions_of_id(call.id(), call.own_subject, deleted=call.flag("deleted"))
    return call.page(sorted({version.subject for version in found}))


def _versions_by_id(operations: Operations, call: Call) -> Any:
    found = operations.versions_of_id(call.id(), call.own_subject, deleted=call.flag("deleted"))
    return call.page([{"subject": version.subject, "version": version.version} for version in found])


def _by_guid(operations: Operations, call: Call) -> Any:
    return _schema_of(operations.schema_by_guid(call.arguments[0]))


def _all_schemas(operations: Operations, call: Call) -> Any:
    found = operations.all_schemas(call.prefix(""), deleted=call.flag("deleted"), latest_only=call.flag("latestOnly"))
    return call.page([version.to_json() for version in found])


def _subjects(operations: Operations, call: Call) -> Any:
    only = call.flag("deletedOnly") or call.flag("deleted_only")
    return call.page(operations.subjects(call.prefix(EVERYWHERE), deleted=call.flag("deleted"), deleted_only=only))


def _lookup(operations: Operations, call: Call) -> Any:
    found = operations.lookup(call.subject(), call.body, normalize=call.flag("normalize"), deleted=call.flag("deleted"))
    return found.to_json()


def _versions(operations: Operations, call: Call) -> Any:
    only = call.flag("deletedOnly") or call.flag("deleted_only")
    return call.page(operations.version_numbers(call.subject(), deleted=call.flag("deleted"), deleted_only=only))


def _register(operations: Operations, call: Call) -> Any:
    result = operations.register(call.subject(), call.body, normalize=call.flag("normalize"))
    body = {name: value for name, value in result.body.items() if name != "subject"}
    return Result(body, result.records)


def _version(operations: Operations, call: Call) -> Any:
    return operations.version(call.subject(), call.arguments[1], deleted=call.flag("deleted")).to_json()


def _version_text(operations: Operations, call: Call) -> Any:
    found = operations.version(call.subject(), call.arguments[1], deleted=call.flag("deleted"))
    return _Text(found.content["schema"])


def _with_metadata(operations: Operations, call: Call) -> Any:
    names = [unquote(name) for name in call.queries.get("key", [])]
    values = [unquote(value) for value in call.queries.get("value", [])]
    wanted = dict(zip(names, values, strict=False))
    return operations.with_metadata(call.subject(), wanted, deleted=call.flag("deleted")).to_json()


def _check(operations: Operations, call: Call) -> Any:
    version = call.arguments[1] if len(call.arguments) > 1 else None
    reasons = operations.incompatibilities(call.subject(), call.body, version, normalize=call.flag("normalize"))
    found: dict[str, Any] = {"is_compatible": not reasons}
    if call.flag("verbose"):
        found["messages"] = reasons
    return found


def _place(call: Call) -> str | None:
    """Return the subject of settings or a mode. A context has its own, and the registry has some."""
    if call.arguments:
        return call.subject()
    return None if call.context == DEFAULT_CONTEXT else f":{call.context}:"


class _Text(str):
    """A schema that is sent as it is, without the quotes of JSON."""


#: Paths, with a ``*`` for each variable part. By method, the call.
_ROUTES: Final[Mapping[str, Mapping[str, Handler]]] = {
    "/": {"GET": lambda operations, call: {}},
    "/schemas": {"GET": _all_schemas},
    "/schemas/types": {"GET": lambda operations, call: list(TYPES)},
    "/schemas/ids/*": {"GET": _by_id},
    "/schemas/ids/*/schema": {"GET": _text_by_id},
    "/schemas/ids/*/subjects": {"GET": _subjects_by_id},
    "/schemas/ids/*/versions": {"GET": _versions_by_id},
    "/schemas/guids/*": {"GET": _by_guid},
    "/schemas/guids/*/ids": {"GET": lambda operations, call: operations.ids_of_guid(call.arguments[0])},
    "/subjects": {"GET": _subjects},
    "/subjects/*": {
        "POST": _lookup,
        "DELETE": lambda operations, call: operations.delete_subject(call.subject(), permanent=call.flag("permanent")),
    },
    "/subjects/*/metadata": {"GET": _with_metadata},
    "/subjects/*/versions": {"GET": _versions, "POST": _register},
    "/subjects/*/versions/*": {
        "GET": _version,
        "DELETE": lambda operations, call: operations.delete_version(
            call.subject(), call.arguments[1], permanent=call.flag("permanent")
        ),
    },
    "/subjects/*/versions/*/schema": {"GET": _version_text},
    "/subjects/*/versions/*/referencedby": {
        "GET": lambda operations, call: call.page(operations.referenced_by(call.subject(), call.arguments[1]))
    },
    "/compatibility/subjects/*/versions": {"POST": _check},
    "/compatibility/subjects/*/versions/*": {"POST": _check},
    "/config": {
        "GET": lambda operations, call: operations.config(_place(call), default_to_global=True),
        "PUT": lambda operations, call: operations.set_config(_place(call), call.body),
        "DELETE": lambda operations, call: operations.delete_config(_place(call)),
    },
    "/config/*": {
        "GET": lambda operations, call: operations.config(_place(call), default_to_global=call.flag("defaultToGlobal")),
        "PUT": lambda operations, call: operations.set_config(_place(call), call.body),
        "DELETE": lambda operations, call: operations.delete_config(_place(call)),
    },
    "/mode": {
        "GET": lambda operations, call: operations.mode(_place(call), default_to_global=True),
        "PUT": lambda operations, call: operations.set_mode(_place(call), call.body, force=call.flag("force")),
    },
    "/mode/*": {
        "GET": lambda operations, call: operations.mode(_place(call), default_to_global=call.flag("defaultToGlobal")),
        "PUT": lambda operations, call: operations.set_mode(_place(call), call.body, force=call.flag("force")),
        "DELETE": lambda operations, call: operations.delete_mode(call.subject()),
    },
    "/contexts": {"GET": lambda operations, call: call.page(operations.contexts())},
    "/v1/metadata/id": {"GET": lambda operations, call: {"scope": {"path": [], "clusters": {}}, "id": ""}},
    "/v1/metadata/version": {"GET": lambda operations, call: {"version": "8.0.0", "commitId": "pyconsumer"}},
}
_PATTERNS: Final = [
    (re.compile(path.replace("*", "([^/]+)").rstrip("/") + "/?"), methods) for path, methods in _ROUTES.items()
]
_CONTEXT: Final = re.compile(r"/contexts/([^/]+)(/.+)")


def find(method: str, target: str, body: bytes) -> Operation:
    """Return the call of a request.

    Args:
        method: its method.
        target: path and query.
        body: JSON, or nothing.

    Raises:
        RegistryError: there is no such path, or the body is no JSON object.
    """
    parts = urlsplit(target)
    path, context = parts.path or "/", DEFAULT_CONTEXT
    prefixed = _CONTEXT.fullmatch(path)
    if prefixed is not None:
        context, path = unquote(prefixed[1]).strip(":") or DEFAULT_CONTEXT, prefixed[2]
    for methods, arguments in _matches(path):
        handler = methods.get(method)
        if handler is None:
            raise RegistryError(RegistryErrors.METHOD_NOT_ALLOWED, "HTTP 405 Method Not Allowed")
        queries: dict[str, list[str]] = {}
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            queries.setdefault(name, []).append(value)
        query = {name: values[-1] for name, values in queries.items()}
        call = Call(arguments, query, queries, _object(body), context)

        def make(operations: Operations, handler: Handler = handler, call: Call = call) -> Result:
            found = handler(operations, call)
            return found if isinstance(found, Result) else Result(found)

        return make
    raise RegistryError(RegistryErrors.NOT_FOUND, "HTTP 404 Not Found")


def _matches(path: str) -> Iterator[tuple[Mapping[str, Handler], tuple[str, ...]]]:
    for pattern, methods in _PATTERNS:
        found = pattern.fullmatch(path)
        if found is not None:
            yield methods, tuple(map(unquote, found.groups()))


def _object(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RegistryError(RegistryErrors.UNPROCESSABLE, "the body is no JSON object")
    return found


def encode(body: Any) -> bytes:
    """Return an answer as it is sent."""
    return (body if isinstance(body, _Text) else json.dumps(body, separators=(",", ":"), ensure_ascii=False)).encode()
