"""Reserved ports of killed brokers that will restart.

While a killed broker is down, the system may give its port to another program, and the broker could not listen there
again. So the program that will restart it holds the port in the meantime, by a socket that is bound and does not
listen. Clients are refused, as by a broker that is down. The restarted broker listens on that very socket.
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
    """Reserve an unused port. 0 reserves any free port. Raises ``OSError`` if the port cannot be reserved."""
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
    """Reserve the ports of a killed broker. Ports that another program has taken are left out.

    Args:
        host: the address of the ports.
        ports: the ports by listener.

    Returns:
        A socket for each reserved port. The caller must close it.
    """
    held = {}
    for name, port in ports.items():
        try:
            held[name] = hold_port(host, port)
        except OSError as error:
            _log.warning("port %d cannot be held: %s", port, error)
    return held
