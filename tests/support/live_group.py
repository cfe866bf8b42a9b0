"""A consumer group at work for a test: members in processes of their own, somebody who writes, and a ledger of it all.

::

    with LiveGroup(cluster, "group", "topic", partitions=6, strategy="range") as group:
        first, second = group.join("ours"), group.join("confluent")
        group.settle()
        first.kill()
        group.drain()
        group.check()
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Literal

from pyconsumer import KafkaAdminClient, KafkaProducer
from pyconsumer.structs import RecordMetadata
from tests.support.cluster import Cluster
from tests.support.go import franz_program
from tests.support.java import tools
from tests.support.ledger import GroupLog, Ledger, Seen
from tests.support.member_program import Options
from tests.support.process import GuardedProcess, wait_until

__all__ = ["HostedMembers", "LiveGroup", "LiveMember", "Writer"]

ROOT = Path(__file__).parents[2]
SETTLED_WITHIN_S = 60.0
_LOGGED = 160  # lines of a member that a failure shows
_TOLD_WITHIN_S = 1.0
JAVA_STRATEGIES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
Client = Literal["ours", "confluent", "kafka-python", "java", "franz"]
_HOSTED = ("java", "franz")


class LiveMember:
    """A member and its reports. ``alive``: the test has not ended it yet."""

    def __init__(self, client: str, seen: Seen) -> None:
        self.client = client
        self.seen = seen
        self.alive = True

    @property
    def name(self) -> str:
        return self.seen.name

    def leave(self) -> None:
        """Ask it to close and leave the group. It does so at its next turn."""
        self.alive = False
        self._leave()

    def kill(self) -> None:
        """End it at once (SIGKILL; a Java member: without a word to the group)."""
        self.alive = False
        self.seen.killed = True
        self._kill()

    def forget(self) -> None:
        """Count on it no more: the group has not taken it. If it still tries to join, end it."""
        self.alive = False
        with suppress(OSError):  # its program may have ended
            self._leave()

    def _leave(self) -> None:
        raise NotImplementedError

    def _kill(self) -> None:
        raise NotImplementedError


class _ProcessMember(LiveMember):
    def __init__(self, options: Options, ledger: Ledger) -> None:
        super().__init__(options.client, ledger.seen(options.name))
        command = [sys.executable, "-m", "tests.support.member_program", options.text()]
        self.process = GuardedProcess(command, on_line=ledger.note, cwd=ROOT)

    def _leave(self) -> None:
        self.process.write("leave\n")

    def _kill(self) -> None:
        self.process.kill()

    def freeze(self) -> None:
        """SIGSTOP: all its threads stop."""
        self.process.signal(signal.SIGSTOP)

    def freeze_at_work(self) -> None:
        """The same, by its own hand: when it has worked on its next records and has not committed them."""
        self.process.write("freeze\n")

    def thaw(self) -> None:
        self.process.signal(signal.SIGCONT)


class HostedMembers:
    """One process for all members of a client: a JVM, or a program in Go with franz-go."""

    def __init__(self, options: Options, ledger: Ledger) -> None:
        self.client = options.client
        self.ledger = ledger
        command, strategy = self._program(options)
        arguments = [options.servers, options.group, options.topic, strategy]
        arguments += [str(options.session_ms), str(options.heartbeat_ms), str(options.batch)]
        arguments.append(str(round(options.work_s * 1e6)))
        self.process = GuardedProcess([*command, *arguments], on_line=ledger.note)

    def _program(self, options: Options) -> tuple[list[str], str]:
        if options.client == "java":
            strategy = f"org.apache.kafka.clients.consumer.{JAVA_STRATEGIES[options.strategy]}"
            return tools().compiled(Path(__file__).with_name("GroupMembers.java")), strategy
        program = franz_program("members")
        assert program is not None, "there is no Go"
        return [str(program)], options.strategy

    def join(self, name: str, protocol: str = "classic") -> LiveMember:
        self.process.write(f"join {name} {protocol}\n")
        return _HostedMember(name, self)


class _HostedMember(LiveMember):
    def __init__(self, name: str, host: HostedMembers) -> None:
        super().__init__(host.client, host.ledger.seen(name))
        self._host = host

    def _leave(self) -> None:
        self._host.process.write(f"leave {self.name}\n")

    def _kill(self) -> None:
        self._host.process.write(f"vanish {self.name}\n")


class Writer:
    """Writes numbers in turn to the partitions until it is stopped. Reports acknowledged records to the ledger."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partitions: int,
        ledger: Ledger,
        *,
        per_second: int,
        request_timeout_ms: int = 30_000,
    ) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            linger_ms=5,
            request_timeout_ms=request_timeout_ms,
            delivery_timeout_ms=90_000,
        )
        self._topic, self._partitions, self._ledger = topic, partitions, ledger
        self._pause_s = 0.02
        self._each = max(1, round(per_second * self._pause_s))
        self._stop = threading.Event()
        self.sent = 0
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"writer of {topic}")
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._pause_s):
                for _ in range(self._each):
                    self._send(self.sent)
                    self.sent += 1
            self._producer.flush(timeout_ms=90_000)
        except Exception as error:
            self.error = error
        finally:
            self._producer.close(timeout_ms=5_000)

    def _send(self, number: int) -> None:
        future = self._producer.send(self._topic, b"%d" % number, partition=number % self._partitions)
        future.add_callback(self._acknowledged, number).add_errback(self._failed)

    def _acknowledged(self, number: int, metadata: RecordMetadata) -> None:
        self._ledger.written(number, metadata.partition, metadata.offset)

    def _failed(self, error: BaseException) -> None:
        self.error = error

    def stop(self) -> None:
        """Stop, and wait until everything is acknowledged."""
        self._stop.set()
        self._thread.join(100)
        assert not self._thread.is_alive(), "the writer did not end"
        if self.error is not None:
            raise self.error


class LiveGroup:
    """See the module. A context manager that ends all its processes.

    Args:
        partitions: of the topic, which must exist.
        per_second: records written in a second.
        settings: of :class:`~tests.support.member_program.Options`, for all members.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topic: str,
        partitions: int,
        *,
        strategy: str = "range",
        per_second: int = 300,
        **settings: Any,
    ) -> None:
        self.cluster, self.group, self.topic, self.partitions = cluster, group, topic, partitions
        self.ledger = Ledger()
        self.members: list[LiveMember] = []
        self._settings: dict[str, Any] = {
            "servers": cluster.bootstrap_servers,
            "group": group,
            "topic": topic,
            "strategy": strategy,
        } | settings
        self._per_second = per_second
        self._ending = ExitStack()
        self._hosts: dict[str, HostedMembers] = {}
        self.writer: Writer

    def __enter__(self) -> LiveGroup:
        self.writer = Writer(
            self.cluster,
            self.topic,
            self.partitions,
            self.ledger,
            per_second=self._per_second,
            request_timeout_ms=self._settings.get("request_timeout_ms", 30_000),
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *exc_info: object) -> None:
        if error is not None:
            error.add_note(self.logs(self.alive))
        self.ledger.close()
        try:
            self.writer._stop.set()
            self._ending.close()
        finally:
            self.writer._thread.join(100)

    def logs(self, which: list[LiveMember]) -> str:
        """Return the members' last log lines and positions for the report of a failure. Java's members have none."""
        members = [member for member in which if isinstance(member, _ProcessMember)]
        for member in members:
            if member.process.running:
                member.process.signal(signal.SIGUSR1)
        time.sleep(_TOLD_WITHIN_S)
        told = []
        for member in members:
            started = "" if member.seen.started else " (it has not started)"
            last = "".join(member.process.stderr.splitlines(keepends=True)[-_LOGGED:])
            told.append(f"-- {member.name}{started} has logged last:\n{last}")
        return "\n".join(told)

    @property
    def alive(self) -> list[LiveMember]:
        return [member for member in self.members if member.alive]

    def start_java(self) -> None:
        """Start the JVM ahead of its first member, and wait until it takes commands."""
        self._host("java")

    def _host(self, client: str) -> HostedMembers:
        if client not in self._hosts:
            host = self._hosts[client] = HostedMembers(self._options(client, ""), self.ledger)
            self._ending.callback(host.process.stop)
            ready = self.ledger.seen("jvm" if client == "java" else "franz-host")
            self.ledger.wait(lambda: ready.started, 120.0, f"the process of {client}'s members")
        return self._hosts[client]

    def _options(self, client: str, name: str, **settings: Any) -> Options:
        return Options(**(self._settings | settings | {"client": client, "name": name}))

    def join(self, client: Client = "ours", **settings: Any) -> Any:
        """Start a member. It joins when it comes to it."""
        name = f"{client}-{len(self.members) + 1}"
        member: LiveMember
        if client in _HOSTED:
            member = self._host(client).join(name, settings.get("protocol", self._settings.get("protocol", "classic")))
        else:
            member = _ProcessMember(self._options(client, name, **settings), self.ledger)
            self._ending.callback(member.process.stop)
        self.members.append(member)
        return member

    @property
    def without_share(self) -> list[LiveMember]:
        """Living members without a partition while others have all, or empty if some partition has no owner."""
        owned = {number for member in self.alive for number in member.seen.owned}
        return [member for member in self.alive if not member.seen.owned] if len(owned) == self.partitions else []

    @property
    def settled(self) -> bool:
        """Return whether the living share all partitions, each having one (if there are enough)."""
        alive = self.alive
        shares = [member.seen.owned for member in alive]
        everything = sorted(number for share in shares for number in share)
        return everything == list(range(self.partitions)) and (len(alive) > self.partitions or all(shares))

    def settle(self, within_s: float = SETTLED_WITHIN_S) -> None:
        """Wait until it is."""
        names = ", ".join(member.name for member in self.alive)
        self.ledger.wait(lambda: self.settled, within_s, f"{names} share {self.partitions} partitions")

    def settle_evenly(self, within_s: float = SETTLED_WITHIN_S) -> None:
        """Wait until the members also have as many partitions each as the others, within one.

        Between the two rebalances of a cooperative group every partition can have an owner, and one owner will still
        revoke some for the member that has too few. A test that compares the listeners' calls must not start another
        rebalance then.
        """

        def even() -> bool:
            sizes = [len(member.seen.owned) for member in self.alive]
            return self.settled and max(sizes) - min(sizes) <= 1

        self.ledger.wait(even, within_s, f"{self.partitions} partitions are shared evenly")

    def progress(self, count: int = 100, within_s: float = SETTLED_WITHIN_S) -> None:
        """Wait until ``count`` more records were processed."""
        goal = len(self.ledger.processed) + count
        self.ledger.wait(lambda: len(self.ledger.processed) >= goal, within_s, f"{count} more records processed")

    def drain(self, within_s: float = 60.0) -> None:
        """Write no more, and wait until everything is processed and committed."""
        self.writer.stop()
        self.ledger.wait(lambda: not self.ledger.missing(), within_s, "everything processed")
        ends: dict[int, int] = {}
        for partition, offset in self.ledger.acknowledged.values():
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        with KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap_servers) as admin:
            wait_until(
                lambda: (
                    {tp.partition: found.offset for tp, found in admin.list_group_offsets(self.group).items()} == ends
                ),
                within_s,
                "everything committed",
            )

    def check(self) -> GroupLog:
        """After :meth:`drain`: no record was lost. See :mod:`tests.support.ledger`."""
        return self.ledger.check(self.cluster, self.group, self.topic, self.partitions)
