"""The consumer's small parts: records, deserializers, interceptors, guard, settings, background steps."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from typing import Any

import pytest

import pyconsumer
from pyconsumer import ConsumerRecords, OffsetAndMetadata, TopicPartition
from pyconsumer.clock import ManualClock
from pyconsumer.consumer.config import CONSUMER_SETTINGS, ConsumerConfig
from pyconsumer.consumer.delegate import ConsumerDelegate
from pyconsumer.consumer.deserializers import Deserialization
from pyconsumer.consumer.guard import NO_THREAD, AccessGuard
from pyconsumer.consumer.interceptors import Interceptors
from pyconsumer.consumer.metrics import ConsumerMetrics
from pyconsumer.errors import (
    ConcurrentAccessError,
    ConfigurationError,
    IllegalStateError,
    KafkaTimeoutError,
    RecordDeserializationError,
    UnknownServerError,
)
from pyconsumer.network.futures import RequestFuture, ResumableCall, Wait
from pyconsumer.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from tests.unit.consumer.builders import interrupted_at, record

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


# -- records ---------------------------------------------------------------------------------------------------------


def test_records_are_a_mapping_that_also_counts_and_iterates_flat() -> None:
    one, two, three = record(1), record(2), record(3, topic="b")
    records = ConsumerRecords({A: [one, two], B: [three]})

    assert records == {A: [one, two], B: [three]}
    assert list(records.records()) == [one, two, three]
    assert list(records.records(A)) == [one, two]
    assert list(records.records("b")) == [three]
    assert list(records.records(TopicPartition("c", 0))) == []
    assert (records.count(), len(records), records.partitions()) == (3, 2, {A, B})
    assert records
    assert not records.is_empty
    assert not ConsumerRecords()
    assert ConsumerRecords().is_empty
    assert repr(records) == "<ConsumerRecords a-0: 2, b-1: 1>"


def test_next_offsets_follow_the_last_records() -> None:
    plain = ConsumerRecords({A: [record(1), record(5)]})
    explicit = ConsumerRecords({A: [record(1)]}, {A: OffsetAndMetadata(9, "", 2)})

    assert plain.next_offsets() == {A: OffsetAndMetadata(6, "", 4)}
    assert explicit.next_offsets() == {A: OffsetAndMetadata(9, "", 2)}


# -- deserializers ---------------------------------------------------------------------------------------------------


def test_functions_get_the_bytes_and_objects_get_topic_and_headers_too() -> None:
    class WithContext:
        def deserialize(self, topic: str, headers: list[tuple[str, bytes]], data: bytes) -> Any:
            return topic, headers, data

    good, used, error = Deserialization(bytes.decode, WithContext())([record(1)])

    assert (used, error) == (1, None)
    assert good[0].key == "k"
    assert good[0].value == ("a", [("h", b"1")], b"v")
    assert (good[0].serialized_key_size, good[0].offset, good[0].leader_epoch) == (1, 1, 4)


def test_a_deserializer_is_not_called_for_a_missing_key_or_value() -> None:
    good, _, error = Deserialization(int, int)([record(1, None, None)])

    assert error is None
    assert (good[0].key, good[0].value, good[0].serialized_value_size) == (None, None, -1)


@pytest.mark.parametrize(("origin", "serializers"), [("key", (int, None)), ("value", (None, int))])
def test_an_error_carries_the_raw_record(origin: str, serializers: tuple[Any, Any]) -> None:
    good, used, error = Deserialization(*serializers)([record(7)])

    assert (good, used) == ([], 0)
    assert isinstance(error, RecordDeserializationError)
    assert (error.topic_partition, error.offset, error.origin, error.timestamp) == (A, 7, origin, 1000)
    assert (error.key, error.value, error.headers) == (b"k", b"v", [("h", b"1")])
    assert isinstance(error.__cause__, ValueError)
    assert f"the {origin} (1 bytes) of the record a-0 at offset 7" in str(error)


class Sink:
    def __init__(self) -> None:
        self.sent: list[RecordDeserializationError] = []

    def send(self, error: RecordDeserializationError) -> None:
        self.sent.append(error)


def test_a_dead_letter_sink_gets_the_bad_records_and_reading_continues() -> None:
    sink = Sink()
    deserialization = Deserialization(None, int, sink)

    good, used, error = deserialization([record(1, b"1"), record(2, b"x"), record(3, b"3")])

    assert ([r.value for r in good], used, error) == ([1, 3], 3, None)
    assert [(e.offset, e.value) for e in sink.sent] == [(2, b"x")]
    assert deserialization.skipped == 1


@pytest.mark.parametrize(("answer", "stops"), [(None, False), ("skip", False), ("raise", True)])
def test_a_function_decides_about_each_bad_record(answer: str | None, stops: bool) -> None:
    seen: list[int] = []

    def decide(error: RecordDeserializationError) -> str | None:
        seen.append(error.offset)
        return answer

    _, used, error = Deserialization(None, int, decide)([record(1, b"1"), record(2, b"x")])

    assert seen == [2]
    assert (used, error is not None) == ((1, True) if stops else (2, False))


@pytest.mark.parametrize("policy", [lambda error: 1 / 0, lambda error: "what"])
def test_a_policy_that_fails_stops_at_the_record(policy: Any) -> None:
    good, used, error = Deserialization(None, int, policy)([record(1, b"1"), record(2, b"x")])

    assert ([r.offset for r in good], used) == ([1], 1)
    assert isinstance(error, (ZeroDivisionError, TypeError))


# -- interceptors ----------------------------------------------------------------------------------------------------


def test_interceptors_are_chained_and_their_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    order: list[str] = []

    class First:
        def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
            order.append("first")
            return ConsumerRecords({tp: found[:1] for tp, found in records.items()})

    class Broken:
        def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
            order.append("broken")
            raise RuntimeError("no")

        def on_commit(self, offsets: Any) -> None:
            raise RuntimeError("no")

    class Wrong:
        def on_consume(self, records: ConsumerRecords) -> list[Any]:
            order.append("wrong")
            return list(records.records())

    class Last:
        seen: Any = None

        def on_consume(self, records: ConsumerRecords) -> None:
            order.append("last")

        def on_commit(self, offsets: Any) -> None:
            Last.seen = offsets
            offsets.clear()

        def close(self) -> None:
            order.append("closed")

    chain = Interceptors([First(), Broken(), Wrong(), Last])
    offsets = {A: OffsetAndMetadata(3)}

    shown = chain.on_consume(ConsumerRecords({A: [record(1), record(2)]}))
    chain.on_commit(offsets)
    chain.close()

    assert [r.offset for r in shown.records()] == [1]
    assert order == ["first", "broken", "wrong", "last", "closed"]
    assert offsets == {A: OffsetAndMetadata(3)}  # it can only look
    assert "on_consume failed" in caplog.text
    assert "on_commit failed" in caplog.text


# -- the guard -------------------------------------------------------------------------------------------------------


def in_thread(function: Any) -> BaseException | None:
    """Return the error that a call raises in another thread."""
    caught: list[BaseException | None] = [None]

    def call() -> None:
        try:
            function()
        except BaseException as error:
            caught[0] = error

    thread = threading.Thread(target=call)
    thread.start()
    thread.join(10)
    return caught[0]


def test_one_thread_at_a_time_may_be_inside() -> None:
    guard = AccessGuard()
    assert guard.owner == NO_THREAD == -1

    with guard:
        assert guard.owner == threading.get_ident()
        error = in_thread(lambda: guard.begin("poll"))
        assert isinstance(error, ConcurrentAccessError)
        assert str(threading.get_ident()) in str(error)

    assert guard.owner == NO_THREAD
    assert in_thread(guard.__enter__) is None


def test_calls_nest_within_a_thread() -> None:
    guard = AccessGuard()
    with guard:
        with guard:
            assert guard.depth == 2
        assert guard.owner == threading.get_ident()
    assert (guard.depth, guard.owner) == (0, NO_THREAD)


def test_a_rejected_or_failed_call_releases_the_guard() -> None:
    guard = AccessGuard()
    with pytest.raises(ZeroDivisionError), guard:
        raise ZeroDivisionError
    assert guard.owner == NO_THREAD

    guard.close()
    with pytest.raises(IllegalStateError, match="closed"), guard:
        pass
    assert guard.owner == NO_THREAD


def test_a_thread_that_is_not_inside_cannot_release() -> None:
    guard = AccessGuard()
    with guard:
        assert in_thread(guard.end) is None
        assert guard.owner == threading.get_ident()


class Guarded:
    """Something with guarded calls, one of which calls back."""

    def __init__(self) -> None:
        self.guard = AccessGuard(self)

    def call(self, callback: Any = None) -> int:
        with self.guard:
            return callback() if callback is not None else self.guard.depth

    def fast(self, callback: Any = None) -> int:
        try:
            self.guard.begin("")
            return callback() if callback is not None else self.guard.depth
        finally:
            self.guard.end()


@pytest.mark.parametrize("name", ["call", "fast"])
def test_ctrl_c_at_any_line_does_not_lock_the_thread_out(name: str) -> None:
    step = 0
    while True:
        step += 1
        guarded = Guarded()
        method = getattr(guarded, name)

        def run(method: Any = method) -> None:
            method(lambda: 0)

        came = interrupted_at(step, run)
        assert method() == 1  # not taken for a nested call
        assert guarded.guard.owner == NO_THREAD
        if not came:
            break
    assert step > 10


@pytest.mark.parametrize("name", ["call", "fast"])
def test_a_call_from_a_callback_is_nested(name: str) -> None:
    guarded = Guarded()
    outer, inner = getattr(guarded, name), guarded.call

    assert outer(lambda: inner()) == 2
    assert outer(lambda: guarded.fast(lambda: inner())) == 3
    assert guarded.guard.owner == NO_THREAD


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_another_process_is_rejected(tmp_path: Any) -> None:
    # In a process of its own: the test run has threads, and forking those is not what this is about.
    program = (
        "import os\n"
        "from pyconsumer.consumer.guard import AccessGuard\n"
        "guard = AccessGuard()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        guard.begin('')\n"
        "    except Exception as error:\n"
        "        os._exit(7 if 'after a fork' in str(error) and guard.forked else 8)\n"
        "    os._exit(9)\n"
        "status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "with guard: pass\n"
        "raise SystemExit(status)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 7


# -- settings --------------------------------------------------------------------------------------------------------


def build(**options: Any) -> ConsumerConfig:
    return CONSUMER_SETTINGS.build({"bootstrap_servers": "localhost:9092", **options})


DEFAULTS: list[tuple[str, str, Any]] = [
    ("client:CF-01", "group_id", None),
    ("client:CF-02", "group_instance_id", None),
    ("", "session_timeout_ms", 45_000),
    ("client:CF-04", "heartbeat_interval_ms", 3_000),
    ("client:CF-05", "max_poll_interval_ms", 300_000),
    ("client:CF-06", "request_timeout_ms", 30_000),
    ("client:FE-07", "request_timeout_ms", 30_000),
    ("client:AM-16", "request_timeout_ms", 30_000),
    ("client:CF-07", "retry_backoff_ms", 100),
    ("client:FE-06", "retry_backoff_ms", 100),
    ("client:CF-09", "fetch_min_bytes", 1),
    ("client:CF-10", "fetch_max_bytes", 52_428_800),
    ("client:CF-11", "fetch_max_wait_ms", 500),
    ("client:CF-12", "max_partition_fetch_bytes", 1_048_576),
    ("client:CF-13", "max_poll_records", 500),
    ("client:FE-08", "max_poll_records", 500),
    ("client:CF-14", "check_crcs", True),
    ("client:FE-09", "check_crcs", True),
    ("client:CF-15", "isolation_level", "read_uncommitted"),
    ("client:CF-16", "auto_commit_interval_ms", 5_000),
    ("client:CF-17", "exclude_internal_topics", True),
    ("client:CF-19", "default_api_timeout_ms", 60_000),
    ("", "fetch_buffer_bytes", 104_857_600),
    ("", "on_record_error", "raise"),
]


@pytest.mark.parametrize(("item", "name", "value"), DEFAULTS)
def test_defaults_are_those_of_javas_consumer(item: str, name: str, value: Any) -> None:
    assert getattr(build(), name) == value


def test_automatic_commits_need_a_group() -> None:
    assert build(group_id="g").enable_auto_commit is True
    assert build().enable_auto_commit is False
    assert build().auto_offset_reset.name == "latest"
    assert build(enable_auto_commit=True).enable_auto_commit is False


def test_every_consumer_has_a_name_of_its_own() -> None:
    names = {build(group_id="g").client_id, build(group_id="g").client_id, build().client_id}

    assert len(names) == 3
    assert all(name.startswith("consumer-") for name in names)
    assert build(client_id="me").client_id == "me"
    static = {"group_id": "g", "group_instance_id": "host-7"}
    assert build(**static).client_id == build(**static).client_id == "consumer-g-host-7", "the same after a restart"


@pytest.mark.parametrize(
    "options",
    [
        {"heartbeat_interval_ms": 45_000},
        {"fetch_max_wait_ms": 30_000},
        {"group_instance_id": "i"},
        *({"group_id": "g", "group_instance_id": wrong} for wrong in ("", ".", "..", "a b", "\u00e9", "x" * 250)),
        {"auto_offset_reset": "smallest"},
        {"isolation_level": "serializable"},
        {"on_record_error": "ignore"},
        {"max_poll_records": 0},
        {"value_deserializer": 5},
        {"enable_metrics_push": True},
        {"fetch_maxx_bytes": 1},
    ],
)
def test_invalid_arguments_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        build(**options)


def test_kafkas_own_names_are_taken() -> None:
    config = CONSUMER_SETTINGS.build(
        {"bootstrap.servers": "a:1,b:2", "group.id": "g", "enable.auto.commit": "false", "max.poll.records": "7"}
    )

    assert (config.group_id, config.enable_auto_commit, config.max_poll_records) == ("g", False, 7)


# -- steps in the background -----------------------------------------------------------------------------------------


def test_background_steps_continue_when_their_future_completes() -> None:
    future: RequestFuture[int] = RequestFuture()

    def steps() -> Generator[Wait, None, int]:
        while not future.done:
            yield Wait(future, 50.0)
        return future.value + 1

    background = ResumableCall(steps(), 60.0)
    assert not background.advance(10.0)
    assert background.due_at == 50.0

    future.complete(4)

    assert background.advance(11.0)
    assert (background.result, background.error, background.due_at) == (5, None, math.inf)


def test_background_steps_without_a_future_run_once_each_time() -> None:
    looks: list[int] = []

    def steps() -> Generator[Wait, None, None]:
        while True:
            looks.append(1)
            yield Wait(None, 50.0)

    background = ResumableCall(steps(), 60.0)
    for expected in (1, 2, 3):
        assert not background.advance(10.0)
        assert len(looks) == expected
    background.advance(55.0)  # its time is over, yet it yields the same wait: once, not for ever
    assert len(looks) == 4


def test_background_steps_fail_at_their_deadline() -> None:
    ended: list[str] = []

    def steps() -> Generator[Wait, None, None]:
        try:
            while True:
                yield Wait(None, math.inf)
        finally:
            ended.append("finally")

    background = ResumableCall(steps(), 60.0)
    background.advance(10.0)
    assert background.due_at == 60.0

    assert background.advance(60.0)

    assert isinstance(background.error, KafkaTimeoutError)
    assert ended == ["finally"]


def test_background_steps_interrupted_by_ctrl_c_have_failed_without_a_result() -> None:
    def steps() -> Any:
        raise KeyboardInterrupt
        yield

    background = ResumableCall(steps(), 100.0)
    with pytest.raises(KeyboardInterrupt):
        background.advance(0.0)
    assert background.advance(0.0)
    assert background.result is None
    assert background.error is not None
    assert background.error.retriable


def test_background_steps_keep_their_error() -> None:
    def steps() -> Generator[Wait, None, None]:
        yield Wait(None, 0.0)
        raise UnknownServerError("no")

    background = ResumableCall(steps(), 60.0)
    assert not background.advance(1.0)
    assert background.advance(1.0)
    assert isinstance(background.error, UnknownServerError)


# -- metrics, imports ------------------------------------------------------------------------------------------------


def test_an_event_is_counted_in_totals_and_in_the_window() -> None:
    metrics = ConsumerMetrics(10.0)
    metrics.on_fetch(0.25, {"t": 1000}, 0, 10.0)
    metrics.on_fetch(0.75, {"t": 2000, "u": 1000}, 0, 10.5)
    metrics.on_records(TopicPartition("t", 0), 8)
    metrics.on_poll_start(11.0)
    metrics.on_poll_start(14.0)

    found = metrics.reading(20.0)

    assert (found.totals["fetches"], found.growth["fetch_latency"], found.peaks["longest_fetch"]) == (2, 1.0, 0.75)
    assert (found.totals["fetch_bytes"], found.totals["records"], found.seconds) == (4000, 8, 40.0)
    assert (found.peaks["longest_gap"], metrics.last_poll_at) == (3.0, 14.0)
    assert metrics.records_by_topic == {"t": 8}
    assert {topic: counters.bytes for topic, counters in metrics.topics.items()} == {"t": 3000, "u": 1000}


def test_all_public_names_can_be_had_and_none_is_imported_before() -> None:
    program = (
        "import sys, pyconsumer\n"
        "assert [m for m in sys.modules if m.startswith('pyconsumer.')] == ['pyconsumer.lazy_names'], sys.modules\n"
        "pyconsumer.KafkaConsumer, pyconsumer.errors\n"
        "heavy = {'asyncio', 'pyarrow', 'pandas', 'pyspark', 'cramjam', 'pyconsumer.broker'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
    for name in pyconsumer.__all__:
        assert getattr(pyconsumer, name) is not None
        assert name in dir(pyconsumer)
    with pytest.raises(AttributeError, match="nobody"):
        pyconsumer.nobody  # noqa: B018


def test_logging_of_a_skipped_record_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pyconsumer.consumer"):
        Deserialization(None, int, "skip")([record(2, b"x")])

    assert "skipped a record" in caplog.text


@pytest.mark.parametrize(("hides", "expected"), [(True, ["t"]), (False, ["__consumer_offsets", "t"])])
def test_internal_topics_are_hidden_unless_requested(hides: bool, expected: list[str]) -> None:
    settings = {"bootstrap_servers": "h:1", "exclude_internal_topics": hides}
    delegate = ConsumerDelegate.open(settings, ManualClock(), on_group_change=lambda: None)
    topics = [MetadataResponseTopic(name="t"), MetadataResponseTopic(name="__consumer_offsets", is_internal=True)]
    delegate.metadata.set_all_topics(True)
    delegate.metadata.update(MetadataResponse(topics=topics), 13, 1.0)
    assert delegate.metadata.topics() == expected
    delegate.client.close()
