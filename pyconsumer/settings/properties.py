"""Reads settings from properties files and environment variables.

Rules
1. Precedence: arguments of the program (or the command line), then the environment, then the file, then the defaults.
2. A variable ``PYCONSUMER_`` and a setting's name in capitals, such as ``PYCONSUMER_GROUP_ID``, gives that setting.
   Only ``from_file`` and the command look at the environment. A client that is made by its constructor never does.
3. One file, and one environment, may serve several clients: a setting that only another client has is left out. One
   that no client has is an error in a file. Variables may belong to others (container platforms set some by
   themselves): those that name no setting are ignored, with a warning if the name is nearly that of a setting.
4. Every error names the file and line, or the variable, and never a secret value.

Files and variables keep passwords out of the command line, which every user of the machine can read.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.config import CLIENT_SETTINGS, Settings, nearest
from pyconsumer.settings.foreign_names import SWITCHED_OFF

__all__ = [
    "CONFIG_VARIABLE",
    "OTHERS",
    "PREFIX",
    "Entry",
    "configured_file",
    "environment_entries",
    "file_entries",
    "from_file",
    "read_properties",
    "resolve",
]

_log = logging.getLogger("pyconsumer.config")

PREFIX: Final = "PYCONSUMER_"
"""Begins the names of variables."""
CONFIG_VARIABLE: Final = "PYCONSUMER_CONFIG"
"""The variable that names the file if the program does not."""

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
#: A key ends at the first ``=``, ``:`` or blank without a backslash; one ``=`` or ``:`` may follow blanks.
_PAIR: Final = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
#: How alike a name and a setting of any client must be for a hint: a client may well have neither.
_NEAR: Final = 0.85


def read_properties(path: str) -> dict[str, tuple[str, int]]:
    """Return the values of a properties file by key, and the line of each.

    Raises:
        ConfigurationError: the file cannot be read, or a line is malformed. The message names file and line, but never
            a value.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(f"the file {path} is not UTF-8 text") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"the file {path} cannot be read: {reason}") from None
    found = {}
    for number, line in _logical_lines(text):
        match = _PAIR.fullmatch(line)
        if match is None or not match[1]:
            raise ConfigurationError(f"{path}, line {number}: write it as key=value")
        key, value = (_unescape(part, f"{path}, line {number}") for part in match.groups())
        found[key] = value, number
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, continued ones joined, each with the number of its first line."""
    begun, first = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        first = first if begun else number
        begun += line
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            if begun:
                continue
        if begun:
            yield first, begun
        begun = ""
    if begun:
        yield first, begun


def _unescape(text: str, where: str) -> str:
    def found(match: re.Match[str]) -> str:
        code = match[1]
        if code == "u":
            raise ConfigurationError(f"{where}: \\u needs four hexadecimal digits")
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)

    return _ESCAPE.sub(found, text)


class Entry(NamedTuple):
    """A setting as text. ``shared`` is True if the setting may be meant for another client (rule 3)."""

    text: str
    where: str
    shared: bool = True

    def __repr__(self) -> str:
        return f"Entry({self.where})"  # the text may be a password


def file_entries(path: str | os.PathLike[str]) -> dict[str, Entry]:
    """Return the settings in a properties file by dotted name.

    Raises:
        ConfigurationError: an error of :func:`read_properties`.
    """
    name = os.fspath(path)
    lines = read_properties(name)
    return {key: Entry(text, f"{name}, line {line}") for key, (text, line) in lines.items()}


def environment_entries(
    environ: Mapping[str, str] | None = None, warn: Callable[[str], object] = _log.warning
) -> dict[str, Entry]:
    """Return the settings in the environment (rule 2) by dotted name.

    Args:
        environ: the environment variables. By default those of the process.
        warn: called with a message if a variable has almost the name of a setting.
    """
    known = _known_names()
    found: dict[str, Entry] = {}
    for variable, text in (os.environ if environ is None else environ).items():
        if not variable.startswith(PREFIX) or variable == CONFIG_VARIABLE:
            continue
        name = variable.removeprefix(PREFIX).lower().replace("_", ".")
        if name in known:
            found[name] = Entry(text, variable)
        elif near := nearest(name, known, cutoff=_NEAR):
            meant = PREFIX + near.replace(".", "_").upper()
            warn(f"the variable {variable} names no setting and is ignored: did you mean {meant}?")
    return found


def _known_names() -> set[str]:
    ours = {name for setting in CLIENT_SETTINGS for name in setting.names} | OTHERS | set(SWITCHED_OFF)
    return {name.replace("_", ".") for name in ours}


def resolve(settings: Settings[Any], *sources: Mapping[str, Entry]) -> dict[str, Any]:
    """Return the checked values of a client's settings by name.

    Args:
        settings: the settings of the client.
        sources: settings as text, by name. Later sources take precedence over earlier ones.

    Raises:
        ConfigurationError: a name is unknown, a value is illegal, or a source gives two values for one setting.
    """
    values: dict[str, Any] = {}
    for source in sources:
        seen: dict[str, Entry] = {}
        for name, entry in source.items():
            setting = settings.find(name)
            if setting is None:
                if (entry.shared and name.replace("_", ".") in OTHERS) or settings.ignores(name, entry.text):
                    continue
                raise ConfigurationError(f"{entry.where}: {_unknown(settings, name)}")
            other = seen.setdefault(setting.name, entry)
            if other.text != entry.text:
                raise ConfigurationError(f"{entry.where}: {other.where} gives {setting.name} another value")
            try:
                values[setting.name] = settings.check(name, entry.text, text=True)
            except ConfigurationError as error:
                raise ConfigurationError(f"{entry.where}: {error}") from None
    return values


def _unknown(settings: Settings[Any], name: str) -> str:
    """Return the message for a name that this client, or no client, has."""
    dotted = name.replace("_", ".")
    near = nearest(dotted, OTHERS, cutoff=_NEAR)
    if near is not None and dotted not in OTHERS:
        return f"no client has a setting {name!r}: did you mean {near!r}?"
    return settings.unknown(name)


def configured_file(path: str | os.PathLike[str] | None) -> dict[str, Entry]:
    """Return the settings in a file, or None if there is no file.

    The default file is the one that ``PYCONSUMER_CONFIG`` names.

    Raises:
        ConfigurationError: an error of :func:`file_entries`.
    """
    if path is not None:
        return file_entries(path)
    named = os.environ.get(CONFIG_VARIABLE)
    if not named:
        return {}
    try:
        return file_entries(named)
    except ConfigurationError as error:
        raise ConfigurationError(f"{CONFIG_VARIABLE}: {error}") from None


def from_file(
    settings: Settings[Any], path: str | os.PathLike[str] | None, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all settings of a client that is created by ``from_file`` (rule 1).

    Args:
        settings: the settings of the client.
        path: the file. None takes the file that ``PYCONSUMER_CONFIG`` names, if it is set.
        overrides: the settings that the program gives, by any of their names.

    Raises:
        ConfigurationError: the file cannot be read, or contains illegal settings.
    """
    found = resolve(settings, configured_file(path), environment_entries())
    for name in overrides:
        setting = settings.find(name)
        if setting is not None:
            found.pop(setting.name, None)
    return {**found, **overrides}


OTHERS: Final = frozenset(
    [
        "acks",
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "batch.size",
        "buffer.memory",
        "check.crcs",
        "client.rack",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "consumer.timeout.ms",
        "decode.threads",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.incremental.fetch.sessions",
        "exclude.internal.topics",
        "fetch.buffer.bytes",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "interceptor.classes",
        "interceptors",
        "isolation.level",
        "key.deserializer",
        "key.serializer",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "max.request.size",
        "metadata.max.idle.ms",
        "on.record.error",
        "partition.assignment.strategy",
        "partitioner",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.ignore.keys",
        "partitioner.rack.aware",
        "rebalance.delay.ms",
        "retries",
        "scheduled.rebalance.max.delay.ms",
        "schema.timeout.ms",
        "session.timeout.ms",
        "transaction.timeout.ms",
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    ]
)
"""Dotted names of settings that some client has and not every one. A test compares it with their tables."""
