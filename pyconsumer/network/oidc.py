"""Fetches one token from an OpenID Connect provider, as the settings say. When to fetch one is in :mod:`.tokens`.

The ways: client credentials with a secret (KIP-768, KIP-1025) or with a signed assertion (KIP-1258), and the grant
jwt-bearer (KIP-1139).

Rules
1. HTTP is that of the standard library, so that it works without an extra. One short request in minutes needs no pool.
2. An answer has at most 1 MiB, and all of it arrives within ``sasl_login_read_timeout_ms``. Redirects are not followed,
   since the request has a secret.
3. No error has a secret, an assertion or a token, even if the provider repeats it. An address is shown without its
   query.
4. A fault that a second attempt cannot mend is a :class:`LoginRefused`, others are a :class:`LoginFailed`.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import ssl
import time
import uuid
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

from pyconsumer.errors import ConfigurationError
from pyconsumer.network.timed_http import LONGEST_WAIT_S, TimedResponse, time_of_request
from pyconsumer.settings.config import ClientConfig

__all__ = ["LoginFailed", "LoginRefused", "Token", "fetch_token", "read_token", "shown_address"]

_MOST_BYTES: Final = 1 << 20
_LONGEST_REASON: Final = 200
#: Java's statuses after which it does not ask again, and redirects.
_FINAL: Final = frozenset(
    {301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505}
)
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
#: The life of a token that does not say it, in seconds.
_UNKNOWN_LIFE_S: Final = 60.0


class LoginFailed(Exception):
    """No token could be fetched. A second attempt may succeed."""


class LoginRefused(LoginFailed):
    """No token could be fetched, and a second attempt cannot succeed."""


class Token(NamedTuple):
    """A token, and its life in seconds from now on."""

    text: str
    life_s: float

    def __repr__(self) -> str:
        return f"Token(life_s={self.life_s:g})"


def shown_address(url: str) -> str:
    """Return an address for messages: without its query, which may have a secret."""
    return url.partition("?")[0].partition("#")[0]


def fetch_token(config: ClientConfig) -> Token:
    """Return a new token. This waits, at most for the two timeouts of the settings.

    Raises:
        LoginFailed, LoginRefused: the message names the address and the reason.
    """
    url = config.sasl_oauthbearer_token_endpoint_url or ""
    try:
        headers, form = _request(config)
    except (OSError, ValueError) as error:  # ConfigurationError is one
        raise LoginRefused(f"the request for a token cannot be made: {error}") from None
    secrets = [
        (config.sasl_oauthbearer_client_credentials_client_secret or "").strip(),
        headers.get("Authorization", "").removeprefix("Basic "),
        form.get("assertion", ""),
        form.get("client_assertion", ""),
    ]
    status, content = _post(config, url, headers, urlencode(form).encode())
    place = f"the token end point {shown_address(url)}"
    if status not in (200, 201):
        kind = LoginRefused if status in _FINAL else LoginFailed
        raise kind(f"{place} answered {status}{_reason(status, content, secrets)}")
    try:
        answer = json.loads(content)
        text = next(answer[name] for name in ("access_token", "id_token") if isinstance(answer.get(name), str))
    except (ValueError, AttributeError, StopIteration, RecursionError):
        raise LoginRefused(f"{place} answered without a token") from None
    return Token(text.strip(), _life(text.strip(), answer.get("expires_in"), time.time()))


def read_token(path: str) -> str:
    """Return the token in a file.

    Raises:
        LoginRefused: the file cannot be read, or is not a token's.
    """
    return _read(path, "the file with the token").strip()


def _request(config: ClientConfig) -> tuple[dict[str, str], dict[str, str]]:
    """Return the headers of a request, and its form."""
    headers = {
        "Accept": "application/json",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    form: dict[str, str] = {}
    client_id = config.sasl_oauthbearer_client_credentials_client_id
    if config.sasl_oauthbearer_grant_type == "jwt-bearer":
        form |= {"grant_type": _JWT_BEARER, "assertion": _assertion(config)}
    elif config.sasl_oauthbearer_assertion_file or config.sasl_oauthbearer_assertion_claim_iss:
        form |= {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": _assertion(config)}
        form["grant_type"] = "client_credentials"
        if client_id:
            form["client_id"] = client_id
    else:
        pair = [client_id or "", config.sasl_oauthbearer_client_credentials_client_secret or ""]
        pair = [text.strip() for text in pair]
        if config.sasl_oauthbearer_header_urlencode:
            pair = [quote_plus(text) for text in pair]
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(pair).encode()).decode()
        form["grant_type"] = "client_credentials"
    if config.sasl_oauthbearer_scope:
        form["scope"] = config.sasl_oauthbearer_scope.strip()
    return headers, form


class _Http(http.client.HTTPConnection):
    response_class = TimedResponse


class _Https(http.client.HTTPSConnection):
    response_class = TimedResponse


def _post(config: ClientConfig, url: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    parts = urlsplit(url)
    place = f"the token end point {shown_address(url)}"
    wait_s = min(config.sasl_login_read_timeout_ms / 1000, LONGEST_WAIT_S)
    connect_s = min(config.sasl_login_connect_timeout_ms / 1000, LONGEST_WAIT_S)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        try:
            context = ssl.create_default_context(cafile=config.sasl_oauthbearer_cafile)
        except (ssl.SSLError, OSError) as error:
            raise LoginRefused(f"sasl_oauthbearer_cafile: {error}") from None
        connection = _Https(parts.hostname or "", parts.port, timeout=connect_s, context=context)
    else:
        connection = _Http(parts.hostname or "", parts.port, timeout=connect_s)
    try:
        connection.connect()
        time_of_request.begin(time.monotonic() + wait_s)
        connection.sock.settimeout(wait_s)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body, headers)
        response = connection.getresponse()
        content = response.read(_MOST_BYTES + 1)
        status = response.status
    except ssl.SSLCertVerificationError as error:
        raise LoginRefused(
            f"{place}: {error.verify_message}; its authority's PEM file is sasl_oauthbearer_cafile"
        ) from None
    except http.client.InvalidURL:  # its text has the query
        raise LoginRefused(f"{place} has a blank or a control character") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise LoginFailed(f"{place} cannot be reached: {type(error).__name__}: {error}"[:500]) from None
    finally:
        connection.close()
    if len(content) > _MOST_BYTES:
        raise LoginRefused(f"{place} answered with more than {_MOST_BYTES} bytes")
    return status, content


def _reason(status: int, content: bytes, secrets: list[str]) -> str:
    """Return the provider's reason, or nothing. A secret that it repeats is hidden."""
    if 300 <= status < 400:
        return ": redirects are not followed; give the final address"
    try:
        answer = json.loads(content)
        found = [answer.get(name) for name in ("error", "error_description", "errorCode", "errorSummary")]
    except (ValueError, AttributeError, RecursionError):
        return ""
    text = ": ".join(each for each in found if isinstance(each, str))
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) > 3:
            for form in (secret, quote_plus(secret), base64.b64encode(secret.encode()).decode()):
                text = text.replace(form, "***")
    text = "".join(c if c.isprintable() else " " for c in text[:_LONGEST_REASON])
    return f" ({text})" if text else ""


def _life(token: str, expires_in: object, now: float) -> float:
    """Return the life of a token in seconds.

    The provider's ``expires_in`` comes first, then the claims ``exp`` and ``iat``. Both are lengths, so a clock that
    differs from the provider's does not matter. Only a token without ``iat`` is compared with our clock.
    """
    lives = []
    if isinstance(expires_in, str) and expires_in.isdigit():
        expires_in = int(expires_in)
    if _is_number(expires_in):
        lives.append(float(expires_in))  # type: ignore[arg-type]
    claims = _claims(token)
    if _is_number(claims.get("exp")):
        begins = claims["iat"] if _is_number(claims.get("iat")) else now
        lives.append(float(claims["exp"]) - float(begins))
    lives = [life for life in lives if life > 0]
    return min(lives) if lives else _UNKNOWN_LIFE_S


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value < 1e12


def _claims(token: str) -> dict[str, Any]:
    """Return the claims of a JWT, not verified: the broker does that. An opaque token has none."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# -- assertions ---------------------------------------------------------------------------------------


def _assertion(config: ClientConfig) -> str:
    """Return a signed assertion: that of a file, or a new one."""
    if config.sasl_oauthbearer_assertion_file:
        return _read(config.sasl_oauthbearer_assertion_file, "sasl_oauthbearer_assertion_file").strip()
    head, claims = _template(config.sasl_oauthbearer_assertion_template_file)
    given = {
        "aud": config.sasl_oauthbearer_assertion_claim_aud,
        "iss": config.sasl_oauthbearer_assertion_claim_iss,
        "sub": config.sasl_oauthbearer_assertion_claim_sub,
    }
    claims = {name: text for name, text in given.items() if text is not None} | claims
    now = int(time.time())
    claims |= {
        "iat": now,
        "exp": now + config.sasl_oauthbearer_assertion_claim_exp_seconds,
        "nbf": now - config.sasl_oauthbearer_assertion_claim_nbf_seconds,
    }
    if config.sasl_oauthbearer_assertion_claim_jti_include:
        claims["jti"] = str(uuid.uuid4())
    head |= {"alg": config.sasl_oauthbearer_assertion_algorithm, "typ": "JWT"}
    signed = ".".join(_base64(json.dumps(each).encode()) for each in (head, claims))
    return f"{signed}.{_base64(_signature(config, signed.encode()))}"


def _template(path: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    if path is None:
        return {}, {}
    try:
        found = json.loads(_read(path, "sasl_oauthbearer_assertion_template_file"))
        return dict(found.get("header") or {}), dict(found.get("payload") or {})
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise LoginRefused(
            f"sasl_oauthbearer_assertion_template_file: {path} is not the JSON that it must be"
        ) from None


def _signature(config: ClientConfig, data: bytes) -> bytes:
    try:
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise ConfigurationError(
            "a signed assertion needs the package cryptography: pip install 'pyconsumer[crypto]'"
        ) from None
    pem, setting = config.sasl_oauthbearer_assertion_private_key_pem, "sasl_oauthbearer_assertion_private_key_pem"
    if pem is None:
        setting = "sasl_oauthbearer_assertion_private_key_file"
        pem = _read(config.sasl_oauthbearer_assertion_private_key_file or "", setting)
    passphrase = config.sasl_oauthbearer_assertion_private_key_passphrase
    try:
        key = load_pem_private_key(pem.encode(), passphrase.encode() if passphrase else None)
    except (ValueError, TypeError):
        raise LoginRefused(f"{setting} is no key in PEM, or its passphrase is wrong") from None
    algorithm = config.sasl_oauthbearer_assertion_algorithm
    if algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, padding.PKCS1v15(), SHA256())
    if algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.key_size == 256:
        numbers = utils.decode_dss_signature(key.sign(data, ec.ECDSA(SHA256())))
        return b"".join(number.to_bytes(32, "big") for number in numbers)
    raise LoginRefused(f"{setting} is not a key for {algorithm}")


def _read(path: str, what: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
        text = content.decode()
    except OSError as error:
        raise LoginRefused(f"{what} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise LoginRefused(f"{what} {path} is not text") from None
    if len(content) > _MOST_BYTES or not text.strip():
        raise LoginRefused(f"{what} {path} is empty, or larger than {_MOST_BYTES} bytes")
    return text


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
