"""The sink's options: names, defaults, checks. Names and meaning are those of Spark's own Kafka connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyconsumer.spark.option_values import read_flag, read_text, split_options
from pyconsumer.spark.sink_settings import producer_settings

__all__ = ["SinkOptions"]

_KNOWN: Final = (
    "topic",
    "includeHeaders",
    "includeTimestamp",
    "checkpointLocation",  # Spark's own; it comes along
)
_HINTS: Final = {
    "topics": "the topic to write to is named by topic",
    "subscribe": "that is for reading; the topic to write to is named by topic",
    "bootstrap.servers": "it is called kafka.bootstrap.servers",
    "path": "save() and start() take no path; the topic to write to is named by the option topic",
}


@dataclass(frozen=True)
class SinkOptions:
    """Checked options.

    Attributes:
        topic: where all records go, stronger than the column of that name; None: the column tells.
        timestamps: whether the column ``timestamp`` becomes the records' time; Spark's own connector cannot do that.
        client: ``kafka.*`` options by Kafka's names.
    """

    topic: str | None
    timestamps: bool
    client: Mapping[str, str] = field(repr=False)  # passwords are among them

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Check options as a user gave them.

        Raises:
            ConfigurationError: an unknown, illegal, missing or contradicting one.
        """
        client, own = split_options(options, _KNOWN, _HINTS)
        read_flag(own, "includeHeaders", False)  # as in Spark's own connector it changes nothing: the column tells
        producer_settings(client)
        topic = read_text(own, "topic")
        return cls(topic, read_flag(own, "includeTimestamp", False), client)
