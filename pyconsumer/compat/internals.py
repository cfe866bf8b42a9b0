"""Names with an underscore of the originals that other programs read: views that cannot change anything.

Rules

1. Only names that a known program reads are here. Each says which kind of program that is.
2. A view is made when it is read. It has the values of that moment.
3. Any other name with an underscore raises ``AttributeError`` and says that it was internal to the original.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NoReturn

from pyconsumer.structs import ConsumerGroupMetadata

__all__ = ["CoordinatorView", "SubscriptionView", "refuse_internal"]


class CoordinatorView:
    """A member's identity in its group, which FastStream logs when partitions are assigned.

    Args:
        group: the result of ``group_metadata()``, or None without a group.
        coordinator_id: the id of the broker that coordinates the group in the original's form, or None if it is not
            known.
    """

    def __init__(self, group: ConsumerGroupMetadata | None, coordinator_id: int | str | None) -> None:
        self.group_id = None if group is None else group.group_id
        self.member_id = "" if group is None else group.member_id
        self.generation = -1 if group is None else group.generation_id
        self.coordinator_id = coordinator_id

    def coordinator(self) -> int | str | None:
        """Return the id of the broker that coordinates the group, as kafka-python does: ``coordinator-1``."""
        return self.coordinator_id


class SubscriptionView:
    """Subscribed topics of a consumer, which FastStream and Elastic's agent put into messages.

    Args:
        topics: the subscribed topics.
    """

    def __init__(self, topics: Collection[str]) -> None:
        self.topics = frozenset(topics)

    @property
    def subscription(self) -> set[str]:
        """The subscribed topics under kafka-python's name."""
        return set(self.topics)


def refuse_internal(owner: Any, name: str, original: str) -> NoReturn:
    """Refuse a name that an object does not have.

    Args:
        owner: the object.
        name: the name.
        original: the package that the program was written for.

    Raises:
        AttributeError: always.
    """
    kind = type(owner).__name__
    if name.startswith("_") and not name.startswith("__"):
        raise AttributeError(
            f"{kind}.{name} was internal to {original}. docs/porting.md names the internal values that can be read",
            name=name,
            obj=owner,
        )
    raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=owner)
