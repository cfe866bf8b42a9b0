"""Read-only views for internal names (``_name``) of the original clients that other programs read.

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
    """A member's identity in its group. FastStream logs it when partitions are assigned.

    Args:
        group: the result of ``group_metadata()``. None if there is no group.
        coordinator_id: the id of the broker that coordinates the group. None if it is unknown.
    """

    def __init__(self, group: ConsumerGroupMetadata | None, coordinator_id: int | None) -> None:
        self.group_id = None if group is None else group.group_id
        self.member_id = "" if group is None else group.member_id
        self.generation = -1 if group is None else group.generation_id
        self.coordinator_id = coordinator_id

    def coordinator(self) -> int | None:
        """Return the id of the broker that coordinates the group, as kafka-python does."""
        return self.coordinator_id


class SubscriptionView:
    """The subscribed topics of a consumer. FastStream and Elastic's agent put them into messages.

    Args:
        topics: the subscribed topics.
    """

    def __init__(self, topics: Collection[str]) -> None:
        self.topics = frozenset(topics)

    @property
    def subscription(self) -> set[str]:
        """The subscribed topics. The name is kafka-python's."""
        return set(self.topics)


def refuse_internal(owner: Any, name: str, original: str) -> NoReturn:
    """Raise the error for an internal name that an object does not have.

    Args:
        owner: the object.
        name: the name.
        original: the package for which the program was written.

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
