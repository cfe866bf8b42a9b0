"""Our declarations against the definitions inside the newest Apache Kafka's jars: field by field, version by version.

A new version of Apache Kafka makes these tests fail by the names of the APIs that it changes or adds.
"""

from __future__ import annotations

import base64
import functools
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.errors import Errors, for_code
from pyconsumer.protocol.api_keys import API, ApiKey
from pyconsumer.protocol.messages import load
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.schema import FieldSpec, Struct, Versions
from tests.support.java import KafkaTools
from tests.vectors.make_messages import declared

pytestmark = pytest.mark.kafka

_MESSAGES = declared()
#: Structs whose Kafka name is taken here.
_RENAMED = {"ConsumerProtocolAssignmentTopicPartition": "TopicPartition", "EntryResult": "EntryData"}
#: The APIs of Kafka's brokers that neither our clients nor our broker have, by reason.
LEFT_OUT = {
    "replicas, disks and the quorum: one process has all of them": (
        "AlterReplicaLogDirs",
        "AlterPartitionReassignments",
        "DescribeQuorum",
        "UnregisterBroker",
        "UnregisterController",
        "AddRaftVoter",
        "RemoveRaftVoter",
    ),
    "Metadata says the same": ("DescribeTopicPartitions",),
    "client telemetry (KIP-714)": ("GetTelemetrySubscriptions", "PushTelemetry"),
    "groups of Kafka Streams (KIP-1071)": (
        "StreamsGroupHeartbeat",
        "StreamsGroupDescribe",
        "StreamsGroupTopologyDescriptionUpdate",
    ),
}
_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')


@functools.cache
def _read(libs: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for jar in sorted(libs.glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as packed:
            for name in packed.namelist():
                if name.startswith("common/message/") and name.endswith(".json"):
                    text = packed.read(name).decode("utf-8")
                    definition = json.loads(_STRING_OR_COMMENT.sub(lambda match: match[1] or "", text))
                    found[definition["name"]] = definition
    return found


@pytest.fixture(scope="module")
def definitions(newest_tools: KafkaTools) -> dict[str, dict[str, Any]]:
    """Kafka's definitions by message name."""
    return _read(newest_tools.libs)


def _supported(definition: dict[str, Any]) -> Versions:
    """The valid versions without one that is marked unstable."""
    valid = Versions.parse(definition["validVersions"])
    return valid._replace(last=valid.last - 1) if definition.get("latestVersionUnstable") else valid


def _within(versions: Versions, valid: Versions) -> list[int]:
    return [version for version in range(valid.first, valid.last + 1) if version in versions]


def test_each_api_has_kafkas_number_and_versions(definitions: dict[str, dict[str, Any]]) -> None:
    for key, info in API.items():
        request = definitions[f"{info.name}Request"]
        assert request["apiKey"] == key
        assert (info.min_version, info.max_version) == _supported(request), info.name
        flexible = _within(Versions.parse(request["flexibleVersions"]), _supported(request))
        assert info.flexible_from == (flexible[0] if flexible else None), info.name


def test_each_api_of_kafka_is_supported_or_left_out_for_a_reason(definitions: dict[str, dict[str, Any]]) -> None:
    kafkas = {
        definition["name"].removesuffix("Request"): definition["validVersions"]
        for definition in definitions.values()
        if definition["type"] == "request" and "broker" in definition.get("listeners", ())
    }
    ours = {info.name for info in API.values()}
    left_out = {name for names in LEFT_OUT.values() for name in names}
    served = {name for name, versions in kafkas.items() if versions != "none"}
    assert served - ours - left_out == set(), "neither supported nor named in LEFT_OUT"
    assert left_out - served == set(), "not an API of Kafka's brokers any more"
    assert left_out & ours == set(), "supported, and named in LEFT_OUT"


def test_the_error_codes_are_kafkas(newest_tools: KafkaTools) -> None:
    said = newest_tools.run_source(Path(__file__).with_name("ErrorCodes.java")).stdout
    theirs = [line.split() for line in said.splitlines()]
    ours = [
        [str(int(code)), code.name, str(code != Errors.NONE and for_code(code).retriable).lower()] for code in Errors
    ]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize("key", API)
def test_the_table_of_apis_equals_the_declarations(key: ApiKey) -> None:
    info = API[key]
    for cls in load(key):
        assert cls.SCHEMA.api_key == key
        assert cls.SCHEMA.versions == (info.min_version, info.max_version)
        flexible = _within(cls.SCHEMA.flexible, cls.SCHEMA.versions)
        assert info.flexible_from == (flexible[0] if flexible else None)


@pytest.mark.parametrize("name", _MESSAGES)
def test_a_message_has_kafkas_definition(name: str, definitions: dict[str, dict[str, Any]]) -> None:
    cls, definition = _MESSAGES[name], definitions[name]
    is_response = definition["type"] == "response"
    versions = _supported(definitions[name.removesuffix("Response") + "Request"] if is_response else definition)
    assert cls.SCHEMA.versions == versions
    if is_response:
        assert versions.last <= Versions.parse(definition["validVersions"]).last
    flexible = Versions.parse(definition["flexibleVersions"])
    assert _within(cls.SCHEMA.flexible, versions) == _within(flexible, versions)
    if "apiKey" in definition and definition["type"] != "coordinator-value":  # a value has its key's number
        assert definition["apiKey"] == cls.API_KEY
    common = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
    assert list(_differences(cls, definition["fields"], common, versions, name)) == []


def _differences(
    cls: type[Struct], fields: list[dict[str, Any]], common: dict[str, Any], valid: Versions, where: str
) -> Iterator[str]:
    """Yield the differences between our fields and Kafka's, within the supported versions."""
    theirs = [field for field in fields if _within(_versions(field), valid)]
    ours = [spec for spec in cls.FIELDS if _within(spec.versions, valid)]
    our_names = [_json_name(spec.name) for spec in ours]
    their_names = [field["name"][0].lower() + field["name"][1:] for field in theirs]
    if our_names != their_names:
        yield f"{where}: fields {our_names}, Kafka has {their_names}"
        return
    for spec, field in zip(ours, theirs, strict=True):
        here = f"{where}.{spec.name}"
        yield from _field_differences(spec, field, valid, here)
        if isinstance(spec.type, type) and issubclass(spec.type, Struct):
            inner = field.get("fields") or common[field["type"].removeprefix("[]")]
            yield from _differences(spec.type, inner, common, valid, here)


def _versions(field: dict[str, Any]) -> Versions:
    """The versions that have a field. A tagged field may leave them to its tagged versions."""
    return Versions.parse(field.get("versions", field.get("taggedVersions")))


def _field_differences(spec: FieldSpec, field: dict[str, Any], valid: Versions, here: str) -> Iterator[str]:
    brackets, name = "[]" * spec.is_array, spec.type_name.removeprefix("[]")
    pairs = {
        "type": (brackets + _RENAMED.get(name, name), field["type"]),
        "versions": (_within(spec.versions, valid), _within(_versions(field), valid)),
        "nullable": (_within(spec.nullable, valid), _within(Versions.parse(field.get("nullableVersions")), valid)),
        "tagged": (_within(spec.tagged, valid), _within(Versions.parse(field.get("taggedVersions")), valid)),
        "tag": (spec.tag, field.get("tag", -1)),
        "ignorable": (spec.ignorable, field.get("ignorable", False)),
        "compact": (spec.compact, field.get("flexibleVersions") != "none"),
        "default": (spec.default, _default(spec, field)),
    }
    for what, (ours, theirs) in pairs.items():
        if ours != theirs or type(ours) is not type(theirs):
            yield f"{here}: {what} is {ours!r}, Kafka has {theirs!r}"


def _default(spec: FieldSpec, field: dict[str, Any]) -> Any:
    """The default of Kafka's definition, or that of its type."""
    text = field.get("default")
    if text == "null":
        return None
    if spec.is_array:
        return []
    if isinstance(spec.type, type) and issubclass(spec.type, Struct):
        return spec.type()
    kind = spec.type_name
    if kind == "bool":
        return str(text).lower() == "true"
    if kind == "string":
        return text or ""
    if kind == "bytes":
        return base64.b64decode(text or "")
    if kind == "records":
        return None
    if kind == "uuid":
        return ZERO_UUID
    if kind == "float64":
        return float(text or 0)
    return int(str(text or "0"), 0)


def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
