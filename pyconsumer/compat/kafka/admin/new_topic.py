"""``kafka.admin.new_topic``."""

from __future__ import annotations

from pyconsumer.compat.kafka.admin.types import NewTopic

__all__ = ["NewTopic"]
