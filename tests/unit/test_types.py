"""Types: the settings as typed keywords, no ``Any`` in results, and errors of type checkers in a user's program."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import typing
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyconsumer
import pyconsumer.admin
import pyconsumer.aio
import pyconsumer.producer
import pyconsumer.testing
from pyconsumer.admin.config import ADMIN_SETTINGS
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.settings.config import REQUIRED, Setting
from tests.support.make_typed_settings import COMMAND, ROOT, modules

PROGRAM = Path(__file__).parent / "typed" / "program.py"


def test_the_typed_settings_are_those_of_the_tables() -> None:
    for path, text in modules().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.relative_to(ROOT)} is out of date: run {COMMAND}"


@pytest.mark.parametrize(
    ("typed", "table", "apart"),
    [
        (pyconsumer.ConsumerSettings, CONSUMER_SETTINGS, {"key_deserializer", "value_deserializer"}),
        (pyconsumer.ProducerSettings, PRODUCER_SETTINGS, {"key_serializer", "value_serializer"}),
        (pyconsumer.AdminSettings, ADMIN_SETTINGS, set()),
    ],
)
def test_every_keyword_of_a_client_has_a_type(typed: type, table: typing.Any, apart: set[str]) -> None:
    keywords = {name for setting in table for name in setting.names if name.isidentifier()}
    assert typed.__annotations__.keys() == keywords - apart


def _settings() -> Iterator[Setting]:
    for table in (CONSUMER_SETTINGS, PRODUCER_SETTINGS, ADMIN_SETTINGS):
        yield from table


def test_defaults_have_the_types_that_are_written_down() -> None:
    """A kind without a type of its own would accept everything."""
    apart = ("serializer", "deserializer")  # parameters of their own
    unknown = {s.name for s in _settings() if "object" in s.kind.annotation and not s.name.endswith(apart)}
    assert unknown == {"interceptors", "sasl_kerberos_name"}  # with one of the hooks; of a package that may be missing
    simple = {"int": int, "bool": bool, "str": str}
    for setting in _settings():
        kind = simple.get(setting.kind.annotation)
        if kind is not None and setting.default is not REQUIRED and setting.name != "auto_offset_reset":
            assert isinstance(setting.default, kind), setting.name


# --- results

_PLACES = (pyconsumer, pyconsumer.aio, pyconsumer.producer, pyconsumer.admin, pyconsumer.testing)
#: What the application itself put in, or what its own classes are.
_MAY_BE_ANYTHING = {"ConsumerRecord.__reduce__"}


def _public_functions() -> Iterator[tuple[str, typing.Any]]:
    for place in _PLACES:
        for name in place.__all__:
            found = getattr(place, name)
            if inspect.isfunction(found):
                yield name, found
            elif inspect.isclass(found):
                for attribute, value in inspect.getmembers(found):
                    function = value.fget if isinstance(value, property) else value
                    if not attribute.startswith("_") and inspect.isfunction(function):
                        yield f"{name}.{attribute}", function


def test_no_result_is_of_any_type() -> None:
    vague = set()
    seen = 0
    for name, function in _public_functions():
        for each in typing.get_overloads(function) or [function]:
            seen += 1
            result = str(inspect.signature(each).return_annotation)
            if re.search(r"\bAny\b", result) or result.endswith("_empty'>"):
                vague.add(f"{name} -> {result}")
    assert vague - _MAY_BE_ANYTHING == set()
    assert seen > 150


def test_type_parameters_are_free_at_run_time() -> None:
    """An alias makes objects of the class itself, with any number of types."""
    record = pyconsumer.ConsumerRecord[str, int]("t", 0, 0, key="k", value=1)
    assert type(record) is pyconsumer.ConsumerRecord
    assert type(pyconsumer.ConsumerRecords[str, str]()) is pyconsumer.ConsumerRecords
    for generic in (
        pyconsumer.KafkaConsumer,
        pyconsumer.KafkaProducer,
        pyconsumer.aio.AsyncKafkaConsumer,
        pyconsumer.aio.AsyncKafkaProducer,
        pyconsumer.Consumer,
    ):
        assert typing.get_origin(generic[str, str]) is generic
        assert typing.get_origin(generic[str]) is generic

    class Mine(pyconsumer.KafkaConsumer[str, str]):
        """A subclass of an alias."""

    assert Mine.__mro__[1] is pyconsumer.KafkaConsumer


def test_importing_the_clients_imports_no_typed_settings() -> None:
    program = (
        "import sys, pyconsumer; pyconsumer.KafkaConsumer, pyconsumer.KafkaProducer, pyconsumer.KafkaAdminClient;"
        "print(*[name for name in sys.modules if name.endswith('typed_settings') or name == 'typing_extensions'])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert printed.stdout.split() == []


# --- type checkers


class _Expected(typing.NamedTuple):
    revealed: dict[int, str]
    errors: set[int]


def _expected() -> _Expected:
    revealed, errors = {}, set()
    for number, line in enumerate(PROGRAM.read_text("utf-8").splitlines(), 1):
        if found := re.search(r"  # reveals: (.*)$", line):
            revealed[number] = found[1]
        elif line.endswith("# error"):
            errors.add(number)
    assert len(revealed) > 30
    assert len(errors) > 15
    return _Expected(revealed, errors)


def _plain(text: str) -> str:
    """Return a type without the names of modules, and with the names of named tuples, which mypy writes as tuples."""
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text)
    while text != (shorter := re.sub(r"tuple\[[^\[\]]*, fallback=(\w+)\]", r"\1", text)):
        text = shorter
    return text


def _check(revealed: dict[int, str], errors: dict[int, list[str]], folder: str) -> None:
    expected = _expected()
    assert revealed == expected.revealed, folder
    assert errors.keys() == expected.errors, {n: errors[n] for n in errors.keys() - expected.errors}


@pytest.mark.slow
def test_mypy_finds_the_types_of_a_program_and_its_mistakes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    command += ["--ignore-missing-imports", "--no-error-summary", f"--cache-dir={tmp_path}", str(PROGRAM)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        timeout=200,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    revealed, errors = {}, defaultdict(list)
    for line in done.stdout.splitlines():
        found = re.match(r"(.*program\.py):(\d+): (error|note): (.*)", line)
        assert found is not None, done.stdout
        if found[3] == "error":
            errors[int(found[2])].append(found[4])
        elif shown := re.match(r'Revealed type is "(.*)"', found[4]):
            revealed[int(found[2])] = _plain(shown[1])
    _check(revealed, errors, "mypy")


@pytest.mark.slow
def test_pyright_finds_the_same(tmp_path: Path) -> None:
    """Its extra ``nodejs`` brings the JavaScript engine, so that no download is needed when it runs."""
    (tmp_path / "program.py").write_text(PROGRAM.read_text("utf-8"), "utf-8")
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT)],
        "useLibraryCodeForTypes": True,
        "reportUnusedExpression": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=200,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    revealed, errors = {}, defaultdict(list)
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        line = each["range"]["start"]["line"] + 1
        if each["severity"] == "information":
            shown = re.match(r'Type of ".*" is "(.*)"$', each["message"], re.DOTALL)
            assert shown is not None, each
            revealed[line] = _plain(shown[1])
        else:
            errors[line].append(each["message"])
    _check(revealed, errors, "pyright")
