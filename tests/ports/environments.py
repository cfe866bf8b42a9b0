"""The environments of the lane ``ports``: virtual environments in ``build/ports``, with pinned packages from PyPI.

Rules

1. An environment is made once for its list of packages. A changed list has another folder.
2. Each session installs the wheel of this checkout anew, so the tests run the shipped files, the ``.pth`` included.
3. ``with`` has the originals whose APIs we copy, ``without`` has none, ``old`` has older ones. All else is equal.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import tempfile
import uuid
from functools import cache
from pathlib import Path

from tests.benchmarks.measure import ROOT
from tests.support.process import run

__all__ = ["ENVIRONMENTS", "python_of"]

#: Frameworks and tools, without the clients that some of them require: each environment names its own.
_FRAMEWORKS = (
    "faststream==0.7.8",
    "kq==2.2.1",
    "kafka-schema-registry==0.1.2",
    "elastic-apm==6.26.2",
    "opentelemetry-instrumentation-kafka-python==0.66b1",
    "opentelemetry-instrumentation-aiokafka==0.66b1",
)
#: Their other requirements.
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
    "fastapi",
    "httpx",
    "uvicorn",
    "gunicorn",
    "opentelemetry-distro==0.66b1",
    "opentelemetry-sdk",
    "opentelemetry-instrumentation==0.66b1",
    "opentelemetry-semantic-conventions==0.66b1",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
    "crc32c",
    "cramjam",
)
#: The clients of each environment.
ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "with": ("aiokafka==0.14.0", "kafka-python==3.0.12"),
    "without": (),
    "old": ("aiokafka==0.12.0", "kafka-python==2.2.15"),
}
_LONG_S = 600.0
#: The same for all processes of a run.
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex


@cache
def python_of(name: str) -> str:
    """Return the Python of an environment, which has the wheel of this checkout. It is made if it is not there."""
    (ROOT / "build" / "ports").mkdir(parents=True, exist_ok=True)
    with (ROOT / "build" / "ports" / "lock").open("w") as lock:  # of other processes of this session
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _made(name)


def _made(name: str) -> str:
    clients = ENVIRONMENTS[name]
    known = hashlib.sha256("\n".join([sys.version, *_FRAMEWORKS, *_BESIDE, *clients]).encode()).hexdigest()[:12]
    folder = ROOT / "build" / "ports" / f"{name}-{known}"
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not (folder / "complete").exists():
        run([sys.executable, "-m", "venv", "--clear", str(folder)], timeout_s=_LONG_S).check()
        run([*pip, *_BESIDE], timeout_s=_LONG_S).check()
        run([*pip, "--no-deps", *_FRAMEWORKS], timeout_s=_LONG_S).check()
        if clients:
            run([*pip, *clients], timeout_s=_LONG_S).check()
        (folder / "complete").touch()
    installed = folder / "installed"
    if not installed.exists() or installed.read_text() != _RUN:  # another process of this run may use it already
        wheel = str(_wheel())
        run([*pip, wheel], timeout_s=_LONG_S).check()
        run([*pip, "--no-deps", "--force-reinstall", wheel], timeout_s=_LONG_S).check()
        installed.write_text(_RUN)
    return str(python)


@cache
def _wheel() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="wheel-", dir=ROOT / "build" / "ports"))
    run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(ROOT)], timeout_s=_LONG_S
    ).check()
    (found,) = folder.glob("*.whl")
    return found
