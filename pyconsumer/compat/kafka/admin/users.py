"""``kafka.admin._users``: the SCRAM credentials of users, as values that kafka-python's programs make."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from pyconsumer import admin as ours

__all__ = ["ScramMechanism", "UserScramCredentialDeletion", "UserScramCredentialUpsertion"]


class ScramMechanism(IntEnum):
    """SCRAM mechanisms."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def hash_name(self) -> str:
        """Return the name of the hash function."""
        return ours.ScramMechanism(self).hash_name


def _mechanism(given: ScramMechanism | int | str) -> ScramMechanism:
    if isinstance(given, str):
        return ScramMechanism[given.upper().replace("-", "_")]
    return ScramMechanism(given)


class UserScramCredentialDeletion:
    """The removal of a user's credential.

    Args:
        mechanism: a mechanism, its number, or its name such as ``SCRAM-SHA-256``.
    """

    def __init__(self, user: str, mechanism: ScramMechanism | int | str) -> None:
        self.user = user
        self.mechanism = _mechanism(mechanism)

    def __repr__(self) -> str:
        return f"UserScramCredentialDeletion({self.user}, {self.mechanism.name})"

    def to_ours(self) -> ours.UserScramCredentialDeletion:
        """Return the same as pyconsumer's value."""
        return ours.UserScramCredentialDeletion(self.user, ours.ScramMechanism(self.mechanism))


class UserScramCredentialUpsertion:
    """A new password of a user.

    Args:
        mechanism: as for :class:`UserScramCredentialDeletion`.
        iterations: 4096 by default.
        salt: by default random bytes.
    """

    DEFAULT_ITERATIONS: Final = 4096

    def __init__(
        self,
        user: str,
        mechanism: ScramMechanism | int | str,
        password: bytes | str,
        iterations: int | None = None,
        salt: bytes | None = None,
    ) -> None:
        self.user = user
        self.mechanism = _mechanism(mechanism)
        self.iterations = self.DEFAULT_ITERATIONS if iterations is None else iterations
        self.salt = salt
        self._password = password.decode() if isinstance(password, bytes) else password

    def __repr__(self) -> str:
        return f"UserScramCredentialUpsertion({self.user}, {self.mechanism.name}, iterations={self.iterations})"

    def to_ours(self) -> ours.UserScramCredentialUpsertion:
        """Return the same as pyconsumer's value."""
        return ours.UserScramCredentialUpsertion(
            self.user, ours.ScramMechanism(self.mechanism), self._password, self.iterations, self.salt
        )
