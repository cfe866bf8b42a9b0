"""``RequestContext``: the facts about a request that its handler gets."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyconsumer.broker.access.authorizer import Access
from pyconsumer.broker.access.rates import ClientRates, MutationQuota
from pyconsumer.broker.security import ANONYMOUS, Session

__all__ = ["ANONYMOUS", "RequestContext"]


@dataclass(slots=True)
class RequestContext:
    """The origin of a request, and the facts that a handler needs for the response.

    Attributes:
        api_key, api_version, correlation_id: values from the request's header.
        client_id: the client id in the header, or empty.
        client_host: the client's address in Kafka's form, such as ``/127.0.0.1``.
        listener: name of the listener of the connection, such as ``PLAINTEXT``.
        principal: the authenticated client, such as ``User:alice``.
        now: the time (monotonic seconds) at which the handling of the request began.
        wall_ms: the same time in ms since 1970.
        session: data about the client of the connection.
        throttle_ms: the time (ms) for which the client is throttled after the response.
        access: the rights of the client. None if the broker has no authorizer, so that everything is allowed.
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
    access: Access | None = None
    throttle_ms: int = 0

    def limit(self, access: Access) -> None:
        """Set the rights of the client."""
        self.access = access

    def throttle(self, throttle_ms: int) -> None:
        """Throttle the client after the response for at least this time (KIP-219)."""
        self.throttle_ms = max(self.throttle_ms, throttle_ms)

    def mutation_quota(self, rates: ClientRates, *, strict_since: int) -> MutationQuota:
        """Return the client's quota for partitions that this request creates or deletes (KIP-599).

        Args:
            strict_since: the version from which the error is known.
        """
        return rates.mutation(self.principal, self.client_id, self.now, strict=self.api_version >= strict_since)
