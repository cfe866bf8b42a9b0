"""The rules of the registry's calls. Each call gets the state, and returns its answer and the records to write.

Nothing here waits: the service writes the records, applies them, and only then sends the answer. The rules are those of
Confluent's registry (``KafkaSchemaRegistry`` and the REST resources of its source, Platform 8).

1. The same schema has the same id in a context, under whatever subject. Ids count up from 1 in each context.
2. A version is one more than the largest that the subject has had, deleted ones included.
3. A schema that the subject has, and that is not deleted, is not registered again: its version is the answer.
4. A deletion can be undone until it is made for good. Only a deleted subject or version can be deleted for good.
5. A version that others refer to cannot be deleted.
6. Settings and modes of a subject come before those of its context, and those before the registry's.
7. Ids are given by the client only in the mode ``IMPORT``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyconsumer.broker.registry.errors import RegistryError, RegistryErrors
from pyconsumer.broker.registry.formats import LEVELS, TYPES, ParsedSchema, check_compatibility, guid_of, parse
from pyconsumer.broker.registry.records import (
    Record,
    config_record,
    context_record,
    delete_subject_record,
    mode_record,
    schema_record,
)
from pyconsumer.broker.registry.state import DEFAULT_CONTEXT, State, Version, context_of, qualified

__all__ = ["EVERYWHERE", "MODES", "Operations", "Result"]

_FORMAT_NAMES: Final = {"AVRO": "Avro", "JSON": "JSON", "PROTOBUF": "Protobuf"}

#: The prefix of the subjects of all contexts.
EVERYWHERE: Final = ":*:"

MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
_DEFAULT_LEVEL: Final = "BACKWARD"
_DEFAULT_MODE: Final = "READWRITE"
_MOST_VERSION: Final = (1 << 31) - 1
#: The settings that may be set, besides the level.
_SETTINGS: Final = (
    "alias",
    "normalize",
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)


class Result(NamedTuple):
    """The answer to a call, and the records that must be written before it is sent."""

    body: Any
    records: Sequence[Record] = ()


class Operations:
    """The calls. See the rules at the top of the module."""

    def __init__(self, state: State) -> None:
        self._state = state

    # --- finding

    def _subject(self, subject: str, *, deleted: bool = False) -> list[Version]:
        found = self._state.versions(subject, deleted=deleted)
        if not found:
            raise RegistryError(RegistryErrors.SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
        return found

    def version(self, subject: str, version: str, *, deleted: bool = False) -> Version:
        """Return a version of a subject by its number, or the latest for ``latest`` or -1."""
        number = _version_number(version)
        if number is None:
            return self._subject(subject, deleted=deleted)[-1]
        self._subject(subject, deleted=True)
        for found in self._state.versions(subject, deleted=deleted):
            if found.version == number:
                return found
        raise RegistryError(RegistryErrors.VERSION_NOT_FOUND, f"Version {number} not found.")

    def schema_by_id(self, schema_id: int, subject: str | None) -> Version:
        """Return a subject's version whose schema has this id.

        The id is looked up in the context of ``subject``, without a subject in the default context."""
        context = DEFAULT_CONTEXT if subject is None else context_of(subject)
        found = self._state.with_id(context, schema_id)
        if not found:
            raise RegistryError(RegistryErrors.SCHEMA_NOT_FOUND, f"Schema {schema_id} not found")
        own = [version for version in found if version.subject == subject]
        return (own or found)[0]

    def schema_by_guid(self, guid: str) -> Version:
        for version in self._state.with_guid(guid.lower()):
            return version
        raise RegistryError(RegistryErrors.SCHEMA_NOT_FOUND, f"Schema {guid} not found")

    def ids_of_guid(self, guid: str) -> list[dict[str, Any]]:
        self.schema_by_guid(guid)
        found = self._state.with_guid(guid.lower())
        return [{"context": context_of(version.subject), "id": version.id} for version in found]

    def versions_of_id(self, schema_id: int, subject: str | None, *, deleted: bool) -> list[Version]:
        self.schema_by_id(schema_id, subject)
        context = DEFAULT_CONTEXT if subject is None else context_of(subject)
        found = self._state.with_id(context, schema_id)
        named = subject is not None and _bare(subject) != ""
        return [
            version
            for version in found
            if (deleted or not version.deleted) and (not named or version.subject == subject)
        ]

    def subjects(self, prefix: str, *, deleted: bool, deleted_only: bool) -> list[str]:
        """Return the names of subjects whose context is that of a prefix, or any context for :data:`EVERYWHERE`."""
        everywhere = prefix.startswith(EVERYWHERE)
        rest = prefix.removeprefix(EVERYWHERE)
        found = []
        for subject, versions in sorted(self._state.subjects.items()):
            alive = any(not version.deleted for version in versions.values())
            if (alive and deleted_only) or (not alive and not deleted and not deleted_only):
                continue
            if not everywhere and context_of(subject) != context_of(prefix):
                continue
            if (_bare(subject) if everywhere else subject).startswith(rest):
                found.append(subject)
        return found

    def version_numbers(self, subject: str, *, deleted: bool, deleted_only: bool) -> list[int]:
        found = self._subject(subject, deleted=deleted or deleted_only)
        return [version.version for version in found if version.deleted or not deleted_only]

    def referenced_by(self, subject: str, version: str) -> list[int]:
        found = self.version(subject, version, deleted=True)
        return sorted({other.id for other in self._state.referrers(subject, found.version)})

    def with_metadata(self, subject: str, wanted: Mapping[str, str], *, deleted: bool) -> Version:
        for version in reversed(self._subject(subject, deleted=deleted)):
            properties = (version.content.get("metadata") or {}).get("properties") or {}
            if all(properties.get(name) == value for name, value in wanted.items()):
                return version
        raise RegistryError(RegistryErrors.SCHEMA_NOT_FOUND, "Schema not found")

    def contexts(self) -> list[str]:
        return sorted(self._state.contexts)

    def all_schemas(self, prefix: str, *, deleted: bool, latest_only: bool) -> list[Version]:
        found: list[Version] = []
        for subject in self.subjects(prefix, deleted=deleted, deleted_only=False):
            versions = self._state.versions(subject, deleted=deleted)
            found += versions[-1:] if latest_only else versions
        return found

    # --- registering

    def _references(
        self, subject: str, references: Sequence[Any], known: dict[tuple[str, int], ParsedSchema], kind: str
    ) -> dict[str, ParsedSchema]:
        """Return the schemas that a schema refers to by name, each parsed once."""
        context = context_of(subject)
        parsed: dict[str, ParsedSchema] = {}
        for reference in references:
            name = qualified(str(reference.get("subject")), context)
            try:
                version = self.version(name, str(reference.get("version")), deleted=True)
            except RegistryError:
                raise RegistryError(
                    RegistryErrors.INVALID_SCHEMA,
                    f"Invalid schema: the reference {reference.get('name')!r} is to version {reference.get('version')}"
                    f" of subject '{name}', which does not exist",
                ) from None
            place = (name, version.version)
            if place not in known:
                own = version.content
                if own["schemaType"] != kind:
                    raise RegistryError(
                        RegistryErrors.INVALID_SCHEMA,
                        f"Invalid schema: subject '{name}' holds no {_FORMAT_NAMES[kind]} schema",
                    )
                inner = self._references(name, own.get("references") or (), known, kind)
                known[place] = parse(own["schemaType"], own["schema"], inner)
            parsed[str(reference.get("name"))] = known[place]
        return parsed

    def _parsed(
        self, subject: str, body: Mapping[str, Any], *, normalize: bool = False
    ) -> tuple[ParsedSchema, dict[str, Any]]:
        """Return the schema of a request, and its content as it is kept."""
        text, kind = body.get("schema"), body.get("schemaType") or "AVRO"
        references = body.get("references") or []
        if not isinstance(text, str) or not text.strip():
            raise RegistryError(RegistryErrors.INVALID_SCHEMA, "Empty schema")
        if not isinstance(references, list) or not all(isinstance(each, dict) for each in references):
            raise RegistryError(RegistryErrors.INVALID_SCHEMA, "Invalid schema: references are a list of objects")
        if kind not in TYPES:
            raise RegistryError(
                RegistryErrors.INVALID_SCHEMA, f"Invalid schema type {kind}: it is one of {', '.join(TYPES)}"
            )
        normalize = normalize or bool(self._setting(subject, "normalize"))
        parsed = parse(kind, text, self._references(subject, references, {}, kind), normalize=normalize)
        content: dict[str, Any] = {"schemaType": kind}
        kept = [{name: each[name] for name in ("name", "subject", "version") if name in each} for each in references]
        if normalize:
            kept = sorted(kept, key=lambda each: str(each.get("name")))
        if kept:
            content["references"] = kept
        for name in ("metadata", "ruleSet"):
            if body.get(name):
                content[name] = body[name]
        content["schema"] = parsed.text
        return parsed, content

    def _same(self, subject: str, content: Mapping[str, Any], *, deleted: bool = False) -> Version | None:
        guid = guid_of(content)
        for version in reversed(self._state.versions(subject, deleted=deleted)):
            if version.guid == guid and version.type == content["schemaType"]:
                return version
        return None

    def register(self, subject: str, body: Mapping[str, Any], *, normalize: bool) -> Result:
        """Register a schema. Returns the version."""
        _check_subject(subject)
        mode = self.mode_of(subject)
        if mode.startswith("READONLY"):
            raise RegistryError(RegistryErrors.OPERATION_NOT_PERMITTED, f"Subject {subject} is in read-only mode")
        given = body.get("id") if body.get("id") not in (None, -1) else None
        if given is not None and mode != "IMPORT":
            raise RegistryError(RegistryErrors.OPERATION_NOT_PERMITTED, f"Subject {subject} is not in import mode")
        if given is None and mode == "IMPORT":
            raise RegistryError(
                RegistryErrors.OPERATION_NOT_PERMITTED, f"Subject {subject} is in import mode: a schema needs an id"
            )
        parsed, content = self._parsed(subject, body, normalize=normalize)
        same = self._same(subject, content)
        if same is not None and given in (None, same.id):
            return Result(same.to_json())
        context = context_of(subject)
        numbers = [version.version for version in self._state.versions(subject, deleted=True)]
        number = _given_version(body) if given is not None else None
        if number is None:
            number = max(numbers, default=0) + 1
        if mode != "IMPORT":
            reasons = self._reasons(subject, parsed, self._state.versions(subject), content)
            if reasons:
                raise RegistryError(
                    RegistryErrors.INCOMPATIBLE_SCHEMA,
                    f"Schema being registered is incompatible with an earlier schema for subject '{subject}', details: "
                    + "; ".join(reasons),
                )
        known = self._state.id_of(context, content)
        if given is not None:
            schema_id = _number(given, RegistryErrors.ID_DOES_NOT_MATCH, "id")
            other = self._state.with_id(context, schema_id)
            if other and other[0].guid != guid_of(content):
                raise RegistryError(
                    RegistryErrors.OPERATION_NOT_PERMITTED,
                    f"Overwrite new schema with id {schema_id} is not permitted: the id belongs to another schema",
                )
        else:
            schema_id = known if known is not None else self._state.next_id(context)
        made = Version({"subject": subject, "version": number, "id": schema_id, **content})
        records = [schema_record(subject, number, made.to_value())]
        if context not in self._state.contexts:
            records.insert(0, context_record(context))
        return Result(made.to_json(), records)

    def _reasons(
        self,
        subject: str,
        parsed: ParsedSchema,
        previous: Sequence[Version],
        content: Mapping[str, Any],
        level: str | None = None,
    ) -> list[str]:
        group = self._setting(subject, "compatibilityGroup")
        if group:
            wanted = _property(content, group)
            previous = [version for version in previous if _property(version.content, group) == wanted]
        old = []
        known: dict[tuple[str, int], ParsedSchema] = {}
        for version in previous:
            own = version.content
            references = self._references(subject, own.get("references") or (), known, own["schemaType"])
            old.append((version.version, parse(own["schemaType"], own["schema"], references)))
        return check_compatibility(level or self.level_of(subject), parsed, old)

    def lookup(self, subject: str, body: Mapping[str, Any], *, normalize: bool, deleted: bool) -> Version:
        """Return the version of a subject that has the schema of a request."""
        self._subject(subject, deleted=deleted)
        _, content = self._parsed(subject, body, normalize=normalize)
        found = self._same(subject, content, deleted=deleted)
        if found is None:
            raise RegistryError(RegistryErrors.SCHEMA_NOT_FOUND, "Schema not found")
        return found

    def incompatibilities(
        self, subject: str, body: Mapping[str, Any], version: str | None, *, normalize: bool
    ) -> list[str]:
        """Return the reasons against a schema. None: all versions that the level names."""
        parsed, content = self._parsed(subject, body, normalize=normalize)
        if version is None:
            return self._reasons(subject, parsed, self._state.versions(subject), content)
        latest = _version_number(version) is None
        if latest and not self._state.versions(subject):
            return []  # nothing to compare with
        return self._reasons(subject, parsed, [self.version(subject, version)], content)

    # --- deleting

    def _check_writable(self, subject: str) -> None:
        if self.mode_of(subject).startswith("READONLY"):
            raise RegistryError(RegistryErrors.OPERATION_NOT_PERMITTED, f"Subject {subject} is in read-only mode")

    def _check_references(self, versions: Sequence[Version], *, deleted: bool) -> None:
        leaving = {(version.subject, version.version) for version in versions}
        for version in versions:
            others = self._state.referrers(version.subject, version.version, deleted=deleted)
            if any((other.subject, other.version) not in leaving for other in others):
                raise RegistryError(
                    RegistryErrors.REFERENCE_EXISTS,
                    f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={version.subject},"
                    f"version={version.version}}}.",
                )

    def delete_subject(self, subject: str, *, permanent: bool) -> Result:
        versions = self._state.versions(subject, deleted=True)
        alive = [version for version in versions if not version.deleted]
        if not versions:
            raise RegistryError(RegistryErrors.SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
        if permanent and alive:
            raise RegistryError(
                RegistryErrors.SUBJECT_NOT_SOFT_DELETED,
                f"Subject '{subject}' was not deleted first before being permanently deleted",
            )
        if not permanent and not alive:
            raise RegistryError(
                RegistryErrors.SUBJECT_SOFT_DELETED,
                f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently",
            )
        self._check_writable(subject)
        leaving = versions if permanent else alive
        self._check_references(leaving, deleted=permanent)
        numbers = [version.version for version in leaving]
        if not permanent:
            return Result(numbers, [delete_subject_record(subject, numbers[-1])])
        records = [schema_record(subject, number, None) for number in reversed(numbers)]
        if subject in self._state.modes:
            records.append(mode_record(subject, None))
        if subject in self._state.configs:
            records.append(config_record(subject, None))
        return Result(numbers, records)

    def delete_version(self, subject: str, version: str, *, permanent: bool) -> Result:
        self._subject(subject, deleted=True)
        found = self.version(subject, version, deleted=True)
        if permanent and not found.deleted:
            raise RegistryError(
                RegistryErrors.SCHEMAVERSION_NOT_SOFT_DELETED,
                f"Subject '{subject}' Version {found.version} was not deleted first before being permanently deleted",
            )
        if not permanent and found.deleted:
            raise RegistryError(
                RegistryErrors.SCHEMAVERSION_SOFT_DELETED,
                f"Subject '{subject}' Version {found.version} was soft deleted.Set permanent=true to delete"
                " permanently",
            )
        self._check_writable(subject)
        self._check_references([found], deleted=permanent)
        value = None if permanent else found.to_value(deleted=True)
        return Result(found.version, [schema_record(subject, found.version, value)])

    # --- settings and modes

    def _scoped(self, subject: str | None, find: Callable[[str | None], Any]) -> Any:
        """Return the first value of a subject, its context, and the registry."""
        if subject is not None:
            found = find(subject)
            if found is not None:
                return found
            context = context_of(subject)
            if context != DEFAULT_CONTEXT:
                found = find(f":{context}:")
                if found is not None:
                    return found
        return find(None)

    def _setting(self, subject: str | None, name: str) -> Any:
        return self._scoped(subject, lambda place: (self._state.configs.get(place) or {}).get(name))

    def level_of(self, subject: str | None) -> str:
        """Return the compatibility level that applies to a subject."""
        return str(self._setting(subject, "compatibilityLevel") or _DEFAULT_LEVEL)

    def mode_of(self, subject: str | None) -> str:
        """Return the mode that applies to a subject. The registry's ``READONLY_OVERRIDE`` comes before all."""
        if self._state.modes.get(None) == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        return str(self._scoped(subject, self._state.modes.get) or _DEFAULT_MODE)

    def config(self, subject: str | None, *, default_to_global: bool) -> dict[str, Any]:
        own = self._state.configs.get(subject)
        if own is None and subject is not None and not default_to_global:
            raise RegistryError(
                RegistryErrors.SUBJECT_LEVEL_COMPATIBILITY_NOT_CONFIGURED,
                f"Subject '{subject}' does not have subject-level compatibility configured",
            )
        found = {name: value for name, value in (own or {}).items() if name != "subject"}
        found.setdefault("compatibilityLevel", self.level_of(subject))
        return found

    def set_config(self, subject: str | None, body: Mapping[str, Any]) -> Result:
        level = body.get("compatibility") or body.get("compatibilityLevel")
        if level is not None and str(level).upper() not in LEVELS:
            raise RegistryError(
                RegistryErrors.INVALID_COMPATIBILITY_LEVEL,
                "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive,"
                " forward_transitive, and full_transitive",
            )
        value = {"subject": subject, **(self._state.configs.get(subject) or {})}
        answer: dict[str, Any] = {}
        for name in _SETTINGS:
            if body.get(name) is not None:
                value[name] = answer[name] = body[name]
        if level is not None:
            value["compatibilityLevel"] = answer["compatibility"] = str(level).upper()
        return Result(answer, [config_record(subject, value)])

    def delete_config(self, subject: str | None) -> Result:
        own = self._state.configs.get(subject)
        if own is None and subject is not None:
            raise RegistryError(RegistryErrors.SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
        answer = {name: value for name, value in (own or {}).items() if name != "subject"}
        return Result(answer, [] if own is None else [config_record(subject, None)])

    def mode(self, subject: str | None, *, default_to_global: bool) -> dict[str, Any]:
        if subject is not None and subject not in self._state.modes and not default_to_global:
            raise RegistryError(
                RegistryErrors.SUBJECT_LEVEL_MODE_NOT_CONFIGURED,
                f"Subject '{subject}' does not have subject-level mode configured",
            )
        return {"mode": self.mode_of(subject)}

    def set_mode(self, subject: str | None, body: Mapping[str, Any], *, force: bool) -> Result:
        mode = str(body.get("mode") or "").upper()
        if mode not in MODES or (mode == "READONLY_OVERRIDE" and subject is not None):
            raise RegistryError(RegistryErrors.INVALID_MODE, f"Invalid mode. Valid values are {', '.join(MODES)}")
        if mode == "IMPORT" and not force and self.mode_of(subject) != "IMPORT" and self._has_schemas(subject):
            raise RegistryError(
                RegistryErrors.OPERATION_NOT_PERMITTED,
                f"Cannot import since found existing subjects{'' if subject is None else ' in ' + subject}",
            )
        return Result({"mode": mode}, [mode_record(subject, mode)])

    def _has_schemas(self, subject: str | None) -> bool:
        if subject is None:
            return bool(self._state.subjects)
        if _bare(subject) == "":
            return any(context_of(each) == context_of(subject) for each in self._state.subjects)
        return subject in self._state.subjects

    def delete_mode(self, subject: str) -> Result:
        mode = self._state.modes.get(subject)
        if mode is None:
            raise RegistryError(RegistryErrors.SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
        return Result({"mode": mode}, [mode_record(subject, None)])


def _bare(subject: str) -> str:
    """Return a subject without its context."""
    context = context_of(subject)
    return subject if context == DEFAULT_CONTEXT else subject[len(context) + 2 :]


def _property(content: Mapping[str, Any], name: str) -> Any:
    return ((content.get("metadata") or {}).get("properties") or {}).get(name)


def _check_subject(subject: str) -> None:
    if not subject.strip() or any(ord(character) < 32 for character in subject) or subject in ("__GLOBAL", "__EMPTY"):
        raise RegistryError(
            RegistryErrors.INVALID_SUBJECT, f"The specified subject '{subject}' is not a valid subject."
        )


def _version_number(text: str) -> int | None:
    """Return the number of a version, None for the latest."""
    if text in ("latest", "-1"):
        return None
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 0 < number <= _MOST_VERSION:
        raise RegistryError(
            RegistryErrors.INVALID_VERSION,
            f"The specified version '{text}' is not a valid version id. Allowed values are between [1, 2^31-1] and the"
            ' string "latest"',
        )
    return number


def _number(value: Any, code: RegistryErrors, name: str) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_VERSION:
        raise RegistryError(code, f"the {name} {value!r} is no number from 0 to 2^31-1")
    return value


def _given_version(body: Mapping[str, Any]) -> int | None:
    version = body.get("version")
    return None if version in (None, 0, -1) else _number(version, RegistryErrors.INVALID_VERSION, "version")
