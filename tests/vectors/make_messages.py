"""Makes ``messages.jsonl.gz``: ``python -m tests.vectors.make_messages`` (needs Java and, the first time, Maven)."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

from pyconsumer.protocol import (
    consumer_group_records,
    consumer_protocol,
    offsets_topic,
    share_group_records,
    share_state_topic,
    transaction_topic,
)
from pyconsumer.protocol.api import RequestHeaderMessage, ResponseHeaderMessage
from pyconsumer.protocol.api_keys import API
from pyconsumer.protocol.messages import load
from pyconsumer.protocol.schema import Message
from tests.support.java import NEW_VERSION, KafkaTools

__all__ = ["VECTORS", "declared", "write_vectors"]

VECTORS = Path(__file__).with_name("messages.jsonl.gz")


def declared() -> dict[str, type[Message]]:
    """Every message that we declare, by Kafka's name: requests, responses, headers, records of internal topics."""
    found: dict[str, type[Message]] = {
        "RequestHeader": RequestHeaderMessage,
        "ResponseHeader": ResponseHeaderMessage,
    }
    for api_key in API:
        found |= {cls.__name__: cls for cls in load(api_key)}
    modules = (
        consumer_group_records,
        consumer_protocol,
        offsets_topic,
        share_group_records,
        share_state_topic,
        transaction_topic,
    )
    for module in modules:
        for item in vars(module).values():
            if isinstance(item, type) and issubclass(item, Message) and item is not Message:
                found[item.__name__] = item
    return found


def write_vectors(tools: KafkaTools, path: Path) -> None:
    """Let Kafka's classes write every declared message at every version."""
    with tempfile.TemporaryDirectory() as folder:
        spec, plain = Path(folder, "spec"), Path(folder, "plain")
        spec.write_text("".join(f"{name} {cls.MIN_VERSION} {cls.MAX_VERSION}\n" for name, cls in declared().items()))
        tools.run_source(Path(__file__).with_name("MessageVectors.java"), str(spec), str(plain))
        with path.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, mtime=0) as packed:
            packed.write(plain.read_bytes())


if __name__ == "__main__":
    write_vectors(KafkaTools(NEW_VERSION), VECTORS)
    print(f"{VECTORS}: {VECTORS.stat().st_size} bytes")
