"""The brokers of ``python -m tests.benchmarks.pairs --broker``: that of each checkout, in turn, on its own folder.

The clients are always those of the checkout AFTER. So a difference is the brokers', and both processes are measured.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyconsumer import KafkaAdminClient, KafkaProducer
from pyconsumer.admin import NewTopic
from tests.benchmarks.measure import process_cpu_s

__all__ = ["PairedBroker", "RunningBroker", "pair_of_brokers"]

_START_S: Final = 60.0
_USER, _PASSWORD = "bench", "bench-secret"


@dataclass(frozen=True)
class RunningBroker:
    """A broker that runs.

    Attributes:
        servers: its plain listener. ``login`` has the settings of a client.
    """

    pid: int
    servers: str
    login: dict[str, Any]

    def cpu_s(self) -> float:
        """Return the processor time that the broker has used."""
        return process_cpu_s(self.pid)


@dataclass
class PairedBroker:
    """The broker of a checkout, with a folder for its data.

    Attributes:
        checkout: the folder with the package.
        mechanism: the SASL mechanism by which clients log in. Empty: they use a plain listener.
        rules: the number of access control lists. None: there is no authorizer.
    """

    checkout: Path
    data: Path
    mechanism: str = ""
    rules: int | None = None
    topics: set[str] = field(default_factory=set)

    @contextlib.contextmanager
    def running(self) -> Iterator[RunningBroker]:
        """Run the broker during a block."""
        place = self.data / "package"
        place.mkdir(parents=True, exist_ok=True)
        if not (place / "pyconsumer").exists():
            (place / "pyconsumer").symlink_to(self.checkout / "pyconsumer")
        with (self.data / "log").open("w+") as log:
            process = subprocess.Popen(
                [*self.command()],
                cwd=place,
                env={**os.environ, "PYTHONPATH": str(place), "PYTHONHASHSEED": "0"},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            try:
                yield self._started(process)
            finally:
                process.terminate()
                process.wait(_START_S)
                assert process.stdout is not None
                process.stdout.close()

    def command(self) -> Sequence[str]:
        """Return the command, of options that older checkouts have, too."""
        command = [
            sys.executable,
            "-m",
            "pyconsumer",
            "broker",
            "--port",
            "0",
            "--data-dir",
            str(self.data / "records"),
        ]
        command += ["--config", "group.initial.rebalance.delay.ms=0"]
        if self.mechanism:
            users = self.data / "users.properties"
            users.write_text(f"{_USER}={_PASSWORD}\n")
            command += ["--users", str(users)]
        if self.rules is not None:
            rules = self.data / "rules"
            others = "".join(f"user{number}: READ topic other-{number}\n" for number in range(max(0, self.rules - 4)))
            kinds = ("topic *", "group *", "transactional_id *", "cluster")
            rules.write_text(others + "".join(f"{_USER}: ALL {kind}\n" for kind in kinds))
            command += ["--acl", f"@{rules}"]
        return command

    def _started(self, process: subprocess.Popen[str]) -> RunningBroker:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            raise AssertionError(f"the broker of {self.checkout} did not start:\n{(self.data / 'log').read_text()}")
        servers = line.removeprefix("listening on ").strip()
        login: dict[str, Any] = {}
        if self.mechanism:
            login = {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": _USER,
                "sasl_plain_password": _PASSWORD,
            }
        return RunningBroker(process.pid, servers, login)

    def prepare(self, topic: str, partitions: int, records: int, size: int, codec: str) -> None:
        """Create a topic and fill it, once."""
        if topic in self.topics:
            return
        with self.running() as broker:
            self._create(broker, topic, partitions)
            with KafkaProducer(
                bootstrap_servers=broker.servers, compression_type=codec, linger_ms=20, **broker.login
            ) as producer:
                for partition in range(partitions):
                    count = records // partitions + (partition < records % partitions)
                    for _ in range(count):
                        producer.send(topic, b"v" * size, partition=partition)
        self.topics.add(topic)

    def _create(self, broker: RunningBroker, topic: str, partitions: int) -> None:
        with KafkaAdminClient(bootstrap_servers=broker.servers, **broker.login) as admin:
            admin.create_topics([NewTopic(topic, partitions)])


@contextlib.contextmanager
def pair_of_brokers(before: Path, after: Path, rules: int | None) -> Iterator[tuple[PairedBroker, PairedBroker]]:
    """Yield the brokers of two checkouts.

    Args:
        rules: with a number, clients of BEFORE log in by PLAIN, and those of AFTER by SCRAM with so many rules.
    """
    with tempfile.TemporaryDirectory(prefix="pyconsumer-pairs-") as place:
        by_login = rules is not None
        yield (
            PairedBroker(before, Path(place, "before"), "PLAIN" if by_login else ""),
            PairedBroker(after, Path(place, "after"), "SCRAM-SHA-256" if by_login else "", rules),
        )
