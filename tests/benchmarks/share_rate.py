"""``python -m tests.benchmarks.share_rate``: our share consumer beside Java's, on Apache Kafka.

Both read the same topic of records of 100 bytes in implicit mode, in turn, each in a process and with a group of its
own. Figures are those of the records behind the first ones, so starts and warm-up do not count: the rate, and the
processor time of the client for each record. That of the broker is for each record of all, while the client's process
was there. Before the first round a reading of Java's warms the broker up.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import click

from pyconsumer import KafkaAdminClient, KafkaShareConsumer
from pyconsumer.admin import ConfigResource, NewTopic
from tests.benchmarks.measure import answer, process_cpu_s
from tests.support.apache_kafka import ApacheKafka
from tests.support.process import descendants, run
from tests.support.share_groups import SHARE_CONFIG

__all__ = ["main", "read"]

_TOPIC = "records"
_JAVA = Path(__file__).with_name("ShareRate.java")
#: Settings of a group of one broker: its topics of states have one replica.
_BROKER = {
    **SHARE_CONFIG,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.share.record.lock.duration.ms": 30_000,
}


def read(servers: str, topic: str, group_id: str, warm: int, records: int, max_poll_records: int) -> dict[str, float]:
    """Read with our share consumer, as ``ShareRate.java`` does."""
    count = first = 0
    began = used = 0.0
    with KafkaShareConsumer(
        topic, bootstrap_servers=servers, group_id=group_id, max_poll_records=max_poll_records
    ) as consumer:
        while count < warm + records:
            count += consumer.poll(timeout_ms=1000).count()
            if not began and count >= warm:
                first, began, used = count, time.perf_counter(), time.process_time()
        return {
            "seconds": time.perf_counter() - began,
            "cpu": time.process_time() - used,
            "records": count - first,
        }


def _new_group(servers: str) -> str:
    group_id = f"rate-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.alter_configs({ConfigResource("group", group_id): {"share.auto.offset.reset": "earliest"}})
    return group_id


def _broker_cpu_s(broker: ApacheKafka) -> float:
    settings = str(broker.folder / "server.properties")
    return sum(process_cpu_s(pid) for pid, command in descendants().items() if settings in command)


@click.command(help="Compare the rate and the processor time of our share consumer with those of Java's.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--records", default=2_000_000, show_default=True, type=click.IntRange(1000))
@click.option("--warm-up", default=500_000, show_default=True, type=click.IntRange(1))
@click.option("--max-poll-records", default=500, show_default=True, type=click.IntRange(1))
def main(rounds: int, records: int, warm_up: int, max_poll_records: int) -> None:
    found: dict[str, list[dict[str, Any]]] = {"ours": [], "Java": []}
    with ApacheKafka(config=_BROKER, quick=False) as broker:
        servers = broker.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(_TOPIC, 1, 1)])
        broker.tools.run(
            "ProducerPerformance",
            *("--bootstrap-server", servers, "--topic", _TOPIC, "--throughput", "-1", "--record-size", "100"),
            *("--num-records", str(records + warm_up + 100_000)),
            timeout_s=600,
        )
        for number in range(rounds + 1):
            for name in found if number else ("Java",):  # round 0 warms the broker up
                place = [servers, _TOPIC, _new_group(servers)]
                sizes = [str(warm_up), str(records), str(max_poll_records)]
                if name == "ours":
                    command = [sys.executable, "-m", __spec__.name if __spec__ else "", "--program", *place, *sizes]
                else:
                    command = [*broker.tools.compiled(_JAVA, quick=False), *place, *sizes]
                before = _broker_cpu_s(broker)
                result = answer(run(command, timeout_s=1800))
                of_broker = (_broker_cpu_s(broker) - before) / (records + warm_up) * 1e6
                if not number:
                    continue
                found[name].append(result)
                rate, cost = result["records"] / result["seconds"], result["cpu"] / result["records"] * 1e6
                click.echo(
                    f"round {number}, {name}: {rate:,.0f} records/s, {cost:.2f} us of the processor a record,"
                    f" broker {of_broker:.2f} us"
                )
    rates = [
        ours["records"] / ours["seconds"] * java["seconds"] / java["records"]
        for ours, java in zip(*found.values(), strict=True)
    ]
    costs = [
        ours["cpu"] / ours["records"] / java["cpu"] * java["records"]
        for ours, java in zip(*found.values(), strict=True)
    ]
    click.echo(f"rate: {statistics.median(rates):.2f} of Java's ({min(rates):.2f} to {max(rates):.2f}), at least 1.0")
    click.echo(
        f"processor time: {statistics.median(costs):.2f} of Java's ({min(costs):.2f} to {max(costs):.2f}), at most 0.35"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--program"]:
        servers, topic, group, *numbers = sys.argv[2:]
        print(json.dumps(read(servers, topic, group, *map(int, numbers))))
    else:
        main()
