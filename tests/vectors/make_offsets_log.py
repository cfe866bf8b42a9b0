"""Makes ``offsets_log.gz`` and ``offsets_log.json``: a partition of ``__consumer_offsets`` that Apache Kafka wrote.

``python -m tests.vectors.make_offsets_log`` (needs Java and, the first time, Maven). The partition holds classic groups
with dynamic and static members, groups without members, tombstones, offsets of transactions that were committed,
aborted and left open, and records of the newer group protocols (KIP-848, share groups). The JSON file holds the
description that Kafka's admin client reported of those groups before the broker stopped.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.support.apache_kafka import ApacheKafka
from tests.support.process import GuardedProcess, wait_until

__all__ = ["DESCRIPTION", "LOG", "make"]

LOG = Path(__file__).with_name("offsets_log.gz")
DESCRIPTION = Path(__file__).with_name("offsets_log.json")


def make(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """Let Kafka write the partition. Return the bytes of its one segment, and its admin client's report by group."""
    with ApacheKafka(folder=folder, config={"offsets.topic.num.partitions": 1}) as kafka:
        program = kafka.tools.java(str(Path(__file__).with_name("OffsetsLog.java")), kafka.bootstrap_servers)
        with GuardedProcess(program) as groups:
            wait_until(lambda: groups.stdout.endswith("}\n") or not groups.running, 120, "the groups")
            assert groups.running, groups.stderr
            groups_by_id = json.loads(groups.stdout)
            groups.kill()  # nobody leaves
        kafka.pause()
        (segment,) = kafka.data_folder.glob("__consumer_offsets-0/*.log")
        return segment.read_bytes(), groups_by_id


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data, groups_by_id = make(Path(folder))
    with LOG.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, mtime=0) as packed:
        packed.write(data)
    DESCRIPTION.write_text(json.dumps(groups_by_id, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{LOG}: {LOG.stat().st_size} bytes for {len(data)}; groups: {', '.join(groups_by_id)}")


if __name__ == "__main__":
    main()
