"""Tests of the functions of the Python clients: counting, checking, and percentiles."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from crc32c import crc32c

from tests.benchmarks.client_program import Tally, check_headers, peak_bytes, summary
from tests.benchmarks.clients import CLIENTS, Client, Got, PyConsumerColumns
from tests.benchmarks.producers import checksum


class Scripted(Client):
    """Returns prepared values."""

    note: ClassVar[str] = ""
    package: ClassVar[str] = ""

    def open(self) -> None:
        pass

    def headers(self, record: Any) -> Any:
        return record


def test_a_tally_carries_on_a_checksum_of_each_partition() -> None:
    tally = Tally(2, 4)
    tally.add(Got(0, [b"a", b"bc"], [b"k1", b"k2"]))
    tally.add(Got(1, [b"x"], ()))
    assert tally.more
    tally.add(Got(0, [b"d"], [b"k3"]))
    assert not tally.more
    assert (tally.count, tally.size_bytes) == (4, 5)
    assert tally.checksums == [crc32c(b"abcd"), crc32c(b"x")]
    assert tally.key_checksums == [crc32c(b"k1k2k3"), 0]


@pytest.mark.slow
def test_columns_and_lists_give_the_same() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    values, keys = [b"one", b"", b"three", b"four"], [b"1", b"2", b"3", b"4"]
    columns, lists = Tally(1, 4), Tally(1, 4)
    lists.add(Got(0, values, keys))
    for start, end in ((0, 1), (1, 4)):
        part = slice(start, end)
        columns.add(Got(0, pyarrow.array(values)[part], pyarrow.array(keys)[part]))
    assert columns.checksums == lists.checksums
    assert columns.key_checksums == lists.key_checksums
    assert (columns.count, columns.size_bytes) == (lists.count, lists.size_bytes)


@pytest.mark.slow
def test_columns_are_split_by_partition() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    batch = pyarrow.RecordBatch.from_pydict(
        {"partition": [2, 2, 0, 1, 1], "value": [b"a", b"b", b"c", b"d", b"e"], "key": [b"1", b"2", b"3", b"4", b"5"]}
    )

    class Buffered:
        def poll_arrow(self, **_: Any) -> Any:
            return batch

    client = PyConsumerColumns.__new__(PyConsumerColumns)
    client.consumer, client.keyed, client._columns = Buffered(), True, []  # type: ignore[assignment]
    found = [(got.partition, got.values.to_pylist(), got.keys.to_pylist()) for got in client.poll(1.0)]
    assert found == [(2, [b"a", b"b"], [b"1", b"2"]), (0, [b"c"], [b"3"]), (1, [b"d", b"e"], [b"4", b"5"])]


def test_wrong_headers_are_found() -> None:
    client = Scripted("", "", 1)
    good: Any = (("source", b"benchmark"), ("id", b"7"))
    assert check_headers(client, Got(0, [b"v"], [b"7"], [good])) == 1
    for bad in ((), good[:1], (good[0], ("id", b"8")), good[::-1]):
        with pytest.raises(ValueError, match="headers of the record with key"):
            check_headers(client, Got(0, [b"v"], [b"7"], [bad]))


def test_percentiles() -> None:
    found = summary([number / 1000 for number in range(1000, 0, -1)])
    assert found == pytest.approx({"p50_ms": 501, "p99_ms": 991, "p999_ms": 1000, "max_ms": 1000})
    assert summary([0.002])["p99_ms"] == pytest.approx(2)


def test_the_checksum_of_produced_records() -> None:
    values = [b"a", b"b", b"c"]
    assert checksum(values, 7) == 2 * sum(map(crc32c, values)) + crc32c(b"a")


def test_a_process_reports_its_peak() -> None:
    assert peak_bytes() > 1 << 20


def test_every_client_has_a_note() -> None:
    for name, client in CLIENTS.items():
        assert name.startswith(client.package)
        assert client.note
