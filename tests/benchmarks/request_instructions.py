"""``python -m tests.benchmarks.request_instructions FOLDER``: the instructions of a broker for one request.

The broker of a checkout runs under valgrind, which counts exactly, also on a busy machine. The client is that of this
checkout: :class:`tests.support.raw_client.RawClient`. Times come from :mod:`.pairs`.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pyconsumer.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pyconsumer.protocol.records.builder import BatchBuilder
from tests.benchmarks.pair_brokers import PairedBroker, RunningBroker
from tests.support.raw_client import RawClient

_PARTITIONS = 4
_WARM = 50
_ROUNDS = 5


@dataclass
class CountedBroker(PairedBroker):
    """The broker of a checkout under valgrind. It counts from :meth:`count` on."""

    def command(self) -> Sequence[str]:
        """Return the command under valgrind."""
        options = ("--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={self.data}/count.%p")
        return ["valgrind", *options, *super().command()]

    def count(self, broker: RunningBroker, ask: Any, requests: int) -> float:
        """Return the instructions of a request: the least of some rounds, as timers of the broker add to others."""
        self._control(broker, "-i", "on")
        for _ in range(_WARM):
            ask()
        rounds = [self._round(broker, ask, max(1, requests // _ROUNDS)) for _ in range(_ROUNDS)]
        self._control(broker, "-i", "off")
        return min(rounds)

    def _round(self, broker: RunningBroker, ask: Any, requests: int) -> float:
        self._control(broker, "-z")
        for _ in range(requests):
            ask()
        self._control(broker, "-d")
        newest = max(self.data.glob(f"count.{broker.pid}.*"), key=lambda path: path.stat().st_mtime_ns)
        found = re.search(r"^(?:totals|summary): (\d+)", newest.read_text(), re.MULTILINE)
        assert found is not None, newest
        return int(found[1]) / requests

    def _control(self, broker: RunningBroker, *command: str) -> None:
        subprocess.run(["callgrind_control", *command, str(broker.pid)], check=True, capture_output=True)


def _requests(topic: str) -> dict[str, tuple[Any, int]]:
    """Return a request of each kind with its version."""
    builder = BatchBuilder()
    for _ in range(2):
        builder.try_append(int(time.time() * 1000), None, b"v" * 100)
    batch, numbers = bytes(builder.build()), range(_PARTITIONS)
    data = [PartitionProduceData(index=number, records=batch) for number in numbers]
    wanted = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=4096) for number in numbers]
    offsets = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    commit = OffsetCommitRequestTopic(name=topic, partitions=offsets)
    produce = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    fetch = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=wanted)]
    )
    return {
        "Produce": (produce, 9),
        "Fetch": (fetch, 11),
        "OffsetCommit": (
            OffsetCommitRequest(group_id="counted", generation_id_or_member_epoch=-1, topics=[commit]),
            8,
        ),
        "Metadata": (MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12),
    }


@click.command(help="Count the instructions of the broker in FOLDER for one request of each kind.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path))
@click.option("--requests", default=300, show_default=True, type=click.IntRange(1))
@click.option("--login", is_flag=True, help="Clients log in.")
@click.option("--acls", type=click.IntRange(4), help="So many access control lists. Clients log in.")
def main(folder: Path, requests: int, login: bool, acls: int | None) -> None:
    with tempfile.TemporaryDirectory(prefix="pyconsumer-count-") as place:
        counted = CountedBroker(folder, Path(place), "PLAIN" if login or acls is not None else "", acls)
        with counted.running() as broker, RawClient(broker.servers, timeout_s=300) as client:
            if broker.login:
                message = "\0{sasl_plain_username}\0{sasl_plain_password}".format(**broker.login)
                client.request(SaslHandshakeRequest("PLAIN"), 1)
                assert client.request(SaslAuthenticateRequest(message.encode()), 2).error_code == 0
            client.create_topic("counted", _PARTITIONS)
            client.coordinator("counted")
            for name, (request, version) in _requests("counted").items():
                found = counted.count(broker, lambda: client.request(request, version), requests)  # noqa: B023
                click.echo(f"{name}: {found:,.0f} instructions")


if __name__ == "__main__":
    main()
