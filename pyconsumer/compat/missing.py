"""Modules of the original clients that do not exist here, and their replacements.

``docs/porting.md`` has the same table. Tests compare it with the modules of both originals, and with the page.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MISSING_MODULES", "row_of"]

_REQUESTS: Final = "requests of one's own cannot be sent: call the client's method"
_BATCHES: Final = "the client makes and reads batches: `create_batch` of aiokafka's producer, `send_batch`"
_INTERNAL: Final = "internal: call the methods of the client"
_ASSIGNOR: Final = "internal: derive from the assignor's class"
_COMMAND: Final = "the command `pyconsumer`, as `pyconsumer topics`"

#: The beginning of the name of each module, and the replacement.
MISSING_MODULES: Final = {
    "aiokafka.consumer.fetcher": _INTERNAL,
    "aiokafka.consumer.subscription_state": _INTERNAL,
    "aiokafka.coordinator.assignors.sticky.partition_movements": _ASSIGNOR,
    "aiokafka.coordinator.assignors.sticky.sorted_set": _ASSIGNOR,
    "aiokafka.metrics": "`metrics()` of the clients",
    "aiokafka.producer.sender": _INTERNAL,
    "aiokafka.producer.transaction_manager": _INTERNAL,
    "aiokafka.protocol": _REQUESTS,
    "aiokafka.record": _BATCHES,
    "kafka.__main__": _COMMAND,
    "kafka.admin.__main__": _COMMAND,
    "kafka.admin._acls": _INTERNAL,
    "kafka.admin._cluster": _INTERNAL,
    "kafka.admin._configs": _INTERNAL,
    "kafka.admin._groups": _INTERNAL,
    "kafka.admin._partitions": _INTERNAL,
    "kafka.admin._topics": _INTERNAL,
    "kafka.admin._transactions": _INTERNAL,
    "kafka.admin._users": _INTERNAL,
    "kafka.benchmarks": "the folder `tests/benchmarks` of the sources",
    "kafka.cli": _COMMAND,
    "kafka.consumer.__main__": _COMMAND,
    "kafka.coordinator.assignors.sticky.partition_movements": _ASSIGNOR,
    "kafka.coordinator.assignors.sticky.sorted_set": _ASSIGNOR,
    "kafka.coordinator.assignors.sticky.user_data": _ASSIGNOR,
    "kafka.coordinator.base": _INTERNAL,
    "kafka.coordinator.consumer": _INTERNAL,
    "kafka.coordinator.heartbeat": _INTERNAL,
    "kafka.coordinator.subscription": _INTERNAL,
    "kafka.future": "`send` returns the class of `kafka.producer.future`",
    "kafka.metrics": "`metrics()` of the clients",
    "kafka.net": "connections and selectors are the client's. `kafka.net.sasl.oauth` is there",
    "kafka.producer.__main__": _COMMAND,
    "kafka.producer.producer_batch": _INTERNAL,
    "kafka.producer.record_accumulator": _INTERNAL,
    "kafka.producer.sender": _INTERNAL,
    "kafka.producer.transaction_manager": _INTERNAL,
    "kafka.protocol": _REQUESTS,
    "kafka.record": _BATCHES,
    "kafka.sasl": "mechanisms are chosen by `sasl_mechanism`. `kafka.sasl.oauth` is there",
    "kafka.serializer.wrapper": "functions are taken for serializers, too",
    "kafka.socks5_wrapper": "connections go to the brokers directly",
    "kafka.util": _INTERNAL,
    "kafka.vendor": "the packages themselves, such as `six`",
}


def row_of(module: str) -> tuple[str, str] | None:
    """Return the table's row for a module: the module's name in the table, and its replacement.

    None if there is no row.
    """
    name = module
    while name:
        if name in MISSING_MODULES:
            return name, MISSING_MODULES[name]
        name = name.rpartition(".")[0]
    return None
