"""Code that runs when Python starts with ``PYCONSUMER_COMPAT`` set: it redirects the imports.

A client that is not ours would read the program's topics silently. So a wrong value of the variable ends this Python
with status 2, and an original that another ``.pth`` file has imported does, too.
"""

from __future__ import annotations

import os
import sys

from pyconsumer.compat.installing import VARIABLE, install, names_of

__all__ = ["install_clients"]


def install_clients(text: str) -> None:
    """Install the clients that the environment variable names.

    Args:
        text: the value of the variable. An empty value installs nothing.
    """
    if not text.strip():
        return
    try:
        install(*names_of(text))
    except (ValueError, ImportError) as error:
        sys.stderr.write(f"{VARIABLE}={text}: {error}\n")
        sys.stderr.flush()
        os._exit(2)  # SystemExit would be a traceback of the module site


install_clients(os.environ.get(VARIABLE, ""))
