"""Fault injection for tests: errors, delays and disconnects for requests by API, node and topic.

The rule for a request is chosen once, after its header and body were read. The kinds of faults:

* ``error``: the request is not carried out, and the response has an error code in every field for one.
* ``delay``: the request is carried out, and the response is sent later.
* ``drop_request``: the request is not carried out, and no response is sent.
* ``drop_response``: the request is carried out, and no response is sent. It tests timeouts and idempotence of clients.
* ``disconnect``: the request is not carried out, and the connection is closed.
* ``cut``: the request is carried out, half of the response is sent, then the connection is reset.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.api_keys import API, ApiKey
from pyconsumer.protocol.schema import Message

__all__ = ["KINDS", "FaultRule", "Faults", "api_key_of", "topics_of"]

KINDS: Final = ("error", "delay", "drop_request", "drop_response", "disconnect", "cut")


def api_key_of(api: str | int) -> int:
    """Return the number of an API. ``api`` is Kafka's name (``Fetch``), an ``ApiKey`` name (``FETCH``) or a number."""
    if isinstance(api, int):
        return int(ApiKey(api))
    plain = api.replace("_", "").lower()
    for key, info in API.items():
        if info.name.lower() == plain:
            return int(key)
    raise ConfigurationError(f"there is no API {api!r}")


@dataclass(slots=True)
class FaultRule:
    """A fault that is injected into ``count`` requests. None means into all, until the rule is removed.

    ``hits`` counts these requests.

    Args:
        kind: one of :data:`KINDS`.
        api: Kafka's name of the API, or its number.
        node, topic, client_id: restrict the fault to requests to this node, about this topic, and from this client.
        error_code: the error code, for the kind ``error``.
        delay_ms: the delay in ms, for the kind ``delay``.
    """

    kind: str
    api: str | int
    node: int | None = None
    topic: str | None = None
    client_id: str | None = None
    count: int | None = 1
    error_code: int = -1
    delay_ms: int = 0
    api_key: int = field(init=False)
    hits: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigurationError(f"there is no fault {self.kind!r}, only {', '.join(KINDS)}")
        self.api_key = api_key_of(self.api)

    @property
    def active(self) -> bool:
        return self.count is None or self.hits < self.count

    def count_hit(self) -> None:
        """Count a request into which the fault was injected."""
        self.hits += 1

    def matches(self, api_key: int, node: int, client_id: str, topics: set[str]) -> bool:
        return (
            self.active
            and self.api_key == api_key
            and self.node in (None, node)
            and self.client_id in (None, client_id)
            and (self.topic is None or self.topic in topics)
        )


class Faults:
    """The fault rules of a cluster, in the order in which they were added.

    For each request, the first matching rule is used.
    """

    def __init__(self) -> None:
        self._rules: dict[int, FaultRule] = {}
        self._ids = itertools.count(1)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def __iter__(self) -> Iterator[FaultRule]:
        return iter(list(self._rules.values()))

    def add(self, rule: FaultRule) -> int:
        """Add a rule and return its id."""
        rule_id = next(self._ids)
        self._rules[rule_id] = rule
        return rule_id

    def remove(self, rule_id: int) -> None:
        """Remove a rule. An unknown id is ignored."""
        self._rules.pop(rule_id, None)

    def clear(self) -> None:
        """Remove all rules."""
        self._rules.clear()

    def hits(self, rule_id: int) -> int:
        """Return the number of requests into which a rule has injected its fault."""
        return self._rules[rule_id].hits

    def take(self, api_key: int, node: int, client_id: str, topics: set[str]) -> FaultRule | None:
        """Return the rule that matches a request, and count the request. Return None if no rule matches."""
        for rule in self._rules.values():
            if rule.matches(api_key, node, client_id, topics):
                rule.count_hit()
                return rule
        return None


def topics_of(request: Message, names: dict[bytes, str]) -> set[str]:
    """Return the topics of a request. The request contains them by name, or by id. ``names`` has the names by id."""
    found: set[str] = set()
    _collect(request, names, found)
    return found


def _collect(value: Any, names: dict[bytes, str], found: set[str]) -> None:
    if isinstance(value, list):
        for item in value:
            _collect(item, names, found)
        return
    fields = getattr(value, "FIELDS", None)
    if not fields:
        return
    kind = type(value).__name__
    for spec in fields:
        item = getattr(value, spec.name)
        if spec.name == "topic_names" and isinstance(item, list):
            found.update(item)
        elif isinstance(item, str) and (spec.name == "topic" or (spec.name == "name" and "Topic" in kind)):
            found.add(item)
        elif spec.name == "topic_id" and isinstance(item, bytes) and item in names:
            found.add(names[item])
        elif isinstance(item, list) or hasattr(item, "FIELDS"):
            _collect(item, names, found)
