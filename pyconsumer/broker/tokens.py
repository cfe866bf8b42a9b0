"""The broker's check of tokens: SASL OAUTHBEARER (RFC 7628, KIP-255, KIP-768).

Rules
1. The algorithm of a signature must be that of the key. ``none`` and algorithms with a shared secret are never accepted
   for a signed token, so that a public key cannot pass for a secret.
2. A token without a signature is accepted only if the settings say so, and then no other is.
3. A refused token gets Kafka's answer, which does not say what is wrong. The broker's log does, without the token.
4. The module does no I/O. The keys are those of :mod:`.token_keys`, which check signatures by ``joserfc``. Claims are
   checked here, as Kafka does.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from pyconsumer.background_log import Log
from pyconsumer.broker.logins import LoginError, LoginStep
from pyconsumer.broker.token_keys import ALGORITHMS, MOST_TOKEN_BYTES
from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.primitives import Buffer

if TYPE_CHECKING:
    from pyconsumer.broker.config import BrokerConfig

__all__ = ["FindKeys", "OAuthLogin", "TokenChecker", "TokenError", "TokenRules", "VerifiedToken"]

_log = Log(__name__)

#: A client's first message: an optional authorization id, ``auth=Bearer TOKEN``, extensions.
_FIRST: Final = re.compile(
    rb"n,(?:a=([\x01-\x2b\x2d-\x3c\x3e-\x7f]+))?,\x01"
    # A pair is no second auth: each message is read in one way only, so in a time that grows with its length.
    rb"(?:(?!auth=)[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*auth=([A-Za-z0-9_]+) +([-_.~+/=a-zA-Z0-9]+)\x01"
    rb"(?:(?!auth=)[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*\x01"
)
_INVALID: Final = b'{"status":"invalid_token"}'


class TokenError(Exception):
    """The token is not accepted. The text has no part of the token that is secret."""


class VerifiedToken(NamedTuple):
    """A token that was accepted: its user, the time of its end (ms since 1970), and its scopes.

    The end of a token that is accepted only because clocks may differ is the end of that difference.
    """

    user: str
    expires_ms: int
    scopes: tuple[str, ...]


class _Key(Protocol):
    """A public key."""

    def fits(self, algorithm: str) -> bool: ...

    def verify(self, algorithm: str, token: str) -> bool: ...


#: Returns the keys for a key id. None stands for all keys.
FindKeys = Callable[["str | None"], Sequence[_Key]]


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The demands on a token.

    Attributes:
        audiences: a token must be for one of them. Empty: for anybody.
        issuer: the token's issuer. None: any issuer.
        skew_s: the largest difference between the clocks of the issuer and of the broker, in seconds.
        user_claim, scope_claim: names of the claims with the user and the scopes.
        unsecured: accept tokens without a signature, and no others.
    """

    audiences: frozenset[str] = frozenset()
    issuer: str | None = None
    skew_s: float = 30.0
    user_claim: str = "sub"
    scope_claim: str = "scope"
    unsecured: bool = False

    @classmethod
    def of(cls, config: BrokerConfig) -> TokenRules:
        """Return the rules in a broker's settings."""
        return cls(
            frozenset(config.strings("sasl.oauthbearer.expected.audience")),
            config.text("sasl.oauthbearer.expected.issuer") or None,
            config.integer("sasl.oauthbearer.clock.skew.seconds"),
            config.text("sasl.oauthbearer.sub.claim.name") or "sub",
            config.text("sasl.oauthbearer.scope.claim.name") or "scope",
            config.boolean("pyconsumer.oauthbearer.unsecured"),
        )

    def check(self, keys_url: str | None) -> None:
        """Raise ``ConfigurationError`` if no token could be accepted, or if the settings contradict each other."""
        if self.unsecured and keys_url:
            raise ConfigurationError(
                "pyconsumer.oauthbearer.unsecured and sasl.oauthbearer.jwks.endpoint.url exclude each other"
            )
        if not self.unsecured and not keys_url:
            raise ConfigurationError(
                "OAUTHBEARER needs the keys of the tokens: sasl.oauthbearer.jwks.endpoint.url"
                " (or, for tests, pyconsumer.oauthbearer.unsecured=true)"
            )


class TokenChecker:
    """Checks tokens.

    Args:
        find_keys: returns the keys of the issuer.
        wall_ms: returns the time in ms since 1970.
    """

    def __init__(self, rules: TokenRules, find_keys: FindKeys, wall_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._find_keys = find_keys
        self._wall_ms = wall_ms

    def check(self, text: str) -> VerifiedToken:
        """Return the user of a token. Raises :class:`TokenError` if the token is not accepted."""
        if len(text) > MOST_TOKEN_BYTES:
            raise TokenError(f"it is longer than {MOST_TOKEN_BYTES} bytes")
        parts = text.split(".")
        if len(parts) != 3:
            raise TokenError("it is not a JWT: it does not have three parts")
        self._check_signature(_parse_part(parts[0]), text)
        return self._check_claims(_parse_part(parts[1]))

    def _check_signature(self, header: dict[str, Any], text: str) -> None:
        algorithm, key_id = header.get("alg"), header.get("kid")
        if "crit" in header:
            raise TokenError("its header demands an extension (crit)")
        if self._rules.unsecured:
            if algorithm != "none" or not text.endswith("."):
                raise TokenError("it is signed, and the broker accepts only tokens without a signature")
            return
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise TokenError(f"its algorithm {algorithm!r:.40} is none of {', '.join(ALGORITHMS)}")
        if key_id is not None and not isinstance(key_id, str):
            raise TokenError("its key id is not a string")
        _decoded(text.rpartition(".")[2])  # the library would overlook other letters
        found = False
        for key in self._find_keys(key_id):
            if key.fits(algorithm):
                found = True
                if key.verify(algorithm, text):
                    return
        raise TokenError("its signature is wrong" if found else f"there is no key {key_id!r:.80} for {algorithm}")

    def _check_claims(self, claims: dict[str, Any]) -> VerifiedToken:
        rules, now_s = self._rules, self._wall_ms() / 1000
        expires = _time(claims, "exp")
        issued, begins = _time(claims, "iat"), _time(claims, "nbf")
        if expires is None:
            raise TokenError("it has no end (exp)")
        if now_s - rules.skew_s >= expires:
            raise TokenError(f"it ended {now_s - expires:.0f} s ago")
        if begins is not None and now_s + rules.skew_s < begins:
            raise TokenError(f"it begins in {begins - now_s:.0f} s")
        if issued is None and not rules.unsecured:
            raise TokenError("it has no time of issue (iat)")
        if issued is not None and (issued > expires or (rules.unsecured and issued > now_s + rules.skew_s)):
            raise TokenError("its time of issue (iat) is too late")
        if rules.issuer is not None and claims.get("iss") != rules.issuer:
            raise TokenError("it is of another issuer (iss)")
        if rules.audiences and not rules.audiences & _audiences(claims.get("aud")):
            raise TokenError("it is for another audience (aud)")
        user = claims.get(rules.user_claim)
        if not isinstance(user, str) or not user.strip():
            raise TokenError(f"it has no user ({rules.user_claim})")
        if (
            expires <= now_s
        ):  # the issuer's clock may be behind: without this, the session would end at its first request
            expires += rules.skew_s
        return VerifiedToken(user.strip(), math.ceil(expires * 1000), _scopes(claims.get(rules.scope_claim)))


class OAuthLogin:
    """One authentication by OAUTHBEARER.

    Args:
        check: returns the user of a token, or raises :class:`TokenError`.
    """

    def __init__(self, check: Callable[[str], VerifiedToken]) -> None:
        self._check = check
        self._is_refused = False

    def respond(self, message: Buffer) -> LoginStep:
        """Take a client's message.

        A refused token is answered, and the client confirms it. Then the login fails (RFC 7628, 3.2.3).
        """
        data = bytes(message)
        if self._is_refused:
            raise LoginError(_INVALID.decode())
        found = _FIRST.fullmatch(data) if len(data) <= 2 * MOST_TOKEN_BYTES else None
        if found is None:
            raise LoginError("Invalid OAUTHBEARER client first message")
        authorization, scheme, token = found.groups()
        if scheme.lower() != b"bearer":
            raise LoginError("Invalid OAUTHBEARER client first message: invalid scheme")
        try:
            verified = self._check(token.decode("ascii"))
        except TokenError as error:
            _log.info("a token is refused: %s", error)
            self._is_refused = True
            return LoginStep(_INVALID, None)
        if authorization and authorization.decode("ascii") != verified.user:
            raise LoginError(
                "Authentication failed: Client requested an authorization id that is different from the token's"
                " principal name"
            )
        return LoginStep(b"", verified.user, verified.expires_ms)


def _parse_part(part: str) -> dict[str, Any]:
    """Return a part of a JWT. Raises :class:`TokenError` if it is not an object, or has a name twice."""
    try:
        found = json.loads(_decoded(part), object_pairs_hook=_distinct, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise TokenError("it is not a JWT: a part is not JSON") from None
    if not isinstance(found, dict):
        raise TokenError("it is not a JWT: a part is not an object")
    return found


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenError("it is not a JWT: a part is not Base64") from None


def _time(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise TokenError(f"{name} is not a time")
    return float(value)


def _audiences(value: object) -> set[str]:
    found = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return {item for item in found if isinstance(item, str)}


def _scopes(value: object) -> tuple[str, ...]:
    """Return the scopes in a claim. As in Kafka, a claim of another type has none."""
    if isinstance(value, str):
        return tuple(value.split())
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
