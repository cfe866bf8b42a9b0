"""Brokers of the lane ``tox -e ports``. Without ``PYCONSUMER_PORTS`` no test of this folder is collected."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.ports.environments import make_environments
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster, start_cluster

collect_ignore_glob = [] if os.environ.get("PYCONSUMER_PORTS") else ["test_*.py"]


@pytest.fixture(scope="session")
def cluster_kind(request: pytest.FixtureRequest) -> str:
    """The kind of broker. By its name tests/conftest.py puts all tests on one kind into one process."""
    return str(getattr(request, "param", "embedded"))


@pytest.fixture(scope="session")
def cluster(cluster_kind: str, certificates: Certificates) -> Iterator[Cluster]:
    """A broker."""
    running = start_cluster(cluster_kind, certificates)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session", autouse=True)
def _environments() -> None:
    """All environments are made before the first test: at the same time, and outside a test's timeout."""
    make_environments()
