"""``python -m pyconsumer.compat CLIENTS [-m MODULE | FILE | -- COMMAND] ARGUMENTS``: start a program on our clients.

It sets ``PYCONSUMER_COMPAT`` and becomes the program, so every Python below it has ours, too.
"""

from __future__ import annotations

import os
import site
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from pyconsumer.compat.installing import VARIABLE, names_of

__all__ = ["main", "reads_the_variable"]

#: The file that each Python reads when it starts.
PTH: Final = "pyconsumer-compat.pth"
_USAGE: Final = """usage: python -m pyconsumer.compat CLIENTS [-m MODULE | FILE | -- COMMAND] [ARGUMENTS...]

Start a program that was written for kafka-python or aiokafka on pyconsumer's clients.

  CLIENTS       aiokafka, kafka, or both with a comma
  -m MODULE     run a module, as python -m does
  FILE          run a file
  -- COMMAND    run a command, as uvicorn or faststream

Without a program it starts an interactive Python.
"""


def main(arguments: Sequence[str]) -> NoReturn:
    """Start the program that the arguments name. The module describes the arguments."""
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(_USAGE)
        raise SystemExit(0)
    if not arguments:
        _refuse("no client is named")
    try:
        names = names_of(arguments[0])
    except ValueError as error:
        _refuse(str(error))
    command = _command(arguments[1:])
    if not reads_the_variable():
        _refuse(
            f"{PTH} is in none of the folders that this Python reads at its start. Install pyconsumer with pip."
            " A folder in PYTHONPATH is not enough"
        )
    os.environ[VARIABLE] = ",".join(names)
    try:
        if os.name == "nt":  # exec would return to the shell at once
            raise SystemExit(subprocess.run(command, check=False).returncode)
        os.execvp(command[0], command)
    except FileNotFoundError:
        _refuse(f"there is no command {command[0]!r}")
    except OSError as error:
        _refuse(f"{command[0]!r} cannot be started: {error.strerror}")


def _command(rest: Sequence[str]) -> list[str]:
    if rest[:1] == ["--"]:
        if len(rest) == 1:
            _refuse("-- needs a command")
        return list(rest[1:])
    if rest[:1] == ["-m"]:
        if len(rest) == 1:
            _refuse("-m needs the name of a module")
    elif rest and rest[0].startswith("-") and rest[0] != "-":
        _refuse(f"there is no option {rest[0]!r}")
    elif rest and rest[0] != "-" and not Path(rest[0]).exists():
        _refuse(f"there is no file {rest[0]!r}. A command follows `--`, a module `-m`")
    return [sys.executable, *_flags(), *rest]


def _flags() -> list[str]:
    """Return the options of this Python, as ``-X dev`` and ``-W error``, for the one that it becomes."""
    own = len(sys.orig_argv) - (len(sys.argv) - 1)  # before the arguments of this module
    return sys.orig_argv[1 : own - 2] if sys.orig_argv[own - 2 : own - 1] == ["-m"] else []


def reads_the_variable() -> bool:
    """Return whether every Python of this installation reads ``PYCONSUMER_COMPAT`` when it starts."""
    if sys.flags.no_site:
        return False
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    if site.ENABLE_USER_SITE:
        folders.add(site.getusersitepackages())
    return any(Path(folder, PTH).exists() for folder in folders)


def _refuse(reason: str) -> NoReturn:
    sys.stderr.write(f"python -m pyconsumer.compat: {reason}\n\n{_USAGE}")
    raise SystemExit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
