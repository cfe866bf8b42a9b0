"""SaslAuthenticate: the client authenticates (KIP-152), and reauthenticates before its session ends (KIP-368)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.logins import LoginError, SlowStep, session_ms
from pyconsumer.errors import IllegalSaslStateError, SaslAuthenticationFailedError
from pyconsumer.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

__all__ = ["handle"]


async def handle(broker: Broker, request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    """Pass the client's message to its login. SASL_AUTHENTICATION_FAILED closes the connection."""
    session = context.session
    if session.login is None:
        text = "SaslAuthenticate must follow a SaslHandshake"
        return SaslAuthenticateResponse(IllegalSaslStateError.errno, text)
    try:
        found = session.login.respond(request.auth_bytes)
        if isinstance(found, SlowStep):
            assert session.logins is not None
            outcome = await wait_for(session.logins.run_slow(found.run, lambda: not session.has_ended))
            if isinstance(outcome, LoginError):
                raise outcome
            found = outcome
        step, user = found, found.user
        if user is not None and session.logged_in and session.principal != f"User:{user}":
            raise LoginError("Cannot change principals during re-authentication")
    except LoginError as error:
        session.end()
        return SaslAuthenticateResponse(SaslAuthenticationFailedError.errno, str(error))
    if user is None:
        return SaslAuthenticateResponse(0, None, step.answer)
    longest_ms = broker.config.of_listener(context.listener, "connections.max.reauth.ms")
    lifetime_ms = session_ms(longest_ms, step, context.wall_ms)
    session.finish(user, context.now, lifetime_ms)  # also of version 0, which does not say so to the client
    return SaslAuthenticateResponse(0, None, step.answer, (lifetime_ms or 0) if context.api_version >= 1 else 0)
