"""Tab completion in live shells, which load the script of ``pyconsumer completion`` as documented."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.terminal import Terminal

_SHELLS = {
    "bash": (["--norc", "--noprofile", "-i"], 'eval "$(pyconsumer completion bash)"'),
    "zsh": (["-f", "-i"], 'autoload -U compinit; compinit -D; eval "$(pyconsumer completion zsh)"'),
    "fish": (["--no-config", "--private", "-i"], "pyconsumer completion fish | source"),
}


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_tab_key_completes_commands_options_and_values(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None and shell != "bash":
        pytest.skip(f"{shell} is not installed")
    assert program is not None
    command = tmp_path / "pyconsumer"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pyconsumer "$@"\n')
    command.chmod(0o755)
    options, load = _SHELLS[shell]
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    env = os.environ | {"PATH": path, "HOME": str(tmp_path), "TERM": "xterm", "PS1": "> "}
    with Terminal([program, *options], env=env) as terminal:
        terminal.type(f"{load}; echo rea''dy\r")
        terminal.read_until(b"ready\r?\n")
        for typed, answer in (
            ("pyconsumer topics al\t-h\r", b"Usage: pyconsumer topics alter"),
            ("pyconsumer topics create --repl\t0\r", b"0 is not in the range"),
            ("pyconsumer completion fi\t\r", b"complete --no-files --command pyconsumer"),
        ):
            terminal.shown = b""
            terminal.type(typed)
            terminal.read_until(answer)
        terminal.type("exit\r")
        assert terminal.wait() in (0, 1)  # zsh: that of the last command
