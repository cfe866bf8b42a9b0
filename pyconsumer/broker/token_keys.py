"""The public keys of a token's issuer: a key set (RFC 7517) in a file or at a URL.

Rules
1. A thread reads the set, so that no client waits for it. One read takes place at a time. It has a deadline, and at
   most 1 MiB is read.
2. The set is read again after ``sasl.oauthbearer.jwks.endpoint.refresh.ms``. A failed read is tried again after a pause
   that doubles. The keys of the last good read stay until then.
3. An unknown key id asks for a read before its time, at most every 10 s. The token is refused, and the client may try
   again, as with Java's broker.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import ssl
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from pyconsumer.background_log import Log, background
from pyconsumer.errors import ConfigurationError
from pyconsumer.network.timed_http import TimedResponse, time_of_request

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, RSAKey
    from joserfc.jws import JWSRegistry

    from pyconsumer.broker.config import BrokerConfig

__all__ = ["ALGORITHMS", "MOST_TOKEN_BYTES", "KeySource", "PublicKey", "parse_keys"]

_log = Log(__name__)

#: The longest token.
MOST_TOKEN_BYTES: Final = 64 << 10

_MOST_BYTES: Final = 1 << 20
_MOST_KEYS: Final = 1000
_UNKNOWN_PAUSE_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 1e6  # a system refuses to wait for much longer
#: Algorithms of signatures (RFC 7518, 3.1), with the type of the key and its curve.
ALGORITHMS: Final = {
    **{f"{family}{bits}": ("RSA", "") for family in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
}
_LEAST_RSA_BITS: Final = 2048


class PublicKey:
    """A public key of a key set."""

    def __init__(self, key: RSAKey | ECKey) -> None:
        self._key = key
        self._kind = str(key.key_type), str(getattr(key, "curve_name", ""))

    def fits(self, algorithm: str) -> bool:
        """Return whether the key may check signatures of an algorithm. The key set may allow only one for it."""
        return ALGORITHMS.get(algorithm) == self._kind and (self._key.alg or algorithm) == algorithm

    def verify(self, algorithm: str, token: str) -> bool:
        """Return whether the key fits and the signature of a token is right. Its header must name the algorithm."""
        from joserfc.errors import JoseError
        from joserfc.jws import deserialize_compact

        if not self.fits(algorithm):
            return False
        try:
            deserialize_compact(token, self._key, registry=_registry(algorithm))
        except (JoseError, ValueError, TypeError):
            return False
        return True


@lru_cache
def _registry(algorithm: str) -> JWSRegistry:
    """Return the library's rules for a token: this algorithm alone, and any addition to the header."""
    from joserfc.jws import JWSRegistry

    class Rules(JWSRegistry):
        max_header_length = max_payload_length = max_signature_length = MOST_TOKEN_BYTES

    return Rules(algorithms=[algorithm], strict_check_header=False)


def parse_keys(content: bytes) -> dict[str | None, list[PublicKey]]:
    """Return the keys of a key set by key id. Keys of other kinds or uses are skipped.

    Raises:
        ValueError: it is not a key set.
    """
    try:
        listed = json.loads(content)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("it is not a key set (JSON with a list of keys)") from None
    if not isinstance(listed, list):
        raise ValueError("it is not a key set (JSON with a list of keys)")
    found: dict[str | None, list[PublicKey]] = {}
    for item in listed[:_MOST_KEYS]:
        key = _parse_key(item) if isinstance(item, dict) else None
        if key is not None:
            key_id = item.get("kid")
            found.setdefault(key_id if isinstance(key_id, str) else None, []).append(key)
    return found


def _parse_key(item: dict[str, Any]) -> PublicKey | None:
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, RSAKey

    if item.get("use", "sig") != "sig":
        return None
    try:
        if item.get("kty") == "RSA" and _bits(item["n"]) >= _LEAST_RSA_BITS:
            return PublicKey(RSAKey.import_key(item))
        if item.get("kty") == "EC" and ("EC", item.get("crv")) in ALGORITHMS.values():
            return PublicKey(ECKey.import_key(item))
    except (JoseError, KeyError, TypeError, ValueError):
        _log.warning("a key of the key set cannot be used")
    return None


def _bits(number: str) -> int:
    """Return the size of a number. The library would only warn of a small one."""
    return int.from_bytes(base64.urlsafe_b64decode(number + "=" * (-len(number) % 4)), "big").bit_length()


def _shown(url: str) -> str:
    """Return an address without its login and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else parts.path


class KeySource:
    """The keys at an address.

    Args:
        url: ``file:``, ``http:`` or ``https:``.
        refresh_s: time between two reads. ``pause_s`` and ``most_pause_s`` bound the pause after a failed one.
        timeout_s: the longest time of a read.

    Raises:
        ConfigurationError: the address cannot be used, or the package ``joserfc`` is not there.
    """

    def __init__(
        self,
        url: str,
        *,
        refresh_s: float = 3600.0,
        pause_s: float = 0.1,
        most_pause_s: float = 10.0,
        timeout_s: float = 10.0,
    ) -> None:
        if urlsplit(url).scheme not in ("file", "http", "https"):
            raise ConfigurationError(
                f"sasl.oauthbearer.jwks.endpoint.url must be file:, http: or https:, not {_shown(url)!r}"
            )
        try:
            import joserfc  # noqa: F401
        except ImportError:
            raise ConfigurationError(
                "OAUTHBEARER on the broker needs the package joserfc: pip install 'pyconsumer[crypto]'"
            ) from None
        self._url = url
        self._refresh_s = refresh_s
        self._pauses = (pause_s, most_pause_s)
        self._timeout_s = timeout_s
        self._keys: dict[str | None, list[PublicKey]] = {}
        self._wake = threading.Condition()
        self._ended = False
        self._wanted = False
        self._read = 0
        self._asked_at = -_UNKNOWN_PAUSE_S
        self._thread: threading.Thread | None = None

    @classmethod
    def of(cls, config: BrokerConfig) -> KeySource:
        """Return the source in a broker's settings."""
        return cls(
            config.text("sasl.oauthbearer.jwks.endpoint.url") or "",
            refresh_s=config.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000,
            pause_s=config.integer("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms") / 1000,
            most_pause_s=config.integer("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms") / 1000,
        )

    def start(self) -> None:
        """Begin to read the keys, and wait for the first time until they are there, or for the deadline of a read."""
        self._thread = threading.Thread(target=self._run, name="pyconsumer-keys", daemon=True)
        self._thread.start()
        with self._wake:
            self._wake.wait_for(lambda: self._read > 0 or self._ended, self._timeout_s)

    def stop(self) -> None:
        """Stop reading."""
        with self._wake:
            self._ended = True
            self._wake.notify_all()

    def find(self, key_id: str | None) -> Sequence[PublicKey]:
        """Return the keys with an id. Without an id, return all keys."""
        keys = self._keys
        if key_id is None:
            return [key for same in keys.values() for key in same]
        found = keys.get(key_id)
        if found is None:
            self._ask()
            return ()
        return found

    def _ask(self) -> None:
        with self._wake:
            now = time.monotonic()
            if now - self._asked_at >= _UNKNOWN_PAUSE_S:
                self._asked_at = now
                self._wanted = True
                self._wake.notify_all()

    def _run(self) -> None:
        failures = 0
        with background():
            while not self._ended:
                try:
                    self._keys = parse_keys(self._content())
                    failures = 0
                    pause_s = self._refresh_s
                except Exception as error:  # also a library's own: without this thread no new key would be known
                    failures += 1
                    shown = _shown(self._url)
                    if failures == 1:
                        _log.warning("the keys of tokens at %s cannot be read: %s", shown, f"{error}"[:300])
                    least, most = self._pauses
                    pause_s = min(most, least * 2 ** min(failures - 1, 30)) * random.uniform(0.8, 1.2)
                with self._wake:
                    self._read += 1
                    self._wanted = False
                    self._wake.notify_all()
                    self._wake.wait_for(lambda: self._ended or self._wanted, min(pause_s, _LONGEST_PAUSE_S))

    def _content(self) -> bytes:
        parts = urlsplit(self._url)
        if parts.scheme == "file":
            with open(unquote(parts.path), "rb") as file:
                content = file.read(_MOST_BYTES + 1)
        else:
            content = self._fetch()
        if len(content) > _MOST_BYTES:
            raise ValueError(f"there are more than {_MOST_BYTES} bytes")
        return content

    def _fetch(self) -> bytes:
        parts = urlsplit(self._url)
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = _Https(parts.hostname or "", parts.port, timeout=self._timeout_s, context=context)
        else:
            connection = _Http(parts.hostname or "", parts.port, timeout=self._timeout_s)
        try:
            time_of_request.begin(time.monotonic() + self._timeout_s)
            connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
            response = connection.getresponse()
            content = response.read(_MOST_BYTES + 1)
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(f"the answer is {response.status}")
        return content


class _Http(http.client.HTTPConnection):
    response_class = TimedResponse


class _Https(http.client.HTTPSConnection):
    response_class = TimedResponse
