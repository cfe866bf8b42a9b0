"""OffsetCommit and OffsetFetch: commits, their retries and callbacks, and the commit interval.

Commits

1. A member commits for the generation in which it is stable, and only once its application knows that generation's
   partitions. A commit that is repeated names the same generation as before, or fails.
2. A commit is repeated only after errors that cannot have lost us the partitions: coordinator moving or loading, a
   broken connection, a topic not known yet, a stale member epoch (KIP-848). (Java repeats after the last one only
   before it revokes partitions.) All others are raised. :meth:`OffsetCommitter.commit` decides it by the ``retriable``
   of the error that the code becomes.
3. Asynchronous commits are never repeated, as a later one may have succeeded. While the coordinator is unknown they are
   queued. When it is found they are sent in order, before any later commit. They fail if the search fails, or if the
   member has another generation by then (under the consumer protocol: has joined again). The commit before a rebalance
   is repeated while there is time (:mod:`.listener_invoker`). After an automatic commit that failed the next one comes
   sooner.
4. Callbacks of asynchronous commits queue in order of completion, and run in the user's thread inside the next
   ``poll``, ``commit``, ``commit_async`` or ``close``.
5. Under the consumer protocol the heartbeat thread may change the member epoch at any time. A commit reads it as it is
   encoded, under the core's lock, and is repeated unless the member has been removed since.
6. Automatic commits cover the records that previous polls returned, and no later ones. Closing may leave the last
   one out: :mod:`pyconsumer.consumer.closing` has the rules.

Committed offsets

1. A response counts only if it is stable: offsets of a transaction that is not finished are requested again (KIP-447).
2. A call for the same partitions in the same generation shares the request in flight, unless a commit has been
   acknowledged since that was sent: its response may be older.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pyconsumer.consumer.coordinator.coordinator_client import CoordinatorClient
from pyconsumer.consumer.coordinator.error_actions import OFFSET_COMMIT, OFFSET_FETCH, ErrorAction, action_for
from pyconsumer.consumer.coordinator.group_state import NO_GENERATION, Generation
from pyconsumer.errors import (
    CommitFailedError,
    Errors,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    RequestCancelledError,
    RetriableCommitFailedError,
    RetriableError,
    StaleMemberEpochError,
    TopicAuthorizationFailedError,
    for_code,
)
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.calls import wait_until
from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture, Steps, Wait, wait_for_callback
from pyconsumer.protocol.messages.offset_commit import OffsetCommitRequest
from pyconsumer.protocol.messages.offset_fetch import OffsetFetchRequest
from pyconsumer.protocol.requests.offsets import (
    FetchedOffsets,
    newest_version,
    offset_commit_request,
    offset_fetch_request,
    read_offset_commit,
    read_offset_fetch,
    topic_ids,
)
from pyconsumer.structs import OffsetAndMetadata, TopicPartition
from pyconsumer.telemetry import Client, hooks

__all__ = [
    "AutoCommit",
    "CommitCallback",
    "CommittedOffsets",
    "OffsetCommitter",
    "Offsets",
]

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
_Committed = dict[TopicPartition, OffsetAndMetadata | None]

CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], "KafkaError | None"], object]


class AutoCommit:
    """The schedule of automatic commits. It has no I/O and no clock.

    Args:
        interval: ``auto_commit_interval_ms`` in seconds. None means no automatic commits.
    """

    def __init__(self, interval: float | None, now: float) -> None:
        self.interval = interval
        self.next_at = math.inf if interval is None else now + interval

    @property
    def enabled(self) -> bool:
        return self.interval is not None

    def restart(self, now: float) -> None:
        """Begin a new interval, because offsets were sent or a rebalance has ended."""
        if self.interval is not None:
            self.next_at = now + self.interval

    def retry(self, now: float, pause: float) -> None:
        """Shorten the current interval to ``pause``, because a commit failed with a retriable error."""
        if self.interval is not None:
            self.next_at = now + min(pause, self.interval)


@dataclass(eq=False, slots=True)
class _AsyncCommit:
    """An asynchronous commit that has not ended.

    Attributes:
        scope: the scope of its call (:attr:`.GroupMember.commit_scope`), in which it must be sent.
        callback: the application's.
        sent: its request, or None while it waits for the coordinator.
        is_reported: True once the callback is being called. Ctrl-C may queue the call twice.
        is_noted: True once the interceptors are being notified.
    """

    offsets: dict[TopicPartition, OffsetAndMetadata]
    future: RequestFuture[None]
    scope: object
    callback: CommitCallback | None
    sent: RequestFuture[None] | None = None
    is_reported: bool = False
    is_noted: bool = False

    def leave(self, sent: RequestFuture[None]) -> None:
        """Record that its request was sent."""
        self.sent = sent

    def note(self) -> None:
        """Record that the interceptors are being notified."""
        self.is_noted = True

    def report(self) -> None:
        """Record that the callback is being called."""
        self.is_reported = True


class OffsetCommitter:
    """Commits offsets of one group.

    Args:
        coordinator_client: sends requests to the coordinator.
        is_member: returns whether the group assigns the partitions of this consumer. Otherwise commits name no
            generation.
        topic_id: returns the id of a topic, zeros if it is unknown. It raises ``KafkaError`` if offsets of the topic
            must not be committed.
        refresh_metadata: requests newer metadata.
        auto_commit: the schedule of automatic commits.
        backoff: the pauses between attempts.
        on_commit: called after each commit that succeeded.
        on_acknowledged: called with the offsets as soon as the coordinator has stored them, in whatever thread.

    Attributes:
        acknowledged: how many commits have succeeded.
    """

    def __init__(
        self,
        coordinator_client: CoordinatorClient[Any],
        *,
        is_member: Callable[[], bool],
        topic_id: Callable[[str], bytes],
        refresh_metadata: Callable[[], object],
        auto_commit: AutoCommit,
        backoff: Backoff,
        on_commit: Callable[[dict[TopicPartition, OffsetAndMetadata]], object] | None = None,
        on_acknowledged: Callable[[Offsets], object] = lambda offsets: None,
    ) -> None:
        self.auto_commit = auto_commit
        self.acknowledged = 0
        self._coordinator = coordinator_client
        self._core = coordinator_client.core
        self._is_member = is_member
        self._topic_id = topic_id
        self._refresh_metadata = refresh_metadata
        self._backoff = backoff
        self._on_commit = on_commit
        self._on_acknowledged = on_acknowledged
        self._async: dict[_AsyncCommit, None] = {}
        self._queue: deque[_AsyncCommit] = deque()
        self._callbacks: deque[Callable[[], object]] = deque()
        coordinator_client.call_after_search(self._on_search_end)

    # -- committing --------------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets, deadline: float) -> Steps[None]:
        """Commit and wait for the response. The commit is repeated as long as that is safe.

        Raises:
            CommitFailedError: the member does not belong to the current generation of the group.
            RebalanceInProgressError: a rebalance is in progress. Poll, then commit again.
            KafkaTimeoutError: the commit was not done by the deadline. The cause is the last error.
            ValueError: an offset is negative.
        """
        wanted = _checked(offsets)
        yield from self.run_callbacks()
        if not wanted:
            yield from self.flush(deadline)
            return
        first: tuple[Generation, object] | None = None
        failures = 0
        cause: KafkaError | None = None
        while True:
            known = yield from self._coordinator.ensure(deadline)
            if not known:
                raise self._timeout(self._coordinator.missing, cause or self._coordinator.last_failure)
            self.send_queued()  # what was asked for before must not overtake this one
            generation, scope = self._generation()
            if first is not None and scope != first[1]:
                raise self._commit_failed(first[0])
            first = generation, scope
            future = self._send(wanted, generation)
            while not future.done:
                if self._coordinator.clock.now() >= deadline:
                    raise self._timeout("the response to OffsetCommit", cause)
                yield Wait(future, deadline)
            yield from self.run_callbacks()
            cause = future.exception
            if cause is None:
                self._committed(wanted)
                return
            if not cause.retriable:
                raise cause
            yield from self._pause(failures, deadline, cause)
            failures += 1

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None) -> RequestFuture[None]:
        """Commit without waiting. Afterwards the callback gets the offsets, and the error or None.

        A retriable error is passed to the callback as ``RetriableCommitFailedError``.
        """
        wanted = _checked(offsets)
        self._run_plain_callbacks()
        future: RequestFuture[None] = RequestFuture()
        commit = _AsyncCommit(wanted, future, self._scope(), callback)
        self._async[commit] = None
        future.add_callback(lambda done: self._async_done(commit))
        if not wanted:
            future.complete(None)
        elif self._coordinator.find():
            self.send_queued()
            self._send_async(commit)
        else:
            self._queue.append(commit)
        return future

    def _send_async(self, commit: _AsyncCommit) -> None:
        if commit.scope == self._scope():
            sent = self._send(commit.offsets, None)
        else:  # it waited for the coordinator, and its partitions may have another owner now
            sent = RequestFuture.failure(self._commit_failed(self._core.generation))
        sent.chain(commit.future)
        commit.leave(sent)

    @property
    def pending_async(self) -> int:
        """Return how many asynchronous commits have not ended."""
        return len(self._async)

    def recover(self) -> None:
        """Repair the state after Ctrl-C. Commits that were never sent, or whose end was missed, count as failed."""
        for commit in tuple(self._async):
            under_way = commit.sent is not None and not commit.sent.done
            if not commit.future.done and not under_way and commit not in self._queue:
                commit.future.fail(RequestCancelledError("interrupted"))
            if commit.future.done and commit in self._async:
                self._async_done(commit)

    def commit_once(self, offsets: Offsets) -> RequestFuture[None]:
        """Commit once for the current generation. The caller handles a failure."""
        wanted = _checked(offsets)
        self.send_queued()
        future = self._send(wanted, None)
        future.add_callback(lambda done: self._committed(wanted) if done.succeeded else None)
        return future

    def commit_automatically(self, offsets: Offsets, now: float) -> None:
        """Start an automatic commit, and begin the next interval."""
        self.auto_commit.restart(now)
        if not offsets:
            return
        self._core.log.debug("committing automatically: %s", offsets)

        def done(committed: object, error: KafkaError | None) -> None:
            if isinstance(error, RetriableCommitFailedError):
                self.auto_commit.retry(self._coordinator.clock.now(), self._backoff.delay(0))
                self._coordinator.changed()
                self._core.log.debug("automatic commit failed for now: %s", error.__cause__)
            elif error is not None:
                self._core.log.warning("automatic commit failed: %s", error)

        self.commit_async(offsets, done)

    def flush(self, deadline: float) -> Steps[None]:
        """Wait until all asynchronous commits that have begun are finished, and run their callbacks."""
        while self.pending_async and self._coordinator.clock.now() < deadline:
            if self._queue:
                known = yield from self._coordinator.ensure(deadline)
                if not known:
                    break
                self.send_queued()
                continue
            yield Wait(None, deadline)
        yield from self.run_callbacks()

    @property
    def has_callbacks(self) -> bool:
        """Return whether the user's thread has something to do: callbacks to run, or commits to send after a wait."""
        return bool(self._callbacks) or (bool(self._queue) and self._core.coordinator is not None)

    def run_callbacks(self) -> Steps[None]:
        """Run the waiting callbacks in order. If a callback raises, the others run at the next call."""
        while self._callbacks:
            yield from wait_for_callback(self._run_first_callback())

    def _run_first_callback(self) -> object:
        """Run a callback and remove it afterwards, so that Ctrl-C before the call does not lose it."""
        callback = self._callbacks[0]
        try:
            result = callback()
        except Exception:
            self._remove_callback(callback)
            raise
        self._remove_callback(callback)
        return result

    def _remove_callback(self, callback: Callable[[], object]) -> None:
        if self._callbacks and self._callbacks[0] is callback:  # it may have run the others itself
            self._callbacks.popleft()

    def _run_plain_callbacks(self) -> None:
        """Run the waiting callbacks up to one that has to be awaited. The next call that may wait awaits it."""
        while self._callbacks:
            result = self._run_first_callback()
            if isinstance(result, Awaitable):
                self._callbacks.appendleft(lambda found=result: found)  # type: ignore[misc]
                return

    def _async_done(self, commit: _AsyncCommit) -> None:
        """Queue the report of a commit that has ended."""
        self._callbacks.append(lambda: self._report(commit))
        self._async.pop(commit, None)
        self._coordinator.changed()

    def _report(self, commit: _AsyncCommit) -> object:
        if commit.is_reported:
            return None
        error = commit.future.exception
        if error is None:
            if not commit.is_noted:
                commit.note()  # before the call: an interceptor may commit, which runs the callbacks that wait
                self._committed(commit.offsets)
        elif error.retriable:
            wrapped = RetriableCommitFailedError(f"offsets were not committed, commit again: {error}")
            wrapped.__cause__ = error
            error = wrapped
        callback, offsets = commit.callback, commit.offsets
        commit.report()  # just before the call: Ctrl-C in the callback ends it
        if callback is not None:
            return callback(offsets, error)
        if error is not None:
            self._core.log.error("an asynchronous commit failed: %s", error)
        return None

    def _committed(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        if self._on_commit is not None:
            self._on_commit(offsets)

    def send_queued(self) -> None:
        """Send the commits that waited for the coordinator, if it is known now.

        The heartbeat thread may have found the coordinator while the user's thread pauses before its FindCoordinator or
        waits for its response. That FindCoordinator may then never be sent or never end.
        """
        if self._queue and self._core.coordinator is not None:
            self._on_search_end(None)

    def _on_search_end(self, error: KafkaError | None) -> None:
        """Send the commits that waited for the coordinator, or fail them."""
        for commit in list(self._queue):
            self._queue.remove(commit)
            if error is None:
                self._send_async(commit)
            else:
                commit.future.fail(error)

    def _scope(self) -> object:
        """Return the scope in which a commit called now must be sent, or None if our partitions are not the group's."""
        if not self._is_member():
            return None
        with self._coordinator.lock:
            return self._core.commit_scope

    def _generation(self) -> tuple[Generation, object]:
        """Return the generation to commit for, and the scope in which the commit must be sent.

        Raises:
            CommitFailedError, RebalanceInProgressError: there is none.
        """
        if not self._is_member():
            return NO_GENERATION, None
        with self._coordinator.lock:
            if self._core.may_commit:
                return self._core.generation, self._core.commit_scope
            rebalancing, current = self._core.rebalancing, self._core.generation
        if rebalancing:
            raise RebalanceInProgressError(
                "the group is rebalancing: call poll() to take part in it, then commit again"
            )
        raise self._commit_failed(current)

    def _send(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], generation: Generation | None
    ) -> RequestFuture[None]:
        result: RequestFuture[None] = RequestFuture()
        if generation is None:
            try:
                generation, _ = self._generation()
            except KafkaError as error:
                return RequestFuture.failure(error)
        sent = generation
        commit_scope = self._core.commit_scope
        node = self._core.coordinator
        if node is None:
            return RequestFuture.failure(for_code(Errors.COORDINATOR_NOT_AVAILABLE, "the coordinator was lost"))
        group = self._core.settings
        term = self._core.discovery.term
        try:
            ids = topic_ids({tp.topic for tp in offsets}, self._topic_id)
        except KafkaError as error:
            return RequestFuture.failure(error)

        def encode(version: int) -> OffsetCommitRequest:
            nonlocal sent
            with self._coordinator.lock:  # the heartbeat thread may have received another epoch
                if sent.joined and self._core.epoch_is_volatile and self._core.commit_scope == commit_scope:
                    sent = self._core.generation if self._core.may_commit else sent
            return offset_commit_request(
                version,
                group_id=group.group_id,
                generation_id=sent.generation_id,
                member_id=sent.member_id,
                group_instance_id=group.group_instance_id if sent.joined else None,
                offsets=offsets,
                ids=ids,
            )

        active = hooks.active
        observed = None if active is None else active.committing(Client(group.client_id, group.group_id), list(offsets))
        future = self._coordinator.send(
            node,
            OffsetCommitRequest,
            encode,
            max_version=newest_version(ids),
        )

        def completed(done: RequestFuture[ClientResponse]) -> None:
            metrics, failure = self._core.metrics, None
            try:
                if done.exception is not None:
                    self._coordinator.failed(node.node_id, done.exception, term)
                    raise done.exception
                metrics.commit_answered(done.value.latency, done.value.received_at)
                self._judge(read_offset_commit(done.value.api_version, done.value.message, ids), sent, node.node_id)
            except KafkaError as error:
                failure = error
                metrics.commit_failed()
                result.fail(error)
            else:
                metrics.committed(done.value.received_at)
                with self._coordinator.lock:
                    self._core.discovery.responded()
                self.acknowledged += 1
                self._on_acknowledged(offsets)
                result.complete(None)
            finally:
                if observed is not None:
                    observed(failure)

        future.follow_with(result, completed)
        return result

    def _judge(self, codes: Mapping[TopicPartition, int], sent: Generation, node_id: int) -> None:
        """Raise the error of an OffsetCommit response, if there is one."""
        forbidden = set()
        for tp, code in codes.items():
            if code == 0:
                continue
            error_action = action_for(OFFSET_COMMIT, code)
            if error_action is ErrorAction.COLLECT:
                forbidden.add(tp.topic)
                continue
            error: KafkaError = for_code(code, f"committing {tp} for group {self._core.settings.group_id}")
            if error_action is ErrorAction.REFRESH_METADATA:
                self._refresh_metadata()
            elif error_action is ErrorAction.REDISCOVER:
                with self._coordinator.lock:
                    self._core.on_coordinator_lost(node_id, for_code(code).code_name, self._coordinator.clock.now())
                self._coordinator.changed()
            elif error_action is ErrorAction.NEW_EPOCH:
                error = _StaleEpochError(f"committing {tp} for group {self._core.settings.group_id} as {sent}")
                with self._coordinator.lock:
                    self._core.on_commit_refused(error_action, sent, error)
                self._coordinator.changed()
            elif error_action not in (ErrorAction.RAISE, ErrorAction.BACK_OFF):
                error = self._lost_membership(error_action, sent, error)
            raise error
        if forbidden:
            raise TopicAuthorizationFailedError(", ".join(sorted(forbidden)), topics=forbidden)

    def _lost_membership(self, error_action: ErrorAction, sent: Generation, error: KafkaError) -> KafkaError:
        with self._coordinator.lock:
            current = sent == self._core.generation
            rebalancing = self._core.rebalancing
            if error_action is ErrorAction.REJOIN or (rebalancing and not current):
                result: KafkaError = RebalanceInProgressError(
                    "the group is rebalancing: call poll() to take part in it, then commit again"
                )
            else:
                result = error
            if sent.joined:
                self._core.on_commit_refused(error_action, sent, error)
            if result is error and not (error_action is ErrorAction.FENCED and current):
                result = self._commit_failed(sent, error)
        self._coordinator.changed()
        return result

    def _commit_failed(self, sent: Generation, cause: KafkaError | None = None) -> CommitFailedError:
        """Return the error for a commit that came too late, with the facts and the setting to change."""
        core = self._core
        group, limit = core.settings.group_id, core.settings.rebalance_timeout
        away = self._coordinator.clock.now() - core.heartbeat_timers.last_poll
        if not self._is_member():
            text = (
                f"offsets were not committed: group {group} has members that subscribe to topics;"
                " a consumer with partitions assigned by hand needs a group_id of its own"
            )
        else:
            late = away >= limit
            too_rarely = "Call poll() more often: raise max_poll_interval_ms, or lower max_poll_records."
            polled = f" The last poll() was {away:.1f} s ago; max_poll_interval_ms allows {limit:g} s."
            if sent.joined:
                now = f"it is {core.generation}" if core.generation.joined else "this consumer is no member any more"
                what = f"the commit was for {sent} of group {group}, and now {now}"
            else:
                what = f"this consumer is not a member of group {group} now"
            if sent.joined or late:
                what += ": the group has continued without this member, and its partitions may have another owner."
                advice = (
                    polled
                    + " "
                    + (
                        too_rarely
                        if late or core.epoch_is_volatile
                        else "If heartbeats came too late, raise session_timeout_ms; if poll() is called too rarely,"
                        " raise max_poll_interval_ms or lower max_poll_records."
                    )
                )
            else:
                advice = ". It joins in poll(): call that, then commit."
            text = f"offsets were not committed: {what}{advice}"
        failed = CommitFailedError(text)
        failed.__cause__ = cause
        return failed

    def _pause(self, failures: int, deadline: float, cause: KafkaError) -> Steps[None]:
        yield from _pause(self._coordinator, self._backoff.delay(failures), deadline, cause)

    def _timeout(self, what: str, cause: KafkaError | None) -> KafkaTimeoutError:
        return _timed_out(f"offsets of group {self._core.settings.group_id} were not committed in time", what, cause)


class _StaleEpochError(StaleMemberEpochError, RetriableError):
    """The member epoch was behind. The request may be repeated with the new one."""


def _pause(
    coordinator_client: CoordinatorClient[Any], seconds: float, deadline: float, cause: KafkaError
) -> Steps[None]:
    """Wait before the next attempt, or raise if that would be after the deadline.

    Raises:
        KafkaTimeoutError: from ``cause``.
    """
    until = coordinator_client.clock.now() + seconds
    if until >= deadline:
        raise _timed_out(
            f"group {coordinator_client.core.settings.group_id}: no time is left for another attempt", "", cause
        )
    yield from wait_until(coordinator_client.clock, until)


def _timed_out(what: str, waiting_for: str, cause: KafkaError | None) -> KafkaTimeoutError:
    """Return an error that names the unfinished call, its last wait, and the error before it."""
    text = what
    if waiting_for:
        text += f"; waiting for {waiting_for}"
    if cause is not None:
        text += f"; the last attempt failed with {type(cause).__name__}: {cause}"
    error = KafkaTimeoutError(text)
    error.__cause__ = cause
    return error


def _checked(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    checked: dict[TopicPartition, OffsetAndMetadata] = {}
    for tp, offset in offsets.items():
        if offset.offset < 0:
            raise ValueError(f"the offset to commit for {tp} is {offset.offset}: it must not be negative")
        checked[TopicPartition(*tp)] = offset
    return checked


class CommittedOffsets:
    """Fetches the committed offsets of a group.

    Args:
        coordinator_client: sends requests to the coordinator.
        topic_id: returns the id of a topic, zeros if it is unknown.
        refresh_metadata: requests newer metadata.
        backoff: the pauses between attempts.
        commits: returns how many commits were acknowledged.
    """

    def __init__(
        self,
        coordinator_client: CoordinatorClient[Any],
        *,
        topic_id: Callable[[str], bytes],
        refresh_metadata: Callable[[], object],
        backoff: Backoff,
        commits: Callable[[], int],
    ) -> None:
        self._coordinator = coordinator_client
        self._topic_id = topic_id
        self._refresh_metadata = refresh_metadata
        self._backoff = backoff
        self._commits = commits
        self._under_way: RequestFuture[_Committed] | None = None
        self._question: tuple[frozenset[TopicPartition], Generation, int] | None = None  # what that asks, and when

    def fetch(self, partitions: Collection[TopicPartition], deadline: float) -> Steps[_Committed]:
        """Return the committed offset of each partition, or None where nothing is committed.

        Raises:
            KafkaTimeoutError: the offsets were not fetched by the deadline. The cause is the last error.
            TopicAuthorizationFailedError, GroupAuthorizationFailedError: access to a topic or to the group is denied.
        """
        wanted = frozenset(TopicPartition(*tp) for tp in partitions)
        group_id = self._coordinator.core.settings.group_id
        failures = 0
        cause: KafkaError | None = None
        while wanted:
            known = yield from self._coordinator.ensure(deadline)
            if not known:
                what = f"no offsets of group {group_id} were read in time"
                raise _timed_out(what, self._coordinator.missing, cause or self._coordinator.last_failure)
            future = self._request(wanted)
            while not future.done:
                if self._coordinator.clock.now() >= deadline:
                    what = f"no offsets of group {group_id} were read in time"
                    raise _timed_out(what, "the response to OffsetFetch", cause)
                yield Wait(future, deadline)
            cause = future.exception
            if cause is None:
                return dict(future.value)
            if not cause.retriable:
                raise cause
            yield from _pause(self._coordinator, self._backoff.delay(failures), deadline, cause)
            failures += 1
        return {}

    def recover(self) -> None:
        """Share no request that Ctrl-C may have kept from being sent."""
        self._under_way = None

    def _request(self, wanted: frozenset[TopicPartition]) -> RequestFuture[_Committed]:
        question = wanted, self._coordinator.core.generation, self._commits()
        if self._under_way is None or self._under_way.done or self._question != question:
            self._question = question
            self._under_way = self._send(wanted)
        return self._under_way

    def _send(self, wanted: frozenset[TopicPartition]) -> RequestFuture[_Committed]:
        node = self._coordinator.core.coordinator
        if node is None:
            return RequestFuture.failure(for_code(Errors.COORDINATOR_NOT_AVAILABLE, "the coordinator was lost"))
        term = self._coordinator.core.discovery.term
        group_id = self._coordinator.core.settings.group_id
        ids = topic_ids({tp.topic for tp in wanted}, self._topic_id)
        result: RequestFuture[_Committed] = RequestFuture()

        def completed(done: RequestFuture[ClientResponse]) -> None:
            try:
                if done.exception is not None:
                    self._coordinator.failed(node.node_id, done.exception, term)
                    raise done.exception
                found = read_offset_fetch(done.value.api_version, done.value.message, group_id=group_id, ids=ids)
                self._judge(found, node.node_id)
            except KafkaError as error:
                result.fail(error)
            else:
                with self._coordinator.lock:
                    self._coordinator.core.discovery.responded()
                result.complete({tp: found.offsets.get(tp) for tp in wanted})

        def encode(version: int) -> OffsetFetchRequest:
            core = self._coordinator.core
            with self._coordinator.lock:
                member = core.generation if core.epoch_is_volatile and core.may_commit else NO_GENERATION
            return offset_fetch_request(
                version,
                group_id=group_id,
                partitions=wanted,
                ids=ids,
                member_id=member.member_id or None,
                member_epoch=member.generation_id,
            )

        self._coordinator.send(
            node,
            OffsetFetchRequest,
            encode,
            max_version=newest_version(ids),
        ).follow_with(result, completed)
        return result

    def _judge(self, found: FetchedOffsets, node_id: int) -> None:
        """Raise the error of an OffsetFetch response, if there is one."""
        group_id = self._coordinator.core.settings.group_id
        if found.error_code:
            self._raise(found.error_code, f"reading offsets of group {group_id}", node_id)
        forbidden = {
            tp.topic for tp, code in found.errors.items() if action_for(OFFSET_FETCH, code) is ErrorAction.COLLECT
        }
        for tp, code in found.errors.items():
            if tp.topic not in forbidden:
                self._raise(code, f"reading the offset of {tp} for group {group_id}", node_id)
        if forbidden:
            raise TopicAuthorizationFailedError(", ".join(sorted(forbidden)), topics=forbidden)

    def _raise(self, code: int, what: str, node_id: int) -> None:
        error_action = action_for(OFFSET_FETCH, code)
        error = for_code(code, what)
        if error_action is ErrorAction.REDISCOVER:
            with self._coordinator.lock:
                self._coordinator.core.on_coordinator_lost(node_id, error.code_name, self._coordinator.clock.now())
            self._coordinator.changed()
        elif error_action is ErrorAction.REFRESH_METADATA:
            self._refresh_metadata()
        elif error_action is ErrorAction.NEW_EPOCH:
            raise _StaleEpochError(what) from error
        elif error_action is ErrorAction.RAISE and error.retriable:
            raise KafkaError(str(error))
        raise error
