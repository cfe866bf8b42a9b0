"""CreateAcls: add rules (KIP-140)."""

from __future__ import annotations

from pyconsumer.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from pyconsumer.broker.access.store import check_binding
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import code_and_text, error_response
from pyconsumer.broker.handlers.describe_acls import check_enabled, known, refuse_unknown
from pyconsumer.errors import BrokerResponseError, UnknownServerError
from pyconsumer.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

__all__ = ["check", "handle"]


def check(request: CreateAclsRequest) -> None:
    """Refuse a request if one of its rules has the number 0."""
    for item in request.creations:
        refuse_unknown(item.resource_type, item.resource_pattern_type, item.operation, item.permission_type)


async def handle(broker: Broker, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    """Add the rules that can be added, in a single write. The results are in the order of the request."""
    if broker.authorizer is not None and any(map(_is_filter, request.creations)):  # Java cannot make a rule of it
        return error_response(request, context.api_version, UnknownServerError.errno)  # type: ignore[return-value]
    results: list[AclCreationResult] = []
    valid: list[AclBinding] = []
    for item in request.creations:
        try:
            check_enabled(broker, "No Authorizer is configured.")
            acl = _binding(item)
            check_binding(acl)
            valid.append(acl)
            results.append(AclCreationResult(0, None))
        except BrokerResponseError as error:
            results.append(AclCreationResult(*code_and_text(error)))
    try:
        broker.controller.acls.create(valid)
    except (BrokerResponseError, OSError) as error:
        failure = AclCreationResult(*code_and_text(error))
        results = [result if result.error_code else failure for result in results]
    return CreateAclsResponse(results=results)


def _is_filter(item: AclCreation) -> bool:
    """Return whether an item has a part that only filters have: ANY, or the pattern MATCH."""
    return (
        item.resource_type == ResourceType.ANY
        or item.operation == AclOperation.ANY
        or item.permission_type == AclPermission.ANY
        or item.resource_pattern_type in (PatternType.ANY, PatternType.MATCH)
    )


def _binding(item: AclCreation) -> AclBinding:
    return AclBinding(
        known(ResourceType, item.resource_type),
        item.resource_name,
        item.principal,
        known(AclOperation, item.operation),
        item.host,
        known(AclPermission, item.permission_type),
        known(PatternType, item.resource_pattern_type),
    )
