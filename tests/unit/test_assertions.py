"""Every test asserts something, or is listed here as a test that fails only by an exception."""

from __future__ import annotations

import pytest

from tests.support.asserting import silent_tests

pytestmark = pytest.mark.xdist_group("sources")

#: Tests that fail by an exception alone.
_BY_EXCEPTION = {
    "tests/behaviour/test_broker_crash.py::TestPortsOfAKilledCluster::test_they_are_free_when_it_is_given_up",
    "tests/behaviour/test_brokers.py::test_there_is_a_listener_of_each_protocol",
    "tests/simulation/share/test_share_member_schedules.py::test_no_rule_is_broken",  # `play_members` raises
    "tests/simulation/share/test_share_schedules.py::test_no_rule_is_broken",  # `play` raises
    "tests/simulation/test_schedules.py::test_schedules_that_once_broke_a_rule",
    "tests/unit/broker/test_fetch_sessions.py::test_epochs_restart_at_one",
    "tests/unit/broker/test_replication_histories.py::test_random_histories",
    "tests/unit/compat/test_installing.py::test_names_below_the_public_modules_that_frameworks_import",
    "tests/unit/consumer/test_fetcher.py::test_a_partition_in_backoff_does_not_block_its_neighbours",
    "tests/unit/consumer/coordinator/test_consumer_coordinator.py::test_a_coordinator_lost_during_that_commit_is_looked_up_first",
    "tests/unit/consumer/coordinator/test_consumer_coordinator.py::test_no_automatic_commit_while_rebalancing",
    "tests/unit/network/test_client.py::test_wakeup_before_a_poll_ends_that_poll",
    "tests/unit/protocol/test_api.py::test_random_frames_give_protocol_errors_only",
    "tests/unit/protocol/test_api.py::test_messages_are_imported_on_first_use",
    "tests/unit/protocol/records/test_twins.py::test_mutated_inputs_do_no_harm",
    "tests/unit/spark/test_options.py::test_options_of_groups_are_accepted_without_a_group",
    "tests/unit/spark/test_stream_reader.py::test_stop_need_not_be_called_and_may_be_called_early",
    "tests/unit/test_docs.py::test_python_in_the_documentation_compiles",
}


def test_every_test_asserts_something() -> None:
    assert set(silent_tests()) == _BY_EXCEPTION
