"""The clients that a test marked ``faces`` uses: the blocking ones, those for asyncio, or both, in a test each.

``PYCONSUMER_FACES`` chooses. ``alternate`` gives each test one of the two, about half of the tests each. With ``pairs``
a test has one face on the embedded broker and the other on Apache Kafka. Its second group protocol and its second
decoder swap them: so each test meets both faces, and each face meets each broker, protocol and decoder, without the
product of all. A test without Apache Kafka uses both. Both faces have the same core, and the broker cannot see which of
them sends a request. By default each test uses both on each broker.

Tests marked ``pairs`` have other axes that do not depend on each other. By default they run in all combinations. With
either choice they run in every second one, in which each value of an axis still meets each value of the others.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable

__all__ = ["FACES", "faces_of", "is_combined"]

FACES = ("blocking", "asyncio")


def faces_of(
    test: str, broker: str, choice: str | None = None, *, swaps: int = 0, embedded_only: bool = False
) -> tuple[str, ...]:
    """Return the faces that a test uses on a kind of broker.

    Args:
        test: its name, with those parameters that are no broker, protocol or decoder.
        broker: ``embedded``, or a kind of Apache Kafka.
        choice: in place of the environment's.
        swaps: how many of its other parameters, such as the group protocol, have their second value.
        embedded_only: it does not run on Apache Kafka.

    Raises:
        ValueError: there is no such choice.
    """
    if choice is None:
        choice = os.environ.get("PYCONSUMER_FACES", "")
    if choice not in ("", "alternate", "pairs"):
        raise ValueError(f"PYCONSUMER_FACES is {choice!r}, not 'alternate' or 'pairs'")
    if choice == "" or (choice == "pairs" and embedded_only):
        return FACES
    first = zlib.crc32(test.encode()) + swaps + (choice == "pairs" and broker != "embedded")
    return (FACES[first % 2],)


def is_combined(indices: Iterable[int], choice: str | None = None) -> bool:
    """Return if a test marked ``pairs`` runs with this combination of values.

    Args:
        indices: of its values, each within its axis.
        choice: in place of the environment's.
    """
    if choice is None:
        choice = os.environ.get("PYCONSUMER_FACES", "")
    return not choice or sum(indices) % 2 == 0
