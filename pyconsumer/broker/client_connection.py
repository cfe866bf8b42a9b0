"""One client's connection: reads frames, passes requests to handlers, sends the responses in the same order.

As in Kafka, one request of a connection is served at a time, and later ones wait. Reading continues in the meantime, up
to a bound, so that a disconnect is noticed. Records that a client has not read yet stay in the log's file, see
:mod:`.outgoing`.

A frame is read into a buffer of its own, so that a batch in it can be patched in place and written to the log.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

from pyconsumer.background_log import Log
from pyconsumer.broker.access.gate import admit
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import run_handler
from pyconsumer.broker.error_responses import code_and_text, error_response
from pyconsumer.broker.faults import FaultRule, topics_of
from pyconsumer.broker.handlers import handler_of
from pyconsumer.broker.handlers.api_versions import unsupported_version_response
from pyconsumer.broker.logins import LoginError, LoginStep, SlowStep, session_ms
from pyconsumer.broker.outgoing import MOST_HELD, Outgoing, Part, SendTurns
from pyconsumer.broker.security import Session, TlsLayer
from pyconsumer.broker.timer import TimerHandle
from pyconsumer.errors import KafkaError, UnknownServerError
from pyconsumer.protocol.api import RequestHeader, decode_request_header, encode_response, encode_stored_response
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.fetch import FetchResponse
from pyconsumer.protocol.messages.produce import ProduceRequest
from pyconsumer.protocol.schema import Message

__all__ = ["ClientConnection"]

_log = Log(__name__)


_MOST_WAITING_FRAMES: Final = 64
_MOST_WAITING_BYTES: Final = 8 << 20
#: The minimum and maximum growth of a frame's buffer in one step. It grows with the bytes that arrive, by three times
#: their number, so that an announced size alone costs no memory.
_LEAST_ROOM: Final = 64 << 10
_MOST_ROOM: Final = 4 << 20
_ZEROS: Final = memoryview(bytes(_MOST_ROOM))
_BEFORE_LOGIN: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
_MOST_TRAILING_NOTED: Final = 100
_THROTTLE_TIME: Final = "throttle_time_ms"
_RESET: Final = struct.pack("ii", 1, 0)
#: The state of a TCP connection whose peer has closed it.
_CLOSE_WAIT: Final = 8


class ConnectionOwner(Protocol):
    """The part of a server that its client connections need."""

    loop: asyncio.AbstractEventLoop
    broker: Broker
    max_request_bytes: int
    max_login_bytes: int
    scratch: memoryview
    trailing_noted: set[tuple[str, int]]
    turns: SendTurns

    def forget(self, connection: ClientConnection) -> None: ...
    def admitted(self, connection: ClientConnection) -> None: ...
    def login_failed(self, connection: ClientConnection) -> None: ...


class ClientConnection:
    """An accepted connection.

    Args:
        listener: name of the listener. ``client_host`` is the client's address.
        tls: the TLS session, on a listener with TLS.
    """

    def __init__(
        self,
        server: ConnectionOwner,
        sock: socket.socket,
        listener: str,
        client_host: str,
        session: Session,
        tls: TlsLayer | None,
    ) -> None:
        self.listener = listener
        self.client_host = client_host
        self.session = session
        self.last_active = server.loop.time()
        self._server = server
        self._broker = server.broker
        self._loop = server.loop
        self._sock = sock
        self._tls = tls
        self._is_identified = False
        self._began = 0.0  # the time of the last message of a login
        self._is_pending = session.needs_login  # the client has not logged in
        self._head = bytearray()
        self._body: bytearray | None = None
        self._size = 0
        self._filled = 0
        self._frames: deque[bytearray] = deque()
        self._waiting_bytes = 0
        self._out = Outgoing(sock, tls, server.broker.logs.folder)
        self._awaits_room = False
        self._busy = False
        self._pumping = False
        self._has_turn = False
        self._reading = True
        self._muted: TimerHandle | None = None  # until the client is no longer throttled
        self._closed = False
        self._coroutine: Coroutine[Any, Any, Message | None] | None = None
        self._max_request = server.max_request_bytes
        self._loop.add_reader(sock, self._on_readable)

    @property
    def busy(self) -> bool:
        """Return whether a request is being handled.

        While a response is being sent, the connection does not count as busy, because the client may never read it.
        """
        return self._busy

    # --- reading

    def _on_readable(self) -> None:
        try:
            body = self._body
            if body is not None and self._tls is None and self._filled:
                # The beginning of a frame has arrived: read the rest right into its buffer.
                if len(body) == self._filled:
                    self._make_room(body)
                with memoryview(body) as view:
                    received = self._sock.recv_into(view[self._filled :])
                if not received:
                    self.close()
                    return
                self._filled += received
                if self._filled == self._size:
                    self._finish_frame()
            else:
                scratch = self._server.scratch
                received = self._sock.recv_into(scratch)
                if self._tls is not None:
                    self._feed_tls(scratch[:received])
                elif not received:
                    self.close()
                    return
                else:
                    self._feed(scratch[:received])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            _log.debug("connection from %s: %s", self.client_host, error)
            self.close()
            return
        self.last_active = self._loop.time()
        if not self._closed:
            self._pump()
            unfinished = 0 if self._body is None else self._filled
            if self._out and self._waiting_bytes + unfinished > MOST_HELD:
                self._set_reading(False)  # until the client has read its answer

    def _feed_tls(self, data: memoryview) -> None:
        assert self._tls is not None
        ended = not data
        try:
            plain = self._tls.feed(data)
        except ssl.SSLError as error:
            _log.info("TLS with %s failed: %s", self.client_host, error.reason or error)
            self._send_now(self._tls.pending())
            self.close()
            return
        handshake = self._tls.pending()
        if handshake:
            self._out.add_encrypted(handshake)
            self._flush()
            if self._closed:
                return
        if self._tls.is_ready and not self._is_identified:
            try:
                self._identify(self._tls)
            except LoginError as error:
                self._refuse(str(error))
                return
        if plain:
            self._feed(memoryview(plain))
        if ended:
            self.close()

    def _identify(self, tls: TlsLayer) -> None:
        """Take the client's name from its certificate."""
        self._is_identified = True
        if not self.session.needs_login:
            name = tls.client_name
            if name is not None:
                self.session.identify(f"User:{name}")
            self._server.admitted(self)

    def _feed(self, data: memoryview) -> None:
        position, total = 0, len(data)
        while position < total and not self._closed:
            if self._body is None:
                if not self._head and total - position >= 4:
                    size = int.from_bytes(data[position : position + 4], "big", signed=True)
                    position += 4
                else:
                    wanted = 4 - len(self._head)
                    self._head += data[position : position + wanted]
                    position += wanted
                    if len(self._head) < 4:
                        return
                    size = int.from_bytes(self._head, "big", signed=True)
                    self._head.clear()
                if not self._begin_frame(size):
                    return
            have = min(self._size - self._filled, total - position)
            body = self._body
            assert body is not None
            body[self._filled : self._filled + have] = data[position : position + have]
            position += have
            self._filled += have
            if self._filled == self._size:
                self._finish_frame()

    def _begin_frame(self, size: int) -> bool:
        limit = self._max_request
        if self.session.needs_login:
            limit = min(limit, self._server.max_login_bytes)
        if not 0 < size <= limit:
            _log.warning(
                "closing the connection from %s: it announced a request of %d bytes, and the limit is %d",
                self.client_host,
                size,
                limit,
            )
            self.close()
            return False
        self._size, self._filled = size, 0
        self._body = bytearray()
        return True

    def _make_room(self, body: bytearray) -> None:
        """Enlarge the full buffer of a frame."""
        body += _ZEROS[: min(self._size - self._filled, max(_LEAST_ROOM, min(3 * self._filled, _MOST_ROOM)))]

    def _finish_frame(self) -> None:
        assert self._body is not None
        self._frames.append(self._body)
        self._waiting_bytes += len(self._body)
        self._body = None
        if self._waiting_bytes > _MOST_WAITING_BYTES or len(self._frames) > _MOST_WAITING_FRAMES:
            self._set_reading(False)

    def _set_reading(self, reading: bool) -> None:
        if reading is self._reading or self._closed or (reading and self._muted is not None):
            return
        self._reading = reading
        if reading:
            self._loop.add_reader(self._sock, self._on_readable)
        else:
            self._loop.remove_reader(self._sock)

    # --- serving

    def _pump(self) -> None:
        """Serve the next waiting request, unless one is being served or a response cannot be written.

        The next request waits for the loop's next turn. Each connection gets one request per turn, so that a client
        that pipelines many requests does not delay the others.
        """
        if self._pumping or self._has_turn:
            return
        self._pumping = True
        try:
            if self._may_serve():
                frame = self._frames.popleft()
                self._waiting_bytes -= len(frame)
                self._busy = True
                self._serve(frame)
        finally:
            self._pumping = False
        if self._may_serve():
            self._has_turn = True
            self._loop.call_soon(self._on_turn)
        elif not self._reading and not self._frames:
            self._set_reading(True)

    def _may_serve(self) -> bool:
        return bool(self._frames) and not self._busy and not self._out and not self._closed and self._muted is None

    def _on_turn(self) -> None:
        self._has_turn = False
        if not self._closed:
            self._pump()

    def _serve(self, frame: bytearray) -> None:
        session = self.session
        if session.raw_tokens and session.needs_login:
            self._serve_raw_token(frame)
            return
        try:
            header = decode_request_header(frame)
            handler = handler_of(header.api_key)
            if handler is None:
                self._refuse(f"API {header.api_key} is not served")
                return
            if not handler.min_version <= header.api_version <= handler.max_version:
                if header.api_key == ApiKey.API_VERSIONS:
                    self._reply(unsupported_version_response(), 0, header.correlation_id)
                else:
                    self._refuse(f"version {header.api_version} of API {header.api_key} is not served")
                return
            if not self._may(header.api_key):
                self._refuse(f"API {header.api_key} came before the login")
                return
            request, end = handler.request.decode_from(frame, header.api_version, header.body_offset)
            if handler.check is not None:
                handler.check(request)
        except KafkaError as error:
            self._refuse(str(error))
            return
        if end != len(frame):
            self._note_trailing(header, len(frame) - end)
        broker = self._broker
        clock = broker.clock
        context = RequestContext(
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id or "",
            self.client_host,
            self.listener,
            session.principal,
            clock.now(),
            clock.wall_ms(),
            session,
        )
        rule: FaultRule | None = None
        if broker.faults:
            topics = topics_of(request, broker.controller.names)
            rule = broker.faults.take(header.api_key, broker.node_id, context.client_id, topics)
            if rule is not None and self._inject_before(rule, request, header):
                return
        authorizer = broker.authorizer
        if authorizer is None:
            coroutine = handler.handle(broker, request, context)
        else:
            coroutine = admit(handler.handle, broker, request, context, authorizer)
        self._coroutine = coroutine
        run_handler(
            coroutine,
            lambda response: self._on_response(response, request, header, rule, context, len(frame)),
            lambda error: self._on_error(error, request, header),
        )

    def _note_trailing(self, header: RequestHeader, count: int) -> None:
        """Log bytes after a complete request, once for each client software, version and API. They are ignored.

        Java's broker does so silently. librdkafka 2.16 sends three of them after Metadata version 13 for all topics.
        """
        noted = self._server.trailing_noted
        kind = (self.session.software, header.api_key)
        if kind not in noted and len(noted) < _MOST_TRAILING_NOTED:
            noted.add(kind)
            _log.warning(
                "%d bytes after the end of a request %s version %d from %s (%s) are ignored; this is logged once",
                count,
                ApiKey(header.api_key).name,
                header.api_version,
                self.client_host,
                self.session.software or "unknown software",
            )

    def _may(self, api_key: int) -> bool:
        session = self.session
        if session.needs_login:
            return api_key in _BEFORE_LOGIN
        if session.expires_at is not None and self._loop.time() >= session.expires_at:
            return api_key in _BEFORE_LOGIN
        return True

    def _serve_raw_token(self, frame: bytearray) -> None:
        """Pass a message without a header to the login. Such messages follow version 0 of SaslHandshake."""
        login, logins = self.session.login, self.session.logins
        assert login is not None
        assert logins is not None
        self._began = self._broker.clock.now()
        try:
            found = login.respond(frame)
        except LoginError as error:
            self._after_raw_token(error)
            return
        if isinstance(found, SlowStep):
            logins.run_slow(found.run, lambda: not self._closed).on_done(self._after_raw_token)
        else:
            self._after_raw_token(found)

    def _after_raw_token(self, step: LoginStep | LoginError) -> None:
        if self._closed:
            return
        if isinstance(step, LoginError):
            text = str(step)
            self._fail_login(lambda: self._refuse(text))
            return
        broker = self._broker
        if step.user is not None:
            longest_ms = broker.config.of_listener(self.listener, "connections.max.reauth.ms")
            lifetime_ms = session_ms(longest_ms, step, broker.clock.wall_ms())
            self.session.finish(step.user, broker.clock.now(), lifetime_ms)
            self._admit()
        self._send([len(step.answer).to_bytes(4, "big") + step.answer])
        self._busy = False
        if not self._pumping:  # what the client has sent meanwhile
            self._pump()

    def _refuse(self, reason: str) -> None:
        _log.warning("closing the connection from %s: %s", self.client_host, reason)
        self.close()

    def _on_error(self, error: BaseException, request: Message, header: RequestHeader) -> None:
        """Send an error response after a handler failed, as Java's ``KafkaApis.handleError`` does."""
        self._coroutine = None
        _log.error("handling a request of API %d from %s failed", header.api_key, self.client_host, exc_info=error)
        if isinstance(request, ProduceRequest) and request.acks == 0:
            self.close()  # no response is expected
            return
        code, _ = code_and_text(error)
        self._reply(error_response(request, header.api_version, code), header.api_version, header.correlation_id)

    def _on_response(
        self,
        response: Message | None,
        request: Message,
        header: RequestHeader,
        rule: FaultRule | None,
        context: RequestContext,
        size_bytes: int,
    ) -> None:
        self._coroutine = None
        if self._closed:
            return
        if self._broker.rates.quotas.exist:
            self._throttle(response, context, size_bytes)
        if rule is not None and self._inject_after(rule, response, header):
            return
        if context.api_key == ApiKey.SASL_AUTHENTICATE:
            if self.session.close_after:
                self._began = context.now
                self._fail_login(lambda: self._reply(response, header.api_version, header.correlation_id))
                return
            if not self.session.needs_login:
                self._admit()
        self._reply(response, header.api_version, header.correlation_id, request)

    # --- logins

    def _admit(self) -> None:
        if self._is_pending:
            self._is_pending = False
            self._server.admitted(self)

    def _fail_login(self, answer: Callable[[], None]) -> None:
        """Answer a failed login after a pause, so that passwords cannot be tried fast (KIP-306).

        The pause begins with the request, so that the answer does not show how long the check took.
        """
        self._server.login_failed(self)
        broker = self._broker
        delay_ms = broker.config.integer("connection.failed.authentication.delay.ms")
        if delay_ms:
            broker.timer.schedule(max(broker.clock.now(), self._began + delay_ms / 1000), answer)
        else:
            answer()

    # --- quotas

    def _throttle(self, response: Message | None, context: RequestContext, size_bytes: int) -> None:
        """Throttle the client if it is above a quota. It gets its response at once, and then waits (KIP-219)."""
        if context.api_key == ApiKey.PRODUCE:
            now = self._broker.clock.now()
            rates = self._broker.rates
            context.throttle(rates.produced(context.principal, context.client_id, size_bytes, now))
        if context.throttle_ms:
            if response is not None:
                setattr(response, _THROTTLE_TIME, context.throttle_ms)
            self._mute(context.throttle_ms)

    def _mute(self, throttle_ms: int) -> None:
        """Neither read nor serve requests for some time. The response that is being made is still sent."""
        broker = self._broker
        self._set_reading(False)
        self._loop.add_reader(self._sock, self._on_readable_while_muted)
        self._muted = broker.timer.schedule(broker.clock.now() + throttle_ms / 1000, self._unmute)

    def _on_readable_while_muted(self) -> None:
        """Close the connection if its client is gone, so that it holds no place until the time is over.

        More requests of a client that is there stay unread. After them its end is noticed when the time is over.
        """
        self._loop.remove_reader(self._sock)
        if not self._out and _has_ended(self._sock):
            self.close()

    def _unmute(self) -> None:
        self._muted = None
        if not self._closed:
            self._loop.remove_reader(self._sock)
            self._pump()

    def _reply(
        self, response: Message | None, version: int, correlation_id: int, request: Message | None = None
    ) -> None:
        """Send a response. If it cannot be encoded, send that of a failed ``request``, or close the connection."""
        if self._closed:
            return
        if response is not None:
            try:
                buffers = _encode(response, version, correlation_id)
            except KafkaError as error:  # the text of an error may repeat a name, and exceed the longest string
                _log.error("the response to %s cannot be encoded: %s", self.client_host, error, exc_info=error)
                if request is None:
                    self.close()
                else:
                    failed = error_response(request, version, UnknownServerError.errno)
                    self._reply(failed, version, correlation_id)
                return
            self._send(buffers)
        self._busy = False
        if self.session.close_after:
            self.close(flush=True)
            return
        if not self._pumping and self._frames:
            self._pump()

    # --- faults

    def _inject_before(self, rule: FaultRule, request: Message, header: RequestHeader) -> bool:
        """Inject a fault in place of the request's handling. Return False if the request must be handled."""
        if rule.kind == "error":
            response = error_response(request, header.api_version, rule.error_code)
            self._reply(response, header.api_version, header.correlation_id)
        elif rule.kind == "disconnect":
            self.reset()
        elif rule.kind == "drop_request":
            self._busy = False
        else:
            return False
        return True

    def _inject_after(self, rule: FaultRule, response: Message | None, header: RequestHeader) -> bool:
        """Inject a fault into the response. Return False if the response must be sent unchanged."""
        if rule.kind == "delay":
            when = self._broker.clock.now() + rule.delay_ms / 1000
            self._broker.timer.schedule(when, lambda: self._reply(response, header.api_version, header.correlation_id))
        elif rule.kind == "drop_response":
            self._busy = False
            if not self._pumping:
                self._pump()
        elif rule.kind == "cut":
            if response is not None:
                data = b"".join(map(bytes, _encode(response, header.api_version, header.correlation_id)))
                self._send([data[: max(5, len(data) // 2)]])
            self._loop.call_later(0.05, self.reset)
        else:
            return False
        return True

    # --- writing

    def _send(self, parts: Sequence[Part]) -> None:
        begins = not self._out
        self._out.add(parts)
        if begins:  # otherwise output is being sent, or waits for its turn
            self._flush()

    def _flush(self) -> None:
        if self._out.is_short:
            self.send_piece(MOST_HELD)
        if self.can_send:
            self._server.turns.send(self)

    def _on_writable(self) -> None:
        self._out.unblock()
        self._flush()
        if self.can_send:  # in its turn, which is not now
            self._await_room(False)

    def _await_room(self, awaits: bool) -> None:
        if awaits is not self._awaits_room:
            self._awaits_room = awaits
            if awaits:
                self._loop.add_writer(self._sock, self._on_writable)
            else:
                self._loop.remove_writer(self._sock)

    @property
    def can_send(self) -> bool:
        """Return whether there is output, and the socket may accept it."""
        return bool(self._out) and not self._out.blocked

    def send_piece(self, most_bytes: int) -> int:
        """Send at most about ``most_bytes``. Return the number of bytes that were sent."""
        out = self._out
        try:
            sent = out.send(most_bytes)
        except OSError as error:
            _log.debug("connection from %s: %s", self.client_host, error)
            self.close()
            return 0
        if sent:
            self.last_active = self._loop.time()
        if out:
            if out.blocked:
                out.put_aside()
                self._await_room(True)
            return sent
        self._await_room(False)
        if not self._busy:  # otherwise ``_reply`` or the handler continues
            if self.session.close_after:
                self.close()
            else:
                self._pump()
        return sent

    def _send_now(self, data: bytes) -> None:
        """Try to send pending output before the connection is closed."""
        if data:
            try:
                self._sock.send(data)
            except OSError:
                pass

    # --- the end

    def close(self, *, flush: bool = False) -> None:
        """Close the connection. With ``flush``, close it only after all pending output has been sent."""
        if self._closed or (flush and self._out):
            return
        self._closed = True
        if self._muted is not None:
            self._muted.cancel()
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        self._frames.clear()
        self._out.clear()
        self._server.turns.forget(self)
        coroutine, self._coroutine = self._coroutine, None
        if coroutine is not None and not getattr(coroutine, "cr_running", False):
            coroutine.close()
        self._server.forget(self)
        self.session.connection_ended()

    def reset(self) -> None:
        """Close the connection with a reset, as if the process had been killed."""
        if not self._closed:
            try:
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            except OSError:
                pass
            self.close()


def _has_ended(sock: socket.socket) -> bool:
    """Return whether the peer has closed a connection. Its last bytes, such as the end of TLS, may still be unread."""
    try:
        if not sock.recv(1, socket.MSG_PEEK):
            return True
        return sys.platform == "linux" and sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _CLOSE_WAIT
    except BlockingIOError:
        return False
    except OSError:
        return True


def _encode(response: Message, version: int, correlation_id: int) -> Sequence[Part]:
    if isinstance(response, FetchResponse):
        return encode_stored_response(response, version, correlation_id)  # type: ignore[return-value]
    return encode_response(response, version, correlation_id)
