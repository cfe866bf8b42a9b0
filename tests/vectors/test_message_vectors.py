"""Our codecs against bytes that Apache Kafka's own classes wrote: every message that we declare, at every version."""

from __future__ import annotations

import base64
import functools
import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyconsumer.protocol.primitives import uuid_to_str
from pyconsumer.protocol.schema import FieldSpec, Message, Struct
from tests.support.java import KafkaTools
from tests.vectors.make_messages import VECTORS, declared, write_vectors

_MESSAGES = declared()


class Vector(NamedTuple):
    """One message of Kafka: its version, its special case, its JSON form, its bytes."""

    version: int
    case: str
    value: dict[str, Any]
    data: bytes


@functools.cache
def _vectors() -> dict[str, list[Vector]]:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return {
        line["name"]: [Vector(v, case, value, base64.b64decode(data)) for v, case, value, data in line["cases"]]
        for line in lines
    }


def test_all_versions_are_there() -> None:
    for name, cls in _MESSAGES.items():
        versions = {(vector.version, vector.case) for vector in _vectors()[name]}
        for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
            assert {(version, "full"), (version, "null"), (version, "edge")} <= versions, name


def test_kafkas_bytes_are_decoded() -> None:
    for name, cls in _MESSAGES.items():
        for vector in _vectors()[name]:
            message = cls.decode(vector.data, vector.version)
            _compare(message, vector.value, vector.version, f"{name} v{vector.version} {vector.case}")


def test_our_bytes_equal_kafkas() -> None:
    for name, cls in _MESSAGES.items():
        for vector in _vectors()[name]:
            message = _build(cls, vector.value, vector.version)
            assert message.encode(vector.version) == vector.data, f"{name} v{vector.version} {vector.case}"


def test_our_defaults_are_kafkas() -> None:
    defaults = [(name, vector) for name in _MESSAGES for vector in _vectors()[name] if vector.case == "default"]
    assert len(defaults) > len(_MESSAGES)
    for name, vector in defaults:
        assert _MESSAGES[name]().encode(vector.version) == vector.data, f"{name} v{vector.version}"


@pytest.mark.kafka
def test_kafka_writes_the_same_bytes_today(newest_tools: KafkaTools, tmp_path: Path) -> None:
    write_vectors(newest_tools, tmp_path / "now")
    assert gzip.decompress((tmp_path / "now").read_bytes()) == gzip.decompress(VECTORS.read_bytes()), (
        "declarations have changed: python -m tests.vectors.make_messages"
    )


def _json_name(name: str) -> str:
    """``leader_epoch`` as the JSON converters write it: ``leaderEpoch``."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _compare(part: Struct, value: dict[str, Any], version: int, where: str) -> None:
    """Every field of this version equals the JSON form, or has its default if that form leaves it out."""
    known = set()
    for spec in part.FIELDS:
        if version not in spec.versions:
            continue
        name = _json_name(spec.name)
        known.add(name)
        ours = getattr(part, spec.name)
        if name not in value:
            assert version in spec.tagged, f"{where}: {name} is missing in Kafka's"
            assert ours == spec.default, f"{where}.{name}"
            continue
        theirs = value[name]
        if ours is None or theirs is None:
            assert ours is None, f"{where}.{name}"
            assert theirs is None, f"{where}.{name}"
        elif spec.is_array:
            assert len(ours) == len(theirs), f"{where}.{name}"
            for index, (our_item, their_item) in enumerate(zip(ours, theirs, strict=True)):
                _compare_one(spec, our_item, their_item, version, f"{where}.{name}[{index}]")
        else:
            _compare_one(spec, ours, theirs, version, f"{where}.{name}")
    assert value.keys() <= known, f"{where}: fields that we don't declare"


def _compare_one(spec: FieldSpec, ours: Any, theirs: Any, version: int, where: str) -> None:
    if isinstance(ours, Struct):
        _compare(ours, theirs, version, where)
    elif isinstance(ours, bytes | bytearray | memoryview):
        text = uuid_to_str(bytes(ours)) if spec.type_name.endswith("uuid") else base64.b64encode(ours).decode()
        assert text == theirs, where
    else:
        assert ours == theirs, where
        assert type(ours) is type(theirs), where


def _build(cls: Any, value: dict[str, Any], version: int) -> Any:
    """Our message from Kafka's JSON form."""
    fields = {}
    for spec in cls.FIELDS:
        name = _json_name(spec.name)
        if version in spec.versions and name in value:
            theirs = value[name]
            if spec.is_array and theirs is not None:
                fields[spec.name] = [_build_one(spec, item, version) for item in theirs]
            else:
                fields[spec.name] = _build_one(spec, theirs, version)
    made = cls(**fields)
    assert isinstance(made, Message | Struct)
    return made


def _build_one(spec: FieldSpec, theirs: Any, version: int) -> Any:
    if theirs is None:
        return None
    if isinstance(spec.type, type) and issubclass(spec.type, Struct):
        return _build(spec.type, theirs, version)
    kind = spec.type_name.removeprefix("[]")
    if kind == "uuid":
        return base64.urlsafe_b64decode(theirs + "==")
    if kind in ("bytes", "records"):
        return base64.b64decode(theirs)
    return theirs
