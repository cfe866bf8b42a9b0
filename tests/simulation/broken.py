"""Rules broken on purpose. The simulation must notice each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MethodType
from typing import Any

from pyconsumer.assignors import RebalanceProtocol, RoundRobinAssignor, Subscription
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.coordinator import GroupCoordinator
from pyconsumer.consumer.coordinator import ConsumerCoordinator
from pyconsumer.consumer.coordinator.classic_group_rebalance import RebalanceSteps, perform_assignment
from pyconsumer.consumer.coordinator.classic_group_state import CompleteJoin
from pyconsumer.consumer.coordinator.consumer_group_reconciliation import ReconciliationSteps
from pyconsumer.consumer.coordinator.membership import GroupLog

_ALL = ("eager", "static", "cooperative", "delayed")
_KEEPING = ("cooperative", "delayed")

RULES = {
    "no-fencing": "the coordinator stores commits of generations that are over",
    "no-revoking": "a member keeps what it has to give up: all under the eager protocol, what goes under the others",
    "no-expelling": "the coordinator does not notice that a session is over",
    "no-loading": "a new coordinator forgets offsets that were committed at the old one",
    "no-callback": "a member does not tell the listener of partitions that are lost",
    "no-hurry": "a member looks for its coordinator before it tells what is lost",
    "no-withholding": "the leader gives a partition away while somebody still has it",
    "no-waiting": "the leader gives away at once what a vanished member had",
    "no-follow-up": "members do not ask for a rebalance when the delay is over",
    "no-giving-up": "a member of the consumer protocol confirms what it has to give up, and keeps it",
}

PROTOCOLS_OF = {
    "no-hurry": ("eager",),
    "no-withholding": _KEEPING,
    "no-waiting": ("delayed",),
    "no-follow-up": ("delayed",),
    "no-giving-up": ("consumer", "both"),
}
"""The protocols under which a rule can be broken; by default all."""

CASES = [(rule, protocol) for rule in RULES for protocol in PROTOCOLS_OF.get(rule, _ALL)]


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
    rebalancer = coordinator._protocol.steps
    if rule == "no-giving-up" and isinstance(rebalancer, ReconciliationSteps):
        _confirm_and_keep(rebalancer)
    elif rule == "no-revoking":
        rebalancer._give_up = lambda *, lost: iter(())  # type: ignore[method-assign]
        if rebalancer._protocol is RebalanceProtocol.COOPERATIVE:
            _keep_all(rebalancer)
    elif rule == "no-withholding":
        rebalancer._divide = lambda generation, subscriptions: _deal(rebalancer, subscriptions)  # type: ignore[method-assign]
    elif rule == "no-hurry":
        core = coordinator._core
        lost = core._generation_lost

        def unhurried(reason: str) -> None:
            lost(reason)
            core._lost = False

        core._generation_lost = unhurried  # type: ignore[method-assign]
    elif rule == "no-callback":
        call = rebalancer._call_listener
        rebalancer._call_listener = lambda name, partitions: (
            iter(()) if name == "on_partitions_lost" else call(name, partitions)
        )  # type: ignore[method-assign]


def _keep_all(rebalancer: RebalanceSteps) -> None:
    """Keeps revoked partitions, and does not call the listener."""
    complete, subscriptions = rebalancer.complete, rebalancer._subscriptions

    def keeping(step: CompleteJoin) -> Iterator[Any]:
        before = subscriptions.assigned_list()
        yield from complete(step)
        subscriptions.assign_from_subscribed({*subscriptions.assigned_list(), *before})

    rebalancer.complete = keeping  # type: ignore[method-assign]


def _confirm_and_keep(steps: ReconciliationSteps) -> None:
    """The coordinator hears that partitions were given up, the application does not."""
    assign, subscriptions = steps._assign, steps._subscriptions
    steps._revoke = lambda step, revoked: iter(())  # type: ignore[method-assign, assignment, return-value]

    def keeping(step: Any, wanted: Any, names: Any, added: Any) -> Iterator[Any]:
        yield from assign(step, {*wanted, *subscriptions.assigned_list()}, names, added)

    steps._assign = keeping  # type: ignore[method-assign, assignment]


def _deal(rebalancer: RebalanceSteps, members: Mapping[str, Subscription]) -> dict[str, bytes]:
    return perform_assignment(
        GroupLog("g"), RoundRobinAssignor(), RebalanceProtocol.EAGER, rebalancer._metadata, members
    )


def _store_all(self: GroupCoordinator, group_id: str, offsets: Any, **request: Any) -> Deferred[Any]:
    group = self.manager.get_group(group_id)
    error_code = self._validate(group_id)
    if error_code or group is None:
        return Deferred.of(dict.fromkeys(offsets, error_code or 25))
    return self._store_offsets(group, offsets, request["member_id"])
