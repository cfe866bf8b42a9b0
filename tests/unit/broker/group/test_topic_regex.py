"""Regular expressions over topic names: RE2's syntax, in linear time. Other syntax is rejected."""

from __future__ import annotations

import re
import time

import pytest

from pyconsumer.broker.group.consumer import topic_regex
from pyconsumer.broker.group.consumer.topic_regex import compile_topic_regex
from pyconsumer.errors import InvalidRegularExpressionError

NAMES = [
    "",
    "orders",
    "orders-eu",
    "Orders.eu",
    "a",
    "b",
    "aa",
    "ab",
    "abab",
    "x_1",
    "x-22",
    "tmp.orders",
    "a+b",
    "-",
    "9",
]


@pytest.fixture(autouse=True)
def _ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_regex, "re2", None)


@pytest.mark.parametrize(
    "pattern",
    [
        "orders",
        "orders.*",
        ".*",
        "",
        "a|b",
        "(ab)+",
        "(?:ab){2}",
        "a{0,2}",
        "a{1,}b?",
        "[a-z]+",
        "[^a-z]*",
        r"x[_-]\d+",
        r"\w+",
        r"\W",
        r"tmp\..*",
        "^orders$",
        r"\Aorders\z",
        "(?i)ORDERS.*",
        "(?i:o)rders",
        "a??b",
        r"a\+b",
        "[+a]+b",
        "[]a]+",
        "[a-]+",
        "(?P<name>a)b",
        "a|",
        "(|a)b",
        "((a|b)*)*",
        "[\\d]+",
        "a{,2}",
    ],
)
def test_it_matches_as_python_does(pattern: str) -> None:
    python = pattern.replace(r"\z", r"\Z").replace("a{,2}", r"a\{,2\}")
    matches = compile_topic_regex(pattern)
    assert [name for name in NAMES if matches(name)] == [name for name in NAMES if re.fullmatch(python, name)]


def test_syntax_that_python_does_not_have() -> None:
    assert compile_topic_regex(r"\Qa+b\E.*")("a+bc")
    assert compile_topic_regex("[[:alpha:]]+")("abc")
    assert not compile_topic_regex("[[:^alpha:]]+")("abc")
    assert compile_topic_regex("(?U)a+")("aaa")


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a)",
        "[a",
        "[z-a]",
        "*",
        "+a",
        "a**",
        "a{1001}",
        "a{2,1}",
        "\\",
        r"\1",
        "(?=a)",
        "(?!a)",
        "(?<=a)b",
        r"\pL",
        "(?z)",
        "(?P<>a)",
        "((((a{100}){100}){100}){100})",
        "(" * 300 + ")" * 300,
    ],
)
def test_invalid_expressions_are_rejected(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpressionError, match="is not a valid regular expression: "):
        compile_topic_regex(pattern)


def test_no_expression_makes_matching_slow() -> None:
    matches = compile_topic_regex("(a*)*(a|aa)+(a+a+)+b")
    started = time.process_time()
    assert not matches("a" * 249)
    assert time.process_time() - started < 5
