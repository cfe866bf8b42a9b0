"""The quotas in the controller's state: precedence, files, refusals of the disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.acls import parse_acl
from pyconsumer.broker.access import quotas as module
from pyconsumer.broker.access.quotas import Component, Level, QuotaAlteration, QuotaStore
from pyconsumer.broker.cluster_file import ClusterFile
from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.controller import Controller
from pyconsumer.errors import PolicyViolationError
from pyconsumer.quotas import CONNECTION_RATE, CONSUMER_RATE, DEFAULT_ENTITY, PRODUCER_RATE, QuotaEntity


def store() -> QuotaStore:
    return QuotaStore(lambda undo, change: None)


def put(quotas: QuotaStore, entity: QuotaEntity, **values: float | None) -> Any:
    (result,) = quotas.alter([QuotaAlteration(entity.parts, list(values.items()))]).values()
    return result


def test_precedence() -> None:
    quotas = store()
    names = (DEFAULT_ENTITY, "x")
    order = [  # from the weakest, each with whose traffic it counts
        *((QuotaEntity(client_id=client), None, "c") for client in (DEFAULT_ENTITY, "c")),
        *(
            (QuotaEntity(user=user, client_id=client), "u", None if client is None else "c")
            for user in (DEFAULT_ENTITY, "u")
            for client in (None, DEFAULT_ENTITY, "c")
        ),
    ]
    assert quotas.level("u", "c", PRODUCER_RATE) is None
    for limit, (entity, user, client) in enumerate(order, 1):
        assert put(quotas, entity, producer_byte_rate=limit) is None
        assert quotas.level("u", "c", PRODUCER_RATE) == Level(limit, user, client)
        assert quotas.level("u", "c", CONSUMER_RATE) is None
    assert quotas.level("other", "c", PRODUCER_RATE) == Level(5, "other", "c")
    assert quotas.level("u", "", PRODUCER_RATE) == Level(7, "u", "")
    for name in names:
        put(quotas, QuotaEntity(ip=name and "10.0.0.1"), connection_creation_rate=len(name) + 1)
    assert (quotas.connection_rate("10.0.0.1"), quotas.connection_rate("10.0.0.2")) == (2, 1)


def test_a_change_that_cannot_be_stored_has_no_effect() -> None:
    def save(undo: Any, change: Any) -> None:
        undo()
        raise OSError("no space")

    quotas = QuotaStore(save)
    with pytest.raises(OSError, match="no space"):
        put(quotas, QuotaEntity(user="u"), producer_byte_rate=1)
    assert (len(quotas), quotas.level("u", "c", PRODUCER_RATE)) == (0, None)


def test_there_is_a_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENTITIES", 2)
    quotas = store()
    for name in "ab":
        assert put(quotas, QuotaEntity(user=name), producer_byte_rate=1) is None
    assert isinstance(put(quotas, QuotaEntity(user="c"), producer_byte_rate=1), PolicyViolationError)
    assert put(quotas, QuotaEntity(user="a"), producer_byte_rate=2) is None
    assert put(quotas, QuotaEntity(user="a"), producer_byte_rate=None) is None
    assert put(quotas, QuotaEntity(user="c"), producer_byte_rate=1) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_value_must_be_finite(value: float) -> None:
    assert "greater than 0" in str(put(store(), QuotaEntity(user="u"), request_percentage=value))


def test_bytes_are_whole_numbers() -> None:
    assert "fractional" in str(put(store(), QuotaEntity(user="u"), producer_byte_rate=5e-324))


def test_quotas_outlive_the_process_and_older_versions_refuse_them(tmp_path: Path) -> None:
    controller = Controller(tmp_path, BrokerConfig({}))
    both = QuotaEntity(user='a"b', client_id=DEFAULT_ENTITY)
    put(controller.quotas, both, producer_byte_rate=1.0, request_percentage=2.5)
    put(controller.quotas, QuotaEntity(ip="::1"), connection_creation_rate=3)
    put(controller.quotas, both, request_percentage=None)
    for close in (False, True):  # from the journal, then from a snapshot
        again = Controller(tmp_path, BrokerConfig({}))
        assert dict(again.quotas.describe([], strict=False)) == {
            both.parts: {PRODUCER_RATE: 1.0},
            QuotaEntity(ip="::1").parts: {CONNECTION_RATE: 3},
        }
        if not close:
            again.close()
    found = ClusterFile(tmp_path).load()
    assert found is not None
    assert found[0]["format"] == 4


def test_quotas_that_an_older_version_has_written_raise_the_format(tmp_path: Path) -> None:
    Controller(tmp_path, BrokerConfig({})).acls.create(parse_acl("alice: READ topic t"))
    path = tmp_path / "cluster.json"
    old = json.loads(path.read_text())
    assert old["format"] == 3
    path.write_text(json.dumps(old | {"client_quotas": [[[["user", "u"]], {"producer_byte_rate": 5.0}]]}))
    again = Controller(tmp_path, BrokerConfig({}))
    assert len(again.quotas) == 1
    again.set_broker_config("", {"log.retention.ms": "1"})
    assert json.loads(path.read_text())["format"] == 4


def test_an_address_may_be_spelled_in_any_way() -> None:
    quotas = store()
    put(quotas, QuotaEntity(ip="2001:DB8::0:1"), connection_creation_rate=3)
    put(quotas, QuotaEntity(ip=DEFAULT_ENTITY), connection_creation_rate=7)
    assert [quotas.connection_rate(text) for text in ("2001:db8:0:0:0:0:0:1", "2001:db8::1", "::1")] == [3, 3, 7]
    assert [dict(entity)["ip"] for entity, _ in quotas.describe([], strict=False)] == ["2001:DB8::0:1", None]
    put(quotas, QuotaEntity(ip="2001:DB8::0:1"), connection_creation_rate=None)
    assert quotas.connection_rate("2001:db8::1") == 7


def test_an_earlier_state_comes_back() -> None:
    quotas, kept, gone = store(), QuotaEntity(user="kept"), QuotaEntity(user="gone")
    put(quotas, kept, producer_byte_rate=1)
    state = json.loads(json.dumps(quotas.snapshot()))
    put(quotas, kept, producer_byte_rate=2)
    put(quotas, gone, producer_byte_rate=3)
    quotas.restore(state)
    assert dict(quotas.describe([], strict=False)) == {kept.parts: {PRODUCER_RATE: 1.0}}
    quotas.restore({})
    assert len(quotas) == 0


def test_a_strict_filter_without_parts_selects_nothing() -> None:
    quotas = store()
    put(quotas, QuotaEntity(user="u"), producer_byte_rate=1)
    assert list(quotas.describe([], strict=True)) == []
    assert len(list(quotas.describe([Component("user", 2, None)], strict=True))) == 1
