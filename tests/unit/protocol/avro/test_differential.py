"""The compiled coders of Avro against their twins, over random schemas, values and damaged bytes. fastavro judges."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyconsumer.protocol.avro import (
    AvroDecodeError,
    AvroEncodeError,
    AvroResolutionError,
    _pure,
    parse_schema,
    read_plan,
    write_plan,
)
from pyconsumer.protocol.avro.coder import REVISION
from pyconsumer.protocol.compiled import load_compiled
from tests.support.avro_values import Values, damaged, evolved
from tests.support.examples import examples

native = load_compiled("pyconsumer.protocol.avro._native", REVISION)[0]
needs_compiled = pytest.mark.skipif(native is None, reason="the compiled coder is not in use")

#: One test for all seeds: thousands of tests cost more than what they compute.
SEEDS = range(examples(300))


@contextmanager
def noted(seed: int) -> Iterator[None]:
    """Let an error name its seed."""
    try:
        yield
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise


def verdict(call: Callable[[], Any]) -> Any:
    """Return a result that can be compared: NaN equals itself, and 1, True and 1.0 differ."""
    try:
        return "value", repr(call())
    except (AvroDecodeError, AvroEncodeError) as error:
        return type(error).__name__, str(error)


@needs_compiled
def test_the_twins_agree() -> None:
    for seed in SEEDS:
        with noted(seed):
            check_twins(seed)


def check_twins(seed: int) -> None:
    values = Values(seed)
    source = values.record() if seed % 2 else values.schema()
    schema = parse_schema(json.dumps(source))
    encoders = native.Encoder(write_plan(schema)), _pure.Encoder(write_plan(schema))
    plan = read_plan(schema, return_record_name=seed % 3 == 0)
    decoders = [native.Decoder(plan, 10_000), _pure.Decoder(plan, 10_000)]
    try:
        later = read_plan(schema, parse_schema(json.dumps(evolved(source, values.random))))
        decoders += [native.Decoder(later, 10_000), _pure.Decoder(later, 10_000)]
    except AvroResolutionError:
        pass
    for _ in range(10):
        value = values.value(schema.root)
        data = encoders[0].encode(value)
        assert data == encoders[1].encode(value)
        for tried in (data, *(damaged(data, values.random) for _ in range(10))):
            for compiled, twin in zip(decoders[::2], decoders[1::2], strict=True):
                assert verdict(lambda: compiled.decode(tried)) == verdict(lambda: twin.decode(tried)), (  # noqa: B023
                    source,
                    tried,
                )


@needs_compiled
def test_the_twins_refuse_and_choose_branches_alike() -> None:
    for seed in SEEDS:
        with noted(seed):
            check_refusals(seed)


def check_refusals(seed: int) -> None:
    """Values of one schema are given to another, without the names of branches."""
    values = Values(1000 + seed)
    source = ["null", "float", "double", values.record()] if seed % 2 else values.schema()
    wanted = parse_schema(json.dumps(source))
    compiled, twin = native.Encoder(write_plan(wanted)), _pure.Encoder(write_plan(wanted))
    for _ in range(20):
        given = parse_schema(json.dumps(values.schema()))
        value = bare(values.value(given.root if values.random.random() < 0.5 else wanted.root))
        assert verdict(lambda: compiled.encode(value)) == verdict(lambda: twin.encode(value))  # noqa: B023
        assert compiled.matches(value) == twin.matches(value)


def bare(value: Any) -> Any:
    """Take the names of branches away."""
    if isinstance(value, tuple) and len(value) == 2:
        return bare(value[1])
    if isinstance(value, list):
        return [bare(item) for item in value]
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items()}
    return value


# -- fastavro ----------------------------------------------------------------------------------------------------------


def as_fastavro(value: Any) -> Any:
    """Return a value as fastavro reads it: durations are bytes there."""
    if isinstance(value, _pure.AvroDuration):
        return _pure.duration_bytes(value)
    if isinstance(value, list):
        return [as_fastavro(item) for item in value]
    if isinstance(value, dict):
        return {key: as_fastavro(item) for key, item in value.items()}
    return value


def for_fastavro(value: Any) -> Any:
    if isinstance(value, tuple):
        return _pure.duration_bytes(value) if len(value) == 3 else (value[0], for_fastavro(value[1]))
    if isinstance(value, list):
        return [for_fastavro(item) for item in value]
    if isinstance(value, dict):
        return {key: for_fastavro(item) for key, item in value.items()}
    return value


def test_fastavro_reads_and_writes_the_same() -> None:
    pytest.importorskip("fastavro")
    for seed in SEEDS:
        with noted(seed):
            check_bytes(seed)


def check_bytes(seed: int) -> None:
    import fastavro

    values = Values(2000 + seed)
    source = values.record()
    schema = parse_schema(source)
    parsed = fastavro.parse_schema(source)
    encoder, decoder = _pure.Encoder(write_plan(schema)), _pure.Decoder(read_plan(schema))
    for _ in range(10):
        value = values.value(schema.root)
        data = encoder.encode(value)
        written = io.BytesIO()
        fastavro.schemaless_writer(written, parsed, for_fastavro(value))
        assert written.getvalue() == data
        assert repr(as_fastavro(decoder.decode(data))) == repr(fastavro.schemaless_reader(io.BytesIO(data), parsed))


def test_fastavro_resolves_alike() -> None:
    pytest.importorskip("fastavro")
    for seed in SEEDS:
        with noted(seed):
            check_resolution(seed)


def check_resolution(seed: int) -> None:
    import fastavro

    values = Values(3000 + seed)
    source = values.record(2)
    later = evolved(source, random.Random(seed))
    schema, reader = parse_schema(source), parse_schema(later)
    encoder = _pure.Encoder(write_plan(schema))
    try:
        decoder = _pure.Decoder(read_plan(schema, reader))
    except AvroResolutionError:
        decoder = None
    for _ in range(5):
        data = encoder.encode(values.value(schema.root))
        theirs = read_by_fastavro(fastavro, data, source, later)
        if decoder is None:
            continue  # fastavro decides by value, and may find one that it can read
        try:
            ours = decoder.decode(data)
        except AvroDecodeError:
            continue
        if theirs is not None:
            assert same(as_fastavro(ours), theirs), (source, later, data)


def read_by_fastavro(fastavro: Any, data: bytes, source: Any, later: Any) -> Any:
    try:
        return fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(source), fastavro.parse_schema(later))
    except Exception:
        return None


def same(ours: Any, theirs: Any) -> bool:
    """Compare values. Of a reader's union fastavro takes the first branch by promotion, we one of the same type."""
    if isinstance(ours, dict):
        return isinstance(theirs, dict) and ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, int) and isinstance(theirs, float):
        return float(ours) == theirs
    if isinstance(ours, str) and isinstance(theirs, bytes):
        return ours.encode() == theirs
    return bool(ours == theirs) or repr(ours) == repr(theirs)
