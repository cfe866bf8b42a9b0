"""DescribeUserScramCredentials: the SCRAM mechanisms and iterations of users (KIP-554)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    INT8,
    INT16,
    INT32,
    STRING,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)


@structure
class UserName(Struct):
    name: str = field(STRING, "0+", default="")


@message(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "request", versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Message):
    users: list[UserName] | None = array(UserName, "0+", nullable="0+", factory=list)


@structure
class CredentialInfo(Struct):
    mechanism: int = field(INT8, "0+", default=0)
    iterations: int = field(INT32, "0+", default=0)


@structure
class DescribeUserScramCredentialsResult(Struct):
    user: str = field(STRING, "0+", default="")
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")
    credential_infos: list[CredentialInfo] = array(CredentialInfo, "0+", factory=list)


@message(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "response", versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult, "0+", factory=list)
