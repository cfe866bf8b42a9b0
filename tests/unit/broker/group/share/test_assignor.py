"""The assignor ``simple``: its counts, and the partitions that members keep."""

from __future__ import annotations

import pytest

from pyconsumer.broker.group.share.assignor import assign

TOPIC, OTHER = b"T" * 16, b"O" * 16


@pytest.mark.parametrize(("members", "partitions"), [(1, 1), (1, 5), (2, 3), (3, 2), (5, 1), (7, 3), (4, 4)])
def test_each_member_has_something_and_all_have_about_as_much(members: int, partitions: int) -> None:
    names = [f"m{number}" for number in range(members)]
    found = assign({name: [TOPIC] for name in names}, {TOPIC: range(partitions)}, {})
    sizes = [len(found[name][TOPIC]) for name in names]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    sharing = -(-members // partitions)
    for index in range(partitions):
        assert sum(index in found[name][TOPIC] for name in names) == sharing


def test_members_keep_their_partitions() -> None:
    before = assign({"a": [TOPIC], "b": [TOPIC]}, {TOPIC: range(4)}, {})
    after = assign({"a": [TOPIC], "b": [TOPIC], "c": [TOPIC]}, {TOPIC: range(4)}, before)
    for member in "ab":
        assert len(after[member][TOPIC] & before[member][TOPIC]) >= 1
    assert assign({"a": [TOPIC], "b": [TOPIC]}, {TOPIC: range(4)}, before) == before


def test_a_topic_is_divided_among_its_own_subscribers() -> None:
    found = assign({"a": [TOPIC], "b": [TOPIC, OTHER]}, {TOPIC: range(2), OTHER: range(1)}, {})
    assert OTHER not in found["a"]
    assert found["b"][OTHER] == {0}
    assert {index for member in "ab" for index in found[member].get(TOPIC, ())} == {0, 1}
