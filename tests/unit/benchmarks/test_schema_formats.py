"""The benchmark of JSON and Protobuf: one small run of each way that needs no other library."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from tests.benchmarks.schema_formats import values, ways


def test_all_ways_handle_the_same_values() -> None:
    found = {name: way() for name, way in ways(5, with_peers=False)}
    assert len(found) == 6
    assert found["JSON: read"] == found["JSON: columns"].to_pylist() == values(5)
    assert [message.id for message in found["Protobuf: read"]] == [value["id"] for value in values(5)]
    assert [row["id"] for row in found["Protobuf: columns"].to_pylist()] == [value["id"] for value in values(5)]
    assert all(len(each) == 5 for each in found.values())
