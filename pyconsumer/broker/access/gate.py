"""The gate: stands before the handlers of a broker that has an authorizer.

It refuses requests and items by the table, and hides what a client may not see in responses. Handlers that must ask by
themselves find the client's rights in ``context.access``.

A right is asked for when a request arrives. A request that waits (a long Fetch, a JoinGroup) ends as it was admitted,
and the next one meets the new rules, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

from pyconsumer.acls import CLUSTER_NAME, ResourceType
from pyconsumer.broker.access.authorizer import Access, Authorizer
from pyconsumer.broker.access.table import Effect, Rule, rules_of
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import error_response
from pyconsumer.broker.handlers import HandlerFunction
from pyconsumer.broker.handlers.describe_configs import GROUP, TOPIC
from pyconsumer.errors import Errors
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from pyconsumer.protocol.primitives import Struct
from pyconsumer.protocol.schema import Message

__all__ = ["admit"]

_TEXTS: Final = {
    Errors.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    Errors.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    Errors.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
#: Lists that are empty in a response whose error is for the whole request, and the first version for which that holds.
_NOT_LISTED: Final[dict[int, tuple[str, int]]] = {
    ApiKey.LEAVE_GROUP: ("members", 3),
    ApiKey.OFFSET_DELETE: ("topics", 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: ("responses", 0),
    ApiKey.OFFSET_FETCH: ("topics", 2),
}
_OMITTED: Final = -(1 << 31)  # authorized operations that were not requested


async def admit(
    handle: HandlerFunction, broker: Broker, request: Message, context: RequestContext, authorizer: Authorizer
) -> Message | None:
    """Handle a request, as far as its client has the rights."""
    access = authorizer.access(context.principal, context.client_host, context.api_key, context.api_version)
    context.limit(access)
    whole, split, hide = _parts_of(context.api_key, context.api_version)
    for rule in whole:
        if not _may_whole(access, rule, request):
            return _refusal(request, context, access.error(rule.resource))
    refused = None if split is None else split(broker, request, context, access)
    response = refused[0] if refused and refused[1] else await handle(broker, request, context)
    if refused and not refused[1]:
        _add(response, refused[0], refused[2])
    return response if hide is None or response is None else hide(access, response)


def _may_whole(access: Access, rule: Rule, request: Message) -> bool:
    if not rule.names:
        return access.fits(rule)
    name = getattr(request, rule.names)
    return name is None or access.fits(rule, name)


def _refusal(request: Message, context: RequestContext, code: int) -> Message:
    """Return the response to a request that is refused as a whole."""
    text = _TEXTS[Errors(code)]
    if isinstance(request, AlterUserScramCredentialsRequest):
        names = dict.fromkeys([*(one.name for one in request.deletions), *(one.name for one in request.upsertions)])
        return AlterUserScramCredentialsResponse(
            results=[AlterUserScramCredentialsResult(name, code, text) for name in names]
        )
    response = error_response(request, context.api_version, code, text)
    items = _NOT_LISTED.get(context.api_key)
    if items is not None and hasattr(response, "error_code") and context.api_version >= items[1]:
        setattr(response, items[0], [])
    return response


#: The response with the refused items, whether no item is left, and the list of the response that has items.
_Refused = tuple[Message, bool, str]


def _split_by_table(broker: Broker, request: Message, context: RequestContext, access: Access) -> _Refused | None:
    """Take the items without the right away from a request. Return None if there are none."""
    for rule in access.rules:
        if rule.effect is Effect.ITEMS:
            items, _, field = rule.names.partition(".")

            def check(item: Any, rule: Rule = rule, field: str = field) -> int:
                name = _name(broker, item, rule, field, context.api_version)
                return 0 if name is None or access.fits(rule, name) else access.error(rule.resource)

            return _split(request, context, items, rule.into, check)
    return None


def _name(broker: Broker, item: Any, rule: Rule, field: str, version: int) -> str | None:
    """Return the name of an item's resource. None if there is no topic with its id, which the handler reports."""
    if version >= rule.by_id:
        return broker.topic_name(item.topic_id)
    return str(getattr(item, field) if field else item)


def _split(
    request: Message, context: RequestContext, items: str, into: str, check: Callable[[Any], int]
) -> _Refused | None:
    admitted: list[Any] = []
    refused: dict[int, list[Any]] = {}
    for item in getattr(request, items):
        code = check(item)
        if code:
            refused.setdefault(code, []).append(item)
        else:
            admitted.append(item)
    if not refused:
        return None
    found: Message | None = None
    for code, those in refused.items():
        setattr(request, items, those)
        part = error_response(request, context.api_version, code, _TEXTS[Errors(code)])
        if found is None:
            found = part
        else:
            _add(found, part, into)
    assert found is not None
    if hasattr(found, "error_code"):
        setattr(found, "error_code", 0)  # noqa: B010 (the items have their own)
    setattr(request, items, admitted)
    return found, not admitted, into


def _add(response: Message | None, part: Message, into: str) -> None:
    if response is not None:
        getattr(response, into).extend(getattr(part, into))


def _split_configs(broker: Broker, request: Message, context: RequestContext, access: Access) -> _Refused | None:
    def check(resource: Any) -> int:
        kind = {TOPIC: ResourceType.TOPIC, GROUP: ResourceType.GROUP}.get(resource.resource_type, ResourceType.CLUSTER)
        names = () if kind is ResourceType.CLUSTER else (resource.resource_name,)
        return 0 if access.may(kind, *names) else access.error(kind)

    into = "results" if context.api_key == ApiKey.DESCRIBE_CONFIGS else "responses"
    return _split(request, context, "resources", into, check)


def _split_groups(broker: Broker, request: Message, context: RequestContext, access: Access) -> _Refused | None:
    """Refuse groups without their topics."""
    refused = _split_by_table(broker, request, context, access)
    if refused is not None:
        for group in refused[0].groups:  # type: ignore[attr-defined]
            group.topics.clear()
    return refused


_Split = Callable[[Broker, Any, RequestContext, Access], "_Refused | None"]
_SPLIT: Final[dict[int, _Split]] = {
    ApiKey.DESCRIBE_CONFIGS: _split_configs,
    ApiKey.ALTER_CONFIGS: _split_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _split_configs,
    ApiKey.OFFSET_FETCH: _split_groups,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _split_groups,
}


# --- what a client may not see


S = TypeVar("S", bound=Struct)


def _with(part: S, **changes: Any) -> S:
    """Return a part of a response with other values."""
    return type(part)(**{spec.name: getattr(part, spec.name) for spec in part.FIELDS} | changes)


def _hide_groups(access: Access, response: Any) -> Any:
    def is_visible(group: Any) -> bool:
        return access.may(ResourceType.GROUP, group.group_id, log_denied=False)

    return _with(response, groups=list(filter(is_visible, response.groups)))


def _hide_transactions(access: Access, response: Any) -> Any:
    def is_visible(state: Any) -> bool:
        return access.may(ResourceType.TRANSACTIONAL_ID, state.transactional_id, log_denied=False)

    return _with(response, transaction_states=list(filter(is_visible, response.transaction_states)))


def _hide_topics_of_transactions(access: Access, response: Any) -> Any:
    states = [
        _with(state, topics=[topic for topic in state.topics if access.may(ResourceType.TOPIC, topic.topic)])
        for state in response.transaction_states
    ]
    return _with(response, transaction_states=states)


def _limit_group_operations(access: Access, response: Any) -> Any:
    groups = [
        _with(
            group,
            authorized_operations=_limited(access, ResourceType.GROUP, group.group_id, group.authorized_operations),
        )
        for group in response.groups
    ]
    return _with(response, groups=groups)


def _topics_of(group: Any) -> set[str]:
    """Return the names of the topics that the members of a group have or will have. Share groups have no target."""
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, getattr(member, "target_assignment", member.assignment))
        for topic in assignment.topic_partitions
    }


def _hide_group_topics(access: Access, response: Any) -> Any:
    """Replace groups whose members have topics that the client may not see."""
    denied = access.denied(ResourceType.TOPIC, sorted(set().union(*map(_topics_of, response.groups))))
    groups = [
        type(group)(
            error_code=access.error(ResourceType.TOPIC),
            error_message="The group has described topic(s) that the client is not authorized to describe.",
            group_id=group.group_id,
        )
        if denied & _topics_of(group)
        else group
        for group in response.groups
    ]
    return _limit_group_operations(access, _with(response, groups=groups))


def _limit_cluster_operations(access: Access, response: Any) -> Any:
    operations = response.cluster_authorized_operations
    if operations == _OMITTED:
        return response
    may_see = access.may(ResourceType.CLUSTER)
    found = access.operations(ResourceType.CLUSTER, CLUSTER_NAME, operations) if may_see else 0
    return _with(response, cluster_authorized_operations=found)


def _limit_metadata_operations(access: Access, response: Any) -> Any:
    if any(topic.topic_authorized_operations != _OMITTED for topic in response.topics):
        topics = [
            _with(
                topic,
                topic_authorized_operations=_limited(
                    access, ResourceType.TOPIC, topic.name or "", topic.topic_authorized_operations
                ),
            )
            for topic in response.topics
        ]
        response = _with(response, topics=topics)
    return _limit_cluster_operations(access, response)


def _limited(access: Access, kind: ResourceType, name: str, operations: int) -> int:
    return operations if operations == _OMITTED else access.operations(kind, name, operations)


def _hide_configs_of_new_topics(access: Access, response: Any) -> Any:
    code = access.error(ResourceType.TOPIC)
    topics = [
        topic
        if topic.error_code or access.may(ResourceType.TOPIC, topic.name, "configs", log_denied=False)
        else _with(topic, topic_config_error_code=code, num_partitions=-1, replication_factor=-1, configs=[])
        for topic in response.topics
    ]
    return _with(response, topics=topics)


_Hide = Callable[[Access, Any], Any]
_HIDE: Final[dict[int, _Hide]] = {
    ApiKey.METADATA: _limit_metadata_operations,
    ApiKey.DESCRIBE_CLUSTER: _limit_cluster_operations,
    ApiKey.DESCRIBE_GROUPS: _limit_group_operations,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _hide_group_topics,
    ApiKey.SHARE_GROUP_DESCRIBE: _hide_group_topics,
    ApiKey.LIST_GROUPS: _hide_groups,
    ApiKey.LIST_TRANSACTIONS: _hide_transactions,
    ApiKey.DESCRIBE_TRANSACTIONS: _hide_topics_of_transactions,
    ApiKey.CREATE_TOPICS: _hide_configs_of_new_topics,
}


@cache
def _parts_of(api_key: int, version: int) -> tuple[tuple[Rule, ...], _Split | None, _Hide | None]:
    """Return the parts of the gate for a request: rules for the whole of it, its split, and what is hidden."""
    rules = rules_of(api_key, version)
    by_table = _split_by_table if any(rule.effect is Effect.ITEMS for rule in rules) else None
    whole = tuple(rule for rule in rules if rule.effect is Effect.WHOLE)
    return whole, _SPLIT.get(api_key, by_table), _HIDE.get(api_key)
