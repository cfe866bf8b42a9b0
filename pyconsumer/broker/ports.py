"""Ports of brokers that were killed and will come back.

While a killed broker is away, the system may give its port to anybody who asks for a free one, and the broker could not
listen there again. So whoever will start it again holds the port in the meantime: by a socket that is bound and does
not listen, so that clients are refused as by a broker that is down. The broker that comes back listens on that very
socket.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

__all__ = ["HeldPorts", "hold_port", "hold_ports"]

from pyconsumer.background_log import Log

_log = Log(__name__)

#: The sockets that hold one broker's ports, by listener.
HeldPorts = dict[str, socket.socket]


def hold_port(host: str, port: int) -> socket.socket:
    """Hold a port on which nobody listens. 0: a free one. ``OSError`` if it cannot be had."""
    is_v6 = ":" in host
    sock = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_v6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # as socket.create_server does
        sock.bind((host, port))
    except BaseException:
        sock.close()
        raise
    return sock


def hold_ports(host: str, ports: Mapping[str, int]) -> HeldPorts:
    """Hold the ports of a broker that was killed, as far as nobody was faster to get them.

    Args:
        host: address that they belong to.
        ports: by listener.

    Returns:
        a socket for each port that is held, to be closed by the caller.
    """
    held = {}
    for name, port in ports.items():
        try:
            held[name] = hold_port(host, port)
        except OSError as error:
            _log.warning("port %d cannot be kept: %s", port, error)
    return held
