"""Protobuf files for tests, compiled once a process."""

from __future__ import annotations

import functools
from typing import Any

from pyconsumer.protocol.protobuf.files import ProtoFile, parse_file

__all__ = ["CUSTOMER", "SHOP", "compiled", "shop", "shop_class"]

CUSTOMER = 'syntax = "proto3"; package shop; message Customer { string name = 1; }'

SHOP = """
syntax = "proto3";
package shop;
import "customer.proto";
import "google/protobuf/timestamp.proto";
message Order {
  message Line { string sku = 1; message Part { int32 n = 1; } }
  int64 id = 1;
  Customer customer = 2;
  google.protobuf.Timestamp at = 3;
  repeated Line lines = 4;
  map<string, int32> counts = 5;
  optional string note = 6;
  oneof pay { string card = 7; bool cash = 8; }
}
message Other { bytes raw = 1; }
"""


@functools.cache
def compiled(text: str) -> ProtoFile:
    """Return the file of a text without references."""
    return parse_file(text, {})


@functools.cache
def shop() -> ProtoFile:
    """Return the file of :data:`SHOP`, which imports :data:`CUSTOMER`."""
    return parse_file(SHOP, {"customer.proto": compiled(CUSTOMER)}, name="shop.proto")


def shop_class(*path: int) -> type[Any]:
    """Return the class of a message type of :data:`SHOP`."""
    return shop().message(path)
