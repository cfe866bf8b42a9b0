"""``pyconsumer.compat.aiokafka.admin``: each call has the results of aiokafka's on the same broker."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio

from pyconsumer.errors import IllegalStateError, NodeNotReadyError
from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster
from tests.support.ports import unused_address

aiokafka = pytest.importorskip("aiokafka", reason="needs aiokafka, which pyconsumer[peers] installs")

_PACKAGES = ("aiokafka", "pyconsumer.compat.aiokafka")

#: Runs a call. Arguments: the package, its admin client, a name that is the same for both, and one of its own.
Case = Callable[[ModuleType, Any, str, str], Awaitable[Any]]


@asynccontextmanager
async def started(package: str, cluster: Cluster) -> AsyncIterator[tuple[ModuleType, Any]]:
    """A package with ``admin`` and its submodules imported, and its admin client."""
    for name in ("admin.config_resource", "structs", "errors"):
        importlib.import_module(f"{package}.{name}")
    module = importlib.import_module(package)
    admin = module.admin.AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    await admin.start()
    try:
        yield module, admin
    finally:
        await admin.close()


def plain(value: Any, name: str) -> Any:
    """A result in a form that can be compared: a response with its class, its fields, its object and its text.

    Args:
        name: is written as ``NAME``, since each package has created something of its own.
    """
    if hasattr(value, "to_object"):
        fields = {field: plain(kept, name) for field, kept in vars(value).items()}
        known = (type(value).__name__, value.API_KEY, value.API_VERSION)
        return (*known, fields, plain(value.to_object(), name), repr(value).replace(name, "NAME"))
    if isinstance(value, dict):
        return {plain(key, name): plain(kept, name) for key, kept in value.items()}
    if isinstance(value, list):
        return [plain(each, name) for each in value]
    if isinstance(value, tuple):
        return tuple(plain(each, name) for each in value)
    return value.replace(name, "NAME") if isinstance(value, str) else value


async def both(cluster: Cluster, shared: str, case: Case) -> list[Any]:
    """The results of a case with aiokafka and with ours."""
    found = []
    for number, package in enumerate(_PACKAGES):
        async with started(package, cluster) as (module, admin):
            own = f"{shared}-{number}"
            found.append(plain(await case(module, admin, shared, own), own))
    return found


async def _create_topics(package: ModuleType, admin: Any, shared: str, own: str) -> Any:
    new = package.admin.NewTopic
    first = await admin.create_topics(
        [new(own, 2, 1, topic_configs={"retention.ms": "1000"}), new(own + "b", -1, -1, replica_assignments={0: [99]})]
    )
    again = await admin.create_topics([new(own, 2, 1)])
    checked = await admin.create_topics([new(own + "c", 1, 1), new("not/legal", 1, 1)], validate_only=True)
    # The text for a replica of a missing broker is the broker's own.
    return [[each[:2] for each in found.topic_errors] for found in (first, again, checked)]


async def _one_topic(package: ModuleType, admin: Any, shared: str, own: str) -> Any:
    return await admin.create_topics([package.admin.NewTopic(own, 1, 1)], timeout_ms=5000)


async def _delete_topics(package: ModuleType, admin: Any, shared: str, own: str) -> Any:
    await admin.create_topics([package.admin.NewTopic(own, 1, 1)])
    return [await admin.delete_topics([own]), await admin.delete_topics([own], timeout_ms=1000)]


async def _create_partitions(package: ModuleType, admin: Any, shared: str, own: str) -> Any:
    new = package.admin.NewPartitions
    await admin.create_topics([package.admin.NewTopic(own, 1, 1)])
    found = [
        await admin.create_partitions({own: new(2)}, validate_only=True),
        await admin.create_partitions({own: new(3)}),
    ]
    with pytest.raises(package.errors.InvalidPartitionsError, match=own):
        await admin.create_partitions({own: new(2)})
    described = await admin.describe_topics([own])
    return [*found, sorted(each["partition"] for each in described[0]["partitions"])]


async def _topics(package: ModuleType, admin: Any, shared: str, own: str) -> Any:
    described = await admin.describe_topics([shared])
    everything = await admin.describe_topics()
    return [described, [each for each in everything if each["topic"] == shared], shared in await admin.list_topics()]


async def _cluster(package: ModuleType, admin: Any, shared: str, own: str) -> Any:
    return await admin.describe_cluster()


async def _configs(package: ModuleType, admin: Any, shared: str, own: str) -> Any:
    resource = package.admin.config_resource.ConfigResource
    kinds = package.admin.config_resource.ConfigResourceType
    [broker] = [each["node_id"] for each in (await admin.describe_cluster())["brokers"]][:1]
    named = resource("topic", shared, {"retention.ms": None, "cleanup.policy": None})
    found = await admin.describe_configs(
        [named, resource(kinds.BROKER, broker, {"log.retention.ms": None}), resource("topic", own)]
    )
    [with_synonyms] = await admin.describe_configs([named], include_synonyms=True)
    [everything] = await admin.describe_configs([resource("topic", shared)])
    names = sorted(each[0] for each in everything.resources[0][4])
    return [*found, with_synonyms, names, await admin.describe_configs([])]


async def _alter_configs(package: ModuleType, admin: Any, shared: str, own: str) -> Any:
    resource = package.admin.config_resource.ConfigResource
    await admin.create_topics([package.admin.NewTopic(own, 1, 1, topic_configs={"retention.ms": "1000"})])
    changed = await admin.alter_configs([resource("topic", own, {"segment.bytes": "2000000"})])
    wrong = await admin.alter_configs([resource("topic", own, {"retention.ms": "often"})])
    asked = dict.fromkeys(("retention.ms", "segment.bytes"))
    for _ in range(600):  # a broker of Apache Kafka reads the change a moment later
        after = await admin.describe_configs([resource("topic", own, asked)])
        if "2000000" in str(after):
            break
        await asyncio.sleep(0.05)
    return [changed, [each[:1] for each in wrong[0].resources], after]


async def _groups(package: ModuleType, admin: Any, shared: str, own: str) -> Any:
    described = await admin.describe_consumer_groups([shared])
    coordinator = await admin.find_coordinator(shared)
    known = await admin.describe_consumer_groups([shared], group_coordinator_id=coordinator)
    absent = await admin.describe_consumer_groups([own])
    listed = [each for each in await admin.list_consumer_groups() if each[0] == shared]
    there = [each for each in await admin.list_consumer_groups(broker_ids=[coordinator]) if each[0] == shared]
    return [described, known, absent, listed, there, await admin.find_coordinator(own, 1)]


async def _offsets(package: ModuleType, admin: Any, shared: str, own: str) -> Any:
    tps = [package.structs.TopicPartition(shared, number) for number in (0, 1)]
    coordinator = await admin.find_coordinator(shared)
    found = [
        await admin.list_consumer_group_offsets(shared),
        await admin.list_consumer_group_offsets(shared, partitions=tps),
        await admin.list_consumer_group_offsets(shared, coordinator, tps[1:]),
        await admin.list_consumer_group_offsets(own),
        await admin.list_consumer_group_offsets(shared, partitions=[]),
    ]
    return [{tuple(tp): tuple(offset)[:2] for tp, offset in each.items()} for each in found]


async def _delete_records(package: ModuleType, admin: Any, shared: str, own: str) -> Any:
    tp, records = package.structs.TopicPartition, package.admin.RecordsToDelete
    found = await admin.delete_records({tp(shared, 0): records(before_offset=2), tp(shared, 1): records(-1)})
    with pytest.raises(package.errors.OffsetOutOfRangeError):
        await admin.delete_records({tp(shared, 0): records(1000)}, timeout_ms=5000)
    with pytest.raises(package.errors.NotLeaderForPartitionError):
        await admin.delete_records({tp(shared, 7): records(1)})
    return {tuple(each): offset for each, offset in found.items()}


async def _unknown_broker(package: ModuleType, admin: Any, shared: str, own: str) -> Any:
    resource = package.admin.config_resource.ConfigResource
    with pytest.raises(package.errors.NodeNotReadyError):
        await admin.describe_configs([resource("broker", 99)])
    with pytest.raises(package.errors.NodeNotReadyError):
        await admin.list_consumer_groups(broker_ids=[99])
    with pytest.raises(ValueError):
        await admin.describe_configs([resource("broker", "name")])


@pytest_asyncio.fixture
async def group(cluster: Cluster, make_topic: Any) -> AsyncIterator[str]:
    """A group with a member and a committed offset, and a topic of the same name."""
    topic: str = make_topic(2)
    async with started(_PACKAGES[1], cluster) as (_, admin):
        await admin.find_coordinator(topic, 1)  # until the coordinator's topic is there, which aiokafka does not await
    for number in (0, 1):
        fill(cluster, topic, 5, partition=number)
    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=topic,
        client_id="member",
        enable_auto_commit=False,
        session_timeout_ms=60_000,
    )
    await consumer.start()
    await consumer.commit({aiokafka.TopicPartition(topic, 0): aiokafka.structs.OffsetAndMetadata(3, "note")})
    try:
        yield topic
    finally:
        await consumer.stop()


@pytest.mark.parametrize(
    "case",
    [
        _create_topics,
        _one_topic,
        _delete_topics,
        _create_partitions,
        _topics,
        _cluster,
        _configs,
        _alter_configs,
        _groups,
        _offsets,
        _delete_records,
        _unknown_broker,
    ],
    ids=lambda case: case.__name__.strip("_"),
)
@pytest.mark.asyncio
async def test_a_call_has_the_results_of_aiokafkas(cluster: Cluster, group: str, case: Case) -> None:
    theirs, ours = await both(cluster, group, case)
    assert ours == theirs


@pytest.mark.asyncio
async def test_operations_that_a_user_may_do_come_with_a_group(cluster: Cluster, group: str) -> None:
    # aiokafka asks for them and does not decode them. Two groups of one coordinator break its decoder.
    async with started("pyconsumer.compat.aiokafka", cluster) as (_, admin):
        [found] = await admin.describe_consumer_groups([group, group, f"{group}-2"], include_authorized_operations=True)
        assert {each[1] for each in found.groups} == {group, f"{group}-2"}
        assert found.to_object()["groups"][0]["authorized_operations"] == found.groups[0][6] != 0


@pytest.mark.asyncio
async def test_responses_are_values(cluster: Cluster, group: str) -> None:
    async with started("pyconsumer.compat.aiokafka", cluster) as (_, admin):
        [found] = await admin.describe_consumer_groups([group])
        [again] = await admin.describe_consumer_groups([group])
        [other] = await admin.describe_consumer_groups(["another"])
    assert found == again == pickle.loads(pickle.dumps(found))
    assert found != other
    assert found.get_item("groups") is found.groups
    with pytest.raises(AttributeError, match=r"has no 'group'\. It has throttle_time_ms, groups"):
        found.group  # noqa: B018


@pytest.mark.asyncio
async def test_describing_a_topic_does_not_create_it(cluster: Cluster, group_id: str) -> None:
    async with started("pyconsumer.compat.aiokafka", cluster) as (_, admin):
        assert [each["error_code"] for each in await admin.describe_topics([group_id])] == [3]
        assert group_id not in await admin.list_topics()


@pytest.mark.asyncio
async def test_the_beginning_and_the_end(cluster: Cluster) -> None:
    from pyconsumer.compat.aiokafka.admin import AIOKafkaAdminClient

    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    for call in (admin.list_topics, lambda: admin.create_topics([])):
        with pytest.raises(NodeNotReadyError, match="start"):
            await call()
    await admin.start()
    await admin.start()
    assert admin._client.cluster.brokers()
    await admin.close()
    await admin.close()
    for call in (admin.start, admin.list_topics):
        with pytest.raises(IllegalStateError, match="closed"):
            await call()
    await AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers).close()


@pytest.mark.parametrize("package", _PACKAGES)
@pytest.mark.asyncio
async def test_no_broker(package: str) -> None:
    errors = importlib.import_module(f"{package}.errors")
    with unused_address() as address:
        admin = importlib.import_module(f"{package}.admin").AIOKafkaAdminClient(
            bootstrap_servers=address, request_timeout_ms=300
        )
        with pytest.raises(errors.KafkaConnectionError):
            await admin.start()
        await admin.close()


def test_calls_and_values_have_aiokafkas_arguments() -> None:
    theirs, ours = (importlib.import_module(f"{package}.admin") for package in _PACKAGES)
    assert ours.__all__ == theirs.__all__
    pairs = {
        name: (getattr(theirs.AIOKafkaAdminClient, name), getattr(ours.AIOKafkaAdminClient, name, None))
        for name, value in vars(theirs.AIOKafkaAdminClient).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    pairs |= {name: (getattr(theirs, name), getattr(ours, name)) for name in ours.__all__ if name.startswith("N")}
    assert {name: _arguments(mine) for name, (_, mine) in pairs.items()} == {
        name: _arguments(original) for name, (original, _) in pairs.items()
    }


def _arguments(call: Any) -> list[tuple[str, Any]]:
    return [(each.name, each.default) for each in inspect.signature(call).parameters.values()]


@pytest.mark.parametrize("package", _PACKAGES)
def test_values(package: str) -> None:
    admin = importlib.import_module(f"{package}.admin")
    config = importlib.import_module(f"{package}.admin.config_resource")
    topic = admin.NewTopic("name", 2, 1)
    assert vars(topic) == {
        "name": "name",
        "num_partitions": 2,
        "replication_factor": 1,
        "replica_assignments": {},
        "topic_configs": {},
    }
    assert vars(admin.NewPartitions(3)) == {"total_count": 3, "new_assignments": None}
    assert vars(admin.RecordsToDelete(3)) == {"before_offset": 3}
    assert config.ConfigResource("broker", 1).resource_type is config.ConfigResourceType.BROKER
    with pytest.raises(KeyError):
        config.ConfigResource("group", 1)
    for wrong in ((-1, 1, None), (1, 1, {0: [1]})):
        with pytest.raises(Exception, match="replica_assignment"):
            admin.NewTopic("name", *wrong)


@pytest.mark.asyncio
async def test_calls_of_several_tasks_take_turns(cluster: Cluster, group: str) -> None:
    async with started("pyconsumer.compat.aiokafka", cluster) as (_, admin):
        found = await asyncio.gather(*(admin.describe_consumer_groups([group]) for _ in range(5)), admin.list_topics())
    assert all(each == found[0] for each in found[:5])
    assert group in found[5]
