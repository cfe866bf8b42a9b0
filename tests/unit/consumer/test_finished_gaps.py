"""The text in a commit's metadata that names the records above the offset that are finished."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyconsumer.consumer.finished_gaps import decode_finished, encode_finished


@given(
    offset=st.integers(0, 1 << 62),
    lengths=st.lists(st.tuples(st.integers(1, 1 << 20), st.integers(1, 1 << 20)), max_size=50),
)
@settings(max_examples=100)
def test_runs_come_back_as_they_were(offset: int, lengths: list[tuple[int, int]]) -> None:
    runs = []
    position = offset
    for unfinished, finished in lengths:
        runs.append((position + unfinished, position + unfinished + finished))
        position += unfinished + finished
    assert decode_finished(offset, encode_finished(offset, runs)) == runs


def test_a_long_text_loses_the_runs_at_its_end() -> None:
    runs = [(100 + 1000 * n, 200 + 1000 * n) for n in range(10_000)]
    text = encode_finished(0, runs)
    assert 2_900 < len(text) <= 3_000
    kept = decode_finished(0, text)
    assert kept == runs[: len(kept)]
    assert len(kept) > 500


def test_no_runs_are_no_text() -> None:
    assert encode_finished(7, []) == ""
    assert decode_finished(7, "") == []


@pytest.mark.parametrize("metadata", ["mine", "AQAAAAA=", base64.b64encode(b"\1" * 20).decode(), "é", "A" * 5])
def test_metadata_of_others_names_nothing(metadata: str) -> None:
    assert decode_finished(3, metadata) == []


def test_the_text_counts_for_its_offset_and_version_alone() -> None:
    text = encode_finished(10, [(12, 15)])
    assert decode_finished(10, text) == [(12, 15)]
    assert decode_finished(11, text) == []
    newer = bytearray(base64.b64decode(text))
    newer[0] = 2
    assert decode_finished(10, base64.b64encode(newer).decode()) == []
