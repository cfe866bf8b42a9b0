"""Metrics of the clients: the names of Java's, readable from any thread, and served to Prometheus.

``client.metrics()`` returns values by group and name, ``client.metric_table()`` a :class:`Metric` for each value. Both
may be called in any thread at any time, also while another call of the client waits, and after ``close``.
``health()`` of a consumer or producer returns a :class:`ConsumerHealth` or :class:`ProducerHealth`.
:func:`serve` and :func:`collector` need the extra ``[prometheus]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyconsumer.lazy_names import lazy_names

if TYPE_CHECKING:
    from pyconsumer.metrics.health import ConsumerHealth as ConsumerHealth
    from pyconsumer.metrics.health import ProducerHealth as ProducerHealth
    from pyconsumer.metrics.prometheus import MetricsServer as MetricsServer
    from pyconsumer.metrics.prometheus import collector as collector
    from pyconsumer.metrics.prometheus import serve as serve
    from pyconsumer.metrics.source import Metric as Metric
    from pyconsumer.metrics.source import MetricsReporter as MetricsReporter

__all__ = ["ConsumerHealth", "Metric", "MetricsReporter", "MetricsServer", "ProducerHealth", "collector", "serve"]

__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "ConsumerHealth": "pyconsumer.metrics.health",
        "Metric": "pyconsumer.metrics.source",
        "MetricsReporter": "pyconsumer.metrics.source",
        "MetricsServer": "pyconsumer.metrics.prometheus",
        "ProducerHealth": "pyconsumer.metrics.health",
        "collector": "pyconsumer.metrics.prometheus",
        "serve": "pyconsumer.metrics.prometheus",
    },
)
