"""``${env:NAME}`` and its like in ``kafka.*`` options: secrets that stay out of Spark's plans.

Options travel to every task inside pickles, and Spark may keep plans in event logs. A reference in the place of a
secret is resolved where a connection is made: by the driver, and by each task on its own machine. The notation is that
of Kafka's config providers (KIP-297, KIP-421, KIP-887), which need not be declared here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

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
