"""Access control lists and SCRAM credentials in kafka-python's shapes, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyconsumer import admin as ours
from pyconsumer.compat.kafka.admin.acl_resource import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)
from pyconsumer.compat.kafka.admin.users import ScramMechanism
from pyconsumer.compat.kafka.errors import NoError, for_code
from pyconsumer.errors import BrokerResponseError, KafkaError

__all__ = ["acl", "binding", "code_class", "filter_of", "message", "users"]


def binding(acl: ACL) -> ours.AclBinding:
    """Return a rule as pyconsumer's value."""
    pattern = acl.resource_pattern
    return ours.AclBinding(
        ours.ResourceType(pattern.resource_type),
        pattern.resource_name or "",
        acl.principal or "",
        ours.AclOperation(acl.operation),
        acl.host or "",
        ours.AclPermission(acl.permission_type),
        ours.PatternType(pattern.pattern_type),
    )


def filter_of(wanted: ACLFilter) -> ours.AclFilter:
    """Return a filter as pyconsumer's value."""
    pattern = wanted.resource_pattern
    return ours.AclFilter(
        ours.ResourceType(pattern.resource_type),
        pattern.resource_name,
        wanted.principal,
        ours.AclOperation(wanted.operation),
        wanted.host,
        ours.AclPermission(wanted.permission_type),
        ours.PatternType(pattern.pattern_type),
    )


def acl(found: ours.AclBinding) -> ACL:
    """Return a rule as kafka-python's value."""
    pattern = ResourcePattern(ResourceType(found.resource_type), found.name, ACLResourcePatternType(found.pattern_type))
    operation, permission = ACLOperation(found.operation), ACLPermissionType(found.permission)
    return ACL(found.principal, found.host, operation, permission, pattern)


def code_class(error: KafkaError | None) -> type[Any]:
    """Return kafka-python's class of an error, or ``NoError``."""
    if error is None:
        found: type[Any] = NoError
        return found
    return for_code(error.errno if isinstance(error, BrokerResponseError) else -1)


def message(error: KafkaError | None) -> str | None:
    """Return the text of an error."""
    return None if error is None else str(error.args[0] if error.args else error)


def users(found: Mapping[str, ours.ScramUserDescription]) -> dict[str, dict[str, Any]]:
    """Return users with their mechanisms."""
    return {
        name: {
            "error": message(user.error),
            "credential_infos": _infos(user.iterations.items()),
        }
        for name, user in found.items()
    }


def _infos(iterations: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    return [{"mechanism": ScramMechanism(mechanism), "iterations": count} for mechanism, count in iterations]
