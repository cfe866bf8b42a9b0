"""``MetricSource``: the metrics of one client, computed from its counters when they are read.

Any thread may read. A reader takes no lock that a client's call holds, and a client that is closed or blocked is read
like any other. Prometheus finds the clients of the process here (:func:`open_sources`), by weak references: a client
that is dropped or closed disappears.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

from pyconsumer.metrics.windows import NO_SAMPLE, Readable, Reading, Windows

if TYPE_CHECKING:
    from pyconsumer.metrics.table import Family, Spec

__all__ = ["Gauge", "Metric", "MetricSource", "MetricsReporter", "Scope", "open_sources", "values_of", "windows_of"]

_log = logging.getLogger(__name__)

Gauge = Callable[[float], float | None]
"""A value at a time (monotonic seconds). None if it is unknown."""

#: The factor of a value in seconds, by unit.
_FACTORS: Final = {"ms": 1e3, "ns": 1e9, "1/h": 3600.0}


class Metric(NamedTuple):
    """A metric of a client and its value.

    Attributes:
        name: Kafka's name, such as ``records-lag-max``.
        group: Kafka's group, such as ``consumer-fetch-manager-metrics``.
        tags: ``client-id``, and for some groups ``node-id``, ``topic`` and ``partition``.
        unit: ``ms``, ``ns``, ``s``, ``bytes``, ``bytes/s``, ``1/s``, ``1/h``, ``records``, ``records/s``, ``ratio`` or
            ``""`` for a plain number.
        description: one sentence.
        value: the value. NaN if there is none: an average, maximum or minimum without an event in the windows.
    """

    name: str
    group: str
    tags: dict[str, str]
    unit: str
    description: str
    value: float


@runtime_checkable
class MetricsReporter(Protocol):
    """An object that gets the metrics of a client, for the setting ``metric_reporters``.

    Java: ``MetricsReporter``. Values are computed when they are read, so a reporter reads them at its own times, in a
    thread of its own.
    """

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Take the client's settings. This is called once, before :meth:`init`. Secrets are left out."""

    def init(self, read: Callable[[], list[Metric]]) -> None:
        """Take the function that reads the client's metrics.

        Args:
            read: returns the same as ``client.metric_table()``. Any thread may call it at any time. Once the client has
                been dropped, the list is empty.
        """

    def close(self) -> None:
        """End the work. This is called when the client is closed. The metrics can still be read.

        It is also called if :meth:`configure` or :meth:`init` has raised, because then there is no client.
        """


class Scope(NamedTuple):
    """The sources of a family for one set of tags.

    Attributes:
        tags: the values of the family's tags.
        counters: the counters by name. The metric is of all of a name together, such as those of two network clients.
        gauges: functions by name.
    """

    tags: tuple[str, ...]
    counters: Mapping[str, Sequence[Readable]]
    gauges: Mapping[str, Gauge]


class MetricSource:
    """The metrics of one client.

    Args:
        domain: ``consumer``, ``producer`` or ``admin-client``.
        client_id: the tag of all metrics.
        table: the name of the metrics' table, from :data:`pyconsumer.metrics.table.FAMILIES`. The first reader imports
            that module, because most clients have none.
        now: the client's clock, in seconds.
        scopes: returns the sources of a family, by its group and tags. It must not refer to the public client, so that
            a client that is dropped goes.
        reporters: objects that read the metrics. :meth:`close` closes them.
        settings: the client's settings, for the reporters.

    Attributes:
        domain: the argument.
        label: the client id, with a number behind it if another client of the process has the same one.
    """

    def __init__(
        self,
        domain: str,
        client_id: str,
        table: str,
        now: Callable[[], float],
        scopes: Callable[[str, tuple[str, ...]], Iterable[Scope]],
        *,
        reporters: Sequence[MetricsReporter] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.domain = domain
        self.label = client_id
        self._client_id = client_id
        self._table = table
        self._now = now
        self._scopes = scopes
        self._reporters: list[MetricsReporter] = []
        self._pid = os.getpid()
        _registered.add(self)
        try:
            for reporter in reporters:
                self._reporters.append(reporter)  # first: it is closed also if one of the two calls raises
                reporter.configure(settings or {})
                reporter.init(_weak_reader(self))
        except BaseException:
            self.close()
            raise

    def table(self) -> list[Metric]:
        """Return all metrics that are served now, with their values."""
        now = self._now()
        found: list[Metric] = []
        for family in self._families():
            names = ("client-id", *family.tags)
            for scope in self._all_scopes(family, len(found)):
                tags = dict(zip(names, (self._client_id, *scope.tags), strict=True))
                for spec, value in values_of(family, scope, now):
                    shown = NO_SAMPLE if value is None else value
                    found.append(Metric(spec.name, family.group, tags, spec.unit, spec.description, shown))
        return found

    def by_group(self) -> dict[str, dict[str, float | None]]:
        """Return the values by group and name. The tags of nodes, topics and partitions follow the group's name.

        In a group that has both, a topic is written ``topic=NAME``, so that topic ``t-0`` is not partition 0 of ``t``.
        """
        now = self._now()
        found: dict[str, dict[str, float | None]] = {}
        families = self._families()
        by_partition = {family.group for family in families if "partition" in family.tags}
        for family in families:
            if family.group in _ALONE:
                continue
            for scope in self._all_scopes(family, 0):
                key = "-".join(scope.tags)
                if family.tags == ("topic",) and family.group in by_partition:
                    key = f"topic={key}"
                group = found.setdefault(f"{family.group}.{key}" if key else family.group, {})
                for spec, value in values_of(family, scope, now):
                    group[spec.name] = value
        return found

    def _families(self) -> tuple[Family, ...]:
        from pyconsumer.metrics.table import FAMILIES

        return FAMILIES[self._table]

    def _all_scopes(self, family: Family, count: int) -> Iterable[Scope]:
        if family.group == "kafka-metrics-count":
            return (Scope((), {}, {"count": lambda _: count + 1}),)  # it counts itself, as Java's does
        return self._scopes(family.group, family.tags)

    def close(self) -> None:
        """Tell the reporters that the client is closed, and leave Prometheus. The metrics can still be read.

        A second call has no effect. Nor has a call in a forked child: client and reporters belong to the parent.
        """
        if self._pid != os.getpid():
            return
        _registered.discard(self)
        reporters, self._reporters = self._reporters, []
        for reporter in reporters:
            try:
                reporter.close()
            except Exception:
                _log.exception("the metrics reporter %r of %s failed to close", reporter, self._client_id)

    def relabel(self, label: str) -> None:
        """Set the label, which :class:`_Registered` chooses."""
        self.label = label


#: Groups that Java has for each client, and that ``metrics()`` leaves out.
_ALONE: Final = {"app-info", "kafka-metrics-count"}


def windows_of(config: Any) -> Windows:
    """Return the windows that a client's settings describe."""
    return Windows(config.metrics_sample_window_ms / 1000, config.metrics_num_samples)


def values_of(family: Family, scope: Scope, now: float) -> Iterable[tuple[Spec, float | None]]:
    """Return each metric of a scope that is served, with its value."""
    readings: dict[str, list[Reading]] = {}
    for spec in family.specs:
        if spec.reason:
            continue
        source, kind, *rest = spec.source.split()
        if source == "gauge":
            gauge = scope.gauges.get(kind)
            if gauge is not None:
                yield spec, gauge(now)
            continue
        counters = scope.counters.get(source)
        if counters is None:
            continue
        if source not in readings:
            readings[source] = [each.reading(now) for each in counters]
        value = _KINDS[kind](readings[source], rest[0])
        factor = _FACTORS.get(spec.unit, 1.0)
        yield spec, value * factor if factor != 1.0 else value


def _total(readings: Sequence[Reading], field: str) -> float:
    return sum(reading.totals[field] for reading in readings)


def _rate(readings: Sequence[Reading], field: str) -> float:
    return float(sum(reading.growth[field] / reading.seconds for reading in readings))


def _average(readings: Sequence[Reading], fields: str) -> float:
    above, below = fields.split("/")
    divisor = sum(reading.growth[below] for reading in readings)
    return sum(reading.growth[above] for reading in readings) / divisor if divisor else NO_SAMPLE


def _largest(readings: Sequence[Reading], field: str) -> float:
    found = max((reading.peaks[field] for reading in readings), default=-math.inf)
    return NO_SAMPLE if found == -math.inf else found


def _smallest(readings: Sequence[Reading], field: str) -> float:
    return -_largest(readings, field)


_KINDS: Final[Mapping[str, Callable[[Sequence[Reading], str], float]]] = {
    "total": _total,
    "rate": _rate,
    "avg": _average,
    "max": _largest,
    "min": _smallest,
}


def _weak_reader(source: MetricSource) -> Callable[[], list[Metric]]:
    reference = weakref.ref(source)

    def read() -> list[Metric]:
        found = reference()
        return [] if found is None else found.table()

    return read


class _Registered:
    """The clients of this process that are open, by domain and label."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # only clients that are created or closed take it
        self._sources: dict[tuple[str, str], weakref.ref[MetricSource]] = {}

    def add(self, source: MetricSource) -> None:
        with self._lock:
            label, number = source.label, 1
            while self._get((source.domain, label)) is not None:
                number += 1
                label = f"{source.label}-{number}"
            source.relabel(label)
            self._sources[source.domain, label] = weakref.ref(source)

    def discard(self, source: MetricSource) -> None:
        key = (source.domain, source.label)
        if self._get(key) is source:
            self._sources.pop(key, None)

    def all(self) -> list[MetricSource]:
        found = []
        for key, reference in list(self._sources.items()):
            source = reference()
            if source is not None:
                found.append(source)
            elif self._sources.get(key) is reference:
                self._sources.pop(key, None)
        return found

    def _get(self, key: tuple[str, str]) -> MetricSource | None:
        reference = self._sources.get(key)
        return None if reference is None else reference()

    def forget(self) -> None:
        """Forget all clients, in a forked child: they belong to its parent."""
        self._lock = threading.Lock()
        self._sources = {}


_registered: Final = _Registered()


def open_sources() -> list[MetricSource]:
    """Return the metrics of the clients of this process that are not closed."""
    return _registered.all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_registered.forget)
