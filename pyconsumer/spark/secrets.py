"""``${env:NAME}`` and its like in ``kafka.*`` options: secrets that stay out of Spark's plans.

Options travel to every task inside pickles, and Spark may keep plans in event logs. A reference in the place of a
secret is resolved where a connection is made: by the driver, and by each task on its own machine. The notation is that
of Kafka's config providers (KIP-297, KIP-421, KIP-887), which need not be declared here.

``sasl.jaas.config`` of Java clients, read as user name and password. Nothing of it is ever shown in a message.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from pyconsumer.errors import ConfigurationError

__all__ = ["resolve_references"]

_REFERENCE: Final = re.compile(r"\$\{(env|file|directory):(?:([^}]*):)?([^}:]+)\}")


def resolve_references(option: str, text: str) -> str:
    """Put in what the references in a value stand for.

    ``${env:NAME}`` is an environment variable, ``${file:PATH:KEY}`` a value of a properties file, and
    ``${directory:PATH:NAME}`` the content of a file of that name in a directory, as Kubernetes mounts secrets.

    Args:
        option: the value's name, for messages; neither the value nor what is found is shown.

    Raises:
        ConfigurationError: there is no such variable, file or key.
    """

    def found(match: re.Match[str]) -> str:
        kind, path, name = match[1], match[2] or "", match[3]
        try:
            if kind == "env":
                return os.environ[name]
            if kind == "directory":
                return Path(path, name).read_text(encoding="utf-8").removesuffix("\n")
            return _properties(Path(path))[name]
        except (KeyError, OSError, UnicodeDecodeError) as error:
            reason = "it is not there" if isinstance(error, KeyError) else str(error)
            raise ConfigurationError(f"option {option} refers to {match[0]} on this machine: {reason}") from None

    return _REFERENCE.sub(found, text) if "${" in text else text


def _properties(path: Path) -> dict[str, str]:
    """``key=value`` lines of a properties file; comments begin with ``#`` or ``!``."""
    pairs = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text and text[0] not in "#!":
            key, _, value = text.partition("=")
            pairs[key.strip()] = value.strip()
    return pairs


__all__ = ["Login", "parse_jaas"]

# A word, or a quoted string with backslashes before quotes and backslashes.
_TOKEN: Final = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([=;])|([^\s=;"']+))""")

_FLAGS: Final = {"required", "requisite", "sufficient", "optional"}

_MECHANISMS: Final = {"PlainLoginModule": ("PLAIN",), "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512")}


class Login(NamedTuple):
    """The options of a login module. ``mechanisms`` are those that it can be used with."""

    mechanisms: tuple[str, ...]
    username: str
    password: str

    def __repr__(self) -> str:
        return f"Login({'/'.join(self.mechanisms)})"


def parse_jaas(text: str) -> Login:
    """Read ``...PlainLoginModule required username="u" password="p";`` (or ScramLoginModule, in any package).

    What it raises shows no part of the value: where a value is malformed, any word of it may be a password.

    Raises:
        ConfigurationError: another module, or another notation.
    """
    tokens = _tokens(text)
    module = tokens[0].rpartition(".")[2] if tokens else ""
    mechanisms = _MECHANISMS.get(module)
    if mechanisms is None:
        raise ConfigurationError(
            "kafka.sasl.jaas.config: the login modules that can be used are PlainLoginModule and ScramLoginModule;"
            " the value begins with neither"
        )
    if len(tokens) < 2 or tokens[1].lower() not in _FLAGS or tokens[-1] != ";":
        raise _malformed()
    given: dict[str, str] = {}
    rest = tokens[2:-1]
    if len(rest) % 3:
        raise _malformed()
    for name, equals, value in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if equals != "=":
            raise _malformed()
        given[name] = value
    if given.get("tokenauth", "false").lower() == "true":
        raise ConfigurationError("kafka.sasl.jaas.config: delegation tokens (tokenauth) cannot be used")
    missing = [name for name in ("username", "password") if name not in given]
    if missing:
        raise ConfigurationError(f"kafka.sasl.jaas.config: the login module is given no {' and no '.join(missing)}")
    return Login(mechanisms, given["username"], given["password"])


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position, text = 0, text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConfigurationError("kafka.sasl.jaas.config: a quote is not closed")
        double, single, sign, word = match.groups()
        quoted = double if double is not None else single
        found.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else sign or word)
        position = match.end()
    return found


def _malformed() -> ConfigurationError:
    return ConfigurationError(
        'kafka.sasl.jaas.config: write it as  ...LoginModule required username="..." password="...";'
        "  with the semicolon"
    )
