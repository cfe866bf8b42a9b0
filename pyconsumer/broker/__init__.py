"""An embedded Kafka cluster: real sockets, Kafka's protocol and file formats, a real group coordinator.

It stands in for Apache Kafka on one machine, for developing, testing and learning::

    with EmbeddedCluster(config={"num.partitions": 3}) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

It is not for production: everything depends on one machine and its disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyconsumer.lazy_names import lazy_names

if TYPE_CHECKING:
    from pyconsumer.broker.cluster import ClusterFaults, EmbeddedCluster
    from pyconsumer.broker.process import run_broker

__all__ = ["ClusterFaults", "EmbeddedCluster", "run_broker"]

#: Imported on first use: the rules of groups, for example, can be used without the rest.
_HOMES = {
    "ClusterFaults": "pyconsumer.broker.cluster",
    "EmbeddedCluster": "pyconsumer.broker.cluster",
    "run_broker": "pyconsumer.broker.process",
}

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
