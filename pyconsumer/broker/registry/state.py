"""The registry's content, as the records of its topic say. It has no rules: it applies records in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyconsumer.broker.registry.formats import guid_of
from pyconsumer.broker.registry.records import Record

__all__ = ["DEFAULT_CONTEXT", "State", "Version", "context_of", "qualified"]

DEFAULT_CONTEXT: Final = "."


def context_of(subject: str) -> str:
    """Return the context of a subject: ``.test`` of ``:.test:orders-value``, ``.`` of a subject without one."""
    if subject.startswith(":."):
        end = subject.find(":", 2)
        if end > 0:
            return subject[1:end]
    return DEFAULT_CONTEXT


class Version:
    """A version of a subject.

    Attributes:
        subject, version, id, guid, deleted: as in the registry's JSON.
        content: ``schemaType``, ``schema`` and, if there are any, ``references``, ``metadata`` and ``ruleSet``.
    """

    __slots__ = ("content", "deleted", "guid", "id", "subject", "version")

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.subject: str = value["subject"]
        self.version: int = value["version"]
        self.id: int = value["id"]
        self.deleted = bool(value.get("deleted"))
        names = ("schemaType", "references", "metadata", "ruleSet", "schema")
        self.content = {name: value[name] for name in names if value.get(name)}
        self.content.setdefault("schemaType", "AVRO")
        self.guid = guid_of(self.content)

    @property
    def type(self) -> str:
        return str(self.content["schemaType"])

    def delete(self) -> None:
        """Mark the version as deleted, which can be undone."""
        self.deleted = True

    def to_value(self, *, deleted: bool = False) -> dict[str, Any]:
        """Return the value of the version's record."""
        content = {name: value for name, value in self.content.items() if (name, value) != ("schemaType", "AVRO")}
        head = {"subject": self.subject, "version": self.version, "id": self.id}
        return {**head, **content, "deleted": deleted}

    def to_json(self) -> dict[str, Any]:
        """Return the version as calls show it."""
        head = {"subject": self.subject, "version": self.version, "id": self.id, "guid": self.guid}
        return {**head, **self.content, **({"deleted": True} if self.deleted else {})}


class State:
    """Subjects, ids, settings and modes."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, Version]] = {}
        self.configs: dict[str | None, dict[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.contexts: set[str] = {DEFAULT_CONTEXT}
        self._by_id: dict[tuple[str, int], dict[tuple[str, int], Version]] = {}
        #: By context, GUID and type: the GUID does not depend on the type.
        self._ids: dict[tuple[str, str, str], int] = {}
        self._largest: dict[str, int] = {}

    # --- records

    def apply(self, record: Record) -> None:
        """Apply a record. One of an unknown kind, as a newer registry may write, has no effect."""
        key, value = record
        kind, subject = key.get("keytype"), key.get("subject")
        if kind == "SCHEMA":
            self._apply_schema(str(subject), int(key["version"]), value)
        elif kind == "DELETE_SUBJECT" and value is not None:
            for version in self.subjects.get(str(subject), {}).values():
                if version.version <= value["version"]:
                    version.delete()
        elif kind == "CLEAR_SUBJECT" and value is not None:
            for version in list(self.subjects.get(str(subject), {}).values()):
                if version.deleted:
                    self._remove(version)
        elif kind == "CONFIG":
            self._put(self.configs, subject, None if value is None else dict(value))
        elif kind == "MODE":
            self._put(self.modes, subject, None if value is None else value["mode"])
        elif kind == "CONTEXT" and value is not None:
            self.contexts.add(key["context"])

    @staticmethod
    def _put(target: dict[str | None, Any], subject: str | None, value: Any) -> None:
        if value is None:
            target.pop(subject, None)
        else:
            target[subject] = value

    def _apply_schema(self, subject: str, number: int, value: Mapping[str, Any] | None) -> None:
        old = self.subjects.get(subject, {}).get(number)
        if old is not None:
            self._remove(old)
        if value is None:
            return
        version, context = Version(value), context_of(subject)
        self.subjects.setdefault(subject, {})[number] = version
        self._by_id.setdefault((context, version.id), {})[subject, number] = version
        self._ids[context, version.guid, version.type] = version.id
        self._largest[context] = max(self._largest.get(context, 0), version.id)
        self.contexts.add(context)

    def _remove(self, version: Version) -> None:
        place, context = (version.subject, version.version), context_of(version.subject)
        versions = self.subjects[version.subject]
        del versions[version.version]
        if not versions:
            del self.subjects[version.subject]
        others = self._by_id[context, version.id]
        del others[place]
        if not others:
            del self._by_id[context, version.id]
            self._ids.pop((context, version.guid, version.type), None)

    # --- questions

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Return the versions of a subject in order."""
        found = self.subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def with_id(self, context: str, schema_id: int) -> list[Version]:
        """Return the versions that have an id, those with the first subject first."""
        found = self._by_id.get((context, schema_id), {})
        return [found[place] for place in sorted(found)]

    def id_of(self, context: str, content: Mapping[str, Any]) -> int | None:
        """Return the id of a schema, None if the context does not have it."""
        return self._ids.get((context, guid_of(content), content["schemaType"]))

    def with_guid(self, guid: str) -> Iterator[Version]:
        """Yield a version of each context that has this schema."""
        for (context, other, _), schema_id in sorted(self._ids.items()):
            if other == guid:
                yield self.with_id(context, schema_id)[0]

    def next_id(self, context: str) -> int:
        """Return an id that the context has not had."""
        return self._largest.get(context, 0) + 1

    def referrers(self, subject: str, number: int, *, deleted: bool = False) -> list[Version]:
        """Return the versions that refer to a version."""
        context = context_of(subject)
        return [
            version
            for versions in self.subjects.values()
            for version in versions.values()
            if (deleted or not version.deleted)
            and any(
                reference.get("version") == number
                and qualified(str(reference.get("subject")), context_of(version.subject)) == subject
                for reference in version.content.get("references") or ()
            )
            and context_of(version.subject) == context
        ]


def qualified(subject: str, context: str) -> str:
    """Return a subject of a reference, which belongs to the context of the schema that refers to it."""
    if context == DEFAULT_CONTEXT or subject.startswith(":."):
        return subject
    return f":{context}:{subject}"
