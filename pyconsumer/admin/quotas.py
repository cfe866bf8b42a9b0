"""Admin calls for quotas of clients (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pyconsumer.errors import KafkaError, for_code
from pyconsumer.network.calls import Calls
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages import alter_client_quotas, describe_client_quotas
from pyconsumer.quotas import CLIENT_ID, DEFAULT_ENTITY, IP, QUOTA_TYPES, USER, QuotaEntity

if TYPE_CHECKING:
    from pyconsumer.network.futures import Steps

__all__ = ["alter", "components", "describe"]

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


def components(entity: QuotaEntity | None, types: Iterable[str]) -> dict[str, describe_client_quotas.ComponentData]:
    """Return the parts of a filter by type.

    Raises:
        ValueError: a type is unknown.
    """
    found = {}
    for kind in types:
        if kind not in QUOTA_TYPES:
            raise ValueError(f"types are {', '.join(QUOTA_TYPES)}, not {kind!r}")
        found[kind] = describe_client_quotas.ComponentData(kind, _ANY, None)
    for kind, name in entity.parts if entity is not None else ():
        found[kind] = describe_client_quotas.ComponentData(kind, _DEFAULT if name is None else _EXACT, name)
    return found


def describe(
    calls: Calls, wanted: Mapping[str, describe_client_quotas.ComponentData], strict: bool, deadline: float
) -> Steps[dict[QuotaEntity, dict[str, float]]]:
    """Return the quotas of the entities that a filter selects."""
    response = yield from calls.call(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        describe_client_quotas.DescribeClientQuotasRequest(list(wanted.values()), strict),
        describe_client_quotas.DescribeClientQuotasResponse,
        deadline,
        what="reading quotas",
    )
    if response.error_code:
        raise for_code(response.error_code, response.error_message or "reading quotas")
    return {
        _entity({part.entity_type: part.entity_name for part in entry.entity}): {
            value.key: value.value for value in sorted(entry.values, key=lambda value: value.key)
        }
        for entry in response.entries or ()
    }


def alter(
    calls: Calls,
    alterations: Mapping[QuotaEntity, Mapping[str, float | None]],
    validate_only: bool,
    deadline: float,
) -> Steps[dict[QuotaEntity, KafkaError | None]]:
    """Set and remove quotas. Return each entity's error, or None for success."""
    request = alter_client_quotas.AlterClientQuotasRequest(validate_only=validate_only)
    for entity, values in alterations.items():
        parts = [alter_client_quotas.EntityData(kind, name) for kind, name in entity.parts]
        ops = [alter_client_quotas.OpData(key, value or 0.0, value is None) for key, value in values.items()]
        request.entries.append(alter_client_quotas.EntryData(parts, ops))
    response = yield from calls.call(
        ApiKey.ALTER_CLIENT_QUOTAS,
        request,
        alter_client_quotas.AlterClientQuotasResponse,
        deadline,
        target=calls.controller,
        what="changing quotas",
    )
    found: dict[QuotaEntity, KafkaError | None] = {}
    for entry in response.entries:
        entity = _entity({part.entity_type: part.entity_name for part in entry.entity})
        found[entity] = (
            for_code(entry.error_code, entry.error_message or f"changing quotas of {entity}")
            if entry.error_code
            else None
        )
    return found


def _entity(names: Mapping[str, str | None]) -> QuotaEntity:
    def name(kind: str) -> str | None:
        return (names[kind] or DEFAULT_ENTITY) if kind in names else None

    return QuotaEntity(name(USER), name(CLIENT_ID), name(IP))
