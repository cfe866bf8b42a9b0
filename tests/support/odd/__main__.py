"""Asks a broker for the answers to all odd requests.

``python -m tests.support.odd`` starts Apache Kafka and writes the table, ``python -m tests.support.odd --ours`` starts
the embedded broker and prints the rows that it answers otherwise than the table says. An argument is a part of the
words of the inputs that are asked.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.support.certificates import make_certificates
from tests.support.cluster import start_cluster
from tests.support.odd import table
from tests.support.odd.world import World


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.odd", description=__doc__)
    parser.add_argument("words", nargs="?", default="")
    parser.add_argument("--ours", action="store_true", help="compare the embedded broker with the table")
    options = parser.parse_args()
    known = table.read() if table.PATH.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        cluster = start_cluster("embedded" if options.ours else "apache", make_certificates(Path(folder)))
        world = World(cluster.bootstrap_servers)
        try:
            answers = {key: world.ask(case) for key, case in table.cases().items() if options.words in " ".join(key)}
        finally:
            world.close()
            cluster.stop()
    if options.ours:
        for key, answer in answers.items():
            row = known.get(key, table.Row(*key, "not in the table"))
            if answer != row.expected:
                print(f"{row.area}\t{row.words}\n  Kafka\t{row.kafka}\n  table\t{row.expected}\n  ours\t{answer}")
        return
    rows = []
    for key in table.cases():
        row = known.get(key, table.Row(*key, ""))
        rows.append(row._replace(kafka=answers.get(key, row.kafka)))
        if row.kafka not in ("", rows[-1].kafka):
            print(f"{row.area}\t{row.words}\n  was\t{row.kafka}\n  is\t{rows[-1].kafka}")
    table.write(rows)


if __name__ == "__main__":
    main()
