"""The built-in partitioner: Java's hash, and the sticky choice without a key."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Sequence

import pytest

from pyconsumer.producer.partitioner import DefaultPartitioner, murmur2, partition_for_key
from pyconsumer.producer.topic_facts import TopicFacts
from pyconsumer.structs import PartitionMetadata

# bytes and Java's Utils.murmur2 of them
JAVA = [
    ("", 275646681),
    ("99", 1288378381),
    ("1834", -1042682160),
    ("5a94c9", -313141582),
    ("390b7702", 612225306),
    ("09d32a595d", 99467382),
    ("41f4b3e59247", -1134459280),
    ("05194bb55dcab3", -1772457477),
    ("0016175aa147e1f3", 1440785583),
    ("e98ee81edf7fae40bf", 731806385),
    ("fced52b202e34d15e5c4", 1378837873),
    ("166fc2edcea4fb1b65e240", -435219086),
    ("e944b31d0705e6c8b71cf8bd", -254753218),
    ("fc97c696693058b22edd1479f1", 1940547272),
    ("e1c82141a6a46d99364cf461b317", -67469886),
    ("ee614cc5a74b029f8f814e38d93995", 1610420826),
    ("94aa2150847891d75da8ddddc46434af", -638076854),
    ("eb50781ae04364f9b3a3f3707eab79470b", -869331060),
    ("b66c499800da641a22a420ee9989ec985901", -1991258725),
    ("c9c38fbf7ae22a00a4174c64b5144dc69831c2", -1869260808),
    ("e9f8c7dcb1c3a276da03c5c5347dd8728b234273", -664453521),
    ("149eb6e9bb0ff5f4111a021c9a0168a981181c9a32", 1628330992),
    ("09395a3213018ebde232b69b463dffe94c73ba9c9960", 906472817),
    ("6a214cc7b067f90295b0180a98eba8fce9bf8a819b01f5", 387032026),
    ("9ebc20efacd4d95a6166595aac5e505cd63fcdf74452a17e", -1029994427),
    ("daf2ce71419a6512500fcbc182e1ef30721c8d57fcee80eefd", 969366367),
    ("65535585b7631557828266251de9a5922a08574138340c697fa9", 797373636),
    ("f2e1e031eefc636a590b94b3ede70bfeb7c6e8d2988f49d867b833", -1047400270),
    ("96310e56cf20194df51cd6eaec0958b9d72ecb53418e134a23dd84dc", 561595535),
    ("437cb251a58953f96424e7bd33a2e0636ebdbbc1d586f9d6d6c93e220a", 1778850706),
    ("261aba5c976f7d07b2bbc679878c62d4332819cc438fd8e801b24847eafa", 182668869),
    ("fe41e1be58c9936f70570198736d008963a7f2f0c00be3754308a9a9492a58", -271026940),
    ("cc5791c758218f6b8a0cd56d9d78ff727bf90b64b0a84b5491c1f5840f7f8dc0", 356766002),
    ("2662199f0e33af179c6689465024424cc8942db5b9cfdf14d380620108d6bbd2b5", 1859556780),
    ("738766847b0a5cf9f95908d5ef4d8c7c468cc00866e1c466630d8f49b86270688321", 541882341),
    ("ac286f32aa3655aa684e0f850780a35a9b91e79e364d03868055d669c03accc8ebbf23", -850422590),
    ("9a5b1c6efe5aeed36fe78d7e363d36f4f7df46f0f2420dd8af0ff55ca6af8911a2ce983c", 1626953494),
    ("516a62a235ae3be7ef470cd1049bce150848321a58bc3495809acf39c16a6fb4548b627bd3", 1886193619),
    ("f45730c31cd75ed1504b79caca281736ce98dcc79ae07e29cf1ba7340a6051cb66b0462ee4f8", 853481148),
    ("6b1b9d4e95058b2b1dbb7de2f1467ff4dd4e6d675c277308d75b44e764896d8c8fddc4094ed8d8", 100013),
]


@pytest.mark.parametrize(("data", "expected"), JAVA, ids=[f"{len(data) // 2} bytes" for data, _ in JAVA])
def test_the_hash_equals_javas(data: str, expected: int) -> None:
    assert murmur2(bytes.fromhex(data)) == expected & 0xFFFFFFFF


@pytest.mark.parametrize(("data", "expected"), JAVA[:8])
def test_a_key_goes_to_the_partition_that_java_chooses(data: str, expected: int) -> None:
    assert partition_for_key(bytes.fromhex(data), 7) == (expected & 0x7FFFFFFF) % 7


@pytest.mark.parametrize("size", [257, 1_000_000])
def test_long_keys_are_not_kept(size: int) -> None:
    key = bytes(size)
    before = sys.getrefcount(key)
    partition_for_key(key, 7)

    assert sys.getrefcount(key) == before


def test_a_key_keeps_its_partition_when_that_has_no_leader() -> None:
    partitioner = DefaultPartitioner(100)
    with_all = partitioner.partition("t", b"key", 4, [0, 1, 2, 3], 10)

    assert partitioner.partition("t", b"key", 4, [p for p in range(4) if p != with_all], 10) == with_all


def test_without_a_key_a_partition_is_kept_for_a_batch_and_then_changed() -> None:
    partitioner = DefaultPartitioner(100, chance=random.Random(1))
    chosen = [partitioner.partition("t", None, 5, range(5), 25) for _ in range(200)]
    runs = [chosen[at : at + 4] for at in range(0, 200, 4)]

    assert all(len(set(run)) == 1 for run in runs)
    assert all(before[0] != after[0] for before, after in itertools.pairwise(runs))
    assert set(chosen) == set(range(5))


def test_without_a_key_partitions_without_a_leader_are_left_out() -> None:
    partitioner = DefaultPartitioner(1)

    assert {partitioner.partition("t", None, 9, [2, 5], 10) for _ in range(50)} == {2, 5}
    assert partitioner.partition("u", None, 3, [], 10) in range(3)


def test_a_sticky_partition_that_loses_its_leader_is_left_at_once() -> None:
    partitioner = DefaultPartitioner(1000)
    first = partitioner.partition("t", None, 2, [0, 1], 1)

    assert partitioner.partition("t", None, 2, [1 - first], 1) == 1 - first


def test_each_topic_has_a_sticky_partition_of_its_own() -> None:
    partitioner = DefaultPartitioner(50)
    for _ in range(49):
        partitioner.partition("a", None, 3, range(3), 1)
    b = partitioner.partition("b", None, 3, range(3), 1)

    partitioner.partition("a", None, 3, range(3), 10)
    assert partitioner.partition("b", None, 3, range(3), 1) == b


def test_partitions_for_which_batches_wait_are_chosen_less_often() -> None:
    """As in Java: with 0, 3 and 1 waiting batches the chances are 4, 1 and 3 of 8."""
    loads = {"t": {1: 3, 2: 1, 7: 9}}
    partitioner = DefaultPartitioner(1, loads=lambda topic: loads.get(topic, {}), chance=random.Random(5))
    chosen = [partitioner.partition("t", None, 3, range(3), 1) for _ in range(8000)]
    assert [round(chosen.count(number) / 1000) for number in range(3)] == [4, 1, 3]


def test_chances_follow_the_loads_and_the_partitions_that_may_be_chosen() -> None:
    loads = [{0: 1_000_000}]
    partitioner = DefaultPartitioner(1, loads=lambda topic: loads[0], chance=random.Random(5))

    def chosen(available: Sequence[int]) -> set[int]:
        return {partitioner.partition("t", None, 3, available, 1) for _ in range(40)}

    assert chosen([0, 1, 2]) == {1, 2}
    assert chosen([0, 2]) == {2}
    loads[0] = {2: 1_000_000}
    assert chosen([0, 2]) == {0}


@pytest.mark.parametrize("loads", [{}, {0: 2, 1: 2}, {5: 4}])
def test_equal_loads_make_no_difference(loads: dict[int, int]) -> None:
    partitioner = DefaultPartitioner(1, loads=lambda topic: loads)
    chosen = [partitioner.partition("t", None, 2, range(2), 1) for _ in range(20)]
    assert all(before != after for before, after in itertools.pairwise(chosen))


def test_keys_can_be_ignored() -> None:
    partitioner = DefaultPartitioner(1, ignore_keys=True, chance=random.Random(3))

    assert len({partitioner.partition("t", b"same", 4, range(4), 1) for _ in range(30)}) == 4


def leaders(*nodes: int) -> list[PartitionMetadata]:
    return [PartitionMetadata("t", number, node, 0) for number, node in enumerate(nodes)]


def test_partitions_of_slow_brokers_are_left_out_while_there_are_others() -> None:
    facts = TopicFacts(leaders(1, 2, -1, 2), {1, 2})
    assert facts.without([]) is facts.preferred
    assert facts.without([2]) == [0]
    assert facts.without([1, 2]) == [0, 1, 3]


def test_partitions_with_a_leader_in_the_rack_are_preferred_while_there_are_any() -> None:
    """KIP-1123."""
    assert TopicFacts(leaders(1, 2, -1, 2)).preferred == [0, 1, 3]
    assert TopicFacts(leaders(1, 2, -1, 2), {2}).preferred == [1, 3]
    assert TopicFacts(leaders(1, 2, -1, 2), {2}).available == [0, 1, 3]
    assert TopicFacts(leaders(1, 2, -1, 2), {5}).preferred == [0, 1, 3]
    assert TopicFacts(leaders(1, 2, -1, 2), set()).preferred == [0, 1, 3]
