"""Who may connect: a cluster with users always demands a login, and the name in a client's certificate."""

from __future__ import annotations

import os
import signal

import pytest

from pyconsumer.broker import EmbeddedCluster, run_broker
from pyconsumer.errors import ConfigurationError


def test_no_users_at_all_do_not_open_the_cluster_to_everybody() -> None:
    with pytest.raises(ConfigurationError, match="needs users"):
        EmbeddedCluster(data_dir=":memory:", users={})
    with pytest.raises(ConfigurationError, match="needs users"):
        run_broker(port=0, data_dir=":memory:", users={}, announce=lambda _: os.kill(os.getpid(), signal.SIGTERM))
