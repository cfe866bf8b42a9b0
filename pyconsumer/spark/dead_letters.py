"""``split_batches``: the function for ``foreachBatch`` that sends records that could not be decoded to a topic.

Rules

1. A row is bad if ``decodeError`` is not null. Each row is on exactly one side.
2. If the good rows go to a topic, both sides are one write of the exactly-once sink. Each row is looked at once, and
   both sides of a batch become visible together, once.
3. If the good rows go to a function, the dead letters are written first, exactly once. Then the function gets the good
   rows. A batch that is repeated after a crash does not repeat its dead letters.
4. A dead letter has the bytes of key and value as they came, and its own headers if the frame has them. The headers of
   :data:`HEADERS` are added, under the names of :class:`pyconsumer.workers.DeadLetters`.
5. A stream from which these bytes cannot be had is refused before its first write. Which sides were decoded stands in
   the metadata of ``decodeError``, since a job may replace the columns themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.schema import DECODE_ERROR
from pyconsumer.spark.schema import HEADERS as HEADER_COLUMN
from pyconsumer.spark.typed_rows import decoded_sides
from pyconsumer.spark.value_options import SIDES

__all__ = ["HEADERS", "split_batches"]

_MOST_TEXT: Final = 1_000

#: Headers of a dead letter, with the expressions of their values.
HEADERS: Final = {
    "dead-letter.topic": "topic",
    "dead-letter.partition": "cast(partition AS string)",
    "dead-letter.offset": "cast(offset AS string)",
    "dead-letter.timestamp": "cast(unix_millis(timestamp) AS string)",
    "dead-letter.stage": f"{DECODE_ERROR}.stage",
    "dead-letter.error": f"substring({DECODE_ERROR}.reason, 1, {_MOST_TEXT})",
}
_REFUSED: Final = ("topic", *(f"{side}.format" for side in SIDES))
_NEEDED: Final = ("topic", "partition", "offset", "timestamp", DECODE_ERROR)


def split_batches(
    good: str | Callable[[Any, int], object],
    dead: str,
    *,
    app_id: str,
    options: Mapping[str, object],
    value: str = "to_json(value)",
) -> Callable[[Any, int], None]:
    """Return a function for ``foreachBatch`` that separates good rows from bad ones.

    The stream is one with typed columns, ``onDecodeError=null`` and ``includeBytes=true``::

        orders.writeStream.foreachBatch(
            split_batches("orders-json", "orders-dead", app_id="orders-job", options={"kafka.bootstrap.servers": "..."})
        )

    Args:
        good: the topic for the good rows. Or a function that gets the good rows and the number of the batch. It may be
            called again for a batch, after a crash, so it writes in a way that can be repeated.
        dead: the topic for the bad rows.
        app_id: the name of this job, as in the option ``txnAppId``: letters, digits, ``-`` and ``_``. Do not change it.
        options: options of the sink, such as ``kafka.bootstrap.servers``.
        value: a SQL expression for the values of the good rows, text or binary, if ``good`` is a topic.

    Returns:
        The function. It raises ConfigurationError if the stream lacks a column.

    Raises:
        ConfigurationError: an option names a topic or a format.

    Source: the pattern of Spark's documentation for ``foreachBatch``, with the write's number as in Delta Lake.
    """
    plain = {name: str(text) for name, text in options.items()}
    for name in plain:
        if name.lower() in _REFUSED:
            raise ConfigurationError(
                f"option {name} cannot be given here: good rows and dead letters are one write of bytes, each side to"
                " its own topic. Name the topics by the arguments good and dead"
            )

    def split(frame: Any, batch_id: int) -> None:
        _check(frame)
        if isinstance(good, str):
            both = frame.selectExpr(*_both(frame, good, dead, value))
            _write(both, {**plain, "progressTopic": dead}, app_id, batch_id)
            return
        kept = frame.persist()
        try:
            letters = kept.filter(f"{DECODE_ERROR} IS NOT NULL").selectExpr(*_letters(kept))
            _write(letters, {**plain, "topic": dead}, app_id, batch_id)
            extra = [name for name in ("key_bytes", "value_bytes", DECODE_ERROR) if name in kept.columns]
            good(kept.filter(f"{DECODE_ERROR} IS NULL").drop(*extra), batch_id)
        finally:
            kept.unpersist()

    return split


def _check(frame: Any) -> None:
    lacking = [name for name in _NEEDED if name not in frame.columns]
    if not lacking:
        decoded = decoded_sides(frame.schema)
        lacking = [found for side in SIDES if (found := _lacking(frame, side, SIDES if decoded is None else decoded))]
    if lacking:
        raise ConfigurationError(
            f"the stream lacks the columns {', '.join(lacking)}, which dead letters need: set onDecodeError=null and"
            " includeBytes=true, and name them if you set columns. If the job makes the column decodeError itself, it"
            " gives the bytes of both sides, such as key AS key_bytes"
        )


def _lacking(frame: Any, side: str, decoded: Collection[str]) -> str | None:
    """Return the name of the column that has the bytes of a key or value, if it is not there."""
    if f"{side}_bytes" in frame.columns:
        return None
    if side in decoded:
        return f"{side}_bytes"
    is_raw = side in frame.columns and frame.schema[side].dataType.typeName() == "binary"
    return None if is_raw else side


def _raw(frame: Any, side: str) -> str:
    """Return the expression of a key's or value's bytes."""
    return f"{side}_bytes" if f"{side}_bytes" in frame.columns else side


def _added(frame: Any) -> str:
    """Return the expression of a dead letter's headers."""
    pairs = ", ".join(
        f"named_struct('key', '{name}', 'value', cast({text} AS binary))" for name, text in HEADERS.items()
    )
    own = f"coalesce({HEADER_COLUMN}, array())" if HEADER_COLUMN in frame.columns else None
    return f"array({pairs})" if own is None else f"concat({own}, array({pairs}))"


def _letters(frame: Any) -> list[str]:
    return [f"{_raw(frame, 'key')} AS key", f"{_raw(frame, 'value')} AS value", f"{_added(frame)} AS headers"]


def _both(frame: Any, good: str, dead: str, value: str) -> list[str]:
    """Return the columns of the write that has both sides (rule 2)."""
    is_good = f"{DECODE_ERROR} IS NULL"
    own = HEADER_COLUMN if HEADER_COLUMN in frame.columns else "cast(null AS array<struct<key:string,value:binary>>)"
    return [
        f"CASE WHEN {is_good} THEN '{_quoted(good)}' ELSE '{_quoted(dead)}' END AS topic",
        f"{_raw(frame, 'key')} AS key",
        f"CASE WHEN {is_good} THEN cast(({value}) AS binary) ELSE {_raw(frame, 'value')} END AS value",
        f"CASE WHEN {is_good} THEN {own} ELSE {_added(frame)} END AS headers",
    ]


def _quoted(topic: str) -> str:
    return topic.replace("\\", "\\\\").replace("'", "\\'")


def _write(frame: Any, options: Mapping[str, str], app_id: str, batch_id: int) -> None:
    (
        frame.write.format("pyconsumer")
        .mode("append")
        .options(**options)
        .option("deliveryGuarantee", "exactly-once")
        .option("txnAppId", app_id)
        .option("txnVersion", batch_id)
        .save()
    )
