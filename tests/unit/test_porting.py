"""``docs/porting.md`` names every difference to kafka-python that a comparison of both packages finds."""

from __future__ import annotations

import enum
import inspect
import re
import types
from pathlib import Path
from typing import Any

import pytest

import pyconsumer
import pyconsumer.errors
from pyconsumer.admin.config import ADMIN_SETTINGS
from pyconsumer.consumer.auto_offset_reset import ResetPolicy
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.settings.config import REQUIRED
from pyconsumer.settings.security import SECURITY_SETTINGS

kafka = pytest.importorskip("kafka", reason="needs kafka-python, which pyconsumer[peers] installs")

PAGE = Path(__file__).parents[2] / "docs" / "porting.md"
ABSENT = "-"
_COMPARED = re.search(r"kafka-python (\d+\.\d+\.\d+)", PAGE.read_text(encoding="utf-8"))

pytestmark = pytest.mark.skipif(
    _COMPARED is None or kafka.__version__ != _COMPARED[1],
    reason=f"docs/porting.md compares with another version than the kafka-python {kafka.__version__} installed here",
)

_SECURITY = {setting.name for setting in SECURITY_SETTINGS}
_CLIENTS = {
    "KafkaConsumer": (kafka.KafkaConsumer, pyconsumer.KafkaConsumer, CONSUMER_SETTINGS),
    "KafkaProducer": (kafka.KafkaProducer, pyconsumer.KafkaProducer, PRODUCER_SETTINGS),
    "KafkaAdminClient": (kafka.KafkaAdminClient, pyconsumer.KafkaAdminClient, ADMIN_SETTINGS),
}

Row = tuple[str, str, str]


def table(heading: str) -> set[Row]:
    """The first three cells of each row of the table below a heading of the page."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{PAGE.name} has no heading {heading!r}"
    lines = [line for line in found[1].splitlines() if line.startswith("|")]
    assert len(lines) > 2, f"{PAGE.name} has no table below {heading!r}"
    rows = [tuple(cell.strip() for cell in line.strip("|").split(" | ")[:3]) for line in lines[2:]]
    assert len(set(rows)) == len(rows)
    return {(name.strip(), theirs.strip(), ours.strip()) for name, theirs, ours in rows}  # type: ignore[misc]


def shown(value: Any) -> str:
    """A default as the page shows it."""
    if value is REQUIRED:
        return "required"
    if isinstance(value, (str, bool, int, float, types.NoneType)):
        return f"`{value!r}`"
    if isinstance(value, type):
        return "a class"  # which one depends on the machine
    if isinstance(value, types.FunctionType):
        return "a function"
    if isinstance(value, (tuple, list)):
        names = [f"`{item.__name__}`" if isinstance(item, type) else shown(item) for item in value]
        return ", ".join(names) or "empty"
    return f"a `{type(value).__name__}`"


def signature(owner: type, name: str) -> str:
    """A method's parameters without types, or a dash where there is no such method."""
    method = getattr(owner, name, None)
    if method is None:
        return ABSENT
    found = inspect.signature(method)
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in found.parameters.values()
        if parameter.name != "self"
    ]
    plain = [
        parameter.replace(default=_Shown(parameter.default))
        if parameter.default is not parameter.empty and isinstance(parameter.default, enum.Enum)
        else parameter
        for parameter in plain
    ]
    return f"`{found.replace(parameters=plain, return_annotation=inspect.Signature.empty)}`"


class _Shown:
    """A member of an enumeration that is shown by its bare name."""

    def __init__(self, value: enum.Enum) -> None:
        self.value = value

    def __repr__(self) -> str:
        return str(self.value.name)


def different_settings(client: str) -> set[Row]:
    theirs_class, _, settings = _CLIENTS[client]
    theirs, ours = theirs_class.DEFAULT_CONFIG, settings.by_name
    rows = set()
    for name in theirs.keys() | ours.keys():
        default = ours[name].default if name in ours else None
        if isinstance(default, ResetPolicy):
            default = str(default)
        row = (
            f"`{name}`",
            shown(theirs[name]) if name in theirs else ABSENT,
            shown(default) if name in ours else ABSENT,
        )
        if name in _SECURITY and name not in theirs:
            continue  # they stand in the reference once, not here for each client
        if row[1] != row[2]:
            rows.add(row)
    return rows


def different_methods(client: str) -> set[Row]:
    theirs, ours, _ = _CLIENTS[client]
    names = {name for owner in (theirs, ours) for name in dir(owner) if _public(owner, name)}
    rows = {(f"`{name}`", signature(theirs, name), signature(ours, name)) for name in names}
    return {row for row in rows if row[1] != row[2]}


def _public(owner: type, name: str) -> bool:
    return not name.startswith("_") and callable(getattr(owner, name))


def different_errors() -> set[str]:
    names = {
        name
        for name, value in vars(kafka.errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__.startswith("kafka")
    }
    return {f"`{name}`" for name in names if not hasattr(pyconsumer.errors, name)}


@pytest.mark.parametrize("client", _CLIENTS)
def test_every_setting_that_differs_has_its_row(client: str) -> None:
    assert table(f"Settings of {client}") == different_settings(client)


@pytest.mark.parametrize("client", _CLIENTS)
def test_every_method_that_differs_has_its_row(client: str) -> None:
    assert table(f"Methods of {client}") == different_methods(client)


def test_every_error_that_is_missing_has_its_row() -> None:
    rows = table("Errors")
    assert {row[0] for row in rows} == different_errors()
    for _, ours, _ in rows:
        assert ours == ABSENT or issubclass(getattr(pyconsumer.errors, ours.strip("`")), Exception)


def test_record_fields_that_differ_have_their_row() -> None:
    from kafka.consumer.fetcher import ConsumerRecord

    missing = {name for name in ConsumerRecord._fields if not hasattr(pyconsumer.ConsumerRecord, name)}
    assert {name.strip("`") for name, _, ours in table("Records") if ours == ABSENT} == missing


@pytest.mark.parametrize("name", ["TopicPartition", "OffsetAndMetadata", "OffsetAndTimestamp"])
def test_small_values_have_the_same_fields(name: str) -> None:
    theirs = getattr(kafka.structs, name)
    ours = getattr(pyconsumer, name)
    assert theirs._fields == ours._fields


@pytest.mark.parametrize(
    ("client", "name", "value"),
    [
        ("KafkaConsumer", "client_id", None),
        ("KafkaConsumer", "consumer_timeout_ms", float("inf")),
        ("KafkaConsumer", "receive_buffer_bytes", None),
        ("KafkaConsumer", "send_buffer_bytes", None),
        ("KafkaConsumer", "ssl_check_hostname", False),
        ("KafkaProducer", "client_id", None),
        ("KafkaProducer", "compression_type", None),
        ("KafkaProducer", "retries", float("inf")),
        ("KafkaProducer", "receive_buffer_bytes", None),
        ("KafkaProducer", "send_buffer_bytes", None),
        ("KafkaAdminClient", "client_id", None),
        ("KafkaAdminClient", "receive_buffer_bytes", None),
    ],
)
def test_documented_values_are_accepted(client: str, name: str, value: Any) -> None:
    settings = _CLIENTS[client][2]
    config = settings.build({"bootstrap_servers": "localhost:9092", name: value})
    if value is not False:
        assert getattr(config, name) == settings.by_name[name].default or name == "client_id"
        assert name not in config.given
