"""Connections to brokers: bytes, encryption, authentication, the choice of a node, the metadata of the cluster.

Cores hold the rules and do no I/O: :mod:`.connection`, :mod:`.tls`, :mod:`.sasl`, :mod:`.metadata`, :mod:`.node`,
:mod:`.backoff`. :class:`~pyconsumer.network.client.NetworkClient` drives them on a selector and is the only place that
waits. A generator that it drives yields a :class:`~pyconsumer.network.futures.Wait`.

Users of the package import from its modules. This file imports none of them, to keep imports small.
"""
