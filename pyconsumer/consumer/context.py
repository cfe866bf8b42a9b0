"""Objects that the parts of one consumer share: ``ConsumerContext`` has most of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pyconsumer.clock import Clock
from pyconsumer.consumer.config import ConsumerConfig
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.network.metadata import Metadata

if TYPE_CHECKING:
    from pyconsumer.consumer.network_client import ConsumerNetworkClient

__all__ = ["Checked", "ConsumerContext"]


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


class Checked:
    """The time up to which calls may take buffered records without any other check (rule 6 of :mod:`.delegate`).

    Attributes:
        next_check_at: that time, in monotonic seconds. If it is in the past, the next call checks everything.
    """

    __slots__ = ("next_check_at",)

    def __init__(self) -> None:
        self.next_check_at = -math.inf

    def extend(self, until: float) -> None:
        """Let calls take records without a check until the time ``until``."""
        self.next_check_at = until

    def end(self) -> None:
        """Make the next call check everything. Any thread may call this."""
        self.next_check_at = -math.inf
