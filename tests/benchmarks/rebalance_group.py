"""A group of our consumers, each in a thread, whose members come and go. Run as a child process by the benchmarks.

``RebalanceGroup.java`` does the same with Java's consumers. A member notes, for each partition, when it last got a
record. Members' heartbeats are not in step: their intervals differ a little, as if the group had run for hours.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from pyconsumer import KafkaConsumer, TopicPartition
from tests.benchmarks.live_groups import until_settled

LONGEST_INTERVAL_MS, STEP_MS = 3000, 60
SETTLED_FOR_S, APART_AFTER_S, WITHIN_S = 4.0, 8.0, 60.0


class Member(threading.Thread):
    """One consumer.

    Attributes:
        worst: by partition, the longest time between two polls that brought records of it, since it was emptied.
        assignment, generation: as of the last poll.
    """

    def __init__(self, arguments: dict[str, Any], number: int) -> None:
        super().__init__(name=f"member-{number}", daemon=True)
        self.worst: dict[TopicPartition, float] = {}
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.generation = -1
        self.leaving = threading.Event()
        self._arguments, self._number = arguments, number
        self._last: dict[TopicPartition, float] = {}
        self.start()

    def run(self) -> None:
        interval_ms = LONGEST_INTERVAL_MS - STEP_MS * self._number
        with consumer_of(
            self._arguments,
            self._arguments["group"],
            client_id=f"m{self._number:02}",
            heartbeat_interval_ms=interval_ms,
        ) as consumer:
            while not self.leaving.is_set():
                found = consumer.poll(timeout_ms=100)
                now = time.perf_counter()
                for tp in found:
                    self.worst[tp] = max(self.worst.get(tp, 0.0), now - self._last.get(tp, now))
                    self._last[tp] = now
                self.assignment = frozenset(consumer.assignment())
                self.generation = consumer.group_metadata().generation_id


def consumer_of(arguments: dict[str, Any], group: str, **settings: Any) -> KafkaConsumer:
    return KafkaConsumer(
        arguments["topic"],
        bootstrap_servers=arguments["servers"],
        group_id=group,
        partition_assignment_strategy=arguments["assignor"],
        **settings,
    )


def first_assignment(arguments: dict[str, Any], number: int) -> float:
    """Seconds from the first poll of a group's only member to its assignment."""
    with consumer_of(arguments, f"{arguments['group']}-first-{number}") as consumer:
        start = time.perf_counter()
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        return time.perf_counter() - start


def settled(members: list[Member], partitions: int) -> bool:
    shares = [member.assignment for member in members]
    generations = {member.generation for member in members}
    return len(generations) == 1 and all(shares) and sum(map(len, shares)) == partitions


def _until_settled(members: list[Member], partitions: int) -> float:
    return until_settled(
        lambda: settled(members, partitions),
        lambda: [(m.generation, len(m.assignment)) for m in members],
        settled_for_s=SETTLED_FOR_S,
        within_s=WITHIN_S,
    )


def during(event: Callable[[], None], members: list[Member], partitions: int) -> dict[str, Any]:
    """Return the cost of an event for the partitions that stay with their members. The event may do nothing, too."""
    staying = list(members)
    before = {member: member.assignment for member in staying}
    for member in staying:
        member.worst = {}
    start = time.perf_counter()
    event()
    seconds = _until_settled(members, partitions) - start
    gaps = [m.worst.get(tp, WITHIN_S) for m in staying if m in members for tp in before[m] & m.assignment]
    return {"settled_s": seconds, "gaps_s": sorted(gaps)}


def main(arguments: dict[str, Any]) -> dict[str, Any]:
    draw, partitions = random.Random(1), arguments["partitions"]
    first = [first_assignment(arguments, number) for number in range(arguments["firsts"] + 1)][1:]
    start = time.perf_counter()
    members = [Member(arguments, number) for number in range(arguments["members"])]
    form = _until_settled(members, partitions) - start
    rounds = []
    for _ in range(arguments["rounds"]):
        time.sleep(APART_AFTER_S + draw.uniform(0.0, 3.0))
        quiet = during(lambda: None, members, partitions)
        join = during(lambda: members.append(Member(arguments, len(members))), members, partitions)
        time.sleep(APART_AFTER_S + draw.uniform(0.0, 3.0))
        leave = during(lambda: members.pop().leaving.set(), members, partitions)
        rounds.append({"quiet": quiet, "join": join, "leave": leave})
    for member in members:
        member.leaving.set()
    for member in members:
        member.join()
    return {"first_s": first, "form_s": form, "rounds": rounds}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
