"""The windows of counters: Java's two of 30 s, computed when they are read."""

from __future__ import annotations

import math
import sys
import threading
import tracemalloc

import pytest

from pyconsumer.consumer.metrics import ConsumerMetrics, GroupMetrics
from pyconsumer.consumer.partition_state import FetchPosition, TopicPartitionState, current_leader
from pyconsumer.consumer.record_counters import TopicCounters
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.metrics.windows import Counters, Reading, Timing, Windows
from pyconsumer.network.metadata import Metadata
from pyconsumer.network.stats import ChannelStats
from pyconsumer.structs import TopicPartition


def test_without_an_event_there_is_no_average_and_no_growth() -> None:
    reading = Timing(Windows(), 5.0).reading(1000.0)

    assert reading.growth == {"count": 0, "total": 0}
    assert reading.peaks == {"longest": -math.inf}


def test_a_rate_right_after_the_start_is_over_a_window_and_the_time_passed() -> None:
    timing = Timing(Windows(), 0.0)
    for second in range(5):
        timing.add(1.0, float(second))

    # Rate.windowSize of Java: 5 s have passed, and one of two windows is missing
    assert timing.reading(5.0).seconds == 35.0
    assert timing.reading(5.0).growth["count"] == 5


def test_an_event_counts_for_at_least_60_and_at_most_90_seconds() -> None:
    timing = Timing(Windows(), 0.0)
    timing.add(7.0, 1.0)
    timing.add(1.0, 31.0)
    timing.add(1.0, 62.0)

    assert timing.reading(62.0).peaks["longest"] == 7.0
    assert timing.reading(89.0).growth["count"] == 3
    assert timing.reading(90.0).growth["count"] == 2
    assert timing.reading(90.0).peaks["longest"] == 1.0
    assert timing.reading(90.0).totals["count"] == 3


def test_a_reader_sees_old_events_go_without_a_further_event() -> None:
    timing = Timing(Windows(), 0.0)
    timing.add(7.0, 1.0)

    assert timing.reading(61.0).growth["count"] == 1
    assert timing.reading(91.0).growth["count"] == 0
    assert timing.reading(91.0).peaks["longest"] == -math.inf
    assert timing.reading(91.0).totals == {"count": 1, "total": 7.0}


def test_a_process_that_was_stopped_for_an_hour_reports_what_came_after() -> None:
    timing = Timing(Windows(), 0.0)
    timing.add(7.0, 1.0)
    timing.add(2.0, 3601.0)

    reading = timing.reading(3602.0)
    assert (reading.growth["count"], reading.peaks["longest"], reading.seconds) == (1, 2.0, 31.0)


def test_a_clock_that_goes_back_gives_no_negative_rate() -> None:
    timing = Timing(Windows(), 1000.0)
    timing.add(7.0, 1000.0)
    timing.add(7.0, 400.0)

    reading = timing.reading(400.0)
    assert reading.growth["count"] == 2
    assert reading.seconds >= 30.0


@pytest.mark.parametrize("windows", [Windows(1.0, 1), Windows(0.001, 2), Windows(30.0, 20)])
def test_the_settings_decide_about_the_windows(windows: Windows) -> None:
    timing = Timing(windows, 0.0)
    timing.add(1.0, 0.0)
    seconds, number = windows

    assert timing.reading(seconds * number).growth["count"] == 1
    assert timing.reading(seconds * (number + 1)).growth["count"] == 0


def test_all_counters_of_a_network_client_begin_a_window_with_the_selector() -> None:
    stats = ChannelStats(Windows(), 0.0)
    node = stats.node(3, 0.0)
    node.requested(100)
    stats.requested(100)
    stats.selected(60.0, 61.0)
    node.requested(10)
    stats.requested(10)

    for each in (stats, node):
        assert each.reading(91.0).growth["requests"] == 1
        assert each.reading(91.0).peaks["largest_request"] == 10
        assert each.reading(91.0).totals["requests"] == 2


def test_a_node_goes_an_hour_after_its_last_use() -> None:
    stats = ChannelStats(Windows(), 0.0)
    stats.node(1, 0.0).sent(10)
    stats.node(2, 0.0).sent(10)
    for second in range(30, 3630, 30):
        stats.selected(float(second), float(second))
        stats.node(2, float(second)).sent(1)

    assert [key for key, _ in stats.nodes_in_use(3629.0)] == [1, 2]
    stats.selected(3630.0, 3630.0)
    assert [key for key, _ in stats.nodes_in_use(3630.0)] == [2]
    assert stats.nodes.keys() == {2}


def test_a_bootstrap_address_keeps_its_counters_under_the_brokers_id() -> None:
    stats = ChannelStats()
    stats.node(-1, 0.0).requested(5)
    stats.rename(-1, 7)
    assert {key: node.requests for key, node in stats.nodes.items()} == {7: 1}


def test_a_renamed_connection_takes_over_the_counters_of_an_earlier_one_to_the_broker() -> None:
    stats = ChannelStats(Windows(), 0.0)
    stats.node(7, 0.0).requested(5)
    live = stats.node(-1, 10.0)
    live.requested(5)
    stats.rename(-1, 7)
    live.requested(9)  # its connection goes on

    reading = stats.node(7, 20.0).reading(20.0)
    assert (reading.totals["requests"], reading.growth["requests"]) == (3, 3)
    assert stats.nodes.keys() == {7}


def test_a_node_stays_while_its_connection_is_open() -> None:
    stats = ChannelStats(Windows(), 0.0)
    node = stats.node(1, 0.0)
    node.attached()
    for second in range(0, 7200, 30):
        stats.selected(float(second), float(second))
    assert stats.nodes_in_use(7200.0) == [(1, node)]
    node.detached()
    for second in range(7200, 10800, 30):
        stats.selected(float(second), float(second))
    assert stats.nodes_in_use(10799.0) == []
    assert stats.nodes == {}


def test_a_node_of_a_client_that_is_not_called_any_more_goes_as_well() -> None:
    stats = ChannelStats(Windows(), 0.0)
    node = stats.node(1, 0.0)
    node.sent(10)
    assert stats.nodes_in_use(3599.0) == [(1, node)]
    assert stats.nodes_in_use(3700.0) == []


def test_a_request_after_an_idle_time_counts_in_a_new_window() -> None:
    stats = ChannelStats(Windows(), 0.0)
    node = stats.node(1, 0.0)
    stats.count_request(100, 600.0)
    node.requested(100)
    stats.selected(600.0, 600.1)

    for each in (stats, node):
        assert each.reading(601.0).growth["requests"] == 1
        assert each.reading(601.0).peaks["largest_request"] == 100


@pytest.mark.parametrize("waits", [[(0.0, 300.0)], [(10.0, 45.0)], [(25.0, 130.0), (130.0, 131.0)], [(200.0, 201.0)]])
@pytest.mark.parametrize("later", [0.0, 1.0, 29.0, 31.0, 59.0])
def test_the_ratio_of_waiting_is_at_most_1_however_long_a_wait_is(
    waits: list[tuple[float, float]], later: float
) -> None:
    stats, memory = ChannelStats(Windows(), 0.0), Timing(Windows(), 0.0)
    for began_at, ended_at in waits:
        stats.selected(began_at, ended_at)
        memory.waited(ended_at - began_at, ended_at)
    now = waits[-1][1] + later

    reading, other = stats.reading(now), memory.reading(now)
    assert 0.0 < reading.growth["waited"] / reading.seconds <= 1.0
    assert other.growth["total"] / other.seconds == pytest.approx(reading.growth["waited"] / reading.seconds)
    assert (reading.totals["waited"], other.totals["total"]) == (pytest.approx(sum(e - b for b, e in waits)),) * 2
    assert other.peaks["longest"] >= waits[-1][1] - waits[-1][0]


def test_the_rate_of_a_topics_records_ends_with_the_polls() -> None:
    counters = TopicCounters(Windows(), 0.0)
    counters.fetched(100)

    assert counters.with_records(5).reading(1.0).growth["records"] == 5
    assert counters.with_records(5).reading(89.0).growth["records"] == 5
    assert counters.with_records(5).reading(90.0).growth["records"] == 0
    assert counters.with_records(5).reading(9000.0).growth["records"] == 0


def test_the_lag_that_a_long_poll_returns_counts_from_its_end() -> None:
    subscriptions = SubscriptionState(None)
    tp = TopicPartition("t", 0)
    subscriptions.assign_from_user([tp])
    subscriptions.seek(tp, FetchPosition(3, -1, current_leader(Metadata(), tp)))
    state = subscriptions.by_partition[tp]
    state.update_log_offsets(10, 10, 0)
    metrics = ConsumerMetrics(0.0, Windows())
    metrics.watch(subscriptions, read_committed=False)
    metrics.on_poll_start(0.0)
    metrics.on_fetch(300.0, {"t": 10}, 0, 300.0)
    state.start_counters(metrics.windows, 300.0)
    state.pass_records(3, -1, None, hidden=False)
    counters = metrics.partition_counters(state)

    assert counters is not None
    assert counters.reading(301.0).peaks["largest_lag"] == 7


def _polled_partition(*, end: int, start: int) -> tuple[ConsumerMetrics, TopicPartitionState]:
    subscriptions = SubscriptionState(None)
    tp = TopicPartition("t", 0)
    subscriptions.assign_from_user([tp])
    subscriptions.seek(tp, FetchPosition(start, -1, current_leader(Metadata(), tp)))
    state = subscriptions.by_partition[tp]
    state.update_log_offsets(end, end, start)
    metrics = ConsumerMetrics(0.0, Windows())
    metrics.watch(subscriptions, read_committed=False)
    state.start_counters(metrics.windows, 0.0)
    return metrics, state


def test_a_topic_that_comes_back_is_counted_anew() -> None:
    metrics, state = _polled_partition(end=100, start=0)
    metrics.on_fetch(0.1, {"t": 10, "gone": 10}, 0, 1.0)
    metrics.on_polled({state.topic_partition: range(3), TopicPartition("gone", 0): range(4)})
    assert metrics.topics.keys() == {"t", "gone"}
    metrics.on_poll_start(31.0)  # begins a window

    assert metrics.topics.keys() == {"t"}
    assert metrics.records_by_topic == {"t": 3}
    assert metrics.records == 7, "the client's total never goes back"


def test_a_partition_that_was_revoked_keeps_nothing_for_metrics() -> None:
    _, state = _polled_partition(end=100, start=0)
    state.keep_lag_marks()
    state.pass_records(10, -1, 1_000, hidden=False)
    state.unassign(2)

    assert (state.counters, state.lag_marks, state.next_timestamp, state.polls()[:2]) == (None, None, None, (0, 0))


def _read(metrics: ConsumerMetrics, state: TopicPartitionState, now: float) -> Reading:
    counters = metrics.partition_counters(state)
    assert counters is not None
    return counters.reading(now)


def test_polls_count_with_the_ends_that_the_log_had_then() -> None:
    metrics, state = _polled_partition(end=100, start=20)
    for position in (30, 50):
        state.pass_records(position, -1, None, hidden=False)
    before = _read(metrics, state, 1.0)
    metrics.settle_polls(state)
    state.update_log_offsets(1000, 1000, 40)

    assert _read(metrics, state, 1.0) == before
    assert before.growth == {"count": 2, "lag": 70 + 50, "lead": 10 + 30}
    assert before.peaks == {"largest_lag": 70, "smallest_lead": -10}
    assert state.polls()[0] == 0

    state.pass_records(100, -1, None, hidden=False)
    assert _read(metrics, state, 1.0).growth == {"count": 3, "lag": 120 + 900, "lead": 40 + 60}
    assert _read(metrics, state, 1.0).peaks == {"largest_lag": 900, "smallest_lead": -10}


def test_a_new_window_takes_no_polls_of_the_one_before() -> None:
    metrics, state = _polled_partition(end=100, start=0)
    state.pass_records(10, -1, None, hidden=False)
    metrics.on_poll_start(31.0)  # begins a window
    state.pass_records(60, -1, None, hidden=False)
    metrics.on_poll_start(62.0)
    state.pass_records(90, -1, None, hidden=False)

    assert _read(metrics, state, 63.0).growth["count"] == 3
    assert _read(metrics, state, 91.0).growth["count"] == 2  # 90 s after the first window began
    assert _read(metrics, state, 91.0).peaks["largest_lag"] == 40
    assert _read(metrics, state, 122.0).growth["count"] == 1
    assert _read(metrics, state, 200.0).growth["count"] == 0


def test_polls_after_a_long_pause_count_at_once() -> None:
    metrics, state = _polled_partition(end=100, start=0)
    state.pass_records(10, -1, None, hidden=False)
    metrics.on_poll_start(3600.0)
    state.pass_records(60, -1, None, hidden=False)

    assert _read(metrics, state, 3601.0).growth == {"count": 1, "lag": 40, "lead": 60}
    metrics.settle_polls(state)
    assert _read(metrics, state, 3601.0).growth == {"count": 1, "lag": 40, "lead": 60}


def test_the_group_counts_failures_by_time() -> None:
    group = GroupMetrics(Windows(), 0.0)
    group.rebalance_failed(10.0)
    group.rebalanced(2.0, 12.0)

    assert group.failures.reading(12.0).growth["count"] == 1
    assert group.rebalances.reading(12.0).totals["total"] == 2.0


_FEWER = 2_000


def _polled_states(count: int) -> tuple[ConsumerMetrics, SubscriptionState, list[int]]:
    """Return partitions of a group's member, each of which has records in its buffer, and their offsets."""
    subscriptions = SubscriptionState(None)
    partitions = [TopicPartition("t", number) for number in range(count)]
    subscriptions.assign_from_user(partitions)
    for number, tp in enumerate(partitions):
        subscriptions.seek(tp, FetchPosition(100_000 + number, -1, current_leader(Metadata(), tp)))
    metrics = ConsumerMetrics(0.0, Windows())
    metrics.watch(subscriptions, read_committed=False)
    return metrics, subscriptions, [100_000 + number for number in range(count)]


def _use_metrics(metrics: ConsumerMetrics, subscriptions: SubscriptionState, offsets: list[int], *, kept: bool) -> None:
    """Poll each partition in each of many windows, and commit. ``kept``: with all that serves the metrics alone."""
    for window in range(1, 7):
        metrics.begin_window(30.0 * window)
        for number, state in enumerate(subscriptions.by_partition.values()):
            state.update_log_offsets(10_000_000 * window, 10_000_000 * window, number)
            for _ in range(3):
                offsets[number] += 500
                if not kept:
                    state.advance(offsets[number], 7)
                    continue
                if state.counters is None:
                    state.start_counters(metrics.windows, 30.0 * window)
                    state.keep_lag_marks()
                state.pass_records(offsets[number], 7, 1_700_000_000_000 + offsets[number], hidden=False)
            state.note_committed(offsets[number])


def _bytes_of(*, kept: bool) -> int:
    used = _polled_states(_FEWER)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        _use_metrics(*used, kept=kept)
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_partitions_cost_less_than_five_megabytes_by_ten_thousand() -> None:
    """All that metrics keep of a partition counts: counters of many windows, polls, and marks of lag as time.

    What the attributes of the state take stands in both, and is added. Fewer are measured, which takes less time.
    """
    slots = 8 * len(("counters", "lag_marks", "next_timestamp", "committed", "poll_count", "_polled", "_first_polled"))
    used = _bytes_of(kept=True) - _bytes_of(kept=False) + _FEWER * slots
    assert 2_000_000 < used * 10_000 / _FEWER < 4_900_000


class _Rolling(Counters):
    """Counters whose windows are replaced while a reader reads the total."""

    TOTALS = DERIVED = ("count",)
    PEAKS = ("longest",)
    __slots__ = ("longest", "rolls_at")

    longest: float

    def __init__(self) -> None:
        self.rolls_at: float | None = None
        super().__init__(Windows(), 0.0)

    @property
    def count(self) -> int:
        at, self.rolls_at = self.rolls_at, None
        if at is not None:
            self.roll(at)
        return 5


def test_a_reader_whose_windows_are_replaced_meanwhile_loses_no_peak() -> None:
    counters = _Rolling()
    counters.longest = 7.0
    counters.rolls_at = 31.0

    assert counters.reading(32.0).peaks["longest"] == 7.0


class _Peeking(Counters):
    """Counters that are read in the middle of a change of windows, when a peak has been reset."""

    PEAKS = ("longest",)
    TOTALS = ()
    __slots__ = ("found", "is_made", "kept")

    def __init__(self) -> None:
        self.found: list[float] = []
        self.kept = -math.inf
        self.is_made = False
        super().__init__(Windows(), 0.0)
        self.is_made = True

    @property
    def longest(self) -> float:
        return self.kept

    @longest.setter
    def longest(self, value: float) -> None:
        self.kept = value
        if self.is_made:
            self.found.append(self.reading(31.0).peaks["longest"])


def test_a_reader_in_the_change_of_windows_loses_no_peak() -> None:
    counters = _Peeking()
    counters.longest = 7.0
    counters.roll(31.0)

    assert counters.found == [7.0, 7.0]


def test_a_reader_in_another_thread_never_sees_more_than_there_was() -> None:
    metrics = ConsumerMetrics(0.0, Windows(0.001, 2))
    wrong: list[object] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            now = metrics.last_poll_at
            reading = metrics.reading(now)
            if not 0 <= reading.growth["gaps"] <= reading.totals["gaps"] or reading.seconds <= 0:
                wrong.append(reading)
            if reading.peaks["longest_gap"] not in (-math.inf, 1 / 2048):
                wrong.append(reading.peaks)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    reader = threading.Thread(target=read)
    try:
        reader.start()
        for poll in range(1 << 14):
            metrics.on_poll_start(poll / 2048)  # powers of two, so that gaps are exact
    finally:
        ended.set()
        reader.join()
        sys.setswitchinterval(interval)
    assert not wrong


def test_a_rate_of_one_complete_window_is_over_a_window_at_least() -> None:
    events = Timing(Windows(30.0, 1), 0.0)
    events.add(1.0, 1.0)
    assert events.reading(1.0).seconds == 30.0
