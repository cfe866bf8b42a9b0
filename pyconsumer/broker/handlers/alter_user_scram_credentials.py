"""AlterUserScramCredentials: set and remove SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.broker.scram_users import ScramDeletion, ScramUpsertion
from pyconsumer.errors import BrokerResponseError
from pyconsumer.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    """Change the users that can be changed. The other users get the controller's errors."""
    deletions = [ScramDeletion(one.name, one.mechanism) for one in request.deletions]
    upsertions = [
        ScramUpsertion(one.name, one.mechanism, one.iterations, bytes(one.salt), bytes(one.salted_password))
        for one in request.upsertions
    ]
    results: dict[str, BrokerResponseError | OSError | None]
    try:
        results = dict(broker.controller.scram.alter(deletions, upsertions))
    except OSError as error:
        results = dict.fromkeys((*(one.name for one in deletions), *(one.name for one in upsertions)), error)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(name, *((0, None) if error is None else code_and_text(error)))
            for name, error in results.items()
        ]
    )
