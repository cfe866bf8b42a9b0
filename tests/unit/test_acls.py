"""Lines of rules, and filters of rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyconsumer.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    parse_acl,
)
from pyconsumer.errors import ConfigurationError

TOPIC, READ = ResourceType.TOPIC, AclOperation.READ


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("alice: READ topic orders", AclBinding(TOPIC, "orders", "User:alice", READ)),
        ("  allow  alice :  read  TOPIC  orders ", AclBinding(TOPIC, "orders", "User:alice", READ)),
        ("*: READ topic *", AclBinding(TOPIC, "*", "User:*", READ)),
        ("Group:ops: READ topic a", AclBinding(TOPIC, "a", "Group:ops", READ)),
        ("CN=x,O=y: READ topic a", AclBinding(TOPIC, "a", "User:CN=x,O=y", READ)),
        ("alice: READ topic a from ::1", AclBinding(TOPIC, "a", "User:alice", READ, "::1")),
        ("alice: READ topic from", AclBinding(TOPIC, "from", "User:alice", READ)),
        (
            "deny eve: ALL transactional_id pay-* from 10.0.0.1",
            AclBinding(
                ResourceType.TRANSACTIONAL_ID,
                "pay-",
                "User:eve",
                AclOperation.ALL,
                "10.0.0.1",
                AclPermission.DENY,
                PatternType.PREFIXED,
            ),
        ),
        (
            "alice: IDEMPOTENT_WRITE cluster",
            AclBinding(ResourceType.CLUSTER, "kafka-cluster", "User:alice", AclOperation.IDEMPOTENT_WRITE),
        ),
    ],
)
def test_a_line_is_read_and_written_again(line: str, expected: AclBinding) -> None:
    assert parse_acl(line) == [expected]
    assert parse_acl(str(expected)) == [expected]


_words = st.one_of(
    st.text(min_size=1, max_size=8),
    st.text('aU:*"\\,.@# \n', min_size=1, max_size=8),
    st.sampled_from(["*", "app*", "from", "a b", "deny", "kafka-cluster", "é\u2028", "x: READ topic y"]),
)


@given(
    st.sampled_from([one for one in ResourceType if one.name not in ("UNKNOWN", "ANY", "CLUSTER")]),
    _words,
    st.one_of(_words.map("User:{}".format), st.builds("{}:{}".format, _words, _words)),
    st.one_of(st.just("*"), _words),
    st.sampled_from([AclPermission.ALLOW, AclPermission.DENY]),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
def test_every_rule_that_is_written_is_read_as_the_same_rule(
    kind: ResourceType, name: str, principal: str, host: str, permission: AclPermission, pattern: PatternType
) -> None:
    acl = AclBinding(kind, name, principal, READ, host, permission, pattern)
    assert parse_acl(str(acl)) == [acl]
    assert str(acl).isprintable()
    assert str(acl)[0] not in "#@"
    cluster = acl._replace(resource_type=ResourceType.CLUSTER, name="kafka-cluster")
    assert parse_acl(str(cluster)) == [cluster]


def test_only_parts_that_need_quotes_have_them() -> None:
    assert str(AclBinding(TOPIC, "app*", "User:alice", READ)) == 'alice: READ topic "app*"'
    assert str(AclBinding(TOPIC, "kafka-cluster", "User:CN=Ann B.", READ)) == "CN=Ann B.: READ topic kafka-cluster"
    assert str(AclBinding(TOPIC, "a", "User:My:x", READ)) == '"User:My:x": READ topic "a"'


def test_several_operations_are_several_rules() -> None:
    assert [str(acl) for acl in parse_acl("alice: READ, WRITE topic a")] == [
        "alice: READ topic a",
        "alice: WRITE topic a",
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("", "is no rule of access"),
        ("alice READ topic a", "is no rule of access"),
        ("alice: READ", "is no rule of access"),
        ("alice: READ topic", "names no topic"),
        ("alice: READ topic a b", "is no rule of access"),
        ("alice: ANY topic a", "'ANY' is none of ALL, READ"),
        ("alice: READ unknown a", "'unknown' is none of TOPIC, GROUP"),
        ('alice: READ topic "a', "is no JSON string"),
        ("alice: READ cluster mine", "no name other than kafka-cluster"),
    ],
)
def test_a_line_that_is_no_rule(line: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse_acl(line)


def test_filters() -> None:
    literal, prefix, everything = (parse_acl(f"alice: READ topic {name}")[0] for name in ("ab", "a*", "*"))
    all_of_them = [literal, prefix, everything]

    def found(wanted: AclFilter) -> list[AclBinding]:
        return list(filter(wanted.matches, all_of_them))

    assert found(AclFilter()) == all_of_them
    assert found(AclFilter(name="ab", pattern_type=PatternType.MATCH)) == all_of_them
    assert found(AclFilter(name="abc", pattern_type=PatternType.MATCH)) == [prefix, everything]
    assert found(AclFilter(name="a")) == [prefix]
    assert found(AclFilter(pattern_type=PatternType.PREFIXED)) == [prefix]
    assert found(AclFilter(principal="User:bob")) == []
    assert found(AclFilter(host="10.0.0.1")) == []
    assert [found(AclFilter.of(acl)) for acl in all_of_them] == [[acl] for acl in all_of_them]
