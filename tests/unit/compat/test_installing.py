"""``pyconsumer.compat.install``: modules, metadata, refusals. Each program runs in a Python of its own."""

from __future__ import annotations

import importlib
import importlib.util
import json
import pickle
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pyconsumer.compat import installing
from pyconsumer.compat.layers import LAYERS
from pyconsumer.compat.missing import MISSING_MODULES, row_of
from tests.unit.compat.conftest import ROOT, Program

_PTH = ROOT / "pyconsumer" / "compat" / "pyconsumer-compat.pth"
_INSTALL = "import pyconsumer.compat; pyconsumer.compat.install('aiokafka', 'kafka')\n"


def test_a_module_has_one_object_and_runs_once(program: Program) -> None:
    done = program(
        _INSTALL
        + """
import sys
import aiokafka, kafka
import aiokafka.errors
import aiokafka.coordinator.assignors.roundrobin as alias
from aiokafka.producer.producer import _missing
from kafka.admin import NewTopic
from aiokafka.consumer import consumer
import kafka.record.abc

for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] in ("aiokafka", "kafka"):
        ours = f"pyconsumer.compat.{name}"
        assert module is sys.modules[ours], name
        assert (module.__name__, module.__spec__.name) == (ours, ours)
        parent, _, child = name.rpartition(".")
        assert not parent or getattr(sys.modules[parent], child) is module, name
        assert not hasattr(module, "original")
files = [module.__file__ for name, module in sys.modules.items() if name.startswith("pyconsumer.compat.")]
assert len(files) == len(set(files)), "a file ran twice"
assert alias is sys.modules["aiokafka.coordinator.assignors.roundrobin"]
assert aiokafka.AIOKafkaConsumer is consumer.AIOKafkaConsumer
assert aiokafka.AIOKafkaConsumer.__module__ == "pyconsumer.compat.aiokafka.consumer.consumer"
print(aiokafka.__version__, kafka.__version__)
"""
    )
    assert done.lines == [f"{LAYERS['aiokafka'].version} {LAYERS['kafka'].version}"]


@pytest.mark.slow
def test_tools_that_replace_and_reload_modules(program: Program) -> None:
    assert (
        program(
            _INSTALL
            + """
import importlib, inspect, sys
from unittest import mock
import aiokafka

with mock.patch("aiokafka.AIOKafkaProducer.send", "patched"), mock.patch("aiokafka.helpers.create_ssl_context", 5):
    assert aiokafka.producer.producer.AIOKafkaProducer.send == "patched"
    assert sys.modules["pyconsumer.compat.aiokafka.helpers"].create_ssl_context == 5
assert aiokafka.AIOKafkaProducer.send != "patched"

import aiokafka.helpers as before
before.create_ssl_context = None
after = importlib.reload(before)
assert after is before is sys.modules["aiokafka.helpers"] is sys.modules["pyconsumer.compat.aiokafka.helpers"]
assert callable(before.create_ssl_context)
assert before.__spec__.name == "pyconsumer.compat.aiokafka.helpers"
assert inspect.getsource(before).startswith('\"\"\"``aiokafka.helpers``')
assert importlib.util.find_spec("aiokafka.helpers") is not None
assert importlib.util.find_spec("kafka").submodule_search_locations
"""
        ).returncode
        == 0
    )


@pytest.mark.slow
def test_import_hooks_of_wrapt_run_under_the_name_that_was_imported(program: Program, originals: Path) -> None:
    (originals / "wrapt.py").write_text(
        "seen = []\ndef notify_module_loaded(module): seen.append((module.__name__, module))\n"
    )
    assert (
        program(
            _INSTALL
            + """
import sys, wrapt
from aiokafka import AIOKafkaConsumer
seen = dict(wrapt.seen)
assert seen["aiokafka"] is sys.modules["aiokafka"]
assert seen["aiokafka.consumer.consumer"].AIOKafkaConsumer is AIOKafkaConsumer, "imported by the package"
assert "aiokafka.helpers" not in seen
from aiokafka import helpers
assert dict(wrapt.seen)["aiokafka.helpers"] is sys.modules["aiokafka.helpers"] is helpers
assert not [name for name, module in wrapt.seen if module.__name__ != f"pyconsumer.compat.{name}"]
"""
        ).returncode
        == 0
    )


def test_our_modules_that_were_imported_before_have_both_names(program: Program) -> None:
    assert (
        program(
            """
import sys
import pyconsumer.compat.aiokafka as ours
pyconsumer = sys.modules["pyconsumer"]
pyconsumer.compat.install("aiokafka")
import aiokafka
assert aiokafka is ours and sys.modules["aiokafka.errors"] is ours.errors
"""
        ).returncode
        == 0
    )


def test_pickles_name_our_modules(program: Program) -> None:
    done = program(
        _INSTALL
        + """
import pickle, sys
from aiokafka.structs import TopicPartition
from aiokafka.errors import KafkaError
print(pickle.dumps([TopicPartition("t", 1), KafkaError]).hex())
"""
    )
    found = pickle.loads(bytes.fromhex(done.stdout.strip()))  # this process has no install
    assert found[0] == ("t", 1)
    assert found[1].__module__.startswith("pyconsumer.")
    assert "aiokafka" not in installing.installed()


@pytest.mark.slow
def test_a_pickle_that_names_the_originals_modules_loads(program: Program) -> None:
    assert (
        program(
            _INSTALL
            + r"""
import pickle
partition = pickle.loads(b"caiokafka.structs\nTopicPartition\n(Vt\nI1\ntR.")
assert tuple(partition) == ("t", 1) and type(partition).__module__.startswith("pyconsumer.")
"""
        ).returncode
        == 0
    )


def test_a_module_without_counterpart_names_its_row(program: Program) -> None:
    done = program(
        _INSTALL
        + """
import importlib.util, json
def message(text):
    try:
        exec(text)
    except ImportError as error:
        return type(error).__name__, error.name, str(error)

print(json.dumps([message(text) for text in (
    "import kafka.metrics", "import kafka.metrics.stats.avg", "from kafka import metrics",
    "import kafka.nothing", "from kafka import nothing",
)]))
assert importlib.util.find_spec("kafka.nothing") is None
import sys
assert not [name for name in sys.modules if "compat" in name and "metrics" in name]
"""
    )
    row = "kafka.metrics has no counterpart in pyconsumer.compat. See `kafka.metrics` in the table of modules"
    found = json.loads(done.stdout)
    for kind, name, text in found[:3]:
        assert (kind, name) == ("ImportError", "kafka.metrics")
        assert text.startswith(row)
    assert found[3] == ["ModuleNotFoundError", "kafka.nothing", "No module named 'kafka.nothing'"]
    assert found[4][0] == "ImportError"


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_every_module_of_the_original_is_there_or_has_a_row(name: str) -> None:
    original = importlib.util.find_spec(name)
    if original is None or not original.submodule_search_locations:
        pytest.skip(f"needs {name}")
    (folder,) = original.submodule_search_locations
    neither = []
    for path in sorted(Path(folder).rglob("*.py")):
        parts = (name, *path.relative_to(folder).with_suffix("").parts)
        module = ".".join(parts).removesuffix(".__init__")
        if row_of(module) is None:
            home = ROOT.joinpath("pyconsumer", "compat", *module.split("."))
            if not (home.with_suffix(".py").exists() or (home / "__init__.py").exists()):
                neither.append(module)
    assert neither == []


def test_every_row_stands_in_the_page() -> None:
    page = (ROOT / "docs" / "porting.md").read_text()
    start = page.index("| module of the original | instead |")
    table = page[start : page.index("\n\n", start)]
    rows = dict(re.findall(r"^\| (`.*?) \| (.*) \|$", table, re.MULTILINE))
    found = {name.strip("`"): instead for names, instead in rows.items() for name in names.split(", ")}
    assert found == MISSING_MODULES


@pytest.mark.slow
def test_names_below_the_public_modules_that_frameworks_import(program: Program) -> None:
    program(
        _INSTALL
        + """
import aiokafka.producer.producer
from aiokafka.consumer.group_coordinator import GroupCoordinator  # FastStream
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata  # Faust
from aiokafka.producer.message_accumulator import BatchBuilder  # kstreams, FastKafka
from aiokafka.producer.producer import _missing  # FastStream
from aiokafka.util import create_future  # Faust

assert aiokafka.producer.producer.BatchBuilder is BatchBuilder, "the class that create_batch returns"
"""
    )


def test_metadata_is_that_of_the_copied_version(program: Program) -> None:
    done = program(
        _INSTALL
        + """
import json
from importlib.metadata import distribution, distributions, entry_points, requires, version
names = ["aiokafka", "kafka-python", "kafka_python", "Kafka.Python"]
print(json.dumps([version(name) for name in names]))
assert distribution("aiokafka").metadata["Name"] == "aiokafka"
assert all(text.startswith("pyconsumer") for text in requires("kafka-python"))
assert [each.version for each in distributions(name="aiokafka")][0] == version("aiokafka")
assert not distribution("kafka-python").files and not distribution("kafka-python").entry_points
entry_points()
import sys
assert [each.version for each in distributions(name="aiokafka", path=[sys.path[1]])] == ["9.9"], "a folder's own"
pyconsumer.compat.uninstall("aiokafka", "kafka")
assert version("aiokafka") == version("kafka-python") == "9.9"
"""
    )
    ours = {name: layer.version for name, layer in LAYERS.items()}
    assert json.loads(done.stdout) == [ours["aiokafka"], *[ours["kafka"]] * 3]


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_a_layer_names_the_version_of_its_module(name: str) -> None:
    assert importlib.import_module(LAYERS[name].home).__version__ == LAYERS[name].version


def test_install_refuses_after_the_original_and_names_who_holds_it(program: Program, originals: Path) -> None:
    (originals / "by_module.py").write_text("import aiokafka.errors\n")
    (originals / "by_class.py").write_text("from aiokafka import Client\n")
    (originals / "by_object.py").write_text("from by_class import Client\nclient = Client()\ndel Client\n")
    (originals / "stranger.py").write_text("import kafka\n")
    (originals / "proxy.py").write_text(
        "class Proxy:\n    def __getattribute__(self, name): raise RuntimeError(name)\nproxy = Proxy()\n"
    )
    done = program(
        """
import by_module, by_class, by_object, stranger, proxy
import pyconsumer.compat
try:
    pyconsumer.compat.install("aiokafka")
except ImportError as error:
    print(error)
assert pyconsumer.compat.installed() == frozenset()
import os
assert not os.environ.get("PYCONSUMER_COMPAT")
"""
    )
    assert done.stdout == (
        "aiokafka was imported before pyconsumer.compat.install('aiokafka'). These modules hold something of it:"
        " by_class, by_module, by_object. Make the call the first line of the program, or start it by"
        " `python -m pyconsumer.compat aiokafka`\n"
    )


def test_installing_both_fails_as_a_whole(program: Program) -> None:
    assert (
        program(
            """
import kafka
import pyconsumer.compat
try:
    pyconsumer.compat.install("aiokafka", "kafka")
except ImportError:
    import aiokafka
    assert aiokafka.original
"""
        ).returncode
        == 0
    )


def test_a_second_install_is_ignored(program: Program) -> None:
    assert (
        program(
            """
import os, sys
import pyconsumer.compat
sys.modules["blocked"] = None
pyconsumer.compat.install("aiokafka")
before = list(sys.meta_path)
import aiokafka
pyconsumer.compat.install("aiokafka")
assert sys.meta_path == before and sys.modules["aiokafka"] is aiokafka
assert os.environ["PYCONSUMER_COMPAT"] == "aiokafka"
pyconsumer.compat.install("kafka", "kafka")
assert sys.meta_path == before
assert os.environ["PYCONSUMER_COMPAT"] == "aiokafka,kafka"
assert pyconsumer.compat.installed() == {"aiokafka", "kafka"}
"""
        ).returncode
        == 0
    )


@pytest.mark.slow
def test_uninstall_concerns_later_imports(program: Program) -> None:
    assert (
        program(
            """
import os, sys
import pyconsumer.compat
pyconsumer.compat.install("aiokafka", "kafka")
import aiokafka as held, aiokafka.errors, kafka
held_errors = held.errors
pyconsumer.compat.uninstall("aiokafka")
pyconsumer.compat.uninstall("aiokafka")
assert os.environ["PYCONSUMER_COMPAT"] == "kafka"
import aiokafka, aiokafka.errors
assert aiokafka.original and aiokafka.errors.original
assert held.AIOKafkaConsumer.__module__.startswith("pyconsumer.") and held.errors is held_errors
import kafka.errors
assert kafka.errors.__name__.startswith("pyconsumer.")
pyconsumer.compat.uninstall("kafka")
assert "PYCONSUMER_COMPAT" not in os.environ and pyconsumer.compat.installed() == frozenset()
import kafka
assert kafka.original
"""
        ).returncode
        == 0
    )


@pytest.mark.parametrize("call", [installing.install, installing.uninstall])
@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "no client is named: give 'aiokafka' or 'kafka', or both"),
        (("confluent_kafka",), "pyconsumer has no layer for 'confluent_kafka', only for 'aiokafka' or 'kafka'"),
        (("aiokafka", "kafka-python"), "pyconsumer has no layer for 'kafka-python', only for 'aiokafka' or 'kafka'"),
    ],
)
def test_wrong_names(call: Any, names: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call(*names)
    assert installing.installed() == frozenset()


def test_python_installs_the_clients_of_the_variable_when_it_starts(program: Program) -> None:
    done = program(
        "import aiokafka, kafka; print(aiokafka.AIOKafkaConsumer.__module__, kafka.original)", variable="aiokafka"
    )
    assert done.lines == ["pyconsumer.compat.aiokafka.consumer.consumer True"]


def test_python_imports_no_module_of_ours_without_the_variable(program: Program) -> None:
    loaded = "import sys; print(*sorted(name for name in sys.modules))"
    without = set(program(loaded).stdout.split())
    assert not [name for name in without if name.startswith("pyconsumer")]
    added = set(program(loaded, variable="kafka").stdout.split()) - without
    print(sorted(added))
    ours = {name for name in added if name.startswith("pyconsumer")}
    assert ours == {
        "pyconsumer",
        "pyconsumer.compat",
        "pyconsumer.compat.at_start",
        "pyconsumer.compat.installing",
        "pyconsumer.compat.layers",
        "pyconsumer.lazy_names",
    }
    assert not added & {"asyncio", "dataclasses", "inspect", "importlib.metadata", "logging", "socket", "threading"}


def test_the_line_that_python_runs_at_each_start_looks_up_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are counted, for a time depends on the machine. The times are in docs/proof/ports.md."""
    monkeypatch.delenv("PYCONSUMER_COMPAT", raising=False)
    (line,) = _PTH.read_text().splitlines()
    assert line.startswith("import "), "site runs no other lines"
    code = compile(line, str(_PTH), "exec")
    called = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append((Path(frame.f_code.co_filename).name, frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        exec(code)
    finally:
        sys.setprofile(before)
    assert called[0] == (_PTH.name, "<module>")
    assert {name for _, name in called[1:]} == {"__contains__", "__getitem__", "encode"}, "os.environ's"
    assert len(called) == 4


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("aiokafak", "PYCONSUMER_COMPAT=aiokafak: pyconsumer has no layer for 'aiokafak', only for"),
        (",", "PYCONSUMER_COMPAT=,: no client is named"),
    ],
)
def test_a_wrong_variable_ends_python(program: Program, variable: str, message: str) -> None:
    done = program("print('ran')", variable=variable, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert len(done.stderr.splitlines()) == 1
