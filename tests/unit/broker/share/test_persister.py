"""The way to a share coordinator that is loading: calls are tried again, as long as they are wanted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.broker.controller import SHARE_STATE_TOPIC
from pyconsumer.broker.share.config import ShareConfig
from pyconsumer.broker.share.coordinator import ShareCoordinator
from pyconsumer.broker.share.persister import Persister
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import ManualClock
from pyconsumer.errors import Errors
from pyconsumer.protocol.share_state_topic import ShareStateKey
from tests.unit.broker.group.support import MemoryStorage

KEY = ShareStateKey("g", b"T" * 16, 0)


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_state_is_begun_late_only_if_it_is_still_wanted(is_wanted: bool) -> None:
    clock, timer = ManualClock(100.0), Timer()
    storage = MemoryStorage(clock, partitions=1)
    topics: Any = SimpleNamespace(topic_name=lambda topic_id: "t", partition_count=lambda topic: 1)
    coordinator = ShareCoordinator(ShareConfig(), storage, timer, clock, topics)
    topic = SimpleNamespace(partitions=[SimpleNamespace(leader=1)])
    broker: Any = SimpleNamespace(
        clock=clock,
        timer=timer,
        controller=SimpleNamespace(topics={SHARE_STATE_TOPIC: topic}),
        share_coordinator=coordinator,
    )
    wanted = True
    result = Persister(broker, {1: broker}).initialize(KEY, 1, 5, lambda: wanted)
    assert not result.done
    wanted = is_wanted  # the group has moved in the meantime, or not
    coordinator.on_become_leader(0, 1)
    for _ in range(20):
        clock.advance(0.1)
        timer.run_due(clock.now())
    assert result.value.error_code == (0 if is_wanted else Errors.NOT_COORDINATOR)
    assert len(storage.appended) == is_wanted
