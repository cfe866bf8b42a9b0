"""kafka-schema-registry on kafka-python: ``schemas_of_a_registry.py ADDRESS SCENE PREFIX``, with its own registry."""

from __future__ import annotations

import http.server
import json
import socketserver
import sys
import threading
from typing import Any

from kafka import KafkaConsumer
from kafka_schema_registry import delete_topic, prepare_producer

_, address, wanted, prefix = sys.argv
asked: list[Any] = []


def show(name: str, value: Any) -> None:
    print(json.dumps([wanted, name, value]).replace(prefix, "TOPIC").replace(address, "ADDRESS"), flush=True)


class Registry(http.server.BaseHTTPRequestHandler):
    """Gives each subject the next id."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        asked.append(self.path)
        body = json.dumps({"id": len(asked)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's asks DNS for a name
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]


server = Server(("127.0.0.1", 0), Registry)
threading.Thread(target=server.serve_forever, daemon=True).start()
schema = {"type": "record", "name": "r", "fields": [{"name": "age", "type": "int"}]}
for _ in range(2):  # the topic is there the second time
    producer = prepare_producer(
        [address],
        f"http://127.0.0.1:{server.server_port}",
        prefix,
        2,
        1,
        value_schema=schema,
        key_schema=schema,
        topic_config={"retention.ms": "100000"},
    )
    show("sent", producer.send(prefix, value={"age": 34}, key={"age": 3}, partition=0).get(120).offset)
    producer.close()
show("asked", asked)
consumer = KafkaConsumer(prefix, bootstrap_servers=[address], auto_offset_reset="earliest", consumer_timeout_ms=120_000)
record = next(consumer)
show("record", [record.key.hex(), record.value.hex(), record.topic])
show("partitions", sorted(consumer.partitions_for_topic(prefix)))
consumer.close()
delete_topic(prefix, bootstrap_servers=[address])
server.shutdown()
server.server_close()
print(json.dumps([wanted, "done"]), flush=True)
