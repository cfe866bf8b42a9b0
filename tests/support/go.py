"""Programs in Go: with franz-go, which shares no code with any other of the tests' clients, and with others."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from tests.support.java import cache_folder
from tests.support.process import run

__all__ = ["FRANZ_VERSION", "franz_program", "franz_tests", "go_program"]

_MODULE = Path(__file__).with_name("franz")

FRANZ_VERSION = next(
    line.split()[-1].removeprefix("v")
    for line in (_MODULE / "go.mod").read_text().splitlines()
    if line.startswith("require github.com/twmb/franz-go ")
)


def franz_program(name: str) -> Path | None:
    """A program of the folder ``franz``. See :func:`go_program`."""
    return go_program(_MODULE, name)


def franz_tests() -> Path | None:
    """The tests of franz-go's client, of the version that the programs have. See :func:`go_program`."""
    return go_program(_MODULE, "github.com/twmb/franz-go/pkg/kgo", ("test", "-c"))


def go_program(module: Path, name: str, command: tuple[str, ...] = ("build",)) -> Path | None:
    """A program of a Go module, built once and kept, together with the modules that Go fetches for it.

    Args:
        module: the folder with ``go.mod``.
        name: the folder below it with the program, or another package.
        command: what Go does with it.

    Returns:
        The program, or None if there is no Go.

    Raises:
        AssertionError: it cannot be built. The message has Go's output.
    """
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        return None
    is_own = (module / name).is_dir()
    sources = [module / "go.mod", module / "go.sum", *(sorted((module / name).iterdir()) if is_own else ())]
    text = b"".join(path.read_bytes() for path in sources)
    cache = cache_folder() / "go"
    program = cache / f"{name.replace('/', '-')}-{hashlib.sha256(text).hexdigest()[:16]}"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            fresh = Path(folder, "program")
            env = {
                "GOPATH": str(cache / "path"),
                "GOCACHE": str(cache / "build"),
                "GOFLAGS": "-mod=readonly -modcacherw",
            }
            package = f"./{name}" if is_own else name
            run([go, *command, "-o", str(fresh), package], cwd=module, env=env, timeout_s=300).check()
            os.replace(fresh, program)
    return program
