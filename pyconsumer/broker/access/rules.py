"""``AclRules``: decides whether rules allow an operation. The decisions are those of Kafka's StandardAuthorizer.

Rules
1. A rule applies to a resource by its name, by a prefix of it, or by ``*``.
2. A rule that denies is stronger than any that allows.
3. If rules apply to the resource, but none to this client and operation, the answer is no.
4. If no rule applies to the resource, the decision is :data:`NO_RULE`, and a setting decides.
5. READ, WRITE, DELETE and ALTER contain DESCRIBE, and ALTER_CONFIGS contains DESCRIBE_CONFIGS, in rules that allow.
   A rule that denies READ does not deny DESCRIBE.

There may be 100,000 rules, so that a question must not look at all of them: they are found by type, name and principal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from pyconsumer.acls import WILDCARD, AclBinding, AclOperation, AclPermission, PatternType, ResourceType

__all__ = ["EVERYBODY", "AclRules", "Decision", "contains"]

EVERYBODY: Final = "User:*"

_DESCRIBE: Final = frozenset(
    {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
)
_DESCRIBE_CONFIGS: Final = frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS})
#: The operations in rules that allow an operation. Each operation allows itself.
_ALLOWED_BY: Final = {AclOperation.DESCRIBE: _DESCRIBE, AclOperation.DESCRIBE_CONFIGS: _DESCRIBE_CONFIGS}


def contains(granted: AclOperation, operation: AclOperation) -> bool:
    """Return whether a rule that allows one operation also allows another one."""
    return granted is AclOperation.ALL or granted in _ALLOWED_BY.get(operation, (operation,))


class Decision(Enum):
    """The answer to a question."""

    ALLOWED = 1
    DENIED = 2
    NO_RULE = 3
    """No rule is about this resource."""


class _Entry(NamedTuple):
    """The part of a rule that is not in the index."""

    host: str
    operation: AclOperation
    allows: bool


#: The rules of one name pattern, by principal.
_Section = dict[str, list[_Entry]]


class AclRules:
    """An index of rules."""

    def __init__(self) -> None:
        self._literal: dict[tuple[ResourceType, str], _Section] = {}
        self._prefixed: dict[tuple[ResourceType, str], _Section] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}

    def add(self, acl: AclBinding) -> None:
        """Add a rule that is not there yet."""
        sections = self._literal if acl.pattern_type is PatternType.LITERAL else self._prefixed
        key = acl.resource_type, acl.name
        if acl.pattern_type is PatternType.PREFIXED and key not in sections:
            self._prefix_lengths.setdefault(acl.resource_type, Counter())[len(acl.name)] += 1
        sections.setdefault(key, {}).setdefault(acl.principal, []).append(_entry(acl))

    def remove(self, acl: AclBinding) -> None:
        """Remove a rule."""
        sections = self._literal if acl.pattern_type is PatternType.LITERAL else self._prefixed
        key = acl.resource_type, acl.name
        section = sections[key]
        section[acl.principal].remove(_entry(acl))
        if section[acl.principal]:
            return
        del section[acl.principal]
        if section:
            return
        del sections[key]
        if acl.pattern_type is PatternType.PREFIXED:
            lengths = self._prefix_lengths[acl.resource_type]
            lengths[len(acl.name)] -= 1
            if not lengths[len(acl.name)]:
                del lengths[len(acl.name)]

    def _sections(self, kind: ResourceType, name: str) -> Iterator[_Section]:
        for key in dict.fromkeys(((kind, name), (kind, WILDCARD))):
            section = self._literal.get(key)
            if section is not None:
                yield section
        for length in self._prefix_lengths.get(kind, ()):
            section = self._prefixed.get((kind, name[:length])) if length <= len(name) else None
            if section is not None:
                yield section

    def decide(self, principal: str, host: str, operation: AclOperation, kind: ResourceType, name: str) -> Decision:
        """Return whether a client may do something with a resource.

        Args:
            principal: the client, such as ``User:alice``.
            host: its address, such as ``127.0.0.1``.
        """
        has_rule = is_allowed = False
        by = _ALLOWED_BY.get(operation, (operation,))
        for section in self._sections(kind, name):
            has_rule = True
            for who in (principal, EVERYBODY):
                for entry in section.get(who, ()):
                    if entry.host not in (WILDCARD, host):
                        continue
                    if not entry.allows:
                        if entry.operation in (AclOperation.ALL, operation):
                            return Decision.DENIED
                    elif entry.operation is AclOperation.ALL or entry.operation in by:
                        is_allowed = True
        if is_allowed:
            return Decision.ALLOWED
        return Decision.DENIED if has_rule else Decision.NO_RULE

    def allows_any(self, principal: str, host: str, operation: AclOperation, kind: ResourceType) -> bool:
        """Return whether rules allow an operation on at least one name (KIP-679).

        This is Java's ``authorizeByResourceType``.
        """

        def names(sections: dict[tuple[ResourceType, str], _Section], allows: bool) -> set[str]:
            return {
                name
                for (of, name), section in sections.items()
                if of is kind
                and any(
                    entry.allows is allows
                    and entry.host in (WILDCARD, host)
                    and entry.operation in (AclOperation.ALL, operation)
                    for who in (principal, EVERYBODY)
                    for entry in section.get(who, ())
                )
            }

        denied, denied_prefixes = names(self._literal, False), names(self._prefixed, False)
        if WILDCARD in denied:
            return False
        allowed = names(self._literal, True)
        if WILDCARD in allowed:
            return True

        def is_free(name: str) -> bool:
            return not any(name[:length] in denied_prefixes for length in range(1, len(name) + 1))

        return any(map(is_free, allowed - denied)) or any(map(is_free, names(self._prefixed, True)))


def _entry(acl: AclBinding) -> _Entry:
    return _Entry(acl.host, acl.operation, acl.permission is AclPermission.ALLOW)
