"""AlterUserScramCredentials: set and remove the SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BYTES,
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
class ScramCredentialDeletion(Struct):
    name: str = field(STRING, "0+", default="")
    mechanism: int = field(INT8, "0+", default=0)


@structure
class ScramCredentialUpsertion(Struct):
    name: str = field(STRING, "0+", default="")
    mechanism: int = field(INT8, "0+", default=0)
    iterations: int = field(INT32, "0+", default=0)
    salt: bytes = field(BYTES, "0+", default=b"")
    salted_password: bytes = field(BYTES, "0+", default=b"")


@message(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "request", versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Message):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion, "0+", factory=list)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion, "0+", factory=list)


@structure
class AlterUserScramCredentialsResult(Struct):
    user: str = field(STRING, "0+", default="")
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")


@message(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "response", versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult, "0+", factory=list)
