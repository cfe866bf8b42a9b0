"""``aiokafka.codec``: the functions of ``compat/kafka/codec``, under the same names."""

from __future__ import annotations

from pyconsumer.compat.kafka.codec import (
    has_gzip,
    has_lz4,
    has_snappy,
    has_zstd,
)

__all__ = ["has_gzip", "has_lz4", "has_snappy", "has_zstd"]
