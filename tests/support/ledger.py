"""Keeps account of a group: records written, the members' work on them, commits in the broker's log.

Rules that hold in the end, whatever happened to the members and the brokers (:meth:`Ledger.check`):

1. Every record whose write was acknowledged was processed, at least once.
2. Committed offsets are the end of the log: no partition lags.
3. In the log of ``__consumer_offsets`` no offset of a partition ever goes back. kafka-python's members may do that:
they send a commit that a rebalance has rejected once more in the next generation. Records that are read again for
that reason are allowed, and so are records that the partition's new owner reads before such a commit comes.
4. Every commit that was acknowledged to a member is in that log.
5. A record is written once: its number is found at one place, the one acknowledged to its writer.
6. No member failed.

:meth:`Ledger.rewinds` finds more: records that were processed after their commit was acknowledged to a member.
Only a former member that does not know it yet may do that: its listener learns later that the partition is lost.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyconsumer.broker.group.common.offset_records import partition_for
from pyconsumer.protocol.offsets_topic import (
    GroupMetadataKey,
    OffsetCommitKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from tests.support.cluster import Cluster
from tests.support.log_reader import end_offset, leader_of, read_partition

__all__ = ["Commit", "GroupLog", "Ledger", "Seen", "read_group_log"]

OFFSETS_TOPIC = "__consumer_offsets"


class Commit(NamedTuple):
    """A committed offset in the log."""

    position: int  #: its offset in the offsets topic
    partition: int
    offset: int
    member: str  #: the commit's metadata: who made it


class Generation(NamedTuple):
    """A registration of the group in the log."""

    position: int
    number: int
    protocol: str | None
    clients: tuple[str, ...]


class GroupLog(NamedTuple):
    """All that the broker has kept about a group, in the order in which it was written."""

    commits: list[Commit]
    generations: list[Generation]

    def offsets(self) -> dict[int, int]:
        """Return the committed offsets in the end, by partition."""
        return {commit.partition: commit.offset for commit in self.commits}


def read_group_log(cluster: Cluster, group: str, *, partitions: int = 5) -> GroupLog:
    """Read a group's partition of the offsets topic, of which there are ``partitions``."""
    commits: list[Commit] = []
    generations: list[Generation] = []
    for record in read_partition(cluster, OFFSETS_TOPIC, partition_for(group, partitions)):
        key = decode_key(record.key)
        if not isinstance(key, (OffsetCommitKey, GroupMetadataKey)) or key.group != group or record.value is None:
            continue
        if isinstance(key, OffsetCommitKey):
            value = decode_offset_value(record.value)
            member = value.metadata.rstrip("\0")  # librdkafka counts the end of the string in
            commits.append(Commit(record.offset, key.partition, value.offset, member))
        else:
            group_value = decode_group_value(record.value)
            clients = tuple(sorted(member.client_id for member in group_value.members))
            generations.append(Generation(record.offset, group_value.generation, group_value.protocol, clients))
    return GroupLog(commits, generations)


@dataclass
class Seen:
    """Reports of one member. ``owned`` has the partitions assigned by calls of its listener."""

    name: str
    owned: set[int] = field(default_factory=set)
    calls: list[tuple[str, list[int], float]] = field(default_factory=list)
    processed: list[tuple[int, int, int]] = field(default_factory=list)
    committed: list[tuple[int, int]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    failure: str | None = None
    errors: list[str] = field(default_factory=list)
    started: bool = False
    left: bool = False
    killed: bool = False

    def of(self, what: str) -> list[list[int]]:
        """Partitions of each call of the listener of a kind."""
        return [partitions for kind, partitions, _ in self.calls if kind == what]

    @property
    def changes(self) -> list[tuple[str, list[int], float]]:
        """Return the calls of the listener that name a partition.

        A cooperative member that gains nothing by a rebalance hears so, too, and may hear it after the others go on.
        """
        return [call for call in self.calls if call[1]]


class Ledger:
    """See the module. Members' lines come in by :meth:`note`, acknowledged writes by :meth:`written`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.members: dict[str, Seen] = {}
        self.acknowledged: dict[int, tuple[int, int]] = {}  # number -> partition, offset
        self.processed: defaultdict[int, list[str]] = defaultdict(list)  # number -> by whom, in order
        self.places: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)  # number -> partition, offset
        self._events: list[dict[str, Any]] = []
        self._closed = False
        self._set_back: set[tuple[int, int]] = set()  # places that a commit of kafka-python went back over

    def seen(self, name: str) -> Seen:
        with self._changed:
            return self.members.setdefault(name, Seen(name))

    def written(self, number: int, partition: int, offset: int) -> None:
        with self._changed:
            self.acknowledged[number] = partition, offset

    def close(self) -> None:
        """Take no more lines: the test does not check members while they are being ended."""
        with self._changed:
            self._closed = True

    def note(self, line: str) -> None:
        """A line of a member's program."""
        event = json.loads(line)
        with self._changed:
            if self._closed:
                return
            member = self.members.setdefault(event["member"], Seen(event["member"]))
            what = event["what"]
            self._events.append(event)
            if what == "processed":
                member.processed += [tuple(record) for record in event["records"]]
                for partition, offset, number in event["records"]:
                    self.processed[number].append(member.name)
                    self.places[number].add((partition, offset))
            elif what == "committed":
                member.committed += [tuple(offset) for offset in event["offsets"]]
            elif what == "refused":
                member.refused.append(event)
            elif what in ("assigned", "revoked", "lost"):
                member.calls.append((what, event["partitions"], event["at"]))
                if what == "assigned":
                    member.owned |= set(event["partitions"])
                else:
                    member.owned -= set(event["partitions"])
            elif what in ("started", "ready"):
                member.started = True
            elif what == "left":
                member.left = True
            elif what == "error":
                member.errors.append(event["detail"])
            elif what == "failed":
                member.failure = event["detail"]
            self._changed.notify_all()

    def wait(self, condition: Callable[[], object], timeout_s: float, what: str) -> None:
        """Wait until members have reported enough. ``AssertionError`` with their positions if it takes too long."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not condition():
                failed = [member for member in self.members.values() if member.failure is not None]
                assert not failed, f"{failed[0].name} failed: {failed[0].failure}"
                left = deadline - time.monotonic()
                assert left > 0, f"not within {timeout_s:g} s: {what}\n{self.state()}"
                self._changed.wait(left)

    def state(self) -> str:
        """Return where everybody stands, for a failure."""
        lines = [f"{len(self.acknowledged)} written, {len(self.processed)} processed"]
        for member in self.members.values():
            calls = " ".join(f"{what}{partitions}@{at:.2f}" for what, partitions, at in member.calls[-6:])
            refused = "".join(
                f"\n    refused at {event['at']:.2f}: {event['offsets']} {event['error']} {event['detail']}"
                for event in member.refused[-3:]
            )
            lines.append(
                f"{member.name}: owns {sorted(member.owned)}, processed {len(member.processed)}, refused"
                f" {len(member.refused)}, last: {calls}{' (left)' if member.left else ''}{refused}"
            )
        return "\n".join(lines)

    @property
    def repeated(self) -> Counter[str]:
        """Return how many records were processed once more, by the member that had processed them before."""
        counted = (names for number, names in self.processed.items() if not self.places[number] & self._set_back)
        return Counter(name for names in counted for name in names[:-1])

    def owned_twice(self) -> list[str]:
        """Return the partitions that two members owned at one time, by the times of the calls of their listeners.

        A member hears that it has lost a partition only after others may have it, so that does not count.
        """
        found = []
        for partition, spans in self._ownership().items():
            for (start, end, name, lost), (later, _, other, _) in itertools.combinations(sorted(spans), 2):
                if later < end and name != other and not lost:
                    found.append(f"{partition}: {name} from {start:.3f} to {end:.3f}, {other} from {later:.3f}")
        return found

    def longest_without_owner(self) -> float:
        """Return the longest time in seconds in which a partition that had had an owner had none, up to now."""
        longest, now = 0.0, time.monotonic()
        for spans in self._ownership().values():
            reached = spans[0][1]
            for start, end, *_ in [*sorted(spans)[1:], (now, now)]:
                longest = max(longest, start - reached)
                reached = max(reached, end)
        return longest

    def _ownership(self) -> dict[int, list[tuple[float, float, str, bool]]]:
        """By partition: from when to when (infinity: still) a member had it, and whether that ended by its loss."""
        spans: defaultdict[int, list[tuple[float, float, str, bool]]] = defaultdict(list)
        with self._changed:
            for member in self.members.values():
                since: dict[int, float] = {}
                for what, partitions, at in member.calls:
                    for partition in partitions:
                        if what == "assigned":
                            since.setdefault(partition, at)
                        elif partition in since:
                            spans[partition].append((since.pop(partition), at, member.name, what == "lost"))
                for partition, at in since.items():
                    spans[partition].append((at, float("inf"), member.name, member.killed))
        return {partition: sorted(each) for partition, each in spans.items()}

    def missing(self) -> list[int]:
        """Numbers of the records that were written and that no member has processed."""
        return [number for number in self.acknowledged if number not in self.processed]

    def rewinds(self) -> list[str]:
        """See the module."""
        committed: dict[int, list[tuple[int, str, float]]] = defaultdict(list)
        found = []
        for event in sorted(self._events, key=lambda event: float(event["at"])):
            if event["what"] == "committed":
                for partition, offset in event["offsets"]:
                    committed[partition].append((offset, event["member"], float(event["at"])))
            elif event["what"] == "processed":
                limits = {}
                for partition in {partition for partition, *_ in event["records"]}:
                    since = self._assigned_at(event["member"], partition, event["at"])
                    known = [(end, by) for end, by, at in committed[partition] if at <= since or not _repeats(by)]
                    limits[partition] = max(known, default=(0, ""))
                for partition, offset, _ in event["records"]:
                    limit, by = limits[partition]
                    if offset >= limit or (partition, offset) in self._set_back:
                        continue
                    if not self._was_expelled(event["member"], partition, event["at"]):
                        found.append(f"{event['member']} processed {partition}@{offset} after {by} committed {limit}")
        return found

    def _assigned_at(self, name: str, partition: int, at: float) -> float:
        """When a member that has a partition at that time was given it."""
        calls = self.members[name].calls
        return max(
            (when for what, new, when in calls if what == "assigned" and when <= at and partition in new), default=at
        )

    def _was_expelled(self, name: str, partition: int, at: float) -> bool:
        """Return whether a member heard later that it lost the partition, or was killed before it could."""
        member = self.members[name]
        lost = any(what == "lost" and when >= at and partition in gone for what, gone, when in member.calls)
        return lost or member.killed

    def check(self, cluster: Cluster, group: str, topic: str, partitions: int) -> GroupLog:
        """See the module. Everything must have been processed and committed before. Returns the commits in the log."""
        assert not (lost := self.missing()), f"{len(lost)} records lost, such as {_places(lost, self.acknowledged)}"
        wrong = {number: places for number, places in self.places.items() if len(places) > 1}
        wrong |= {number: {at} for number, at in self.acknowledged.items() if self.places[number] != {at}}
        assert not wrong, f"records that are not where they were written, once: {wrong}"
        log = read_group_log(cluster, group)
        self._check_order(log)
        self._check_acknowledged_commits(log)
        ends = {}
        for number in range(partitions):
            with leader_of(cluster, topic, number) as client:
                ends[number] = end_offset(client, topic, number)
        assert log.offsets() == {number: end for number, end in ends.items() if end}
        failures = {member.name: member.failure for member in self.members.values() if member.failure is not None}
        assert not failures
        return log

    def _check_order(self, log: GroupLog) -> None:
        last: dict[int, Commit] = {}
        for commit in log.commits:
            before = last.get(commit.partition)
            if before is not None and commit.offset < before.offset:
                assert _repeats(commit.member), f"went back: {before} -> {commit}\n{self.state()}"
                self._set_back |= {(commit.partition, offset) for offset in range(commit.offset, before.offset)}
            last[commit.partition] = commit

    def _check_acknowledged_commits(self, log: GroupLog) -> None:
        stored: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
        for commit in log.commits:
            stored[commit.member].add((commit.partition, commit.offset))
        for member in self.members.values():
            lost = set(member.committed) - stored[member.name]
            assert not lost, f"commits of {member.name} that were acknowledged are not in the log: {sorted(lost)}"


def _repeats(member: str) -> bool:
    """Return whether a member may send a commit once more in the next generation."""
    return member.startswith("kafka-python")


def _places(numbers: list[int], places: Mapping[int, tuple[int, int]]) -> str:
    return ", ".join(f"{number} (partition, offset: {places[number]})" for number in numbers[:5])
