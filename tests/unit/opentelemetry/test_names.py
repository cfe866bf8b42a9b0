"""The names of the semantic conventions, by the variable that chooses them."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry")

from pyconsumer.opentelemetry import names


@pytest.mark.parametrize(
    ("opt_in", "systems"),
    [
        ("", ["messaging.system"]),
        ("http, databases", ["messaging.system"]),
        ("messaging", ["messaging.system.name"]),
        ("http,messaging", ["messaging.system.name"]),
        ("messaging/dup", ["messaging.system.name", "messaging.system"]),
        ("messaging , messaging/dup", ["messaging.system.name", "messaging.system"]),
    ],
)
def test_the_variable_chooses_the_names(opt_in: str, systems: list[str]) -> None:
    chosen = names.versions(opt_in)
    assert [one.system for one in chosen] == systems
    assert names.schema_url(chosen).endswith(f"/{chosen[0].schema}")


def test_the_names_before_1_45_are_those_of_the_package_of_conventions() -> None:
    conventions = pytest.importorskip("opentelemetry.semconv._incubating.attributes.messaging_attributes")
    metrics = pytest.importorskip("opentelemetry.semconv._incubating.metrics.messaging_metrics")
    known = {value for module in (conventions, metrics) for value in vars(module).values() if isinstance(value, str)}
    (before,) = names.versions("")
    ours = {getattr(names, name) for name in names.__all__ if isinstance(getattr(names, name), str)}
    ours -= {names.STABILITY_VARIABLE, names.ERROR_TYPE}
    assert ours | set(before[1:]) <= known
