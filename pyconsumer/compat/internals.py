"""Read-only views for internal names (``_name``) of the original clients that other programs read.

Rules

1. Only names that a known program reads are here. Each says which kind of program that is.
2. A view is made when it is read. It has the values of that moment.
3. Any other name with an underscore that the original has raises ``AttributeError`` and says that it was internal.
   There is no ``__getattr__`` for that: in a class with one, Python cannot remember where an attribute is.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any, NoReturn

from pyconsumer.structs import ConsumerGroupMetadata

__all__ = ["CoordinatorView", "SubscriptionView", "refuse_internals"]


class CoordinatorView:
    """A member's identity in its group. FastStream logs it when partitions are assigned.

    Args:
        group: the result of ``group_metadata()``. None if there is no group.
        coordinator_id: the id of the broker that coordinates the group, in the original's form. None if it is unknown.
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


class _InternalName:
    """An attribute that is only in the original: reading it raises ``AttributeError``. One of ours comes before it.

    Args:
        name: the name.
        original: the package that the program was written for.
    """

    def __init__(self, name: str, original: str) -> None:
        self._name = name
        self._original = original

    def __get__(self, owner: Any, kind: type[Any]) -> NoReturn:
        raise AttributeError(
            f"{kind.__name__}.{self._name} was internal to {self._original}. docs/porting.md names the internal values"
            " that can be read",
            name=self._name,
            obj=owner,
        )


def refuse_internals(kind: type[Any], names: str, original: str) -> None:
    """Let a client say of names of the original that they were internal.

    Args:
        kind: the class of the client. Names that it has are left as they are.
        names: of attributes and methods of the original with one underscore, with spaces between.
        original: the package.
    """
    missing = object()
    for name in names.split():
        if inspect.getattr_static(kind, name, missing) is missing:
            setattr(kind, name, _InternalName(name, original))
