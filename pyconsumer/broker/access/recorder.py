"""Records which rights clients ask for, and finds the fewest rules that grant them. No I/O.

A test asks by it which rights a program needs: :meth:`pyconsumer.broker.EmbeddedCluster.record_access`.

Rules
1. A right counts if the request or one of its items would be refused without it. A right that only shows something in
   a list counts for names that are new, because a list has the names of others, too.
2. Rights that another one contains are left out: DESCRIBE beside READ, a name beside a prefix of it.
3. At most :data:`MOST_QUESTIONS` questions are kept. A record that lacks one says so, and has no list of rules.
4. If a right on the cluster or on the resource is enough, the one on the resource counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pyconsumer.acls import CLUSTER_NAME, AclBinding, AclOperation, PatternType, ResourceType
from pyconsumer.broker.access.rules import contains
from pyconsumer.errors import IllegalStateError

__all__ = ["MOST_QUESTIONS", "AccessRecord", "AccessRecorder", "Question", "needed_acls", "without_contained"]

#: The most different questions that are kept.
MOST_QUESTIONS: Final = 100_000

#: Returns the name or prefix by which a rule is to name a resource.
Pattern = Callable[[str], tuple[str, PatternType]]


class Question(NamedTuple):
    """A right that the broker has asked for.

    Attributes:
        principal: the client, such as ``User:alice``.
        name: the resource. None: any resource of the type is enough, or the right ``or_cluster`` on the cluster.
        allowed: whether the rules allow it.
        hides: without the right the name is only left out of a response.
        api: the request, such as ``FETCH``.
    """

    principal: str
    operation: AclOperation
    resource_type: ResourceType
    name: str | None
    allowed: bool
    hides: bool
    api: str
    or_cluster: AclOperation | None = None

    def to_json(self) -> list[Any]:
        """Return the form for the pipe between a cluster and its program."""
        return list(self)

    @classmethod
    def from_json(cls, data: Iterable[Any]) -> Question:
        """Return the question."""
        principal, operation, kind, name, allowed, hides, api, cluster = data
        return cls(
            principal,
            AclOperation(operation),
            ResourceType(kind),
            name,
            allowed,
            hides,
            api,
            None if cluster is None else AclOperation(cluster),
        )


class AccessRecorder:
    """Takes note of the questions to an authorizer.

    Args:
        allows_all: whether all rights are granted meanwhile. Super users are not recorded.
        topics: the names of the topics that are there already.
        most: how many questions are kept.

    Attributes:
        left_out: how many questions were not kept.
    """

    def __init__(self, topics: Iterable[str], *, allows_all: bool, most: int = MOST_QUESTIONS) -> None:
        self.allows_all = allows_all
        self.left_out = 0
        self._most = most
        self._topics = frozenset(topics)
        self._questions: dict[Question, None] = {}

    def note(self, question: Question) -> bool:
        """Take note of a question. Return whether the client has the right."""
        is_old = question.hides and question.resource_type is ResourceType.TOPIC and question.name in self._topics
        if is_old or question in self._questions:
            pass
        elif len(self._questions) < self._most:
            self._questions[question] = None
        else:
            self.left_out += 1
        return self.allows_all or question.allowed

    def questions(self) -> list[Question]:
        """Return the questions, without repetitions, in their order."""
        return list(self._questions)


class AccessRecord:
    """The rights that clients have asked for.

    Attributes:
        questions: the questions, without repetitions, in their order.
        is_whole: False if there were more questions than the brokers keep.
    """

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.is_whole = True

    def add(self, questions: Iterable[Question], *, left_out: int = 0) -> None:
        """Add questions that are not there yet.

        Args:
            left_out: how many others the brokers have not kept.
        """
        self.questions = list(dict.fromkeys([*self.questions, *questions]))
        if left_out:
            self.is_whole = False

    def check(self) -> None:
        """Raise ``IllegalStateError`` if the record is not whole."""
        if not self.is_whole:
            raise IllegalStateError(
                f"the clients asked for more than {MOST_QUESTIONS:,} different rights, so the record is not whole."
                " Record a smaller part of the program at a time"
            )

    def __repr__(self) -> str:
        return f"<AccessRecord of {len(self.questions)} questions>"

    @property
    def needed(self) -> list[AclBinding]:
        """Return the fewest rules with which the clients could have done the same.

        Raises:
            IllegalStateError: the record is not whole.
        """
        self.check()
        return needed_acls(self.questions)

    @property
    def denied(self) -> list[AclBinding]:
        """Return the rules that were missing. Raises as :attr:`needed` does."""
        self.check()
        return needed_acls([question for question in self.questions if not question.allowed])


def needed_acls(
    questions: Iterable[Question], pattern: Pattern = lambda name: (name, PatternType.LITERAL)
) -> list[AclBinding]:
    """Return the fewest rules that grant all that was asked for, sorted by user, literal names first.

    Args:
        pattern: returns the name or prefix for a rule about a resource.
    """
    found: dict[AclBinding, None] = {}
    anywhere: list[Question] = []
    for question in questions:
        if question.name is None:
            anywhere.append(question)
        elif not (question.hides and question.operation is AclOperation.DESCRIBE_CONFIGS):
            name, kind = pattern(question.name)
            acl = AclBinding(question.resource_type, name, question.principal, question.operation, pattern_type=kind)
            found[acl] = None
    for question in anywhere:
        same = (question.principal, question.operation, question.resource_type)
        if question.or_cluster is not None and not any(
            (acl.principal, acl.operation, acl.resource_type) == same for acl in found
        ):
            found[AclBinding(ResourceType.CLUSTER, CLUSTER_NAME, question.principal, question.or_cluster)] = None
    return without_contained(found)


def without_contained(acls: Iterable[AclBinding]) -> list[AclBinding]:
    """Return rules that allow, without those that another one contains. They are sorted: literal names first."""
    distinct = list(dict.fromkeys(acls))
    by_resource: dict[tuple[str, ResourceType, str, PatternType], set[AclOperation]] = {}
    for acl in distinct:
        by_resource.setdefault((acl.principal, acl.resource_type, acl.name, acl.pattern_type), set()).add(acl.operation)
    return sorted(
        (acl for acl in distinct if not any(_is_in(acl, operations) for operations in _others(acl, by_resource))),
        key=lambda acl: (
            acl.principal,
            acl.pattern_type is PatternType.PREFIXED,
            acl.resource_type,
            acl.name,
            acl.operation,
        ),
    )


def _is_in(acl: AclBinding, operations: set[AclOperation]) -> bool:
    return any(contains(operation, acl.operation) for operation in operations)


def _others(
    acl: AclBinding, by_resource: Mapping[tuple[str, ResourceType, str, PatternType], set[AclOperation]]
) -> Iterator[set[AclOperation]]:
    """Yield the operations of the rules that apply to all resources of a rule, without those of the rule itself."""
    is_prefix = acl.pattern_type is PatternType.PREFIXED
    yield by_resource[acl.principal, acl.resource_type, acl.name, acl.pattern_type] - {acl.operation}
    for length in range(1, len(acl.name) + (not is_prefix)):
        key = acl.principal, acl.resource_type, acl.name[:length], PatternType.PREFIXED
        yield by_resource.get(key, set())
