"""The JSON of offsets in options and checkpoints. No state.

``{"topic":[0,1]}`` names partitions. ``{"topic":{"0":23,"1":-1}}`` gives each a number: the offset to read next, with
-2 for the earliest and -1 for the latest, or a timestamp in ms.

A stream with typed columns that are not pinned adds one entry, such as ``"#schemas":{"value":7}``: the ids of the
schemas that its columns had. No topic has such a name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.structs import TopicPartition

__all__ = [
    "EARLIEST",
    "LATEST",
    "format_offsets",
    "offsets_from_spark",
    "offsets_to_spark",
    "parse_numbers",
    "parse_partitions",
    "schemas_from_spark",
]

LATEST: Final = -1
EARLIEST: Final = -2

_SCHEMAS: Final = "#schemas"

_MAX_INT64: Final = 0x7FFFFFFFFFFFFFFF


def parse_partitions(option: str, text: str) -> list[TopicPartition]:
    """Return the partitions of a text such as ``{"topic":[0,1]}``, sorted.

    Raises:
        ConfigurationError: the text has another form, names no partition, or names one twice.
    """
    example = '{"topicA":[0,1],"topicB":[2,4]}'
    found = []
    for topic, numbers in _load(option, text, example).items():
        if not isinstance(numbers, list):
            raise _wrong(option, f"{topic!r} needs a list of partitions", example)
        found += [TopicPartition(topic, _whole(option, number, 0x7FFFFFFF, example)) for number in numbers]
    if not found:
        raise ConfigurationError(f"option {option} names no partition")
    if len(set(found)) < len(found):
        raise ConfigurationError(f"option {option} names {_first_twice(found)} twice")
    return sorted(found)


def parse_numbers(
    option: str, text: str, *, example: str, legal: Callable[[int], bool] = lambda number: number >= 0
) -> dict[TopicPartition, int]:
    """Return the numbers in a text such as ``{"topic":{"0":23}}``.

    The ids of schemas are left out, so that a text from the progress of a stream can be given back.

    Args:
        option: the option that contains the text, for messages.
        example: a valid text, for messages.
        legal: returns whether a number is allowed.

    Raises:
        ConfigurationError: the text has another form, or a number is not allowed.
    """
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _load(option, text, example).items():
        if topic == _SCHEMAS:
            continue
        if not isinstance(numbers, dict):
            raise _wrong(option, f"{topic!r} needs a number for each partition", example)
        for partition, number in numbers.items():
            if not (partition.isascii() and partition.isdigit()):
                raise _wrong(option, f"{partition!r} is not a partition", example)
            if isinstance(number, bool) or not isinstance(number, int) or number > _MAX_INT64 or not legal(number):
                raise _wrong(option, f"{number!r} is not allowed for {topic}-{partition}", example)
            found[TopicPartition(topic, int(partition))] = number
    return found


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Return offsets as one line of JSON, in the form for checkpoints."""
    return json.dumps(offsets_to_spark(offsets), separators=(",", ":"))


def offsets_to_spark(
    offsets: Mapping[TopicPartition, int], schemas: Mapping[str, int] | None = None
) -> dict[str, dict[str, int]]:
    """Return offsets in the form for Spark. The order is always the same, because Spark compares positions as text.

    Args:
        offsets: by partition.
        schemas: the ids of schemas by ``"key"`` and ``"value"``.
    """
    topics: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        topics.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return topics | ({_SCHEMAS: dict(sorted(schemas.items()))} if schemas else {})


def schemas_from_spark(position: Any) -> dict[str, int]:
    """Return the ids of schemas in a position that :func:`offsets_from_spark` has read. Empty if there are none."""
    found = position.get(_SCHEMAS) or {}
    return {str(side): int(number) for side, number in found.items()}


def offsets_from_spark(position: Any) -> dict[TopicPartition, int]:
    """Return the offsets in a checkpoint of pyconsumer, or of Spark's own connector.

    Raises:
        ConfigurationError: the position has another form, so the checkpoint belongs to another source.
    """
    example = '{"topicA":{"0":23,"1":345}}'
    try:
        return {
            TopicPartition(topic, int(partition)): _whole("", offset, _MAX_INT64, "")
            for topic, numbers in position.items()
            if topic != _SCHEMAS
            for partition, offset in numbers.items()
        }
    except (AttributeError, ValueError, ConfigurationError):
        raise ConfigurationError(
            f"the checkpoint contains {json.dumps(position)[:200]} instead of Kafka offsets such as {example}. Give"
            " the query a checkpointLocation of its own"
        ) from None


def _load(option: str, text: str, example: str) -> dict[str, Any]:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in items]
        if len(set(names)) < len(names):
            raise ValueError(f"{_first_twice(names)!r} is given twice")
        return dict(items)

    try:
        found = json.loads(text, object_pairs_hook=pairs)
    except ValueError as error:
        raise _wrong(option, f"it is not JSON ({error})", example) from None
    if not isinstance(found, dict):
        raise _wrong(option, "it is not a JSON object", example)
    return found


def _whole(option: str, number: object, most: int, example: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= most:
        raise _wrong(option, f"{number!r} is not a partition", example)
    return number


def _wrong(option: str, reason: str, example: str) -> ConfigurationError:
    return ConfigurationError(f"option {option}: {reason}; it should look like {example}")


def _first_twice(items: Iterable[Any]) -> Any:
    seen = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    raise AssertionError("no item is there twice")
