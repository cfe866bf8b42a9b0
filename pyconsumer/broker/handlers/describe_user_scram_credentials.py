"""DescribeUserScramCredentials: the mechanisms and iterations of users (KIP-554). Keys and salts are not shown."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.errors import BrokerResponseError
from pyconsumer.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    """Return the credentials of the requested users. Without users, return those of all."""
    names = None if request.users is None else [user.name for user in request.users]
    results = []
    for name, found in broker.controller.scram.describe(names).items():
        if isinstance(found, BrokerResponseError):
            results.append(DescribeUserScramCredentialsResult(name, *code_and_text(found)))
        else:
            infos = [CredentialInfo(int(mechanism), iterations) for mechanism, iterations in found.items()]
            results.append(DescribeUserScramCredentialsResult(name, 0, None, infos))
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)
