"""Errors of schemas and of a Schema Registry.

All are :class:`~pyconsumer.errors.KafkaError`. ``error.retriable`` says whether the same call may succeed later.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pyconsumer.errors import InvalidConfigurationError, KafkaTimeoutError, RetriableError, SerializationError
from pyconsumer.errors import KafkaError as _KafkaError

__all__ = [
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "SchemaFramingError",
    "SchemaNotFoundError",
    "SchemaRegistryAccessError",
    "SchemaRegistryError",
    "SchemaRegistryTimeoutError",
    "SchemaRegistryUnavailableError",
    "error_of_response",
]

_MOST_CHARACTERS: Final = 2_000  #: of a registry's message, which may quote two whole schemas


class SchemaRegistryError(_KafkaError):
    """A call of a Schema Registry failed.

    Args:
        http_status_code: the status of its response. -1 if there was none.
        error_code: the registry's own code, such as 40401. -1 if it named none.
        error_message: the registry's message.
        request: the request that failed, such as ``GET http://localhost:8081/subjects``, without a password.
    """

    UNKNOWN: ClassVar[int] = -1

    def __init__(
        self, http_status_code: int, error_code: int = -1, error_message: str = "", *, request: str = ""
    ) -> None:
        super().__init__(http_status_code, error_code, error_message)
        self.http_status_code = http_status_code
        self.error_code = error_code
        self.error_message = error_message
        self.request = request

    #: The sentence that says what to do.
    advice: ClassVar[str] = ""

    def __str__(self) -> str:
        codes = [f"HTTP status {self.http_status_code}"] if self.http_status_code >= 0 else []
        codes += [f"error code {self.error_code}"] if self.error_code not in (-1, self.http_status_code) else []
        text = self.error_message[:_MOST_CHARACTERS] or "the registry gave no reason"
        if codes:
            text += f" ({', '.join(codes)})"
        if self.request:
            text = f"{self.request}: {text}"
        return f"{text}. {self.advice}" if self.advice else text

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args, self.request))


def _rebuild(kind: type[SchemaRegistryError], args: tuple[Any, ...], request: str) -> SchemaRegistryError:
    return kind(*args, request=request)


class SchemaNotFoundError(SchemaRegistryError):
    """The registry has no such schema, subject or version."""

    advice = "Check the name or the id, and that the client asks the registry in which the schema was registered"


class SchemaRegistryAccessError(SchemaRegistryError, InvalidConfigurationError):
    """The registry rejected the credentials (401), they do not permit this call (403), or no token was issued (4xx)."""

    advice = (
        "Check basic.auth.user.info or bearer.auth.token, and the permissions of that user. A producer that must not"
        " register schemas needs auto.register.schemas=False"
    )


class IncompatibleSchemaError(SchemaRegistryError):
    """The schema breaks the subject's compatibility rule (409)."""

    advice = (
        "Change the schema, for example by a default for a new field, or the subject's compatibility level,"
        " or register the schema under another subject"
    )


class InvalidSchemaError(SchemaRegistryError):
    """The registry rejected the schema or another argument of the call (422)."""


class SchemaRegistryUnavailableError(SchemaRegistryError, RetriableError):
    """No registry could be reached, or it was overloaded (429) or failed (5xx), after all retries.

    A 404 that does not come from a registry, such as the page of a proxy, is this error, too.
    """

    retriable = True
    advice = "Check the url, and that the registry runs"


class SchemaRegistryTimeoutError(SchemaRegistryUnavailableError, KafkaTimeoutError):
    """A call did not finish within its timeout, retries included."""


class SchemaFramingError(SerializationError):
    """A key or value does not begin with the id of a schema, and no header has one."""


_KINDS: Final[dict[int, type[SchemaRegistryError]]] = {
    401: SchemaRegistryAccessError,
    403: SchemaRegistryAccessError,
    404: SchemaNotFoundError,
    409: IncompatibleSchemaError,
    422: InvalidSchemaError,
    408: SchemaRegistryUnavailableError,
    429: SchemaRegistryUnavailableError,
}


def error_of_response(status: int, code: int, message: str, request: str) -> SchemaRegistryError:
    """Return the error of a response.

    Args:
        status: its HTTP status, 400 or higher.
        code: the registry's code, -1 if it has none.
        message: the registry's message.
        request: the request, for the message.
    """
    kind = _KINDS.get(status)
    if status == 404 and code == -1:  # the page of a proxy or of another server
        kind = SchemaRegistryUnavailableError
    if kind is None:
        kind = SchemaRegistryUnavailableError if status >= 500 else SchemaRegistryError
    return kind(status, code, message, request=request)
