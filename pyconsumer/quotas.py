"""Quotas of clients: whom a quota is for, and the names of its bounds (KIP-13, KIP-546, KIP-599, KIP-612)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "CLIENT_ID",
    "CONNECTION_RATE",
    "CONSUMER_RATE",
    "DEFAULT_ENTITY",
    "IP",
    "MUTATION_RATE",
    "PRODUCER_RATE",
    "QUOTA_TYPES",
    "REQUEST_PERCENTAGE",
    "USER",
    "QuotaEntity",
]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
#: The types of which an entity consists.
QUOTA_TYPES: Final = (USER, CLIENT_ID, IP)

#: Bytes a second of Produce requests, for each broker.
PRODUCER_RATE: Final = "producer_byte_rate"
#: Bytes a second of responses to Fetch and ShareFetch, for each broker.
CONSUMER_RATE: Final = "consumer_byte_rate"
#: The share of a thread's time, in percent.
REQUEST_PERCENTAGE: Final = "request_percentage"
#: Partitions a second that are created or deleted.
MUTATION_RATE: Final = "controller_mutation_rate"
#: Connections a second from an address, for each broker.
CONNECTION_RATE: Final = "connection_creation_rate"

#: Stands in a :class:`QuotaEntity` for every name that has no quota of its own.
DEFAULT_ENTITY: Final = ""


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """The clients that a quota is for: a user, a client id, both, or an address.

    Attributes:
        user: name of a user, without ``User:``. :data:`DEFAULT_ENTITY` stands for all users without a quota of their
            own. None: the quota is not for a user.
        client_id: the same for a client id. ``ip``: the same for an address, which cannot be combined with the others.

    Example::

        QuotaEntity(user="alice", client_id=DEFAULT_ENTITY)  # each client id of alice has this quota
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __post_init__(self) -> None:
        if self.user is None and self.client_id is None and self.ip is None:
            raise ValueError("a quota is for a user, a client id or an address (ip)")

    def __str__(self) -> str:
        return ", ".join(f"{kind} {'<default>' if name is None else repr(name)}" for kind, name in self.parts)

    @property
    def parts(self) -> tuple[tuple[str, str | None], ...]:
        """Return Kafka's types with their names, sorted by type. None is the default."""
        named = ((CLIENT_ID, self.client_id), (IP, self.ip), (USER, self.user))
        return tuple((kind, name or None) for kind, name in named if name is not None)
