"""Reads values of options in Spark's notation. Functions without state.

Each ``read_*`` returns its default if the option is not given, and raises ConfigurationError for an invalid value. The
error names the option and the valid values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, overload

from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.config import nearest

__all__ = [
    "MAX_INT64",
    "read_duration_ms",
    "read_flag",
    "read_number",
    "read_size",
    "read_text",
    "read_word",
    "split_options",
]

MAX_INT64: Final = 0x7FFFFFFFFFFFFFFF
_PREFIX: Final = "kafka."
#: Microseconds by Spark's units; a time without a unit is in ms.
_TIME_UNITS: Final = {
    "": 1000,
    "us": 1,
    "ms": 1000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_SIZE_UNITS: Final = {
    "": 1,
    "b": 1,
    **{f"{unit}{end}": 1024**power for power, unit in enumerate("kmgt", 1) for end in ("", "b")},
}


def split_options(
    options: Mapping[str, str], known: Iterable[str], hints: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the ``kafka.*`` options without this prefix, and the other options in their usual spelling.

    Args:
        known: the names of the other options.
        hints: advice for names (in lower case) that are often used by mistake.

    Raises:
        ConfigurationError: an option is unknown.
    """
    spelling = {name.lower(): name for name in known}
    client: dict[str, str] = {}
    own: dict[str, str] = {}
    for key, value in options.items():
        name = key.lower()
        if name.startswith(_PREFIX):
            client[name.removeprefix(_PREFIX)] = value
        elif name in spelling:
            own[spelling[name]] = value
        else:
            raise ConfigurationError(_unknown(name, spelling, hints))
    return client, own


def _unknown(name: str, spelling: Mapping[str, str], hints: Mapping[str, str]) -> str:
    text = f"unknown option {name!r} of format pyconsumer"
    if name in hints:
        return f"{text}: {hints[name]}"
    near = nearest(name, spelling)
    return text if near is None else f"{text}; did you mean {spelling[near]!r}?"


def read_text(own: Mapping[str, str], name: str) -> str | None:
    """Return a text that is not empty, or None."""
    text = own.get(name)
    if text is not None and not text.strip():
        raise ConfigurationError(f"option {name} must not be empty")
    return None if text is None else text.strip()


def read_duration_ms(own: Mapping[str, str], name: str, default: int) -> int:
    """Read a time in Spark's notation: a number of ms, or a number with a unit. Return ms."""
    text = own.get(name)
    if text is None:
        return default
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _TIME_UNITS:
        raise ConfigurationError(f"option {name} must be a time such as 500ms, 10s or 15m, not {text!r}")
    return int(match[1]) * _TIME_UNITS[match[2]] // 1000


def read_size(own: Mapping[str, str], name: str) -> int | None:
    """Read a number of bytes in Spark's notation: a number, or a number with a unit."""
    text = own.get(name)
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _SIZE_UNITS or not int(match[1]):
        raise ConfigurationError(f"option {name} must be a number of bytes such as 1000000 or 64m, not {text!r}")
    unit: int = _SIZE_UNITS[match[2]]
    return int(match[1]) * unit


def read_flag(own: Mapping[str, str], name: str, default: bool) -> bool:
    """Read ``true`` or ``false``."""
    text = own.get(name)
    if text is None:
        return default
    found = {"true": True, "false": False}.get(text.strip().lower())
    if found is None:
        raise ConfigurationError(f"option {name} must be true or false, not {text!r}")
    return found


def read_word(own: Mapping[str, str], name: str, default: str, words: Iterable[str]) -> str:
    """Read a word out of ``words``, in upper or lower case. Return it in lower case."""
    text = own.get(name, default).strip().lower()
    if text not in words:
        raise ConfigurationError(f"option {name} must be {' or '.join(words)}, not {own[name]!r}")
    return text


@overload
def read_number(
    own: Mapping[str, str], name: str, least: int, default: None = None, *, most: int = 0x7FFFFFFF
) -> int | None: ...


@overload
def read_number(own: Mapping[str, str], name: str, least: int, default: int, *, most: int = 0x7FFFFFFF) -> int: ...


def read_number(
    own: Mapping[str, str], name: str, least: int, default: int | None = None, *, most: int = 0x7FFFFFFF
) -> int | None:
    """Read a whole number between ``least`` and ``most``."""
    text = own.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        raise ConfigurationError(f"option {name} must be a whole number, not {text!r}") from None
    if not least <= number <= most:
        raise ConfigurationError(f"option {name} must be at least {least} and at most {most}, not {number}")
    return number
