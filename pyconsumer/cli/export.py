"""``pyconsumer groups export``: the lag of groups for Prometheus, under the names of kafka_exporter.

Groups are looked at when Prometheus scrapes, by one admin client. So a group that was deleted is not in the next
answer, and nothing is asked for between scrapes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pyconsumer.admin import GroupDescription, KafkaAdminClient
from pyconsumer.cli.ending import SIGTERM_STATUS, Terminated, raise_on_sigterm
from pyconsumer.cli.notices import library_warnings
from pyconsumer.cli.options import client_options, connected
from pyconsumer.cli.positions import Row, positions_of
from pyconsumer.errors import GroupIdNotFoundError, KafkaError, KafkaTimeoutError
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["GroupLags", "export"]

R = TypeVar("R")

_UNKNOWN = -1
#: The most partitions that a line on the standard error names.
_MOST_NAMES = 3
#: The metrics of kafka_exporter for groups, with their labels.
_METRICS = {
    "kafka_consumergroup_current_offset": (
        "The committed offset of a group. -1 without one.",
        ("consumergroup", "topic", "partition"),
    ),
    "kafka_consumergroup_current_offset_sum": (
        "The sum of a group's committed offsets of a topic.",
        ("consumergroup", "topic"),
    ),
    "kafka_consumergroup_lag": (
        "Records behind a group's committed offset. -1 if that is unknown.",
        ("consumergroup", "topic", "partition"),
    ),
    "kafka_consumergroup_lag_sum": ("The sum of a group's known lags of a topic.", ("consumergroup", "topic")),
    "kafka_consumergroup_lag_seconds": (
        "The age of a group's first uncommitted record. -1 if that is unknown.",
        ("consumergroup", "topic", "partition"),
    ),
    "kafka_consumergroup_members": ("Members of a group.", ("consumergroup",)),
}
_UP = "pyconsumer_groups_up"
#: Types of groups that have no committed offsets of a consumer.
_OTHER_TYPES = ("share", "streams")


class GroupLags:
    """Looks at groups when it is asked for metrics. A collector of ``prometheus-client``.

    Args:
        admin: is used by one scrape at a time.
        include, exclude: patterns of group ids, which must match in full.
        lag_time: True adds the lag as time, by a fetch of each partition with a lag.
        timeout_ms: longest time of each request. A scrape waits as long for the one before it, so they do not pile up
            while the cluster is down.
    """

    def __init__(
        self, admin: KafkaAdminClient, include: str, exclude: str, timeout_ms: int, *, lag_time: bool = False
    ) -> None:
        self._admin = admin
        self._include, self._exclude = re.compile(include), re.compile(exclude)
        self._timeout_ms = timeout_ms
        self._lag_time = lag_time
        self._lock = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Return nothing: a registry that asked for the names would look at all groups."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of all groups that exist now. If the cluster does not answer, only that it is so."""
        from prometheus_client.core import GaugeMetricFamily

        families: dict[str, Any] = {
            name: GaugeMetricFamily(name, text, labels=labels) for name, (text, labels) in _METRICS.items()
        }
        up = GaugeMetricFamily(_UP, "1 if the cluster has answered this scrape, otherwise 0.")
        try:
            for group, rows in self._look_alone():
                _add(families, group, rows, lag_time=self._lag_time)
            up.add_metric((), 1)
            yield from (family for family in families.values() if family.samples)
        except KafkaError as error:
            click.echo(f"Error: {error}", err=True)
            up.add_metric((), 0)
        yield up

    def _look_alone(self) -> list[tuple[GroupDescription, list[Row]]]:
        if not self._lock.acquire(timeout=self._timeout_ms / 1000):
            raise KafkaTimeoutError("the scrape before this one has not ended")
        try:
            return self._look()
        finally:
            self._lock.release()

    def _look(self) -> list[tuple[GroupDescription, list[Row]]]:
        found = positions_of(self._admin, self._names(), self._timeout_ms, lag_time=self._lag_time)
        good = list(_good(found).values())
        rows = [row for _, of_group in good for row in of_group]
        _report_unknown("end of", ((row.reason, row.partition) for row in rows))
        _report_unknown("lag time of", ((row.lag_time_reason, row.partition) for row in rows))
        return good

    def _names(self) -> list[str]:
        return [
            listed.group_id
            for listed in self._admin.list_groups(timeout_ms=self._timeout_ms)
            if listed.group_type.lower() not in _OTHER_TYPES
            and self._include.fullmatch(listed.group_id)
            and not self._exclude.fullmatch(listed.group_id)
        ]


def _good(results: Mapping[str, R | KafkaError]) -> dict[str, R]:
    """Return the results of groups. Errors are printed, apart from those of groups that were deleted just now.

    Raises:
        KafkaError: no group has a result.
    """
    good = {name: one for name, one in results.items() if not isinstance(one, KafkaError)}
    errors = [
        one for one in results.values() if isinstance(one, KafkaError) and not isinstance(one, GroupIdNotFoundError)
    ]
    if errors and not good:
        raise errors[0]
    for text in sorted({str(error) for error in errors}):
        click.echo(f"Error: {text}", err=True)
    return good


def _report_unknown(value: str, reasons: Iterable[tuple[str | None, TopicPartition]]) -> None:
    """Print one line for each reason, with the first partitions that have it."""
    by_reason: dict[str, list[TopicPartition]] = {}
    for reason, partition in sorted({(reason, partition) for reason, partition in reasons if reason}):
        by_reason.setdefault(reason, []).append(partition)
    for reason, partitions in by_reason.items():
        names = ", ".join(map(str, partitions[:_MOST_NAMES]))
        more = len(partitions) - _MOST_NAMES
        click.echo(f"Error: {value} {names}{f' and {more:,} more' if more > 0 else ''} unknown: {reason}", err=True)


def _add(families: dict[str, Any], group: GroupDescription, rows: list[Row], *, lag_time: bool) -> None:
    name = group.group_id
    sums: dict[str, tuple[int, int]] = {}
    families["kafka_consumergroup_members"].add_metric((name,), len(group.members))
    for row in rows:
        topic, partition = row.partition
        labels = (name, topic, str(partition))
        offset = _UNKNOWN if row.committed is None else row.committed
        lag = _UNKNOWN if row.lag is None else row.lag
        families["kafka_consumergroup_current_offset"].add_metric(labels, offset)
        families["kafka_consumergroup_lag"].add_metric(labels, lag)
        if lag_time:
            age = _UNKNOWN if row.lag_time is None else row.lag_time
            families["kafka_consumergroup_lag_seconds"].add_metric(labels, age)
        offsets, lags = sums.get(topic, (0, 0))
        sums[topic] = offsets + max(0, offset), lags + max(0, lag)
    for topic, (offsets, lags) in sums.items():
        families["kafka_consumergroup_current_offset_sum"].add_metric((name, topic), offsets)
        families["kafka_consumergroup_lag_sum"].add_metric((name, topic), lags)


def _pattern(_ctx: click.Context, _parameter: click.Parameter, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}") from None
    return text


@click.command("export")
@connected
@click.option("--port", type=click.IntRange(0, 65535), default=9308, show_default=True, help="0 chooses a free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--group", "include", default=".*", show_default=True, callback=_pattern, help="Regular expression.")
@click.option("--exclude", default="", callback=_pattern, help="Regular expression of groups to leave out.")
@click.option("--lag-time", is_flag=True, help="Also the age of the first uncommitted record.")
def export(
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    port: int,
    host: str,
    include: str,
    exclude: str,
    lag_time: bool,
) -> None:
    """Serve the lag of groups to Prometheus until Ctrl-C, under the names of kafka_exporter.

    Each scrape looks at the groups that exist then. The patterns must match the whole name of a group.
    """
    try:
        from pyconsumer.metrics.prometheus import serve_collector
    except ImportError:
        raise click.ClickException("this needs prometheus-client: pip install pyconsumer[prometheus]") from None
    try:
        with (
            raise_on_sigterm(),
            library_warnings(),
            KafkaAdminClient(client_options(servers, settings)) as admin,
        ):
            admin.describe_cluster(timeout_ms=timeout_ms)
            try:
                lags = GroupLags(admin, include, exclude, timeout_ms, lag_time=lag_time)
                server = serve_collector(lags, port, host)
            except OSError as error:
                raise click.ClickException(f"cannot listen on {host}:{port}: {error.strerror}") from None
            with server:
                click.echo(f"serving http://{host}:{server.port}/metrics")
                threading.Event().wait()
    except Terminated:
        raise SystemExit(SIGTERM_STATUS) from None
