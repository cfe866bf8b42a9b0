"""``--command-config FILE``: settings in a Java properties file, as Kafka's own tools read them.

Files keep passwords out of the command line, which every user of the machine can read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.network.jaas import parse_jaas

__all__ = ["client_properties", "read_properties"]

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
#: A key ends at the first ``=``, ``:`` or blank without a backslash; one ``=`` or ``:`` may follow blanks.
_PAIR: Final = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_STORES: Final = {"ssl.truststore": "ssl.cafile", "ssl.keystore": "ssl.certfile"}


def read_properties(path: str) -> dict[str, tuple[str, int]]:
    """Return the values of a properties file and the lines where they stand, by key.

    Raises:
        ConfigurationError: it cannot be read, or a line is malformed; names file and line, never a value.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(f"the file {path} is not UTF-8 text") from None
    except OSError as error:
        raise ConfigurationError(f"the file {path} cannot be read: {error.strerror}") from None
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


def client_properties(path: str) -> dict[str, str]:
    """Return the client settings in a file, by our dotted names; those of Java alone are translated.

    Raises:
        ConfigurationError: as :func:`read_properties`, or a setting of Java that cannot be translated.
    """
    lines = read_properties(path)
    values = {name: value for name, (value, _) in lines.items()}

    def where(name: str) -> str:
        return f"{path}, line {lines[name][1]}"

    for store, ours in _STORES.items():
        kind = values.pop(f"{store}.type", "JKS")
        values.pop(f"{store}.password", None)
        location = values.pop(f"{store}.location", None)
        if location is None:
            continue
        if kind.upper() != "PEM":
            raise ConfigurationError(
                f"{where(f'{store}.location')}: a {kind} store cannot be read; make a PEM file of it and set"
                f" {store}.type=PEM"
            )
        values[ours] = location
    algorithm = values.pop("ssl.endpoint.identification.algorithm", None)
    if algorithm is not None:
        values["ssl.check.hostname"] = "true" if algorithm.strip() else "false"
    jaas = values.pop("sasl.jaas.config", None)
    if jaas is not None:
        try:
            login = parse_jaas(jaas)
        except ConfigurationError as error:
            raise ConfigurationError(f"{where('sasl.jaas.config')}: {error}") from None
        if len(login.mechanisms) == 1:
            values.setdefault("sasl.mechanism", login.mechanisms[0])
        values |= {"sasl.username": login.username, "sasl.password": login.password}
    return values
