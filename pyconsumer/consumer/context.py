"""``ConsumerContext``: the objects that the parts of one consumer share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyconsumer.clock import Clock
from pyconsumer.consumer.config import ConsumerConfig
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.network.metadata import Metadata

if TYPE_CHECKING:
    from pyconsumer.consumer.network_client import ConsumerNetworkClient

__all__ = ["ConsumerContext"]


class ConsumerContext(NamedTuple):
    """The objects that the parts of one consumer share.

    Attributes:
        config: the settings.
        client: sends the requests of the application's thread.
        metadata: brokers, topics and leaders, kept up to date by ``client``.
        subscriptions: the subscription, and the state of each assigned partition.
        clock: the source of time.
    """

    config: ConsumerConfig
    client: ConsumerNetworkClient
    metadata: Metadata
    subscriptions: SubscriptionState
    clock: Clock
