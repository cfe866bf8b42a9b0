"""``python -m tests.fuzz.ahead``: threads that decompress ahead, without Python, under gcc's sanitizers.

::

    python -m tests.fuzz.ahead --inputs 1000000 --sanitizer thread --mode faults

``ahead.c`` describes its work and its modes. An input is one compressed batch, half of them changed in a few bytes.
Without names all modes are run under both sanitizers, and forks under a third one.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import click

from pyconsumer.protocol.records import BatchBuilder, scan
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD
from pyconsumer.protocol.records.compression import Codec, decompress
from tests.unit.protocol.records.helpers import raw_batch, streamed

ROOT = Path(__file__).parents[2]
_NATIVE = ROOT / "pyconsumer/protocol/records/native"
SANITIZERS = {"address": "address,undefined", "thread": "thread", "undefined": "undefined"}
MODES = ("plain", "faults", "forks", "dying")
#: In a child that was forked beside threads, the locks of the sanitizers' own allocators may be held for ever.
_SKIPPED = {("thread", "forks"), ("address", "forks")}
_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=32",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:report_thread_leaks=0",
}


@click.command(help="Decompress ahead under sanitizers.")
@click.option("--inputs", default=100_000, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=1, show_default=True)
@click.option("--readers", default=3, show_default=True, type=click.IntRange(1, 16))
@click.option("--sanitizer", "sanitizers", multiple=True, type=click.Choice(list(SANITIZERS)))
@click.option("--mode", "modes", multiple=True, type=click.Choice(MODES))
def main(inputs: int, seed: int, readers: int, sanitizers: tuple[str, ...], modes: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        corpus.write_bytes(make_corpus(seed))
        for sanitizer in sanitizers or SANITIZERS:
            program = build(Path(folder), sanitizer)
            for mode in modes or MODES:
                if (sanitizer, mode) in _SKIPPED or (not modes and sanitizer == "undefined" and mode != "forks"):
                    continue
                start = time.monotonic()
                done = run(program, corpus, inputs, seed=seed, readers=readers, mode=mode)
                if done.returncode:
                    raise click.ClickException(f"{sanitizer}, {mode}: exit status {done.returncode}\n{done.stderr}")
                click.echo(f"{sanitizer}: {done.stdout.strip()}; {time.monotonic() - start:.0f} s")


def build(folder: Path, sanitizer: str) -> Path:
    """Compile the harness. Return the program."""
    program = folder / f"ahead-{sanitizer}"
    flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-fwrapv", "-pthread", f"-I{_NATIVE}"]
    # Memory that is kept for reuse would hide that it is used too late.
    flags += [f"-fsanitize={SANITIZERS[sanitizer]}", "-fno-sanitize-recover=all"]
    flags += ["-DPYCONSUMER_NO_POOL", "-DPYCONSUMER_FAULTS"]
    sources = [Path(__file__).with_suffix(".c")]
    sources += [_NATIVE / name for name in ("ahead.c", "decompress.c", "libraries.c")]
    subprocess.run(["gcc", *flags, *sources, "-ldl", "-o", program], check=True)
    return program


def run(
    program: Path, corpus: Path, inputs: int, *, seed: int = 1, readers: int = 3, mode: str = "plain"
) -> subprocess.CompletedProcess[str]:
    """Run the harness."""
    command = [program, corpus, str(inputs), str(seed), str(readers), mode]
    return subprocess.run(command, env={**os.environ, **_OPTIONS}, capture_output=True, text=True, check=False)


def make_corpus(seed: int, batches: int = 400) -> bytes:
    """Return batches of all three codecs, small and large, each after its codec and size."""
    chance = random.Random(seed)
    words = [chance.randbytes(chance.randrange(2, 12)).hex().encode() for _ in range(200)]
    found = []
    for _ in range(batches):
        builder = BatchBuilder(chance.choice(("snappy", "lz4", "zstd")))
        length = chance.choice((1, 5, 20, 200))
        for number in range(chance.choice((1, 3, 20, 100)) if length < 200 else chance.randrange(1, 40)):
            text = b" ".join(chance.choices(words, k=length))
            value = text if chance.random() < 0.9 else chance.randbytes(10 * length)
            builder.try_append(1_700_000_000_000 + number, None, value, relative_offset=number)
        data = bytes(builder.build(0))
        if scan(data)[0].codec == Codec.ZSTD and chance.random() < 0.5:  # as Java's producer has it
            records = decompress(Codec.ZSTD, data[BATCH_OVERHEAD:])
            data = raw_batch(streamed(records), builder.record_count, attributes=Codec.ZSTD)
        found.append(struct.pack(">II", scan(data)[0].codec, len(data)) + data)
    return b"".join(found)


if __name__ == "__main__":
    main()
