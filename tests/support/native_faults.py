"""The compiled record decoder, built with faults that tests inject into the threads that decompress ahead.

The macro ``PYCONSUMER_FAULTS`` adds the faults (``native/ahead.h``) to the sources that are shipped. The build is kept
under ``build/faults`` until a source changes.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
import sysconfig
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

__all__ = ["DIE", "NO_FAULT", "NO_MEMORY", "NO_START", "break_workers", "faulty_native"]

#: The faults, as in ``native/ahead.h``.
NO_FAULT, DIE, NO_MEMORY, NO_START = range(4)

_ROOT = Path(__file__).parents[2]
_MODULE = "pyconsumer.protocol.records._native"
_SOURCES = _ROOT / "pyconsumer/protocol/records/native"


@cache
def faulty_native() -> Any:
    """Return a second ``_native``, of types of its own: a queue with faults takes cursors of this module alone."""
    loader = ExtensionFileLoader(_MODULE, str(_library()))
    spec = spec_from_loader(_MODULE, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def break_workers(fault: int, delay_us: int = 0) -> None:
    """Make the threads of :func:`faulty_native` fail from now on, and delay each batch of theirs."""
    ctypes.CDLL(str(_library())).pyconsumer_ahead_fault(ctypes.c_int(fault), ctypes.c_uint(delay_us))


@cache
def _library() -> Path:
    sources = sorted(path for path in _SOURCES.iterdir() if path.suffix in {".pyx", ".pxi", ".c", ".h"})
    content = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    folder = _ROOT / "build/faults"
    library = folder / f"_native-{content}{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for outdated in folder.iterdir():
            if content not in outdated.name:
                outdated.unlink(missing_ok=True)
        _build(library)
    return library


def _build(library: Path) -> None:
    made = library.with_name(f"_native-{library.name.partition('.')[0][-16:]}-{os.getpid()}.c")
    partial = made.with_suffix(".part")
    cython = [sys.executable, "-m", "cython", "-3", f"--module-name={_MODULE}", "-o", made, _SOURCES / "_native.pyx"]
    subprocess.run(cython, check=True, cwd=_ROOT)
    flags = [
        "-O0",
        "-g0",
        "-fwrapv",
        "-fPIC",
        "-shared",
        "-pthread",
        "-fvisibility=hidden",
        "-w",
        "-DPYCONSUMER_FAULTS",
    ]
    includes = [f"-I{sysconfig.get_path('include')}", f"-I{_SOURCES}"]
    compiler = sysconfig.get_config_var("CC").split()
    command = [*compiler, *flags, *includes, made, *sorted(_SOURCES.glob("*.c")), "-ldl", "-o", partial]
    subprocess.run(command, check=True)
    made.unlink()
    partial.replace(library)  # another process may have built the same
