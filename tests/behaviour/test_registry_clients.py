"""Clients of other languages on the embedded registry: franz-go's and kafkajs'.

Not part of a bare ``tox``, as they are fetched first: ``tox -e registries``. A test without Go or npm fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import SerializationError
from pyconsumer.schemas import (
    AvroDeserializer,
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    MessageField,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaRegistryClient,
    SerializationContext,
)
from tests.support.go import go_program
from tests.support.npm import npm_folder
from tests.support.process import run
from tests.support.registries import FOLDER

pytestmark = [
    pytest.mark.embedded_only(reason="the registry is part of the embedded cluster"),
    pytest.mark.slow,
    pytest.mark.timeout(900),  # the clients are fetched first
]

_ORDER = {"id": 7, "customer": "alice"}
_JSON = '{"type":"object","properties":{"id":{"type":"integer"},"customer":{"type":"string"}}}'
_AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": "string"}],
    }
)
_PROTO = 'syntax = "proto3";\npackage shop;\nmessage Order {\n  int64 id = 1;\n  string customer = 2;\n}\n'
_CONTEXT = SerializationContext("judged", MessageField.VALUE)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with EmbeddedCluster(data_dir=":memory:", schema_registry=True) as cluster:
        yield cluster.schema_registry_url


@pytest.fixture
def registry(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(url) as client:
        yield client


@pytest.fixture(scope="module")
def kafkajs() -> Path:
    """The folder with the program and its client."""
    return npm_folder(FOLDER / "kafkajs", "kafkajs-registry")


def _conf(subject: str) -> dict[str, Any]:
    """Settings of a serializer that takes the registered schema."""
    return {
        "auto.register.schemas": False,
        "use.latest.version": True,
        "subject.name.strategy": lambda *_: subject,
    }


def _seen(command: list[str], *, cwd: Path | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(command, cwd=cwd, timeout_s=120).check().stdout)
    return found


def test_franz_go(url: str, registry: SchemaRegistryClient) -> None:
    program = go_program(FOLDER, "sr")
    assert program is not None, "there is no Go"
    registry.register_schema("franz-json", Schema(_JSON, "JSON"))
    ours = JSONSerializer(_JSON, registry, conf=_conf("franz-json"))(_ORDER, _CONTEXT) or b""

    seen = _seen([str(program), url, "franz", ours.hex()])

    written = bytes.fromhex(seen.pop("written"))
    assert JSONDeserializer(None, None, registry)(written, _CONTEXT) == _ORDER
    assert written[:5] == ours[:5]
    assert seen == {
        "version": 1,
        "looked up": True,
        "texts": True,
        "ids of guid": True,
        "compatible": True,
        "incompatible": False,
        "reasons": True,
        "refused": 409,
        "versions": [1, 2],
        "latest": 2,
        "level": "NONE",
        "read only": 42205,
        "referrers": True,
        "read": _ORDER,
        "deleted": [1, 2],
        "gone": 40401,
        "unknown id": 40403,
    }


def test_kafkajs(url: str, registry: SchemaRegistryClient, kafkajs: Path) -> None:
    registry.register_schema("judged-avro", Schema(_AVRO))
    registry.register_schema("judged-json", Schema(_JSON, "JSON"))
    schema_id = registry.register_schema("judged-protobuf", Schema(_PROTO, "PROTOBUF"))
    empty = ProtobufDeserializer(None, None, registry)(b"\0" + schema_id.to_bytes(4, "big") + b"\0", _CONTEXT)
    kind = type(empty)
    as_avro = AvroSerializer(registry, _AVRO, conf=_conf("judged-avro"))(_ORDER, _CONTEXT) or b""
    as_json = JSONSerializer(_JSON, registry, conf=_conf("judged-json"))(_ORDER, _CONTEXT) or b""
    as_protobuf = ProtobufSerializer(kind, registry, _conf("judged-protobuf"))(kind(**_ORDER), _CONTEXT) or b""

    values = [value.hex() for value in (as_avro, as_json, as_protobuf)]
    seen = _seen(["node", "program.js", url, "judged", *values], cwd=kafkajs)

    assert [{"id": int(read["id"]), "customer": read["customer"]} for read in seen["read"]] == [_ORDER] * 3
    assert seen["same"] == {"avro": True, "json": True, "protobuf": True}
    written = {name: bytes.fromhex(value) for name, value in seen["written"].items()}
    assert written["avro"] == as_avro
    assert AvroDeserializer(registry)(written["avro"], _CONTEXT) == _ORDER
    assert JSONDeserializer(None, None, registry)(written["json"], _CONTEXT) == _ORDER
    # It writes Protobuf without the path of the type, which Confluent's format has after the id.
    assert written["protobuf"] == as_protobuf[:5] + as_protobuf[6:]
    with pytest.raises(SerializationError):
        ProtobufDeserializer(kind, None, registry)(written["protobuf"], _CONTEXT)
    registry.clear_latest_caches()
    assert seen["latest"] == seen["second"] == registry.get_latest_version("judged-avro").schema_id
    assert seen["incompatible"]["status"] == 409
    assert "incompatible with an earlier schema" in seen["incompatible"]["message"]
    assert seen["unknown"]["status"] == 404
    assert registry.get_compatibility("judged-none") == "NONE"
    assert "FULL != NONE" in seen["otherLevel"]["message"]
