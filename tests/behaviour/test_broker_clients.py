"""Clients of others on the embedded broker: librdkafka, aiokafka, kafka-python, Kafka's own tools."""

from __future__ import annotations

import asyncio
import gc
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.java import KafkaTools
from tests.support.process import wait_until

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the foreign clients' own
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

COUNT = 2000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def value(number: int) -> bytes:
    return b"value %d " % number + b"x" * 50


EXPECTED = sorted(value(number) for number in range(COUNT))


@pytest.fixture(autouse=True)
def _leftovers_of_foreign_clients() -> Iterator[None]:
    """kafka-python leaves sockets to the garbage collector, which would complain in some later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def librdkafka() -> Any:
    return pytest.importorskip("confluent_kafka")


def read_by_librdkafka(cluster: Cluster, topic: str, group_id: str, count: int = COUNT) -> list[bytes | None]:
    consumer = pytest.importorskip("confluent_kafka").Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group_id, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    try:
        while len(found) < count:
            messages = consumer.consume(min(1000, count - len(found)), 20)
            assert messages, f"{len(found)} of {count} records"
            for message in messages:
                assert message.error() is None
                found.append(message.value())
    finally:
        consumer.close()
    return found


class TestLibrdkafka:
    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize("idempotent", [False, True])
    def test_produce_and_consume_in_a_group(
        self, embedded: Cluster, librdkafka: Any, topic_name: str, group_id: str, codec: str, idempotent: bool
    ) -> None:
        embedded.create_topic(topic_name, 3)
        producer = librdkafka.Producer(
            {
                "bootstrap.servers": embedded.bootstrap_servers,
                "compression.codec": codec,
                "enable.idempotence": idempotent,
            }
        )
        errors: list[object] = []
        for number in range(COUNT):
            producer.produce(topic_name, value(number), str(number), on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0
        assert set(errors) == {None}
        assert sorted(v or b"" for v in read_by_librdkafka(embedded, topic_name, group_id)) == EXPECTED

    def test_administration(self, embedded: Cluster, topic_name: str) -> None:
        library = pytest.importorskip("confluent_kafka.admin")
        admin = library.AdminClient({"bootstrap.servers": embedded.bootstrap_servers})
        admin.create_topics([library.NewTopic(topic_name, 4, 1)])[topic_name].result(60)
        assert len(admin.list_topics(topic_name, timeout=60).topics[topic_name].partitions) == 4
        resource = library.ConfigResource("TOPIC", topic_name)
        assert admin.describe_configs([resource])[resource].result(60)["cleanup.policy"].value == "delete"
        admin.delete_topics([topic_name])[topic_name].result(60)


class TestAiokafka:
    @pytest.mark.parametrize("codec", CODECS)
    def test_produce_and_consume_in_a_group(
        self, embedded: Cluster, topic_name: str, group_id: str, codec: str
    ) -> None:
        aiokafka = pytest.importorskip("aiokafka")
        embedded.create_topic(topic_name, 3)

        async def run() -> list[bytes]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=embedded.bootstrap_servers,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=True,
            )
            await producer.start()
            try:
                sent = [await producer.send(topic_name, value(number)) for number in range(COUNT)]
                await asyncio.gather(*sent)
            finally:
                await producer.stop()
            consumer = aiokafka.AIOKafkaConsumer(
                topic_name,
                bootstrap_servers=embedded.bootstrap_servers,
                group_id=group_id,
                auto_offset_reset="earliest",
            )
            await consumer.start()
            found: list[bytes] = []
            try:
                while len(found) < COUNT:
                    records = await consumer.getmany(timeout_ms=20_000)
                    assert records
                    found += [record.value for part in records.values() for record in part]
            finally:
                await consumer.stop()
            return found

        assert sorted(asyncio.run(run())) == EXPECTED


class TestKafkaPython:
    @pytest.mark.parametrize("codec", ["none", "gzip"])  # the others need libraries of its own
    def test_produce_and_consume_in_a_group(
        self, embedded: Cluster, topic_name: str, group_id: str, codec: str
    ) -> None:
        kafka = pytest.importorskip("kafka")
        embedded.create_topic(topic_name, 3)
        producer = kafka.KafkaProducer(
            bootstrap_servers=embedded.bootstrap_servers, compression_type=None if codec == "none" else codec
        )
        sent = [producer.send(topic_name, value(number)) for number in range(COUNT)]
        producer.flush(30)
        assert {future.get(30).topic for future in sent} == {topic_name}
        producer.close()
        consumer = kafka.KafkaConsumer(
            topic_name,
            bootstrap_servers=embedded.bootstrap_servers,
            group_id=group_id,
            auto_offset_reset="earliest",
            consumer_timeout_ms=20_000,
        )
        found = []
        for record in consumer:
            found.append(record.value)
            if len(found) == COUNT:
                break
        consumer.close()
        assert sorted(found) == EXPECTED


@pytest.mark.kafka
class TestKafkasTools:
    @pytest.mark.parametrize("codec", CODECS)
    def test_console_producer_and_consumer(
        self, embedded: Cluster, kafka_tools: KafkaTools, topic_name: str, group_id: str, codec: str
    ) -> None:
        embedded.create_topic(topic_name, 3)
        at = ("--bootstrap-server", embedded.bootstrap_servers, "--topic", topic_name)
        lines = [f"line {number}" for number in range(500)]
        kafka_tools.run("ConsoleProducer", *at, "--compression-codec", codec, input="\n".join(lines) + "\n")
        read = kafka_tools.run("ConsoleConsumer", *at, "--from-beginning", "--max-messages", "500", "--group", group_id)
        assert sorted(read.lines) == sorted(lines)
        assert len(read_by_librdkafka(embedded, topic_name, group_id + "-2", 500)) == 500

    def test_topic_command(self, embedded: Cluster, kafka_tools: KafkaTools, topic_name: str) -> None:
        at = ("--bootstrap-server", embedded.bootstrap_servers, "--topic", topic_name)
        kafka_tools.run("TopicCommand", *at, "--create", "--partitions", "2", "--config", "retention.ms=7000")
        kafka_tools.run("TopicCommand", *at, "--alter", "--partitions", "3")
        said = kafka_tools.run("TopicCommand", *at, "--describe").stdout
        assert "PartitionCount: 3" in said
        assert "retention.ms=7000" in said
        assert said.count("Leader: 0") == 3
        kafka_tools.run("TopicCommand", *at, "--delete")
        listed = kafka_tools.run("TopicCommand", "--bootstrap-server", embedded.bootstrap_servers, "--list")
        assert topic_name not in listed.lines

    def test_config_command(self, embedded: Cluster, kafka_tools: KafkaTools, topic_name: str) -> None:
        embedded.create_topic(topic_name, 1)
        at = ("--bootstrap-server", embedded.bootstrap_servers, "--entity-type", "topics", "--entity-name", topic_name)
        kafka_tools.run(
            "ConfigCommand", *at, "--alter", "--add-config", "max.message.bytes=5000,cleanup.policy=compact"
        )
        said = kafka_tools.run("ConfigCommand", *at, "--describe").stdout
        assert "max.message.bytes=5000" in said
        assert "DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact" in said
        kafka_tools.run("ConfigCommand", *at, "--alter", "--delete-config", "max.message.bytes")
        assert "max.message.bytes" not in kafka_tools.run("ConfigCommand", *at, "--describe").stdout
        everything = kafka_tools.run("ConfigCommand", *at, "--describe", "--all").stdout
        assert "max.message.bytes=1048588" in everything

    def test_performance_tools(
        self, embedded: Cluster, kafka_tools: KafkaTools, topic_name: str, group_id: str
    ) -> None:
        embedded.create_topic(topic_name, 2)
        size = ("--num-records", "50000", "--record-size", "100", "--throughput", "-1")
        at = f"bootstrap.servers={embedded.bootstrap_servers}"
        said = kafka_tools.run("ProducerPerformance", "--topic", topic_name, *size, "--producer-props", at).stdout
        assert "50000 records sent" in said
        read = kafka_tools.run(
            "ConsumerPerformance",
            *("--bootstrap-server", embedded.bootstrap_servers, "--topic", topic_name),
            *("--num-records", "50000", "--group", group_id, "--timeout", "20000"),
        )
        assert re.search(r", 50000, ", read.stdout)

    def test_offsets_by_time_and_deleted_records(
        self, embedded: Cluster, kafka_tools: KafkaTools, topic_name: str, tmp_path: Path
    ) -> None:
        embedded.create_topic(topic_name, 1)
        at = ("--bootstrap-server", embedded.bootstrap_servers)
        kafka_tools.run("ConsoleProducer", *at, "--topic", topic_name, input="a\nb\nc\n")
        plan = f'{{"partitions": [{{"topic": "{topic_name}", "partition": 0, "offset": 2}}], "version": 1}}'
        (tmp_path / "plan.json").write_text(plan)
        kafka_tools.run("DeleteRecordsCommand", *at, "--offset-json-file", str(tmp_path / "plan.json"))
        for time, offset in (("earliest", 2), ("latest", 3), ("max-timestamp", 2)):
            said = kafka_tools.run("GetOffsetShell", *at, "--topic", topic_name, "--time", time).stdout
            assert f"{topic_name}:0:{offset}" in said

    @pytest.mark.slow
    def test_an_idempotent_producer_of_kafkas_survives_a_kill(
        self, new_cluster: Callable[..., Cluster], kafka_tools: KafkaTools, topic_name: str, tmp_path: Path
    ) -> None:
        """No record of it is lost, and none is there twice."""
        cluster = new_cluster("embedded", data_dir=tmp_path / "data")
        cluster.create_topic(topic_name, 2)
        output = tmp_path / "producer.log"
        arguments = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic_name)
        (tmp_path / "producer.properties").write_text("enable.idempotence=true\nretries=2147483647\n")
        amount = ("--max-messages", "20000", "--throughput", "8000")
        amount += ("--command-config", str(tmp_path / "producer.properties"))
        with kafka_tools.start("VerifiableProducer", *arguments, *amount, output=output) as process:
            for wanted in (1000, 8000):
                wait_until(lambda w=wanted: output.read_text().count("producer_send_success") > w, 60, "records")
                cluster.kill()
                cluster.restart()
            assert process.wait(90) == 0
        assert output.read_text().count("producer_send_success") == 20_000
        found = read_by_librdkafka(cluster, topic_name, "g", 20_000)
        assert sorted(int(v or b"-1") for v in found) == list(range(20_000))


@pytest.mark.kafka
class TestFiles:
    """Kafka's own tool reads our files."""

    def dumped(self, kafka_tools: KafkaTools, *files: Path, options: tuple[str, ...] = ()) -> str:
        return kafka_tools.run("DumpLogSegments", "--files", ",".join(map(str, files)), *options).stdout

    def test_segments_and_indexes_of_every_codec(
        self,
        new_cluster: Callable[..., Cluster],
        librdkafka: Any,
        kafka_tools: KafkaTools,
        topic_name: str,
        tmp_path: Path,
    ) -> None:
        """All codecs in one go: Kafka's tool takes any number of files, and its start takes longest."""
        cluster = new_cluster("embedded", data_dir=tmp_path / "data")
        own = {"internal.segment.bytes": 50_000, "index.interval.bytes": 200}
        for codec in CODECS:
            cluster.server.create_topic(f"{topic_name}-{codec}", 1, config=own)
            producer = librdkafka.Producer(
                {
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "compression.codec": codec,
                    "batch.num.messages": 10,
                    "enable.idempotence": True,
                }
            )
            random = Random(1)  # so that no codec makes much less of it
            for number in range(COUNT):
                producer.produce(f"{topic_name}-{codec}", value(number) + random.randbytes(100), b"key")
            assert producer.flush(30) == 0
        cluster.stop()
        folders = [tmp_path / "data" / "broker-0" / f"{topic_name}-{codec}-0" for codec in CODECS]

        def files(suffix: str) -> list[Path]:
            found = [sorted(folder.glob(f"*.{suffix}")) for folder in folders]
            assert all(len(of_codec) > 1 for of_codec in found)
            return [path for of_codec in found for path in of_codec]

        said = self.dumped(kafka_tools, *files("log"), options=("--deep-iteration", "--print-data-log"))
        for codec in CODECS:
            parts = [part for part in said.split("Dumping ") if f"{topic_name}-{codec}-0" in part.partition("\n")[0]]
            assert sum(part.count("payload: value") for part in parts) == COUNT
            assert sum(part.count(f"compresscodec: {codec}") for part in parts) > 0
        assert "isvalid: false" not in said
        for suffix in ("index", "timeindex"):
            indexes = files(suffix)
            assert all(any(path.stat().st_size for path in indexes if path.parent == folder) for folder in folders)
            told = self.dumped(kafka_tools, *indexes, options=("--verify-index-only",))
            assert not re.search("mismatch|Found", told, re.IGNORECASE), told
            assert "offset: " in self.dumped(kafka_tools, *indexes)
        snapshots = [sorted(folder.glob("*.snapshot"))[-1] for folder in folders]
        said = self.dumped(kafka_tools, *snapshots)
        assert all(f"producerId: {producer_id}" in said for producer_id in range(len(CODECS)))

    def test_the_offsets_topic(
        self, new_cluster: Callable[..., Cluster], kafka_tools: KafkaTools, topic_name: str, tmp_path: Path
    ) -> None:
        cluster = new_cluster("embedded", data_dir=tmp_path / "data", config={"offsets.topic.num.partitions": 1})
        cluster.create_topic(topic_name, 1)
        at = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic_name)
        kafka_tools.run("ConsoleProducer", *at, input="a\nb\n")
        kafka_tools.run("ConsoleConsumer", *at, "--from-beginning", "--max-messages", "2", "--group", "some-group")
        cluster.stop()
        log = tmp_path / "data" / "broker-0" / "__consumer_offsets-0" / f"{0:020d}.log"
        said = self.dumped(kafka_tools, log, options=("--offsets-decoder",))
        assert f'"group":"some-group","topic":"{topic_name}","partition":0' in said
        assert '"protocolType":"consumer"' in said
