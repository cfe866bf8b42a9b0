"""A member of a share group (KIP-932): its heartbeats. A core, as :mod:`..coordinator.membership`.

It is the member of the consumer protocol (:mod:`..coordinator.consumer_group_membership`), with these differences

1. Its heartbeats carry the topics and the rack only. Partitions are shared, so it reports none, and nobody waits for it
   to give some up. It has no instance id, no rebalance timeout, no assignor and no regular expression.
2. It adopts an assignment at once, since there is no listener to call and nothing to commit.
3. It always leaves permanently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pyconsumer.consumer.coordinator.consumer_group_membership import (
    ConsumerMembership,
    HeartbeatFields,
    HeartbeatRequest,
)
from pyconsumer.consumer.coordinator.consumer_group_state import LocalAssignment
from pyconsumer.consumer.coordinator.error_actions import SHARE_GROUP_HEARTBEAT, ErrorAction
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

__all__ = ["UNSUPPORTED", "ShareMembership"]

UNSUPPORTED: Final = (
    "the brokers do not serve share groups (KIP-932). They need Apache Kafka 4.2 or newer (4.0 and 4.1 have early"
    " versions only), and the feature share.version must be 1 or more: 'kafka-features.sh upgrade --feature"
    " share.version=1' enables it"
)
_OTHER_TYPE: Final = (
    "the group id belongs to a group of another type, such as a consumer group: use another group_id, or delete that"
    " group first"
)


class ShareMembership(ConsumerMembership):
    """A member of a share group. Its only request is ShareGroupHeartbeat. See the module."""

    _api: ClassVar = "ShareGroupHeartbeat"
    _error_actions: ClassVar[Mapping[int, ErrorAction]] = SHARE_GROUP_HEARTBEAT
    _remedies: ClassVar[Mapping[int, str]] = {
        Errors.UNSUPPORTED_VERSION: UNSUPPORTED,
        Errors.GROUP_ID_NOT_FOUND: _OTHER_TYPE,
        Errors.INCONSISTENT_GROUP_PROTOCOL: _OTHER_TYPE,
        Errors.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.share.max.size on the broker allows:"
        " close one of them, or raise that setting",
    }

    def _facts(self, owned: LocalAssignment) -> HeartbeatFields:
        return HeartbeatFields(topics=self._topics, rack=self.settings.rack)

    def _request(self, epoch: int, fields: Mapping[str, Any]) -> HeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            group_id=self.settings.group_id, member_id=self.member_id, member_epoch=epoch, **fields
        )
