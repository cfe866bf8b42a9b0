"""SCRAM-SHA-256 and -512 (RFC 5802, KIP-84): the mechanisms, and the keys that a broker stores for a user.

The password is in none of them. The exchange of messages is in :mod:`pyconsumer.network.sasl` (the client's side) and
in :mod:`pyconsumer.broker.logins` (the broker's side).
"""

from __future__ import annotations

import hashlib
import hmac
from enum import IntEnum
from typing import Final, NamedTuple

__all__ = ["ITERATIONS", "ScramKeys", "ScramMechanism", "hash_key", "salt_password", "sign"]

#: The least and the greatest number of iterations that Kafka accepts for credentials.
ITERATIONS: Final = (4096, 16384)


class ScramMechanism(IntEnum):
    """SCRAM mechanisms, with Kafka's numbers."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def label(self) -> str:
        """Return the name in the protocol, such as ``SCRAM-SHA-256``."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """Return the name of the hash function for :mod:`hashlib`."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


class ScramKeys(NamedTuple):
    """The two keys by which a broker checks a proof and signs its answer. Neither leads back to the password."""

    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, mechanism: ScramMechanism, salted_password: bytes) -> ScramKeys:
        """Return the keys that belong to a salted password."""
        client_key = sign(mechanism, salted_password, b"Client Key")
        return cls(hash_key(mechanism, client_key), sign(mechanism, salted_password, b"Server Key"))


def salt_password(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Return the salted password (PBKDF2). This takes a few milliseconds."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)


def hash_key(mechanism: ScramMechanism, key: bytes) -> bytes:
    """Return the hash of a key."""
    return hashlib.new(mechanism.hash_name, key).digest()


def sign(mechanism: ScramMechanism, key: bytes, data: bytes) -> bytes:
    """Return the HMAC of some bytes."""
    return hmac.digest(key, data, mechanism.hash_name)
