"""Apache Kafka's jars and the Java programs in them: fetched by Maven once, then kept in a cache folder.

The cache is ``$PYCONSUMER_TEST_CACHE`` or ``pyconsumer-tests`` in the user's cache folder.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import Finished, GuardedProcess, run

__all__ = [
    "NEW_VERSION",
    "OLD_VERSION",
    "QUICK_START",
    "VERSION",
    "KafkaTools",
    "cache_folder",
    "documents",
    "fetch_jars",
    "missing_kafka",
    "need_jars",
    "properties",
    "shared_classes_options",
    "stamp",
    "tools",
    "what_java_says",
]

#: The version that most tests run on, the oldest one, and the newest: its definitions are those that ours are compared
#: with, and brokers of both run the tests marked ``smoke``.
VERSION = "4.3.1"
OLD_VERSION = "3.9.1"
NEW_VERSION = "4.4.0"
_NEEDED_JAVA = 17

#: Java's options for a program that runs for seconds: less compiling, one thread for garbage.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

#: Per version, the artifacts to copy with all that they need: the broker, its tools, a logging back end.
_ARTIFACTS = {
    VERSION: (
        "org.apache.kafka:kafka_2.13:4.3.1",
        "org.apache.kafka:kafka-tools:4.3.1",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
    ),
    NEW_VERSION: (
        "org.apache.kafka:kafka_2.13:4.4.0",
        "org.apache.kafka:kafka-tools:4.4.0",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
    ),
    OLD_VERSION: (
        "org.apache.kafka:kafka_2.13:3.9.1",
        "org.apache.kafka:kafka-tools:3.9.1",
        "org.slf4j:slf4j-reload4j:1.7.36",
    ),
}

#: Command-line programs by the names that Kafka's documentation gives them.
_CLASSES = {
    "AclCommand": "org.apache.kafka.tools.AclCommand",
    "ConfigCommand": "kafka.admin.ConfigCommand",
    "ConsoleConsumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "ConsoleProducer": "org.apache.kafka.tools.ConsoleProducer",
    "ConsoleShareConsumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "ConsumerPerformance": "org.apache.kafka.tools.ConsumerPerformance",
    "DeleteRecordsCommand": "org.apache.kafka.tools.DeleteRecordsCommand",
    "DumpLogSegments": "org.apache.kafka.tools.DumpLogSegments",
    "FeatureCommand": "org.apache.kafka.tools.FeatureCommand",
    "GetOffsetShell": "org.apache.kafka.tools.GetOffsetShell",
    "GroupsCommand": "org.apache.kafka.tools.GroupsCommand",
    "Kafka": "kafka.Kafka",
    "LeaderElectionCommand": "org.apache.kafka.tools.LeaderElectionCommand",
    "LogDirsCommand": "org.apache.kafka.tools.LogDirsCommand",
    "ProducerPerformance": "org.apache.kafka.tools.ProducerPerformance",
    "ShareConsumerPerformance": "org.apache.kafka.tools.ShareConsumerPerformance",
    "ShareGroupCommand": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "StorageTool": "kafka.tools.StorageTool",
    "TopicCommand": "org.apache.kafka.tools.TopicCommand",
    "TransactionalMessageCopier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "TransactionsCommand": "org.apache.kafka.tools.TransactionsCommand",
    "VerifiableConsumer": "org.apache.kafka.tools.VerifiableConsumer",
    "VerifiableProducer": "org.apache.kafka.tools.VerifiableProducer",
    "VerifiableShareConsumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}
_OLD_CLASSES = _CLASSES | {
    "ConsoleProducer": "kafka.tools.ConsoleProducer",
    "DumpLogSegments": "kafka.tools.DumpLogSegments",
}

_LOG4J2 = """\
<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="ERROR">
  <Appenders>
    <Console name="out" target="{target}"><PatternLayout pattern="%d %p [%t] %c{{1}} %m%n"/></Console>
  </Appenders>
  <Loggers><Root level="{level}"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""
_LOG4J1 = """\
log4j.rootLogger={level}, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.target={target}
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p [%t] %c{{1}} %m%n
"""


def cache_folder() -> Path:
    """Return where jars stay between test runs."""
    chosen = os.environ.get("PYCONSUMER_TEST_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyconsumer-tests"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, so that two test runs don't fetch the same jars at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@functools.cache
def what_java_says(java: str) -> str:
    """Return the version that a Java reports."""
    return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr


def _missing_java() -> str | None:
    """Return the reason why the machine's Java cannot be used, or None."""
    java = shutil.which("java")
    if java is None:
        return "no java on the PATH"
    said = what_java_says(java)
    found = re.search(r'version "(\d+)', said)
    if found is None:
        return f"{java} -version does not name a version: {said.strip()[:80]!r}"
    if int(found[1]) < _NEEDED_JAVA:
        return f"java {found[1]} is older than {_NEEDED_JAVA}"
    return None


def _libs(version: str) -> Path:
    return cache_folder() / f"kafka-{version}" / "libs"


def missing_kafka(version: str = VERSION) -> str | None:
    """Why Kafka's programs of this version cannot run here, or None. Does not fetch anything."""
    missing = _missing_java()
    if missing is None and not _libs(version).is_dir() and shutil.which("mvn") is None:
        missing = "no mvn on the PATH"
    return missing and f"needs Apache Kafka, which needs Java {_NEEDED_JAVA} and Maven: {missing}"


def _skip_or_fail(reason: str | None) -> None:
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{reason} (CI is set, so this is a failure)", pytrace=False)
    pytest.skip(reason)


def need_jars(version: str = VERSION) -> None:
    """Skip the running test (fail it where ``CI`` is set) unless Kafka's programs can run here."""
    _skip_or_fail(missing_kafka(version))


def fetch_jars(libs: Path, artifacts: Iterable[str], *, alone: bool = False) -> Path:
    """Let Maven copy artifacts (``group:name:version[:type:classifier]``) into a folder, once, and return it.

    Args:
        alone: without their dependencies.
    """
    if libs.is_dir():
        return libs
    with locked(libs.parent / ".lock"):
        if libs.is_dir():
            return libs
        with tempfile.TemporaryDirectory(dir=libs.parent) as folder:
            pom = Path(folder, "pom.xml")
            tags = ("groupId", "artifactId", "version", "type", "classifier")
            others = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>" if alone else ""
            dependencies = "".join(
                "<dependency>{}<exclusions>{}</exclusions></dependency>".format(
                    "".join(f"<{tag}>{part}</{tag}>" for tag, part in zip(tags, artifact.split(":"), strict=False)),
                    others,
                )
                for artifact in artifacts
            )
            pom.write_text(
                '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
                "<groupId>pyconsumer</groupId><artifactId>test-jars</artifactId><version>1</version>"
                f"<dependencies>{dependencies}</dependencies></project>"
            )
            fresh = Path(folder, "libs")
            options = [f"-DoutputDirectory={fresh}", *(["-DexcludeTransitive=true"] if alone else [])]
            command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *options]
            run(command, timeout_s=600, cwd=Path(folder)).check()
            fresh.rename(libs)
    return libs


def stamp(jar: os.PathLike[str]) -> str:
    """Return a jar's path, size and date, by which Java knows whether its classes are those of a file."""
    found = os.stat(jar)
    return f"{os.fspath(jar)} {found.st_size} {found.st_mtime_ns}"


def shared_classes_options(file: Path) -> list[str]:
    """Java's options to take classes from a file of :mod:`tests.support.shared_classes`.

    Java does without a file that does not fit, and would say so where a program's output is expected.
    """
    return [f"-XX:SharedArchiveFile={file}", "-Xlog:disable", "-Xlog:all=error:stderr"]


class KafkaTools:
    """The Java programs of one Apache Kafka version.

    They make and judge data independently of our code, on whichever broker they are pointed at.
    """

    def __init__(self, version: str) -> None:
        self.version = version
        self.libs = fetch_jars(_libs(version), _ARTIFACTS[version])
        self._classes = _OLD_CLASSES if version == OLD_VERSION else _CLASSES
        self._home = self.libs.parent

    @functools.cached_property
    def class_path(self) -> str:
        return os.pathsep.join(sorted(map(str, self.libs.glob("*.jar"))))

    @functools.cached_property
    def shared_classes(self) -> Path:
        """The file in which :mod:`tests.support.shared_classes` keeps the classes, for this Java and these jars."""
        java = shutil.which("java") or "java"
        key = "\n".join([os.path.realpath(java), what_java_says(java), *map(stamp, sorted(self.libs.glob("*.jar")))])
        return self._home / f"classes-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"

    def java(self, *args: str, quick: bool = True, log_level: str = "WARN", log_to: str = "SYSTEM_ERR") -> list[str]:
        """A java command with Kafka's jars and logging. ``quick`` trades peak speed for a fast start."""
        return [
            shutil.which("java") or "java",
            *(["-Xmx512m", *self._quick_start()] if quick else []),
            "-Djava.awt.headless=true",
            *self._logging(log_level, log_to),
            "-cp",
            self.class_path,
            *args,
        ]

    def _quick_start(self) -> list[str]:
        if not self.shared_classes.exists():
            return list(QUICK_START)
        return [*QUICK_START, *shared_classes_options(self.shared_classes)]

    def _logging(self, level: str, target: str) -> list[str]:
        log4j1 = self.version == OLD_VERSION
        if log4j1:
            target = {"SYSTEM_ERR": "System.err", "SYSTEM_OUT": "System.out"}[target]
        path = self._home / f"logging-{level}-{target}.{'properties' if log4j1 else 'xml'}".lower()
        text = (_LOG4J1 if log4j1 else _LOG4J2).format(level=level, target=target)
        if not path.exists() or path.read_text() != text:
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            fresh.write_text(text)
            fresh.rename(path)
        return [f"-Dlog4j.configuration=file:{path}" if log4j1 else f"-Dlog4j2.configurationFile={path}"]

    def command(self, name: str, *args: str, quick: bool = True) -> list[str]:
        """The command line of a program named as in Kafka's documentation, such as ``TopicCommand``."""
        return [*self.java(quick=quick), self._classes[name], *args]

    def run(
        self,
        name: str,
        *args: str,
        input: str | bytes | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
        quick: bool = True,
    ) -> Finished:
        """Run one of Kafka's programs to its end. Fail unless its status is 0 (``check=False``: don't)."""
        finished = run(self.command(name, *args, quick=quick), input=input, timeout_s=timeout_s)
        return finished.check() if check else finished

    def start(self, name: str, *args: str, output: Path | None = None, quick: bool = True) -> GuardedProcess:
        """Start one of Kafka's programs that runs until it is stopped, such as a console consumer."""
        return GuardedProcess(self.command(name, *args, quick=quick), output=output)

    def compiled(self, source: Path, *, quick: bool = True) -> list[str]:
        """A java command, up to the program's arguments, for a single-file program that is compiled once and kept."""
        text = source.read_bytes()
        classes = self._home / "classes" / hashlib.sha256(text).hexdigest()[:16]
        if not classes.exists():
            with locked(classes.parent / ".lock"), tempfile.TemporaryDirectory(dir=classes.parent) as folder:
                if not classes.exists():
                    fresh = Path(folder, "classes")
                    compiler = ("-m", "jdk.compiler/com.sun.tools.javac.Main", "-encoding", "UTF-8", "-proc:none")
                    run([*self.java(*compiler, "-d", str(fresh), str(source))], timeout_s=120).check()
                    fresh.rename(classes)
        command = self.java(source.stem, quick=quick)
        command[command.index("-cp") + 1] += f"{os.pathsep}{classes}"
        return command

    def run_source(self, source: Path, *args: str, timeout_s: float = 120.0, check: bool = True) -> Finished:
        """Run a single-file Java program that may use Kafka's classes. It is compiled once and kept."""
        finished = run([*self.compiled(source), *args], timeout_s=timeout_s)
        return finished.check() if check else finished


@functools.cache
def tools(version: str = VERSION) -> KafkaTools:
    """Apache Kafka's programs. Skips the running test where they cannot be had."""
    need_jars(version)
    return KafkaTools(version)


def documents(text: str) -> list[dict[str, Any]]:
    """JSON documents that stand one behind the other, as Kafka's formatters print them."""
    decoder, found = json.JSONDecoder(), []
    position = text.find("{")
    while position >= 0:
        document, end = decoder.raw_decode(text, position)
        found.append(document)
        position = text.find("{", end)
    return found


def properties(settings: Mapping[str, object]) -> str:
    """Settings as the text of a Java properties file."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())
