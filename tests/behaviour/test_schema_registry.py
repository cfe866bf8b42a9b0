"""The client of a Schema Registry, blocking and for asyncio, on the embedded registry, and Confluent's client on it.

The calls that other registries can judge are in ``test_registries.py``.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import ConfigurationError, IllegalStateError
from pyconsumer.schemas import (
    ConfigCompatibilityLevel,
    IncompatibleSchemaError,
    InvalidSchemaError,
    Metadata,
    MetadataProperties,
    Schema,
    SchemaNotFoundError,
    SchemaRegistryAccessError,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
)
from tests.support.registries import OnALoop

pytestmark = pytest.mark.embedded_only(reason="the registry is part of the embedded cluster")

_INT, _LONG, _STRING = Schema('"int"'), Schema('"long"'), Schema('"string"')


@pytest.fixture(scope="module")
def registry() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(data_dir=":memory:", schema_registry=True) as cluster:
        yield cluster


@pytest.fixture(params=[SchemaRegistryClient, OnALoop], ids=["blocking", "asyncio"])
def client(registry: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[SchemaRegistryClient]:
    made = request.param(registry.schema_registry_url)
    yield made
    made.close()


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-value"


def test_a_registration_answers_with_all_of_the_version(client: SchemaRegistryClient, subject: str) -> None:
    schema = Schema(json.dumps({"type": "record", "name": f"R{len(subject)}", "fields": []}))
    schema_id = client.register_schema(subject, schema)
    full = client.register_schema_full_response(subject, schema)
    assert (full.subject, full.version, full.schema_id) == (subject, 1, schema_id)
    assert full.guid is not None
    assert client.get_schema_by_guid(full.guid) == client.get_schema(schema_id) == full.schema
    assert client.lookup_schema(subject, schema) == full
    assert client.get_latest_version(subject) == client.get_version(subject, 1) == full
    assert client.get_schema_types() == ["JSON", "PROTOBUF", "AVRO"]
    assert "." in client.get_contexts()


def test_the_reasons_of_a_refusal(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(subject, _INT)
    assert not client.test_compatibility_all_versions(subject, _STRING)
    assert "TYPE_MISMATCH" in client.incompatibilities(subject, _STRING)[0]
    with pytest.raises(IncompatibleSchemaError, match="TYPE_MISMATCH"):
        client.register_schema(subject, _STRING)
    with pytest.raises(SchemaNotFoundError, match="subject-level compatibility"):
        client.get_compatibility(subject)


def test_settings_and_modes(client: SchemaRegistryClient, subject: str) -> None:
    client.set_config(subject, ServerConfig(compatibility="FULL", normalize=True))
    found = client.get_config(subject)
    assert (found.compatibility_level, found.normalize) == (ConfigCompatibilityLevel.FULL, True)
    assert client.delete_config(subject).compatibility_level == ConfigCompatibilityLevel.FULL
    assert client.get_global_mode() == "READWRITE"
    assert client.update_mode(subject, "READONLY") == "READONLY"
    assert client.get_mode(subject) == "READONLY"
    with pytest.raises(InvalidSchemaError, match="read-only"):
        client.register_schema(subject, _INT)
    assert client.delete_mode(subject) == "READONLY"
    assert client.update_global_mode("READWRITE") == "READWRITE"


def test_the_latest_version_with_metadata(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(subject, Schema('"int"', metadata=Metadata(None, MetadataProperties({"major": "1"}))))
    client.register_schema(subject, Schema('"long"', metadata=Metadata(None, MetadataProperties({"major": "2"}))))
    assert client.get_latest_with_metadata(subject, {"major": "1"}).version == 1
    assert client.get_latest_with_metadata(subject, {"major": "2"}).version == 2
    with pytest.raises(SchemaNotFoundError):
        client.get_latest_with_metadata(subject, {"major": "3"})


@pytest.mark.parametrize("schema_type", ["JSON", "PROTOBUF"])
def test_other_formats_are_kept_and_not_called_compatible_unseen(
    client: SchemaRegistryClient, subject: str, schema_type: str
) -> None:
    one, two = ("{}", '{"a":1}') if schema_type == "JSON" else ("message A {}\n", "message B {}\n")
    schema_id = client.register_schema(subject, Schema(one, schema_type))
    assert client.get_schema(schema_id) == Schema(one, schema_type)
    with pytest.raises(InvalidSchemaError, match="cannot be checked"):
        client.register_schema(subject, Schema(two, schema_type))
    with pytest.raises(InvalidSchemaError, match="cannot be checked"):
        client.test_compatibility(subject, Schema(two, schema_type))
    client.set_compatibility(subject, "NONE")
    assert client.register_schema(subject, Schema(two, schema_type)) != schema_id


def test_a_closed_client_makes_no_calls(client: SchemaRegistryClient) -> None:
    client.get_subjects()
    client.close() if isinstance(client, SchemaRegistryClient) else client.close_client()
    with pytest.raises(IllegalStateError, match="closed"):
        client.get_subjects()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_uses_the_client(registry: EmbeddedCluster, subject: str) -> None:
    with SchemaRegistryClient(registry.schema_registry_url) as client:
        schema_id = client.register_schema(subject, _INT)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                found = [client.peek_schema(schema_id) == _INT, client.get_versions(subject) == [1]]
                os.write(writer, json.dumps(found).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            assert json.load(pipe) == [True, True]
        os.waitpid(child, 0)
        assert client.get_versions(subject) == [1]


# --- the topic


def _records(cluster: EmbeddedCluster) -> list[tuple[Any, Any]]:
    partition = TopicPartition("_schemas", 0)
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        found: list[Any] = []
        while consumer.position(partition) < end:
            found += consumer.poll(timeout_ms=1000).get(partition, [])
    return [(json.loads(record.key), json.loads(record.value) if record.value else None) for record in found]


def test_the_topic_is_compacted_and_has_a_record_for_each_version(registry: EmbeddedCluster, subject: str) -> None:
    with SchemaRegistryClient(registry.schema_registry_url) as client:
        schema_id = client.register_schema(subject, _INT)
    key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
    value = {"subject": subject, "version": 1, "id": schema_id, "schema": '"int"', "deleted": False}
    assert (key, value) in _records(registry)
    with KafkaAdminClient(bootstrap_servers=registry.bootstrap_servers) as admin:
        [topic] = admin.describe_topics(["_schemas"])
        assert len(topic.partitions) == 1


def test_records_of_another_registry_on_the_topic_are_read(registry: EmbeddedCluster, subject: str) -> None:
    """As if Confluent's registry had written them, compressed, with others that are none of a registry."""
    with SchemaRegistryClient(registry.schema_registry_url) as client:
        schema_id = client.register_schema(subject, _INT)
        key = {"keytype": "SCHEMA", "subject": f"{subject}-2", "version": 4, "magic": 1}
        value = {"subject": f"{subject}-2", "version": 4, "id": schema_id + 100, "md5": "x", "schema": '"bytes"'}
        with KafkaProducer(bootstrap_servers=registry.bootstrap_servers, compression_type="gzip") as producer:
            producer.send("_schemas", key=b"not JSON", value=b"")
            producer.send("_schemas", key=b'{"keytype":"SCHEMA"}', value=b"{}")
            producer.send("_schemas", key=json.dumps(key).encode(), value=json.dumps(value).encode())
            producer.flush()
        assert client.get_versions(f"{subject}-2") == [4]
        assert client.get_schema(schema_id + 100) == Schema('"bytes"')
        assert client.register_schema(subject, _LONG) == schema_id + 101


def test_a_registry_that_was_killed_goes_on_where_its_topic_ends(tmp_path: Any) -> None:
    with EmbeddedCluster(data_dir=tmp_path, schema_registry=True) as cluster:
        url = cluster.schema_registry_url
        with SchemaRegistryClient(url) as client:
            first = client.register_schema("a-value", _INT)
            cluster.kill()
            with pytest.raises(SchemaRegistryError, match="refused"):
                client.get_versions("a-value", timeout_ms=500)
            cluster.restart()
            assert cluster.schema_registry_url == url
            assert client.get_versions("a-value") == [1]
            assert client.register_schema("a-value", _LONG) == first + 1


def test_a_registry_follows_the_leader_of_its_topic(tmp_path: Any) -> None:
    with (
        EmbeddedCluster(3, data_dir=tmp_path, schema_registry=True) as cluster,
        SchemaRegistryClient(cluster.schema_registry_url) as client,
    ):
        client.register_schema("a-value", _INT)
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            leader = admin.describe_topics(["_schemas"])[0].partitions[0].leader
        cluster.kill_broker(leader)
        assert client.register_schema("a-value", _LONG) == 2
        assert client.get_versions("a-value") == [1, 2]


def test_a_login(tmp_path: Any) -> None:
    users = {"alice": "s3cr3t"}
    with EmbeddedCluster(data_dir=":memory:", schema_registry=True, schema_registry_users=users) as cluster:
        for conf in (cluster.schema_registry_url, cluster.schema_registry_url.replace("//", "//alice:wrong@")):
            with SchemaRegistryClient(conf) as client:
                with pytest.raises(SchemaRegistryAccessError, match=r"basic\.auth\.user\.info") as caught:
                    client.get_subjects()
                assert "wrong" not in str(caught.value)
        login = {"url": cluster.schema_registry_url, "basic.auth.user.info": "alice:s3cr3t"}
        with SchemaRegistryClient(login) as client:
            assert client.get_subjects() == []


def test_a_cluster_without_a_registry_says_so() -> None:
    with pytest.raises(ConfigurationError, match="schema_registry=True"):
        _ = EmbeddedCluster().schema_registry_url
    with pytest.raises(IllegalStateError, match="not started"):
        _ = EmbeddedCluster(schema_registry=True).schema_registry_url


def test_a_registry_in_a_thread_leaves_none_behind() -> None:
    before = set(threading.enumerate())
    with (
        EmbeddedCluster(data_dir=":memory:", schema_registry=True, in_thread=True) as cluster,
        SchemaRegistryClient(cluster.schema_registry_url) as client,
    ):
        assert client.register_schema("a", _INT) == 1
        workers = set(threading.enumerate()) - before
    for thread in workers:
        thread.join(30)
    assert set(threading.enumerate()) <= before


# --- Confluent's client on the embedded registry


@pytest.fixture
def peer(registry: EmbeddedCluster) -> Iterator[Any]:
    module = pytest.importorskip("confluent_kafka.schema_registry")
    with module.SchemaRegistryClient({"url": registry.schema_registry_url}) as client:
        yield client


def test_confluents_client_uses_the_embedded_registry(peer: Any, subject: str) -> None:
    module = pytest.importorskip("confluent_kafka.schema_registry")
    one, two = module.Schema('"int"'), module.Schema('"long"')
    schema_id = peer.register_schema(subject, one)
    full = peer.register_schema_full_response(subject, one)
    assert peer.get_schema(schema_id).schema_str == '"int"'
    found = peer.get_latest_version(subject)
    assert (found.version, found.schema_id) == (1, schema_id)
    assert peer.get_schema_by_guid(found.guid).schema_str == '"int"'
    assert full.schema_id == schema_id
    assert peer.lookup_schema(subject, one).version == 1
    assert peer.test_compatibility(subject, two)
    assert not peer.test_compatibility(subject, module.Schema('"string"'))
    assert peer.register_schema(subject, two) != schema_id
    assert peer.get_versions(subject) == [1, 2]
    assert subject in peer.get_subjects()
    assert subject in peer.get_subjects_by_schema_id(schema_id)
    assert [each.version for each in peer.get_schema_versions(schema_id, subject)] == [1]
    peer.set_compatibility(subject, "FULL")
    assert peer.get_compatibility(subject) == "FULL"
    assert peer.get_config(subject).compatibility_level == "FULL"
    assert peer.get_global_mode() == "READWRITE"
    assert peer.update_mode(subject, "READONLY") == "READONLY"
    assert peer.get_mode(subject) == "READONLY"
    assert peer.delete_mode(subject) == "READONLY"
    assert "." in peer.get_contexts()
    assert peer.get_schema_types() == ["JSON", "PROTOBUF", "AVRO"]
    assert peer.delete_version(subject, 1) == 1
    assert peer.delete_version(subject, 1, permanent=True) == 1
    assert peer.delete_subject(subject) == [2]
    assert peer.delete_subject(subject, permanent=True) == [2]
    error = pytest.importorskip("confluent_kafka.schema_registry.error").SchemaRegistryError
    with pytest.raises(error) as caught:
        peer.get_versions(subject)
    assert (caught.value.http_status_code, caught.value.error_code) == (404, 40401)
    with pytest.raises(error) as caught:
        peer.get_associations_by_resource_name("topic", "-")
    assert caught.value.http_status_code == 404


def _same_call(name: str, *args: Any) -> Callable[[Any, Any, str], Any]:
    return lambda client, module, subject: getattr(client, name)(*args)


_SAME_CALLS: dict[str, Callable[[Any, Any, str], Any]] = {
    "an unknown id": _same_call("get_schema", 999_999),
    "an unknown guid": _same_call("get_schema_by_guid", "00000000-0000-0000-0000-000000000000"),
    "an unknown subject": _same_call("get_latest_version", "no-such-subject"),
    "a version that is none": lambda client, module, subject: client.get_version(subject, 0),
    "an incompatible schema": lambda client, module, subject: client.register_schema(subject, module.Schema('"int"')),
    "no schema": lambda client, module, subject: client.register_schema(subject, module.Schema("{")),
    "a level that is none": lambda client, module, subject: client.set_compatibility(subject, "SIDEWAYS"),
    "a mode that is none": lambda client, module, subject: client.update_mode(subject, "SIDEWAYS"),
    "no level of its own": lambda client, module, subject: client.get_compatibility(subject),
    "no mode of its own": lambda client, module, subject: client.get_mode(subject),
    "a deletion for good at once": lambda client, module, subject: client.delete_subject(subject, permanent=True),
}


@pytest.mark.parametrize("call", _SAME_CALLS.values(), ids=_SAME_CALLS)
def test_both_clients_have_the_same_errors(
    registry: EmbeddedCluster, peer: Any, subject: str, call: Callable[[Any, Any, str], Any]
) -> None:
    import pyconsumer.schemas as own

    theirs = pytest.importorskip("confluent_kafka.schema_registry")
    error = pytest.importorskip("confluent_kafka.schema_registry.error").SchemaRegistryError
    subject = subject.replace("/", "")
    with SchemaRegistryClient(registry.schema_registry_url) as client:
        client.register_schema(subject, _STRING)
        with pytest.raises(SchemaRegistryError) as ours:
            call(client, own, subject)
    with pytest.raises(error) as other:
        call(peer, theirs, subject)
    for name in ("http_status_code", "error_code", "error_message"):
        assert getattr(ours.value, name) == getattr(other.value, name)
