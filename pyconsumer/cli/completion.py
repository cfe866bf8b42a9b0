"""``pyconsumer completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["command"]


@click.command(
    help="Print a script for tab completion of commands and options in a shell.\n\n"
    'In ~/.bashrc: eval "$(pyconsumer completion bash)"; in ~/.zshrc the same with zsh; for fish: pyconsumer '
    "completion fish > ~/.config/fish/completions/pyconsumer.fish"
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(ctx.find_root().command, {}, "pyconsumer", "_PYCONSUMER_COMPLETE").source())
