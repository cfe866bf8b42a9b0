"""The quotas of clients: a part of the controller's state (KIP-13, KIP-546). Errors are those of Kafka's controller.

A quota belongs to an entity: a user, a client id, both, or an address. A name of None stands for all users, client ids
or addresses that have no quota of their own. Each broker enforces the quotas by itself, see :mod:`.rates`.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyconsumer.broker.access.authorizer import java_address
from pyconsumer.errors import (
    BrokerResponseError,
    InvalidRequestError,
    PolicyViolationError,
    UnsupportedVersionError,
)
from pyconsumer.quotas import (
    CLIENT_ID,
    CONNECTION_RATE,
    CONSUMER_RATE,
    IP,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    USER,
)

__all__ = [
    "Component",
    "Entity",
    "Level",
    "QuotaAlteration",
    "QuotaStore",
]

#: The largest value of each key that must be a whole number.
_WHOLE: Final = {PRODUCER_RATE: 2.0**63, CONSUMER_RATE: 2.0**63, CONNECTION_RATE: float(2**31 - 1)}
_CLIENT_KEYS: Final = frozenset({PRODUCER_RATE, CONSUMER_RATE, MUTATION_RATE, REQUEST_PERCENTAGE})
_IP_KEYS: Final = frozenset({CONNECTION_RATE})
_KINDS: Final = {2.0**63: "a LONG", float(2**31 - 1): "an INT"}
_FRACTION: Final = 1e-6

#: The most entities with quotas.
MOST_ENTITIES: Final = 100_000

#: Types with names, sorted by type.
Entity = tuple[tuple[str, str | None], ...]
#: Stores a change, or calls the first argument and raises ``OSError``.
Save = Callable[[Callable[[], None], Mapping[str, Any]], None]


class QuotaAlteration(NamedTuple):
    """A change of an entity's quotas. A key with the value None is removed.

    A key that occurs twice makes the change invalid, so they are pairs.
    """

    entity: Entity
    values: Sequence[tuple[str, float | None]]


class Component(NamedTuple):
    """A part of a filter: entities with this type and name. ``match_type`` is Kafka's number."""

    kind: str
    match_type: int
    name: str | None


class Level(NamedTuple):
    """The quota of a client, and the user and client id whose traffic it counts. None counts all of them."""

    limit: float
    user: str | None
    client_id: str | None


_EXACT, _DEFAULT, _ANY = range(3)


class QuotaStore:
    """The quotas of a cluster.

    Args:
        save: makes a change durable.

    Attributes:
        exist: True if any quota is set.
        version: changes with every change.
    """

    def __init__(self, save: Save) -> None:
        self._save = save
        self._quotas: dict[Entity, dict[str, float]] = {}
        self._by_address: dict[str, float] = {}  # as Java writes addresses: IPv6 has many spellings
        self.exist = False  # every request asks
        self.version = 0

    def __len__(self) -> int:
        return len(self._quotas)

    # --- the files

    def load(self, change: Mapping[str, Any]) -> None:
        """Apply a change from the cluster's files."""
        if "client_quotas" in change:
            self._put(
                (
                    tuple((str(kind), None if name is None else str(name)) for kind, name in entity),
                    {str(key): float(value) for key, value in values.items()},
                )
                for entity, values in change["client_quotas"]
            )

    def snapshot(self) -> dict[str, Any]:
        """Return the state in the form for the files. Empty if there are no quotas."""
        return {"client_quotas": list(self._quotas.items())} if self._quotas else {}

    # --- questions

    def describe(self, components: Sequence[Component], *, strict: bool) -> Iterator[tuple[Entity, dict[str, float]]]:
        """Yield the entities that a filter selects, with their quotas.

        Args:
            strict: an entity must have no other types than those of the filter.

        Raises:
            InvalidRequestError, UnsupportedVersionError: the filter is invalid.
        """
        exact, types = _parse(components)
        if strict and not components:
            return iter(())
        size = len(exact) + len(types)
        return (
            (entity, values)
            for entity, values in self._quotas.items()
            if (not strict or len(entity) == size) and exact <= set(entity) and types <= {kind for kind, _ in entity}
        )

    def level(self, user: str, client_id: str, key: str) -> Level | None:
        """Return the quota of a client for a key, in Kafka's order of precedence. None: there is none."""
        for own_user in (user, None):
            for entity, of_client in (
                (((CLIENT_ID, client_id), (USER, own_user)), True),
                (((CLIENT_ID, None), (USER, own_user)), True),
                (((USER, own_user),), False),
            ):
                limit = self._quotas.get(entity, _NOTHING).get(key)
                if limit is not None:
                    return Level(limit, user, client_id if of_client else None)
        for name in (client_id, None):
            limit = self._quotas.get(((CLIENT_ID, name),), _NOTHING).get(key)
            if limit is not None:
                return Level(limit, None, client_id)
        return None

    def connection_rate(self, address: str) -> float | None:
        """Return how many connections a second an address may make. None: any number."""
        own = self._by_address.get(java_address(address))
        return self._quotas.get(((IP, None),), _NOTHING).get(CONNECTION_RATE) if own is None else own

    # --- changes

    def alter(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
    ) -> dict[Entity, BrokerResponseError | None]:
        """Change the quotas of entities, in a single write. Return the error of each entity, or None.

        Entities with an error are not changed. Of an entity that occurs twice, the first change counts, and the result
        is an error, as in Kafka.

        Raises:
            OSError: the change could not be stored. No quota was changed.
        """
        results: dict[Entity, BrokerResponseError | None] = {}
        changed: dict[Entity, dict[str, float]] = {}
        for entity, values in alterations:
            named = dict(values)
            if entity in results or len(named) < len(values):
                results[entity] = InvalidRequestError(f"Ignoring duplicate entity {_describe(entity)}")
                continue
            try:
                own = _after(entity, self._quotas.get(entity, _NOTHING), named)
                if own and entity not in self._quotas and len(self._quotas) + len(changed) >= MOST_ENTITIES:
                    raise PolicyViolationError(f"at most {MOST_ENTITIES} entities can have quotas")
            except BrokerResponseError as error:
                results[entity] = error
                continue
            results[entity] = None
            if own != self._quotas.get(entity, _NOTHING):
                changed[entity] = own
        if not validate_only:
            self._apply(changed)
        return results

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to an earlier :meth:`snapshot`. Raises ``OSError`` if the change could not be stored."""
        before = QuotaStore(self._save)
        before.load(state)
        changed = {
            entity: before._quotas.get(entity, {})
            for entity in {**self._quotas, **before._quotas}
            if before._quotas.get(entity) != self._quotas.get(entity)
        }
        self._apply(changed)

    def _apply(self, changed: Mapping[Entity, dict[str, float]]) -> None:
        if changed:
            before = {entity: self._quotas.get(entity, {}) for entity in changed}
            self._put(changed.items())
            self._save(lambda: self._put(before.items()), {"client_quotas": list(changed.items())})

    def _put(self, quotas: Iterable[tuple[Entity, dict[str, float]]]) -> None:
        has_addresses = False
        for entity, values in quotas:
            has_addresses = has_addresses or entity[0][0] == IP
            if values:
                self._quotas[entity] = values
            else:
                self._quotas.pop(entity, None)
        if has_addresses:
            self._by_address = {
                java_address(entity[0][1]): values[CONNECTION_RATE]
                for entity, values in self._quotas.items()
                if entity[0][0] == IP and entity[0][1] is not None and CONNECTION_RATE in values
            }
        self.exist = bool(self._quotas)
        self.version += 1


_NOTHING: Final[Mapping[str, float]] = {}


def _parse(components: Sequence[Component]) -> tuple[set[tuple[str, str | None]], set[str]]:
    """Return the names that a filter demands, and the types of which it accepts each name."""
    exact: dict[str, str | None] = {}
    types: set[str] = set()
    for kind, match_type, name in components:
        if not kind:
            raise InvalidRequestError("Invalid empty entity type.")
        if kind in exact or kind in types:
            raise InvalidRequestError(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise UnsupportedVersionError(f"Unsupported entity type {kind}")
        if match_type not in (_EXACT, _DEFAULT, _ANY):
            raise InvalidRequestError(f"Unknown match type {match_type}")
        if (name is None) is (match_type == _EXACT):
            raise InvalidRequestError(
                "Request specified MATCH_TYPE_EXACT, but set match string to null."
                if match_type == _EXACT
                else f"Request specified match type {match_type}, but also specified a match string."
            )
        if match_type == _ANY:
            types.add(kind)
        else:
            exact[kind] = name
    given = exact.keys() | types
    if IP in given and len(given) > 1:
        raise InvalidRequestError(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId"
            " filter component."
        )
    return set(exact.items()), types


def _after(entity: Entity, present: Mapping[str, float], values: Mapping[str, float | None]) -> dict[str, float]:
    """Return an entity's quotas after a change."""
    keys = _keys_of(entity)
    own = dict(present)
    for key, value in values.items():
        if value is None:
            own.pop(key, None)
        else:
            _check_value(keys, key, value)
            own[key] = value
    return own


def _keys_of(entity: Entity) -> frozenset[str]:
    """Return the keys that an entity can have. Raises ``InvalidRequestError`` if it is no entity."""
    kinds = {kind for kind, _ in entity}
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequestError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequestError(f"Empty {kind} not supported")
    if not kinds:
        raise InvalidRequestError("Invalid empty client quota entity")
    if IP not in kinds:
        return _CLIENT_KEYS
    if len(kinds) > 1:
        raise InvalidRequestError(
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        )
    address = entity[0][1]
    try:
        if address is not None:
            ipaddress.ip_address(address)
    except ValueError:
        raise InvalidRequestError(f"{address} is not a valid IP or resolvable host.") from None
    return _IP_KEYS


def _check_value(keys: frozenset[str], key: str, value: float) -> None:
    if key not in keys:
        raise InvalidRequestError(f"Invalid configuration key {key}")
    if not value > 0 or math.isinf(value):
        raise InvalidRequestError(f"Quota {key} must be greater than 0")
    most = _WHOLE.get(key)
    if most is None:
        return
    if value > most:
        raise InvalidRequestError(f"Proposed value for {key} is too large for {_KINDS[most]}.")
    if value < 1 or value % 1 > _FRACTION:
        raise InvalidRequestError(f"{key} cannot be a fractional value.")


def _describe(entity: Entity) -> str:
    return ", ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)
