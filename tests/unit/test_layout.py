"""Tests of the package's structure: imports between modules, lengths, the cost of an import, shipped files."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import syntax_trees
from tests.support.kept_readings import KeptReadings
from tests.support.syntax_trees import parse, walk

pytestmark = pytest.mark.xdist_group("sources")

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pyconsumer"

#: Layers from the bottom. A part may import what stands in a lower layer, itself, and what ``_ALSO`` grants.
_LAYERS = (
    {
        "errors",
        "structs",
        "acls",
        "quotas",
        "scram",
        "clock",
        "settings",
        "generic",
        "background_log",
        "child_python",
        "lazy_names",
        "log_fields",
        "metrics",
        "telemetry",
    },
    {"protocol", "assignors"},
    {"network"},
    {"schemas"},
    {"consumer", "producer", "admin", "broker"},
    {"exactly_once", "logins", "signals"},
    {"pyconsumer"},  # the public names, gathered in pyconsumer/__init__.py
    {"spark", "aio", "testing", "opentelemetry"},
    {"workers"},
    {"compat"},
    {"cli", "__main__"},
)
_RANK = {part: rank for rank, parts in enumerate(_LAYERS) for part in parts}
#: Within a layer: the bottom's modules know each other, and assignors read and write Kafka's assignment blobs.
_ALSO = {(a, b) for a in _LAYERS[0] for b in _LAYERS[0]} | {
    ("assignors", "protocol"),
    ("__main__", "cli"),
    ("testing", "aio"),  # the mocks have a face for event loops, with the interfaces of aio
}

_MOST_LINES_OF_A_MODULE = 1000
_LONG_MODULES = {
    "pyconsumer/aio/interface.py": "made of the interfaces of the blocking clients: a docstring for each call",
    "pyconsumer/errors.py": "a table: an entry for each of Kafka's error codes",
}
_MOST_LINES_OF_A_FUNCTION = 100
_LONG_FUNCTIONS = {
    "pyconsumer/protocol/records/_pure.py:decode_records": "runs for every record: its loop has everything in locals",
}
_MOST_CLASSES = 2  #: public ones that do something; errors and values come beside them
_VALUES = {"NamedTuple", "TypedDict", "Protocol", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "Struct", "Message"}
_VALUE_DECORATORS = ("dataclass", "structure", "message(")
_MANY_CLASSES = {
    "pyconsumer/protocol/avro/_pure.py": "the three twins of the compiled module's classes",
    "pyconsumer/protocol/avro/_pure_columns.py": "the twins of the compiled module's classes, and their columns",
    "pyconsumer/protocol/protobuf/column_plan.py": "names for the numbers of operations, and the plan that has them",
    "pyconsumer/assignors/special.py": "three assignors for special needs, each a few lines",
    "pyconsumer/consumer/coordinator/offset_commits.py": "commits and fetches of offsets, with shared retries",
    "pyconsumer/network/client_requests.py": "a request, and the two places that it waits in",
    "pyconsumer/spark/readers.py": "batch and stream readers, and the task that both read with",
    "pyconsumer/broker/purgatory.py": "one small class for each kind of request that waits",
    "pyconsumer/producer/metrics.py": "counters only, grouped as the metrics are",
    "pyconsumer/broker/logins.py": "one small class for each mechanism",
    "pyconsumer/network/sasl.py": "one small class for each mechanism",
    "pyconsumer/protocol/records/columns.py": "columns by type, and what fills them",
    "pyconsumer/compat/aiokafka/internals.py": "views of a few lines, for programs that read internal names",
    "pyconsumer/compat/kafka/coordinator/protocol.py": "values that assignors take and return",
    "pyconsumer/compat/kafka/record/abc.py": "names for annotations, without anything in them",
    "pyconsumer/compat/kafka/admin/acl_resource.py": "values of kafka-python, which compare and check themselves",
    "pyconsumer/compat/kafka/admin/types.py": "values of kafka-python's admin client",
    "pyconsumer/compat/kafka/partitioner/default.py": "kafka-python's partitioners, a few lines each",
    "pyconsumer/compat/kafka/serializer/abstract.py": "kafka-python's serializers, a few lines each",
    "pyconsumer/settings/config.py": "a table of settings, the settings of every client, and what both are made of",
    "pyconsumer/settings/kinds.py": "a table: one class for each kind of setting",
    "pyconsumer/clock.py": "clocks of a few lines: the machine's, and the two that tests move",
    "pyconsumer/schemas/awaited.py": "confluent-kafka's six classes for event loops, each of two lines",
    "pyconsumer/schemas/simple.py": "confluent-kafka's six small classes, and their two bases",
}

#: Error codes stand as names (``Errors.X``) everywhere else.
_ERROR_CODE_AS_NUMBER = re.compile(
    r"for_code\([0-9]|error_code\w* *(==|!=) *[1-9]|error_code\w* in [({][0-9]"
    r"|frozenset\([({\[]\s*[0-9]|_ERRORS\w*[^=\n]*= *[({\[]\s*[0-9]"
)


class Import(NamedTuple):
    """One import of a module of ours."""

    path: Path
    line: int
    target: str  #: the full module name

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.target}"


def _modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py"))


def _place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


class _Read(NamedTuple):
    """The parts of a module that are checked."""

    imports: list[ast.Import | ast.ImportFrom]
    loaded_by_name: set[str]
    functions: list[tuple[str, int]]  # the name and the number of lines after the first
    public_classes: list[str]  # without errors and values
    has_docstring: bool
    assigned_from_outside: bool
    private_names_of_others: set[str]


def _read_module(path: Path) -> _Read:
    tree = parse(path)
    nodes = walk(tree)
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return _Read(
        [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)],
        set(_loaded_by_name(nodes)),
        [(node.name, (node.end_lineno or node.lineno) - node.lineno) for node in functions],
        list(_public_classes(tree)),
        bool(ast.get_docstring(tree)),
        any(_assigned_from_outside(nodes)),
        _private_names_of_others(nodes),
    )


@functools.cache
def _read() -> dict[Path, _Read]:
    """Return the checked parts of each module of the package."""
    return dict(zip(_modules(), _readings.of(_modules()), strict=True))


_readings = KeptReadings("layout", _read_module, [sys.modules[__name__], syntax_trees], place=PACKAGE)


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _part(module: str) -> str:
    """The part of the package that a module belongs to: ``pyconsumer.network.dns`` is in ``network``."""
    return [*module.split("."), ""][1] or "pyconsumer"


@functools.cache
def _is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def _imports(path: Path) -> Iterator[Import]:
    own = _module_name(path).split(".")
    package = own if path.name == "__init__.py" else own[:-1]
    for node in _read()[path].imports:
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # `from pyconsumer import errors` names a module, `from pyconsumer import KafkaConsumer` does not
            # and `__version__` is there before any module of the package is imported
            names = [a.name for a in node.names if a.name != "__version__"]
            targets = [f"{base}.{name}" if _is_module(f"{base}.{name}") else base for name in names]
        for target in targets:
            if target.split(".")[0] == "pyconsumer":
                yield Import(path, node.lineno, target)


def test_every_part_has_a_layer() -> None:
    assert {_part(_module_name(path)) for path in _modules()} <= _RANK.keys()


def test_imports_go_one_way() -> None:
    wrong = []
    for path in _modules():
        own = _part(_module_name(path))
        for found in _imports(path):
            target = _part(found.target)
            if target != own and _RANK[target] >= _RANK[own] and (own, target) not in _ALSO:
                wrong.append(str(found))
    assert wrong == []


def _loaded_by_name(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the modules that a module loads by ``import_module`` and a constant name."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(target))]):
                if name == "import_module":
                    yield target


def _circle(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the modules that import themselves by way of others, with those of their imports that lead to it."""
    left = {name: targets & imports.keys() for name, targets in imports.items()}
    while free := {name for name, targets in left.items() if not targets & left.keys()}:
        left = {name: targets for name, targets in left.items() if name not in free}
    while outer := left.keys() - {target for targets in left.values() for target in targets}:
        left = {name: targets for name, targets in left.items() if name not in outer}
    return {name: targets & left.keys() for name, targets in left.items()}


def test_no_circles_of_imports() -> None:
    """All imports count: at the top of modules, inside functions, for type checkers, and by name."""
    imports: dict[str, set[str]] = {}
    for path in _modules():
        name = _module_name(path)
        if name != "pyconsumer":  # its public names are loaded when they are used
            imports[name] = {found.target for found in _imports(path)} | _read()[path].loaded_by_name
            imports[name] -= {name}
    assert imports["pyconsumer.testing.plugin"] >= {"pyconsumer.testing.asyncio_plugin"}, "that one is loaded by name"
    assert _circle(imports) == {}


#: Folders that must be understood one after the other: each imports those below it, which stand before it.
_LADDERS = (
    (
        "pyconsumer.broker.group.common",
        "pyconsumer.broker.group.classic",
        "pyconsumer.broker.group.consumer",
        "pyconsumer.broker.group.share",
        "pyconsumer.broker.group",
    ),
)


def _folder(module: str) -> str:
    is_package = ROOT.joinpath(*module.split("."), "__init__.py").exists()
    return module if is_package else module.rpartition(".")[0]


def test_folders_of_a_ladder_import_those_below_them() -> None:
    wrong = []
    for ladder in _LADDERS:
        rank = {folder: number for number, folder in enumerate(ladder)}
        for path in _modules():
            own = rank.get(_folder(_module_name(path)))
            if own is not None:
                wrong += [str(found) for found in _imports(path) if rank.get(_folder(found.target), 0) > own]
    assert wrong == []


def test_the_autoloaded_package_has_no_imports() -> None:
    autoload = PACKAGE / "spark" / "autoload"
    at_import = [
        ast.unparse(node)
        for path in autoload.glob("*.py")
        for node in parse(path).body
        if isinstance(node, ast.Import | ast.ImportFrom) and not ast.unparse(node).startswith("from __future__")
    ]
    assert not [line for line in at_import if "typing" not in line]


def test_modules_are_short() -> None:
    lengths = {_place(path): len(path.read_text(encoding="utf-8").splitlines()) for path in _modules()}
    long = {name for name, length in lengths.items() if length > _MOST_LINES_OF_A_MODULE}
    assert long == _LONG_MODULES.keys()


def test_functions_are_short() -> None:
    long = {
        f"{_place(path)}:{name}"
        for path, read in _read().items()
        for name, lines in read.functions
        if lines >= _MOST_LINES_OF_A_FUNCTION
    }
    assert long == _LONG_FUNCTIONS.keys()


def test_modules_have_few_public_classes() -> None:
    many = {_place(path) for path, read in _read().items() if len(read.public_classes) > _MOST_CLASSES}
    assert many == _MANY_CLASSES.keys()


def _public_classes(tree: ast.Module) -> Iterator[str]:
    """Yield the public classes of a module without errors and values."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
            is_error = node.name.endswith(("Error", "Exception")) or any(base.endswith("Error") for base in bases)
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            is_value = bases & _VALUES or any(each.startswith(_VALUE_DECORATORS) for each in decorators)
            if not is_error and not is_value:
                yield node.name


def test_error_codes_have_names() -> None:
    found = {
        _place(path)
        for path in _modules()
        if path.name != "errors.py" and _ERROR_CODE_AS_NUMBER.search(path.read_text(encoding="utf-8"))
    }
    assert found == set()


#: Where code may run in a thread of ours: it logs and warns by ``background_log`` alone. Exempt is what runs in the
#: application's threads only.
_IN_OUR_THREADS = ("network", "producer", "broker", "consumer/coordinator", "protocol")
_ONLY_IN_THE_APPLICATIONS_THREADS = {
    "pyconsumer/protocol/compiled.py": "logs when a client is made",
    "pyconsumer/broker/console_log.py": "the handler of the broker program, which gets lines from the log thread",
}
_TAKES_LOCKS_OF_OTHERS = re.compile(r"getLogger|LoggerAdapter|\bwarnings\.warn|sys\.stderr|showwarning|\blastResort")


def test_code_in_our_threads_logs_by_the_log_thread() -> None:
    """See ``background_log``: a thread of ours takes no lock of a log handler, and waits for no reader of a pipe."""
    found = {
        _place(path)
        for folder in _IN_OUR_THREADS
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        if path.name != "__main__.py" and _TAKES_LOCKS_OF_OTHERS.search(path.read_text(encoding="utf-8"))
    }
    assert found == _ONLY_IN_THE_APPLICATIONS_THREADS.keys()


def test_the_threads_that_we_start_are_marked() -> None:
    """Each module that starts a thread runs it within ``background``."""
    starts = re.compile(r"threading\.Thread\(|start_new_thread\(|ThreadPoolExecutor\(|run_in_executor\(|to_thread\(")
    found = {_place(path) for path in _modules() if starts.search(path.read_text(encoding="utf-8"))} - {
        "pyconsumer/background_log.py"
    }
    marked = {
        _place(path)
        for path in _modules()
        if re.search(r"\bbackground\(\)|stay_in_background", path.read_text(encoding="utf-8"))
    }
    assert len(found) >= 7
    assert found <= marked | _STARTS_FOR_A_THREAD_THAT_IS_MARKED


#: The producer starts the sender's `run`, the coordinator the heartbeat thread; the console log counts repeated lines.
#: Threads of workers run the application's function, so they are threads of the application.
_STARTS_FOR_A_THREAD_THAT_IS_MARKED = {
    "pyconsumer/producer/delegate.py",
    "pyconsumer/broker/console_log.py",
    "pyconsumer/workers/thread_pool.py",
    "pyconsumer/workers/process_pool.py",
}


#: Requests that several clients send: each is built in one place, whoever sends it.
_BUILT_IN_ONE_PLACE = {
    "FetchRequest": "fetch",
    "FindCoordinatorRequest": "find_coordinator",
    "ListOffsetsRequest": "list_offsets",
    "OffsetCommitRequest": "offsets",
    "OffsetFetchRequest": "offsets",
}


def test_shared_requests_are_built_in_one_place() -> None:
    calls = re.compile(rf"(?<!class )\b({'|'.join(_BUILT_IN_ONE_PLACE)})\((?!Message)")
    found = {
        (request, _place(path)) for path in _modules() for request in calls.findall(path.read_text(encoding="utf-8"))
    }
    assert found == {(name, f"pyconsumer/protocol/requests/{place}.py") for name, place in _BUILT_IN_ONE_PLACE.items()}


def test_production_uses_every_method_of_network_clients() -> None:
    """Each public method of the network clients is called somewhere in the package, outside its own module."""
    sources = {_place(path): path.read_text(encoding="utf-8") for path in _modules()}
    unused = {
        f"{home}:{function.name}"
        for home in ("pyconsumer/network/client.py", "pyconsumer/consumer/network_client.py")
        for node in parse(ROOT / home).body
        if isinstance(node, ast.ClassDef)
        for function in node.body
        if isinstance(function, ast.FunctionDef) and not function.name.startswith("_")
        if not any(
            re.search(rf"\.{function.name}\b(?! import)", source) for place, source in sources.items() if place != home
        )
    }
    assert unused == set()


_MAY_IMPORT_A_TEST_MODULE = re.compile(
    r"^\s*(from tests\S* import \(|(from tests|import tests).*\btest_)", re.MULTILINE
)


def test_no_http_server_asks_dns_for_its_own_name() -> None:
    """That of the standard library does as it starts, which takes seconds on a machine without DNS."""
    asking = [
        str(path.relative_to(ROOT))
        for folder in ("pyconsumer", "tests", "examples")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"\b(?:HTTP|WSGI)Server\b|\b\w+HTTPServer\b", text := path.read_text(encoding="utf-8"))
        and "TCPServer.server_bind(self)" not in text
    ]
    assert asking == []


def test_no_test_module_imports_another() -> None:
    """Test modules share code in support modules: a change to a test affects no other module."""
    wrong = [
        f"{_place(path)}:{node.lineno} imports {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if _MAY_IMPORT_A_TEST_MODULE.search(path.read_text(encoding="utf-8"))  # most need not be parsed
        for node in walk(parse(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in _imported_modules(node)
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split("."))
    ]
    assert wrong == []


def _imported_modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)][: 1 if node.level else None]


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in [*_modules(), *(ROOT / "tests").rglob("*.py")]}
    assert {str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()} == set()


def test_every_module_has_a_docstring() -> None:
    silent = [
        str(path.relative_to(ROOT)) for path, read in _read().items() if path.stat().st_size and not read.has_docstring
    ]
    assert silent == []


def _in_fresh_python(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", program], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )


_HEAVY = ("selectors2", "pyspark", "pyarrow", "pandas", "numpy", "cramjam", "click", "rich", "asyncio", "pytest")


def test_importing_pyconsumer_imports_no_heavy_module() -> None:
    program = f"import sys, pyconsumer; print(*[name for name in {_HEAVY} if name in sys.modules])"
    assert _in_fresh_python(program).stdout.split() == []


def test_a_consumer_imports_no_module_that_only_some_consumers_need() -> None:
    rare = (
        *("ssl", "hashlib", "json", "difflib", "sysconfig", "importlib.metadata", "asyncio", "pyarrow"),
        *("dataclasses", "inspect", "pyconsumer.metrics.table", "pyconsumer.metrics.health"),
    )
    program = (
        "import sys; before = set(sys.modules); from pyconsumer import KafkaConsumer;"
        "KafkaConsumer(bootstrap_servers='localhost:1').close(0);"
        f"print(*[name for name in {rare} if name in sys.modules and name not in before])"
    )
    assert _in_fresh_python(program).stdout.split() == []


def test_importing_pyconsumer_and_using_its_names_imports_few_modules() -> None:
    """Check which imports cost time, without a clock: ``python -m tests.benchmarks`` measures the time itself."""
    program = (
        "import sys; before = set(sys.modules); import pyconsumer; bare = len(set(sys.modules) - before);"
        "[getattr(pyconsumer, name) for name in pyconsumer.__all__];"
        "print(bare, len(set(sys.modules) - before))"
    )
    bare, everything = map(int, _in_fresh_python(program).stdout.split())
    assert bare <= 40
    # With those of metrics, access, quotas, share groups, and the hooks for spans. Python 3.12 has one more.
    assert everything <= 308 + (sys.version_info >= (3, 12))


#: Modules that assign to attributes of other objects, each with the reason; five, and no more.
_SET_FROM_OUTSIDE = {
    "pyconsumer/broker/group/consumer/topic_regex.py": "fills the options of google-re2, which take no arguments",
    "pyconsumer/cli/java.py": "lets PySpark forget its Java, for which it has no function",
    "pyconsumer/consumer/records.py": "`empty_records` fills what it makes: the constructor is too slow for a poll",
    "pyconsumer/protocol/records/_pure.py": "makes records, the constructor being too slow for each",
    "pyconsumer/protocol/records/record.py": "makes records, the constructor being too slow for each",
}
#: Attributes of ``ssl.SSLContext``, which can be set in no other way.
_OF_SSL = {"check_hostname", "maximum_version", "minimum_version", "verify_flags", "verify_mode"}


def _assigned_from_outside(nodes: list[ast.AST]) -> Iterator[int]:
    """Yield the lines that assign to an attribute of an object other than ``self`` or ``cls``."""
    for node in nodes:
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor):
            targets = [node.target]
        else:
            continue
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple | ast.List) else (target,):
                if (
                    isinstance(each, ast.Attribute)
                    and not each.attr.startswith("__")  # __cause__ and its like: there is no other way
                    and each.attr not in _OF_SSL
                    and ast.unparse(each.value) not in ("self", "cls")
                ):
                    yield node.lineno


def test_objects_change_their_own_attributes() -> None:
    found = {_place(path) for path, read in _read().items() if read.assigned_from_outside}
    assert found == _SET_FROM_OUTSIDE.keys()
    assert len(_SET_FROM_OUTSIDE) <= 5


#: Public names of Python that begin with an underscore.
_PUBLIC_ALL_THE_SAME = {
    "_exit",
    "_replace",
    "_make",
    "_asdict",
    "_fields",
    "_current_frames",
    "_getframe",
    "_get_running_loop",
}
#: Names of PySpark, which has no public ones for the same.
_OF_PYSPARK = {"_active_spark_context", "_gateway", "_jsparkSession", "_jvm", "_python_includes"}


def _private_names_of_others(nodes: list[ast.AST]) -> set[str]:
    """Private attributes that are read from an object other than ``self``, and that the module does not define."""
    own: set[str] = set()
    used: set[str] = set()
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                own.add(name)
            case ast.Name(id=name) | ast.Constant(value=str(name)):
                own.add(name)  # a constant: an item of __slots__
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                own.add(name)
            case ast.Attribute(attr=name) if name.startswith("_") and not name.startswith("__"):
                used.add(name)
    return used - own - _PUBLIC_ALL_THE_SAME - _OF_PYSPARK


def test_no_module_uses_private_names_of_another() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): read.private_names_of_others for path, read in _read().items()}
    assert {place: names for place, names in found.items() if names} == {}


def test_lines_of_compiled_sources_are_as_short_as_those_of_python() -> None:
    """Ruff checks only Python."""
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{number}"
        for folder in (ROOT / "pyconsumer").rglob("native")
        for path in sorted(folder.iterdir())
        if path.suffix in {".pyx", ".pxi", ".c", ".h"}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 120
    ]
    assert found == []
