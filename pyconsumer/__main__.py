"""The entry point of the command ``pyconsumer``, and ``python -m pyconsumer``, which is the same.

The command needs the packages of ``pyconsumer[cli]``, which an application that uses the library does not. Without them
``--version`` works all the same, since it shows the installed versions.
"""

import sys
from importlib.util import find_spec

__all__ = ["main"]

_NEEDS = ("click", "rich")


def main() -> None:
    """Run the command with the arguments of this process, and exit with its status."""
    missing = [name for name in _NEEDS if find_spec(name) is None]
    if not missing:
        from pyconsumer.cli import main as run

        run()
    elif sys.argv[1:] == ["--version"]:
        from pyconsumer import __version__
        from pyconsumer.protocol.version_text import version_text

        print(version_text(__version__))
    else:
        sys.exit(f"Error: this command needs {' and '.join(missing)}: pip install 'pyconsumer[cli]'")


if __name__ == "__main__":
    main()
