"""``kafka.admin.config_resource``."""

from __future__ import annotations

from pyconsumer.compat.kafka.admin.types import ConfigResource, ConfigResourceType

__all__ = ["ConfigResource", "ConfigResourceType"]
