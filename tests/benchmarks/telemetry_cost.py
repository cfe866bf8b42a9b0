"""``python -m tests.benchmarks.telemetry_cost``: processor time of a poll and of a send, by what observes them.

Each state takes its turn in every round, in one thread. The least time of the rounds counts, so a load on the machine
hardly matters. A poll takes 500 records of 100 bytes. A send has a batch that it joins.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import click
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider, sampling

from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.opentelemetry import PyconsumerInstrumentor
from tests.support.spans import Drops

_SAMPLERS: dict[str, sampling.Sampler | None] = {
    "no provider": None,
    "always_off": sampling.ALWAYS_OFF,
    "parentbased_always_off": sampling.ParentBased(sampling.ALWAYS_OFF),
    "another sampler that drops": Drops(),
    "always_on, no exporter": sampling.ALWAYS_ON,
}
_RECORDS = 100_000
_SENDS = 2_000


def switch(sampler: sampling.Sampler | None) -> None:
    """Let a sampler observe the clients of this process, or nothing."""
    if sampler is None:
        PyconsumerInstrumentor().uninstrument()
        return
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(SpanProcessor())
    PyconsumerInstrumentor().instrument(tracer_provider=provider)


def microseconds(call: Callable[[], int]) -> float:
    """Return this thread's processor time for one of the calls that ``call`` makes and counts."""
    began = time.thread_time()
    count = call()
    return (time.thread_time() - began) / count * 1e6


@click.command()
@click.option("--rounds", default=15, show_default=True, type=click.IntRange(1))
def main(rounds: int) -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("read", 1)
        cluster.create_topic("written", 1)
        with (
            KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=5) as producer,
            KafkaConsumer("read", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as reader,
        ):
            producer.send_many("read", [b"v" * 100] * _RECORDS).get()

            def poll() -> int:
                left, polls = _RECORDS, 0
                while left:
                    left -= reader.poll(10_000).count()
                    polls += 1
                reader.seek_to_beginning()
                return polls

            def send() -> int:
                for _ in range(_SENDS):
                    producer.send("written", b"v" * 100)
                return _SENDS

            least: dict[tuple[str, str], float] = {}
            for _ in range(rounds):
                for state, sampler in _SAMPLERS.items():
                    switch(sampler)
                    time.sleep(0.1)  # the buffer of the consumer is as full as for the others
                    for name, call in (("poll", poll), ("send", send)):
                        key = name, state
                        least[key] = min(least.get(key, 1e9), microseconds(call))
                    producer.flush()
            switch(None)
    for (name, state), found in sorted(least.items()):
        base = least[name, "no provider"]
        click.echo(f"{name}\t{state}\t{found:.2f} us\t{found / base - 1:+.1%}")


if __name__ == "__main__":
    main()
