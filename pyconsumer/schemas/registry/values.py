"""Values of a Schema Registry: schemas, references, metadata, rules and settings, to and from its JSON.

Names and the order of fields are confluent-kafka's. All values but :class:`ServerConfig` are immutable. A field that
a newer registry adds is ignored. A value of another kind than the field's is a ``ValueError`` that names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Self

__all__ = [
    "ConfigCompatibilityLevel",
    "Metadata",
    "MetadataProperties",
    "MetadataTags",
    "RegisteredSchema",
    "Rule",
    "RuleKind",
    "RuleMode",
    "RuleParams",
    "RulePhase",
    "RuleSet",
    "Schema",
    "SchemaReference",
    "SchemaVersion",
    "ServerConfig",
]


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _object(found: Any, place: str) -> Mapping[str, Any]:
    """Return a JSON object. ``place`` is its name, for the message of a ValueError."""
    if isinstance(found, Mapping):
        return found
    raise ValueError(f"{place} is an object, not {type(found).__name__}")


def _list(found: Any, place: str) -> Sequence[Any]:
    """Return a JSON array, an empty one for null. See :func:`_object`."""
    if found is None:
        return []
    if isinstance(found, list | tuple):
        return found
    raise ValueError(f"{place} is a list, not {type(found).__name__}")


def _text(found: Any, place: str) -> str | None:
    """Return a text or None. See :func:`_object`."""
    if found is None or isinstance(found, str):
        return found
    raise ValueError(f"{place} is text, not {type(found).__name__}")


def _whole(found: Any, place: str) -> int | None:
    """Return a whole number or None. See :func:`_object`."""
    if found is None or type(found) is int:
        return found
    raise ValueError(f"{place} is a whole number, not {type(found).__name__}")


class RuleKind(StrEnum):
    """The kind of a rule: it checks a value or changes it."""

    CONDITION = "CONDITION"
    TRANSFORM = "TRANSFORM"


class RulePhase(StrEnum):
    """The list of a rule set that a rule stands in."""

    MIGRATION = "MIGRATION"
    DOMAIN = "DOMAIN"
    ENCODING = "ENCODING"


class RuleMode(StrEnum):
    """The direction in which a rule applies."""

    UPGRADE = "UPGRADE"
    DOWNGRADE = "DOWNGRADE"
    UPDOWN = "UPDOWN"
    READ = "READ"
    WRITE = "WRITE"
    WRITEREAD = "WRITEREAD"


class ConfigCompatibilityLevel(StrEnum):
    """The versions that a new version of a subject is checked against, and in which direction."""

    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"
    NONE = "NONE"


@dataclass(frozen=True, slots=True)
class RuleParams:
    """Parameters of a rule by name."""

    params: Mapping[str, str] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, str]:
        return dict(self.params)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        return cls(dict(_object(found, cls.__name__)))


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a data contract.

    Attributes:
        name: its name, unique in its list.
        doc: a description.
        kind: see :class:`RuleKind`.
        mode: see :class:`RuleMode`.
        type: the executor, such as ``CEL``.
        tags: the tags of the fields that it applies to.
        params: see :class:`RuleParams`.
        expr: its expression, in the executor's language.
        on_success, on_failure: the actions, such as ``DLQ``.
        disabled: True if it does not apply.
    """

    name: str | None = None
    doc: str | None = None
    kind: RuleKind | str | None = None
    mode: RuleMode | str | None = None
    type: str | None = None
    tags: Sequence[str] | None = field(default=None, hash=False)
    params: RuleParams | None = None
    expr: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    disabled: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        return _without_none(
            name=self.name,
            doc=self.doc,
            kind=None if self.kind is None else str(self.kind),
            mode=None if self.mode is None else str(self.mode),
            type=self.type,
            tags=None if self.tags is None else list(self.tags),
            params=None if self.params is None else self.params.to_dict(),
            expr=self.expr,
            onSuccess=self.on_success,
            onFailure=self.on_failure,
            disabled=self.disabled,
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        return cls(
            name=found.get("name"),
            doc=found.get("doc"),
            kind=_member(RuleKind, found.get("kind")),
            mode=_member(RuleMode, found.get("mode")),
            type=found.get("type"),
            tags=None if found.get("tags") is None else _list(found["tags"], "tags"),
            params=None if found.get("params") is None else RuleParams.from_dict(found["params"]),
            expr=found.get("expr"),
            on_success=found.get("onSuccess"),
            on_failure=found.get("onFailure"),
            disabled=found.get("disabled"),
        )


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a schema, in three lists.

    Attributes:
        migration_rules: applied between versions.
        domain_rules: applied to values.
        encoding_rules: applied to bytes.
        enable_at: the phase from which the rules apply.
    """

    migration_rules: Sequence[Rule] | None = field(default=None, hash=False)
    domain_rules: Sequence[Rule] | None = field(default=None, hash=False)
    encoding_rules: Sequence[Rule] | None = field(default=None, hash=False)
    enable_at: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return _without_none(
            migrationRules=_dicts(self.migration_rules),
            domainRules=_dicts(self.domain_rules),
            encodingRules=_dicts(self.encoding_rules),
            enableAt=self.enable_at,
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        def rules(name: str) -> list[Rule] | None:
            if found.get(name) is None:
                return None
            return [Rule.from_dict(_object(each, f"a rule of {name}")) for each in _list(found[name], name)]

        found = _object(found, "ruleSet")
        return cls(rules("migrationRules"), rules("domainRules"), rules("encodingRules"), found.get("enableAt"))


@dataclass(frozen=True, slots=True)
class MetadataTags:
    """Tags by the path of a field."""

    tags: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, list[str]]:
        return {path: list(tags) for path, tags in self.tags.items()}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        return cls(dict(_object(found, cls.__name__)))


@dataclass(frozen=True, slots=True)
class MetadataProperties:
    """Properties of a schema by name."""

    properties: Mapping[str, str] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, str]:
        return dict(self.properties)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        return cls(dict(_object(found, cls.__name__)))


@dataclass(frozen=True, slots=True)
class Metadata:
    """Metadata of a schema.

    Attributes:
        tags: see :class:`MetadataTags`.
        properties: see :class:`MetadataProperties`.
        sensitive: names of properties that hold secrets.
    """

    tags: MetadataTags | None = None
    properties: MetadataProperties | None = None
    sensitive: Sequence[str] | None = field(default=None, hash=False)

    def to_dict(self) -> dict[str, Any]:
        return _without_none(
            tags=None if self.tags is None else self.tags.to_dict(),
            properties=None if self.properties is None else self.properties.to_dict(),
            sensitive=None if self.sensitive is None else list(self.sensitive),
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        found = _object(found, "metadata")
        tags, properties = found.get("tags"), found.get("properties")
        return cls(
            None if tags is None else MetadataTags.from_dict(tags),
            None if properties is None else MetadataProperties.from_dict(properties),
            None if found.get("sensitive") is None else _list(found["sensitive"], "sensitive"),
        )


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of a subject."""

    subject: str | None = None
    version: int | None = None

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        found = _object(found, "a version")
        return cls(found.get("subject"), found.get("version"))

    def to_dict(self) -> dict[str, Any]:
        return _without_none(subject=self.subject, version=self.version)


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one refers to.

    Attributes:
        name: the name by which the other schema refers to it: a full name of Avro's, a ``$ref`` or an import.
        subject: the subject that it is registered under.
        version: the version of that subject.
    """

    name: str | None = None
    subject: str | None = None
    version: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return _without_none(name=self.name, subject=self.subject, version=self.version)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        found = _object(found, "a reference")
        return cls(found.get("name"), found.get("subject"), _whole(found.get("version"), "version of a reference"))


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as text, with its type and the schemas that it refers to.

    Attributes:
        schema_str: the text.
        schema_type: ``AVRO``, ``JSON`` or ``PROTOBUF``.
        references: see :class:`SchemaReference`.
        metadata: see :class:`Metadata`.
        rule_set: see :class:`RuleSet`.
    """

    schema_str: str | None
    schema_type: str | None = "AVRO"
    references: Sequence[SchemaReference] = field(default_factory=list, hash=False)
    metadata: Metadata | None = field(default=None, hash=False)
    rule_set: RuleSet | None = field(default=None, hash=False)

    def to_dict(self) -> dict[str, Any]:
        return _without_none(
            schema=self.schema_str,
            schemaType=self.schema_type,
            references=_dicts(self.references),
            metadata=None if self.metadata is None else self.metadata.to_dict(),
            ruleSet=None if self.rule_set is None else self.rule_set.to_dict(),
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        metadata, rule_set = found.get("metadata"), found.get("ruleSet")
        return cls(
            _text(found.get("schema"), "schema"),
            _text(found.get("schemaType"), "schemaType") or "AVRO",
            [SchemaReference.from_dict(each) for each in _list(found.get("references"), "references")],
            None if metadata is None else Metadata.from_dict(metadata),
            None if rule_set is None else RuleSet.from_dict(rule_set),
        )


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its place in the registry.

    Attributes:
        subject: the subject. None if the registry was not asked for one.
        version: the version of that subject. None if the registry does not say.
        schema_id: the id, unique in the registry's context.
        guid: the globally unique id. None from registries that have none.
        schema: the schema.
    """

    subject: str | None
    version: int | None
    schema_id: int | None
    guid: str | None
    schema: Schema

    def to_dict(self) -> dict[str, Any]:
        own = _without_none(subject=self.subject, version=self.version, id=self.schema_id, guid=self.guid)
        return {**own, **self.schema.to_dict()}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        return cls(
            found.get("subject"),
            found.get("version"),
            _whole(found.get("id"), "id"),
            _text(found.get("guid"), "guid"),
            Schema.from_dict(found),
        )


@dataclass(slots=True)
class ServerConfig:
    """Settings of a subject, or of the whole registry.

    Attributes:
        compatibility: the level, in a request.
        compatibility_level: the level, in a response.
        compatibility_group: the property whose value separates versions that are not compared.
        default_metadata, override_metadata, default_rule_set, override_rule_set: added to new schemas.
        normalize: True if the registry normalizes schemas before it compares them.
        alias: another subject that is meant.
    """

    compatibility: ConfigCompatibilityLevel | str | None = None
    compatibility_level: ConfigCompatibilityLevel | str | None = None
    compatibility_group: str | None = None
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None
    default_rule_set: RuleSet | None = None
    override_rule_set: RuleSet | None = None
    normalize: bool | None = None
    alias: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return _without_none(
            compatibility=None if self.compatibility is None else str(self.compatibility),
            compatibilityLevel=None if self.compatibility_level is None else str(self.compatibility_level),
            compatibilityGroup=self.compatibility_group,
            defaultMetadata=None if self.default_metadata is None else self.default_metadata.to_dict(),
            overrideMetadata=None if self.override_metadata is None else self.override_metadata.to_dict(),
            defaultRuleSet=None if self.default_rule_set is None else self.default_rule_set.to_dict(),
            overrideRuleSet=None if self.override_rule_set is None else self.override_rule_set.to_dict(),
            normalize=self.normalize,
            alias=self.alias,
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        def metadata(name: str) -> Metadata | None:
            return None if found.get(name) is None else Metadata.from_dict(found[name])

        def rule_set(name: str) -> RuleSet | None:
            return None if found.get(name) is None else RuleSet.from_dict(found[name])

        return cls(
            compatibility=_member(ConfigCompatibilityLevel, found.get("compatibility")),
            compatibility_level=_member(ConfigCompatibilityLevel, found.get("compatibilityLevel")),
            compatibility_group=found.get("compatibilityGroup"),
            default_metadata=metadata("defaultMetadata"),
            override_metadata=metadata("overrideMetadata"),
            default_rule_set=rule_set("defaultRuleSet"),
            override_rule_set=rule_set("overrideRuleSet"),
            normalize=found.get("normalize"),
            alias=found.get("alias"),
        )


def _dicts(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else [value.to_dict() for value in values]


def _member(kind: type[Enum], value: str | None) -> Any:
    """Return the member of an enumeration, or the text if a newer registry has a value that we do not know."""
    if value is None:
        return None
    try:
        return kind(value)
    except (ValueError, TypeError):
        return value
