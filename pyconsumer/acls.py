"""Access control lists: who may do what with which topic, group, transactional id or cluster (KIP-11, KIP-290).

An :class:`AclBinding` is one rule. The admin client sends it, and the embedded broker obeys it. :func:`parse_acl` reads
rules from lines such as ``"alice: READ topic orders"``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

from pyconsumer.errors import ConfigurationError

__all__ = [
    "CLUSTER_NAME",
    "WILDCARD",
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "PatternType",
    "ResourceType",
    "java_host",
    "operation_bits",
    "operations_of",
    "parse_acl",
    "problem_of",
]

#: Any resource name, any host, or (after ``User:``) any user.
WILDCARD: Final = "*"
#: The only name of a resource of the type CLUSTER.
CLUSTER_NAME: Final = "kafka-cluster"
_NOT_ASKED: Final = -(1 << 31)


class ResourceType(IntEnum):
    """Types of protected resources, with Kafka's numbers. ``ANY`` is for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Meanings of a resource name, with Kafka's numbers. ``ANY`` and ``MATCH`` are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """Every rule that applies to the name: those with this name, with a prefix of it, and with ``*``."""
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """Operations, with Kafka's numbers. ``ANY`` is for filters."""

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


_O = AclOperation
#: The operations on each type of resource, as in Kafka's ``AclEntry``. ALL contains them.
_SUPPORTED: Final = {
    ResourceType.TOPIC: (
        *(_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE),
        *(_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ),
    ResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        *(_O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION),
        *(_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE),
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE, _O.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}


def operation_bits(kind: ResourceType) -> int:
    """Return all operations on a type of resource, as bits by Kafka's numbers (KIP-430)."""
    return sum(1 << operation for operation in _SUPPORTED[kind])


class AclPermission(IntEnum):
    """Permission or denial, with Kafka's numbers. ``ANY`` is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One rule.

    Attributes:
        resource_type: the type of the resource.
        name: its name, a prefix of names (see ``pattern_type``), or ``*`` for all. For the cluster it is
            :data:`CLUSTER_NAME`.
        principal: who, such as ``User:alice``. ``User:*`` is everybody.
        operation: what. READ, WRITE, DELETE and ALTER contain DESCRIBE. ALTER_CONFIGS contains DESCRIBE_CONFIGS.
        host: the client's address, or ``*`` for any. Names and ranges of addresses are not possible, as in Kafka.
        permission: ALLOW or DENY. A DENY is stronger than any ALLOW.
        pattern_type: LITERAL or PREFIXED.

    Example::

        AclBinding(ResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
    """

    resource_type: ResourceType
    name: str
    principal: str
    operation: AclOperation
    host: str = WILDCARD
    permission: AclPermission = AclPermission.ALLOW
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        """Return the line that :func:`parse_acl` reads as this rule. Parts that it would misread are quoted."""
        import json  # seldom needed, and the import of the package is to be cheap

        plain = _line(self, self.principal.removeprefix("User:"), self.name, self.host)
        if _reads_back(plain, self):
            return plain
        named = _line(self, self.principal.removeprefix("User:"), json.dumps(self.name), self.host)
        if _reads_back(named, self):
            return named
        host = self.host if self.host == WILDCARD else json.dumps(self.host)
        return _line(self, json.dumps(self.principal), json.dumps(self.name), host)


def problem_of(acl: AclBinding) -> str | None:
    """Return why a rule can never apply, although a cluster stores it. None: it may apply."""
    kind, operations = acl.resource_type, _SUPPORTED.get(acl.resource_type)
    if operations is not None and acl.operation not in (AclOperation.ALL, *operations):
        known = ", ".join(operation.name for operation in operations)
        return f"{acl.operation.name} is no operation on a {kind.name.lower()}: it has {known}"
    if kind is ResourceType.TOPIC and WILDCARD in acl.name and acl.name != WILDCARD:
        return "no topic has a * in its name, and only one at the end makes a prefix"
    if acl.host != WILDCARD:
        try:
            written = java_host(acl.host)
        except ValueError:
            return f"the host {acl.host!r} is no address: a rule is for one address, or for *"
        if written != acl.host:
            return f"a broker writes the host {acl.host!r} as {written}: use that form"
    return None


def java_host(host: str) -> str:
    """Return an address as Java writes it, without shortening IPv6. Raises ``ValueError`` if it is no address."""
    import ipaddress

    address = ipaddress.ip_address(host)
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))


def operations_of(bits: int) -> frozenset[AclOperation] | None:
    """Return the operations in a response of a broker. None: the request did not ask for them (KIP-430)."""
    if bits == _NOT_ASKED:
        return None
    return frozenset(operation for operation in AclOperation if operation > AclOperation.ALL and bits >> operation & 1)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Selects rules. Each attribute that is None or ``ANY`` selects all.

    With the pattern type ``MATCH`` the name is that of a resource, and the filter selects every rule about it.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    host: str | None = None
    permission: AclPermission = AclPermission.ANY
    pattern_type: PatternType = PatternType.ANY

    @classmethod
    def of(cls, acl: AclBinding) -> AclFilter:
        """Return the filter that selects one rule."""
        return cls(**acl._asdict())

    def matches(self, acl: AclBinding) -> bool:
        """Return whether the filter selects a rule (Java's ``AclBindingFilter``)."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.permission in (AclPermission.ANY, acl.permission)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == acl.name
        if acl.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, WILDCARD)


def _line(acl: AclBinding, principal: str, name: str, host: str) -> str:
    denies = "deny " if acl.permission is AclPermission.DENY else ""
    name += WILDCARD if acl.pattern_type is PatternType.PREFIXED else ""
    is_cluster = acl.resource_type is ResourceType.CLUSTER and name == CLUSTER_NAME
    resource = acl.resource_type.name.lower() + ("" if is_cluster else f" {name}")
    return f"{denies}{principal}: {acl.operation.name} {resource}{'' if host == WILDCARD else f' from {host}'}"


def _reads_back(line: str, acl: AclBinding) -> bool:
    if not line.isprintable() or line[0] in "#@":  # a line of a file could not have it
        return False
    try:
        return parse_acl(line) == [acl]
    except ConfigurationError:
        return False


_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_RULE: Final = re.compile(
    rf"(?:(?P<permission>allow|deny)\s+)?(?P<principal>{_QUOTED}|\S.*?)\s*:\s+"
    rf"(?P<operations>[A-Za-z_]+(?:\s*,\s*[A-Za-z_]+)*)\s+(?P<type>[A-Za-z_]+)"
    rf"(?:\s+(?P<name>{_QUOTED}\*?|\S+))?(?:\s+from\s+(?P<host>{_QUOTED}|\S+))?",
    re.IGNORECASE,
)
_FOR_FILTERS: Final = ("UNKNOWN", "ANY")


def parse_acl(text: str) -> list[AclBinding]:
    """Return the rules of a line: ``[deny] USER: OPERATION[,...] TYPE NAME [from HOST]``.

    Args:
        text: such as ``"alice: READ,WRITE topic orders"``. A name that ends with ``*`` is a prefix, and ``*`` alone
            means all names. The cluster has no name: ``"alice: CREATE cluster"``. The user ``*`` is everybody.
            A name, a host or a user with its type may be a JSON string. So it may have blanks, and a ``*`` in it is
            no pattern: ``'"User:Ann B.": READ topic "odd*"'``. A quoted prefix has the ``*`` after the string.

    Returns:
        A rule for each operation.

    Raises:
        ConfigurationError: the line has another form, or names an unknown type or operation.

    Example::

        parse_acl("deny eve: ALL topic payments-* from 10.0.0.7")
    """
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(f"{text!r} is no rule of access: write it like 'alice: READ topic orders'")
    kind = _member(ResourceType, found["type"], text)
    name, pattern = _name(found["name"], text)
    if kind is ResourceType.CLUSTER:
        if name not in (None, CLUSTER_NAME):
            raise ConfigurationError(f"{text!r}: the cluster has no name other than {CLUSTER_NAME}")
        name = CLUSTER_NAME
    elif name is None:
        raise ConfigurationError(f"{text!r} names no {kind.name.lower()}: add a name, a prefix such as orders-*, or *")
    principal = _unquoted(found["principal"], text)
    has_type = ":" in principal if found["principal"][0] == '"' else re.match(r"[A-Za-z]+:", principal)
    return [
        AclBinding(
            kind,
            name,
            principal if has_type else f"User:{principal}",
            _member(AclOperation, operation.strip(), text),
            _unquoted(found["host"] or WILDCARD, text),
            AclPermission[(found["permission"] or "allow").upper()],
            pattern,
        )
        for operation in found["operations"].split(",")
    ]


def _name(given: str | None, text: str) -> tuple[str | None, PatternType]:
    if given is None:
        return None, PatternType.LITERAL
    if given != WILDCARD and given.endswith(WILDCARD):
        return _unquoted(given[:-1], text), PatternType.PREFIXED
    return _unquoted(given, text), PatternType.LITERAL


def _unquoted(given: str, text: str) -> str:
    if not given.startswith('"'):
        return given
    import json

    try:
        return str(json.loads(given))
    except ValueError:
        raise ConfigurationError(f"{text!r}: {given} is no JSON string, although it begins with a quote") from None


def _member(enum: Any, name: str, text: str) -> Any:
    try:
        if name.upper() not in _FOR_FILTERS:
            return enum[name.upper()]
    except KeyError:
        pass
    known = ", ".join(one.name for one in enum if one.name not in _FOR_FILTERS)
    raise ConfigurationError(f"{text!r}: {name!r} is none of {known}")
