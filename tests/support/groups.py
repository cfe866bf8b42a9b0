"""Groups of tests that one process of pytest-xdist runs, and the order in which they start (``tests/conftest.py``)."""

from __future__ import annotations

from typing import Final

import pytest

__all__ = ["KINDS_OF_BROKERS", "broker_of", "group_of", "may_be_used_later"]

#: Parameters that name a kind of broker: of the run's own brokers, and of those of the tests of share groups.
KINDS_OF_BROKERS: Final = ("cluster_kind", "sharing")

_SPARK, _SEVERAL_BROKERS, _APACHE, _EMBEDDED, _CHOSEN, _ALONE, _MODULE = range(7)  # ranks
_IN_ONE_GROUP: Final = ("apache_old", "apache_new")
#: Thousands of tests that take milliseconds. One by one, the messages for them would take three times as long.
_BY_MODULE: Final = ("tests/unit/", "tests/vectors/", "tests/spec/")


def group_of(item: pytest.Item) -> tuple[int, str]:
    """Return when a test's group is to start (0 is first) and its name, which is empty for a test that is alone."""
    broker = broker_of(item)
    module = item.nodeid.partition("::")[0]
    if item.get_closest_marker("spark"):  # Java and Spark's workers take all of two cores, so there are no more groups
        return _SPARK, "spark" if "spark" in getattr(item, "fixturenames", ()) else "spark-programs"
    if item.get_closest_marker("cluster") and broker:
        return _SEVERAL_BROKERS, f"cluster-{broker}"
    if broker in _IN_ONE_GROUP:
        return _APACHE, broker
    if broker:
        return _APACHE if broker == "apache" else _EMBEDDED, f"{broker}-{module}"
    if item.get_closest_marker("xdist_group"):
        return _CHOSEN, ""
    return (_ALONE, "") if item.get_closest_marker("slow") or not module.startswith(_BY_MODULE) else (_MODULE, module)


def broker_of(item: pytest.Item) -> str | None:
    """Return the kind of broker that a test needs: ``apache_old``, ``apache_new``, ``apache``, ``embedded`` or none."""
    fixtures = getattr(item, "fixturenames", ())
    callspec = getattr(item, "callspec", None)
    kinds = {name for name in ("apache", "apache_old", "apache_new", "embedded") if name in fixtures}
    kinds |= {callspec.params.get(name, "") for name in KINDS_OF_BROKERS} if callspec else set()
    for kind in ("apache_old", "apache_new", "apache"):
        if kind in kinds:
            return kind
    return "embedded" if "embedded" in kinds or "new_cluster" in fixtures else None


def may_be_used_later(next_one: pytest.Item, kind: str, brokers: int) -> bool:
    """Return if a process whose next test this is may run tests of a shared cluster, from this one on.

    Args:
        kind: of the cluster.
        brokers: how many it has.
    """
    rank, group = group_of(next_one)
    if brokers > 1:
        return rank < _SEVERAL_BROKERS or group == f"cluster-{kind}"
    if kind in _IN_ONE_GROUP:
        return rank < _APACHE or group == kind
    return rank <= (_EMBEDDED if kind == "embedded" else _APACHE)
