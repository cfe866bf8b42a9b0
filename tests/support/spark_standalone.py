"""A standalone cluster of Spark: Master and Workers are processes of ``spark-class``. A Worker stands for a machine."""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Sequence
from pathlib import Path

from pyconsumer.spark.launch import java_home
from tests.support.process import GuardedProcess, descendants, wait_until

__all__ = ["Machines"]


class Machines:
    """A Master and its Workers.

    Args:
        folder: for the folders of the Workers.
        python: the Python of the executors.
        packages: the folder of their packages.
    """

    def __init__(self, folder: Path, python: Path, packages: Path) -> None:
        import pyspark

        self.environment = {
            "JAVA_HOME": java_home() or "",
            "SPARK_HOME": os.environ.get("SPARK_HOME", str(Path(pyspark.__file__).parent)),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_HOSTNAME": "localhost",
            "PYSPARK_PYTHON": str(python),
            "PYTHONPATH": str(packages),
        }
        self._folder = folder
        self._made = 0
        self.workers: list[GuardedProcess] = []
        self._master, self.url = self._daemon("master.Master", [], r"Starting Spark master at (spark://\S+)")

    def _daemon(
        self, name: str, arguments: Sequence[str], line: str, before: Sequence[str] = ()
    ) -> tuple[GuardedProcess, str]:
        """Start Master or Worker, and return it and the match in its log."""
        started = [f"{self.environment['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{name}"]
        place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        process = GuardedProcess([*before, *started, *place, *arguments], env=self.environment, cwd=self._folder)
        wait_until(
            lambda: re.search(line, process.stderr) or not process.running, 120, f"{line}: {process.stderr[-3000:]}"
        )
        found = re.search(line, process.stderr)
        if found is None:
            process.stop()
            raise AssertionError(process.stderr)
        return process, found[1]

    def add(self, *, cores: int, memory: str, work: Path | None = None, before: Sequence[str] = ()) -> None:
        """Add a Worker.

        Args:
            work: the folder of its executors.
            before: words before its command.
        """
        self._made += 1
        folder = work or self._folder / f"machine-{self._made}"
        options = ["--cores", str(cores), "--memory", memory, "--work-dir", str(folder), self.url]
        process, _ = self._daemon("worker.Worker", options, r"(Successfully registered) with master", before)
        self.workers.append(process)

    def kill_an_executor(self) -> None:
        """End the Java of an executor by SIGKILL. Its Worker starts another one."""
        self._kill_one("CoarseGrainedExecutorBackend")

    def kill_a_python(self) -> None:
        """End a process of Python that an executor started by SIGKILL."""
        self._kill_one("pyspark.daemon")

    def _kill_one(self, part: str) -> None:
        def found() -> list[int]:
            return [
                pid
                for worker in self.workers
                for pid, command in descendants(worker.pid).items()
                if part in command and (part.startswith("pyspark") or command.partition(" ")[0].endswith("java"))
            ]

        wait_until(found, 120, f"a process of {part}")
        os.kill(random.choice(found()), signal.SIGKILL)

    def kill_a_machine(self) -> None:
        """End a Worker, with its executors and all that these started, by SIGKILL."""
        self.workers.pop(0).kill()

    def stop(self) -> None:
        for process in (*self.workers, self._master):
            process.stop()
