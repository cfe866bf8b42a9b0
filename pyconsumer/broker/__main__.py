"""``python -m pyconsumer.broker``: a broker until SIGTERM, with ``--control`` the child of an ``EmbeddedCluster``."""

from __future__ import annotations

import argparse
import sys

from pyconsumer.broker.console_log import log_to_stderr
from pyconsumer.broker.process import run_broker, run_child
from pyconsumer.errors import KafkaError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m pyconsumer.broker", description=__doc__)
    parser.add_argument("--control", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9092, help="0 picks a free one")
    parser.add_argument("--data-dir", help="where data is kept (default: a temporary folder)")
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="a broker setting of Kafka's"
    )
    options = parser.parse_args()
    if options.control:
        return run_child()
    log_to_stderr()
    wrong = [item for item in options.config if "=" not in item]
    if wrong:
        parser.error(f"--config wants KEY=VALUE, not {wrong[0]!r}")
    try:
        return run_broker(
            host=options.host,
            port=options.port,
            data_dir=options.data_dir,
            brokers=options.brokers,
            config=dict(item.split("=", 1) for item in options.config),
        )
    except KafkaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
