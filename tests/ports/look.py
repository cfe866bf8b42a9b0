"""``look.py [--install NAMES] PROGRAM ARGUMENTS``: run a program, and print which files of an original it has loaded.

The last line of stderr is ``originals: `` and a list in JSON of the loaded modules whose file belongs to an original.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import sys


def originals() -> list[str]:
    """Return the loaded modules from a folder named ``kafka`` or ``aiokafka`` that is not one of ours."""
    found = []
    for name, module in list(sys.modules.items()):
        parts = (getattr(module, "__file__", None) or "").split(os.sep)
        if "site-packages" in parts and parts[parts.index("site-packages") + 1] in ("kafka", "aiokafka"):
            found.append(name)
    return sorted(found)


atexit.register(lambda: print("originals:", json.dumps(originals()), file=sys.stderr))
arguments = sys.argv[1:]
if arguments[0] == "--install":
    import pyconsumer.compat

    pyconsumer.compat.install(*arguments[1].split(","))
    arguments = arguments[2:]
sys.argv[:] = arguments
sys.path[0] = os.path.dirname(arguments[0])
runpy.run_path(arguments[0], run_name="__main__")
