"""``docs/porting-confluent.md`` names every difference to confluent-kafka's schemas that a comparison of both finds."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import pyconsumer.schemas as ours
from pyconsumer.errors import ConfigurationError
from tests.support.fake_registry import FakeRegistry
from tests.support.proto_files import shop_class

confluent_kafka = pytest.importorskip(
    "confluent_kafka", reason="needs confluent-kafka, which pyconsumer[peers] installs"
)
theirs = pytest.importorskip("confluent_kafka.schema_registry")

PAGE = (Path(__file__).parents[3] / "docs" / "porting-confluent.md").read_text(encoding="utf-8")
_COMPARED = re.search(r"confluent-kafka (\d+\.\d+\.\d+)", PAGE)

pytestmark = pytest.mark.skipif(
    _COMPARED is None or confluent_kafka.__version__ != _COMPARED[1],
    reason=f"the page compares with another version than the confluent-kafka {confluent_kafka.__version__} here",
)

_REGISTRY: Final = "confluent_kafka.schema_registry"
MODULES: Final = [
    "confluent_kafka.serialization",
    _REGISTRY,
    *(f"{_REGISTRY}.{name}" for name in ("avro", "json_schema", "protobuf", "error", "rule_registry", "serde")),
    f"{_REGISTRY}.schema_registry_client",
]
CLIENTS: Final = ["SchemaRegistryClient", "AsyncSchemaRegistryClient"]
FORMATS: Final = {"Avro": "avro", "JSON": "json_schema", "Protobuf": "protobuf"}
CLASSES: Final = [
    f"{way}{form}{part}" for way in ("", "Async") for form in FORMATS for part in ("Serializer", "Deserializer")
]
SIMPLE: Final = [f"{kind}{part}" for kind in ("String", "Integer", "Double") for part in ("Serializer", "Deserializer")]
VALUES: Final = [
    *("Metadata", "MetadataProperties", "MetadataTags", "RegisteredSchema", "Rule", "RuleParams", "RuleSet", "Schema"),
    *("SchemaReference", "ServerConfig", "SchemaRegistryError", "SerializationContext"),
]
ENUMS: Final = ["ConfigCompatibilityLevel", "MessageField", "RuleKind", "RuleMode"]


def listed(heading: str) -> set[str]:
    """Return the names in the first cells of the table below a heading of the page."""
    found = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S)
    assert found is not None, f"the page has no heading {heading!r}"
    rows = [line.strip("|").split(" | ") for line in found[1].splitlines() if line.startswith("|")][2:]
    assert all(len(row) == 2 and row[1].strip() for row in rows)
    names: list[str] = [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])]
    assert len(set(names)) == len(names) > 0
    return set(names)


def their(name: str) -> Any:
    """Return a class of theirs, wherever it is."""
    return next(found for module in MODULES if (found := getattr(importlib.import_module(module), name, None)))


def public(kind: Any) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and not hasattr(Exception, name)}


def module_names(module: Any) -> Iterator[str]:
    """Yield the classes and functions of confluent-kafka that a module has."""
    for name, value in vars(module).items():
        if name.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        if value.__module__.startswith("confluent_kafka"):
            yield name


def parameters(call: Any) -> dict[str, Any]:
    """Return the defaults of positional parameters by name, in order."""
    found = inspect.signature(call).parameters.values()
    return {
        each.name: each.default for each in found if each.kind == each.POSITIONAL_OR_KEYWORD and each.name != "self"
    }


def constructor(kind: Any) -> Any:
    """Return the function with the parameters of a class. Their classes hide it behind a wrapper."""
    return next((value for name, value in vars(kind).items() if name.endswith("__init_impl")), kind.__init__)


def different_parameters(left: Any, right: Any, *, may_be_left_out: bool = False) -> set[str]:
    """Return the parameters of theirs that ours has not at the same place with the same default.

    Args:
        left, right: theirs and ours.
        may_be_left_out: ours may have a default where theirs has none.
    """
    mine, found = list(parameters(right).items()), set()
    for at, (name, default) in enumerate(parameters(left).items()):
        other, its_default = mine[at] if at < len(mine) else ("", None)
        is_new = default is inspect.Parameter.empty and may_be_left_out
        is_made = repr(default) == "NOTHING" and repr(its_default) == "<factory>"
        if name != other or not (is_new or is_made or default == its_default):
            found.add(name)
    return found


def test_names() -> None:
    found = {name for module in MODULES for name in module_names(importlib.import_module(module))}
    assert {name for name in found if not hasattr(ours, name)} == listed("Names of schemas")


def test_methods_and_their_arguments() -> None:
    found: set[str] = set()
    groups = [(CLIENTS, "clients"), (CLASSES, "serializers"), (SIMPLE, "serializers"), (VALUES, "values")]
    for name, group in ((name, group) for names, group in groups for name in names):
        left, right = their(name), getattr(ours, name)
        for method in public(left):
            if not hasattr(right, method):
                found.add(f"{group}.{method}")
            elif callable(getattr(left, method)):
                calls = getattr(left, method), getattr(right, method)
                found |= {f"{group}.{method}({each})" for each in different_parameters(*calls)}
    assert found == listed("Methods of schemas")


def test_arguments_of_classes() -> None:
    found: set[str] = set()
    for name in (*CLIENTS, *CLASSES, *SIMPLE, *VALUES):
        calls = constructor(their(name)), getattr(ours, name.removeprefix("Async")).__init__
        differences = different_parameters(*calls, may_be_left_out=name in VALUES)
        found |= {f"{name}({each})" for each in differences}
    assert found == listed("Arguments of schemas")


def test_members_of_enums() -> None:
    for name in ENUMS:
        mine = {each.name: each.value for each in getattr(ours, name)}
        assert {each.name: each.value for each in their(name)}.items() <= mine.items()


def made(name: str, conf: dict[str, Any]) -> Any:
    """Return an object of one of our classes with some settings."""
    kind, registry = getattr(ours, name), FakeRegistry()
    if "Protobuf" in name:
        return kind(shop_class(1), *([registry] if name.endswith("Serializer") else []), conf=conf)
    if "JSON" in name:
        return kind("{}", **({"schema_registry_client": registry} if name.endswith("Serializer") else {}), conf=conf)
    return kind(registry, '"long"', conf=conf)


@pytest.mark.parametrize("name", CLASSES)
def test_settings_of_classes_are_taken_with_their_defaults(name: str) -> None:
    defaults = their(name)._default_conf
    assert len(defaults) >= 6
    for key, default in defaults.items():
        assert made(name, {key: default}) is not None
    with pytest.raises(ConfigurationError, match="no setting"):
        made(name, {"no.such.key": 1})


def test_settings_of_clients() -> None:
    folder = Path(theirs.__file__).parent
    text = "".join(
        (folder / name).read_text(encoding="utf-8")
        for name in ("_sync/schema_registry_client.py", "common/schema_registry_client.py", "common/_oauthbearer.py")
    )
    keys = set(re.findall(r"""(?:pop|get)\(\s*['"]([a-z0-9]+(?:\.[a-z0-9]+)+)['"]""", text))
    assert {"basic.auth.user.info", "ssl.ca.location", "cache.capacity"} <= keys
    found = set()
    for key in keys:
        try:
            ours.SchemaRegistryClient({"url": "http://127.0.0.1:1", key: "1"}).close()
        except ConfigurationError as error:
            if re.search(r"unknown registry setting|has no effect", str(error)):
                found.add(key)
    assert found == listed("Settings of a registry")
