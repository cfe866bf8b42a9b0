"""ElectLeaders: preferred leaders, and unclean ones of partitions without a leader (KIP-460)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import code_and_text, too_late
from pyconsumer.errors import BrokerResponseError, Errors, InvalidRequestError
from pyconsumer.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

__all__ = ["handle"]

_PREFERRED, _UNCLEAN = 0, 1


async def handle(broker: Broker, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    """Elect a leader for each partition.

    If the request names no partitions, all are meant, and those that need no election are left out of the response.

    The error is ELECTION_NOT_NEEDED if the partition has its preferred leader. For an unclean election any leader is
    enough.
    """
    asked = request.topic_partitions
    if asked is not None and not asked:
        return ElectLeadersResponse()
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        raise InvalidRequestError(f"Unknown election type {request.election_type}")
    if request.timeout_ms <= 0:
        raise too_late()
    unclean = request.election_type == _UNCLEAN
    topics = broker.controller.topics
    wanted = (
        [TopicPartitions(name, list(range(len(topic.partitions)))) for name, topic in sorted(topics.items())]
        if asked is None
        else asked
    )
    response = ElectLeadersResponse()
    for topic in wanted:
        results = [_elect(broker, topic.topic, index, unclean) for index in topic.partitions]
        kept = [each for each in results if asked is not None or each.error_code != Errors.ELECTION_NOT_NEEDED]
        response.replica_election_results.append(ReplicaElectionResult(topic.topic, kept))
    return response


def _elect(broker: Broker, topic: str, partition: int, unclean: bool) -> PartitionResult:
    try:
        broker.controller.elect_leader(topic, partition, unclean=unclean)
    except (BrokerResponseError, OSError) as error:
        return PartitionResult(partition, *code_and_text(error))
    return PartitionResult(partition, 0, None)
