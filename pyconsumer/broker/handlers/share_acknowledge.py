"""ShareAcknowledge: acknowledge acquired records, and close a share session (KIP-932, KIP-1222)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pyconsumer.acls import ResourceType
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import Deferred, wait_for
from pyconsumer.broker.group.share.states import for_each
from pyconsumer.broker.handlers.share_group_heartbeat import has_share_groups, is_member_id
from pyconsumer.broker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, SharedPartition
from pyconsumer.broker.share.share_partition import Acknowledgement, Outcome
from pyconsumer.errors import BrokerResponseError, Errors, InvalidShareSessionEpochError
from pyconsumer.protocol.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from pyconsumer.protocol.messages.share_fetch import AcknowledgementBatch, LeaderIdAndEpoch, NodeEndpoint
from pyconsumer.structs import AcknowledgeType

__all__ = ["LEADERSHIP_ERRORS", "AckContext", "acknowledge", "current_leader", "endpoints", "handle", "refused_request"]

LEADERSHIP_ERRORS: Final = frozenset({Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH})
_RENEW: Final = int(AcknowledgeType.RENEW)


class AckContext(NamedTuple):
    """The data that all acknowledgements of a request have in common: the member, and which types are allowed."""

    key: SessionKey
    version: int
    is_renew_ack: bool


def refused_request(broker: Broker, group_id: str | None, member_id: str | None) -> Outcome | None:
    """Return the error of a request to a share session, before anything else is looked at. None if there is none."""
    if not has_share_groups(broker):
        return Outcome(Errors.UNSUPPORTED_VERSION)
    if group_id is None:
        return Outcome(Errors.INVALID_REQUEST, "Invalid group id in the request.")
    if not is_member_id(member_id):
        return Outcome(Errors.INVALID_REQUEST, "Invalid member id in the request.")
    return None


async def handle(broker: Broker, request: ShareAcknowledgeRequest, context: RequestContext) -> ShareAcknowledgeResponse:
    """Acknowledge records. The response is sent when the new state is stored."""
    refused = refused_request(broker, request.group_id, request.member_id)
    key = SessionKey(request.group_id or "", request.member_id or "")
    shares = broker.share_partitions
    if refused is None:
        try:
            if request.share_session_epoch == INITIAL_EPOCH:
                raise InvalidShareSessionEpochError("A session is opened by ShareFetch.")
            session = shares.sessions.advance(key, request.share_session_epoch)
        except BrokerResponseError as error:
            refused = Outcome(error.errno, str(error))
    if refused is not None:
        return ShareAcknowledgeResponse(error_code=refused.error_code, error_message=refused.error_message)
    wanted = {
        (bytes(topic.topic_id), one.partition_index): one.acknowledgement_batches
        for topic in request.topics
        for one in topic.partitions
    }
    found = await acknowledge(broker, context, AckContext(key, context.api_version, request.is_renew_ack), wanted)
    if request.share_session_epoch == FINAL_EPOCH:
        shares.end_session(key, session)
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    leaders = set()
    for (topic_id, index), outcome in found.items():
        leader = LeaderIdAndEpoch()
        if outcome.error_code in LEADERSHIP_ERRORS:
            leader = current_leader(broker, (topic_id, index))
            leaders.add(leader.leader_id)
        topic = topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id=topic_id))
        topic.partitions.append(
            PartitionData(
                partition_index=index,
                error_code=outcome.error_code,
                error_message=outcome.error_message,
                current_leader=leader,
            )
        )
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=shares.rules.lock_ms(key.group_id),
        responses=list(topics.values()),
        node_endpoints=endpoints(broker, context, leaders),
    )


async def acknowledge(
    broker: Broker,
    context: RequestContext,
    acks: AckContext,
    wanted: Mapping[SharedPartition, list[AcknowledgementBatch]],
) -> dict[SharedPartition, Outcome]:
    """Acknowledge records of several partitions, and return the result of each."""
    found: dict[SharedPartition, Outcome] = {}
    calls: dict[SharedPartition, Deferred[Outcome]] = {}
    for shared, batches in wanted.items():
        problem = _problem(broker, context, acks, shared, batches)
        if problem is not None:
            found[shared] = problem
        elif batches:
            given = [Acknowledgement(one.first_offset, one.last_offset, one.acknowledge_types) for one in batches]
            calls[shared] = broker.share_partitions.acknowledge(acks.key, shared, given)
        else:
            found[shared] = Outcome()
    return found | await wait_for(for_each(calls))


def _problem(
    broker: Broker,
    context: RequestContext,
    acks: AckContext,
    shared: SharedPartition,
    batches: Iterable[AcknowledgementBatch],
) -> Outcome | None:
    """Return the error of acknowledgements that are wrong whatever the records are."""
    before = -1
    most = _RENEW if acks.version >= 2 else _RENEW - 1
    for one in batches:
        types, count = one.acknowledge_types, one.last_offset - one.first_offset + 1
        if (
            count < 1
            or one.first_offset < before
            or not types
            or (len(types) > 1 and len(types) != count)
            or not all(0 <= kind <= most for kind in types)
            or (_RENEW in types and not acks.is_renew_ack)
        ):
            return Outcome(Errors.INVALID_REQUEST)
        before = one.last_offset
    name = broker.topic_name(shared[0])
    if context.access is not None and name is not None and not context.access.may(ResourceType.TOPIC, name):
        return Outcome(context.access.error(ResourceType.TOPIC))
    if name is None or not 0 <= shared[1] < (broker.partition_count(name) or 0):
        return Outcome(Errors.UNKNOWN_TOPIC_OR_PARTITION)
    return None


def current_leader(broker: Broker, shared: SharedPartition) -> LeaderIdAndEpoch:
    """Return the leader of a partition, for a client that has asked another broker."""
    name = broker.topic_name(shared[0])
    topic = None if name is None else broker.controller.topics.get(name)
    if topic is None or not 0 <= shared[1] < len(topic.partitions):
        return LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
    state = topic.partitions[shared[1]]
    return LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)


def endpoints(broker: Broker, context: RequestContext, leaders: Iterable[int]) -> list[NodeEndpoint]:
    """Return the addresses of leaders on the client's listener."""
    wanted = set(leaders)
    if not wanted:
        return []
    return [
        NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in broker.endpoints(context.listener)
        if node.node_id in wanted
    ]
