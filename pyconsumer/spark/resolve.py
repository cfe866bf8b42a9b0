"""From options to offsets: where each partition's read begins and ends, with the checks of Spark's own connector."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyconsumer.spark.errors import OffsetsError
from pyconsumer.spark.lookups import Lookups
from pyconsumer.spark.offsets_json import EARLIEST, LATEST
from pyconsumer.spark.options import Bound, SourceOptions
from pyconsumer.spark.planning import OffsetRange
from pyconsumer.structs import TopicPartition

__all__ = ["batch_ranges", "known_offsets", "resolve"]

_log = logging.getLogger("pyconsumer.spark")

_FIXED: Final = {"earliest": EARLIEST, "latest": LATEST}


def batch_ranges(options: SourceOptions, lookups: Lookups) -> list[OffsetRange]:
    """The whole range of each partition, not yet cut into tasks; empty ones included.

    Starts are looked up before ends, so that what arrives meanwhile cannot make an end come before its start.

    Raises:
        ConfigurationError: the options make no sense for a batch read.
        OffsetsError: offsets or timestamps don't fit the partitions, or a start lies after its end.
        KafkaError: of the lookups.
    """
    starting, ending = options.batch_bounds()
    partitions = lookups.partitions(options.subscription)
    if not partitions:
        _log.warning("%s matches no topic", options.subscription)
        return []
    starts = resolve(starting, partitions, lookups, late=options.late_timestamps)
    ends = resolve(ending, partitions, lookups, late="latest")
    if ending.kind == "offsets":
        _check_ends(ends, ending, lookups, fail=options.fail_on_data_loss)
    given = starting.kind == ending.kind == "offsets"
    for tp in partitions:
        if starts[tp] > ends[tp]:
            raise OffsetsError(
                f"{'UNRESOLVED' if given else 'RESOLVED'}_START_OFFSET_GREATER_THAN_END_OFFSET",
                f"{tp}: the start, offset {starts[tp]} ({starting.option}), lies after the end, offset {ends[tp]}"
                f" ({ending.option})",
            )
    return [OffsetRange(tp.topic, tp.partition, starts[tp], ends[tp]) for tp in partitions]


def resolve(
    bound: Bound, partitions: Sequence[TopicPartition], lookups: Lookups, *, late: str
) -> dict[TopicPartition, int]:
    """The offset of each partition.

    Args:
        late: where to go if no record is at or after a timestamp: ``latest``, or ``error``.
    """
    if bound.kind == "group":
        committed = lookups.committed(bound.group, partitions)
        rest = [tp for tp in partitions if tp not in committed]
        if rest:
            names = ", ".join(map(str, rest))
            _log.warning("group %r has committed nothing for %s: beginning with the earliest there", bound.group, names)
        return dict(committed) | known_offsets(lookups.offsets(dict.fromkeys(rest, EARLIEST)), bound.option)
    if bound.kind in _FIXED:
        return known_offsets(lookups.offsets(dict.fromkeys(partitions, _FIXED[bound.kind])), bound.option)
    if bound.kind == "offsets":
        _check_names(bound, partitions, "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED")
        open_ends = {tp: bound.numbers[tp] for tp in partitions if bound.numbers[tp] < 0}
        return {tp: bound.numbers[tp] for tp in partitions} | known_offsets(lookups.offsets(open_ends), bound.option)
    if bound.kind == "timestamps":
        _check_names(bound, partitions, "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED")
        times = {tp: bound.numbers[tp] for tp in partitions}
    else:
        times = dict.fromkeys(partitions, bound.timestamp)
    found = lookups.offsets(times)
    nothing = [tp for tp in partitions if found[tp] is None]
    if nothing and late == "error":
        raise OffsetsError(
            "KAFKA_NO_OFFSET_FOR_TIMESTAMP",
            f"{bound.option}: no record is at or after that time in "
            + ", ".join(f"{tp} ({times[tp]})" for tp in nothing)
            + "; startingOffsetsByTimestampStrategy=latest begins at the end there",
        )
    return {tp: offset for tp, offset in found.items() if offset is not None} | known_offsets(
        lookups.offsets(dict.fromkeys(nothing, LATEST)), bound.option
    )


def known_offsets(offsets: Mapping[TopicPartition, int | None], option: str) -> dict[TopicPartition, int]:
    """Offsets that were looked up, all of which must be known.

    Args:
        option: what they are for.
    """
    known = {tp: offset for tp, offset in offsets.items() if offset is not None}
    if len(known) < len(offsets):
        lost = sorted(offsets.keys() - known.keys())
        raise OffsetsError(
            "KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
            f"{option}: the brokers tell no offset for {', '.join(map(str, lost))}",
        )
    return known


def _check_names(bound: Bound, partitions: Iterable[TopicPartition], condition: str) -> None:
    given, wanted = set(bound.numbers), set(partitions)
    if given == wanted:
        return
    parts = [
        f"{what} {', '.join(map(str, sorted(which)))}"
        for what, which in (("it lacks", wanted - given), ("it names in vain", given - wanted))
        if which
    ]
    raise OffsetsError(
        condition,
        f"{bound.option} must name exactly the partitions that are read: {'; '.join(parts)}. In offsets, -1 stands for"
        " the latest and -2 for the earliest",
    )


def _check_ends(ends: dict[TopicPartition, int], ending: Bound, lookups: Lookups, *, fail: bool) -> None:
    """Ends that the user gave must have been reached: a task would wait for the rest until it times out."""
    latest = known_offsets(
        lookups.offsets(dict.fromkeys((tp for tp in ends if ending.numbers[tp] >= 0), LATEST)), ending.option
    )
    for tp, offset in latest.items():
        if ends[tp] <= offset:
            continue
        text = f"{tp} ends at offset {offset}, before offset {ends[tp]} ({ending.option})"
        if fail:
            raise OffsetsError(
                "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
                f"{text}; failOnDataLoss=false reads what there is",
            )
        _log.warning("%s; reading what there is", text)
        ends[tp] = offset
