"""DescribeAcls: the rules that match a filter (KIP-140)."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

from pyconsumer.acls import AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.errors import InvalidRequestError, SecurityDisabledError
from pyconsumer.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

__all__ = ["check", "check_enabled", "filter_of", "handle", "known", "refuse_unknown"]

E = TypeVar("E", bound=IntEnum)


def check(request: DescribeAclsRequest) -> None:
    """Refuse a filter with the number 0."""
    refuse_unknown(
        request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    )


async def handle(broker: Broker, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    """Return the rules by resource. Without an authorizer the error is SECURITY_DISABLED."""
    try:
        check_enabled(broker, "No Authorizer is configured on the broker")
    except SecurityDisabledError as error:
        code, text = code_and_text(error)
        return DescribeAclsResponse(error_code=code, error_message=text)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in broker.controller.acls.matching(filter_of(request)):  # none, if the filter has an unknown part
        key = int(acl.resource_type), acl.name, int(acl.pattern_type)
        found = resources.setdefault(key, DescribeAclsResource(*key))
        found.acls.append(AclDescription(acl.principal, acl.host, int(acl.operation), int(acl.permission)))
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))


def refuse_unknown(*numbers: int) -> None:
    """Raise ``InvalidRequestError`` for the number of UNKNOWN, which Java does not parse. Others are checked later."""
    if 0 in numbers:
        raise InvalidRequestError("an ACL or a filter has an unknown element")


def check_enabled(broker: Broker, text: str) -> None:
    """Raise ``SecurityDisabledError`` if the broker has no authorizer."""
    if broker.authorizer is None:
        raise SecurityDisabledError(text)


def known(enum: Callable[[int], E], number: int) -> E:
    """Return a member by Kafka's number. A number that is not known becomes UNKNOWN, which is 0."""
    try:
        return enum(number)
    except ValueError:
        return enum(0)


def filter_of(request: Any) -> AclFilter:
    """Return the filter of DescribeAcls, or of an item of DeleteAcls."""
    return AclFilter(
        known(ResourceType, request.resource_type_filter),
        request.resource_name_filter,
        request.principal_filter,
        known(AclOperation, request.operation),
        request.host_filter,
        known(AclPermission, request.permission_type),
        known(PatternType, request.pattern_type_filter),
    )
