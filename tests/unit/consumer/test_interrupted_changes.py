"""Ctrl-C at each step of a change of the subscription: afterwards every partition can be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyconsumer.consumer
from pyconsumer.consumer.auto_offset_reset import EARLIEST, LATEST
from pyconsumer.consumer.partition_state import RULES, FetchPosition, FetchState, LeaderAndEpoch
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.structs import OffsetAndMetadata, TopicPartition
from tests.support.interrupts import InterruptAt, Step, places

HERE = str(Path(pyconsumer.consumer.__file__).parent)
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
LEADER, NEXT_LEADER = LeaderAndEpoch(1, 3), LeaderAndEpoch(2, 4)
AT_5 = FetchPosition(5, 3, LEADER)

Change = Callable[[SubscriptionState], object]


def assigned(*changes: Change) -> Callable[[], SubscriptionState]:
    """Return what makes a subscription of two partitions, changed in this way."""

    def make() -> SubscriptionState:
        subscriptions = SubscriptionState(EARLIEST)
        subscriptions.assign_from_user([T0, T1])
        for change in changes:
            change(subscriptions)
        subscriptions.take_changed()
        return subscriptions

    return make


def fetching(subscriptions: SubscriptionState) -> None:
    for tp in (T0, T1):
        subscriptions.seek_validated(tp, FetchPosition(2, 3, LEADER))
        subscriptions.note_topic_id(subscriptions.state(tp), b"1" * 16)


def resetting(subscriptions: SubscriptionState) -> None:
    subscriptions.reset_initializing([T0, T1])


def validating(subscriptions: SubscriptionState) -> None:
    subscriptions.seek(T0, AT_5)


CHANGES: dict[str, tuple[Callable[[], SubscriptionState], Change]] = {
    "assign": (SubscriptionState, lambda s: s.assign_from_user([T0, T1])),
    "assign others": (assigned(fetching), lambda s: s.assign_from_user([T1, T2])),
    "reset without a committed offset": (assigned(), lambda s: s.reset_initializing([T0, T1])),
    "committed offset": (assigned(), lambda s: s.initialise(T0, OffsetAndMetadata(5, "", 3), LEADER)),
    "complete a reset": (assigned(resetting), lambda s: s.complete_reset(T0, EARLIEST, FetchPosition(0, -1, LEADER))),
    "seek": (assigned(fetching), lambda s: s.seek(T0, FetchPosition(7))),
    "seek to be validated": (assigned(fetching), lambda s: s.seek(T0, AT_5)),
    "seek to the end": (assigned(fetching), lambda s: s.request_reset(T0, LATEST)),
    "another leader": (assigned(fetching), lambda s: s.on_leader(T0, NEXT_LEADER)),
    "complete a validation": (assigned(fetching, validating), lambda s: s.complete_validation(T0)),
    "a truncated log": (assigned(fetching, validating), lambda s: s.on_end_of_epoch(T0, AT_5, 2, 4)),
    "another topic of the name": (assigned(fetching), lambda s: s.note_topic_id(s.state(T0), b"2" * 16)),
    "move to the end": (assigned(fetching), lambda s: s.move_to_end(T0)),
    "pause": (assigned(fetching), lambda s: s.pause(T0)),
    "resume": (assigned(fetching, lambda s: s.pause(T0)), lambda s: s.resume(T0)),
    "be about to revoke": (assigned(fetching), lambda s: s.mark_pending_revocation([T0, T1])),
    "discard what was fetched": (assigned(fetching), lambda s: s.drop_fetched([T0, T1])),
    "unsubscribe": (assigned(fetching), lambda s: s.unsubscribe()),
}


def check(subscriptions: SubscriptionState) -> None:
    """Check what every partition needs, so that it is read in the end."""
    not_fetching = {state.topic_partition for state in subscriptions.states() if not state.has_valid_position}
    assert subscriptions._not_fetching.keys() == not_fetching
    assert subscriptions.changed.keys() >= subscriptions.assignment()
    assert len({state.fetch_epoch for state in subscriptions.states()}) == subscriptions.assigned_count
    for state in subscriptions.states():
        assert (state.position is not None) is RULES[state.state].requires_position
        assert state.state is not FetchState.AWAIT_RESET or state.reset_policy is not None
        is_fetchable = state.has_valid_position and not state.paused and not state.pending_revocation
        assert state.is_fetchable is is_fetchable
        assert state.fetch_offset == (-1 if state.position is None else state.position)
        assert state.retry_at == 0.0


def seen(subscriptions: SubscriptionState) -> Any:
    return (
        subscriptions.type,
        subscriptions.metadata_topics(),
        {
            tp: (state.state, state.position, state.topic_id)
            for tp, state in ((tp, subscriptions.state(tp)) for tp in subscriptions.assignment())
        },
    )


@pytest.mark.parametrize("name", CHANGES)
def test_ctrl_c_at_any_step_of_a_change_leaves_partitions_that_can_be_read(name: str) -> None:
    make, change = CHANGES[name]

    def run(interrupt: InterruptAt) -> SubscriptionState:
        subscriptions = make()
        with interrupt():
            change(subscriptions)
        return subscriptions

    def look_at_metadata(subscriptions: SubscriptionState) -> SubscriptionState:
        leader = NEXT_LEADER if name == "another leader" else LEADER
        for tp in subscriptions.assignment():
            subscriptions.on_leader(tp, leader)
        return subscriptions

    before, after = seen(make()), seen(look_at_metadata(run(InterruptAt())))
    steps: list[Step] = places(run, under=HERE)
    assert steps
    for step in steps:
        subscriptions = make()
        interrupt = InterruptAt(step, under=HERE)
        with pytest.raises(KeyboardInterrupt), interrupt():
            change(subscriptions)
        subscriptions.recover()
        check(subscriptions)
        assert subscriptions.assignment() <= before[2].keys() | after[2].keys(), interrupt.where
        change(look_at_metadata(subscriptions))  # the application, or the next poll, tries again
        subscriptions.recover()
        check(subscriptions)
        found = seen(look_at_metadata(subscriptions))
        assert found[:2] == after[:2]
        assert found[2].keys() == after[2].keys()
        for tp, (state, position, topic_id) in after[2].items():
            assert found[2][tp][1:] == (position, topic_id), interrupt.where
            assert found[2][tp][0] in (state, FetchState.AWAIT_VALIDATION), interrupt.where
