"""The errors of the registry's calls, with Confluent's codes (``rest.exceptions.Errors`` of its source)."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["RegistryError", "RegistryErrors"]


class RegistryErrors(IntEnum):
    """Codes by name. The HTTP status of a code is its first three digits."""

    NOT_FOUND = 404
    SUBJECT_NOT_FOUND = 40401
    VERSION_NOT_FOUND = 40402
    SCHEMA_NOT_FOUND = 40403
    SUBJECT_SOFT_DELETED = 40404
    SUBJECT_NOT_SOFT_DELETED = 40405
    SCHEMAVERSION_SOFT_DELETED = 40406
    SCHEMAVERSION_NOT_SOFT_DELETED = 40407
    SUBJECT_LEVEL_COMPATIBILITY_NOT_CONFIGURED = 40408
    SUBJECT_LEVEL_MODE_NOT_CONFIGURED = 40409
    METHOD_NOT_ALLOWED = 405
    INCOMPATIBLE_SCHEMA = 409
    UNPROCESSABLE = 422
    INVALID_SCHEMA = 42201
    INVALID_VERSION = 42202
    INVALID_COMPATIBILITY_LEVEL = 42203
    INVALID_MODE = 42204
    OPERATION_NOT_PERMITTED = 42205
    REFERENCE_EXISTS = 42206
    ID_DOES_NOT_MATCH = 42207
    INVALID_SUBJECT = 42208
    STORE = 50001
    OPERATION_TIMEOUT = 50002


class RegistryError(Exception):
    """A call failed.

    Args:
        code: see :class:`RegistryErrors`.
        message: for the client.
    """

    def __init__(self, code: RegistryErrors, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        return int(str(int(self.code))[:3])
