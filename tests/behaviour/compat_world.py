"""A world for the calls that test_compat_calls.py compares: a package with its broker, and the outcome of a call."""

from __future__ import annotations

import asyncio
import importlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pyconsumer import KafkaAdminClient
from pyconsumer.admin import NewTopic
from tests.support.cluster import Cluster

_NUMBERS = itertools.count()
LONG_S: Final = 30.0

Call = Callable[[Any], Awaitable[Any]]
AIO: dict[str, Call] = {}
BLOCKING: dict[str, Callable[[Any], Any]] = {}


def aio(function: Call) -> Call:
    AIO[function.__name__] = function
    return function


def blocking(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    BLOCKING[function.__name__] = function
    return function


class World:
    """A package with its broker: makes clients, and ends those that the call leaves open.

    Attributes:
        package: the original or our layer.
        topic: has two partitions and five records in partition 0.
        group: a group of its own.
    """

    def __init__(self, package: str, cluster: Cluster) -> None:
        self.package: Any = importlib.import_module(package)
        self.errors: Any = importlib.import_module(f"{package}.errors")
        self.address = cluster.bootstrap_servers
        number = next(_NUMBERS)
        self.topic, self.group = f"calls-{number}-{id(self):x}", f"calls-group-{number}-{id(self):x}"
        self.opened: list[Any] = []
        with KafkaAdminClient(bootstrap_servers=self.address) as admin:
            admin.create_topics([NewTopic(self.topic, 2, 1)])

    def tp(self, partition: int = 0) -> Any:
        return self.package.TopicPartition(self.topic, partition)

    def consumer(self, *topics: str, **configs: Any) -> Any:
        name = "AIOKafkaConsumer" if hasattr(self.package, "AIOKafkaConsumer") else "KafkaConsumer"
        configs = {"bootstrap_servers": self.address, "auto_offset_reset": "earliest", **configs}
        self.opened.append(getattr(self.package, name)(*topics, **configs))
        return self.opened[-1]

    def producer(self, **configs: Any) -> Any:
        name = "AIOKafkaProducer" if hasattr(self.package, "AIOKafkaProducer") else "KafkaProducer"
        self.opened.append(getattr(self.package, name)(**{"bootstrap_servers": self.address, **configs}))
        return self.opened[-1]

    async def started(self, client: Any) -> Any:
        await client.start()
        return client

    async def end(self) -> None:
        for client in self.opened:
            try:
                await asyncio.wait_for(client.stop(), LONG_S)
            except Exception:  # the outcome is that of the call
                pass


class Raised:
    """An error as an outcome."""

    def __init__(self, error: BaseException) -> None:
        self.names = [kind.__name__ for kind in type(error).__mro__]
        self.error = error

    def __repr__(self) -> str:
        return f"raised {self.error!r}"


def equal(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, Raised) and isinstance(ours, Raised):
        return theirs.names[0] in ours.names
    return not isinstance(theirs, Raised) and not isinstance(ours, Raised) and bool(theirs == ours)


async def outcome(call: Call, package: str, cluster: Cluster) -> Any:
    world = World(package, cluster)
    try:
        return await asyncio.wait_for(call(world), 2 * LONG_S)
    except (Exception, asyncio.CancelledError) as error:
        return Raised(error)
    finally:
        await world.end()


def blocking_outcome(call: Callable[[Any], Any], package: str, cluster: Cluster) -> Any:
    world = World(package, cluster)
    try:
        return call(world)
    except StopIteration:
        return Raised(StopIteration())
    except Exception as error:
        return Raised(error)
    finally:
        for client in world.opened:
            try:
                client.close()
            except Exception:  # the outcome is that of the call
                pass
