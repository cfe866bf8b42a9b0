"""SASL's mechanism GSSAPI: Kerberos V5 (RFC 4752). The messages, and the thread in which Kerberos is asked for tickets.

The calls of the package ``gssapi`` are in :mod:`.kerberos`.

Rules
1. A login has these messages. The broker is a server of GSSAPI, and Kafka uses no security layer.

       state    the client sends                          the broker answers
       TICKET   the first token: a ticket for the broker  its own token, which proves its identity
       TOKENS   the next token, or an empty message       another token, or the security layers that it offers
       LAYERS   "no layer", and its own full name         an empty message
       SENT     -                                         -

2. The first token needs tickets: up to three requests to a KDC, each of which may take many seconds. It is made in a
   thread of its own, and :meth:`Gssapi.first` returns None until it is there. The later steps have all that they need:
   they take microseconds, and are done at once.
3. Logins with the same credentials take turns in one thread, as the first one gets the tickets that all use. The thread
   ends when no login waits. A login that is given up is skipped. A forked child has threads of its own.
4. The broker is not trusted before it has proved its identity: its tokens, and their number, have limits.
5. A fault that time may mend is a :class:`~pyconsumer.errors.KafkaConnectionError`: the client tries again.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Protocol

from pyconsumer.background_log import background
from pyconsumer.errors import AuthenticationError

__all__ = ["Gssapi", "LoginThread", "SecurityContext", "login_thread"]

_NO_LAYER: Final = 1
#: Kerberos needs one token of the broker. Negotiation among mechanisms, which Kafka does not use, would need three.
_MOST_TOKENS: Final = 5
#: A broker's token has about 150 bytes.
_MOST_TOKEN_BYTES: Final = 1 << 16


class SecurityContext(Protocol):
    """The client's side of a security context of GSSAPI."""

    principal: str
    """The client's full name, such as ``alice@EXAMPLE.COM``."""

    @property
    def complete(self) -> bool:
        """Return whether both sides have proved their identity."""
        ...

    def step(self, token: bytes | None) -> bytes:
        """Return the next token for the broker. Without a token from the broker this asks a KDC, and may wait long.

        Raises:
            AuthenticationError: the token is not valid, or there is no ticket.
            KafkaConnectionError: no KDC can be reached.
        """
        ...

    def unwrap(self, message: bytes) -> bytes:
        """Return the content of a signed message. Raises ``AuthenticationError`` if the signature is wrong."""
        ...

    def wrap(self, content: bytes) -> bytes:
        """Return a signed message."""
        ...


class LoginThread:
    """Runs the blocking steps of logins, one after the other. The thread is there only while there is work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[bytes], Callable[[], bytes]]] = deque()
        self._running = False

    def submit(self, step: Callable[[], bytes]) -> Future[bytes]:
        """Return a future of the step's result. A step whose future is cancelled before its turn is left out."""
        found: Future[bytes] = Future()
        with self._lock:
            self._waiting.append((found, step))
            if self._running:
                return found
            self._running = True
        # A daemon: the end of the interpreter does not wait for a KDC.
        threading.Thread(target=self._run, name="pyconsumer-kerberos", daemon=True).start()
        return found

    def _run(self) -> None:
        with background():
            while True:
                with self._lock:
                    if not self._waiting:
                        self._running = False
                        return
                    future, step = self._waiting.popleft()
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    result = step()
                except BaseException as error:  # whatever it is, the login that waits must get it
                    future.set_exception(error)
                else:
                    future.set_result(result)
                del future, step


class _Threads:
    """The login threads of this process, by their credentials."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all threads, since a forked child has none of them."""
        self._lock = threading.Lock()
        self._threads: dict[tuple[str | None, ...], LoginThread] = {}

    def get(self, credentials: tuple[str | None, ...]) -> LoginThread:
        with self._lock:
            return self._threads.setdefault(credentials, LoginThread())


_threads: Final = _Threads()


def login_thread(credentials: tuple[str | None, ...]) -> LoginThread:
    """Return the thread that all logins of this process with these credentials share."""
    return _threads.get(credentials)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.forget)


class Gssapi:
    """One login by Kerberos.

    Args:
        context: makes the security context. It may wait for a KDC: ``thread`` calls it.
        thread: runs what waits.
        arrived: called in any thread when the first message is ready.
    """

    name = "GSSAPI"
    #: The end of a sentence about a first message that did not come in time.
    awaited = "no ticket from a KDC: check the KDC of the realm in krb5.conf, and the network to it"
    #: The end of a sentence about a login that the broker has refused. Kafka does not say why.
    refused = (
        "if the clocks of this machine, the KDC and the broker differ, synchronize them. If they do not, check that the"
        " broker's keytab has the key that the KDC has"
    )

    def __init__(
        self,
        context: Callable[[], SecurityContext],
        thread: LoginThread,
        arrived: Callable[[], object] = lambda: None,
    ) -> None:
        self._make_context = context
        self._thread = thread
        self._arrived = arrived
        self._context: SecurityContext | None = None
        self._pending: Future[bytes] | None = None
        self._state = "TICKET"
        self._tokens = 0

    def first(self) -> bytes | None:
        if self._pending is None:
            arrived = self._arrived
            self._pending = self._thread.submit(self._begin)
            self._pending.add_done_callback(lambda _: arrived())
        if not self._pending.done():
            return None
        token = self._pending.result()
        self._state = "TOKENS"
        return token

    def _begin(self) -> bytes:
        context = self._context = self._make_context()
        return context.step(None)

    def abandon(self) -> None:
        """Give up the first message, which has not arrived."""
        if self._pending is not None:
            self._pending.cancel()

    def respond(self, challenge: bytes) -> bytes | None:
        context = self._context
        assert context is not None
        if len(challenge) > _MOST_TOKEN_BYTES:
            raise _fault(f"the broker's message has {len(challenge)} bytes, and at most {_MOST_TOKEN_BYTES} are taken")
        if self._state == "TOKENS":
            return self._next_token(context, challenge)
        if self._state == "LAYERS":
            return self._choose_layer(context, challenge)
        if challenge:
            raise _fault("the broker sent a message after the end of the login")
        return None

    def _next_token(self, context: SecurityContext, challenge: bytes) -> bytes:
        self._tokens += 1
        if self._tokens > _MOST_TOKENS:
            raise _fault(f"the broker sent more than {_MOST_TOKENS} tokens")
        if not challenge:
            raise _fault("the broker sent no token that proves its identity")
        token = context.step(challenge)
        if context.complete:
            self._state = "LAYERS"
        elif not token:
            raise _fault("the broker's token does not prove its identity")
        return token

    def _choose_layer(self, context: SecurityContext, challenge: bytes) -> bytes:
        offer = context.unwrap(challenge)
        if len(offer) != 4:  # the layers, and the size of the largest message, in three bytes
            raise _fault(f"the broker's offer of security layers has {len(offer)} bytes instead of 4")
        if not offer[0] & _NO_LAYER:
            raise _fault(
                "the broker wants each message signed or encrypted by Kerberos, which Kafka does not do:"
                " its login module must offer the quality of protection auth. Encrypt by TLS"
            )
        self._state = "SENT"
        # Without a layer the client takes no signed messages, so their largest size is 0 (RFC 4752, 3.1).
        return context.wrap(bytes((_NO_LAYER, 0, 0, 0)) + context.principal.encode())


def _fault(text: str) -> AuthenticationError:
    return AuthenticationError(f"GSSAPI: {text}", stage="SASL")
