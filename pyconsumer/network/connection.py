"""One connection: TLS, ApiVersions and SASL handshake, correlation of responses with requests. No socket, no clock.

Rules
1. A connection goes through the states below, in order. A step that is not configured is left out.

       state              step                                                    stage in errors
       CONNECTING         the driver is connecting the socket                     TCP
       TLS_HANDSHAKE      TLS agrees on keys, certificates are checked            TLS
       API_VERSIONS       the broker's versions are requested (KIP-35, KIP-511)   ApiVersions

       SASL_HANDSHAKE     we name the SASL mechanism                              SASL
       SASL_AUTHENTICATE  its messages go back and forth (KIP-152)                SASL
       READY              requests may be sent                                    established

       REAUTHENTICATING   as SASL_*, on a connection in use (KIP-368)             SASL
       CLOSED             permanently. A new connection is a new object

2. Requests are accepted in READY only. A broker responds in the order in which they were sent. A response whose
   correlation id is not that of the oldest request means that the stream is broken, and so does one that cannot be
   decoded.
3. Re-authentication is two more requests in that order. Earlier requests get their responses first. New ones wait.
4. A method that raises has left the connection unusable: write :meth:`output` once more if that is possible without
   waiting (it may hold a TLS alert), then close.
5. The first message of SASL may come later: a token that the program's event loop fetches, or a ticket of Kerberos.
   Then :attr:`awaits_login` is True, and the driver calls :meth:`log_in` again when it has come. It may take as long as
   the handshake.
6. Until READY a frame is at most 1 MiB: the peer may not be a Kafka broker at all.
"""

from __future__ import annotations

import enum
import itertools
import random as _random
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyconsumer import errors
from pyconsumer.background_log import Log
from pyconsumer.errors import (
    AuthenticationError,
    KafkaConnectionError,
    KafkaError,
    MisroutedConnectionError,
    ProtocolError,
    UnsupportedVersionError,
)
from pyconsumer.network.frames import FrameReader, looks_like_tls
from pyconsumer.protocol.api import ApiKey, BrokerVersions, decode_response, encode_request
from pyconsumer.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pyconsumer.protocol.schema import Encodable, Message
from pyconsumer.structs import make_tuple

if TYPE_CHECKING:
    from pyconsumer.network.sasl import SaslMechanism
    from pyconsumer.network.tls import TlsSession

__all__ = ["MOST_RESPONSE_BYTES", "TRANSITIONS", "Connection", "InFlight", "Reply", "State"]


class State(enum.Enum):
    """The state of a connection. See the rules of the module."""

    CONNECTING = "TCP"
    TLS_HANDSHAKE = "TLS"
    API_VERSIONS = "ApiVersions"
    SASL_HANDSHAKE = "SASL"
    SASL_AUTHENTICATE = "SASL authentication"
    READY = "established"
    REAUTHENTICATING = "SASL again"
    CLOSED = "closed"


TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    State.CONNECTING: frozenset({State.TLS_HANDSHAKE, State.API_VERSIONS, State.CLOSED}),
    State.TLS_HANDSHAKE: frozenset({State.API_VERSIONS, State.CLOSED}),
    State.API_VERSIONS: frozenset({State.SASL_HANDSHAKE, State.READY, State.CLOSED}),
    State.SASL_HANDSHAKE: frozenset({State.SASL_AUTHENTICATE, State.CLOSED}),
    State.SASL_AUTHENTICATE: frozenset({State.READY, State.CLOSED}),
    State.READY: frozenset({State.REAUTHENTICATING, State.CLOSED}),
    State.REAUTHENTICATING: frozenset({State.READY, State.CLOSED}),
    State.CLOSED: frozenset(),
}
"""The legal changes of state."""

_log = Log(__name__)

_STAGE: Final = {state: state.value.split(" ")[0] for state in State}
_EARLY_FRAME_BYTES = 1 << 20
MOST_RESPONSE_BYTES: Final = 100 << 20
"""Largest response that is accepted unless a setting asks for more (librdkafka: ``receive.message.max.bytes``)."""
_TLS_READ_BYTES = 1 << 16
_MAX_PIECES = 64  # of one gathering write; systems take at least 16, Linux and macOS 1024
_INTERNAL: Final = object()
_ILLEGAL_SASL_STATE = 34
_UNSUPPORTED_VERSION = 35
_REBOOTSTRAP_REQUIRED = 129


class InFlight(NamedTuple):
    """A request whose response has not arrived."""

    correlation_id: int
    api_key: int
    api_version: int
    token: Any
    sent_at: float


class Reply(NamedTuple):
    """A response. ``request.token`` is the token that the request was sent with."""

    request: InFlight
    message: Message


class Connection:
    """One connection to a broker. See the rules of the module.

    Args:
        address: ``host:port``, for messages.
        client_id: sent with each request.
        software_version: the client's version, which is sent to the broker (KIP-511).
        tls: the TLS session that encrypts the connection, or None.
        sasl: a function that makes the mechanism of each authentication.
        random: returns numbers in [0, 1), for the time of re-authentication.
        correlation_ids: yields the correlation ids, in steps of one. By default they start at 0.
        max_response_bytes: the largest response. A larger one ends the connection.
        expects: the cluster id and node id that the broker must have (KIP-1242). The broker checks them, from
            ApiVersions 5 on.
    """

    def __init__(
        self,
        address: str,
        *,
        client_id: str = "",
        software_version: str = "",
        tls: TlsSession | None = None,
        sasl: Callable[[], SaslMechanism] | None = None,
        random: Callable[[], float] = _random.random,
        correlation_ids: Iterator[int] | None = None,
        max_response_bytes: int = MOST_RESPONSE_BYTES,
        expects: tuple[str, int] | None = None,
    ) -> None:
        self.address = address
        self._max_response_bytes = max_response_bytes
        self.state = State.CONNECTING
        self.in_flight: deque[InFlight] = deque()
        self.versions: BrokerVersions | None = None
        #: Finalized features, and the epoch that grows with each change of them; -1 without (KIP-584).
        self.features: dict[str, int] = {}
        self.features_epoch = -1
        self.reauthenticate_at = float("inf")
        self.peer_closed = False
        self._client_id = client_id
        self._software_version = software_version
        self._expects = expects
        self._tls = tls
        self._raw = memoryview(bytearray(_TLS_READ_BYTES)) if tls else None
        self._sasl = sasl
        self._mechanism: SaslMechanism | None = None
        #: True while SASL's first message is not there.
        self.awaits_login = False
        self._random = random
        self._reader = FrameReader(_EARLY_FRAME_BYTES)
        self._correlation_ids = itertools.count() if correlation_ids is None else correlation_ids
        self._responded = False
        self._trailing_noted: set[int] = set()
        #: The bytes to write, in order. Others only read it; see :meth:`output` and :meth:`wrote`.
        self.outgoing: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._written_bytes = 0
        self._without_response: deque[tuple[int, Any]] = deque()  # end position in the output, token

    # -- input from the driver ----------------------------------------------------------------------------------------

    def connected(self, now: float) -> None:
        """Record that the socket is connected."""
        if self._tls is None:
            self._ask_versions(now, ApiVersionsRequest.MAX_VERSION)
            return
        self._enter(State.TLS_HANDSHAKE)
        self._tls.handshake()
        self._take_encrypted()

    def buffer(self) -> memoryview:
        """Return a writable view for incoming bytes. Release the view before you call :meth:`received`."""
        return self._reader.buffer() if self._raw is None else self._raw[:]

    def received(self, count: int, now: float) -> list[Reply]:
        """Process ``count`` (> 0) bytes that were written into the buffer.

        Raises:
            KafkaConnectionError, AuthenticationError: the connection cannot be established. The message names the stage
                and the cause.
            ProtocolError: the broker sent something that is not Kafka's protocol.
        """
        if self._tls is None:
            return self._frames(count, now)
        assert self._raw is not None
        self._tls.feed(self._raw[:count])
        replies: list[Reply] = []
        try:
            if self.state is State.TLS_HANDSHAKE:
                if not self._tls.handshake():
                    return replies
                self._take_encrypted()
                self._ask_versions(now, ApiVersionsRequest.MAX_VERSION)
            while True:
                view = self._reader.buffer()
                try:
                    found = self._tls.read_into(view)
                except EOFError:
                    self.peer_closed = True
                    break
                except AuthenticationError as error:
                    if self.versions is None:
                        raise
                    # Both sides accepted each other long ago: this is a broken stream, and may be tried again.
                    raise self.lost(str(error)) from error
                finally:
                    view.release()
                if not found:
                    break
                replies += self._frames(found, now)
        finally:
            self._take_encrypted()
        return replies

    def lost(self, cause: str) -> KafkaConnectionError:
        """Close the connection, because it was lost by ``cause``. Return the error for all waiting requests."""
        hint = ""
        if self.state in (State.API_VERSIONS, State.TLS_HANDSHAKE) and self._tls is not None and not self._responded:
            if self.state is State.TLS_HANDSHAKE:
                hint = "; perhaps the port does not speak TLS: check the port and security_protocol"
        elif self.state is State.API_VERSIONS:
            hint = "; perhaps it is not a Kafka port, or one that wants TLS: check the port and security_protocol"
        elif self.state is State.READY and not self._responded and self._sasl is None and self.in_flight:
            hint = "; perhaps the port wants SASL: check security_protocol"
        error = KafkaConnectionError(
            f"{self.stage} with {self.address} failed: {cause}{hint}"
            if self.state is not State.READY
            else f"connection to {self.address} lost: {cause}{hint}",
            stage=self.stage,
            address=self.address,
        )
        self._end()
        return error

    def close(self) -> None:
        """Close the connection. With TLS, :meth:`output` then has the close_notify alert."""
        if self._tls is not None and self.state not in (State.CONNECTING, State.TLS_HANDSHAKE, State.CLOSED):
            self._tls.close()
            self._take_encrypted()
        self._end()

    def _end(self) -> None:
        self.state = State.CLOSED
        if self.awaits_login:
            self.awaits_login = False
            abandon = getattr(self._mechanism, "abandon", None)
            if abandon is not None:
                abandon()
        self._reader.close()

    # -- requests ----------------------------------------------------------------------------------------------------

    @property
    def stage(self) -> str:
        """The present stage: TCP, TLS, ApiVersions, SASL or established."""
        return _STAGE[self.state]

    @property
    def ready(self) -> bool:
        """Return whether requests may be sent."""
        return self.state is State.READY

    def send(self, message: Encodable, version: int, token: Any, now: float, *, expect_response: bool = True) -> int:
        """Queue a request, and return its size in bytes. If it has no response, :meth:`wrote` returns its ``token``.

        Raises:
            KafkaError: the message cannot be encoded. It was not queued.
        """
        assert self.state is State.READY or token is _INTERNAL, self.state
        correlation_id = next(self._correlation_ids) & 0x7FFFFFFF
        buffers = encode_request(message, version, correlation_id, self._client_id)
        size = 0
        if self._tls is None:
            for buffer in buffers:
                self.outgoing.append(memoryview(buffer))
                size += len(buffer)
            self._queued_bytes += size
        else:
            for buffer in buffers:
                self._tls.write(buffer)
                size += len(buffer)
            self._take_encrypted()
        if expect_response:
            entry = (correlation_id, message.API_KEY, version, token, now)
            self.in_flight.append(make_tuple(InFlight, entry))
        else:
            self._without_response.append((self._queued_bytes, token))
        return size

    def reauthenticate(self, now: float) -> None:
        """Authenticate again before the session ends (KIP-368)."""
        self._enter(State.REAUTHENTICATING)
        self.reauthenticate_at = float("inf")
        self._start_sasl(now)

    def output(self) -> list[memoryview]:
        """Return the bytes to write next, or empty if there are none.

        Report by :meth:`wrote` how many bytes were written.
        """
        if len(self.outgoing) <= _MAX_PIECES:
            return list(self.outgoing)
        return [self.outgoing[i] for i in range(_MAX_PIECES)]

    @property
    def inside_response(self) -> bool:
        """Return whether a part of a response has been received."""
        return self._reader.inside_frame

    @property
    def has_output(self) -> bool:
        """Return whether there is something to write."""
        return bool(self.outgoing)

    def wrote(self, count: int) -> list[Any]:
        """Count ``count`` bytes as written.

        Return the tokens of those requests without a response that are now sent.
        """
        self._written_bytes += count
        out = self.outgoing
        while count:
            first = out[0]
            if count < len(first):
                out[0] = first[count:]
                break
            count -= len(first)
            out.popleft()
        if not self._without_response:
            return []
        done = []
        while self._without_response and self._without_response[0][0] <= self._written_bytes:
            done.append(self._without_response.popleft()[1])
        return done

    # -- inside ------------------------------------------------------------------------------------------------------

    def _enter(self, state: State) -> None:
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"a connection cannot go from {self.state.name} to {state.name}")
        self.state = state

    def _ask(self, message: Message, version: int, now: float) -> None:
        """Queue a request of the connection's own."""
        self.send(message, version, _INTERNAL, now)

    def _take_encrypted(self) -> None:
        data = self._tls.outgoing() if self._tls is not None else b""
        if data:
            self.outgoing.append(memoryview(data))
            self._queued_bytes += len(data)

    def _frames(self, count: int, now: float) -> list[Reply]:
        try:
            frames = self._reader.advance(count)
        except ProtocolError as error:
            if self.state is State.API_VERSIONS:
                raise self._not_kafka() from error
            if self.ready:
                raise ProtocolError(
                    f"{self.address}: {error}. If it is a response to Fetch, raise fetch_max_bytes"
                ) from error
            raise
        replies = []
        for frame in frames:
            reply = self._frame(frame, now)
            if reply is not None:
                replies.append(reply)
        return replies

    def _frame(self, frame: bytearray, now: float) -> Reply | None:
        if not self.in_flight:
            raise ProtocolError(f"{self.address} sent {len(frame)} bytes without a request")
        request = self.in_flight.popleft()
        found = int.from_bytes(frame[:4], "big", signed=True)
        if len(frame) < 4 or found != request.correlation_id:
            self.in_flight.appendleft(request)
            if self.state is State.API_VERSIONS:
                raise self._not_kafka()
            raise ProtocolError(
                f"{self.address} responded to request {found}, but {request.correlation_id} comes first"
            )
        try:
            if request.token is _INTERNAL:
                self._internal(request, frame, now)
                return None
            message = decode_response(request.api_key, request.api_version, frame, on_trailing=self._on_trailing)[1]
        except ProtocolError:
            self.in_flight.appendleft(request)
            raise
        self._responded = True
        reply: Reply = make_tuple(Reply, (request, message))
        return reply

    def _decode(self, request: InFlight, frame: bytearray) -> Message:
        """Decode a response. Bytes after its end are ignored, as by Java's client, and logged once for each API."""
        return decode_response(request.api_key, request.api_version, frame, on_trailing=self._on_trailing)[1]

    def _on_trailing(self, api_key: int, version: int, count: int) -> None:
        if api_key not in self._trailing_noted:
            self._trailing_noted.add(api_key)
            text = "%s: %d bytes after the end of a response to %s version %d are ignored"
            _log.debug(text, self.address, count, ApiKey(api_key).name, version)

    def _not_kafka(self) -> KafkaConnectionError:
        head = self._reader.head
        what = (
            "it speaks TLS" if looks_like_tls(head) else f"its response begins with {head[:16]!r}, which is not Kafka's"
        )
        return KafkaConnectionError(
            f"ApiVersions with {self.address} failed: {what}; check the port and security_protocol",
            stage="ApiVersions",
            address=self.address,
        )

    def _internal(self, request: InFlight, frame: bytearray, now: float) -> None:
        if request.api_key == ApiKey.API_VERSIONS:
            self._on_versions(request, frame, now)
        elif request.api_key == ApiKey.SASL_HANDSHAKE:
            self._on_handshake(self._decode(request, frame), now)
        else:
            self._on_authenticate(self._decode(request, frame), now)

    def _ask_versions(self, now: float, version: int) -> None:
        if self.state is not State.API_VERSIONS:
            self._enter(State.API_VERSIONS)
        cluster_id, node_id = self._expects or (None, -1)
        request = ApiVersionsRequest(
            client_software_name="pyconsumer",
            client_software_version=self._software_version or "unknown",
            cluster_id=cluster_id,
            node_id=node_id,
        )
        self._ask(request, version, now)

    def _on_versions(self, request: InFlight, frame: bytearray, now: float) -> None:
        code = int.from_bytes(frame[4:6], "big", signed=True)
        if code == _UNSUPPORTED_VERSION and request.api_version > 0:
            self._ask_versions(now, self._older_version(frame, request.api_version))
            return
        if code == _REBOOTSTRAP_REQUIRED and self._expects is not None:
            cluster_id, node_id = self._expects
            raise MisroutedConnectionError(
                f"the broker at {self.address} is not node {node_id} of cluster {cluster_id}",
                stage="ApiVersions",
                address=self.address,
            )
        if code:
            raise KafkaConnectionError(
                f"ApiVersions with {self.address} failed: {errors.for_code(code)}",
                stage="ApiVersions",
                address=self.address,
            )
        message: Any = self._decode(request, frame)
        self.versions = BrokerVersions.of((k.api_key, k.min_version, k.max_version) for k in message.api_keys)
        self.features = {feature.name: feature.max_version_level for feature in message.finalized_features}
        self.features_epoch = message.finalized_features_epoch
        if self._sasl is None:
            self._become_ready()
        else:
            self._enter(State.SASL_HANDSHAKE)
            self._start_sasl(now)

    def _older_version(self, frame: bytearray, refused: int) -> int:
        # KIP-511: the response is of version 0 and should say which versions of ApiVersions there are. Some servers
        # send the error alone, or shape the rest otherwise.
        try:
            message = ApiVersionsResponse.decode(memoryview(frame)[4:], 0, allow_trailing=True)
        except KafkaError:
            return 0
        found = [key.max_version for key in message.api_keys if key.api_key == ApiKey.API_VERSIONS]
        return max(0, min(found[0], refused - 1)) if found else 0

    def _choose(self, api_key: ApiKey, min_version: int = 0) -> int:
        assert self.versions is not None
        try:
            return self.versions.choose(api_key, min_version=min_version)
        except UnsupportedVersionError as error:
            raise self._refused(str(error)) from error

    def _start_sasl(self, now: float) -> None:
        assert self._sasl is not None
        request_type: Any = _sasl_handshake().SaslHandshakeRequest
        self._mechanism = self._sasl()
        version = self._choose(ApiKey.SASL_HANDSHAKE, min_version=1)
        self._ask(request_type(mechanism=self._mechanism.name), version, now)

    def _on_handshake(self, message: Any, now: float) -> None:
        assert self._mechanism is not None
        if message.error_code == _ILLEGAL_SASL_STATE:
            raise self._refused("the port does not use SASL: check security_protocol")
        if message.error_code:
            offered = ", ".join(message.mechanisms) or "none"
            raise self._refused(f"the broker does not take {self._mechanism.name}, but offers {offered}")
        if self.state is State.SASL_HANDSHAKE:
            self._enter(State.SASL_AUTHENTICATE)
        self.log_in(now)

    def log_in(self, now: float) -> None:
        """Send the first SASL message, if it is ready.

        Raises:
            AuthenticationError: the program has no credentials.
            KafkaConnectionError: the program has no new credentials for a connection in use, or none can be had now.
        """
        assert self._mechanism is not None
        first = self._guarded(self._mechanism.first)
        self.awaits_login = first is None
        if first is not None:
            self._say(first, now)

    def too_slow(self, timeout: float) -> KafkaError:
        """Return the error for a stage that took longer than ``timeout`` seconds."""
        if not self.awaits_login:
            return self.lost(f"no response within {timeout:g} s")
        awaited = getattr(self._mechanism, "awaited", None)
        if awaited is not None:
            return self.lost(f"after {timeout:g} s {awaited}")
        late = TimeoutError(f"no token within {timeout:g} s")
        error: KafkaError
        if self.state is State.REAUTHENTICATING:
            error = self.lost(f"no new credentials: {late}")
        else:
            error = self._refused(f"sasl_oauth_token_provider gave {late}")
        error.__cause__ = late
        return error

    def _on_authenticate(self, message: Any, now: float) -> None:
        assert self._mechanism is not None
        if message.error_code:
            advice = getattr(self._mechanism, "refused", None)
            why = message.error_message or str(errors.for_code(message.error_code))
            raise self._refused(f"{why}: {advice}" if advice else why)
        mechanism, challenge = self._mechanism, bytes(message.auth_bytes)
        response = self._guarded(lambda: mechanism.respond(challenge))
        if response is not None:
            self._say(response, now)
            return
        self._mechanism = None
        if message.session_lifetime_ms > 0:
            # Between 85 and 95 % of the lifetime, so that many clients do not come at once.
            self.reauthenticate_at = now + message.session_lifetime_ms / 1000 * (0.85 + 0.1 * self._random())
        self._become_ready()

    def _say(self, data: bytes | None, now: float) -> None:
        request_type: Any = _sasl_authenticate().SaslAuthenticateRequest
        version = self._choose(ApiKey.SASL_AUTHENTICATE)
        self._ask(request_type(auth_bytes=data or b""), version, now)

    def _guarded(self, step: Callable[[], bytes | None]) -> bytes | None:
        try:
            return step()
        except AuthenticationError as error:
            raise self._refused(str(error)) from error
        except KafkaConnectionError as error:  # nobody has refused anything: no KDC can be reached
            raise self.lost(str(error)) from error
        except Exception as error:  # a token provider is user code
            if self.state is State.REAUTHENTICATING:  # nobody has refused anything: a new connection asks it again
                raise self.lost(f"no new credentials: {type(error).__name__}: {error}") from error
            raise self._refused(f"{type(error).__name__}: {error}") from error

    def _refused(self, why: str) -> AuthenticationError:
        return AuthenticationError(f"SASL with {self.address} failed: {why}", stage="SASL", address=self.address)

    def _become_ready(self) -> None:
        self._enter(State.READY)
        self._reader.accept(self._max_response_bytes)


def _sasl_handshake() -> Any:
    from pyconsumer.protocol.messages import sasl_handshake

    return sasl_handshake


def _sasl_authenticate() -> Any:
    from pyconsumer.protocol.messages import sasl_authenticate

    return sasl_authenticate
