"""A large group of our consumers in one process, each in a thread, that forms, grows and shrinks, and then idles.

``LargeGroup.java`` does the same with Java's consumers. For each partition the time of its last record
at any member is noted. The longest time without one is the cost of a rebalance for an application downstream.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from pyconsumer import KafkaConsumer
from tests.benchmarks.live_groups import until_settled

SETTLED_FOR_S, WITHIN_S, APART_S = 1.0, 120.0, 6.0
IDLE_AFTER_S, IDLE_S = 3.0, 10.0


class Group:
    """The members, and when each partition last brought a record."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        self.partitions: int = arguments["partitions"]
        self.last = [0.0] * self.partitions
        self.worst = [0.0] * self.partitions
        self.members: list[Member] = []

    def join(self) -> None:
        self.members.append(Member(self, len(self.members)))

    def leave(self) -> None:
        self.members.pop().leaving.set()

    @property
    def settled(self) -> bool:
        """Whether the members share all partitions evenly."""
        shares = [member.share for member in self.members]
        sizes = [len(share) for share in shares]
        whole = sum(sizes) == self.partitions == len(frozenset().union(*shares))
        return whole and max(sizes) - min(sizes) <= 1

    def until_settled(self) -> float:
        return until_settled(
            lambda: self.settled,
            lambda: sorted(len(member.share) for member in self.members),
            settled_for_s=SETTLED_FOR_S,
            within_s=WITHIN_S,
        )

    def during(self, event: Callable[[], None]) -> dict[str, Any]:
        """The cost of an event."""
        start = time.perf_counter()
        self.worst = [0.0] * self.partitions
        event()
        settled = self.until_settled() - start
        now = time.perf_counter()
        gaps = [max(worst, now - last) for worst, last in zip(self.worst, self.last, strict=True)]
        return {"settled_s": settled, "gaps_s": sorted(gaps)}


class Member(threading.Thread):
    """One consumer. ``share``: the partitions that it had after its last poll."""

    def __init__(self, group: Group, number: int) -> None:
        super().__init__(name=f"member-{number}", daemon=True)
        self.share: frozenset[int] = frozenset()
        self.leaving = threading.Event()
        self._group, self._number = group, number
        self.start()

    def run(self) -> None:
        group, given = self._group, self._group.arguments
        settings: dict[str, Any] = {"group_protocol": given["protocol"]}
        if given["protocol"] == "classic":
            settings["partition_assignment_strategy"] = "cooperative-sticky"
        if not given["idle"]:
            settings |= {"fetch_min_bytes": 1_000_000, "fetch_max_wait_ms": 200}
        with KafkaConsumer(
            given["topic"],
            bootstrap_servers=given["servers"],
            group_id=given["group"],
            client_id=f"m{self._number:02}",
            **settings,
        ) as consumer:
            while not self.leaving.is_set():
                found = consumer.poll(timeout_ms=200)
                now = time.perf_counter()
                for tp in found:
                    at = tp.partition
                    group.worst[at] = max(group.worst[at], now - group.last[at])
                    group.last[at] = now
                self.share = frozenset(tp.partition for tp in consumer.assignment())
        self.share = frozenset()


def main(arguments: dict[str, Any]) -> dict[str, Any]:
    group = Group(arguments)
    start = time.perf_counter()
    for _ in range(arguments["members"]):
        group.join()
    found: dict[str, Any] = {"form_s": group.until_settled() - start}
    if not arguments["idle"]:
        time.sleep(APART_S)
        found["join"] = group.during(group.join)
        time.sleep(APART_S)
        found["leave"] = group.during(group.leave)
    else:
        print("settled", flush=True)  # whoever counts requests begins
        found["idle_cpu"] = idle_cpu()
    for member in group.members:
        member.leaving.set()
    for member in group.members:
        member.join()
    return found


def idle_cpu() -> float:
    """Processor time per second of an idle group."""
    time.sleep(IDLE_AFTER_S)
    before = time.process_time()
    time.sleep(IDLE_S)
    return (time.process_time() - before) / IDLE_S


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))), flush=True)
