"""The program of a Python client. Run as a child process by the benchmarks.

``python -m tests.benchmarks.client_program JSON`` runs one of :data:`PROGRAMS` and prints the results as JSON.
The Java and Go programs beside this one do the same and print the same.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from crc32c import crc32c

from tests.benchmarks.clients import CLIENTS, Client, Got

__all__ = ["PROGRAMS", "Tally"]

_PATIENCE_S = 60.0
_INSPECTED = 1000


class Tally:
    """Counts the records read and keeps CRC-32Cs of values and keys per partition, in the order of reading."""

    def __init__(self, partitions: int, wanted: int) -> None:
        self.wanted = wanted
        self.count = 0
        self.size_bytes = 0
        self.checksums = [0] * partitions
        self.key_checksums = [0] * partitions
        self._seen, self._last = 0, time.monotonic()

    @property
    def more(self) -> bool:
        return self.count < self.wanted

    def add(self, got: Got) -> None:
        partition = got.partition
        data = _joined(got.values)
        self.checksums[partition] = crc32c(data, self.checksums[partition])
        self.count += len(got.values)
        self.size_bytes += len(data)
        if len(got.keys):
            self.key_checksums[partition] = crc32c(_joined(got.keys), self.key_checksums[partition])

    def nothing_came(self) -> None:
        """Give up when that happens for a minute."""
        if self.count > self._seen:
            self._seen, self._last = self.count, time.monotonic()
        elif time.monotonic() - self._last > _PATIENCE_S:
            raise TimeoutError(f"only {self.count} of {self.wanted} records came")


def _joined(values: Any) -> bytes | memoryview:
    """All values one after the other: of a list, or of an Arrow array, none of them null."""
    if isinstance(values, list):
        return b"".join(values)
    offsets, data = values.buffers()[1:]
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[values.offset] : ends[values.offset + len(values)]]


def check_headers(client: Client, got: Got) -> int:
    """Look at the first records. How many there were.

    Raises:
        ValueError: headers are not as they were written: a constant one, and one with the record's key.
    """
    for record, key in zip(got.records[:_INSPECTED], got.keys, strict=False):
        found = [tuple(pair) for pair in client.headers(record)]
        if found != [("source", b"benchmark"), ("id", key)]:
            raise ValueError(f"headers of the record with key {key!r} are {found}")
    return min(len(got.records), _INSPECTED)


class Watch:
    """Wall clock and processor time (of all threads) since :meth:`start`."""

    found: dict[str, float]

    def start(self) -> None:
        self._cpu, self._start = time.process_time(), time.perf_counter()

    def stop(self) -> None:
        seconds = time.perf_counter() - self._start
        self.found = {"seconds": seconds, "cpu_s": time.process_time() - self._cpu}


def peak_bytes() -> int:
    """The most memory that this process had at any one time, since :func:`forget_peak` if that works here."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass  # only Linux has it
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def forget_peak() -> None:
    """Reset :func:`peak_bytes` to the memory in use now."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass  # not allowed here: peaks only grow


# ------------------------------------------------------------------ programs


def _open(arguments: dict[str, Any], **settings: Any) -> Client:
    return CLIENTS[arguments["client"]](
        arguments["servers"],
        arguments["topic"],
        arguments["partitions"],
        keyed=arguments.get("keyed", False),
        **settings,
    )


def _in_group(milliseconds: int | None = None) -> dict[str, Any]:
    """Settings of a member of a new group, which commits periodically if an interval is given."""
    settings: dict[str, Any] = {"group.id": f"benchmark-{uuid.uuid4()}", "enable.auto.commit": milliseconds is not None}
    return settings if milliseconds is None else settings | {"auto.commit.interval.ms": milliseconds}


def _read_once(arguments: dict[str, Any], records: int, *, inspect: bool) -> dict[str, Any]:
    subscribe, keyed = arguments.get("subscribe", False), arguments.get("keyed", False)
    tally, watch = Tally(arguments["partitions"], records), Watch()
    client = _open(arguments, **(_in_group(arguments["commit_ms"]) if subscribe else {}))
    try:
        client.connect()
        watch.start()
        if subscribe:
            client.subscribe(watch.start)  # joining is measured elsewhere; the clock starts anew after it
        else:
            client.assign()
        inspected = 0 if inspect and keyed else _INSPECTED
        while tally.more:
            before = tally.count
            for got in client.poll(1.0):
                tally.add(got)
                if inspected < _INSPECTED:
                    inspected += check_headers(client, got)
            if tally.count == before:
                tally.nothing_came()
        watch.stop()
        return {
            "records": tally.count,
            "size_bytes": tally.size_bytes,
            "checksums": tally.checksums,
            "key_checksums": tally.key_checksums,
            **watch.found,
        }
    finally:
        client.close()


def read(arguments: dict[str, Any]) -> dict[str, Any]:
    """A quarter of the topic to warm up, then with a new consumer all of it, from ``assign`` to the last record."""
    _read_once(arguments, arguments["records"] // 4, inspect=True)
    found = _read_once(arguments, arguments["records"], inspect=False)
    return found | {"peak_bytes": peak_bytes()}


def latency(arguments: dict[str, Any]) -> dict[str, Any]:
    """Time from the producer's ``send`` to the return of the call that brought the record.

    Values begin with the time in nanoseconds and, after a blank, a number that counts up in each partition.
    """
    seconds: list[float] = []
    numbers: dict[int, int] = {}
    client = _open(arguments)
    client.do_not_wait_for_more()
    try:
        client.connect()
        client.assign(latest=True)
        warm_until = time.monotonic() + arguments["warm_up_s"]
        watch, last = Watch(), time.monotonic()
        watch.start()
        while len(seconds) < arguments["records"]:
            found = list(client.poll(1.0))
            now = time.time_ns()
            if found:
                last = time.monotonic()
            elif time.monotonic() - last > _PATIENCE_S:
                raise TimeoutError(f"only {len(seconds)} records came")
            warm = last < warm_until
            for got in found:
                for value in got.values:
                    sent, number = map(int, value.split()[:2])
                    if number != numbers.setdefault(got.partition, number):
                        raise ValueError(f"partition {got.partition}: {number} came, not {numbers[got.partition]}")
                    numbers[got.partition] = number + 1
                    if not warm:
                        seconds.append((now - sent) / 1e9)
            if warm:
                watch.start()
        watch.stop()
        return {"records": len(seconds), **summary(seconds), **watch.found}
    finally:
        client.close()


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Percentiles of times, in ms."""
    times = sorted(seconds)
    at = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
    found = {name: 1e3 * times[min(len(times) - 1, int(share * len(times)))] for name, share in at.items()}
    return found | {"max_ms": 1e3 * times[-1]}


def first(arguments: dict[str, Any]) -> dict[str, Any]:
    """Times from before the consumer is made to its first record, in ms. The first of them in the process apart.

    With ``subscribe`` each consumer is the only member of a new group.
    """
    times = []
    for _ in range(1 + arguments["times"]):
        start = time.perf_counter()
        client = _open(arguments, **(_in_group() if arguments["subscribe"] else {}))
        client.do_not_wait_for_more()
        try:
            if arguments["subscribe"]:
                client.subscribe()
            else:
                client.assign()
            while not any(len(got.values) for got in client.poll(1.0)):
                if time.perf_counter() - start > _PATIENCE_S:
                    raise TimeoutError("no record came")
            times.append(1e3 * (time.perf_counter() - start))
        finally:
            client.close()
    return {"first_ms": times[0], "next_ms": times[1:]}


def memory(arguments: dict[str, Any]) -> dict[str, Any]:
    """Peaks of memory while the topic is read several times, with one consumer each time, of a new group if wanted."""
    from tests.benchmarks import clients  # all is imported before the first look

    assert clients
    tally = Tally(arguments["partitions"], arguments["records"])
    _open(arguments).close()  # imports what it needs
    forget_peak()
    before, peaks = peak_bytes(), []
    for _ in range(arguments["passes"]):
        tally = Tally(arguments["partitions"], arguments["records"])
        subscribe = arguments.get("subscribe", False)
        client = _open(arguments, **arguments.get("settings", {}), **(_in_group(200) if subscribe else {}))
        try:
            client.connect()
            if subscribe:
                client.subscribe()
            else:
                client.assign()
            while tally.more:
                count = tally.count
                for got in client.poll(1.0):
                    tally.add(got)
                if tally.count == count:
                    tally.nothing_came()
        finally:
            client.close()
        peaks.append(peak_bytes())
        forget_peak()
    return {"records": tally.count, "checksums": tally.checksums, "before_bytes": before, "peaks_bytes": peaks}


PROGRAMS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "read": read,
    "latency": latency,
    "first": first,
    "memory": memory,
}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(PROGRAMS[given["program"]](given)))
