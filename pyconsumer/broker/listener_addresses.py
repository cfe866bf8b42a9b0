"""The settings ``listeners`` and ``advertised.listeners``: where a broker listens, and where its clients find it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.structs import Address

__all__ = ["ADVERTISED_LISTENERS", "ALL_ADDRESSES", "LISTENERS", "addresses_of", "reachable"]

LISTENERS: Final = "listeners"
ADVERTISED_LISTENERS: Final = "advertised.listeners"
#: Hosts that stand for every address of a machine. Clients cannot connect to them.
ALL_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})
_LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://(\[[^\]]*\]|[^:/\[\]]*):(\d{1,5})")
_LAST_PORT: Final = 65_535


def addresses_of(name: str, listeners: Iterable[str]) -> dict[str, Address]:
    """Return the address of each listener.

    Args:
        name: the setting, for errors.
        listeners: such as ``INSIDE://127.0.0.1:9092`` or ``OUTSIDE://[::1]:0``. An empty host means all addresses.

    Raises:
        ConfigurationError: one has another form, or a listener occurs twice.
    """
    found: dict[str, Address] = {}
    for text in listeners:
        parts = _LISTENER.fullmatch(text.strip())
        if parts is None or int(parts[3]) > _LAST_PORT:
            raise ConfigurationError(
                f"{name}: {text!r} is no listener: write it like SASL_SSL://broker.example.org:9093"
            )
        if parts[1] in found:
            raise ConfigurationError(f"{name}: the listener {parts[1]} occurs twice")
        found[parts[1]] = Address(parts[2].strip("[]"), int(parts[3]))
    return found


def reachable(host: str) -> str:
    """Return a host to which clients on this machine can connect."""
    return "localhost" if host in ALL_ADDRESSES else host
