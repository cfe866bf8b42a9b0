"""Checks of records that are stored and not read: the same on both twins."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from pyconsumer.protocol.records import scan
from pyconsumer.protocol.records.checking import Problem, check_records, record_problems, renumbered
from tests.unit.protocol.records.helpers import TIME, batch, raw_batch

Check = Callable[..., "tuple[int, int]"]

LOWEST, HIGHEST = -(2**63), 2**63 - 1


@pytest.fixture(params=["pure", "native"])
def check(request: pytest.FixtureRequest) -> Check:
    if request.param == "pure":
        return check_records
    native = pytest.importorskip("pyconsumer.protocol.records._native")
    found: Check = native.check_records
    return found


def zigzag(number: int) -> bytes:
    number = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def record(
    offset: int, *, time: int = 0, key: bytes | None = b"k", value: bytes | None = b"v", tail: bytes = b"\0"
) -> bytes:
    body = b"\0" + zigzag(time) + zigzag(offset)
    for data in (key, value):
        body += zigzag(-1) if data is None else zigzag(len(data)) + data
    body += tail
    return zigzag(len(body)) + body


def run(
    check: Check,
    data: bytes,
    *,
    needs_keys: bool = False,
    earliest: int = LOWEST,
    latest: int = HIGHEST,
    needs_order: bool = True,
) -> tuple[int, int]:
    (info,) = scan(data)
    return check(data, 61, len(data), info, needs_keys, earliest, latest, needs_order)


def test_a_good_batch(check: Check) -> None:
    assert run(check, batch(0, 3)) == (-1, TIME + 2)
    assert run(check, batch(7, 2500)) == (-1, TIME + 2506)
    headers = b"\x04" + b"\2h\1" + b"\0\2v"
    assert run(check, raw_batch(record(0, tail=headers, time=-5), 1)) == (-1, TIME - 5)


def test_the_place_of_the_records_in_the_data(check: Check) -> None:
    data = batch(0, 3)
    (info,) = scan(data)
    around = bytearray(b"xx" + data[61:] + b"yy")
    assert check(around, 2, len(around) - 2, info, False, LOWEST, HIGHEST) == (-1, TIME + 2)
    assert check(memoryview(around)[2:], 0, len(around) - 4, info, False, LOWEST, HIGHEST) == (-1, TIME + 2)
    around.append(0)  # refused while anything looks into it


@pytest.mark.parametrize(
    ("payload", "count", "bad", "reason"),
    [
        (b"", 1, 0, "cut off"),
        (random.Random(1).randbytes(300), 3, 0, "length"),
        (record(0) + record(1), 3, 2, "cut off"),
        (record(0) + record(1) + record(2), 2, 2, "left over"),
        (record(0) + b"\0", 1, 1, "left over"),
        (record(0) + record(0), 2, 1, "offset delta is 0 instead of 1"),
        (record(0) + record(2), 2, 1, "offset delta is 2"),
        (record(1) + record(0), 2, 0, "offset delta is 1"),
        (record(-1), 1, 0, "offset delta is -1"),
        (record(0, tail=b"\2\1\1"), 1, 0, "name"),
        (record(0) + record(1, tail=b"\0\0"), 2, 1, "fields"),
        (record(0) + record(1, tail=b"\2"), 2, 1, "header"),
        (record(0, tail=b"\x80\x80\x80\x80\x80\x00"), 1, 0, "32 bits"),
        (record(0) + zigzag(-3) + b"\0" * 10, 2, 1, "length"),
        (record(0) + zigzag(2**31 - 1) + b"\0" * 10, 2, 1, "length"),
    ],
)
def test_damage(check: Check, payload: bytes, count: int, bad: int, reason: str) -> None:
    data = raw_batch(payload, count)
    assert run(check, data) == (bad, TIME if bad else -1)
    (info,) = scan(data)
    (problem,) = record_problems(data, 61, len(data), info, False, LOWEST, HIGHEST)
    assert (problem.number, problem.kind) == (bad, Problem.DAMAGE)
    assert reason in problem.reason


def test_offset_deltas_have_to_be_consecutive(check: Check) -> None:
    assert run(check, raw_batch(record(0) + record(1) + record(3), 3)) == (2, TIME)
    assert run(check, raw_batch(record(1) + record(2), 2)) == (0, -1)
    assert run(check, raw_batch(record(1) + record(0) + record(7), 3), needs_order=False) == (-1, TIME)


def test_a_negative_length_is_null(check: Check) -> None:
    data = raw_batch(b"\x0c\0\0\0\3\5\0" + b"\x10\0\0\2\3\3\2\0\3", 2)
    assert run(check, data) == (-1, TIME)
    assert run(check, data, needs_keys=True) == (0, -1)


def test_records_get_consecutive_offsets() -> None:
    wrong = record(5) + record(1, tail=b"\2\2h\1") + record(-(2**31), key=None)
    (info,) = scan(raw_batch(wrong, 3))
    assert renumbered(wrong, info) == record(0) + record(1, tail=b"\2\2h\1") + record(2, key=None)


def test_keys(check: Check) -> None:
    data = raw_batch(record(0) + record(1, key=None) + record(2, key=b"") + record(3, key=None), 4)
    assert run(check, data) == (-1, TIME)
    assert run(check, data, needs_keys=True) == (1, TIME)
    (info,) = scan(data)
    found = record_problems(data, 61, len(data), info, True, LOWEST, HIGHEST)
    assert [(each.number, each.kind) for each in found] == [(1, Problem.NO_KEY), (3, Problem.NO_KEY)]


def test_bounds_of_timestamps(check: Check) -> None:
    times = [0, 10, -1 - TIME, 11]  # the third is that of a record without a timestamp
    data = raw_batch(b"".join(record(n, time=time) for n, time in enumerate(times)), 4)
    assert run(check, data, earliest=TIME, latest=TIME + 11) == (-1, TIME + 11)
    assert run(check, data, earliest=TIME, latest=TIME + 10) == (3, TIME + 10)
    assert run(check, data, earliest=TIME + 1) == (0, -1)
    (info,) = scan(data)
    found = record_problems(data, 61, len(data), info, False, TIME + 1, TIME + 10)
    assert [(each.number, each.timestamp) for each in found] == [(0, TIME), (3, TIME + 11)]


def test_records_without_timestamps(check: Check) -> None:
    assert run(check, raw_batch(record(0, time=-1 - TIME), 1), earliest=5) == (-1, -1)


def _mutated() -> Iterator[bytes]:
    chance = random.Random(7)
    for number in range(3000):
        data = bytearray(raw_batch(b"".join(record(n, time=n, key=chance.choice((None, b"k"))) for n in range(5)), 5))
        for _ in range(1 + number % 3):
            place = chance.randrange(61, len(data))
            if chance.random() < 0.2:
                del data[place]
                data[8:12] = (len(data) - 12).to_bytes(4, "big")
            else:
                data[place] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        yield bytes(data)


def test_both_implementations_agree() -> None:
    native = pytest.importorskip("pyconsumer.protocol.records._native")
    bad = 0
    for number, data in enumerate(_mutated()):
        needs_keys, needs_order = number % 2 == 0, number % 3 > 0
        bounds = {"needs_keys": needs_keys, "earliest": TIME - 5, "latest": TIME + 100, "needs_order": needs_order}
        expected = run(check_records, data, **bounds)  # type: ignore[arg-type]
        assert run(native.check_records, data, **bounds) == expected, data.hex()
        (info,) = scan(data)
        problems = record_problems(data, 61, len(data), info, needs_keys, TIME - 5, TIME + 100, needs_order)
        assert (problems[0].number if problems else -1) == expected[0]
        bad += expected[0] >= 0
    assert 500 < bad < 3000


def test_a_position_outside_the_data_is_rejected() -> None:
    native = pytest.importorskip("pyconsumer.protocol.records._native")
    data = batch(0, 1)
    (info,) = scan(data)
    for start, end in ((-1, 5), (61, len(data) + 1), (70, 61)):
        with pytest.raises(ValueError, match="part"):
            native.check_records(data, start, end, info, False, 0, 0)
