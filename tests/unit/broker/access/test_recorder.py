"""Which rules a record of questions comes to: the fewest with which the clients could have done the same."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer import KafkaAdminClient
from pyconsumer.acls import AclOperation, PatternType, ResourceType, parse_acl
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.broker.access.authorizer import Access, Authorizer
from pyconsumer.broker.access.recorder import AccessRecord, AccessRecorder, Question, needed_acls, without_contained
from pyconsumer.broker.access.store import AclStore
from pyconsumer.errors import ClusterAuthorizationFailedError, IllegalStateError, KafkaTimeoutError
from pyconsumer.protocol.api_keys import ApiKey

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


def asked(operation: str, name: str | None = "t", kind: ResourceType = TOPIC, *, hides: bool = False) -> Question:
    cluster = AclOperation.IDEMPOTENT_WRITE if name is None else None
    return Question("User:a", AclOperation[operation], kind, name, False, hides, "API", cluster)


@pytest.mark.parametrize(
    ("questions", "lines"),
    [
        ([asked("DESCRIBE"), asked("READ"), asked("READ")], ["a: READ topic t"]),
        ([asked("DESCRIBE"), asked("CREATE")], ["a: CREATE topic t", "a: DESCRIBE topic t"]),
        ([asked("DESCRIBE_CONFIGS"), asked("ALTER_CONFIGS")], ["a: ALTER_CONFIGS topic t"]),
        ([asked("DESCRIBE_CONFIGS", hides=True)], []),
        ([asked("DESCRIBE", hides=True)], ["a: DESCRIBE topic t"]),
        ([asked("WRITE", None)], ["a: IDEMPOTENT_WRITE cluster"]),
        ([asked("WRITE", None), asked("WRITE")], ["a: WRITE topic t"]),
        ([asked("WRITE", None), asked("READ")], ["a: READ topic t", "a: IDEMPOTENT_WRITE cluster"]),
        ([asked("READ", "g", GROUP), asked("DESCRIBE", "t")], ["a: DESCRIBE topic t", "a: READ group g"]),
    ],
)
def test_the_fewest_rules(questions: list[Question], lines: list[str]) -> None:
    assert list(map(str, needed_acls(questions))) == lines


def test_a_prefix_contains_names_and_longer_prefixes() -> None:
    given = ["a: READ topic t-*", "a: READ topic t-1", "a: DESCRIBE topic t-", "a: DESCRIBE topic t-x*"]
    others = ["b: READ topic t-1", "a: WRITE topic t-1", "a: READ topic t", "a: READ group t-1", "a: ALL group t-*"]
    found = without_contained(acl for line in given + others for acl in parse_acl(line))
    assert list(map(str, found)) == [
        "a: READ topic t",
        "a: WRITE topic t-1",
        "a: READ topic t-*",
        "a: ALL group t-*",
        "b: READ topic t-1",
    ]


def test_names_become_patterns() -> None:
    found = needed_acls(
        [asked("READ", "t-1"), asked("READ", "t-2")], lambda name: (name.partition("-")[0], PatternType.PREFIXED)
    )
    assert list(map(str, found)) == ["a: READ topic t*"]


def access(recorder: AccessRecorder | None, *lines: str, principal: str = "User:a") -> Access:
    store = AclStore(lambda undo, change: None)
    store.create(acl for line in lines for acl in parse_acl(line))
    authorizer = Authorizer(store, frozenset({"User:root"}))
    authorizer.record(recorder)
    return Access(authorizer, principal, "/127.0.0.1", ApiKey.CREATE_TOPICS, 7)


def test_a_recorder_that_allows_all_asks_for_the_resource_and_not_for_the_cluster() -> None:
    recorder = AccessRecorder(["old"], allows_all=True)
    rights = access(recorder, "a: CREATE cluster")
    create = next(rule for rule in rights.rules if rule.operation is AclOperation.CREATE)
    assert rights.fits(create, "t")
    assert rights.may(TOPIC, "old", "configs", log_denied=False)  # one that is only shown, and is old
    assert rights.operations(TOPIC, "t", 0b11000) == 0b11000
    assert [(each.name, each.allowed) for each in recorder.questions()] == [("t", False)]
    assert access(recorder, principal="User:root").fits(create, "other")
    assert len(recorder.questions()) == 1


def test_a_recorder_that_only_listens_changes_no_decision() -> None:
    recorder = AccessRecorder([], allows_all=False)
    rights = access(recorder, "a: CREATE topic t")
    create = next(rule for rule in rights.rules if rule.operation is AclOperation.CREATE)
    assert rights.fits(create, "t")
    assert not rights.fits(create, "u")
    assert not rights.operations(TOPIC, "u", 0b11000)
    record = AccessRecord()
    record.add(Question.from_json(question.to_json()) for question in recorder.questions() * 2)
    assert record.questions == recorder.questions()
    assert list(map(str, record.denied)) == ["a: CREATE topic u"]
    assert list(map(str, record.needed)) == ["a: CREATE topic t", "a: CREATE topic u"]
    on_cluster = access(AccessRecorder([], allows_all=False), "a: CREATE cluster")
    assert on_cluster.fits(create, "t")


def test_a_record_is_bounded_and_says_that_it_is_not_whole() -> None:
    recorder = AccessRecorder([], allows_all=True, most=2)
    for name in "abab":
        assert recorder.note(asked("READ", name))
    record = AccessRecord()
    record.add(recorder.questions(), left_out=recorder.left_out)
    assert len(record.needed) == 2

    assert recorder.note(asked("READ", "c"))
    assert [each.name for each in recorder.questions()] == ["a", "b"]
    record.add(recorder.questions(), left_out=recorder.left_out)
    for rules in ("needed", "denied"):
        with pytest.raises(IllegalStateError, match="100,000 different rights, so the record is not whole"):
            getattr(record, rules)


def test_a_record_whose_end_fails_is_ended_by_the_next_change_of_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedCluster(data_dir=":memory:", users={"alice": "secret"}, acls=[], in_thread=True) as cluster:
        command = cluster.command

        def fail(name: str, /, **arguments: Any) -> Any:
            if name == "record_access" and arguments["end"]:
                raise KafkaTimeoutError("no response")
            return command(name, **arguments)

        def allows_all() -> bool:
            with KafkaAdminClient(**cluster.login("alice")) as admin:
                try:
                    admin.describe_acls()
                except ClusterAuthorizationFailedError:
                    return False
                return True

        for repair in (cluster.repair, cluster.set_acls, cluster.add_acls, cluster.remove_acls, cluster.end_record):
            monkeypatch.setattr(cluster, "command", fail)
            with pytest.raises(KafkaTimeoutError), cluster.record_access():
                assert allows_all()
            monkeypatch.setattr(cluster, "command", command)
            assert allows_all()  # the brokers have not heard of the end
            repair()
            assert not allows_all()
        with cluster.record_access() as record:
            assert allows_all()
        assert list(map(str, record.needed)) == ["alice: DESCRIBE cluster"]
