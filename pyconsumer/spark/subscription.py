"""The options ``assign``, ``subscribe`` and ``subscribePattern``.

They are immutable values. Patterns are regular expressions of Java, translated into Python's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.offsets_json import parse_partitions
from pyconsumer.structs import TopicPartition

__all__ = ["Assign", "Subscribe", "SubscribePattern", "Subscription", "compile_java_pattern", "parse_subscription"]


@dataclass(frozen=True)
class Assign:
    """A subscription to some partitions."""

    partitions: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        return f"assign[{', '.join(map(str, self.partitions))}]"


@dataclass(frozen=True)
class Subscribe:
    """A subscription to all partitions of some topics."""

    topics: tuple[str, ...]

    def __str__(self) -> str:
        return f"subscribe[{', '.join(self.topics)}]"


@dataclass(frozen=True)
class SubscribePattern:
    """A subscription to the topics whose whole name matches a regular expression in Java's notation."""

    pattern: str

    def __str__(self) -> str:
        return f"subscribePattern[{self.pattern}]"

    def matcher(self) -> Callable[[str], bool]:
        """Return a function that tells whether a topic matches."""
        compiled = compile_java_pattern(self.pattern)
        return lambda topic: compiled.fullmatch(topic) is not None


Subscription = Assign | Subscribe | SubscribePattern


def parse_subscription(options: Mapping[str, str]) -> Subscription:
    """Read the subscription from ``assign``, ``subscribe`` or ``subscribePattern``.

    Raises:
        ConfigurationError: none or several of the three options are given, or the given one is empty or invalid.
    """
    given = [name for name in ("assign", "subscribe", "subscribePattern") if options.get(name) is not None]
    if not given:
        raise ConfigurationError(
            "no topics to read are given: one of the options subscribe, subscribePattern and assign is required"
        )
    if len(given) > 1:
        raise ConfigurationError(
            f"only one of the options subscribe, subscribePattern and assign may be given, not {' and '.join(given)}"
        )
    text = options[given[0]].strip()
    if given[0] == "assign":
        return Assign(tuple(parse_partitions("assign", text)))
    if given[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise ConfigurationError("option subscribe names no topic. It should look like topicA,topicB")
        return Subscribe(topics)
    if not text:
        raise ConfigurationError("option subscribePattern is empty. It should look like topic-.*")
    compile_java_pattern(text)
    return SubscribePattern(text)


# Java's character classes as members of a set; topic names contain only ASCII letters, digits, '.', '_' and '-'.
_CLASSES: Final = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "punct": r"._\-",
    "isalphabetic": "a-zA-Z",
    "isdigit": "0-9",
    "isuppercase": "A-Z",
    "islowercase": "a-z",
    "l": "a-zA-Z",
    "lu": "A-Z",
    "ll": "a-z",
    "n": "0-9",
    "nd": "0-9",
}
_SPECIAL: Final = re.compile(
    r"""\\Q(?P<literal>.*?)(?:\\E|$) | \\(?P<class>[pP])(?:\{(?P<long>\w+)\}|(?P<short>\w))
      | \\k<(?P<back>\w+)> | \\(?P<escape>[zhGRX]) | \\(?P<other>.) | (?P<group>\(\?<(?=[a-zA-Z])) | (?P<and>&&)""",
    re.VERBOSE | re.DOTALL,
)


def compile_java_pattern(text: str) -> re.Pattern[str]:
    r"""Compile a regular expression that was written for Java.

    Most of the syntax is the same in Python. This function translates ``\Q...\E``, classes such as ``\p{Alpha}``,
    ``(?<name>``, ``\k<name>`` and ``\z``.

    Raises:
        ConfigurationError: the expression is invalid, or uses syntax that Python lacks (sets with ``&&``, ``\X``).
    """

    def rewrite(match: re.Match[str]) -> str:
        found = match.groupdict()
        if found["literal"] is not None:
            return re.escape(found["literal"])
        if found["class"]:
            members = _CLASSES.get((found["long"] or found["short"]).lower())
            if members is None:
                raise ValueError(f"{match[0]} is not supported")
            if _inside_set(text, match.start()):
                if found["class"] == "P":
                    raise ValueError(f"{match[0]} is not supported within a set")
                return members
            return f"[{'^' if found['class'] == 'P' else ''}{members}]"
        if found["back"]:
            return f"(?P={found['back']})"
        if found["group"]:
            return "(?P<"
        if found["escape"] == "z":
            return r"\Z"
        if found["escape"] or (found["and"] and _inside_set(text, match.start())):
            raise ValueError(f"{match[0]} is not supported")
        return match[0]

    try:
        return re.compile(_SPECIAL.sub(rewrite, text))
    except (re.error, ValueError) as error:
        raise ConfigurationError(f"option subscribePattern: {text!r} cannot be used: {error}") from None


def _inside_set(text: str, position: int) -> bool:
    """Return whether a position is between square brackets."""
    inside, escaped = False, False
    for char in text[:position]:
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "[":
            inside = True
        elif char == "]":
            inside = False
    return inside
