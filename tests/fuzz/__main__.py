"""``python -m tests.fuzz``: reads mutated record sets and fails at the first that is read wrongly.

::

    python -m tests.fuzz --inputs 10000000 --sanitize

builds the compiled parts with gcc's sanitizers for addresses and undefined behaviour, uses their types oddly (see
``odd.py``), and gives the decoder ten million inputs. An input is one buffer of bytes, read to its end. One in 20 is
new, and is read in steps. With ``--compare N`` each N-th of those is read by the decoder in Python, too: the two must
not differ in a record, an error or a position. The others are that input with one or a few bytes changed, and are read
by the compiled decoder alone. Each is read in another way: records or columns, all or few at a time, from one offset or
another. A thousand inputs that take a minute are a hang. A failing input is printed, and made again by seed and number:
``--seed 1 --first 123000 --inputs 1000``.
"""

from __future__ import annotations

import faulthandler
import importlib
import importlib.util
import os
import resource
import sys
import time
import types

import click

from tests.fuzz.sanitized import ROOT, built_file, run_sanitized

_NATIVE = ROOT / "pyconsumer/protocol/records/native"
_MODULE = "pyconsumer.protocol.records._native"
_PRODUCER = ROOT / "pyconsumer/producer/native"
_PRODUCER_MODULE = "pyconsumer.producer._native"
_ROUND = 1000  # inputs from one seed
_VARIANTS = 20


@click.command(help="Read mutated record sets with both decoders.")
@click.option("--inputs", default=100_000, show_default=True, type=click.IntRange(1))
@click.option("--first", default=0, show_default=True, help="Number of the first input, in whole thousands.")
@click.option("--seed", default=1, show_default=True)
@click.option("--compare", default=1, show_default=True, help="Every N-th new input is read by both.")
@click.option("--sanitize", is_flag=True, help="With sanitizers; needs gcc.")
@click.option("--odd", default=3, show_default=True, help="Rounds of odd use.")
@click.option("--most-memory", default=2000, show_default=True, help="MB that the process may take.")
def main(inputs: int, first: int, seed: int, compare: int, sanitize: bool, odd: int, most_memory: int) -> None:
    if sanitize and built_file(_MODULE) is None:
        raise SystemExit(run_sanitized("tests.fuzz", sys.argv[1:], {_MODULE: _NATIVE, _PRODUCER_MODULE: _PRODUCER}))
    _load_sanitized()
    from tests.unit.protocol.records.helpers import decoder_named

    native = decoder_named("native")
    if native is None:
        raise click.ClickException("the compiled decoder was not built")
    if odd:
        from tests.fuzz.odd import play

        faulthandler.dump_traceback_later(300, exit=True)
        click.echo(play(compiled_modules(), seed, odd))
    start = time.monotonic()
    compared = 0
    for begin in range(first - first % _ROUND, first + inputs, _ROUND):
        faulthandler.dump_traceback_later(60, exit=True)
        compared += _play(begin, seed, compare)
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        if used > most_memory:
            raise click.ClickException(f"{used} MB are in use after input {begin + _ROUND}")
        done = begin + _ROUND - first
        if done % 100_000 < _ROUND:
            click.echo(f"{done} inputs, {time.monotonic() - start:.0f} s, at most {used} MB")
    faulthandler.cancel_dump_traceback_later()
    click.echo(
        f"{inputs} inputs from {first} on, seed {seed}, {compared} of them read by both: no difference, no damage;"
        f" {time.monotonic() - start:.0f} s, {time.process_time():.0f} s of them on a core, at most {used} MB"
    )


def _play(begin: int, seed: int, compare: int) -> int:
    """Read the thousand inputs from a number on. Return the number of those read by both decoders."""
    from tests.fuzz.compare import WAYS, difference, read, read_quickly
    from tests.fuzz.mutate import Inputs
    from tests.unit.protocol.records.helpers import PURE, decoder_named

    native = decoder_named("native")
    assert native is not None
    made = Inputs(seed << 40 | begin)
    compared = 0
    for number in range(begin, begin + _ROUND, _VARIANTS):
        data: bytes | bytearray = made.next()
        wrong = None
        try:
            found = read(native, data, number)
            if number // _VARIANTS % compare == 0:
                compared += 1
                wrong = difference(found, read(PURE, data, number))
            for way, data in enumerate(made.variants(data, _VARIANTS - 1), number):  # noqa: B020
                read_quickly(native, data, way % WAYS)
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            raise click.ClickException(f"input {number} (seed {seed}), {data.hex()}\n{wrong}")
    return compared


def _load_sanitized() -> None:
    """Use the sanitized module as the compiled decoder, and the other one as the compiled producer."""
    if built_file(_MODULE) is None:
        return
    os.environ["PYCONSUMER_PURE"] = "1"  # so that the other ones are not loaded
    from pyconsumer import producer
    from pyconsumer.protocol import records

    for name, package in ((_MODULE, records), (_PRODUCER_MODULE, producer)):
        spec = importlib.util.spec_from_file_location(name, built_file(name))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        package._native = module  # type: ignore[attr-defined]
    click.echo(f"sanitized modules: {built_file(_MODULE)}, {built_file(_PRODUCER_MODULE)}")


def compiled_modules() -> list[types.ModuleType]:
    """Return the compiled modules: the sanitized ones if these were loaded."""
    return [importlib.import_module(name) for name in (_MODULE, _PRODUCER_MODULE)]


if __name__ == "__main__":
    main()
