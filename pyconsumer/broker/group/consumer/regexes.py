"""Subscriptions by regular expression: when they are evaluated, and the resulting records.

Resolving an expression tries every topic of the cluster, so it is not done in a heartbeat but in a task right after it.
The members get the new partitions with a later heartbeat. It is done when a member has a new expression, when topics
have been created since the last time, or after ``group.consumer.regex.refresh.interval.ms``, but not within 10 s of the
last time. The resolved topics are the group's. This module has only the set of groups whose task is scheduled, and the
version of the cluster's topics.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.consumer import records
from pyconsumer.broker.group.consumer.group import ConsumerGroup
from pyconsumer.broker.group.consumer.member import ConsumerGroupMember
from pyconsumer.broker.group.consumer.metadata_hash import MetadataHasher
from pyconsumer.broker.group.consumer.records import ResolvedRegex
from pyconsumer.broker.group.consumer.topic_regex import compile_topic_regex
from pyconsumer.broker.group.consumer.topics import TopicImage
from pyconsumer.broker.group.consumer.writer import Change, GroupWriter
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import Clock
from pyconsumer.errors import InvalidRegularExpressionError
from pyconsumer.protocol.consumer_group_records import RecordType

__all__ = ["RegexStatus", "TopicRegexes"]

_log = Log(__name__)

_SHORTEST_INTERVAL_MS: Final = 10_000
_NOTHING: Final = ResolvedRegex(frozenset())


class RegexStatus(Enum):
    """The change of a member's regular expression by a heartbeat."""

    UNCHANGED = auto()
    UPDATED = auto()
    RESOLVED = auto()
    """It has changed, and the topics that the new one matches are known."""


class TopicRegexes:
    """The regular expressions of all consumer-protocol groups of one coordinator."""

    def __init__(
        self,
        config: GroupConfig,
        writer: GroupWriter,
        hasher: MetadataHasher,
        image: TopicImage,
        timer: Timer,
        clock: Clock,
        replies: PendingReplies,
    ) -> None:
        self._config = config
        self._writer = writer
        self._hasher = hasher
        self._image = image
        self._timer = timer
        self._clock = clock
        self._replies = replies
        self._scheduled: set[str] = set()
        self._visible: Callable[[str], bool] | None = None
        #: The version of the cluster's topics: the wall time at which the last one was created. Records have it.
        self._version = clock.wall_ms()

    def look_with(self, visible: Callable[[str], bool] | None) -> None:
        """Set which topics the member of the next heartbeat may see. As in Kafka, its rights count for the group."""
        self._visible = visible

    def on_topic_created(self) -> None:
        """Evaluate the expressions again, because a topic was created that they may match."""
        self._version = max(self._version + 1, self._clock.wall_ms())

    def on_member(self, change: Change, before: ConsumerGroupMember, after: ConsumerGroupMember) -> RegexStatus:
        """Add the change of a member's expression to ``change``.

        If they are due, the group's expressions are evaluated again afterwards.

        Raises:
            InvalidRegularExpressionError: the expression is new in the group, and it is invalid.
        """
        group, old, new = change.group, before.topic_regex, after.topic_regex
        status, is_new = RegexStatus.UNCHANGED, False
        if old != new:
            status = RegexStatus.UPDATED
            if old and group.regexes[old] == 1:
                change.records.append(records.tombstone(RecordType.REGULAR_EXPRESSION, old))
            if new and group.regexes[new] == 0:
                compile_topic_regex(new)
                is_new = True
            elif not new or new in group.resolved:
                status = RegexStatus.RESOLVED
        wanted = set(group.regexes)
        if old and old != new and group.regexes[old] == 1:
            wanted.discard(old)
        if new:
            wanted.add(new)
        if wanted and group.group_id not in self._scheduled and self._is_due(group, wanted, is_new=is_new):
            change.on_accepted.append(lambda: self._schedule(group, wanted))
        return status

    def _is_due(self, group: ConsumerGroup, wanted: set[str], *, is_new: bool) -> bool:
        known = next(iter(group.resolved.values()), None)
        if known is None:
            return True
        now_ms = self._clock.wall_ms()
        if now_ms <= known.timestamp + _SHORTEST_INTERVAL_MS:
            return False
        interval_ms = self._config.group_consumer_regex_refresh_interval_ms
        return (
            is_new
            or len(wanted) != len(group.resolved)
            or known.version < self._version
            or now_ms > known.timestamp + interval_ms
        )

    def _schedule(self, group: ConsumerGroup, wanted: set[str]) -> None:
        self._scheduled.add(group.group_id)
        visible = self._visible
        self._timer.schedule(self._clock.now(), lambda: self._run(group, wanted, visible))

    def _run(self, group: ConsumerGroup, wanted: set[str], visible: Callable[[str], bool] | None) -> None:
        self._scheduled.discard(group.group_id)
        try:
            with self._replies:
                if not group.is_dead:
                    self._resolve(group, wanted, visible)
        except Exception:
            _log.exception("Group %s: its regular expressions could not be resolved", group.group_id)

    def _resolve(self, group: ConsumerGroup, wanted: set[str], visible: Callable[[str], bool] | None) -> None:
        now_ms, names = self._clock.wall_ms(), list(self._image.topic_names())
        counts, changed = group.subscribed.copy(), False
        change = Change(group)
        for regex in sorted(wanted):
            if not group.regexes[regex]:
                continue
            topics = frozenset(filter(visible, filter(_matcher(regex), names)))
            before = group.resolved.get(regex, _NOTHING)
            if topics != before.topics:
                changed = True
                counts.change(counts.regexes, before.topics, topics)
            resolved = ResolvedRegex(topics, self._version, now_ms)
            change.records.append(records.regular_expression(regex, resolved))
        if not change.records:
            return
        metadata_hash = self._hasher.of_topics(counts.topics())
        if changed or metadata_hash != group.metadata_hash:
            change.records.append(records.group_epoch(group.group_epoch + 1, metadata_hash))
            change.on_accepted.append(group.note_fresh_metadata)
        _log.info("Group %s: matched %d regular expressions with %d topics", group.group_id, len(wanted), len(names))
        no_reply: Deferred[int] | None = None
        self._writer.write(change, no_reply, 0, lambda code: code)


def _matcher(regex: str) -> Callable[[str], bool]:
    try:
        return compile_topic_regex(regex)
    except InvalidRegularExpressionError as error:
        # A broker accepted it that has another version, or google-re2, which supports more.
        _log.error("A regular expression matches no topic, because this broker cannot use it: %s", error)
        return lambda name: False
