"""Starting, stopping, killing: acknowledged records survive, no file is left behind, mistakes get clear errors."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.broker.ports import hold_port
from pyconsumer.errors import BrokerStartError, ConfigurationError, IllegalStateError, TopicAlreadyExistsError
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest
from pyconsumer.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.records import BatchBuilder, iter_records, scan
from tests.support.process import wait_until
from tests.support.raw_client import RawClient


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., EmbeddedCluster]]:
    """Starts clusters on ``tmp_path / "data"`` and stops them at the end."""
    running: list[EmbeddedCluster] = []

    def run(**options: object) -> EmbeddedCluster:
        cluster = EmbeddedCluster(**({"data_dir": tmp_path / "data"} | options))  # type: ignore[arg-type]
        running.append(cluster)
        cluster.start()
        return cluster

    yield run
    for cluster in running:
        cluster.stop()


def built(*values: bytes, producer_id: int = -1, sequence: int = -1) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.try_append(int(time.time() * 1000), None, value)
    epoch = 0 if producer_id >= 0 else -1
    return builder.build(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def produce(client: RawClient, topic: str, data: bytes):
    parts = [PartitionProduceData(0, data)]
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(topic, partition_data=parts)])
    return client.request(request, 9).responses[0].partition_responses[0]


def everything(address: str, topic: str) -> list[bytes | None]:
    values: list[bytes | None] = []
    offset = 0
    with RawClient(address) as client:
        while True:
            wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
            answer = client.request(FetchRequest(topics=[FetchTopic(topic, partitions=[wanted])]), 12)
            part = answer.responses[0].partitions[0]
            assert part.error_code == 0
            batches = scan(part.records)
            if not batches:
                return values
            values += [record.value for record in iter_records(part.records) if record.offset >= offset]
            offset = batches[-1].next_offset


class TestKill:
    @pytest.mark.slow
    @pytest.mark.concurrent
    def test_acknowledged_records_are_there_after_kill_9(self, start: Callable[..., EmbeddedCluster]) -> None:
        cluster = start(config={"log.segment.bytes": 1 << 20})
        cluster.create_topic("t", 1)
        address = cluster.bootstrap_servers
        acknowledged: list[bytes] = []
        enough = threading.Event()

        def write() -> None:
            with RawClient(address) as client:
                for number in range(100_000):
                    value = b"%d" % number + b"x" * 2000
                    try:
                        answer = produce(client, "t", built(value))
                    except OSError:
                        return
                    assert answer.error_code == 0
                    acknowledged.append(value)
                    if number == 1500:
                        enough.set()

        writer = threading.Thread(target=write)
        writer.start()
        assert enough.wait(60)
        cluster.kill_broker(0)
        writer.join(30)
        cluster.restart_broker(0)
        assert cluster.bootstrap_servers == address
        found = everything(address, "t")
        assert found[: len(acknowledged)] == acknowledged
        assert len(found) <= len(acknowledged) + 1  # one may have been stored and not acknowledged
        with RawClient(address) as client:
            assert produce(client, "t", built(b"more")).base_offset == len(found)

    def test_leader_epochs_rise_and_topic_ids_stay(self, start: Callable[..., EmbeddedCluster]) -> None:
        cluster = start()
        cluster.create_topic("t", 1)

        def look() -> tuple[bytes, int]:
            with RawClient(cluster.bootstrap_servers) as client:
                topic = client.request(MetadataRequest([MetadataRequestTopic(name="t")])).topics[0]
                return topic.topic_id, topic.partitions[0].leader_epoch

        before = look()
        cluster.kill_broker(0)
        cluster.restart_broker(0)
        assert look() == (before[0], before[1] + 1)

    @pytest.mark.slow
    def test_producer_ids_are_unique_and_sequences_known_across_restarts(
        self, start: Callable[..., EmbeddedCluster]
    ) -> None:
        cluster = start()
        cluster.create_topic("t", 1)
        ids = []
        for round_number in range(3):
            with RawClient(cluster.bootstrap_servers) as client:
                ids += [client.request(InitProducerIdRequest(None)).producer_id for _ in range(3)]
                for number in range(6):
                    answer = produce(client, "t", built(b"a", producer_id=ids[0], sequence=round_number * 6 + number))
                    assert (answer.error_code, answer.base_offset) == (0, round_number * 6 + number)
            cluster.kill_broker(0)
            cluster.restart_broker(0)
            with RawClient(cluster.bootstrap_servers) as client:
                for number in range(1, 6):
                    sequence = round_number * 6 + number
                    answer = produce(client, "t", built(b"a", producer_id=ids[0], sequence=sequence))
                    assert (answer.error_code, answer.base_offset) == (0, sequence)
                assert produce(client, "t", built(b"a", producer_id=ids[0], sequence=99)).error_code == 45
        assert len(set(ids)) == 9
        assert len(everything(cluster.bootstrap_servers, "t")) == 18

    def test_deleted_records_and_topics_stay_deleted(self, start: Callable[..., EmbeddedCluster]) -> None:
        from pyconsumer.protocol.messages.delete_records import (
            DeleteRecordsPartition,
            DeleteRecordsRequest,
            DeleteRecordsTopic,
        )

        cluster = start()
        cluster.create_topic("t", 1)
        cluster.create_topic("gone", 1)
        with RawClient(cluster.bootstrap_servers) as client:
            produce(client, "t", built(b"a", b"b", b"c"))
            client.request(DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])]))
        cluster.delete_topic("gone")
        cluster.kill_broker(0)
        cluster.restart_broker(0)
        with RawClient(cluster.bootstrap_servers) as client:
            wanted = [ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-2)])]
            answer = client.request(ListOffsetsRequest(replica_id=-1, topics=wanted))
            assert answer.topics[0].partitions[0].offset == 2
            assert client.leaders("gone") == {}

    def test_killing_needs_files_and_something_that_runs(self) -> None:
        with EmbeddedCluster(data_dir=":memory:") as cluster:
            with pytest.raises(IllegalStateError, match="memory"):
                cluster.kill_broker(0)
            with pytest.raises(ConfigurationError):
                cluster.restart_broker(3)
            with pytest.raises(IllegalStateError, match="not killed"):
                cluster.restart_broker(0)
        with pytest.raises(IllegalStateError, match="does not run"):
            cluster.kill_broker(0)

    def test_in_a_thread_it_can_be_killed_too(self, start: Callable[..., EmbeddedCluster]) -> None:
        cluster = start(in_thread=True)
        cluster.create_topic("t", 1)
        with RawClient(cluster.bootstrap_servers) as client:
            produce(client, "t", built(b"a"))
            cluster.kill_broker(0)
            assert client.closed_by_broker
        cluster.restart_broker(0)
        assert everything(cluster.bootstrap_servers, "t") == [b"a"]


class TestStop:
    def test_a_stop_in_good_order_needs_no_recovery(
        self, start: Callable[..., EmbeddedCluster], tmp_path: Path
    ) -> None:
        cluster = start()
        cluster.create_topic("t", 1)
        with RawClient(cluster.bootstrap_servers) as client:
            produce(client, "t", built(b"a", b"b"))
        cluster.stop()
        folder = tmp_path / "data" / "broker-0"
        assert (folder / ".kafka_cleanshutdown").exists()
        assert (folder / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 2\n"
        again = start()
        assert not (folder / ".kafka_cleanshutdown").exists()
        assert everything(again.bootstrap_servers, "t") == [b"a", b"b"]

    def test_a_temporary_folder_is_removed(self) -> None:
        cluster = EmbeddedCluster()
        cluster.start()
        folder = cluster.data_dir
        assert folder is not None
        assert folder.exists()
        cluster.stop()
        assert not folder.exists()

    def test_in_memory_there_are_no_files(self) -> None:
        with EmbeddedCluster(data_dir=":memory:") as cluster:
            cluster.create_topic("t", 1)
            assert cluster.data_dir is None
            with RawClient(cluster.bootstrap_servers) as client:
                produce(client, "t", built(b"a"))
            assert everything(cluster.bootstrap_servers, "t") == [b"a"]

    def test_starting_twice_is_a_mistake(self, start: Callable[..., EmbeddedCluster]) -> None:
        cluster = start()
        with pytest.raises(IllegalStateError):
            cluster.start()

    def test_the_child_ends_with_its_parent_and_removes_its_folder(self) -> None:
        program = (
            "import os, sys; from pyconsumer.broker import EmbeddedCluster\n"
            "c = EmbeddedCluster(); c.start(); print(c.pid, c.data_dir, flush=True); os.kill(os.getpid(), 9)"
        )
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        pid, folder = ran.stdout.split()
        wait_until(lambda: not _alive(int(pid)), 60, "the end of the broker")
        assert not Path(folder).exists()

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_as_a_program_it_stops_on_a_signal(self, tmp_path: Path, number: int) -> None:
        command = [sys.executable, "-m", "pyconsumer.broker", "--port", "0", "--data-dir", str(tmp_path / "d")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline().split()
            assert line[:2] == ["listening", "on"]
            with RawClient(line[2]) as client:
                assert client.brokers() == {0: line[2]}
            process.send_signal(number)
            assert process.wait(60) == 0
        assert (tmp_path / "d" / "broker-0" / ".kafka_cleanshutdown").exists()

    def test_as_a_program_it_says_why_it_cannot_start(
        self, start: Callable[..., EmbeddedCluster], tmp_path: Path
    ) -> None:
        start()
        command = [sys.executable, "-m", "pyconsumer.broker", "--port", "0", "--data-dir", str(tmp_path / "data")]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (ran.returncode, ran.stdout) == (1, "")
        assert "is in use by another broker" in ran.stderr
        assert "Traceback" not in ran.stderr


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc").exists() else True


def _has_ipv6() -> bool:
    try:
        hold_port("::1", 0).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no ::1")
class TestIPv6:
    @pytest.mark.slow
    def test_clients_find_a_cluster_and_again_after_a_kill(self, tmp_path: Path) -> None:
        with EmbeddedCluster(2, tmp_path / "data", host="::1") as cluster:
            addresses = cluster.bootstrap_servers
            assert re.fullmatch(r"\[::1\]:\d+,\[::1\]:\d+", addresses)
            with KafkaProducer(bootstrap_servers=addresses) as producer:
                producer.send("t", b"x", partition=0).get(30)
                cluster.kill()
                cluster.restart()
                producer.send("t", b"y", partition=0).get(30)
            assert cluster.bootstrap_servers == addresses
            with KafkaConsumer(
                "t", bootstrap_servers=addresses, group_id="g", auto_offset_reset="earliest"
            ) as consumer:
                assert [next(consumer).value for _ in range(2)] == [b"x", b"y"]

    def test_the_program_and_the_commands_print_addresses_that_can_be_pasted(self) -> None:
        command = [sys.executable, "-m", "pyconsumer.broker", "--host", "::1", "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            address = process.stdout.readline().split()[2]
            again = subprocess.run(
                [*command[:-1], address.rpartition(":")[2]], capture_output=True, text=True, timeout=60, check=False
            )
            listed = subprocess.run(
                [sys.executable, "-m", "pyconsumer", "topics", "list", "-b", address], timeout=60, check=False
            )
            process.terminate()
        assert (again.returncode, listed.returncode) == (1, 0)
        assert f"cannot listen on {address}: Address already in use" in again.stderr


@pytest.mark.parametrize("in_thread", [False, True])
class TestPortsOfAKilledCluster:
    def test_ports_stay_reserved_and_clients_are_refused(self, tmp_path: Path, in_thread: bool) -> None:
        with EmbeddedCluster(2, tmp_path / "data", in_thread=in_thread) as cluster:
            addresses = cluster.bootstrap_servers
            ports = [int(address.rsplit(":", 1)[1]) for address in addresses.split(",")]
            for _ in range(2):
                cluster.kill()
                for port in ports:
                    with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
                        other.bind(("127.0.0.1", port))
                    with pytest.raises(ConnectionRefusedError):
                        socket.create_connection(("127.0.0.1", port), 5)
                cluster.restart()
                assert cluster.bootstrap_servers == addresses
                for address in addresses.split(","):
                    with RawClient(address) as client:
                        assert sorted(client.brokers()) == [0, 1]

    def test_they_are_free_when_it_is_given_up(self, tmp_path: Path, in_thread: bool) -> None:
        with EmbeddedCluster(data_dir=tmp_path / "data", in_thread=in_thread) as cluster:
            port = int(cluster.bootstrap_servers.rsplit(":", 1)[1])
            cluster.kill()
        with socket.socket() as other:
            other.bind(("127.0.0.1", port))

    def test_they_are_kept_if_it_cannot_come_back_yet(self, tmp_path: Path, in_thread: bool) -> None:
        with EmbeddedCluster(data_dir=tmp_path / "data", in_thread=in_thread) as cluster:
            address = cluster.bootstrap_servers
            cluster.kill()
            with EmbeddedCluster(data_dir=tmp_path / "data"):
                with pytest.raises(BrokerStartError, match="in use by another broker"):
                    cluster.restart()
                with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
                    other.bind(("127.0.0.1", int(address.rsplit(":", 1)[1])))
            cluster.restart()
            with RawClient(address) as client:
                assert client.brokers() == {0: address}


class TestMistakes:
    def test_an_unknown_setting(self) -> None:
        with pytest.raises(ConfigurationError, match=r"did you mean num\.partitions"):
            EmbeddedCluster(config={"num.partitionz": 1})

    @pytest.mark.parametrize("count", [0, -1, 101])
    def test_a_number_of_brokers_that_cannot_be(self, count: int) -> None:
        with pytest.raises(ConfigurationError, match="has 1 to 100 brokers"):
            EmbeddedCluster(brokers=count)

    @pytest.mark.parametrize("in_thread", [False, True])
    def test_a_port_that_is_taken(self, in_thread: bool) -> None:
        with EmbeddedCluster(data_dir=":memory:") as cluster:
            port = int(cluster.bootstrap_servers.rsplit(":", 1)[1])
            second = EmbeddedCluster(port=port, in_thread=in_thread)
            with pytest.raises(BrokerStartError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
                second.start()
            assert second.data_dir is None

    def test_a_folder_in_use(self, start: Callable[..., EmbeddedCluster]) -> None:
        start()
        with pytest.raises(BrokerStartError, match="in use by another broker"):
            start()

    def test_a_folder_that_cannot_be(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(BrokerStartError, match="cannot be used"):
            EmbeddedCluster(data_dir=tmp_path / "file").start()

    def test_errors_of_the_controller_come_through(self, start: Callable[..., EmbeddedCluster]) -> None:
        cluster = start()
        cluster.create_topic("t", 1)
        with pytest.raises(TopicAlreadyExistsError, match="already exists"):
            cluster.create_topic("t", 1)

    @pytest.mark.parametrize("options", [["--port", "x"], ["--config", "nonsense"], ["--config", "a.b=c"]])
    def test_the_program_names_the_fault(self, options: list[str]) -> None:
        ran = subprocess.run(
            [sys.executable, "-m", "pyconsumer.broker", *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode in (1, 2)
        assert "error:" in ran.stderr
        assert "Traceback" not in ran.stderr
