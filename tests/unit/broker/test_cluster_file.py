"""The cluster's files: a start with missing, old, damaged and torn ones, and the cost of a change."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyconsumer.broker import cluster_file
from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.controller import Controller
from pyconsumer.broker.host import ClusterHost, ClusterOptions
from pyconsumer.broker.log.manager import LogManager
from pyconsumer.errors import BrokerStartError
from pyconsumer.structs import TopicPartition
from tests.unit.broker.brokers import Brokers
from tests.unit.broker.support import batch, no_space, records_of

Start = Callable[[], ClusterHost]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the cluster on ``tmp_path``, as the command does."""
    loop = asyncio.new_event_loop()
    hosts: list[ClusterHost] = []

    def run() -> ClusterHost:
        host = ClusterHost(ClusterOptions(data_dir=tmp_path), loop)
        host.start()
        hosts.append(host)
        return host

    yield run
    for host in hosts:
        host.abandon()
    loop.close()


def fill(host: ClusterHost, topic: str, value: bytes = b"v") -> None:
    host.controller.create_topic(topic, 1)
    host.brokers[0].partitions[TopicPartition(topic, 0)].append(batch(value))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.glob("broker-*/*/*")) if path.is_file()}


def values(host: ClusterHost, topic: str) -> list[bytes | None]:
    return [record.value for record in records_of(host.brokers[0].partitions[TopicPartition(topic, 0)].log)]


class TestWithoutClusterJson:
    @pytest.mark.parametrize("journal_left", [False, True])
    def test_logs_are_left_alone_and_the_start_is_rejected(
        self, start: Start, tmp_path: Path, journal_left: bool
    ) -> None:
        host = start()
        fill(host, "t")
        host.stop()
        (tmp_path / "cluster.json").rename(tmp_path / "saved")
        if not journal_left:
            (tmp_path / "cluster.journal").unlink()
        before = files(tmp_path)
        with pytest.raises(BrokerStartError) as caught:
            start()
        text = str(caught.value)
        assert str(tmp_path) in text
        assert "1 partition folders (broker-0/t-0) but no cluster.json" in text
        assert "restore it from a backup, or move" in text
        assert "\n" not in text
        assert files(tmp_path) == before
        (tmp_path / "saved").rename(tmp_path / "cluster.json")
        assert values(start(), "t") == [b"v"]

    def test_a_start_succeeds_once_the_folders_are_moved_away(self, start: Start, tmp_path: Path) -> None:
        host = start()
        fill(host, "t")
        host.stop()
        (tmp_path / "cluster.json").unlink()
        shutil.rmtree(tmp_path / "broker-0")
        with pytest.raises(BrokerStartError, match=r"has a cluster\.journal but no cluster\.json"):
            start()
        (tmp_path / "cluster.journal").unlink()
        assert not start().controller.topics


class TestAnOlderClusterJson:
    def test_unknown_folders_are_renamed_with_a_warning(
        self, start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        host = start()
        fill(host, "old")
        host.stop()
        saved = (tmp_path / "cluster.json").read_bytes()
        host = start()
        fill(host, "new", b"acknowledged")
        host.stop()
        (tmp_path / "cluster.json").write_bytes(saved)
        segment = tmp_path / "broker-0" / "new-0" / f"{0:020}.log"
        content = segment.read_bytes()

        host = start()
        assert values(host, "old") == [b"v"]
        (aside,) = (tmp_path / "broker-0").glob("new-0.*-stray")
        assert (aside / segment.name).read_bytes() == content
        warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert any("new-0 belongs to no existing or deleted topic" in text and aside.name in text for text in warned)
        assert any("cluster.json is older than" in text for text in warned)

        fill(host, "new", b"another")
        host.stop()
        host = start()
        assert values(host, "new") == [b"another"]
        assert (aside / segment.name).read_bytes() == content

    def test_a_topic_recreated_under_the_same_name_keeps_the_old_folder(self, start: Start, tmp_path: Path) -> None:
        host = start()
        fill(host, "t", b"mine")
        host.stop()
        shutil.move(tmp_path / "broker-0", tmp_path / "saved")
        for name in ("cluster.json", "cluster.journal"):
            (tmp_path / name).unlink()
        host = start()
        host.controller.create_topic("t", 1)
        host.stop()
        shutil.rmtree(tmp_path / "broker-0")
        shutil.move(tmp_path / "saved", tmp_path / "broker-0")
        assert values(start(), "t") == []
        (aside,) = (tmp_path / "broker-0").glob("t-0.*-stray")
        assert b"mine" in (aside / f"{0:020}.log").read_bytes()


class TestDeletion:
    def test_a_crash_before_the_folder_is_removed(
        self, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host = start()
        fill(host, "t")
        with monkeypatch.context() as patch:
            patch.setattr(LogManager, "_discard", no_space)
            host.controller.delete_topic("t")
            host.abandon()
        assert (tmp_path / "broker-0" / "t-0").exists()
        start()
        assert not list((tmp_path / "broker-0").glob("t-0*"))

    def test_while_a_broker_was_down_even_if_the_cluster_was_stopped(self, tmp_path: Path) -> None:
        brokers = Brokers(tmp_path, 2)
        brokers.controller.create_topics([brokers.controller.plan_topic("t", assignments={0: [0, 1]})])
        brokers.run()
        brokers.kill(1)
        brokers.controller.delete_topic("t")
        brokers.stop()
        brokers.controller.close()
        assert (tmp_path / "broker-1" / "t-0").exists()
        brokers = Brokers(tmp_path, 2)
        assert not list((tmp_path / "broker-1").glob("t-0*"))
        assert json.loads((tmp_path / "cluster.json").read_text())["deleted"]
        brokers.controller.create_topic("u")
        brokers.controller.close()
        assert json.loads((tmp_path / "cluster.json").read_text())["deleted"] == {}
        brokers.stop()

    def test_a_topic_that_all_nodes_have_removed_is_forgotten(self, tmp_path: Path) -> None:
        brokers = Brokers(tmp_path, 2)
        for _ in range(3):
            topic = brokers.controller.create_topic("t", 2, 2)
            brokers.controller.delete_topic("t")
            assert not brokers.controller.is_deleted(topic.topic_id)
        brokers.stop()


class TestJournal:
    @pytest.fixture
    def made(self, tmp_path: Path) -> Controller:
        """A controller with a topic in the snapshot and two in the journal."""
        made = Controller(tmp_path, BrokerConfig())
        made.register([0])
        for name in ("a", "b", "c"):
            made.create_topic(name)
        return made

    @staticmethod
    def topics(folder: Path) -> list[str]:
        return list(Controller(folder, BrokerConfig()).topics)

    @pytest.mark.usefixtures("made")
    def test_a_last_line_torn_at_any_byte_is_dropped(self, tmp_path: Path) -> None:
        content = (tmp_path / "cluster.journal").read_bytes()
        last = content.rindex(b"\n", 0, -1) + 1
        for size in range(last, len(content)):
            (tmp_path / "cluster.journal").write_bytes(content[:size])
            again = Controller(tmp_path, BrokerConfig())
            assert list(again.topics) == ["a", "b"]
        again.register([0])
        again.create_topic("d")
        assert self.topics(tmp_path) == ["a", "b", "d"]

    @pytest.mark.usefixtures("made")
    def test_damage_before_the_last_line_is_an_error(self, tmp_path: Path) -> None:
        path = tmp_path / "cluster.journal"
        path.write_bytes(path.read_bytes().replace(b'"b"', b'"x"', 1))
        with pytest.raises(BrokerStartError, match=r"cluster\.journal is damaged in line 2: restore it"):
            self.topics(tmp_path)

    def test_a_crash_between_a_snapshot_and_its_journal(self, made: Controller, tmp_path: Path) -> None:
        old = (tmp_path / "cluster.journal").read_bytes()
        made.delete_topic("b")
        made.close()
        (tmp_path / "cluster.journal").write_bytes(old)
        assert self.topics(tmp_path) == ["a", "c"]

    def test_a_failed_write_leaves_no_file_behind(
        self, made: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = (tmp_path / "cluster.journal").read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", no_space)
            with pytest.raises(OSError, match=r"No space left on device: .*cluster\.journal"):
                made.create_topic("d")
        assert (tmp_path / "cluster.journal").read_bytes() == before
        made.create_topic("e")
        assert self.topics(tmp_path) == ["a", "b", "c", "e"]

    def test_the_journal_does_not_outgrow_the_snapshot(
        self, made: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cluster_file, "_SMALL_JOURNAL_BYTES", 1000)
        for index in range(100):
            made.create_topic(f"t{index}")
        assert (tmp_path / "cluster.journal").stat().st_size <= (tmp_path / "cluster.json").stat().st_size
        assert len(self.topics(tmp_path)) == 103

    def test_after_a_clean_stop_the_snapshot_is_complete(self, made: Controller, tmp_path: Path) -> None:
        made.close()
        assert list(json.loads((tmp_path / "cluster.json").read_text())["topics"]) == ["a", "b", "c"]

    def test_every_kind_of_change(self, made: Controller, tmp_path: Path) -> None:
        made.register([1])
        made.create_partitions("a", made.plan_partitions("a", 3))
        made.set_topic_config("a", {"retention.ms": "7"})
        made.set_broker_config("", {"message.max.bytes": "77"})
        made.allocate_producer_ids()
        made.delete_topic("b")
        again = Controller(tmp_path, BrokerConfig())
        assert (again.topics, again.names) == (made.topics, made.names)
        assert (again.cluster_id, again.broker_configs) == (made.cluster_id, made.broker_configs)
        assert again.allocate_producer_ids() == made.allocate_producer_ids()


def test_the_format_before_is_read(tmp_path: Path) -> None:
    topic = {
        "id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "config": {"retention.ms": "5"},
        "partitions": [{"leader": 0, "leader_epoch": 3, "replicas": [0], "isr": [0]}],
    }
    old = {"format": 1, "cluster_id": "c", "next_producer_id": 1000, "broker_configs": {}, "topics": {"t": topic}}
    (tmp_path / "cluster.json").write_text(json.dumps(old, indent=1))
    made = Controller(tmp_path, BrokerConfig())
    made.register([0])
    assert made.topic("t").partitions[0].leader_epoch == 4
    assert Controller(tmp_path, BrokerConfig()).topics == made.topics
    assert made.allocate_producer_ids()[0] == 1000


GOOD = {"leader": 0, "leader_epoch": 3, "replicas": [0], "isr": [0]}


def topic(name: str, **changes: object) -> str:
    """The part of a file that names one topic."""
    data = {"id": "AAAAAAAAAAAAAAAAAAAAAQ", "config": {}, "partitions": [GOOD]} | changes
    return json.dumps({"topics": {name: data}})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it is empty"),
        (b"\0" * 100, "it is empty"),
        (b"{", "Expecting property name"),
        (b"\xe9\xfe\x00garbage", "codec can't decode"),
        (b"[]", "it is not the state of a cluster"),
        (b'{"format": 1}', "'cluster_id' is missing"),
        (topic("../../x"), "the topic name '../../x' is not legal"),
        (topic("t", id="short"), "is not a UUID"),
        (topic("t", partitions=[]), "no partitions"),
        (topic("t", partitions=[GOOD | {"isr": ["0"]}]), "is not a partition"),
        (json.dumps({"topics": 7}), "has no attribute 'items'"),
    ],
)
def test_a_damaged_file_is_one_clear_line(start: Start, tmp_path: Path, content: bytes | str, problem: str) -> None:
    if isinstance(content, str):
        content = json.dumps({"format": 1, "cluster_id": "c"} | json.loads(content)).encode()
    (tmp_path / "cluster.json").write_bytes(content)
    with pytest.raises(BrokerStartError) as caught:
        start()
    text = str(caught.value)
    assert text.startswith(f"{tmp_path}/cluster.json is damaged (")
    assert problem in text
    assert "restore it from a backup" in text
    assert "\n" not in text
    assert not list(tmp_path.glob("broker-0/*"))


def test_a_format_of_the_future(start: Start, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"format": 99}')
    with pytest.raises(BrokerStartError, match="has format 99; this version reads 1 to 4"):
        start()
