"""DeleteAcls: remove the rules that match filters (KIP-140)."""

from __future__ import annotations

from pyconsumer.acls import AclBinding, AclFilter
from pyconsumer.broker.access.store import check_filter
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.broker.handlers.describe_acls import check_enabled, filter_of, refuse_unknown
from pyconsumer.errors import BrokerResponseError
from pyconsumer.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

__all__ = ["check", "handle"]


def check(request: DeleteAclsRequest) -> None:
    """Refuse a request if one of its filters has the number 0."""
    for item in request.filters:
        refuse_unknown(item.resource_type_filter, item.pattern_type_filter, item.operation, item.permission_type)


async def handle(broker: Broker, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    """Remove the rules of the filters that are valid, in a single write. Return the removed rules of each filter."""
    results: list[DeleteAclsFilterResult] = []
    valid: list[tuple[AclFilter, DeleteAclsFilterResult]] = []
    for item in request.filters:
        try:
            check_enabled(broker, "No Authorizer is configured.")
            wanted = filter_of(item)
            check_filter(wanted)
            result = DeleteAclsFilterResult(0, None)
            valid.append((wanted, result))
        except BrokerResponseError as error:
            result = DeleteAclsFilterResult(*code_and_text(error))
        results.append(result)
    try:
        removed = broker.controller.acls.delete([wanted for wanted, _ in valid])
    except OSError as error:
        failure = DeleteAclsFilterResult(*code_and_text(error))
        return DeleteAclsResponse(filter_results=[result if result.error_code else failure for result in results])
    for (_, result), acls in zip(valid, removed, strict=True):
        result.matching_acls.extend(map(_matching, acls))
    return DeleteAclsResponse(filter_results=results)


def _matching(acl: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        0,
        None,
        int(acl.resource_type),
        acl.name,
        int(acl.pattern_type),
        acl.principal,
        acl.host,
        int(acl.operation),
        int(acl.permission),
    )
