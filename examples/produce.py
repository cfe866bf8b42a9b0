"""Send records: with keys, headers and a callback. Wait for one of them, and look at a refused record.

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster.
"""

import argparse
import json
from contextlib import ExitStack

from pyconsumer import KafkaProducer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import RecordTooLargeError


def main(servers: str) -> None:
    delivered = []
    with KafkaProducer(
        bootstrap_servers=servers,
        value_serializer=lambda value: json.dumps(value).encode(),
        compression_type="zstd",
        linger_ms=20,
    ) as producer:
        for number in range(10):
            # Records of one key keep their order: they all go to the same partition.
            future = producer.send("orders", {"order": number}, key=f"customer-{number % 3}", headers=[("v", b"1")])
            future.add_callback(delivered.append)  # called by the producer's own thread

        metadata = future.get(timeout=10)  # waits for the last one; raises what went wrong
        print(f"the last order is at offset {metadata.offset} of {metadata.topic}-{metadata.partition}")

        try:
            producer.send("orders", "x" * 2_000_000)
        except RecordTooLargeError as error:
            print(f"refused: {error}")
    # Leaving the block sends what is left and waits for it.
    print(f"{len(delivered)} orders delivered")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    address = parser.parse_args().bootstrap_servers
    with ExitStack() as stack:
        main(address or stack.enter_context(EmbeddedCluster()).bootstrap_servers)
