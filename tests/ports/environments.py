"""The environments of the lane ``ports``: virtual environments in ``build/ports``, with pinned packages from PyPI.

Rules

1. An environment is made once for its list of packages. A changed list has another folder.
2. Each session installs the wheel of this checkout again, so the tests run the shipped files, the ``.pth`` included.
3. ``with`` has the originals whose APIs we copy, ``without`` has none, ``old`` has older ones. All else is equal.
4. The wheel and the environments are made at the same time: pip mostly waits for the network. Each has a lock, since
   the processes of a session share them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.benchmarks.measure import ROOT
from tests.support.process import run

__all__ = ["ENVIRONMENTS", "make_environments", "python_of"]

#: Frameworks and tools, without the clients that some of them require: each environment names its own.
_FRAMEWORKS = (
    "faststream==0.7.8",
    "kstreams==0.34.6",
    "kq==2.2.1",
    "kafka-schema-registry==0.1.2",
    "elastic-apm==6.26.2",
    "opentelemetry-instrumentation-kafka-python==0.66b1",
    "opentelemetry-instrumentation-aiokafka==0.66b1",
)
#: Their other requirements, and those of the wheel.
_BESIDE = (
    "anyio",
    "fast-depends[pydantic]",
    "typer",
    "watchfiles",
    "prometheus-client",
    "dill",
    "fastavro",
    "requests",
    "certifi",
    "urllib3",
    "wrapt<2",
    "ecs-logging",
    "future",
    "pyyaml",
    "fastapi",
    "httpx",
    "uvicorn",
    "gunicorn",
    "opentelemetry-distro==0.66b1",
    "opentelemetry-sdk",
    "opentelemetry-instrumentation==0.66b1",
    "opentelemetry-semantic-conventions==0.66b1",
    "setuptools<81",  # kq imports its pkg_resources
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
    "crc32c",
    "crcmod",
    "cramjam",
    "selectors2",
)
#: The clients of each environment.
ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "with": ("aiokafka==0.14.0", "kafka-python==3.0.12"),
    "without": (),
    "old": ("aiokafka==0.12.0", "kafka-python==2.2.15"),
}
_LONG_S = 900.0
#: The same for all processes of a session.
_SESSION = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex
_HOME = ROOT / "build" / "ports"


def make_environments() -> None:
    """Make the wheel and the missing environments, all at the same time."""
    with ThreadPoolExecutor() as pool:
        wheel = pool.submit(_wheel)
        list(pool.map(_packages, ENVIRONMENTS))
        wheel.result()
        list(pool.map(python_of, ENVIRONMENTS))


@cache
def python_of(name: str) -> str:
    """Return the Python of an environment, which has the wheel of this checkout. It is made if it is not there."""
    folder = _packages(name)
    wheel = _wheel()
    with _locked(folder.name):
        installed = folder / "installed"
        if not installed.exists() or installed.read_text() != _SESSION:  # another process of it may use it already
            _pip(folder, "--no-deps", "--force-reinstall", str(wheel))
            installed.write_text(_SESSION)
    return str(folder / "bin" / "python")


def _packages(name: str) -> Path:
    """Return the folder of an environment with all packages but ours."""
    clients = ENVIRONMENTS[name]
    known = hashlib.sha256("\n".join([sys.version, *_FRAMEWORKS, *_BESIDE, *clients]).encode()).hexdigest()[:12]
    folder = _HOME / f"{name}-{known}"
    with _locked(folder.name):
        if not (folder / "complete").exists():
            run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)], timeout_s=_LONG_S).check()
            _pip(folder, *_BESIDE, *clients)
            _pip(folder, "--no-deps", *_FRAMEWORKS)
            (folder / "complete").touch()
    return folder


def _wheel() -> Path:
    """Return the wheel of this checkout as it is in this session."""
    folder = _HOME / "wheel"
    with _locked(folder.name):
        made = folder / "session"
        if not made.exists() or made.read_text() != _SESSION:
            shutil.rmtree(folder, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(ROOT)]
            run(pip, timeout_s=_LONG_S).check()
            made.write_text(_SESSION)
    (found,) = folder.glob("*.whl")
    return found


def _pip(folder: Path, *arguments: str) -> None:
    """Install into an environment. Python compiles the imported modules, which are a small part."""
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--no-compile", *arguments], timeout_s=_LONG_S).check()


@contextmanager
def _locked(name: str) -> Iterator[None]:
    _HOME.mkdir(parents=True, exist_ok=True)
    with (_HOME / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
