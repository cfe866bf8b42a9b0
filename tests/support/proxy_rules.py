"""Rules that the proxy applies to frames, and events that it saw. Free of I/O. :mod:`tests.support.proxy` obeys."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pyconsumer.errors import Errors
from pyconsumer.protocol.api import API, ApiKey, decode_request_header, decode_response
from pyconsumer.protocol.messages import load
from pyconsumer.protocol.schema import Struct

__all__ = ["Direction", "Event", "Rule", "RuleBook", "replace_errors", "wire_version"]

Direction = Literal["request", "response"]
_ANY_API: frozenset[int] = frozenset()


def wire_version(api_key: int, version: int, frame: bytes) -> int:
    """Return the version that a response is written in: 0 where a broker refuses a newer ApiVersions (KIP-511)."""
    refused = api_key == ApiKey.API_VERSIONS and int.from_bytes(frame[4:6], "big") == Errors.UNSUPPORTED_VERSION
    return 0 if refused else version


@dataclass
class Event:
    """One frame that came through. Times are monotonic seconds, taken when the whole frame had arrived."""

    time: float
    direction: Direction
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection: int  #: a number of the connection, counted from 1
    size: int
    frame: bytes | None = field(default=None, repr=False)
    rule: Rule | None = None  #: what was done to it, if anything

    @property
    def message(self) -> Any:
        """The request or response, decoded as it arrived, before any rule changed it."""
        assert self.frame is not None, "the proxy keeps no frames (keep_frames=False)"
        if self.direction == "response":
            version = wire_version(self.api_key, self.api_version, self.frame)
            return decode_response(self.api_key, version, self.frame)[1]
        header = decode_request_header(self.frame)
        return load(self.api_key)[0].decode(memoryview(self.frame)[header.body_offset :], self.api_version)

    def __str__(self) -> str:
        name = API[ApiKey(self.api_key)].name if self.api_key in API else f"api {self.api_key}"
        return f"{self.direction} {name} v{self.api_version} #{self.correlation_id} on {self.connection}"


class Rule:
    """Something done to matching frames. Made by :class:`RuleBook`'s methods, which document the arguments."""

    def __init__(
        self,
        book: RuleBook,
        action: str,
        *,
        api: int | Collection[int] | None,
        direction: Direction,
        skip: int,
        count: int | None,
        where: Callable[[Event], bool] | None,
        delay_s: float = 0.0,
        edit: Callable[[Any, int], Any] | None = None,
        keep_bytes: int | None = None,
        reset: bool = False,
    ) -> None:
        self.action = action
        self.delay_s = delay_s
        self.edit = edit
        self.keep_bytes = keep_bytes
        self.reset = reset
        self.hits = 0
        self._book = book
        self._apis = _ANY_API if api is None else frozenset({api} if isinstance(api, int) else api)
        self._direction = direction
        self._skip = skip
        self._count = count
        self._where = where
        self._released = threading.Event()
        self.on_release: list[Callable[[], None]] = []

    def matches(self, event: Event) -> bool:
        """Return whether it applies to this frame, and count it if so. Called once per frame, under the book's lock."""
        if event.direction != self._direction or (self._apis and event.api_key not in self._apis):
            return False
        if self._where is not None and not self._where(event):
            return False
        if self._skip > 0:
            self._skip -= 1
            return False
        if self._count is not None and self.hits >= self._count:
            return False
        self.hits += 1
        return True

    def wait(self, hits: int = 1, timeout_s: float = 60.0) -> None:
        """Wait until the rule has been applied ``hits`` times. ``AssertionError`` when late."""
        self._book.wait(lambda: self.hits >= hits, timeout_s, f"{self.action} applied {hits} times ({self.hits} now)")

    @property
    def released(self) -> bool:
        return self._released.is_set()

    def release(self) -> None:
        """Release the frames that a ``hold`` keeps, in order, and end the hold."""
        self.remove()
        self._released.set()
        for call in self.on_release:
            call()

    def remove(self) -> None:
        """Apply it no more. Frames that a ``hold`` keeps stay held until :meth:`release`."""
        self._book.remove(self)


class RuleBook:
    """Rules in the order of their making (the first that matches a frame applies, alone) and the events seen.

    Common arguments of the methods that make a rule:
        api: an :class:`ApiKey` or several, or None for any.
        direction: which way the frames go.
        skip: the number of matching frames to leave alone first.
        count: the number of times to apply it, or None for always.
        where: a predicate of the :class:`Event`, such as ``lambda e: e.client_id == "c1"``.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._rules: list[Rule] = []
        self._events: list[Event] = []

    def _add(self, rule: Rule) -> Rule:
        with self._lock:
            self._rules.append(rule)
        return rule

    def delay(
        self,
        api: int | Collection[int] | None,
        ms: float,
        *,
        direction: Direction = "response",
        skip: int = 0,
        count: int | None = None,
        where: Callable[[Event], bool] | None = None,
    ) -> Rule:
        """Pass frames on ``ms`` milliseconds later. Frames behind them on the same connection wait, too."""
        return self._add(
            Rule(self, "delay", api=api, direction=direction, skip=skip, count=count, where=where, delay_s=ms / 1000)
        )

    def drop(
        self,
        api: int | Collection[int] | None,
        *,
        direction: Direction = "response",
        skip: int = 0,
        count: int | None = None,
        where: Callable[[Event], bool] | None = None,
    ) -> Rule:
        """Swallow frames. A dropped request is never answered. A dropped response was acted upon."""
        return self._add(Rule(self, "drop", api=api, direction=direction, skip=skip, count=count, where=where))

    def cut(
        self,
        api: int | Collection[int] | None,
        *,
        direction: Direction = "response",
        keep_bytes: int | None = None,
        reset: bool = False,
        skip: int = 0,
        count: int | None = 1,
        where: Callable[[Event], bool] | None = None,
    ) -> Rule:
        """Pass on the first ``keep_bytes`` of a frame (size included; by default half of it), then close.

        Both sides of the connection are closed. With ``reset`` by a TCP reset.
        """
        return self._add(
            Rule(
                self,
                "cut",
                api=api,
                direction=direction,
                skip=skip,
                count=count,
                where=where,
                keep_bytes=keep_bytes,
                reset=reset,
            )
        )

    def hold(
        self,
        api: int | Collection[int] | None,
        *,
        direction: Direction = "response",
        skip: int = 0,
        count: int | None = None,
        where: Callable[[Event], bool] | None = None,
    ) -> Rule:
        """Keep frames back until :meth:`Rule.release`. Frames behind them on the same connection wait, too."""
        return self._add(Rule(self, "hold", api=api, direction=direction, skip=skip, count=count, where=where))

    def edit(
        self,
        api: int | Collection[int],
        change: Callable[[Any], Any],
        *,
        direction: Direction = "response",
        skip: int = 0,
        count: int | None = None,
        where: Callable[[Event], bool] | None = None,
    ) -> Rule:
        """Change messages: ``change`` gets the decoded one and alters it, or returns another in its place."""
        return self._add(
            Rule(
                self,
                "edit",
                api=api,
                direction=direction,
                skip=skip,
                count=count,
                where=where,
                edit=lambda message, version: change(message),
            )
        )

    def fail(
        self,
        api: int | Collection[int],
        error_code: int,
        *,
        at: str | None = None,
        skip: int = 0,
        count: int | None = 1,
        where: Callable[[Event], bool] | None = None,
    ) -> Rule:
        """Replace the error code of responses. See :func:`replace_errors` for ``at``.

        The broker has carried out the request.
        """
        return self._add(
            Rule(
                self,
                "fail",
                api=api,
                direction="response",
                skip=skip,
                count=count,
                where=where,
                edit=lambda message, version: replace_errors(message, version, error_code, at),
            )
        )

    def limit_versions(self, newest: Mapping[ApiKey, int]) -> Rule:
        """Make the broker look older: it supports no newer version of these APIs. For connections made from now on."""

        def change(message: Any) -> None:
            for key in message.api_keys:
                key.max_version = min(key.max_version, newest.get(key.api_key, key.max_version))

        return self.edit(ApiKey.API_VERSIONS, change)

    def remove(self, rule: Rule) -> None:
        with self._lock:
            if rule in self._rules:
                self._rules.remove(rule)

    def clear(self) -> None:
        """Remove all rules and release held frames. Events stay."""
        with self._lock:
            rules = list(self._rules)
        for rule in rules:
            rule.release()

    def note(self, event: Event) -> Rule | None:
        """Record a frame and return the rule to apply."""
        with self._lock:
            event.rule = next((rule for rule in self._rules if rule.matches(event)), None)
            self._events.append(event)
            self._lock.notify_all()
            return event.rule

    def events(self, api: int | None = None, direction: Direction | None = None) -> list[Event]:
        """Return all events, in order of arrival."""
        with self._lock:
            return [
                event
                for event in self._events
                if (api is None or event.api_key == api) and (direction is None or event.direction == direction)
            ]

    def forget_events(self) -> None:
        """Empty the list of events."""
        with self._lock:
            self._events.clear()

    def wait_for(
        self, api: int | None, direction: Direction = "response", count: int = 1, timeout_s: float = 60.0
    ) -> list[Event]:
        """Wait until ``count`` such frames have come through and return all of them. ``AssertionError`` when late."""
        self.wait(lambda: len(self.events(api, direction)) >= count, timeout_s, f"{count} x {direction} of api {api}")
        return self.events(api, direction)

    def wait(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait for a condition on events and hits. ``AssertionError`` when late."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            done = self._lock.wait_for(condition, deadline - time.monotonic())
        assert done, f"not within {timeout_s:g} s: {what}; seen: {', '.join(map(str, self.events()[-20:]))}"


def replace_errors(message: Any, version: int, error_code: int, at: str | None = None) -> None:
    """Set the error codes in a response.

    Args:
        at: where, as a dotted path of field names: ``""`` is the response itself, ``"responses.partitions"`` every
            partition of a Fetch. None: the response itself where its version has an error code there, otherwise the
            innermost parts that have one.

    Record sets beside an error code become empty, as a broker sends them.
    """
    if at is None:
        targets = [message] if _has_error_code(message, version) else _innermost(message, version)
    else:
        targets = [message]
        for name in filter(None, at.split(".")):
            inner = [getattr(target, name) for target in targets]
            targets = [x for item in inner for x in (item if isinstance(item, list) else [item]) if x is not None]
    for target in targets:
        assert _has_error_code(target, version), f"no error code at {at!r} in version {version} of {message}"
        target.error_code = error_code
        if hasattr(target, "records"):
            target.records = b""


def _has_error_code(part: Struct, version: int) -> bool:
    return any(spec.name == "error_code" and version in spec.versions for spec in part.FIELDS)


def _innermost(part: Struct, version: int) -> list[Any]:
    found: list[Any] = []
    for spec in part.FIELDS:
        if version in spec.versions:
            value = getattr(part, spec.name)
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, Struct):
                    found += _innermost(inner, version)
    return found or ([part] if _has_error_code(part, version) else [])
