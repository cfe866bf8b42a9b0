"""References to secrets in ``kafka.*`` options, such as ``${env:NAME}``.

Options are pickled and sent to every task, and Spark may write plans to event logs. A reference is resolved where a
client is created: in the driver, and in each task on its own machine. The notation is that of Kafka's config providers
(KIP-297, KIP-421, KIP-887), which need not be declared here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from pyconsumer.errors import ConfigurationError

__all__ = ["is_reference", "resolve_references"]

_REFERENCE: Final = re.compile(r"\$\{(env|file|directory):(?:([^}]*):)?([^}:]+)\}")


def is_reference(text: str) -> bool:
    """Return whether a value consists of references alone, and perhaps a colon between them."""
    return bool(text) and not _REFERENCE.sub("", text).strip(": ")


def resolve_references(option: str, text: str) -> str:
    """Return a value in which all references are replaced by their secrets.

    ``${env:NAME}`` is an environment variable. ``${file:PATH:KEY}`` is a value in a properties file.
    ``${directory:PATH:NAME}`` is the content of a file in a directory. (Kubernetes mounts secrets as such files.)

    Args:
        option: the name of the option, for messages. Messages contain neither the value nor a secret.

    Raises:
        ConfigurationError: a variable, file or key does not exist, or the file cannot be read.
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
            reason = "it does not exist" if isinstance(error, KeyError) else str(error)
            raise ConfigurationError(
                f"option {option}: {match[0]} cannot be resolved on this machine: {reason}"
            ) from None

    return _REFERENCE.sub(found, text) if "${" in text else text


def _properties(path: Path) -> dict[str, str]:
    """Return the ``key=value`` lines of a properties file. Comments begin with ``#`` or ``!``."""
    pairs = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text and text[0] not in "#!":
            key, _, value = text.partition("=")
            pairs[key.strip()] = value.strip()
    return pairs
