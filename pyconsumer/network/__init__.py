"""Connections to brokers: bytes, encryption, authentication, which node to ask, what the cluster looks like.

Cores hold the rules and do no I/O: :mod:`.connection`, :mod:`.tls`, :mod:`.sasl`, :mod:`.metadata`, :mod:`.node`,
:mod:`.backoff`. :class:`~pyconsumer.network.client.NetworkClient` drives them on a selector and is the only place that
waits. What a generator yields to be driven by it is :class:`~pyconsumer.network.futures.Wait`.

Users of the package import from its modules; nothing is imported here, so that each pays for what it needs.
"""
