"""The options of typed columns."""

from __future__ import annotations

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.value_options import SideOptions, registry_settings

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}
URL = {"schema.registry.url": "http://localhost:8081"}
AVRO = {"value.format": "avro", **URL}


def parse(**extra: str) -> SourceOptions:
    return SourceOptions.parse(LEAST | AVRO | {name.replace("__", "."): value for name, value in extra.items()})


def test_without_a_format_nothing_is_typed() -> None:
    options = SourceOptions.parse(LEAST)
    assert options.values is None
    assert options.parts == {}


def test_the_sides_and_their_pins() -> None:
    options = parse(key__format="AVRO", key__schema__version="3", value__schema__id="7")
    assert options.values is not None
    assert options.values.sides == {
        "key": SideOptions("avro", version=3),
        "value": SideOptions("avro", schema_id=7),
    }
    assert all(side.is_pinned for side in options.values.sides.values())
    assert not parse().values.sides["value"].is_pinned  # type: ignore[union-attr]


def test_the_columns_beside_typed_ones() -> None:
    default = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert parse().columns == default
    assert parse(onDecodeError="null").columns == (*default, "decodeError")
    assert parse(onDecodeError="null", includeBytes="true").columns == (*default, "value_bytes", "decodeError")
    assert parse(columns="Value_Bytes,value").columns == ("value_bytes", "value")
    # A bad row is never mistaken for a tombstone.
    assert parse(columns="value", onDecodeError="null").columns == ("value", "decodeError")
    assert parse(columns="decodeError,value", onDecodeError="null").columns == ("decodeError", "value")


def test_parts_of_a_typed_column() -> None:
    options = parse(columns="offset, Value.id, value.customer.Name, key")
    assert options.columns == ("offset", "value", "key")
    assert options.parts == {"value": (("id",), ("customer", "Name"))}
    assert parse().parts == {"value": None}
    untouched = parse(columns="offset", onDecodeError="null", includeBytes="true")
    assert (untouched.parts, untouched.columns) == ({}, ("offset",))


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"value__format": "xml"}, "value.format must be avro or json or protobuf, not 'xml'"),
        ({"columns": "key.id"}, "no column 'key.id'"),
        ({"columns": "value.id,value"}, "named twice"),
        ({"columns": "key_bytes"}, "no column 'key_bytes'"),
        ({"columns": "decodeError"}, "no column 'decodeError'"),
        ({"key__schema__id": "7"}, "key.schema.id needs key.format"),
        ({"value__schema__id": "7", "value__schema__version": "1"}, "only one of"),
        ({"value__schema__id": "x"}, "whole number"),
        ({"onDecodeError": "skip"}, "onDecodeError must be fail or null"),
        ({"schema__registry__uri": "x"}, "unknown registry setting 'uri': did you mean 'url'"),
        ({"schema__registry__timeout": "soon"}, "timeout must be a number"),
    ],
)
def test_wrong_options_are_named(extra: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse(**extra)


@pytest.mark.parametrize("option", ["onDecodeError", "includeBytes", "schema.registry.url"])
def test_options_of_typed_columns_need_a_format(option: str) -> None:
    with pytest.raises(ConfigurationError, match=f"option {option} is for typed columns: set value.format"):
        SourceOptions.parse(LEAST | {option: "null"})


def test_a_format_needs_a_registry_or_a_schema() -> None:
    with pytest.raises(ConfigurationError, match="needs the registry"):
        SourceOptions.parse(LEAST | {"value.format": "avro"})
    with pytest.raises(ConfigurationError, match="needs the registry"):
        SourceOptions.parse(LEAST | {"value.format": "avro", "value.schema.id": "1"})
    assert SourceOptions.parse(LEAST | {"value.format": "avro", "value.schema": '"long"'}).values is not None


@pytest.mark.parametrize(
    "option", ["basic.auth.user.info", "bearer.auth.token", "bearer.auth.client.secret", "ssl.key.password"]
)
def test_a_plain_secret_is_refused_and_not_shown(option: str) -> None:
    for value in ("alice:s3cr3t", "alice:${env:A}"):
        with pytest.raises(ConfigurationError, match=r"must be a reference, such as \$\{env:NAME\}") as caught:
            parse(**{f"schema.registry.{option}": value})
        assert "s3cr3t" not in str(caught.value)


def test_a_login_in_the_url_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="has a login") as caught:
        parse(schema__registry__url="http://alice:s3cr3t@localhost:8081")
    assert "s3cr3t" not in str(caught.value)


def test_secrets_are_resolved_where_a_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGIN", "alice:s3cr3t")
    options = parse(
        **{"schema.registry.basic.auth.user.info": "${env:LOGIN}", "schema.registry.ssl.ca.location": "False"}
    )
    assert options.values is not None
    assert "s3cr3t" not in repr(options) + str(options.values.registry)
    assert registry_settings(options.values.registry) == {
        "url": "http://localhost:8081",
        "basic.auth.user.info": "alice:s3cr3t",
        "ssl.ca.location": False,
    }
    monkeypatch.delenv("LOGIN")
    with pytest.raises(ConfigurationError, match=r"schema\.registry\.basic\.auth\.user\.info: .*LOGIN"):
        registry_settings(options.values.registry)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("url", "http://u:p@a:8081,http://${env:X}@b:8081"),
        ("bearer.auth.issuer.endpoint.url", "https://id:secret@idp/token"),
        # Only url is a list, so a comma in another address is one of the password.
        ("bearer.auth.issuer.endpoint.url", "https://id:secret,${env:X}@idp/token"),
        ("proxy", "http://u:secret,${env:X}@proxy:3128"),
        ("proxy", "http://u:secret://${env:X}@proxy:3128"),
    ],
)
def test_a_login_in_any_address_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match="has a login"):
        SourceOptions.parse(LEAST | AVRO | {f"schema.registry.{name}": text})


def test_addresses_with_references_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGIN", "u:s3cr3t")
    urls = "http://${env:LOGIN}@a:8081,http://${env:LOGIN}@b:8081"
    assert parse(**{"schema.registry.url": urls, "schema.registry.proxy": "${env:LOGIN}@proxy:3128"}).values is not None
