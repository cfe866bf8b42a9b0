"""Records as lines and back: formats, and JSON without loss."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyconsumer import ConsumerRecord
from pyconsumer.cli.record_lines import TOKENS, as_document, compile_format, from_document, plain_format

RECORD = ConsumerRecord("orders", 3, 17, 1234, 0, b"k", b"v\xff", [("a", b"1"), ("b", None), ("a", b"\xff")], 5)
TOMBSTONE = ConsumerRecord("orders", 3, 18, 1234, 0, None, None, [], 5)

data = st.one_of(st.none(), st.binary(max_size=20), st.text(max_size=10).map(lambda text: text.encode()))
names = st.text(st.characters(blacklist_categories=["Cs"]), max_size=10)


@settings(deadline=None)
@given(
    key=data,
    value=data,
    headers=st.lists(st.tuples(names, data), max_size=4),
    timestamp=st.integers(-1, 2**63 - 1),
    binary=st.sampled_from(["base64", "hex"]),
)
def test_a_record_written_as_json_is_read_as_the_same_record(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    timestamp: int,
    binary: str,
) -> None:
    record = ConsumerRecord("t", 1, 2, timestamp, 0, key, value, headers, 5)
    line = json.dumps(as_document(record, binary), ensure_ascii=False).encode()
    assert b"\n" not in line
    found = from_document(line)
    assert (found.key, found.value, found.headers, found.partition) == (key, value, headers, 1)
    assert found.timestamp_ms == (None if timestamp == -1 else timestamp)


def test_text_is_a_string_and_bytes_are_an_object() -> None:
    assert as_document(RECORD, "base64") == {
        "topic": "orders",
        "partition": 3,
        "offset": 17,
        "timestamp": 1234,
        "key": "k",
        "value": {"base64": "dv8="},
        "headers": [["a", "1"], ["b", None], ["a", {"base64": "/w=="}]],
    }
    assert as_document(RECORD, "hex")["value"] == {"hex": "76ff"}
    assert (as_document(TOMBSTONE, "hex")["key"], as_document(TOMBSTONE, "hex")["value"]) == (None, None)


def test_a_line_may_be_short() -> None:
    assert from_document(b'{"value": "v"}\r\n') == (None, b"v", [], None, None)
    assert from_document(b'{"value": null, "key": "k", "headers": {"a": "1"}}').headers == [("a", b"1")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[1]", "it must be an object such as"),
        ('{"key": "k"}', "For a tombstone it must be null"),
        ('{"valu": "v"}', "there is no field 'valu'. The fields are topic,"),
        ('{"value": 1}', "the value must be a string, null,"),
        ('{"value": {"a": 1}}', "a nested JSON document must be a string"),
        ('{"value": {"hex": "0"}}', "the value is not valid hex"),
        ('{"value": {"base64": "="}}', "the value is not valid base64"),
        ('{"value": {"base64": 5}}', "the value must be"),
        ('{"value": "v", "key": []}', "the key must be"),
        ('{"value": "v", "headers": "a"}', "headers must be a list"),
        ('{"value": "v", "headers": [["a"]]}', "a header must be [name, value]"),
        ('{"value": "v", "headers": [["a", 1]]}', "header 'a' must be"),
        ('{"value": "v", "timestamp": -2}', "timestamp must be a whole number"),
        ('{"value": "v", "timestamp": true}', "timestamp must be a whole number"),
        ('{"value": "v", "partition": 1.5}', "partition must be a whole number"),
        ('{"value": "\\ud800"}', "half of a surrogate pair"),
        ('{"value": "v", "headers": [["\\ud800", "a"]]}', "the name of a header contains half"),
    ],
)
def test_an_invalid_line_names_the_reason(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        from_document(line.encode())
    assert len(str(caught.value)) < 300


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(ValueError, match="it is not UTF-8 text"):
        from_document(b'{"value": "\xff"}')


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("%k %v\\n", b"k v\xff\n"),
        ("%t-%p@%o %T %h", b"orders-3@17 1234 a=1,b=,a=\xff"),
        ("%s %S %K %V %%", b"v\xff 2 1 2 %"),
        ("a\\tb\\x41\\r\\0\\\\é", b"a\tbA\r\0\\\xc3\xa9"),
        ("\udcff", b"\xff"),
        ("", b""),
    ],
)
def test_formats(form: str, line: bytes) -> None:
    assert compile_format(form)(RECORD) == line


def test_missing_fields_in_a_format() -> None:
    assert compile_format("%k|%v|%K|%V|%h")(TOMBSTONE) == b"||-1|-1|"


@pytest.mark.parametrize("form", ["%q", "%", "abc%", "\\q", "\\", "\\x4"])
def test_formats_that_are_wrong(form: str) -> None:
    with pytest.raises(ValueError, match=r"is not an? (token|escape)"):
        compile_format(form)


def test_plain_lines() -> None:
    assert plain_format(keys=False, headers=False)(RECORD) == b"v\xff\n"
    assert plain_format(keys=True, headers=True)(RECORD) == b"a=1,b=,a=\xff\tk\tv\xff\n"
    assert set(TOKENS) == set("tpokvshTKVS")
