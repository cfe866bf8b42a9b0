"""Subscriptions by regular expression: when they are resolved, and what follows from it.

Resolving means to try every topic, so it is not done in a heartbeat: it comes right after the one that asks for it, and
the members get what it brings with a later one. It is done when a member brings a new expression, when topics were
created since, or after ``group.consumer.regex.refresh.interval.ms``; but not within 10 s of the last time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.config import GroupConfig
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

_log = logging.getLogger(__name__)

_SHORTEST_INTERVAL_MS: Final = 10_000
_NOTHING: Final = ResolvedRegex(frozenset())


class RegexStatus(Enum):
    """Changes of a member's regular expression by a heartbeat."""

    UNCHANGED = auto()
    UPDATED = auto()
    RESOLVED = auto()
    """It has changed, and the topics of the new one are known."""


class TopicRegexes:
    """The regular expressions of all groups of one coordinator."""

    def __init__(
        self,
        config: GroupConfig,
        writer: GroupWriter,
        hasher: MetadataHasher,
        image: TopicImage,
        timer: Timer,
        clock: Clock,
        answers: PendingReplies,
    ) -> None:
        self._config = config
        self._writer = writer
        self._hasher = hasher
        self._image = image
        self._timer = timer
        self._clock = clock
        self._answers = answers
        self._scheduled: set[str] = set()
        #: When the last topic was created: the version of the topics. Wall time, because it is in records.
        self._version = clock.wall_ms()

    def on_topic_created(self) -> None:
        """A topic was created that expressions may match."""
        self._version = max(self._version + 1, self._clock.wall_ms())

    def on_member(self, change: Change, before: ConsumerGroupMember, after: ConsumerGroupMember) -> RegexStatus:
        """Note the expression of a member; resolve those of its group after the change if that is due.

        Raises:
            InvalidRegularExpressionError: nobody in the group has it yet, and it cannot be used.
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
        self._timer.schedule(self._clock.now(), lambda: self._run(group, wanted))

    def _run(self, group: ConsumerGroup, wanted: set[str]) -> None:
        self._scheduled.discard(group.group_id)
        try:
            with self._answers:
                if not group.is_dead:
                    self._resolve(group, wanted)
        except Exception:
            _log.exception("Group %s: its regular expressions could not be resolved", group.group_id)

    def _resolve(self, group: ConsumerGroup, wanted: set[str]) -> None:
        now_ms, names = self._clock.wall_ms(), list(self._image.topic_names())
        counts, changed = group.subscribed.copy(), False
        change = Change(group)
        for regex in sorted(wanted):
            if not group.regexes[regex]:
                continue
            topics = frozenset(filter(_matcher(regex), names))
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
        _log.info("Group %s: tried %d topics for %d regular expressions", group.group_id, len(names), len(wanted))
        nobody: Deferred[int] | None = None
        self._writer.write(change, nobody, 0, lambda code: code)


def _matcher(regex: str) -> Callable[[str], bool]:
    try:
        return compile_topic_regex(regex)
    except InvalidRegularExpressionError as error:
        # It was accepted by another version or another broker, which understood more.
        _log.error("A regular expression is ignored: %s", error)
        return lambda name: False
