"""``kafka.admin.acl_resource``: the values of access control lists, so that programs that import them still run.

There are no calls that accept them: see ``docs/porting.md``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

__all__ = [
    "ACL",
    "ACLFilter",
    "ACLOperation",
    "ACLPermissionType",
    "ACLResourcePatternType",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
]


class ResourceType(IntEnum):
    """Types of protected resources."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class ACLOperation(IntEnum):
    """Operations that are allowed or denied."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ACLPermissionType(IntEnum):
    """Permission or denial."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ACLResourcePatternType(IntEnum):
    """Ways to match the name of a resource."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class _Value:
    """A value that is equal to another one if the class and all attributes are."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({shown})"


class ResourcePatternFilter(_Value):
    """A filter for resources."""

    def __init__(
        self, resource_type: ResourceType, resource_name: str | None, pattern_type: ACLResourcePatternType
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.validate()

    def validate(self) -> None:
        """Check that the attributes have the right types.

        Raises:
            ValueError: an attribute has a wrong type.
        """
        _check(self.resource_type, ResourceType, "resource_type")
        _check(self.pattern_type, ACLResourcePatternType, "pattern_type")


class ResourcePattern(ResourcePatternFilter):
    """Resources of one type, by name or by prefix."""

    def __init__(
        self,
        resource_type: ResourceType,
        resource_name: str,
        pattern_type: ACLResourcePatternType = ACLResourcePatternType.LITERAL,
    ) -> None:
        super().__init__(resource_type, resource_name, pattern_type)

    def validate(self) -> None:
        """Check that the pattern names resources of one type.

        Raises:
            ValueError: the pattern may name resources of several types.
        """
        super().validate()
        if self.resource_type is ResourceType.ANY:
            raise ValueError("a pattern is for one type of resource: ANY is for filters only")
        if self.pattern_type in (ACLResourcePatternType.ANY, ACLResourcePatternType.MATCH):
            raise ValueError(f"a pattern must be LITERAL or PREFIXED: {self.pattern_type.name} is for filters only")


class ACLFilter(_Value):
    """A filter for entries of access control lists."""

    def __init__(
        self,
        principal: str | None,
        host: str | None,
        operation: ACLOperation,
        permission_type: ACLPermissionType,
        resource_pattern: ResourcePatternFilter,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
        self.resource_pattern = resource_pattern
        self.validate()

    def validate(self) -> None:
        """Check that the attributes have the right types.

        Raises:
            ValueError: an attribute has a wrong type.
        """
        _check(self.operation, ACLOperation, "operation")
        _check(self.permission_type, ACLPermissionType, "permission_type")
        _check(self.resource_pattern, ResourcePatternFilter, "resource_pattern")


class ACL(ACLFilter):
    """An entry of an access control list."""

    def validate(self) -> None:
        """Check that the entry is for one operation of one resource.

        Raises:
            ValueError: the entry is a filter.
        """
        super().validate()
        if self.operation is ACLOperation.ANY:
            raise ValueError("an entry is for one operation: ANY is for filters only")
        if self.permission_type is ACLPermissionType.ANY:
            raise ValueError("an entry must be ALLOW or DENY: ANY is for filters only")
        _check(self.resource_pattern, ResourcePattern, "resource_pattern")


def _check(given: Any, wanted: type, name: str) -> None:
    if not isinstance(given, wanted):
        raise ValueError(f"{name} must be a {wanted.__name__}, not {given!r}")
