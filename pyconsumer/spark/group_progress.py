"""A stream's progress as offsets of a consumer group (``commitToGroup``), for tools that watch groups.

Spark's checkpoint stays the truth: these commits are for lag monitors and for ``startingOffsets=group``. So they are
best effort: what fails is logged, tried again later, and never ends the query.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pyconsumer.errors import KafkaError
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.admin import KafkaAdminClient

__all__ = ["GroupProgress"]

_log = logging.getLogger("pyconsumer.spark")

#: Longest time that a commit holds the query up.
_TIMEOUT_MS: Final = 10_000
#: After a failure there is no commit for so long, and the query goes on undisturbed.
_PAUSE_S: Final = 30.0
#: Brokers forget what an idle group has committed, after a week by default; so it is committed again now and then.
_REPEAT_S: Final = 600.0


class GroupProgress:
    """Commits positions to a group that has no members.

    Args:
        group_id: the group.
        connect: makes an admin client; called at the first commit.
        now: monotonic seconds.
    """

    def __init__(
        self, group_id: str, connect: Callable[[], KafkaAdminClient], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._group_id = group_id
        self._connect = connect
        self._now = now
        self._admin: KafkaAdminClient | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._committed_at = -math.inf
        self._failed_at = -math.inf

    def commit(self, position: Mapping[TopicPartition, int]) -> None:
        """Commit offsets, unless they are committed already or the last commit failed a moment ago. Raises nothing."""
        now = self._now()
        if not position or now - self._failed_at < _PAUSE_S:
            return
        if position == self._committed and now - self._committed_at < _REPEAT_S:
            return
        try:
            if self._admin is None:
                self._admin = self._connect()
            offsets = {tp: OffsetAndMetadata(offset) for tp, offset in position.items()}
            self._admin.alter_group_offsets(self._group_id, offsets, timeout_ms=_TIMEOUT_MS)
        except (KafkaError, OSError) as error:
            self._failed_at = self._now()
            _log.warning(
                "progress could not be committed to group %r, the query goes on: %s: %s",
                self._group_id,
                type(error).__name__,
                error,
            )
        else:
            self._committed = dict(position)
            self._committed_at = now

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
