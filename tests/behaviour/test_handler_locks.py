"""Log handlers that hold their locks, or block, while somebody waits for a thread of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.process import run

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 90.0


@pytest.mark.pairs("client", "way")
@pytest.mark.concurrent
@pytest.mark.parametrize("way", ["close", "drop", "exit"])
@pytest.mark.parametrize("client", ["producer", "consumer", "admin", "aio producer", "aio consumer", "aio admin"])
def test_a_handler_that_owns_a_client_is_replaced(
    cluster: Cluster, topic: str, group_id: str, client: str, way: str
) -> None:
    """``dictConfig`` closes the old handlers under the lock of logging, which a thread of ours must not need."""
    program = [sys.executable, "-m", "tests.support.handler_program", "handler", client, way]
    finished = run([*program, cluster.bootstrap_servers, topic, group_id], timeout_s=TIMEOUT_S, cwd=ROOT)
    assert finished.stdout == "returned\n"
    assert finished.returncode == 0
    assert "Traceback" not in finished.stderr


@pytest.mark.concurrent
@pytest.mark.parametrize("who", ["consumer", "producer", "broker"])
def test_nobody_reads_standard_error(cluster: Cluster, topic: str, group_id: str, who: str) -> None:
    """The threads of the clients, and of a broker in a thread, log to a full pipe, and continue."""
    program = [sys.executable, "-m", "tests.support.handler_program", "pipe", who]
    process = subprocess.Popen(
        [*program, cluster.bootstrap_servers, topic, group_id], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert process.wait(TIMEOUT_S) == 0
        assert process.stdout.read() == b"returned\n"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
