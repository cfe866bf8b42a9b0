"""SaslHandshake: the client chooses a SASL mechanism. After version 0 it sends its tokens without request headers."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.errors import IllegalSaslStateError, UnsupportedSaslMechanismError
from pyconsumer.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

__all__ = ["handle"]


async def handle(broker: Broker, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    """Return the enabled mechanisms.

    On a listener without SASL the result is ILLEGAL_SASL_STATE. UNSUPPORTED_SASL_MECHANISM also closes the connection.
    """
    session = context.session
    mechanisms = list(broker.config.of_listener(context.listener, "sasl.enabled.mechanisms"))
    if session.logins is None or session.login is not None or (session.logged_in and session.expires_at is None):
        return SaslHandshakeResponse(IllegalSaslStateError.errno, mechanisms)
    if request.mechanism not in mechanisms:
        session.end()
        return SaslHandshakeResponse(UnsupportedSaslMechanismError.errno, mechanisms)
    session.begin(request.mechanism, session.logins, raw_tokens=context.api_version == 0)
    return SaslHandshakeResponse(0, mechanisms)
