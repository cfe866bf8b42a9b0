"""Settings of the clients that fixtures create."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyconsumer.broker import EmbeddedCluster

__all__ = ["CLOSE_MS", "consumer_settings", "producer_settings"]

#: Longest time in ms for closing a consumer of a fixture after its test.
CLOSE_MS: Final = 10_000


def consumer_settings(cluster: EmbeddedCluster, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a consumer for a test."""
    return {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest", **settings}


def producer_settings(cluster: EmbeddedCluster, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a producer for a test."""
    return {"bootstrap_servers": cluster.bootstrap_servers, **settings}
