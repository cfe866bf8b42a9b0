"""The settings of the share group that its members need, read from a broker.

Rules

1. They are read at the start, and every :data:`REFRESH_S` seconds, while something needs them: a dead-letter sink, or
   workers. Fetches wait for the first answer: a record might be in its last delivery.
2. Without an answer, as without the right to read them, ``share_delivery_count_limit`` of the consumer is used, and
   locks are taken for renewable. An answer that came before stays.
3. A broker that does not name a setting, since it is older, leaves it as in rule 2.
"""

from __future__ import annotations

import logging
import math
from typing import Final

from pyconsumer.consumer.share.context import ShareContext
from pyconsumer.errors import KafkaError, for_code
from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

__all__ = ["REFRESH_S", "GroupSettings"]

_log = logging.getLogger("pyconsumer.consumer")

#: Seconds between two reads.
REFRESH_S: Final = 300.0
#: Seconds until the next read after an error that passes.
_RETRY_S: Final = 5.0
_GROUP: Final = 32  # the type of the resource
_LIMIT: Final = "share.delivery.count.limit"
_RENEWS: Final = "share.renew.acknowledge.enable"


class GroupSettings:
    """The settings of the share group. See the module.

    Args:
        context: the parts of the consumer.

    Attributes:
        delivery_limit: how often a record is delivered at most.
        renews: False if locks cannot be renewed.
    """

    def __init__(self, context: ShareContext) -> None:
        config, self._client, _, self._clock = context
        self._group_id = config.group_id
        self.delivery_limit: int = config.share_delivery_count_limit
        self.renews = True
        self._is_wanted = False
        self._due_at = -math.inf
        self._is_asking = False
        self._is_answered = False

    def want(self) -> None:
        """Read the settings from now on."""
        self._is_wanted = True

    @property
    def is_settled(self) -> bool:
        """Return whether records may be fetched (rule 1)."""
        return self._is_answered or not self._is_wanted

    @property
    def next_due_at(self) -> float:
        """Return when :meth:`refresh` has something to do (monotonic seconds)."""
        return math.inf if self._is_asking or not self._is_wanted else self._due_at

    def refresh(self) -> bool:
        """Send a request if it is time. Return whether one was sent."""
        if self._clock.now() < self.next_due_at:
            return False
        self._is_asking = True
        resource = DescribeConfigsResource(_GROUP, self._group_id, [_LIMIT, _RENEWS])
        future = self._client.send_any(DescribeConfigsRequest, DescribeConfigsRequest(resources=[resource]))
        future.add_callback(self._on_response)
        return True

    def recover(self) -> None:
        """Repair the state after Ctrl-C: a request may never have been sent."""
        self._is_asking = False

    def _on_response(self, future: RequestFuture[ClientResponse]) -> None:
        self._is_asking = False
        self._is_answered = True
        self._due_at = self._clock.now() + REFRESH_S
        error = future.exception
        if error is None:
            message = future.value.message
            assert isinstance(message, DescribeConfigsResponse)
            error = self._read(message)
        if error is None:
            return
        if error.retriable:
            self._due_at = self._clock.now() + _RETRY_S
        _log.info(
            "the settings of the group cannot be read, so its delivery limit is taken for %d: %s",
            self.delivery_limit,
            error,
        )

    def _read(self, message: DescribeConfigsResponse) -> KafkaError | None:
        for result in message.results:
            if result.error_code:
                detail = f": {result.error_message}" if result.error_message else ""
                return for_code(result.error_code, f"settings of group {self._group_id}{detail}")
            found = {config.name: config.value or "" for config in result.configs}
            limit = found.get(_LIMIT, "")
            if limit.isascii() and limit.isdigit():
                self.delivery_limit = max(1, int(limit[:9]))
            self.renews = found.get(_RENEWS, "true").lower() != "false"
        return None
