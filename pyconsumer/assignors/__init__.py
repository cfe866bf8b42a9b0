"""Assignors, with which a group's leader divides partitions among its members, and a base class for your own.

The setting ``partition_assignment_strategy`` names them in order of preference. :func:`resolve` turns it into objects.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence

from pyconsumer.assignors.base import (
    Assignment,
    Assignor,
    ClusterView,
    PartitionAssignor,
    RebalanceProtocol,
    Subscription,
    sorted_members,
    subscribed_topics,
)
from pyconsumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from pyconsumer.assignors.delayed import CooperativeStickyDelayedAssignor
from pyconsumer.assignors.range import RangeAssignor
from pyconsumer.assignors.round_robin import RoundRobinAssignor
from pyconsumer.assignors.special import BroadcastAssignor, RackAwareAssignor, RandomAssignor
from pyconsumer.assignors.sticky import StickyAssignor
from pyconsumer.errors import ConfigurationError

__all__ = [
    "Assignment",
    "Assignor",
    "BroadcastAssignor",
    "ClusterView",
    "CooperativeStickyAssignor",
    "CooperativeStickyDelayedAssignor",
    "PartitionAssignor",
    "RackAwareAssignor",
    "RandomAssignor",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
    "common_protocol",
    "resolve",
    "sorted_members",
    "subscribed_topics",
]

_BUILT_IN: dict[str, type[Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    "cooperative-sticky-delayed": CooperativeStickyDelayedAssignor,
    "org.apache.kafka.clients.consumer.RangeAssignor": RangeAssignor,
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": RoundRobinAssignor,
    "org.apache.kafka.clients.consumer.StickyAssignor": StickyAssignor,
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": CooperativeStickyAssignor,
}


def resolve(strategies: str | Assignor | type[Assignor] | Iterable[str | Assignor | type[Assignor]]) -> list[Assignor]:
    """Return the assignors that a setting names, in the order of the setting.

    Args:
        strategies: one assignor or a list of assignors. Each is a name (``"range"``, ``"roundrobin"``, ``"sticky"``,
            ``"cooperative-sticky"``, ``"cooperative-sticky-delayed"``), or the name of Kafka's Java class. It may also
            be an :class:`Assignor` class, an object of it, or its dotted path (``"package.module.Class"``). A string
            may contain several names, separated by commas.

    Raises:
        ConfigurationError: a name is unknown or cannot be imported, an object is not an assignor, or two assignors have
            the same name.

    Example::

        assignors = resolve("cooperative-sticky, range")
    """
    if isinstance(strategies, (str, Assignor, type)):
        strategies = [strategies]
    found: dict[str, Assignor] = {}
    for strategy in _one_by_one(strategies):
        assignor: object = strategy
        if isinstance(strategy, str):
            assignor = _BUILT_IN.get(strategy) or _imported(strategy)
        if isinstance(assignor, type) and issubclass(assignor, Assignor):
            assignor = assignor()
        if not isinstance(assignor, Assignor):
            raise ConfigurationError(
                f"partition_assignment_strategy: {strategy!r} is not an assignor. Derive it from "
                "pyconsumer.assignors.Assignor"
            )
        if assignor.name in found:
            raise ConfigurationError(
                f"partition_assignment_strategy: two assignors are called {assignor.name!r}. Names must differ"
            )
        found[assignor.name] = assignor
    return list(found.values())


def _imported(path: str) -> object:
    """Import the object that a dotted path names, or raise ``ConfigurationError`` if that fails."""
    module, dot, name = path.rpartition(".")
    if not (dot and all(part.isidentifier() for part in path.split("."))):
        known = ", ".join(name for name in _BUILT_IN if "." not in name)
        raise ConfigurationError(
            f"partition_assignment_strategy: no assignor is called {path!r}. There are {known}, "
            "and classes or objects of your own, which dotted paths may name, such as 'package.module.Class'"
        )
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"partition_assignment_strategy: {path!r} cannot be imported: {error}") from error


def _one_by_one(strategies: Iterable[str | Assignor | type[Assignor]]) -> Iterator[str | Assignor | type[Assignor]]:
    for strategy in strategies:
        if isinstance(strategy, str):
            yield from [part.strip() for part in strategy.split(",") if part.strip()] or [strategy]
        else:
            yield strategy


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """Return the highest rebalance protocol that all these assignors support (KIP-429).

    Raises:
        ConfigurationError: the assignors have no protocol in common.

    Example::

        common_protocol(resolve("cooperative-sticky, range"))  # RebalanceProtocol.EAGER
    """
    common = set(RebalanceProtocol)
    for assignor in assignors:
        common &= set(assignor.supported_protocols())
    if not common:
        names = ", ".join(f"{a.name} ({'/'.join(p.name for p in a.supported_protocols())})" for a in assignors)
        raise ConfigurationError(f"partition_assignment_strategy: these assignors share no rebalance protocol: {names}")
    return max(common)
