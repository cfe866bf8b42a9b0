"""The options of typed keys and values: formats, schemas, the registry, and what happens to a bad row.

``value.format`` and ``key.format`` name a format. The source and the sink have them. ``value.schema.id``,
``value.schema.version`` and ``value.schema`` (one of them) pin the schema of the column. Without one it is the latest
of the topic's subject. ``value.message`` names the message type of Protobuf. ``schema.registry.*`` are the settings of
the registry's client.

Secrets of the registry are references, such as ``${env:NAME}``: options stand in Spark's plans. A plain one is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.option_values import read_number, read_text, read_word
from pyconsumer.spark.secrets import is_reference, resolve_references

__all__ = [
    "FORMATS",
    "SIDES",
    "SIDE_OPTIONS",
    "VALUE_OPTIONS",
    "SideOptions",
    "ValueOptions",
    "registry_settings",
    "split_registry",
]

#: The formats of typed columns. :mod:`pyconsumer.spark.value_formats` has the code of each.
FORMATS: Final = ("avro", "json", "protobuf")
SIDES: Final = ("key", "value")

#: The options that the source and the sink have.
SIDE_OPTIONS: Final = tuple(
    [f"{side}.{name}" for side in SIDES for name in ("format", "schema", "schema.id", "schema.version", "message")]
)
#: Those of the source.
VALUE_OPTIONS: Final = (*SIDE_OPTIONS, "onDecodeError", "includeBytes", "includeSchemaId")

_PREFIX: Final = "schema.registry."
_SECRETS: Final = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "bearer.auth.client.secret",
    "ssl.key.password",
)
_MAX_ID: Final = 0x7FFFFFFF


@dataclass(frozen=True)
class SideOptions:
    """The options of typed keys or values. At most one of ``schema``, ``schema_id`` and ``version`` is given.

    Attributes:
        format: one of :data:`FORMATS`.
        schema: the text of the column's schema.
        schema_id: its id in the registry.
        version: its version in the subject of each topic.
        message: of Protobuf, the full name of the message type. None takes the first one of the schema.
    """

    format: str
    schema: str | None = None
    schema_id: int | None = None
    version: int | None = None
    message: str | None = None

    @property
    def is_pinned(self) -> bool:
        """Return whether the schema of the column follows from the options alone."""
        return (self.schema, self.schema_id, self.version) != (None, None, None)


@dataclass(frozen=True)
class ValueOptions:
    """The options of all typed columns.

    Attributes:
        sides: by ``"key"`` and ``"value"``.
        registry: the settings of the registry, as they were given. Empty without one.
        null_for_errors: True makes a bad row null. Otherwise it fails the task.
    """

    sides: Mapping[str, SideOptions]
    registry: Mapping[str, str] = field(repr=False)
    null_for_errors: bool = False

    @classmethod
    def parse(cls, own: Mapping[str, str], registry: Mapping[str, str]) -> ValueOptions | None:
        """Check the options. None if no column is typed.

        Args:
            own: the options of the source by their usual names.
            registry: the options ``schema.registry.*``, without this prefix.

        Raises:
            ConfigurationError: an option is invalid, contradicts another one, or has a plain secret.
        """
        sides = {side: found for side in SIDES if (found := _side(own, side)) is not None}
        if not sides:
            unused = [name for name in VALUE_OPTIONS if name in own] + [_PREFIX + name for name in registry]
            if unused:
                raise ConfigurationError(
                    f"option {unused[0]} is for typed columns: set value.format or key.format to {' or '.join(FORMATS)}"
                )
            return None
        if registry:
            _check_secrets(registry)
            from pyconsumer.schemas.registry.settings import RegistrySettings

            RegistrySettings.of(registry_settings(registry))
        for side, found in sides.items():
            if not registry and found.schema is None:
                raise ConfigurationError(
                    f"option {side}.format={found.format} needs the registry that has the schemas: set"
                    f" schema.registry.url. Or give the schema of all {side}s as {side}.schema, if they were written"
                    " without a registry"
                )
        on_error = read_word(own, "onDecodeError", "fail", ("fail", "null"))
        return cls(sides, dict(registry), on_error == "null")


def _side(own: Mapping[str, str], side: str) -> SideOptions | None:
    names = [f"{side}.{name}" for name in ("schema", "schema.id", "schema.version")]
    given = [name for name in names if name in own]
    if f"{side}.format" not in own:
        if f"{side}.message" in own:
            given.append(f"{side}.message")
        if given:
            raise ConfigurationError(f"option {given[0]} needs {side}.format, such as {side}.format=avro")
        return None
    if len(given) > 1:
        raise ConfigurationError(f"only one of the options {', '.join(names)} may be given, not {' and '.join(given)}")
    form = read_word(own, f"{side}.format", "", FORMATS)
    message = read_text(own, f"{side}.message")
    if message is not None and form != "protobuf":
        raise ConfigurationError(f"option {side}.message is for {side}.format=protobuf, not {form}")
    return SideOptions(
        form,
        read_text(own, names[0]),
        read_number(own, names[1], 0, most=_MAX_ID),
        read_number(own, names[2], 1),
        message,
    )


def split_registry(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options ``schema.registry.*`` without this prefix, and all others."""
    registry: dict[str, str] = {}
    rest: dict[str, str] = {}
    for key, value in options.items():
        name = key.lower()
        if name.startswith(_PREFIX):
            registry[name.removeprefix(_PREFIX)] = value
        else:
            rest[key] = value
    return registry, rest


def _check_secrets(registry: Mapping[str, str]) -> None:
    """Refuse secrets that would stand in Spark's plans."""
    for name in _SECRETS:
        if name in registry and not is_reference(registry[name]):
            raise ConfigurationError(
                f"option {_PREFIX}{name} must be a reference, such as ${{env:NAME}}: options stand in Spark's plans"
            )
    for name in ("url", "proxy", "bearer.auth.issuer.endpoint.url"):
        address = registry.get(name, "")
        for text in address.split(",") if name == "url" else (address,):  # the others are one address
            login = text.rpartition("@")[0].strip()
            if "@" not in text or is_reference(login.partition("://")[2] or login):
                continue
            raise ConfigurationError(
                f"option {_PREFIX}{name} has a login, and options stand in Spark's plans: give"
                f" {_PREFIX}basic.auth.user.info as a reference, such as ${{env:NAME}}"
            )


def registry_settings(registry: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings for the registry's client, with the secrets of this machine.

    Raises:
        ConfigurationError: a reference to a secret cannot be resolved.
    """
    found: dict[str, Any] = {name: resolve_references(f"{_PREFIX}{name}", value) for name, value in registry.items()}
    if found.get("ssl.ca.location", "").lower() == "false":
        found["ssl.ca.location"] = False
    return found
