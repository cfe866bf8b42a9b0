"""``kafka.codec``: the available compression types. All are: their libraries are dependencies of pyconsumer."""

from __future__ import annotations

__all__ = ["has_gzip", "has_lz4", "has_snappy", "has_zstd"]


def has_gzip() -> bool:
    """Return True."""
    return True


has_lz4 = has_snappy = has_zstd = has_gzip
