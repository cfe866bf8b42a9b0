"""Brokers of the lane ``tox -e ports``. Without ``PYCONSUMER_PORTS`` no test of this folder is collected."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.certificates import Certificates
from tests.support.cluster import Cluster, start_cluster

collect_ignore_glob = [] if os.environ.get("PYCONSUMER_PORTS") else ["test_*.py"]


@pytest.fixture(scope="session")
def embedded_cluster(certificates: Certificates) -> Iterator[Cluster]:
    cluster = start_cluster("embedded", certificates)
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def apache_cluster(certificates: Certificates) -> Iterator[Cluster]:
    cluster = start_cluster("apache", certificates)
    try:
        yield cluster
    finally:
        cluster.stop()
