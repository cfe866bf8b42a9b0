"""A consumer with health checks over HTTP, by the standard library alone.

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster. It answers ``/alive`` and
``/ready`` with 200 or 503, and the state of the consumer as JSON. The server's thread reads while the consumer works.
"""

import argparse
import json
import threading
import urllib.request
import uuid
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.broker import EmbeddedCluster


class HealthServer(ThreadingHTTPServer):
    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's asks DNS for a name, which takes seconds where DNS is broken
        self.server_name, self.server_port = self.server_address[:2]


def serve_health(consumer: KafkaConsumer, port: int) -> HealthServer:
    """Answer the probes of Kubernetes, or of anything else, in threads of their own."""

    class Probe(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            health = consumer.health()
            verdicts = {"/alive": health.is_alive, "/ready": health.is_ready}
            verdict = verdicts.get(self.path)
            self.send_response(404 if verdict is None else 200 if verdict() else 503)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(health.as_dict()).encode())

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = HealthServer(("127.0.0.1", port), Probe)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main(servers: str) -> None:
    topic = f"health-{uuid.uuid4().hex[:8]}"
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"tea").get(30)
    settings = {"bootstrap_servers": servers, "group_id": topic, "auto_offset_reset": "earliest"}
    with KafkaConsumer(topic, **settings) as consumer, serve_health(consumer, 0) as server:
        while not consumer.poll(timeout_ms=1000):
            pass
        for path in ("alive", "ready"):
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/{path}", timeout=30) as response:
                print(path, response.status, len(json.load(response)["assigned"]))
        server.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        at_once = {"group.initial.rebalance.delay.ms": 0}  # Kafka's default waits 3 s for more members
        main(arguments.bootstrap_servers or stack.enter_context(EmbeddedCluster(config=at_once)).bootstrap_servers)
