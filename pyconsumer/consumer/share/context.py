"""``ShareContext``: the objects that the parts of one share consumer have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyconsumer.clock import Clock
from pyconsumer.consumer.share.config import ShareConsumerConfig
from pyconsumer.network.metadata import Metadata

if TYPE_CHECKING:
    from pyconsumer.consumer.network_client import ConsumerNetworkClient

__all__ = ["ShareContext"]


class ShareContext(NamedTuple):
    """The objects that the parts of one share consumer have in common.

    Attributes:
        config: the settings.
        client: sends the requests of the application's thread.
        metadata: brokers, topics and leaders, kept up to date by ``client``.
        clock: the source of time.
    """

    config: ShareConsumerConfig
    client: ConsumerNetworkClient
    metadata: Metadata
    clock: Clock
