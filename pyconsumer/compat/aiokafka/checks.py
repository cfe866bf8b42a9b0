"""Checks of arguments whose errors have aiokafka's texts: programs and their tests look for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pyconsumer.errors import ConfigurationError, IllegalStateError
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

__all__ = ["NothingAssignedError", "check_offsets", "check_settings"]

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ISOLATION: Final = ("read_uncommitted", "read_committed")


class NothingAssignedError(IllegalStateError, AssertionError):
    """A call for a partition of a consumer that has none. In aiokafka it is an ``AssertionError``."""


def check_settings(given: Mapping[str, Any]) -> None:
    """Check the settings of a client that aiokafka checks.

    Args:
        given: the settings of the program.

    Raises:
        ConfigurationError: one has a wrong value. It is a ``ValueError``, too.
    """
    protocol = given.get("security_protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise ConfigurationError(
            f"`security_protocol` should be SSL or PLAINTEXT, SASL_SSL or SASL_PLAINTEXT, not {protocol!r}"
        )
    if protocol.endswith("SSL") and not any(
        value is not None for name, value in given.items() if name.startswith("ssl_")
    ):
        raise ConfigurationError(f"`ssl_context` is mandatory if security_protocol=='{protocol}'")
    plain = protocol.startswith("SASL") and given.get("sasl_mechanism", "PLAIN") == "PLAIN"
    if plain and (given.get("sasl_plain_username") is None or given.get("sasl_plain_password") is None):
        raise ConfigurationError("sasl_plain_username and sasl_plain_password required for PLAIN sasl")
    level = given.get("isolation_level", "read_uncommitted")
    if level not in _ISOLATION:
        raise ConfigurationError(f"Incorrect isolation level {level}")


def check_offsets(offsets: Any, assignment: Collection[TopicPartition]) -> None:
    """Check the offsets that a program commits.

    Args:
        offsets: the next offset of each partition, or a pair of it and metadata.
        assignment: the partitions of the consumer.

    Raises:
        ValueError: they are empty, or not a mapping of partitions to offsets.
        TypeError: a key is no partition, or metadata no text.
        IllegalStateError: a partition is not assigned.
    """
    if not isinstance(offsets, Mapping) or not offsets:
        raise ValueError(f"offsets must be a mapping of partitions to offsets, not {offsets!r}")
    for tp, value in offsets.items():
        if not isinstance(tp, TopicPartition):
            raise TypeError(f"Key should be TopicPartition instance, not {tp!r}")
        if isinstance(value, (int, OffsetAndMetadata)):
            continue
        if not isinstance(value, tuple) or len(value) != 2:
            raise ValueError(f"{tp}: an offset must be a number, or a pair of a number and metadata, not {value!r}")
        if not isinstance(value[1], str):
            raise TypeError(f"Metadata should be a string, not {value[1]!r}")
    for tp in offsets:
        if tp not in assignment:
            reason = f"Partition {tp} is not assigned"
            raise IllegalStateError(reason if assignment else f"No partitions assigned: {reason}")
