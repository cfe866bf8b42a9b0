"""The areas of the product: which rows of the lists belong to each, and which tests guard it.

A row belongs to the area that has the prefix of its id. Tests do not name rows. An area's tests guard all of its rows
together: :mod:`tests.spec.mutations` shows that by breaking single rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.spec.items import Item

__all__ = ["AREAS", "ROOT", "Area", "area_of", "problems_of_areas"]

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Area:
    """One part of the product.

    Attributes:
        name: as on the page.
        prefixes: of the ids of its rows, each with its list, as in ``broker:JG``.
        tests: files and folders that need no broker, the ones most likely to fail first.
        behaviour: tests on real brokers, which run if those pass.
    """

    name: str
    prefixes: tuple[str, ...]
    tests: tuple[str, ...]
    behaviour: tuple[str, ...]


def _prefixes(list_name: str, names: str) -> tuple[str, ...]:
    return tuple(f"{list_name}:{name}" for name in names.split())


def _paths(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}/{name}" for name in names.split())


AREAS = (
    Area(
        "assignors",
        (*_prefixes("client", "AS IC"), *_prefixes("transactions", "ASG RNG RRB STK CUS RND RCK BRC SHR")),
        _paths(
            "unit",
            "assignors consumer/coordinator/test_rounds.py consumer/coordinator/test_consumer_coordinator.py "
            "consumer/coordinator",
        ),
        _paths("behaviour", "test_custom_assignors.py test_group_delayed.py test_group_callbacks.py"),
    ),
    Area(
        "membership of a consumer",
        (
            *_prefixes("client", "RZ RE WF SM CC HB HT HR JC JR SQ GP ER"),
            *_prefixes("transactions", "LSN RBL SEQ ERR"),
        ),
        (
            *_paths(
                "unit",
                "consumer/coordinator network/test_consumer_network_client.py consumer producer broker/group protocol",
            ),
            "tests/vectors/test_group_vectors.py",
        ),
        _paths("behaviour", "test_group_phases.py test_group_membership.py test_group_static.py test_group_kills.py"),
    ),
    Area(
        "consumer: positions, fetches, polls",
        _prefixes("client", "KC PL SS FE AM"),
        _paths("unit", "consumer protocol/records"),
        _paths(
            "behaviour",
            "test_consumer_assign.py test_consumer_assign_fetching.py test_consumer_assign_limits.py "
            "test_consumer_subscribe.py",
        ),
    ),
    Area(
        "network client",
        _prefixes("client", "NC"),
        _paths("unit", "network consumer"),
        _paths("behaviour", "test_network_client.py test_consumer_assign_limits.py"),
    ),
    Area(
        "groups in the broker: members and rebalances",
        (
            *_prefixes("client", "FC JB PS"),
            *_prefixes(
                "broker", "ARC MSM MBR ST GSM GRP MEM PV VAL JG JU JK JA JP DLY SYN HBT LVG API ERR SUP SCN OLD"
            ),
            *_prefixes("broker", "AMB RTE COT"),
            *_prefixes("transactions", "ZKL FCO JGR LDR VOT SGR HBT"),
        ),
        _paths("unit", "broker/group consumer/coordinator broker/test_controller.py broker/test_coordinator_moves.py"),
        _paths("behaviour", "test_broker_groups_protocol.py test_broker_groups_clients.py test_group_membership.py"),
    ),
    Area(
        "groups in the broker: offsets and their log",
        (
            *_prefixes("broker", "OFC EXP MGR SOF PCC FET REG OFM TMB WRT LOD VEC"),
            *_prefixes("transactions", "GMD OTP OCM OFR OEX DMP OFF"),
        ),
        _paths(
            "unit",
            "broker/group protocol/test_offset_requests.py protocol/test_group_bytes.py "
            "broker/test_group_storage.py broker/log/test_cleaner.py broker/test_controller.py",
        ),
        _paths("behaviour", "test_broker_groups_protocol.py test_offsets_dump.py test_kafkas_offsets.py"),
    ),
    Area(
        "idempotence and transactions",
        _prefixes("transactions", "DLV IDP TXA ISO CTL TXC TXL TXR CTP VEC GAP FIG"),
        (
            *_paths("unit", "producer broker/log/test_producer_state.py broker/test_transaction_coordinator.py"),
            *_paths("unit", "broker/test_transaction_files.py protocol/test_transaction_bytes.py"),
            *_paths("unit", "protocol/test_group_bytes.py protocol/records consumer/coordinator broker/group broker"),
            "tests/simulation/transactions",
        ),
        _paths("behaviour", "test_transactions.py test_exactly_once.py test_producer.py test_group_commits.py"),
    ),
    Area(
        "settings",
        (*_prefixes("client", "CF"), *_prefixes("broker", "CFG"), *_prefixes("transactions", "CFG")),
        _paths(
            "unit",
            "test_listed_settings.py settings broker/test_config.py consumer/test_consumer_parts.py "
            "producer/test_transaction_settings.py broker network consumer",
        ),
        _paths("behaviour", "test_broker_settings.py test_group_commits.py"),
    ),
)


def area_of(full_id: str) -> Area:
    """Return the area of a row. Raises KeyError if no area has its prefix."""
    prefix = full_id.partition("-")[0]
    for area in AREAS:
        if prefix in area.prefixes:
            return area
    raise KeyError(full_id)


def problems_of_areas(items: Iterable[Item]) -> list[str]:
    """Return rows without an area or with two, prefixes without a row, and tests that do not exist."""
    owners: dict[str, list[str]] = {}
    for area in AREAS:
        for prefix in area.prefixes:
            owners.setdefault(prefix, []).append(area.name)
    used = {item.full_id.partition("-")[0] for item in items}
    found = [f"{prefix}: in {len(names)} areas" for prefix, names in owners.items() if len(names) > 1]
    found += [f"{prefix}: in no area" for prefix in sorted(used - owners.keys())]
    found += [f"{prefix}: no row begins so" for prefix in sorted(owners.keys() - used)]
    paths = {path for area in AREAS for path in (*area.tests, *area.behaviour)}
    return found + [f"{path}: does not exist" for path in sorted(paths) if not (ROOT / path).exists()]
