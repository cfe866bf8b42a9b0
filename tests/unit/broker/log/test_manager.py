"""All logs of a broker: the parts of a deleted topic that may survive it, by folder and by checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyconsumer.broker.config import TopicConfig
from pyconsumer.broker.log.manager import LogManager
from pyconsumer.clock import ManualClock
from tests.unit.broker.brokers import Brokers
from tests.unit.broker.support import NOW_MS, TP, batch, records_of

OLD, NEW = b"o" * 16, b"n" * 16


def manager(folder: Path) -> LogManager:
    return LogManager(folder, ManualClock(wall_ms=NOW_MS), is_deleted=lambda topic_id: topic_id == OLD)


def killed_with_a_log_that_begins_at_40(folder: Path) -> None:
    """Leave a folder and checkpoints of the old topic."""
    logs = manager(folder)
    log = logs.open(TP, OLD, TopicConfig())
    for _ in range(50):
        log.append(batch(), 0)
    log.flush()
    log.advance_log_start_offset(40)
    logs.checkpoint({TP: 50})
    logs.write_log_starts()
    logs.abandon()


def test_checkpoints_apply_to_their_own_topic_only(tmp_path: Path) -> None:
    killed_with_a_log_that_begins_at_40(tmp_path)
    logs = manager(tmp_path)
    logs.remove_strays({"t-0": OLD})
    log = logs.open(TP, OLD, TopicConfig())
    assert (log.log_start_offset, log.recovery_point, logs.high_watermarks[TP]) == (40, 50, 50)


@pytest.mark.parametrize("swept", [True, False])
@pytest.mark.parametrize("folder_left", [True, False])
def test_but_not_for_a_later_one_of_the_same_name(tmp_path: Path, folder_left: bool, swept: bool) -> None:
    killed_with_a_log_that_begins_at_40(tmp_path)
    if not folder_left:  # it was deleted, and the process killed before the next checkpoint
        (tmp_path / "t-0").rename(tmp_path / "t-0.0123-delete")
    logs = manager(tmp_path)
    if swept:
        logs.remove_strays({"t-0": NEW})
        assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    log = logs.open(TP, NEW, TopicConfig())
    assert (log.log_start_offset, log.recovery_point, logs.high_watermarks) == (0, 0, {})
    assert log.append(batch(), 0).first_offset == 0
    logs.abandon()
    assert len(records_of(manager(tmp_path).open(TP, NEW, TopicConfig()))) == 1


def test_a_checkpoint_of_a_deleted_topic_is_not_used_after_a_kill(tmp_path: Path) -> None:
    killed_with_a_log_that_begins_at_40(tmp_path)
    logs = manager(tmp_path)
    logs.open(TP, OLD, TopicConfig())
    logs.remove(TP)
    logs.open(TP, NEW, TopicConfig()).append(batch(), 0)
    logs.abandon()
    again = manager(tmp_path)
    again.remove_strays({"t-0": NEW})
    log = again.open(TP, NEW, TopicConfig())
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)


def test_a_broker_that_was_away_while_its_topic_was_recreated_follows_the_new_one(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, 2)
    topic = brokers.controller.plan_topic("t", assignments={0: [0, 1]})
    brokers.controller.create_topics([topic])
    for _ in range(50):
        brokers.leader().append(batch())
    brokers.run()
    brokers.leader().start_at(40)
    brokers.run()
    assert brokers.replica(1).log.log_start_offset == 40
    brokers.kill(1)
    brokers.controller.delete_topic("t")
    brokers.controller.create_topics([brokers.controller.plan_topic("t", assignments={0: [0, 1]})])
    for _ in range(10):
        brokers.leader().append(batch())
    brokers.restart(1)
    brokers.run()
    follower = brokers.replica(1)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (0, 10)
    assert len(records_of(follower.log)) == 10
    brokers.stop()
