"""Splitting a stream into frames."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyconsumer.errors import ProtocolError
from pyconsumer.network import frames
from pyconsumer.network.frames import FrameReader, looks_like_tls


def stream_of(bodies: list[bytes]) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def feed(reader: FrameReader, data: bytes, sizes: list[int] | None = None) -> list[bytes]:
    """Feed bytes in reads of the given sizes, then of any size. Return the frames."""
    found: list[bytes] = []
    left = list(sizes or [])
    while data:
        buffer = reader.buffer()
        count = min(len(buffer), len(data), left.pop(0) if left else len(data))
        buffer[:count] = data[:count]
        buffer.release()
        data = data[count:]
        found += [bytes(frame) for frame in reader.advance(count)]
    return found


@given(
    st.lists(st.binary(max_size=6000) | st.integers(4000, 12_000).map(bytes), max_size=6),
    st.lists(st.integers(1, 9000), max_size=40),
)
def test_frames_are_the_same_for_any_sizes_of_reads(bodies: list[bytes], sizes: list[int]) -> None:
    reader = FrameReader()
    assert feed(reader, stream_of(bodies), sizes) == bodies
    assert not reader.inside_frame


def test_several_short_frames_come_with_one_read() -> None:
    reader = FrameReader()
    data = stream_of([b"one", b"", b"three"])
    buffer = reader.buffer()
    buffer[: len(data)] = data
    buffer.release()
    assert [bytes(frame) for frame in reader.advance(len(data))] == [b"one", b"", b"three"]


def test_the_rest_of_a_large_frame_is_read_into_the_frame_itself() -> None:
    reader = FrameReader()
    size = 1 << 20
    head = size.to_bytes(4, "big") + b"x" * 96
    assert feed(reader, head) == []
    assert reader.inside_frame
    buffer = reader.buffer()
    assert len(buffer) == size - 96
    buffer[:] = b"y" * len(buffer)
    buffer.release()
    (frame,) = reader.advance(size - 96)
    assert bytes(frame[:97]) == b"x" * 96 + b"y"


@pytest.mark.parametrize("size", [-1, 101, 0x7FFFFFFF])
def test_a_size_out_of_bounds_is_rejected_before_an_allocation(size: int) -> None:
    reader = FrameReader(100)
    with pytest.raises(ProtocolError, match=str(size)):
        feed(reader, size.to_bytes(4, "big", signed=True))


def test_an_announced_size_is_believed_only_as_far_as_its_bytes_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_TRUSTED", 10_000)
    reader = FrameReader()
    body = bytes(range(256)) * 300
    data = stream_of([body])
    assert feed(reader, data[:9000]) == []
    assert len(reader.buffer()) <= 10_000
    assert feed(reader, data[9000:]) == [body]
    assert not reader.inside_frame


def test_the_head_of_an_unfinished_stream_is_there_for_messages() -> None:
    reader = FrameReader()
    feed(reader, b"HT")
    assert reader.head == b"HT"


def read_frame(reader: FrameReader, body: bytes) -> bytearray:
    """One frame, as the reader returns it."""
    data, found = stream_of([body]), []
    while data:
        buffer = reader.buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        buffer.release()
        data = data[count:]
        found += reader.advance(count)
    (frame,) = found
    return frame


@pytest.mark.parametrize("size", [90_000, 100_000, 110_000, 199_999])
def test_the_memory_of_a_large_frame_is_reused(size: int) -> None:
    reader = FrameReader()
    first = read_frame(reader, b"a" * 100_000)
    assert first == b"a" * 100_000
    second = read_frame(reader, b"b" * size)
    assert second is first
    assert second == b"b" * size


def test_the_memory_of_a_frame_with_views_is_left_alone() -> None:
    reader = FrameReader()
    view = memoryview(read_frame(reader, b"a" * 100_000))[5_000:6_000]
    second = memoryview(read_frame(reader, b"b" * 100_000))
    third = read_frame(reader, b"c" * 100_000)
    assert (view, second, third) == (b"a" * 1_000, b"b" * 100_000, b"c" * 100_000)
    view.release()
    assert read_frame(reader, b"d" * 100_000) is third


@pytest.mark.parametrize("sizes", [(100_000, 40_000), (100_000, 300_000), (1_000, 1_000), (18 << 20, 18 << 20)])
def test_memory_that_is_much_too_large_or_small_is_not_kept(sizes: tuple[int, int]) -> None:
    reader = FrameReader()
    first, second = (read_frame(reader, bytes(size)) for size in sizes)
    assert second is not first
    assert (len(first), len(second)) == sizes


def test_a_closed_reader_has_no_memory_of_frames() -> None:
    reader = FrameReader()
    frame = read_frame(reader, bytes(100_000))
    view = reader.buffer()
    view[:4] = (100_000).to_bytes(4, "big")
    view.release()
    reader.advance(4)
    references = sys.getrefcount(frame)
    assert reader.inside_frame

    reader.close()

    assert not reader.inside_frame
    assert sys.getrefcount(frame) < references


def test_the_first_bytes_of_tls_are_recognized() -> None:
    assert looks_like_tls(b"\x15\x03\x03")
    assert looks_like_tls(b"\x16\x03\x01")
    assert not looks_like_tls(b"\x15")
    assert not looks_like_tls(b"HTTP")
