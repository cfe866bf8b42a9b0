"""A program that starts Pythons in every way, and prints which module has aiokafka's consumer in each.

With ``install`` as its argument, it installs our clients itself.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from multiprocessing.queues import SimpleQueue

if __name__ == "__main__" and sys.argv[1:] == ["install"]:
    import pyconsumer.compat

    pyconsumer.compat.install("aiokafka")

SHOW = "import aiokafka; print(aiokafka.AIOKafkaConsumer.__module__)"
TEST = "import aiokafka\ndef test(): assert aiokafka.AIOKafkaConsumer.__module__.startswith('pyconsumer.')\n"


def show(results: SimpleQueue[str]) -> None:
    """Put the name of the consumer's module into a queue."""
    import aiokafka

    results.put(aiokafka.AIOKafkaConsumer.__module__)


def main() -> None:
    """Start the children."""
    found = {}
    for method in ("spawn", "forkserver", "fork"):  # fork last: spawned children must not inherit an import
        context = multiprocessing.get_context(method)
        results = context.SimpleQueue()
        child = context.Process(target=show, args=(results,))
        child.start()
        child.join()
        found[method] = "" if results.empty() else results.get()
    found["subprocess"] = _output([sys.executable, "-c", SHOW])
    found["isolated"] = _output([sys.executable, "-I", "-c", SHOW])
    found["shell"] = _output(["/bin/sh", "-c", f'exec "{sys.executable}" -c "{SHOW}"'])
    with open("test_child.py", "w") as file:
        file.write(TEST + TEST.replace("test()", "test_again()"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-n", "2", "-p", "no:cacheprovider", "test_child.py"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    found["pytest"] = "passed" if done.returncode == 0 else done.stdout + done.stderr
    print(json.dumps(found), flush=True)
    os.execv(sys.executable, [sys.executable, "-c", SHOW])


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    main()
