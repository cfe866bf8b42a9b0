"""Schemas of JSON, and the check of documents. The check is that of the library ``jsonschema_rs``.

Rules

1. The draft is that of ``$schema``. Without it, and with one that is unknown, it is 2020-12.
2. ``format`` says what a text means, and is not checked.
3. ``$ref`` is found in the schema itself, or among the references of the registry, by their names. A name is taken as
   it is, or from the schema's ``$id`` on. No schema is fetched from elsewhere, so a schema cannot make this program
   send requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pyconsumer.errors import ConfigurationError, SerializationError
from pyconsumer.schemas.conf import with_references
from pyconsumer.schemas.registry.values import Schema

__all__ = ["JsonSchema", "Validator", "parse_with_references"]

_DRAFTS: Final = (
    "json-schema.org/draft-04/schema",
    "json-schema.org/draft-06/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft/2020-12/schema",
)
#: The base that the library gives to a schema without ``$id``.
_NO_BASE: Final = "json-schema:///"
_MOST_CHARACTERS: Final = 500  #: of a message, which may quote a whole value


class JsonSchema:
    """A schema of JSON.

    Attributes:
        document: the schema.
        references: by name, the schemas that this schema refers to, and those that these refer to.
        title: its title, which is the record's name for subjects.
    """

    __slots__ = ("document", "references", "title")

    def __init__(self, document: Any, references: Mapping[str, Any]) -> None:
        self.document = document
        self.references = references
        title = document.get("title") if isinstance(document, dict) else None
        self.title = title if isinstance(title, str) and title else None

    def find(self, uri: str) -> Any:
        """Return the schema of the registry that a URI names.

        Raises:
            LookupError: there is none.
        """
        bare = uri.removeprefix(_NO_BASE)
        for name in (uri, bare):
            if name in self.references:
                return self.references[name]
        for name, found in self.references.items():
            if "://" not in name and bare.endswith(f"/{name}"):
                return found
        raise LookupError(f"the registry's schema has no reference {bare!r}, and nothing is fetched from elsewhere")


def parse_with_references(client: Any, schema: Schema) -> JsonSchema:
    """Parse a schema after the schemas that it refers to, which the registry has. This waits.

    Raises:
        SerializationError: it is no JSON schema, or references form a circle.
        SchemaRegistryError: a reference cannot be fetched.
    """
    return with_references(client, schema, _parse, SerializationError)


def _parse(text: str, references: list[tuple[str, JsonSchema]]) -> JsonSchema:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SerializationError(f"the schema is no JSON: {error}") from None
    if not isinstance(document, dict | bool):
        raise SerializationError(f"a JSON schema is an object or a boolean, not {type(document).__name__}")
    found: dict[str, Any] = {}
    for name, schema in references:
        found |= schema.references
        found[name] = schema.document
    return JsonSchema(document, found)


class Validator:
    """Checks documents against a schema.

    Args:
        schema: the schema.

    Raises:
        ConfigurationError: the library is not installed.
        SerializationError: it is no JSON schema, or refers to one that is not there.
    """

    def __init__(self, schema: JsonSchema) -> None:
        try:
            import jsonschema_rs
        except ImportError:
            raise ConfigurationError(
                "the check of JSON against its schema needs jsonschema-rs: pip install pyconsumer[json-schema], or set"
                " validate to False"
            ) from None
        make: Any = jsonschema_rs.validator_for
        named = schema.document.get("$schema") if isinstance(schema.document, dict) else None
        if isinstance(named, str) and named.partition("://")[2].rstrip("#") not in _DRAFTS:
            make = jsonschema_rs.Draft202012Validator
        try:
            self._check = make(schema.document, retriever=schema.find, validate_formats=False)
        except ValueError as error:
            raise SerializationError(f"it is no JSON schema: {_message(error)}") from None

    def check(self, document: Any) -> None:
        """Raise an error if a document does not fit the schema.

        Raises:
            SerializationError: the message names the place.
        """
        try:
            self._check.validate(document)
        except ValueError as error:
            place = "".join(
                f"[{step}]" if isinstance(step, int) else f".{step}" for step in getattr(error, "instance_path", ())
            )
            raise SerializationError(f"${place}: {_message(error)}") from None
        except RecursionError:
            raise SerializationError("the document contains itself, or has too many levels") from None


def _message(error: ValueError) -> str:
    text = str(getattr(error, "message", error))
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS // 2]} ... {text[-100:]}"
