"""Metrics of the clients: the names of Java's, readable from any thread, and served to Prometheus.

``client.metrics()`` returns values by group and name, ``client.metric_table()`` a :class:`Metric` for each value. Both
may be called in any thread at any time, also while another call of the client waits, and after ``close``.
:func:`serve` and :func:`collector` need the extra ``[prometheus]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyconsumer.lazy_names import lazy_names

if TYPE_CHECKING:
    from pyconsumer.metrics.prometheus import MetricsServer as MetricsServer
    from pyconsumer.metrics.prometheus import collector as collector
    from pyconsumer.metrics.prometheus import serve as serve
    from pyconsumer.metrics.source import Metric as Metric
    from pyconsumer.metrics.source import MetricsReporter as MetricsReporter

__all__ = ["Metric", "MetricsReporter", "MetricsServer", "collector", "serve"]

__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "Metric": "pyconsumer.metrics.source",
        "MetricsReporter": "pyconsumer.metrics.source",
        "MetricsServer": "pyconsumer.metrics.prometheus",
        "collector": "pyconsumer.metrics.prometheus",
        "serve": "pyconsumer.metrics.prometheus",
    },
)
