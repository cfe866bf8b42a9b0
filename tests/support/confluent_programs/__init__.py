"""Programs that use confluent-kafka's schemas, in the shape of its documentation. They are ours.

:func:`ported` changes their imports, and nothing else, to ``pyconsumer.schemas``.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["PROGRAMS", "ported"]

#: The texts of the programs by name.
PROGRAMS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.txt"))}


def ported(text: str) -> str:
    """Return a program whose imports of confluent-kafka's schemas and serialization are of ours."""
    changed, count = re.subn(
        r"^from confluent_kafka\.(?:schema_registry(?:\.\w+)?|serialization) import",
        "from pyconsumer.schemas import",
        text,
        flags=re.MULTILINE,
    )
    assert count > 0
    return changed
