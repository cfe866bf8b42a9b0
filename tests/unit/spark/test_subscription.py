"""The choice of partitions."""

from __future__ import annotations

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.subscription import (
    Assign,
    Subscribe,
    SubscribePattern,
    compile_java_pattern,
    parse_subscription,
)
from pyconsumer.structs import TopicPartition


def test_topics_are_trimmed_and_taken_once() -> None:
    assert parse_subscription({"subscribe": " b , a ,,b"}) == Subscribe(("b", "a"))


def test_partitions() -> None:
    found = parse_subscription({"assign": '{"a":[1,0]}'})
    assert found == Assign((TopicPartition("a", 0), TopicPartition("a", 1)))


@pytest.mark.parametrize("options", [{"subscribe": " , "}, {"assign": "{}"}, {"subscribePattern": " "}])
def test_an_empty_option_is_rejected(options: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        parse_subscription(options)


def test_a_pattern_matches_the_whole_name() -> None:
    matches = SubscribePattern("a.*z").matcher()
    assert matches("abz")
    assert not matches("abzc")
    assert not matches("xabz")


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"\Qa.b\E\d+", "a.b12", "axb12"),
        (r"\Qa.b", "a.b", "axb"),
        (r"\p{Alpha}+-\p{Digit}", "ab-1", "a1-1"),
        (r"[\p{Lower}_]+", "a_b", "A_b"),
        (r"\P{Digit}+", "ab", "a1"),
        (r"(?<name>ab)\k<name>", "abab", "abac"),
        (r"(?i)EVENTS", "events", "event"),
        (r"a++b", "aab", "aa"),
        (r"(?<!x)a|b\z", "b", "c"),
        ("a&&b", "a&&b", "a"),
    ],
)
def test_javas_notation_is_understood(pattern: str, yes: str, no: str) -> None:
    compiled = compile_java_pattern(pattern)
    assert compiled.fullmatch(yes)
    assert not compiled.fullmatch(no)


@pytest.mark.parametrize("pattern", ["(", r"\X", "[a-z&&[^b]]", r"\p{Greek}", r"[\P{Digit}]"])
def test_a_pattern_that_only_java_supports_is_rejected(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="subscribePattern"):
        parse_subscription({"subscribePattern": pattern})
