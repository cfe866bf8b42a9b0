"""A real Apache Kafka for tests: one node in KRaft mode, or several, started on free ports and never left behind."""

from __future__ import annotations

import base64
import re
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pyconsumer.broker.ports import HeldPorts, hold_port
from pyconsumer.protocol.records.crc import crc32c
from tests.support.certificates import Certificates
from tests.support.java import KafkaTools, properties, tools
from tests.support.process import GuardedProcess

__all__ = ["LISTENERS", "ApacheKafka", "ApacheKafkaNodes", "Credentials"]

#: What clients may connect to. All are always there; the last two ask for SASL PLAIN.
LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_STARTED = "Kafka Server started"
_START_TIMEOUT_S = 100.0


@dataclass(frozen=True)
class Credentials:
    """The one user that the SASL listeners know."""

    username: str = "alice"
    password: str = "alice-secret"


class ApacheKafka:
    """One Kafka broker with its controller in a child process. A context manager.

    Args:
        version: Apache Kafka's version. See :mod:`tests.support.java` for the ones that are known.
        config: broker settings, added to (and stronger than) those that make one small node.
        folder: where data, settings and log go. A temporary one by default, removed by :meth:`stop`.
        certificates: for the TLS listeners. Without them there are only the plain ones.
        node_id: of this node.
        small: a JVM that needs little memory, for one node of several.
        quick: a JVM that starts fast. ``False`` for one that becomes as fast as it can, for benchmarks.
    """

    def __init__(
        self,
        *,
        version: str | None = None,
        config: Mapping[str, object] | None = None,
        folder: Path | None = None,
        certificates: Certificates | None = None,
        credentials: Credentials | None = None,
        node_id: int = 1,
        small: bool = False,
        quick: bool = True,
    ) -> None:
        self.node_id = node_id
        self._small = small
        self._quick = quick
        self.quorum: _Quorum | None = None  # of several nodes
        self.tools: KafkaTools = tools(version) if version else tools()
        self.version = self.tools.version
        self.config = dict(config or {})
        self.certificates = certificates
        self.credentials = credentials or Credentials()
        self.folder = folder or Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        self._own_folder = folder is None
        self.log_file = self.folder / "server.log"
        self.data_folder = self.folder / "data"
        self.ports: dict[str, int] = {}
        self._held_ports: HeldPorts = {}
        self._log_start = 0
        self._process: GuardedProcess | None = None

    def __enter__(self) -> ApacheKafka:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of the plain listener."""
        return self.address("PLAINTEXT")

    def address(self, listener: str) -> str:
        """``host:port`` of one of :data:`LISTENERS`."""
        return f"localhost:{self.ports[listener]}"

    def start(self) -> None:
        """Start, and wait until requests are answered (about 3 s). Data of an earlier start is kept."""
        if self._process is not None:
            raise RuntimeError("it runs already")
        for attempt in range(5):
            if not self.ports:
                self.choose_ports()
            try:
                self._start()
                return
            except PortTakenError:
                # Another process was given a port between our look and Kafka's bind. The quorum knows the
                # controller's port, so new ports mean new data.
                if attempt == 4 or (self.folder / "kept").exists():
                    raise
                self.ports = {}
                shutil.rmtree(self.data_folder, ignore_errors=True)
        raise AssertionError("not reached")

    def _start(self) -> None:
        self.format()
        self.launch()
        self.wait_until_ready()

    def format(self) -> None:
        """Write the settings, and the data folder's beginning if there is none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "server.properties"
        settings.write_text(properties(self._settings()))
        if (self.data_folder / "meta.properties").exists():
            return
        usual = not self.quorum and not any(name.startswith(_OF_FORMATS) for name in self.config)
        key = (self.version, self.node_id)
        if usual and key in _formatted:
            _formatted[key].write(self.data_folder, self.ports["CONTROLLER"])
            return
        quorum = self.quorum.initial_controllers if self.quorum else "--standalone"
        cluster_id = self.quorum.cluster_id if self.quorum else _fresh_id()
        self.tools.run("StorageTool", "format", quorum, f"--cluster-id={cluster_id}", "-c", str(settings))
        if usual:
            _formatted[key] = _Formatted.read(self.data_folder, self.ports["CONTROLLER"])

    def launch(self) -> None:
        """Start the process without waiting for it."""
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        heap = ("-Xms64m", "-Xmx384m") if self._small else ("-Xms256m", "-Xmx1g")
        command = [
            *self.tools.java(*heap, quick=self._quick, log_level="INFO", log_to="SYSTEM_OUT"),
            "kafka.Kafka",
            str(self.folder / "server.properties"),
        ]
        self._process = GuardedProcess(command, output=self.log_file, grace_s=20.0)

    def wait_until_ready(self) -> None:
        """Wait until a process that was launched answers requests."""
        try:
            self._wait_until_ready(self._log_start)
        except BaseException:
            self.kill()
            raise
        (self.folder / "kept").touch()

    def _wait_until_ready(self, log_start: int) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            log = self.log(log_start)
            if _STARTED in log:
                return
            if not self._process.running or time.monotonic() >= deadline:
                if re.search("BindException|Address already in use", log):
                    raise PortTakenError(f"a port of {self.ports} is taken")
                raise AssertionError(f"Apache Kafka {self.version} did not start; the end of its log:\n{log[-4000:]}")
            time.sleep(0.05)

    def log(self, start: int = 0) -> str:
        """Return the broker's log from a byte position of its file."""
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as file:
            file.seek(start)
            return file.read().decode("utf-8", "replace")

    def stop(self) -> None:
        """Stop in good order and remove a folder of its own. A second call has no effect."""
        self.pause()
        self.release_ports()
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def pause(self) -> None:
        """Stop in good order but keep the data and the ports. :meth:`start` continues from there."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End it with no chance to write anything more (SIGKILL). The data and the ports are kept."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def signal(self, number: int) -> None:
        """Send its process a signal, such as SIGSTOP."""
        if self._process is not None:
            self._process.signal(number)

    def choose_ports(self) -> None:
        """Choose free ports, and on Linux hold them to the end, so that no other process is given them.

        There Java may listen on a port that a socket holds which allows it and does not listen itself.
        """
        self.release_ports()
        names = [*self.listeners, "CONTROLLER"]
        self._held_ports = {name: hold_port("127.0.0.1", 0) for name in names}
        self.ports = {name: sock.getsockname()[1] for name, sock in self._held_ports.items()}
        if sys.platform != "linux":
            self.release_ports()

    def release_ports(self) -> None:
        """Let others have its ports."""
        for sock in self._held_ports.values():
            sock.close()
        self._held_ports.clear()

    @property
    def listeners(self) -> tuple[str, ...]:
        """Which of :data:`LISTENERS` this broker has."""
        return LISTENERS if self.certificates else tuple(name for name in LISTENERS if not name.endswith("SSL"))

    def _settings(self) -> dict[str, object]:
        names = self.listeners
        user = self.credentials
        settings: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "controller.quorum.bootstrap.servers": (
                self.quorum.bootstrap_servers if self.quorum else f"localhost:{self.ports['CONTROLLER']}"
            ),
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(f"{name}://localhost:{port}" for name, port in self.ports.items()),
            "advertised.listeners": ",".join(f"{name}://localhost:{self.ports[name]}" for name in names),
            "listener.security.protocol.map": ",".join([*(f"{name}:{name}" for name in names), "CONTROLLER:PLAINTEXT"]),
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.data_folder,
            "num.partitions": 1,
            "num.network.threads": 2,
            "num.io.threads": 4,
            "log.cleaner.dedupe.buffer.size": 16 << 20,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 5,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 5,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 5,
            "group.initial.rebalance.delay.ms": 0,
            # By default a controller without work writes a record every 0.5 s: half of an idle broker's CPU time.
            "metadata.max.idle.interval.ms": 10_000,
            "group.min.session.timeout.ms": 500,
            "offset.metadata.max.bytes": 4096,
            "sasl.enabled.mechanisms": "PLAIN",
        }
        login = (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{user.username}="{user.password}";'
        )
        for name in names:
            if name.startswith("SASL"):
                settings[f"listener.name.{name.lower()}.plain.sasl.jaas.config"] = login
        if self.certificates:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self.certificates.server_pem,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.certificates.ca_pem,
                "ssl.client.auth": "none",
            }
        return settings | self.config


#: Settings that the files depend on with which a node begins.
_OF_FORMATS = ("unstable.", "log.dir", "metadata.", "controller.", "process.", "node.")


@dataclass(frozen=True)
class _Formatted:
    """The files that StorageTool has made for one node, from which those of further ones are made without Java."""

    files: dict[Path, bytes]  #: by path in the data folder
    port: int  #: of the controller
    directory_id: str
    cluster_id: str

    @classmethod
    def read(cls, data_folder: Path, port: int) -> _Formatted:
        """Keep the files of a node that has just been formatted."""
        paths = (path for path in data_folder.rglob("*") if path.is_file())
        files = {path.relative_to(data_folder): path.read_bytes() for path in paths}
        ids = dict(re.findall(r"^(directory|cluster)\.id=(.*)$", files[Path("meta.properties")].decode(), re.MULTILINE))
        return cls(files, port, ids["directory"], ids["cluster"])

    def write(self, data_folder: Path, port: int) -> None:
        """Write the files of another node, with ids and a port of its own."""
        directory_id, cluster_id = _fresh_id(), _fresh_id()
        changes = {
            self.directory_id.encode(): directory_id.encode(),
            self.cluster_id.encode(): cluster_id.encode(),
            _bytes_of(self.directory_id): _bytes_of(directory_id),
            b"localhost" + self.port.to_bytes(2, "big"): b"localhost" + port.to_bytes(2, "big"),
        }
        for path, content in self.files.items():
            for old, new in changes.items():
                content = content.replace(old, new)
            file = data_folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(_with_checksums(content) if file.suffix == ".checkpoint" else content)


def _bytes_of(text: str) -> bytes:
    """Return the bytes of an id in Kafka's text form."""
    return base64.urlsafe_b64decode(f"{text}==")


def _with_checksums(batches: bytes) -> bytes:
    """Return batches of records whose bytes have been changed, with new checksums."""
    data, start = bytearray(batches), 0
    while start < len(data):
        end = start + 12 + int.from_bytes(data[start + 8 : start + 12], "big")
        data[start + 17 : start + 21] = crc32c(bytes(data[start + 21 : end])).to_bytes(4, "big")
        start = end
    return bytes(data)


_formatted: dict[tuple[str, int], _Formatted] = {}


@dataclass(frozen=True)
class _Quorum:
    """Settings that the nodes of one cluster must agree on."""

    cluster_id: str
    bootstrap_servers: str
    initial_controllers: str  #: option of ``format``: all of them, each with the id of its folder


class ApacheKafkaNodes:
    """A Kafka cluster of several nodes, each broker and controller in a small JVM of its own. A context manager.

    Args:
        nodes: how many. Their ids count from 0.
        config, folder, certificates, credentials: as :class:`ApacheKafka` has them. Topics have as many replicas as
            there are nodes, and a dead node is given up after 3 s.
    """

    def __init__(
        self,
        *,
        nodes: int = 3,
        config: Mapping[str, object] | None = None,
        folder: Path | None = None,
        certificates: Certificates | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="apache-kafka-nodes-"))
        self._own_folder = folder is None
        own = {
            "offsets.topic.replication.factor": nodes,
            "transaction.state.log.replication.factor": nodes,
            "transaction.state.log.min.isr": 2,
            "default.replication.factor": nodes,
            "min.insync.replicas": 2,
            "broker.heartbeat.interval.ms": 500,
            "broker.session.timeout.ms": 3000,
            "replica.lag.time.max.ms": 5000,
            "num.recovery.threads.per.data.dir": 1,
        }
        self.nodes = {
            number: ApacheKafka(
                config=own | dict(config or {}),
                folder=self.folder / f"node-{number}",
                certificates=certificates,
                credentials=credentials,
                node_id=number,
                small=True,
            )
            for number in range(nodes)
        }

    def __enter__(self) -> ApacheKafkaNodes:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every node's plain listener, separated by commas."""
        return self.address("PLAINTEXT")

    def address(self, listener: str) -> str:
        """The same of one of :data:`LISTENERS`."""
        return ",".join(node.address(listener) for node in self.nodes.values())

    def start(self) -> None:
        """Start all nodes, and wait until every one answers."""
        for attempt in range(5):
            try:
                self._start()
                return
            except PortTakenError:
                if attempt == 4:
                    raise
                self.kill()
                for node in self.nodes.values():
                    shutil.rmtree(node.data_folder, ignore_errors=True)
        raise AssertionError("not reached")

    def _start(self) -> None:
        controllers = {}
        for number, node in self.nodes.items():
            node.choose_ports()
            controllers[number] = f"localhost:{node.ports['CONTROLLER']}"
        voters = ",".join(f"{number}@{address}:{_fresh_id()}" for number, address in controllers.items())
        quorum = _Quorum(_fresh_id(), ",".join(controllers.values()), f"--initial-controllers={voters}")
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            for node in self.nodes.values():
                node.quorum = quorum
            list(pool.map(ApacheKafka.format, self.nodes.values()))
        try:
            for node in self.nodes.values():
                node.launch()
            for node in self.nodes.values():
                node.wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End all nodes at once."""
        for node in self.nodes.values():
            node.kill()

    def stop(self) -> None:
        """Kill it without a clean shutdown, since its data is not read afterwards. A folder of its own is removed."""
        self.kill()
        for node in self.nodes.values():
            node.release_ports()
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def _fresh_id() -> str:
    """An id in Kafka's text form, which doesn't begin with a dash."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


class PortTakenError(Exception):
    """Someone else bound a port that was free a moment ago."""
