"""Public and internal values of kafka-python: ``cases_of_kafka.py ADDRESS SCENE,SCENE PREFIX``.

Like ``cases_of_aiokafka.py``. Instrumentations and frameworks read these values.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer
from kafka import errors as of_kafka

_, address, wanted, prefix = sys.argv
logging.disable(logging.CRITICAL)
scene = ""


def show(name: str, value: Any) -> None:
    print(json.dumps([scene, name, value]), flush=True)


def attempt(name: str, call: Callable[[], Any]) -> None:
    try:
        show(name, repr(call()))
    except Exception as error:
        show(name, [type(error).__name__, str(error)])


def caught(kind: type[Exception]) -> Exception:
    try:
        raise of_kafka.KafkaError("x")
    except (kind, of_kafka.KafkaError) as error:
        return error


def kafka_values() -> None:
    """Configuration, records, errors and internal names."""
    producer: Any = KafkaProducer(bootstrap_servers=address, acks=1)
    producer.send(prefix, b"v").get(120)
    consumer: Any = KafkaConsumer(
        prefix,
        bootstrap_servers=address,
        group_id=f"{prefix}-g",
        client_id="me",
        auto_offset_reset="earliest",
        consumer_timeout_ms=120_000,
    )
    attempt("config['bootstrap_servers']", lambda: consumer.config["bootstrap_servers"])
    attempt("config.get", lambda: producer.config.get("bootstrap_servers"))
    attempt("in config", lambda: ["group_id" in consumer.config, "x" in consumer.config])
    attempt("dict(config)", lambda: sorted(dict(consumer.config)))
    attempt("config.items()", lambda: len(consumer.config.items()))
    attempt("**config", lambda: len({**consumer.config}))
    attempt("DEFAULT_CONFIG", lambda: sorted(KafkaConsumer.DEFAULT_CONFIG))
    attempt("config['client_id']", lambda: (consumer.config["client_id"], producer.config["acks"]))
    record: Any = next(consumer)
    attempt("record[0]", lambda: record[0])
    attempt("unpacked", lambda: len([*record]))
    attempt("_replace", lambda: record._replace(value=b"z").value)
    attempt("_asdict", lambda: list(record._asdict()))
    attempt("set a field", lambda: setattr(record, "value", 1))
    for name in (
        "OffsetOutOfRangeError",
        "AuthorizationError",
        "IllegalArgumentError",
        "CorruptRecordError",
        "MessageSizeTooLargeError",
    ):
        attempt(f"except ({name}, KafkaError)", lambda name=name: caught(getattr(of_kafka, name)))  # type: ignore[misc]
    attempt("errno", lambda: of_kafka.OffsetOutOfRangeError.errno)
    attempt("issubclass", lambda: issubclass(of_kafka.TopicAuthorizationFailedError, of_kafka.AuthorizationError))
    attempt("isinstance", lambda: isinstance(of_kafka.OffsetOutOfRangeError({}), of_kafka.KafkaError))
    attempt("__version__", lambda: kafka.__version__)
    attempt("_metadata.controller", lambda: (producer._metadata.controller.host, producer._metadata.controller.rack))
    attempt("class of _metadata.controller", lambda: type(producer._metadata.controller).__name__)
    attempt("_subscription.subscription", lambda: consumer._subscription.subscription)
    attempt("_coordinator.coordinator()", lambda: str(consumer._coordinator.coordinator())[:12])
    attempt("class of _client", lambda: type(consumer._client).__name__)
    attempt("metrics", lambda: type(consumer.metrics()).__name__)
    attempt("bootstrap_connected", lambda: producer.bootstrap_connected())
    consumer.close()
    producer.close()


def kafka_settings() -> None:
    """Settings that frameworks give with their defaults."""
    for given in (
        {"sasl_mechanism": "", "sasl_plain_username": "", "sasl_plain_password": ""},
        {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "p"},
        {"security_protocol": "PLAINTEXT", "ssl_cafile": "/nonexistent"},
        {"ssl_context": None, "ssl_keyfile": None},
    ):
        for client in (KafkaConsumer, KafkaProducer):
            try:
                client(bootstrap_servers=address, **given).close()
            except Exception as error:
                show(f"{client.__name__} {given}", [type(error).__name__, str(error)])
            else:
                show(f"{client.__name__} {given}", "taken")
    for client in (KafkaConsumer, KafkaProducer, kafka.KafkaAdminClient):
        defaults = {name: value for name, value in client.DEFAULT_CONFIG.items() if name != "bootstrap_servers"}
        client(bootstrap_servers=address, **defaults).close()
        show(f"{client.__name__} with all defaults", len(defaults))


for scene in wanted.split(","):
    globals()[scene]()
    print(json.dumps([scene, "done"]), flush=True)
