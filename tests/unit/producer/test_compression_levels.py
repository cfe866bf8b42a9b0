"""Levels of compression (KIP-390): each codec's bounds, and that batches are made with the level."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.producer.accumulator import RecordAccumulator
from pyconsumer.producer.config import PRODUCER_SETTINGS, ProducerConfig
from pyconsumer.protocol.records.compression import compress, decompress

_CHANCE = random.Random(1)
_DATA = b"".join(b"record %d: %d;" % (number % 50, _CHANCE.randrange(10**6)) for number in range(5000))


def config(**settings: Any) -> ProducerConfig:
    return PRODUCER_SETTINGS.build({"bootstrap_servers": "localhost:9092", **settings})


@pytest.mark.parametrize(
    ("codec", "legal", "illegal"),
    [
        ("gzip", (-1, 1, 9), (-2, 0, 10)),
        ("lz4", (1, 9, 17), (-1, 0, 18)),
        ("zstd", (-131_072, 0, 22), (-131_073, 23)),
    ],
)
def test_the_bounds_are_those_of_java(codec: str, legal: tuple[int, ...], illegal: tuple[int, ...]) -> None:
    name = f"compression.{codec}.level"
    for level in legal:
        made = config(compression_type=codec, **{name: str(level)})
        assert made.compression_level in (level, None)
        assert decompress(_number(codec), compress(_number(codec), _DATA, made.compression_level)) == _DATA
    for level in illegal:
        with pytest.raises(ConfigurationError, match=name):
            config(compression_type=codec, **{name: str(level)})
    assert config(compression_type=codec).compression_level is None
    assert config(compression_type="snappy", **{name: "5"}).compression_level is None


def _number(codec: str) -> int:
    return {"gzip": 1, "lz4": 3, "zstd": 4}[codec]


@pytest.mark.parametrize(("codec", "fast", "small"), [("gzip", 1, 9), ("lz4", 1, 17), ("zstd", -50, 22)])
def test_batches_are_made_with_the_level(codec: str, fast: int, small: int) -> None:
    def size(level: int) -> int:
        made = config(compression_type=codec, **{f"compression_{codec}_level": level})
        accumulator = RecordAccumulator(
            batch_size=1 << 20,
            linger=0.0,
            delivery_timeout=60.0,
            buffer_memory=1 << 24,
            codec=made.compression_type,
            level=made.compression_level,
        )
        builder: Any = accumulator._new_builder("t")
        builder.try_append(0, None, _DATA, ())
        return len(builder.build())

    assert size(small) < size(fast)
