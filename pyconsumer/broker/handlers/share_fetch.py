"""ShareFetch: acquire records of the partitions of a share session, and acknowledge earlier ones (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyconsumer.acls import ResourceType
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import Deferred, wait_for
from pyconsumer.broker.handlers.share_acknowledge import (
    LEADERSHIP_ERRORS,
    AckContext,
    acknowledge,
    current_leader,
    endpoints,
    refused_request,
)
from pyconsumer.broker.share.fetching import Fetched, ShareFetch, fetch
from pyconsumer.broker.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionKey,
    SharedPartition,
    ShareSession,
)
from pyconsumer.broker.share.share_partition import Outcome
from pyconsumer.errors import (
    BrokerResponseError,
    Errors,
    InvalidRequestError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
)
from pyconsumer.protocol.messages.share_fetch import (
    FIRST_VERSION_WITH_RENEW,
    AcquiredRecords,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

__all__ = ["handle"]

_RECORD_LIMIT: Final = 1  # the acquire mode that delivers no more than max_records (KIP-1206)


async def handle(broker: Broker, request: ShareFetchRequest, context: RequestContext) -> ShareFetchResponse:
    """Acknowledge first, then wait for records and acquire them. The response has both results."""
    refused = refused_request(broker, request.group_id, request.member_id) or _refused_renewal(request, context)
    if refused is not None:
        return ShareFetchResponse(error_code=refused.error_code, error_message=refused.error_message)
    key = SessionKey(request.group_id or "", request.member_id or "")
    acks = {
        (bytes(topic.topic_id), one.partition_index): one.acknowledgement_batches
        for topic in request.topics
        for one in topic.partitions
        if one.acknowledgement_batches
    }
    try:
        session = _session(broker, request, context, key, acks)
    except ShareSessionLimitReachedError as error:
        # A client that asks again at once would be a burden. So the answer comes after the time it would have waited.
        paused: Deferred[None] = Deferred()
        pause = broker.timer.schedule(context.now + max(0, request.max_wait_ms) / 1000, lambda: paused.set(None))
        try:
            await wait_for(paused)
        finally:
            pause.cancel()  # the client may have gone
        return ShareFetchResponse(error_code=error.errno, error_message=str(error))
    except BrokerResponseError as error:
        return ShareFetchResponse(error_code=error.errno, error_message=str(error))
    renews = context.api_version >= FIRST_VERSION_WITH_RENEW and request.is_renew_ack
    acknowledged: Mapping[SharedPartition, Outcome] = {}
    if acks:
        acknowledged = await acknowledge(broker, context, AckContext(key, context.api_version, renews), acks)
    found: list[Fetched] = []
    if request.share_session_epoch == FINAL_EPOCH:
        broker.share_partitions.end_session(key, session)
    elif not renews:
        try:
            found = await _fetch(broker, request, context, key, session)
        except ShareSessionNotFoundError as error:
            if not acknowledged:
                return ShareFetchResponse(error_code=error.errno, error_message=str(error))
    return _response(broker, context, key, found, acknowledged)


def _refused_renewal(request: ShareFetchRequest, context: RequestContext) -> Outcome | None:
    if context.api_version < FIRST_VERSION_WITH_RENEW or not request.is_renew_ack:
        return None
    names = ("max_bytes", "min_bytes", "max_records", "max_wait_ms")
    wrong = [name for name in names if getattr(request, name) != 0]
    if not wrong:
        return None
    return Outcome(Errors.INVALID_REQUEST, f"{', '.join(wrong)} must be set to 0 if is_renew_ack is true.")


def _session(
    broker: Broker,
    request: ShareFetchRequest,
    context: RequestContext,
    key: SessionKey,
    acks: Mapping[SharedPartition, object],
) -> ShareSession:
    """Open or continue a session, which the request may end.

    Raises:
        ShareSessionNotFoundError, InvalidShareSessionEpochError, ShareSessionLimitReachedError, InvalidRequestError
    """
    shares = broker.share_partitions
    listed = [(bytes(topic.topic_id), one.partition_index) for topic in request.topics for one in topic.partitions]
    if request.share_session_epoch == INITIAL_EPOCH:
        if acks:
            raise InvalidRequestError("A session cannot be opened with acknowledgements.")
        return shares.open_session(key, context, listed)
    session = shares.sessions.advance(key, request.share_session_epoch)
    if request.share_session_epoch == FINAL_EPOCH:
        return session
    forgotten = [(bytes(topic.topic_id), one) for topic in request.forgotten_topics_data for one in topic.partitions]
    session.change(listed, forgotten)
    return session


async def _fetch(
    broker: Broker, request: ShareFetchRequest, context: RequestContext, key: SessionKey, session: ShareSession
) -> list[Fetched]:
    rates, client = broker.rates, (context.principal, context.client_id)
    if rates.quotas.exist:
        context.throttle(rates.delivered(*client, 0, context.now))
        if context.throttle_ms:
            return []  # records that are acquired must be sent, so none are
    wanted = ShareFetch(
        key.group_id,
        key.member_id,
        context.now + request.max_wait_ms / 1000,
        request.min_bytes,
        min(request.max_bytes, broker.config.integer("fetch.max.bytes")),
        request.max_records,
        request.batch_size,
        request.share_acquire_mode == _RECORD_LIMIT,
    )
    admitted, denied = _admitted(broker, context, session.in_turn())
    shares = broker.share_partitions
    found = await fetch(shares, wanted, session, admitted, broker.timer, broker.clock, broker.call_soon)
    if rates.quotas.exist:
        context.throttle(rates.delivered(*client, sum(len(one.records) for one in found), broker.clock.now()))
    return [*found, *denied]


def _admitted(
    broker: Broker, context: RequestContext, partitions: Sequence[SharedPartition]
) -> tuple[list[SharedPartition], list[Fetched]]:
    """Return the partitions that the client may read, and the errors for the others."""
    if context.access is None:
        return list(partitions), []
    admitted, denied = [], []
    for shared in partitions:
        name = broker.topic_name(shared[0])
        if name is None or context.access.may(ResourceType.TOPIC, name):
            admitted.append(shared)
        else:
            denied.append(Fetched(shared, context.access.error(ResourceType.TOPIC), "Topic authorization failed."))
    return admitted, denied


def _response(
    broker: Broker,
    context: RequestContext,
    key: SessionKey,
    found: Iterable[Fetched],
    acknowledged: Mapping[SharedPartition, Outcome],
) -> ShareFetchResponse:
    fetched = {one.shared: one for one in found}
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    leaders = set()
    for shared in dict.fromkeys((*fetched, *acknowledged)):
        one = fetched.get(shared, Fetched(shared))
        outcome = acknowledged.get(shared, Outcome())
        leader = LeaderIdAndEpoch()
        if {one.error_code, outcome.error_code} & LEADERSHIP_ERRORS:
            leader = current_leader(broker, shared)
            leaders.add(leader.leader_id)
        topic = topics.setdefault(shared[0], ShareFetchableTopicResponse(topic_id=shared[0]))
        topic.partitions.append(
            PartitionData(
                partition_index=shared[1],
                error_code=one.error_code,
                error_message=one.error_message,
                acknowledge_error_code=outcome.error_code,
                acknowledge_error_message=outcome.error_message,
                current_leader=leader,
                records=one.records,
                acquired_records=[
                    AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                    for first, last, count in one.acquired
                ],
            )
        )
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=broker.share_partitions.rules.lock_ms(key.group_id),
        responses=list(topics.values()),
        node_endpoints=endpoints(broker, context, leaders),
    )
