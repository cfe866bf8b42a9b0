"""The records of :mod:`tests.benchmarks.schema_sockets`, in Avro, JSON Schema and Protobuf.

Seven fields, as in most comparisons, and 30 fields with nested records, a list and a map. (They have no decimal, which
pyruhvro does not read.) The schemas of JSON and Protobuf are derived from those of Avro. Times and dates are numbers
there.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from typing import Any, Final

__all__ = [
    "DIFFERENT",
    "PARTITIONS",
    "SCHEMAS",
    "json_schema",
    "message_class",
    "messages_of",
    "plain_values_of",
    "values_of",
]

#: The values of a topic, which are repeated, and its partitions.
DIFFERENT: Final = 1_000
PARTITIONS: Final = 4
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_JSON_TYPES: Final = {"long": "integer", "int": "integer", "double": "number", "float": "number"}
_PROTO_TYPES: Final = {"long": "int64", "int": "int32", "boolean": "bool"}


def _record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}


_TIME: Final = {"type": "long", "logicalType": "timestamp-millis"}
_ADDRESS: Final = _record(
    "Address", ("street", "string"), ("number", "int"), ("city", "string"), ("zip", "string"), ("country", "string")
)
_CUSTOMER: Final = _record(
    "Customer",
    ("id", "long"),
    ("name", "string"),
    ("mail", ["null", "string"]),
    ("is_new", "boolean"),
    ("score", "double"),
    ("address", _ADDRESS),
)
_ITEM: Final = _record("Item", ("sku", "string"), ("count", "int"), ("price", "double"), ("note", ["null", "string"]))

#: The schemas by name of the workload.
SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "seven": _record(
        "Order",
        ("id", "long"),
        ("customer", "string"),
        ("amount", "double"),
        ("count", "int"),
        ("is_paid", "boolean"),
        ("note", ["null", "string"]),
        ("at", _TIME),
    ),
    "nested": _record(
        "Sale",
        ("id", "long"),
        ("at", _TIME),
        ("state", {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SENT", "BACK"]}),
        ("is_gift", "boolean"),
        ("total", "double"),
        ("weight", "float"),
        ("customer", _CUSTOMER),
        ("items", {"type": "array", "items": _ITEM}),
        ("tags", {"type": "map", "values": "string"}),
        ("channel", "string"),
        ("campaign", ["null", "string"]),
        ("shop", "int"),
        ("till", "int"),
        ("discount", ["null", "double"]),
        ("day", {"type": "int", "logicalType": "date"}),
    ),
}


def values_of(workload: str) -> Iterator[dict[str, Any]]:
    """Yield the values of a workload, for Avro."""
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for number in range(DIFFERENT):
        at = start + datetime.timedelta(seconds=number)
        note = None if number % 2 else f"note {number}"
        if workload == "seven":
            yield {
                "id": 1_000_000 + number,
                "customer": f"customer-{number:06}",
                "amount": number * 1.25,
                "count": number % 7,
                "is_paid": number % 3 == 0,
                "note": note,
                "at": at,
            }
            continue
        address = {"street": "Main Street", "number": number, "city": "Vienna", "zip": "1010", "country": "AT"}
        items = [{"sku": f"sku-{n}", "count": n + 1, "price": 9.5 * n, "note": note} for n in range(number % 4)]
        yield {
            "id": 1_000_000 + number,
            "at": at,
            "state": ("NEW", "PAID", "SENT", "BACK")[number % 4],
            "is_gift": number % 5 == 0,
            "total": number + 0.99,
            "weight": 0.5 * number,
            "customer": {
                "id": number,
                "name": f"customer-{number:06}",
                "mail": note,
                "is_new": number % 2 == 0,
                "score": 0.1 * number,
                "address": address,
            },
            "items": items,
            "tags": {"color": "red", "size": "m"} if number % 2 else {},
            "channel": "web",
            "campaign": note,
            "shop": number % 50,
            "till": number % 5,
            "discount": None if number % 3 else 0.05,
            "day": at.date(),
        }


# -- the same in JSON Schema and Protobuf --------------------------------------------------------------------------


def plain_values_of(workload: str) -> list[Any]:
    """Return the values of a workload as JSON has them."""
    return [_plain(value) for value in values_of(workload)]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // datetime.timedelta(milliseconds=1)
    return (value - _EPOCH.date()).days if isinstance(value, datetime.date) else value


def json_schema(workload: str) -> str:
    """Return the JSON schema of a workload."""
    return json.dumps(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": SCHEMAS[workload]["name"],
            **_in_json(SCHEMAS[workload]),
        }
    )


def _in_json(kind: Any) -> dict[str, Any]:
    if isinstance(kind, list):
        return {"type": ["null", _in_json(kind[1])["type"]]}
    if isinstance(kind, str):
        return {"type": _JSON_TYPES.get(kind, kind)}
    if kind["type"] == "record":
        fields = {field["name"]: field["type"] for field in kind["fields"]}
        required = [name for name, of in fields.items() if not isinstance(of, list)]
        return {
            "type": "object",
            "properties": {name: _in_json(of) for name, of in fields.items()},
            "required": required,
        }
    if kind["type"] == "enum":
        return {"type": "string", "enum": kind["symbols"]}
    if kind["type"] == "array":
        return {"type": "array", "items": _in_json(kind["items"])}
    if kind["type"] == "map":
        return {"type": "object", "additionalProperties": _in_json(kind["values"])}
    return _in_json(kind["type"])


def message_class(workload: str) -> Any:
    """Return the class of the messages of a workload."""
    from tests.support.proto_files import compiled  # needs pyconsumer[protobuf]

    declared: list[str] = []
    _in_proto(SCHEMAS[workload], declared)
    return compiled('syntax = "proto3"; ' + " ".join(declared)).message([0])


def _in_proto(kind: Any, declared: list[str]) -> str:
    """Return the type of a field, and add the types that it needs to those that are declared."""
    if isinstance(kind, list):
        return f"optional {_in_proto(kind[1], declared)}"
    if isinstance(kind, str):
        return _PROTO_TYPES.get(kind, kind)
    if kind["type"] == "array":
        return f"repeated {_in_proto(kind['items'], declared)}"
    if kind["type"] == "map":
        return f"map<string, {_in_proto(kind['values'], declared)}>"
    name = kind.get("name")
    if kind["type"] == "enum":
        symbols = " ".join(f"{symbol} = {number};" for number, symbol in enumerate(kind["symbols"]))
        declared.append(f"enum {name} {{ {symbols} }}")
        return str(name)
    if kind["type"] != "record":
        return _in_proto(kind["type"], declared)
    fields = [(field["name"], _in_proto(field["type"], declared)) for field in kind["fields"]]
    text = " ".join(f"{of} {field} = {number};" for number, (field, of) in enumerate(fields, 1))
    declared.insert(0, f"message {name} {{ {text} }}")  # the outermost comes first
    return str(name)


def messages_of(workload: str, kind: Any) -> list[Any]:
    """Return the values of a workload as messages of a class."""
    return [kind(**_without_null(value)) for value in plain_values_of(workload)]


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_null(each) for name, each in value.items() if each is not None}
    return [_without_null(each) for each in value] if isinstance(value, list) else value
