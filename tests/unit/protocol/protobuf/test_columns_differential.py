"""The compiled decoder of Protobuf columns against its twin and against Google's library, over random data."""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.protobuf.message import DecodeError

from pyconsumer.protocol.avro import _pure_columns as twin_of_columns
from pyconsumer.protocol.avro.coder import REVISION
from pyconsumer.protocol.compiled import load_compiled
from pyconsumer.protocol.protobuf import _pure_columns as twin
from pyconsumer.protocol.protobuf.column_plan import MessagePlan
from tests.support.avro_values import damaged
from tests.support.proto_columns import MOST, both, normal, plan_of
from tests.support.proto_values import ProtoValues, shown

pa = pytest.importorskip("pyarrow")
native = load_compiled("pyconsumer.protocol.avro._native", REVISION)[0]
needs_compiled = pytest.mark.skipif(native is None, reason="the compiled coder is not in use")
PREFIX = b"\0\0\0\0\x07"


def as_columns(value: Any) -> Any:
    """Return a message as columns show it. An empty map and an empty list look alike there."""
    if isinstance(value, dict):
        return {key: as_columns(each) for key, each in value.items()} or []
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # a map
        return as_columns(dict(value))
    return [as_columns(each) for each in value] if isinstance(value, list) else value


def same(value: Any, message: Any) -> bool:
    return bool(normal(as_columns(value)) == normal(as_columns(shown(message))))


@needs_compiled
@pytest.mark.parametrize("seed", range(100))
def test_the_twins_and_the_library_agree(seed: int) -> None:
    values = ProtoValues(seed)
    plan = plan_of(values.type)
    rows: list[bytes | None] = [None]
    whole: set[bytes | None] = set()
    for _ in range(5):
        data, other = values.message().SerializeToString(), values.message().SerializeToString()
        valid = [PREFIX + each for each in (data, data + other, values.mixed(data, other), values.mixed(data))]
        whole.update(valid)
        rows += valid
        rows += [PREFIX + damaged(each[5:], values.random) for each in valid for _ in range(3)]
    found, refused = both(plan, rows)
    for row, data in enumerate(rows):
        if data is None:
            assert found[row] is None
            continue
        try:
            message = values.type.FromString(data[5:])
        except DecodeError:
            assert row in refused, data
            continue
        if row in refused:
            why = str(twin_of_columns.explain(program_of(plan), data, 5, MOST))
            # Google's library takes a field of the number 0 in an unknown group.
            known = ("UTF-8", "max_decoded", "microseconds", "a field has the number 0")
            assert any(each in why for each in known), (why, data)
            assert data not in whole
        elif not same(found[row], message):
            # Google's library drops an entry of a map that has unknown fields in it. Java's keeps it, as we do.
            assert data not in whole, (data, found[row], shown(message))
            assert "map_entry" in str(values.proto), (data, found[row], shown(message))


def program_of(plan: MessagePlan) -> Any:
    plan.explain_by(lambda program: twin.MessageProgram(program.plan, program.path, program.zigzag))
    return native.MessageProgram(plan)


@needs_compiled
@pytest.mark.parametrize("seed", range(40))
def test_parts_are_those_of_the_whole(seed: int) -> None:
    values = ProtoValues(10_000 + seed)
    names = [field.name for field in values.type.DESCRIPTOR.fields]
    chosen = values.random.sample(names, max(1, len(names) // 2))
    rows: list[bytes | None] = []
    for _ in range(6):
        data = values.mixed(values.message().SerializeToString(), values.message().SerializeToString())
        rows += [PREFIX + data, PREFIX + damaged(data, values.random)]
    found, refused = both(plan_of(values.type, *chosen), rows)
    whole, refused_whole = both(plan_of(values.type), rows)
    assert set(refused) <= set(refused_whole)
    for row, value in enumerate(whole):
        if row not in refused_whole:
            assert normal(found[row]) == normal({name: value[name] for name in names if name in chosen})


@needs_compiled
@pytest.mark.parametrize("seed", range(40))
def test_bytes_by_chance(seed: int) -> None:
    values = ProtoValues(20_000 + seed)
    rng = random.Random(seed)
    tags = [field.number << 3 | wire for field in values.type.DESCRIPTOR.fields for wire in (0, 1, 2, 3, 4, 5)]
    rows: list[bytes | None] = [
        PREFIX
        + bytes(rng.choice([rng.randrange(256), min(255, rng.choice(tags)), 1, 2]) for _ in range(rng.randrange(24)))
        for _ in range(60)
    ]
    both(plan_of(values.type), rows)
