"""The context that a handler gets with a request."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyconsumer.broker.security import ANONYMOUS, Session

__all__ = ["ANONYMOUS", "RequestContext"]


@dataclass(slots=True)
class RequestContext:
    """The origin of a request, and the facts that a handler needs for the response.

    Attributes:
        api_key, api_version, correlation_id: from its header.
        client_id: from its header, empty if it has none.
        client_host: the peer's address in Kafka's form, such as ``/127.0.0.1``.
        listener: name of the listener of the connection, such as ``PLAINTEXT``.
        principal: the sender, such as ``User:alice``.
        now: monotonic seconds when its handling began.
        wall_ms: the same in ms since 1970.
        session: the client of the connection.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    client_host: str
    listener: str
    principal: str
    now: float
    wall_ms: int
    session: Session = field(default_factory=Session)
