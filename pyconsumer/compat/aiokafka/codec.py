"""``aiokafka.codec``: names of :mod:`pyconsumer.compat.kafka.codec`."""

from __future__ import annotations

from pyconsumer.compat.kafka.codec import (
    has_gzip,
    has_lz4,
    has_snappy,
    has_zstd,
)

__all__ = ["has_gzip", "has_lz4", "has_snappy", "has_zstd"]
