"""The APIs of other clients as thin layers over ours, so that a program keeps its imports.

:mod:`pyconsumer.compat.kafka` has kafka-python's API, and :mod:`pyconsumer.compat.aiokafka` has aiokafka's. A program
that imports the original itself, or through a framework, gets ours in one of three ways:

* ``pyconsumer.compat.install("aiokafka")`` as the first line of the program;
* the environment variable ``PYCONSUMER_COMPAT=aiokafka,kafka``, which each Python reads when it starts;
* ``python -m pyconsumer.compat aiokafka,kafka -m MODULE``, which sets that variable and starts the program.
"""

from __future__ import annotations

from pyconsumer.compat.installing import install, installed, uninstall

__all__ = ["install", "installed", "uninstall"]
