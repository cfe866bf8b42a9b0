"""Lag from a query's progress."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from pyconsumer.spark import lag, lag_metrics
from tests.unit.spark.fake_cluster import A0, A1


def source(end: object, latest: object) -> dict[str, Any]:
    return {"endOffset": end, "latestOffset": latest}


def test_lag_of_each_partition() -> None:
    progress = {"sources": [source('{"a": {"0": 5}}', '{"a": {"0": 9, "1": 2}}')]}
    expected = {A0: 4, A1: 2}
    assert lag(progress) == expected
    assert lag(json.dumps(progress)) == expected
    assert lag(SimpleNamespace(sources=[SimpleNamespace(**progress["sources"][0])])) == expected


def test_other_sources_are_skipped() -> None:
    others = [source("7", "9"), source(None, None), source('{"logOffset": 3}', '{"logOffset": 3}'), source("x", "y")]
    assert lag({"sources": others}) == {}
    assert lag({"sources": [*others, source('{"a":{"0":5}}', '{"a":{"0":6}}')]}) == {A0: 1}


def test_metrics_have_the_names_of_sparks_connector() -> None:
    assert lag_metrics({"sources": [source('{"a": {"0": 5}}', '{"a": {"0": 9, "1": 2}}')]}) == {
        "minOffsetsBehindLatest": "2",
        "maxOffsetsBehindLatest": "4",
        "avgOffsetsBehindLatest": "3.0",
    }
    assert lag_metrics(None) == lag_metrics({"sources": [source("7", "9")]}) == {}


def test_before_the_first_batch_there_is_none() -> None:
    assert lag(None) == {}


def test_an_end_beyond_the_latest_known_offset_is_no_lag() -> None:
    assert lag({"sources": [source('{"a":{"0":9}}', '{"a":{"0":5}}')]}) == {A0: 0}
