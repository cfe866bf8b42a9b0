"""``pyconsumer.compat.kafka``: programs as kafka-python's documentation writes them, run with both packages."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient
from pyconsumer.errors import ConfigurationError, UnsupportedVersionError
from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster
from tests.support.kafka_python_names import NAMES
from tests.support.process import wait_until
from tests.support.proxy import KafkaProxy

WITHIN_MS = 20_000
PAGE = Path(__file__).parents[2] / "docs" / "porting.md"
_VERSIONS: dict[str, Any] = json.loads(NAMES.read_text(encoding="utf-8"))


@pytest.fixture(params=["kafka", "pyconsumer.compat.kafka"])
def package(request: pytest.FixtureRequest) -> ModuleType:
    """kafka-python, and ours in its place."""
    pytest.importorskip("kafka", reason="needs kafka-python, which pyconsumer[peers] installs")
    return importlib.import_module(request.param)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_first_program_of_every_user(package: ModuleType, cluster: Cluster, topic: str) -> None:
    servers = cluster.bootstrap_servers
    producer = package.KafkaProducer(
        bootstrap_servers=servers, value_serializer=lambda m: json.dumps(m).encode("ascii")
    )
    future = producer.send(topic, {"key": "value"}, key=b"foo")
    record_metadata = future.get(timeout=10)
    assert (record_metadata.topic, record_metadata.partition, record_metadata.offset) == (topic, 0, 0)
    good: list[Any] = []
    producer.send(topic, {"n": 1}).add_callback(good.append).add_errback(good.append)
    producer.flush(timeout=10)
    assert good[0].offset == 1
    assert producer.partitions_for(topic) == {0}
    producer.close(timeout=5)

    consumer = package.KafkaConsumer(
        topic,
        bootstrap_servers=[servers],
        auto_offset_reset="earliest",
        consumer_timeout_ms=3000,
        value_deserializer=lambda m: json.loads(m.decode("ascii")),
    )
    found = [(message.topic, message.partition, message.offset, message.key, message.value) for message in consumer]
    assert found == [(topic, 0, 0, b"foo", {"key": "value"}), (topic, 0, 1, None, {"n": 1})]
    consumer.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_times_of_flush_and_close_are_seconds(
    package: ModuleType, new_proxy: Callable[..., KafkaProxy], topic: str
) -> None:
    """In as many milliseconds no record arrives here."""
    proxy = new_proxy(round_trip_ms=100)
    producer = package.KafkaProducer(bootstrap_servers=proxy.bootstrap_servers)
    producer.partitions_for(topic)
    flushed = producer.send(topic, b"flushed")
    producer.flush(20)
    assert flushed.succeeded()
    closed = producer.send(topic, b"closed")
    producer.close(20)
    assert closed.succeeded()


@pytest.mark.concurrent
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_another_thread_may_look_at_the_group_while_one_polls(
    package: ModuleType, cluster: Cluster, topic: str, group_id: str
) -> None:
    with package.KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group_id) as consumer:
        polling = threading.Thread(target=consumer.poll, args=(3000,))
        polling.start()
        time.sleep(0.2)
        try:
            assert consumer.group_metadata().group_id == group_id
            assert consumer.assignment() <= {package.TopicPartition(topic, 0)}
            assert polling.is_alive()
        finally:
            polling.join()


@pytest.mark.parametrize("name", ["KafkaConsumer", "KafkaProducer", "KafkaAdminClient"])
def test_with_a_version_no_connection_is_made_before_the_first_call(name: str, dead_address: str) -> None:
    ours = importlib.import_module("pyconsumer.compat.kafka")
    getattr(ours, name)(bootstrap_servers=dead_address, api_version=(2, 6), bootstrap_timeout_ms=1).close()
    plain = getattr(ours, name)(api_version=(2, 6))
    assert list(map(str, plain.config.bootstrap_servers)) == ["localhost:9092"]
    plain.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_assigning_and_seeking(package: ModuleType, cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 10)
    tp = package.TopicPartition(topic, 0)
    consumer = package.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, enable_auto_commit=False
    )
    assert topic in consumer.topics()
    if "pyconsumer" in package.__name__:  # kafka-python closes its first connection
        assert consumer.bootstrap_connected()
    assert consumer.partitions_for_topic(topic) == {0}
    consumer.assign([tp])
    assert consumer.assignment() == {tp}
    assert consumer.beginning_offsets([tp]) == {tp: 0}
    assert consumer.end_offsets([tp]) == {tp: 10}
    consumer.seek(tp, 7)
    found: list[bytes] = []
    end = time.monotonic() + WITHIN_MS / 1000
    while len(found) < 3:
        assert time.monotonic() < end
        for partition, records in consumer.poll(timeout_ms=500).items():
            assert partition == tp
            found += [record.value for record in records]
    assert found == [b"7", b"8", b"9"]
    assert consumer.position(tp) == 10
    assert consumer.committed(tp) is None
    consumer.commit()
    assert consumer.committed(tp) == 10
    consumer.seek_to_beginning(tp)
    assert consumer.position(tp) == 0
    times = consumer.offsets_for_times({tp: 0})
    assert times[tp].offset == 0
    consumer.pause(tp)
    assert consumer.paused() == {tp}
    consumer.resume(tp)
    assert isinstance(consumer.metrics(), dict)
    consumer.close(autocommit=False)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_closing_without_the_automatic_commit(package: ModuleType, cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 5)
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": group_id, "auto_offset_reset": "earliest"}
    tp = package.TopicPartition(topic, 0)
    for autocommit, expected in ((False, None), (True, 5)):
        consumer = package.KafkaConsumer(auto_commit_interval_ms=600_000, **settings)
        consumer.assign([tp])
        count, end = 0, time.monotonic() + WITHIN_MS / 1000
        while count < 5:
            assert time.monotonic() < end
            count += sum(map(len, consumer.poll(500).values()))
        consumer.poll(0)
        consumer.close(autocommit)
        consumer = package.KafkaConsumer(**settings)
        assert consumer.committed(tp) == expected
        consumer.close(autocommit=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_pattern_matches_the_beginning_of_a_name(
    package: ModuleType, cluster: Cluster, admin: KafkaAdminClient, topic: str
) -> None:
    longer = f"{topic}-{package.__name__}"
    admin.create_topics([longer])
    fill(cluster, longer, 1)
    consumer = package.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=3000
    )
    consumer.subscribe(pattern=f"^{re.escape(topic)}-")
    assert [message.topic for message in consumer] == [longer]
    assert consumer.subscription() == {longer}
    consumer.unsubscribe()
    consumer.close()


@pytest.mark.parametrize("name", ["KafkaConsumer", "KafkaProducer"])
def test_no_broker(name: str) -> None:
    """As kafka-python, whose constructor leaves sockets open then, so only ours is tried."""
    ours = importlib.import_module("pyconsumer.compat.kafka")
    begin = time.monotonic()
    with pytest.raises(
        ours.errors.NoBrokersAvailable, match=r"no broker could be reached within 300 ms: .*127\.0\.0\.1:1"
    ):
        getattr(ours, name)(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=300)
    assert time.monotonic() - begin < 20


def test_settings_that_have_no_effect_or_no_counterpart(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    from pyconsumer.compat.kafka import KafkaConsumer, KafkaProducer

    servers = cluster.bootstrap_servers
    with (
        caplog.at_level("INFO", "pyconsumer.compat.kafka.settings"),
        KafkaConsumer(
            bootstrap_servers=servers,
            api_version=(2, 6),
            selector=object,
            metric_reporters=[],
            metrics_num_samples=5,
            metrics_sample_window_ms=10_000,
            sasl_kerberos_service_name="kafka",
            default_offset_commit_callback=print,
        ) as consumer,
    ):
        assert not consumer.bootstrap_connected()
        assert (consumer.config.metrics_num_samples, consumer.config.metrics_sample_window_ms) == (5, 10_000)
        assert consumer.config.partition_assignment_strategy == ("range", "roundrobin")
        assert consumer.config.default_api_timeout_ms == consumer.config.request_timeout_ms
    assert "the setting selector has no effect: the best selector of the system is used" in caplog.text
    with KafkaProducer(bootstrap_servers=servers, api_version=(2, 6)) as producer:
        assert producer.config.linger_ms == 0
        assert producer.max_usable_produce_magic((2, 6)) == 2
    for client in (KafkaConsumer, KafkaProducer):
        with pytest.raises(ConfigurationError, match="socks5_proxy is not supported"):
            client(bootstrap_servers=servers, socks5_proxy="socks5://proxy:1")
        with pytest.raises(ConfigurationError, match="bootstrap_server"):
            client(bootstrap_server=servers)


#: Modules of kafka-python that programs import from; all that is public in them is in ours.
_MODULES = (
    "kafka.admin",
    "kafka.consumer",
    "kafka.coordinator.assignors.cooperative_sticky",
    "kafka.coordinator.assignors.range",
    "kafka.coordinator.assignors.roundrobin",
    "kafka.partitioner",
    "kafka.producer",
    "kafka.structs",
)
_NOT_THERE = {
    "AsyncConsumerRebalanceListener",
    "UpdateFeatureType",
}


def test_every_module_and_name_is_there_or_on_the_page() -> None:
    kafka = pytest.importorskip("kafka", reason="needs kafka-python, which pyconsumer[peers] installs")
    page = PAGE.read_text(encoding="utf-8")
    for name in _NOT_THERE:
        assert f"`{name}`" in page
    ours = importlib.import_module("pyconsumer.compat.kafka")
    assert set(kafka.__all__) - set(dir(ours)) <= _NOT_THERE
    for module in _MODULES:
        theirs = importlib.import_module(module)
        names = set(getattr(theirs, "__all__", ())) or {
            name
            for name, value in vars(theirs).items()
            if inspect.isclass(value) and value.__module__ == theirs.__name__ and not name.startswith("_")
        }
        assert names, module
        assert names - set(dir(importlib.import_module(f"pyconsumer.compat.{module}"))) <= _NOT_THERE, module
    for old in (
        "admin.config_resource.ConfigResource",
        "admin.new_topic.NewTopic",
        "admin.new_partitions.NewPartitions",
    ):
        module, name = old.rsplit(".", 1)
        assert hasattr(importlib.import_module(f"pyconsumer.compat.kafka.{module}"), name)
    for module, name in (
        ("coordinator.assignors.sticky.sticky_assignor", "StickyPartitionAssignor"),
        ("consumer.fetcher", "ConsumerRecord"),
        ("consumer.group", "KafkaConsumer"),
        ("consumer.subscription_state", "ConsumerRebalanceListener"),
        ("producer.future", "RecordMetadata"),
        ("producer.kafka", "KafkaProducer"),
        ("partitioner.default", "DefaultPartitioner"),
        ("serializer", "JsonSerializer"),
        ("serializer.abstract", "Serializer"),
        ("sasl.oauth", "AbstractTokenProvider"),
        ("admin.acl_resource", "ACL"),
        ("codec", "has_gzip"),
        ("version", "__version__"),
    ):
        assert hasattr(importlib.import_module(f"pyconsumer.compat.kafka.{module}"), name)


def test_errors_have_codes_and_flags(package: ModuleType) -> None:
    errors = importlib.import_module(f"{package.__name__}.errors")
    assert errors.for_code(0) is errors.NoError
    assert errors.for_code(3) is errors.UnknownTopicOrPartitionError
    assert errors.kafka_errors[25] is errors.UnknownMemberIdError
    assert (errors.NoError.errno, errors.NoError.message) == (0, "NO_ERROR")
    assert errors.NotLeaderForPartitionError.errno == 6
    assert errors.NotLeaderForPartitionError.retriable
    assert errors.NotLeaderForPartitionError.invalid_metadata
    assert errors.InvalidConfigurationError.errno == 40
    assert not errors.CommitFailedError.retriable
    assert issubclass(errors.KafkaTimeoutError, errors.RetriableError)
    assert issubclass(errors.InvalidTopicError, errors.BrokerResponseError)
    with pytest.raises(errors.OffsetOutOfRangeError):
        raise errors.OffsetOutOfRangeError


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_results_have_the_same_shapes(package: ModuleType, cluster: Cluster, topic: str, group_id: str) -> None:
    admin_values = importlib.import_module(f"{package.__name__}.admin")
    fill(cluster, topic, 6)
    tp = package.TopicPartition(topic, 0)
    servers = cluster.bootstrap_servers
    with package.KafkaConsumer(
        topic, bootstrap_servers=servers, group_id=group_id, auto_offset_reset="earliest"
    ) as one:
        assert isinstance(next(one).headers, (list, tuple))
        found = one.group_metadata()
        assert (found.group_id, found.state) == (group_id, "<stable>")
        admin = package.KafkaAdminClient(bootstrap_servers=servers)
        described = admin.describe_groups([group_id])[group_id]
        (member,) = described["members"]
        assert (described["group_state"], described["error"]) == ("Stable", None)
        assert member["member_metadata"]["topics"] == [topic]
        assert member["member_assignment"]["assigned_partitions"][0]["topic"] == topic
        assert admin.delete_groups([group_id]) == {group_id: "NonEmptyGroupError"}
    assert {group["group_id"] for group in admin.list_groups()} >= {group_id}
    assert admin.list_group_offsets(group_id)[group_id][tp].offset == 1
    assert admin.reset_group_offsets(group_id, {tp: admin_values.OffsetSpec.LATEST})[tp]["offset"] == 6
    assert admin.list_partition_offsets({tp: admin_values.OffsetSpec.EARLIEST})[tp].offset == 0
    wanted = {"low_watermark": 2, "error_code": 0, "partition_index": 0}
    assert admin.delete_records({tp: 2}) == {tp: wanted}
    assert admin.delete_groups([group_id]) == {group_id: "OK"}
    kind = admin_values.ConfigResourceType.TOPIC
    all_settings = admin.describe_configs([admin_values.ConfigResource(kind, topic)], config_filter="all")
    retention = all_settings["topic"][topic]["retention.bytes"]
    assert (retention["value"], retention["config_type"], retention["config_source"]) == (
        "-1",
        "LONG",
        "DEFAULT_CONFIG",
    )
    resource = admin_values.ConfigResource("topic", topic, {"retention.bytes": "1000000"})
    assert admin.alter_configs([resource]) == {"topic": {topic: "OK"}}

    def changed() -> set[str]:
        return set(admin.describe_configs([admin_values.ConfigResource(kind, topic)])["topic"][topic])

    # A broker of Apache Kafka reads the change a moment after the controller has made it.
    wait_until(lambda: changed() == {"retention.bytes"}, 30, "the change is described")
    with pytest.raises(ValueError, match="nonsense"):
        admin.alter_configs([admin_values.ConfigResource(kind, topic, {"nonsense": "1"})])
    resource = admin_values.ConfigResource(kind, topic, ["retention.bytes"])
    assert admin.reset_configs([resource]) == {"topic": {topic: "OK"}}
    wait_until(lambda: not changed(), 30, "the reset is described")
    with package.KafkaProducer(bootstrap_servers=servers) as producer:
        sent = producer.send(topic, b"value", key=b"key", headers=[("a", b"bc")]).get(timeout=10)
        assert (sent.serialized_key_size, sent.serialized_value_size, sent.serialized_header_size) == (3, 5, 3)
        assert (sent.topic_partition, sent.checksum) == (tp, None)
        assert producer.config["retries"] > 1000
    admin.close()


def test_missing_calls_name_the_replacement(cluster: Cluster) -> None:
    from pyconsumer.compat.kafka import KafkaAdminClient as Theirs
    from pyconsumer.compat.kafka.admin.client import UNSUPPORTED

    page = PAGE.read_text(encoding="utf-8")
    with Theirs(bootstrap_servers=cluster.bootstrap_servers) as admin:
        for name, instead in UNSUPPORTED.items():
            assert f"`{name}`" in page
            with pytest.raises(UnsupportedVersionError, match=re.escape(instead)):
                getattr(admin, name)(None)


@pytest.mark.parametrize("version", _VERSIONS)
def test_the_names_of_each_version_are_there_or_on_the_page(version: str) -> None:
    """Of 2.2, 2.3 and 3.0, whichever is installed. ``python -m tests.support.kafka_python_names`` has made the list."""
    names = _VERSIONS[version]
    page = PAGE.read_text(encoding="utf-8")
    ours = importlib.import_module("pyconsumer.compat.kafka")
    for name in names["top"]:
        assert hasattr(ours, name) or f"`{name}`" in page, name
    for name in names["errors"]:
        assert hasattr(ours.errors, name), name
    for client, found in names["clients"].items():
        for method, arguments in found["methods"].items():
            parameters = [
                name for name in inspect.signature(getattr(getattr(ours, client), method)).parameters if name != "self"
            ]
            if parameters == ["args", "kwargs"]:  # it says what to use instead
                assert f"`{method}`" in page, method
            else:
                assert set(arguments) <= set(parameters), f"{client}.{method}"
                renamed = "consumer_group_id" in arguments  # the same argument is called group_metadata since 3.0
                assert renamed or parameters[: len(arguments)] == arguments, f"{client}.{method}"
    for name, fields in names["fields"].items():
        value = getattr(importlib.import_module("pyconsumer"), name, None)
        value = value or getattr(importlib.import_module("pyconsumer.structs"), name)
        for field in fields:
            assert hasattr(value, field), f"{name}.{field}"


@pytest.mark.parametrize("version", _VERSIONS)
@pytest.mark.parametrize("client", ["KafkaConsumer", "KafkaProducer", "KafkaAdminClient"])
def test_the_settings_of_each_version_are_known(monkeypatch: pytest.MonkeyPatch, version: str, client: str) -> None:
    make = getattr(importlib.import_module("pyconsumer.compat.kafka"), client)
    monkeypatch.setattr(importlib.import_module(make.__module__), "connect", lambda *given: None)

    def is_known(name: str) -> bool:
        try:
            made = make(**{"bootstrap_servers": "localhost:1", name: None})
        except ConfigurationError as error:
            return "must not be None" in str(error)
        made.close()
        return True

    assert not is_known("no_such_setting")
    assert [name for name in _VERSIONS[version]["clients"][client]["settings"] if not is_known(name)] == []


def test_the_group_may_be_named_as_in_2_2(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyconsumer import KafkaProducer as Plain
    from pyconsumer.compat.kafka import KafkaProducer, TopicPartition

    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(Plain, "send_offsets_to_transaction", lambda self, *given: seen.append(given))
    with KafkaProducer(bootstrap_servers="localhost:1", api_version=(2, 6)) as producer:
        offsets = {TopicPartition("t", 0): 1}
        producer.send_offsets_to_transaction(offsets, consumer_group_id="g")
        producer.send_offsets_to_transaction(offsets, "g")
        with pytest.raises(TypeError, match="needs group_metadata"):
            producer.send_offsets_to_transaction(offsets)
    assert seen == [(offsets, "g", None)] * 2


def test_every_name_is_there() -> None:
    kafka = pytest.importorskip("kafka", reason="needs kafka-python, which pyconsumer[peers] installs")
    ours = importlib.import_module("pyconsumer.compat.kafka")
    for name in ("KafkaConsumer", "KafkaProducer", "KafkaAdminClient"):
        theirs = {each for each, _ in inspect.getmembers(getattr(kafka, name), callable) if not each.startswith("_")}
        assert theirs - set(dir(getattr(ours, name))) == set()
        for each in theirs:
            wanted = list(inspect.signature(getattr(getattr(kafka, name), each)).parameters)
            given = list(inspect.signature(getattr(getattr(ours, name), each)).parameters)
            if name == "KafkaAdminClient" and given == ["self", "args", "kwargs"]:
                continue  # it says what to use instead
            assert given[: len(wanted)] == wanted, f"{name}.{each}"
    errors = importlib.import_module("kafka.errors")
    for name, value in vars(errors).items():
        is_error = inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == "kafka.errors"
        if is_error:
            assert hasattr(ours.errors, name), name
    with pytest.raises(AttributeError, match="has no error 'Nonsense'"):
        ours.errors.Nonsense  # noqa: B018
