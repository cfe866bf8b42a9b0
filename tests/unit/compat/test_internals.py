"""Internal names of the originals: each is there as a view, or raises an error that says that it was internal."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from pyconsumer.compat.internals import _InternalName
from pyconsumer.compat.kafka import KafkaConsumer, KafkaProducer

_CLIENTS = [
    (KafkaConsumer, "kafka", "consumer/group.py"),
    (KafkaProducer, "kafka", "producer/kafka.py"),
    (AIOKafkaConsumer, "aiokafka", "consumer/consumer.py"),
    (AIOKafkaProducer, "aiokafka", "producer/producer.py"),
]
#: Attributes of our objects that are set when one is made.
_OF_OBJECTS = {"_client", "_metadata"}


def internal_names(source: str, of: str) -> set[str]:
    """Return the names with one underscore of a class: methods, and attributes that it sets."""
    (cls,) = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef) and node.name == of)
    found = {node.name for node in ast.walk(cls) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    found |= {
        node.attr
        for node in ast.walk(cls)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


@pytest.mark.parametrize(("ours", "package", "file"), _CLIENTS)
def test_each_internal_name_of_the_original_is_known(ours: type[Any], package: str, file: str) -> None:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"needs {package}")
    names = internal_names(Path(spec.origin).with_name("x").parent.joinpath(file).read_text(), ours.__name__)
    unknown = {name for name in names if inspect.getattr_static(ours, name, None) is None}
    assert unknown - _OF_OBJECTS == set()


@pytest.mark.parametrize(("ours", "package", "file"), _CLIENTS)
def test_attributes_are_found_without_a_call(ours: type[Any], package: str, file: str) -> None:
    """With a ``__getattr__`` in the class each use of an attribute, and each call of a method, looks it up anew."""
    assert not hasattr(ours, "__getattr__")
    assert "__getattribute__" not in {name for kind in ours.__mro__[:-1] for name in vars(kind)}


def test_an_attribute_of_ours_comes_before_an_internal_name() -> None:
    class Client:
        _there: int

    Client._there = _InternalName("_there", "kafka-python")  # type: ignore[assignment]
    client = Client()
    with pytest.raises(AttributeError, match=r"^Client\._there was internal to kafka-python\. docs/porting\.md"):
        client._there  # noqa: B018
    assert not hasattr(client, "_there")
    client._there = 1
    assert client._there == 1


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("given", "records"), [({}, 4_000), ({"max_poll_records": None}, 4_000), ({"max_poll_records": 7}, 7)]
)
async def test_a_read_without_a_limit_is_bounded(given: dict[str, Any], records: int) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:9", **given)
    assert consumer.consumer.config.max_poll_records == records
    await consumer.stop()
