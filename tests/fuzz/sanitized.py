"""Compiled modules that are built with gcc's sanitizers for addresses and undefined behaviour.

A program of the fuzz builds them into a folder, and runs itself again with them. The environment variable
``PYCONSUMER_FUZZ_BUILT`` names the folder there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["ROOT", "built_file", "run_sanitized"]

ROOT = Path(__file__).parents[2]
_HEADERS = ROOT / "pyconsumer/protocol/records/native"
_BUILT = "PYCONSUMER_FUZZ_BUILT"


def run_sanitized(program: str, arguments: Sequence[str], modules: Mapping[str, Path]) -> int:
    """Build modules with sanitizers and run a program with them. Return its status.

    Args:
        program: its module.
        arguments: those of the program.
        modules: the folder of the sources of each module, by its name.
    """
    with tempfile.TemporaryDirectory() as folder:
        for module, sources in modules.items():
            _build(module, sources, folder)
        library = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
        environment = {
            **os.environ,
            _BUILT: folder,
            "LD_PRELOAD": library.stdout.strip(),
            "PYTHONMALLOC": "malloc",  # so that the sanitizer knows where each object ends
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=32",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        command = [sys.executable, "-m", program, *arguments]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def built_file(module: str) -> Path | None:
    """Return the file of a sanitized module. None if this process does not run with sanitizers."""
    folder = os.environ.get(_BUILT)
    return None if folder is None else _file(folder, module)


def _build(module: str, sources: Path, folder: str) -> None:
    made = Path(folder) / f"{module}.c"
    cython = [sys.executable, "-m", "cython", "-3", f"--module-name={module}", "-o", made, sources / "_native.pyx"]
    subprocess.run(cython, check=True, cwd=ROOT)
    flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    # Memory that is kept for reuse would hide that it is used too late.
    flags += ["-fPIC", "-shared", "-fwrapv", "-DPYCONSUMER_NO_POOL", "-DCYTHON_USE_FREELISTS=0"]
    includes = [f"-I{sysconfig.get_path('include')}", f"-I{_HEADERS}"]
    command = ["gcc", *flags, "-pthread", *includes, made, *sorted(sources.glob("*.c")), "-ldl"]
    command += ["-o", _file(folder, module)]
    subprocess.run(command, check=True)


def _file(folder: str, module: str) -> Path:
    return Path(folder) / f"{module}{sysconfig.get_config_var('EXT_SUFFIX')}"
