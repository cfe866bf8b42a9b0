"""The authorizer's memory, super users and addresses, and the files of the rules."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from pyconsumer.acls import AclBinding, AclFilter, AclOperation, ResourceType, parse_acl
from pyconsumer.broker.access import authorizer as authorizer_module
from pyconsumer.broker.access import store as store_module
from pyconsumer.broker.access.authorizer import Access, Authorizer, java_address, parse_super_users
from pyconsumer.broker.access.recorder import AccessRecorder
from pyconsumer.broker.access.store import AclStore
from pyconsumer.broker.access.table import rules_of
from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.controller import Controller
from pyconsumer.errors import ConfigurationError, PolicyViolationError
from pyconsumer.protocol.api_keys import ApiKey

QUESTION = ("User:alice", "127.0.0.1", AclOperation.READ, ResourceType.TOPIC, "t")


def test_a_change_holds_for_the_next_question() -> None:
    store = AclStore(lambda undo, change: None)
    authorizer = Authorizer(store)
    assert not authorizer.allows(*QUESTION)
    store.create(parse_acl("alice: READ topic t"))
    assert authorizer.allows(*QUESTION)
    store.delete([AclFilter()])
    assert not authorizer.allows(*QUESTION)


def test_decisions_are_remembered_but_not_those_about_names_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    store = AclStore(lambda undo, change: None)
    authorizer, asked = Authorizer(store), []
    decide, allows_any = store.rules.decide, store.rules.allows_any
    monkeypatch.setattr(store.rules, "decide", lambda *given: asked.append(given[-1]) or decide(*given))
    monkeypatch.setattr(store.rules, "allows_any", lambda *given: asked.append("any") or allows_any(*given))
    for _ in range(2):
        for name in ("g" * 255, "g" * 256):
            assert not authorizer.allows(*QUESTION[:4], name)
        assert not authorizer.allows_any(*QUESTION[:4])
    assert asked == ["g" * 255, "g" * 256, "hardcode", "any", "g" * 256]
    store.create(parse_acl("alice: READ topic t"))
    assert authorizer.allows_any(*QUESTION[:4])


def test_one_rule_is_found_without_a_look_at_the_others() -> None:
    class Scan(AclFilter):
        def matches(self, acl: AclBinding) -> bool:
            raise AssertionError("the filter is for one rule")

    store = AclStore(lambda undo, change: None)
    here, gone = parse_acl("alice: READ topic t") + parse_acl("bob: READ topic t")
    store.create([here])
    assert [store.matching(Scan(**acl._asdict())) for acl in (here, gone)] == [[here], []]
    every = here._replace(operation=AclOperation.ANY)
    assert store.matching(AclFilter(**every._asdict())) == [here]


def test_a_change_that_cannot_be_stored_has_no_effect() -> None:
    def fail(undo, change) -> None:
        undo()
        raise OSError("disk full")

    store = AclStore(fail)
    authorizer = Authorizer(store)
    with pytest.raises(OSError, match="disk full"):
        store.create(parse_acl("alice: READ topic t"))
    assert not authorizer.allows(*QUESTION)
    assert len(store) == 0


def test_there_is_a_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert store_module.MOST_ACLS == 100_000
    monkeypatch.setattr(store_module, "MOST_ACLS", 2)
    store = AclStore(lambda undo, change: None)
    store.create(parse_acl("alice: READ,WRITE topic t"))
    with pytest.raises(PolicyViolationError):
        store.create(parse_acl("alice: DELETE topic t"))
    assert len(store) == 2
    store.create(parse_acl("alice: READ topic t"))  # which is there
    store.delete([AclFilter(operation=AclOperation.READ)])
    store.create(parse_acl("alice: DELETE topic t"))
    assert len(store) == 2


def test_what_is_allowed_is_logged_for_those_who_look_closely(caplog: pytest.LogCaptureFixture) -> None:
    store = AclStore(lambda undo, change: None)
    store.create(parse_acl("alice: READ topic t"))
    with caplog.at_level(logging.DEBUG, "pyconsumer.authorizer"):
        access = Access(Authorizer(store), "User:alice", "/127.0.0.1", ApiKey.FETCH, 12)
        assert access.may(ResourceType.TOPIC, "t")
        assert not access.may(ResourceType.TOPIC, "other")
        assert not access.may(ResourceType.TOPIC, "hidden", log_denied=False)
    allowed, denied = caplog.records
    assert (allowed.levelno, denied.levelno) == (logging.DEBUG, logging.INFO)
    assert "User:alice is ALLOWED READ on TOPIC t from 127.0.0.1" in allowed.getMessage()
    assert "User:alice is DENIED READ on TOPIC other from 127.0.0.1" in denied.getMessage()


def test_rights_are_kept_for_the_next_request_and_follow_the_rules() -> None:
    store = AclStore(lambda undo, change: None)
    authorizer = Authorizer(store)
    client = ("User:alice", "/127.0.0.1")
    metadata = authorizer.access(*client, ApiKey.METADATA, 12)
    assert authorizer.access(*client, ApiKey.METADATA, 12) is metadata
    others = [
        authorizer.access(*client, ApiKey.METADATA, 11),
        authorizer.access(*client, ApiKey.FETCH, 12),
        authorizer.access("User:alice", "/127.0.0.2", ApiKey.METADATA, 12),
        authorizer.access("User:bob", "/127.0.0.1", ApiKey.METADATA, 12),
    ]
    assert len({id(each) for each in [metadata, *others]}) == 5

    store.create(parse_acl("alice: DESCRIBE topic t"))
    for access in (metadata, authorizer.access(*client, ApiKey.METADATA, 12)):  # a request that waits, and the next one
        assert access.may(ResourceType.TOPIC, "t")
    assert not others[-1].may(ResourceType.TOPIC, "t")
    store.create(parse_acl("deny alice: DESCRIBE topic t"))
    for access in (metadata, authorizer.access(*client, ApiKey.METADATA, 12)):
        assert not access.may(ResourceType.TOPIC, "t")


def test_a_recorder_and_a_level_of_the_log_hold_for_the_next_request(caplog: pytest.LogCaptureFixture) -> None:
    store = AclStore(lambda undo, change: None)
    store.create(parse_acl("alice: READ topic t"))
    authorizer = Authorizer(store)
    request = ("User:alice", "/127.0.0.1", ApiKey.FETCH, 12)
    authorizer.access(*request)
    authorizer.record(AccessRecorder(["t", "u"], allows_all=True))
    assert authorizer.access(*request).may(ResourceType.TOPIC, "u")
    authorizer.record(None)
    assert not authorizer.access(*request).may(ResourceType.TOPIC, "u")
    with caplog.at_level(logging.DEBUG, "pyconsumer.authorizer"):
        caplog.clear()
        assert authorizer.access(*request).may(ResourceType.TOPIC, "t")
    assert ["ALLOWED" in line.getMessage() for line in caplog.records] == [True]


def test_the_rights_of_many_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer_module, "_MOST_REMEMBERED", 10)
    authorizer = Authorizer(AclStore(lambda undo, change: None))
    kept = [authorizer.access(f"User:{number}", "/127.0.0.1", ApiKey.FETCH, 12) for number in range(11)]
    assert authorizer.access("User:10", "/127.0.0.1", ApiKey.FETCH, 12) is kept[10]
    assert authorizer.access("User:0", "/127.0.0.1", ApiKey.FETCH, 12) is not kept[0]


def test_rules_are_in_the_files_as_soon_as_they_hold(tmp_path: Path) -> None:
    first = Controller(tmp_path, BrokerConfig({}))
    first.acls.create(parse_acl("alice: READ,WRITE topic t"))
    assert json.loads((tmp_path / "cluster.json").read_text())["format"] == 3
    first.acls.delete([AclFilter(operation=AclOperation.WRITE)])
    second = Controller(tmp_path, BrokerConfig({}))  # as after kill -9
    assert [str(acl) for acl in second.acls.matching(AclFilter())] == ["alice: READ topic t"]
    second.acls.delete([AclFilter()])
    second.close()
    third = Controller(tmp_path, BrokerConfig({}))
    assert len(third.acls) == 0
    assert json.loads((tmp_path / "cluster.json").read_text())["format"] == 3


def test_super_users() -> None:
    assert parse_super_users(" User:a; User:CN=b,O=c ;") == {"User:a", "User:CN=b,O=c"}
    assert parse_super_users(None) == frozenset()
    with pytest.raises(ConfigurationError, match="'a' has no type: write User:a"):
        parse_super_users("a")
    assert Authorizer(AclStore(lambda undo, change: None), parse_super_users("User:alice")).allows(*QUESTION)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/127.0.0.1", "127.0.0.1"),
        ("/::1", "0:0:0:0:0:0:0:1"),
        ("/fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("/::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_addresses_are_written_as_java_does(address: str, expected: str) -> None:
    assert java_address(address) == expected


def test_an_api_that_the_table_has_forgotten_is_refused() -> None:
    assert rules_of(ApiKey.API_VERSIONS, 0) == ()
    with pytest.raises(LookupError, match="has no row for API 999"):
        rules_of(999, 0)
    access = Access(Authorizer(AclStore(lambda undo, change: None)), "User:alice", "/h", ApiKey.FETCH, 12)
    with pytest.raises(LookupError, match="no row of FETCH for GROUP"):
        access.may(ResourceType.GROUP, "g")
