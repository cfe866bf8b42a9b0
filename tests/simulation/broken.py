"""Rules broken on purpose. Each must be noticed; otherwise the simulation proves nothing."""

from __future__ import annotations

from types import MethodType
from typing import Any

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.coordinator import GroupCoordinator
from pyconsumer.consumer.coordinator import ConsumerCoordinator

RULES = {
    "no-fencing": "the coordinator stores commits of generations that are over",
    "no-revoking": "a member keeps its partitions when it joins again under the eager protocol",
    "no-expelling": "the coordinator does not notice that a session is over",
    "no-loading": "a new coordinator forgets offsets that were committed at the old one",
    "no-callback": "a member does not tell the listener of partitions that are lost",
}


def break_coordinator(coordinator: GroupCoordinator, rule: str | None) -> None:
    """Let one coordinator break a rule."""
    if rule == "no-fencing":
        coordinator.commit_offsets = MethodType(_store_all, coordinator)  # type: ignore[method-assign]
    elif rule == "no-expelling":
        coordinator._rebalancer._expire_member = lambda group, member: None  # type: ignore[method-assign]
    elif rule == "no-loading":
        load = coordinator.manager.load_group

        def forgetful(group: Any) -> bool:
            group.offsets.committed.clear()
            return load(group)

        coordinator.manager.load_group = forgetful  # type: ignore[method-assign]


def break_member(coordinator: ConsumerCoordinator, rule: str | None) -> None:
    """Let one member break a rule."""
    rebalancer = coordinator._rebalancer
    if rule == "no-revoking":
        rebalancer._give_up = lambda: None  # type: ignore[method-assign]
    elif rule == "no-callback":
        tell = rebalancer._tell
        rebalancer._tell = lambda name, partitions: None if name == "on_partitions_lost" else tell(name, partitions)  # type: ignore[method-assign]


def _store_all(self: GroupCoordinator, group_id: str, offsets: Any, **request: Any) -> Deferred[Any]:
    group = self.manager.get_group(group_id)
    error_code = self._validate(group_id)
    if error_code or group is None:
        return Deferred.of(dict.fromkeys(offsets, error_code or 25))
    return self._store_offsets(group, offsets, request["member_id"])
