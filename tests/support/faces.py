"""The clients that a test marked ``faces`` uses: the blocking ones, those for asyncio, or both, in a test each.

``PYCONSUMER_FACES`` chooses. ``alternate`` gives each test one of the two, about half of the tests each. With
``embedded`` each test uses both on the embedded broker, and on Apache Kafka the one that ``alternate`` gives it. Both
faces have the same core, and the broker cannot see which of them sends a request. By default each test uses both on
each broker.
"""

from __future__ import annotations

import os
import zlib

__all__ = ["FACES", "faces_of"]

FACES = ("blocking", "asyncio")


def faces_of(test: str, broker: str, choice: str | None = None) -> tuple[str, ...]:
    """Return the faces that a test uses on a kind of broker.

    Args:
        test: its name without parameters.
        broker: ``embedded``, or a kind of Apache Kafka.
        choice: in place of the environment's.

    Raises:
        ValueError: there is no such choice.
    """
    if choice is None:
        choice = os.environ.get("PYCONSUMER_FACES", "")
    if choice not in ("", "alternate", "embedded"):
        raise ValueError(f"PYCONSUMER_FACES is {choice!r}, not 'alternate' or 'embedded'")
    if choice == "alternate" or (choice == "embedded" and broker != "embedded"):
        return (FACES[zlib.crc32(test.encode()) % 2],)
    return FACES
