"""The listeners of one broker: opens sockets and accepts connections."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from pyconsumer.background_log import Log, stay_in_background
from pyconsumer.broker.access.authorizer import java_address
from pyconsumer.broker.access.meters import Rate
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.client_connection import ClientConnection
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.login_bounds import FailedLogins, PendingLogins
from pyconsumer.broker.logins import Login, LoginError, Logins, LoginStep, PlainUsers, outcome_of
from pyconsumer.broker.outgoing import SendTurns
from pyconsumer.broker.ports import HeldPorts, hold_ports
from pyconsumer.broker.principal_rules import PrincipalRules
from pyconsumer.broker.security import SecurityConfig, Session, TlsLayer

__all__ = ["BrokerServer"]

_log = Log(__name__)

_SCRATCH_BYTES: Final = 256 * 1024
_ACCEPTS_AT_A_TIME: Final = 64
#: Errors for which a connection cannot be accepted: no descriptor or memory. It stays in the queue, and the server
#: pauses before it accepts again. Otherwise the loop would do no other work.
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_REST_S: Final = 1.0
_MOST_SLOW_STEPS: Final = 100  # of logins, each some milliseconds long
_RATE_WINDOWS: Final = 11
_NO_LIMIT: Final = 2**31 - 1


class BrokerServer:
    """The listening sockets and connections of one broker.

    Args:
        by_token: makes a login by OAUTHBEARER. None: the broker accepts no tokens.

    Attributes:
        addresses: host and port of each open listener, by name.
    """

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        security: SecurityConfig,
        by_token: Callable[[], Login] | None = None,
    ) -> None:
        self._by_token = by_token
        self.broker = broker
        self.loop = loop
        self.max_request_bytes = broker.config.integer("socket.request.max.bytes")
        self.max_login_bytes = broker.config.integer("sasl.server.max.receive.size")
        #: The buffer for reads, shared by all connections because each takes its bytes out at once.
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))
        #: Software and API of clients that have sent bytes after a complete request.
        self.trailing_noted: set[tuple[str, int]] = set()
        self.turns = SendTurns(loop.call_soon)
        self.addresses: dict[str, tuple[str, int]] = {}
        self._security = security
        self._tls: dict[str, ssl.SSLContext] = {}  # by listener
        self._protocols: dict[str, str] = {}
        self._logins: Logins | None = None
        self._rules: dict[str, PrincipalRules] = {}
        self._listeners: dict[socket.socket, str] = {}
        self._connections: set[ClientConnection] = set()
        self._throttled: dict[socket.socket, str] = {}
        self._per_host: Counter[str] = Counter()
        self._idle_check: asyncio.TimerHandle | None = None
        self._failed = FailedLogins()
        self._pending: PendingLogins[ClientConnection] = PendingLogins(
            broker.config.integer("pyconsumer.login.timeout.ms") / 1000,
            broker.config.integer("pyconsumer.max.pending.logins"),
            self._close_pending,
        )
        self._login_check: asyncio.TimerHandle | None = None
        self._hasher: ThreadPoolExecutor | None = None
        self._slow_steps = 0  # that wait for it or run
        self._accept_rate = Rate(_RATE_WINDOWS, 1.0)

    def open(self, name: str, host: str, port: int, held: socket.socket | None = None) -> int:
        """Open a listener and return its port. 0 picks a free port. Raises ``OSError`` if it cannot be opened.

        Clients can connect from now on. They are served only after :meth:`accept`.

        Args:
            held: a socket of :func:`.ports.hold_ports` that reserves the port. It becomes the listener.
        """
        config = self.broker.config
        protocol = self._protocols[name] = config.protocol(name)
        if protocol.endswith("SSL"):
            self._tls[name] = self._security.ssl_context(config.of_listener(name, "ssl.client.auth"))
            self._rules[name] = PrincipalRules(config.of_listener(name, "ssl.principal.mapping.rules"))
        if protocol.startswith("SASL") and self._logins is None:
            controller, security = self.broker.controller, self._security
            plain = PlainUsers({**security.sasl_users, **security.users}, controller.scram.fits_changed)
            self._logins = Logins(plain, controller.scram.find, controller.scram.secret, self._by_token, self._run_slow)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        backlog = max(128, self.broker.config.integer("socket.listen.backlog.size"))
        if held is None:
            listener = socket.create_server((host, port), family=family, backlog=backlog)
        else:
            listener = held
            listener.listen(backlog)
        listener.setblocking(False)
        self._listeners[listener] = name
        self.addresses[name] = (host, listener.getsockname()[1])
        return self.addresses[name][1]

    def accept(self) -> None:
        """Begin to serve clients."""
        for listener, name in self._listeners.items():
            self.loop.add_reader(listener, self._on_acceptable, listener, name)
        if self._idle_check is None:
            self._schedule_idle_check()

    def _on_acceptable(self, listener: socket.socket, name: str) -> None:
        for _ in range(_ACCEPTS_AT_A_TIME):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                _log.warning("cannot accept a connection: %s", error)
                if error.errno in _EXHAUSTED:
                    self.loop.remove_reader(listener)
                    self.loop.call_later(_REST_S, self._accept_again, listener, name)
                return
            self._accept(sock, str(address[0]), name)
            if self._is_too_fast(listener, name):
                return

    def _is_too_fast(self, listener: socket.socket, name: str) -> bool:
        """Return whether there are more new connections than ``max.connection.creation.rate``. Then pause."""
        limit = self.broker.config.integer("max.connection.creation.rate")
        if limit >= _NO_LIMIT:
            return False
        now = self.loop.time()
        self._accept_rate.record(1, now)
        throttle_ms = self._accept_rate.throttle_ms(limit, now)
        if throttle_ms:
            self.loop.remove_reader(listener)
            self.loop.call_later(min(throttle_ms / 1000, _REST_S), self._accept_again, listener, name)
        return throttle_ms > 0

    def _accept_again(self, listener: socket.socket, name: str) -> None:
        if listener in self._listeners:  # unless it was closed in the meantime
            self.loop.add_reader(listener, self._on_acceptable, listener, name)

    def _accept(self, sock: socket.socket, host: str, name: str) -> None:
        config = self.broker.config
        count = len(self._connections) + len(self._throttled)
        if count >= config.integer("max.connections") or self._per_host[host] >= self._most_of(host):
            _log.warning("refusing a connection from %s: there are too many connections", host)
            sock.close()
            return
        if self.broker.rates.quotas.exist:
            throttle_ms = self.broker.rates.connected(java_address(host), self.broker.clock.now())
            if throttle_ms:
                self._close_later(sock, host, throttle_ms)
                return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        needs_login = self._protocols[name].startswith("SASL")
        session = Session(logins=self._logins if needs_login else None, needs_login=needs_login)
        tls = TlsLayer(self._tls[name], self._rules[name]) if name in self._tls else None
        self._per_host[host] += 1
        connection = ClientConnection(self, sock, name, f"/{host}", session, tls)
        self._connections.add(connection)
        if needs_login or tls is not None:
            self._pending.add(connection, host, self.loop.time())
            if self._login_check is None:
                self._check_logins()

    def _most_of(self, host: str) -> int:
        """Return the most connections of an address."""
        config = self.broker.config
        for pair in config.strings("max.connections.per.ip.overrides"):
            name, _, count = pair.rpartition(":")
            if name.strip() == host:
                return int(count)
        return config.integer("max.connections.per.ip")

    # --- logins

    def admitted(self, connection: ClientConnection) -> None:
        """Take note that a client has logged in, or that its handshake of TLS has ended if it needs no login."""
        self._pending.remove(connection)

    def login_failed(self, connection: ClientConnection) -> None:
        """Take note of a failed login."""
        self._failed.add(connection.client_host, self.loop.time())

    def _run_slow(
        self, run: Callable[[], LoginStep], is_wanted: Callable[[], bool]
    ) -> Deferred[LoginStep | LoginError]:
        """Run a slow step of a login in another thread, one at a time. The work of a closed connection is left out."""
        if self._slow_steps >= _MOST_SLOW_STEPS:
            return Deferred.of(LoginError("Authentication failed: too many logins wait for the check of a password"))
        self._slow_steps += 1
        if self._hasher is None:
            self._hasher = ThreadPoolExecutor(1, "pyconsumer-logins", stay_in_background)
        found: Deferred[LoginStep | LoginError] = Deferred()

        def work() -> None:
            outcome: LoginStep | LoginError = LoginError("Authentication failed")
            try:
                if is_wanted():
                    outcome = outcome_of(run)
            except Exception:
                _log.exception("the check of a password failed")
            with suppress(RuntimeError):  # the loop has been closed
                self.loop.call_soon_threadsafe(self._slow_step_ended, found, outcome)

        self._hasher.submit(work)
        return found

    def _slow_step_ended(self, found: Deferred[LoginStep | LoginError], outcome: LoginStep | LoginError) -> None:
        self._slow_steps -= 1
        found.set(outcome)

    def _check_logins(self) -> None:
        due = self._pending.close_late(self.loop.time())
        self._login_check = None if due is None else self.loop.call_at(due, self._check_logins)

    def _close_pending(self, connection: ClientConnection) -> None:
        _log.info("closing a connection from %s: its client has not logged in", connection.client_host)
        connection.close()

    def _close_later(self, sock: socket.socket, host: str, throttle_ms: int) -> None:
        """Close a connection that is above its address's quota. It is held first, so that the client does not retry."""
        self._per_host[host] += 1
        self._throttled[sock] = host
        self.broker.timer.schedule(self.broker.clock.now() + throttle_ms / 1000, lambda: self._close_throttled(sock))

    def _close_throttled(self, sock: socket.socket) -> None:
        host = self._throttled.pop(sock, None)
        if host is not None:
            sock.close()
            self._leave(host)

    @property
    def connection_count(self) -> int:
        """Return the number of open connections."""
        return len(self._connections)

    def forget(self, connection: ClientConnection) -> None:
        """Forget a connection that was closed."""
        self._connections.discard(connection)
        self._pending.remove(connection)
        self._leave(connection.client_host[1:])

    def _leave(self, host: str) -> None:
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def _schedule_idle_check(self) -> None:
        limit_ms = self.broker.config.integer("connections.max.idle.ms")
        if limit_ms > 0:
            self._idle_check = self.loop.call_later(min(limit_ms / 2000, 30.0), self._close_idle, limit_ms / 1000)

    def _close_idle(self, limit_s: float) -> None:
        limit = self.loop.time() - limit_s
        for connection in list(self._connections):
            if connection.last_active < limit and not connection.busy:
                connection.close()
        self._schedule_idle_check()

    def close_and_hold_ports(self) -> HeldPorts:
        """Close everything as if the process had been killed, but reserve the ports. See :func:`.ports.hold_ports`."""
        self.close(reset=True)
        held: HeldPorts = {}
        for name, (host, port) in self.addresses.items():
            held |= hold_ports(host, {name: port})
        return held

    def close(self, *, reset: bool = False) -> None:
        """Close listeners and connections. With ``reset``, do it as if the process had been killed."""
        if self._idle_check is not None:
            self._idle_check.cancel()
        if self._login_check is not None:
            self._login_check.cancel()
            self._login_check = None
        if self._hasher is not None:
            self._hasher.shutdown(wait=False, cancel_futures=True)
            self._hasher = None
        for listener in self._listeners:
            self.loop.remove_reader(listener)
            listener.close()
        self._listeners.clear()
        for sock in list(self._throttled):
            self._close_throttled(sock)
        for connection in list(self._connections):
            if reset:
                connection.reset()
            else:
                connection.close()
