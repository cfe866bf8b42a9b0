"""``LocalHttpServer``: an HTTP server on 127.0.0.1 for tests, which asks no DNS."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

__all__ = ["LocalHttpServer"]


class LocalHttpServer(ThreadingHTTPServer):
    """Listens on a free port.

    That of the standard library asks DNS for the name of its address, which takes seconds on a machine without DNS.

    Attributes:
        url: its address, without a path.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def server_bind(self) -> None:
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
