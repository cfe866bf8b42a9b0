"""The limit: one thread that sends fetch requests to one broker and reads only the headers of batches.

The next request leaves as soon as an answer is there, as in our own consumer. Records are not decoded,
decompressed or checked, so the result is the most that broker, system and a Python thread can move.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

from pyconsumer.protocol.api import decode_response, encode_request
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.records import Cursor
from pyconsumer.structs import TopicPartition
from tests.benchmarks.client_program import Watch, peak_bytes

__all__ = ["NAME", "NOTE"]

NAME = "raw loop"
NOTE = "one Python thread, a blocking socket, no decoding or checks: the limit"

_VERSION = 11  # the newest without topic ids and without tagged fields: the least work
_PARTITION_BYTES, _MOST_BYTES, _WAIT_MS = 1 << 20, 50 << 20, 500
_BUFFER_BYTES = 8 << 20


class _Loop:
    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        host, port = servers.split(",")[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=60.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._topic = topic
        self._offsets = dict.fromkeys(range(partitions), 0)
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))

    def read(self, records: int) -> int:
        """Read at least this number of records, and return the number read."""
        self._send()
        while True:
            answer = self._receive()
            _, response = decode_response(FetchRequest.API_KEY, _VERSION, answer)
            for topic in response.responses:
                for data in topic.partitions:
                    if data.error_code:
                        raise RuntimeError(f"partition {data.partition_index}: error {data.error_code}")
                    at = self._offsets[data.partition_index]
                    tp = TopicPartition(self._topic, data.partition_index)
                    cursor = Cursor(tp, data.records or b"", fetch_offset=at)
                    self._offsets[data.partition_index] = max(at, cursor.end_offset)
                    cursor.close()
            came = sum(self._offsets.values())
            if came >= records:
                return came
            self._send()

    def _send(self) -> None:
        partitions = [
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=_PARTITION_BYTES)
            for number, offset in self._offsets.items()
        ]
        topics = [FetchTopic(topic=self._topic, partitions=partitions)]
        request = FetchRequest(max_wait_ms=_WAIT_MS, min_bytes=1, max_bytes=_MOST_BYTES, topics=topics)
        for part in encode_request(request, _VERSION, 0, "raw"):
            self._socket.sendall(part)

    def _receive(self) -> memoryview:
        size = int.from_bytes(self._fill(4), "big")
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(size))
        return self._fill(size)

    def _fill(self, size: int) -> memoryview:
        part, got = self._buffer[:size], 0
        while got < size:
            count = self._socket.recv_into(part[got:])
            if not count:
                raise ConnectionError("the broker closed the connection")
            got += count
        return part

    def close(self) -> None:
        self._socket.close()


def main(arguments: dict[str, Any]) -> dict[str, Any]:
    """A quarter of the topic to warm up, then all of it."""
    for records in (arguments["records"] // 4, arguments["records"]):
        loop, watch = _Loop(arguments["servers"], arguments["topic"], arguments["partitions"]), Watch()
        try:
            watch.start()
            came = loop.read(records)
            watch.stop()
        finally:
            loop.close()
    return {"records": came, **watch.found, "peak_bytes": peak_bytes()}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
