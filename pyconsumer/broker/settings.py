"""Types, parsing and checks of broker and topic settings.

The settings themselves are tables in :mod:`.config`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple

from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.config import nearest

__all__ = [
    "BrokerSetting",
    "ConfigSource",
    "ConfigType",
    "between",
    "did_you_mean",
    "format_value",
    "one_of",
    "parse_value",
    "some_of",
]

Value = Any
Check = Callable[[Value], "str | None"]

_INT_RANGES = {"INT": (-(2**31), 2**31 - 1), "SHORT": (-(2**15), 2**15 - 1), "LONG": (-(2**63), 2**63 - 1)}


class ConfigType(IntEnum):
    """Types of values, with their numbers in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


#: Values of these types are not shown.
SECRET_TYPES: Final = frozenset((ConfigType.UNKNOWN, ConfigType.PASSWORD))


class ConfigSource(IntEnum):
    """Sources of values, with their numbers in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_GROUP = 8


class BrokerSetting(NamedTuple):
    """A setting of the broker or of a topic, under Kafka's name.

    ``default`` is a parsed value, or None for "not set". ``used`` is False for a setting without effect. Such settings
    are accepted so that the configuration of a Kafka broker can be reused.
    """

    name: str
    type: ConfigType
    default: Value
    doc: str
    check: Check | None = None
    used: bool = True


def between(low: float | None, high: float | None = None) -> Check:
    """Return a function that checks that a number is between two bounds. The bounds are allowed, too."""

    def check(value: Value) -> str | None:
        if low is not None and value < low:
            return f"must be at least {low}"
        if high is not None and value > high:
            return f"must be at most {high}"
        return None

    return check


def one_of(*values: Value) -> Check:
    """Return a function that checks that a value is one of the given values."""

    def check(value: Value) -> str | None:
        return None if value in values else f"must be one of {', '.join(map(str, values))}"

    return check


def some_of(*values: str) -> Check:
    """Return a function that checks that every element of a list is one of the given values. The list may be empty."""

    def check(value: Value) -> str | None:
        return None if all(item in values for item in value) else f"may hold only {', '.join(values)}"

    return check


def parse_value(setting: BrokerSetting, given: object) -> Value:
    """Return the typed value of a setting.

    Args:
        given: the value, as text in Kafka's notation or as a Python value of the right type.

    Raises:
        ConfigurationError: the value cannot be parsed, or is invalid for the setting.
    """
    try:
        value = _parse(setting.type, given)
    except ValueError as error:
        raise ConfigurationError(f"Invalid value {given!r} for configuration {setting.name}: {error}") from None
    problem = setting.check(value) if setting.check is not None else None
    if problem is not None:
        raise ConfigurationError(f"Invalid value {given!r} for configuration {setting.name}: it {problem}")
    return value


def _parse(kind: ConfigType, given: object) -> Value:
    if kind is ConfigType.STRING:
        return str(given)
    if kind is ConfigType.LIST:
        if isinstance(given, str):
            return [item.strip() for item in given.split(",") if item.strip()]
        if isinstance(given, Iterable):
            return [str(item) for item in given]
        raise ValueError("it must be a list, separated by commas")
    if kind is ConfigType.BOOLEAN:
        if isinstance(given, bool):
            return given
        text = str(given).strip().lower()
        if text not in ("true", "false"):
            raise ValueError("it must be true or false")
        return text == "true"
    if isinstance(given, bool):
        raise ValueError("it must be a number")
    if kind is ConfigType.DOUBLE:
        try:
            return float(str(given))
        except ValueError:
            raise ValueError("it must be a number") from None
    try:
        number = int(str(given).strip())
    except ValueError:
        raise ValueError("it must be a whole number") from None
    low, high = _INT_RANGES[kind.name]
    if not low <= number <= high:
        raise ValueError(f"it does not fit into Kafka's type {kind.name.lower()}")
    return number


def format_value(value: Value) -> str | None:
    """Return a value as text in Kafka's notation, or None if it is not set."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(value)
    return str(value)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name, such as " (did you mean ...?)".

    Return an empty text if no known name is similar.
    """
    near = nearest(name, known)
    return "" if near is None else f" (did you mean {near}?)"
