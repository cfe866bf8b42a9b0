"""Admin calls for delegation tokens: create, renew, expire, describe (KIP-48, KIP-373)."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pyconsumer.admin.outcomes import names_of
from pyconsumer.errors import for_code
from pyconsumer.network.calls import Calls
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)

if TYPE_CHECKING:
    from pyconsumer.network.futures import Steps

__all__ = ["DelegationToken", "DelegationTokenCalls", "create", "describe", "expire", "renew"]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A delegation token. Whoever has it can log in as its owner, until it expires.

    Attributes:
        token_id: the user name to log in with.
        hmac: the secret. It is not shown by ``repr``. :attr:`password` is its form for a login.
        owner: the principal that a login by the token is, such as ``User:alice``.
        requester: the principal that created it. Brokers before Kafka 3.3 do not say it.
        renewers: the principals that may renew it, besides its owner.
        issued_ms, expires_ms, ends_ms: when it was created, when it expires, and the time to which it can be renewed at
            most, in milliseconds since 1970.
    """

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int

    @property
    def password(self) -> str:
        """Return the password to log in with: the HMAC in Base64."""
        return base64.b64encode(self.hmac).decode()

    def __repr__(self) -> str:
        return f"DelegationToken({self.token_id!r}, owner={self.owner!r}, expires_ms={self.expires_ms})"


def create(
    calls: Calls, owner: str | None, renewers: Iterable[str], max_lifetime_ms: int, deadline: float
) -> Steps[DelegationToken]:
    """Create a token. A broker older than 3.3 creates none for another owner: UnsupportedVersionError."""
    names = list(renewers)
    of, named = (None, None) if owner is None else _parts(owner)
    request = create_delegation_token.CreateDelegationTokenRequest(
        owner_principal_type=of,
        owner_principal_name=named,
        renewers=[create_delegation_token.CreatableRenewers(*_parts(name)) for name in names],
        max_lifetime_ms=max_lifetime_ms,
    )
    found = yield from _ask(
        calls,
        ApiKey.CREATE_DELEGATION_TOKEN,
        request,
        create_delegation_token.CreateDelegationTokenResponse,
        deadline,
        min_version=1 if owner is None else 3,
    )
    return DelegationToken(
        found.token_id,
        bytes(found.hmac),
        f"{found.principal_type}:{found.principal_name}",
        _requester(found),
        tuple(names),
        found.issue_timestamp_ms,
        found.expiry_timestamp_ms,
        found.max_timestamp_ms,
    )


def renew(calls: Calls, hmac: bytes, period_ms: int, deadline: float) -> Steps[int]:
    """Let a token expire later. Return when, in milliseconds since 1970."""
    request = renew_delegation_token.RenewDelegationTokenRequest(hmac, period_ms)
    answer = renew_delegation_token.RenewDelegationTokenResponse
    found = yield from _ask(calls, ApiKey.RENEW_DELEGATION_TOKEN, request, answer, deadline)
    return int(found.expiry_timestamp_ms)


def expire(calls: Calls, hmac: bytes, period_ms: int, deadline: float) -> Steps[int]:
    """Let a token expire earlier. Return when, in milliseconds since 1970."""
    request = expire_delegation_token.ExpireDelegationTokenRequest(hmac, period_ms)
    answer = expire_delegation_token.ExpireDelegationTokenResponse
    found = yield from _ask(calls, ApiKey.EXPIRE_DELEGATION_TOKEN, request, answer, deadline)
    return int(found.expiry_timestamp_ms)


def describe(calls: Calls, owners: Iterable[str] | None, deadline: float) -> Steps[list[DelegationToken]]:
    """Return the tokens of some owners, or all that the user may see."""
    owner_type = describe_delegation_token.DescribeDelegationTokenOwner
    request = describe_delegation_token.DescribeDelegationTokenRequest(
        None if owners is None else [owner_type(*_parts(owner)) for owner in owners]
    )
    answer = describe_delegation_token.DescribeDelegationTokenResponse
    found = yield from _ask(calls, ApiKey.DESCRIBE_DELEGATION_TOKEN, request, answer, deadline)
    return [
        DelegationToken(
            item.token_id,
            bytes(item.hmac),
            f"{item.principal_type}:{item.principal_name}",
            _requester(item),
            tuple(f"{each.principal_type}:{each.principal_name}" for each in item.renewers),
            item.issue_timestamp,
            item.expiry_timestamp,
            item.max_timestamp,
        )
        for item in found.tokens
    ]


def _ask(
    calls: Calls, api_key: ApiKey, request: Any, response_type: Any, deadline: float, *, min_version: int = 1
) -> Steps[Any]:
    response = yield from calls.call(
        api_key,
        request,
        response_type,
        deadline,
        check=lambda response: for_code(response.error_code) if response.error_code else None,
        min_version=min_version,
        what=api_key.name.lower().replace("_", " "),
    )
    return response


def _parts(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"a principal is written as User:name, not {principal!r}")
    return kind, name


def _requester(found: Any) -> str:
    if not found.token_requester_principal_name:
        return ""
    return f"{found.token_requester_principal_type}:{found.token_requester_principal_name}"


class DelegationTokenCalls(ABC):
    """A part of the admin client."""

    _calls: Calls

    @abstractmethod
    def _run(self, steps: Callable[[float], Steps[R]], timeout_ms: int | None) -> R:
        """Run the steps of a call."""

    def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = -1,
        timeout_ms: int | None = None,
    ) -> DelegationToken:
        """Create a delegation token (KIP-48). With it a program logs in without the password of the owner.

        Log in by SCRAM with ``sasl_plain_username=token.token_id``, ``sasl_plain_password=token.password`` and
        ``sasl_scram_tokenauth=True``.

        Args:
            owner: the principal that the token is for, such as ``User:alice``. By default it is the user of this
                client. For another one the user needs rights (KIP-373).
            renewers: principals that may renew it, besides its owner.
            max_lifetime_ms: how long it can be renewed at most. -1: the broker's ``delegation.token.max.lifetime.ms``.

        Raises:
            DelegationTokenAuthDisabledError: the brokers have no ``delegation.token.secret.key``.
            DelegationTokenRequestNotAllowedError: the client is not logged in, or is logged in by a token.

        Example::

            token = admin.create_delegation_token(renewers=["User:scheduler"])
        """
        named = names_of(renewers)
        return self._run(lambda until: create(self._calls, owner, named, max_lifetime_ms, until), timeout_ms)

    def renew_delegation_token(self, hmac: bytes, *, period_ms: int = -1, timeout_ms: int | None = None) -> int:
        """Let a delegation token expire later. Its owner and its renewers may do so.

        Args:
            hmac: the token's ``hmac``.
            period_ms: the time from now until it expires. -1: the broker's ``delegation.token.expiry.time.ms``.

        Returns:
            When it expires, in milliseconds since 1970.

        Raises:
            DelegationTokenNotFoundError: no token has this HMAC.
            DelegationTokenOwnerMismatchError: the user is neither its owner nor one of its renewers.
            DelegationTokenExpiredError: it has expired already.

        Example::

            expires_ms = admin.renew_delegation_token(token.hmac, period_ms=3_600_000)
        """
        return self._run(lambda until: renew(self._calls, hmac, period_ms, until), timeout_ms)

    def expire_delegation_token(self, hmac: bytes, *, period_ms: int = -1, timeout_ms: int | None = None) -> int:
        """Let a delegation token expire earlier, or at once. Connections that logged in by it stay until they end.

        Args:
            hmac: the token's ``hmac``.
            period_ms: the time from now until it expires. -1: at once.

        Returns:
            When it expires, in milliseconds since 1970.

        Raises:
            DelegationTokenNotFoundError: no token has this HMAC.
            DelegationTokenOwnerMismatchError: the user is neither its owner nor one of its renewers.

        Example::

            admin.expire_delegation_token(token.hmac)
        """
        return self._run(lambda until: expire(self._calls, hmac, period_ms, until), timeout_ms)

    def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> list[DelegationToken]:
        """Describe the delegation tokens of owners, as far as the user may see them.

        Args:
            owners: principals such as ``User:alice``. None: all owners.

        Raises:
            DelegationTokenAuthDisabledError: the brokers have no ``delegation.token.secret.key``.

        Example::

            for token in admin.describe_delegation_tokens():
                print(token.token_id, token.owner)
        """
        named = None if owners is None else names_of(owners)
        return self._run(lambda until: describe(self._calls, named, until), timeout_ms)
