"""Our rules of access against Kafka's own StandardAuthorizer, on random lists of rules and random questions."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyconsumer.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType, operation_bits
from pyconsumer.broker.access.authorizer import Authorizer, parse_super_users
from pyconsumer.broker.access.store import AclStore
from tests.support.java import need_jars, tools

LISTS, QUESTIONS = 10_000, 10

TYPES = [ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID]
NAMES = ["a", "ab", "abc", "abd", "b", "*", "a*", "é", "ää", "hardcode", "h", "kafka-cluster", "ab-c.d_e"]
PRINCIPALS = ["User:a", "User:b", "User:*", "User:CN=x,O=y", "Group:a", "User:"]
HOSTS = ["*", "127.0.0.1", "10.0.0.1", "0:0:0:0:0:0:0:1"]
OPERATIONS = [one for one in AclOperation if one.name not in ("UNKNOWN", "ANY")]


def lists(seed: int) -> Iterator[tuple[str, bool, list[AclBinding], list[tuple]]]:
    """Return super users, the setting, rules, and questions. Few values, so that rules meet questions."""
    chance = random.Random(seed)
    for _ in range(LISTS):
        kinds = chance.sample(TYPES, chance.randint(1, 2))
        common = chance.sample(OPERATIONS, chance.randint(1, 6))
        acls = {
            AclBinding(
                chance.choice(kinds),
                chance.choice(NAMES),
                chance.choice(PRINCIPALS),
                chance.choice(common),
                chance.choice(HOSTS),
                chance.choice([AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY]),
                chance.choice([PatternType.LITERAL, PatternType.PREFIXED]),
            )
            for _ in range(chance.choice([0, 1, 2, 4, 8, 20]))
        }
        questions = [
            (
                chance.choice(PRINCIPALS[:2] + PRINCIPALS[3:]),
                chance.choice(HOSTS[1:]),
                chance.choice([*common, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS]),
                chance.choice(kinds),
                chance.choice(NAMES) if chance.random() < 0.9 else None,
            )
            for _ in range(QUESTIONS)
        ]
        yield chance.choice(["", "", "", "User:a", "User:b;Group:a"]), chance.random() < 0.3, sorted(acls), questions


@pytest.mark.slow
def test_each_answer_is_that_of_kafkas_authorizer(tmp_path: Path) -> None:
    need_jars()
    lines, ours, asked = [], [], []
    for super_users, allow, acls, questions in lists(seed=39):
        lines.append(f"L\t{super_users}\t{str(allow).lower()}")
        store = AclStore(lambda undo, change: None)
        store.create(acls)
        authorizer = Authorizer(store, parse_super_users(super_users), allow_without_acl=allow)
        lines += ["\t".join(["A", *(part if type(part) is str else part.name for part in acl)]) for acl in acls]
        for principal, host, operation, kind, name in questions:
            if name is None:
                lines.append("\t".join(["T", principal, host, operation.name, kind.name]))
                ours.append(authorizer.allows_any(principal, host, operation, kind))
            else:
                lines.append("\t".join(["Q", principal, host, operation.name, kind.name, name]))
                ours.append(authorizer.allows(principal, host, operation, kind, name))
            asked.append((lines[-1], super_users, allow, acls))
    (tmp_path / "questions").write_text("\n".join(lines) + "\n", encoding="utf-8")
    source = Path(__file__).with_name("AuthorizerAnswers.java")
    theirs = [answer == "1" for answer in tools().run_source(source, str(tmp_path / "questions")).stdout.strip()]
    assert len(theirs) == len(ours) == LISTS * QUESTIONS
    wrong = [(one, mine, yours) for one, mine, yours in zip(asked, ours, theirs, strict=True) if mine is not yours]
    assert not wrong, f"{len(wrong)} answers differ, such as {wrong[:3]}"
    assert 0.1 < sum(ours) / len(ours) < 0.9  # both answers occur often


def test_each_type_of_resource_has_the_operations_of_kafkas() -> None:
    need_jars()
    printed = tools().run_source(Path(__file__).with_name("SupportedOperations.java")).stdout
    theirs = {line.split()[0]: set(re.findall(r"[A-Z_]+", line)[1:]) for line in printed.splitlines()}
    ours = {
        kind.name: {one.name for one in OPERATIONS if operation_bits(kind) >> one & 1}
        for kind in ResourceType
        if kind.name not in ("UNKNOWN", "ANY")
    }
    assert ours == theirs
