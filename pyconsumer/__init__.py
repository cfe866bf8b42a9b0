"""A Kafka consumer for Python: client, embedded broker and Spark source, without a jar.

The names below are imported when they are first used, so that ``import pyconsumer`` is quick.
"""

from __future__ import annotations

import _thread
from typing import TYPE_CHECKING

from pyconsumer.lazy_names import lazy_names

if not getattr(_thread, "daemon_threads_allowed", lambda: True)():
    raise ImportError(
        "pyconsumer cannot be used in an isolated subinterpreter (PEP 734), which does not allow its daemon threads and"
        " its compiled modules: use it in the main interpreter, in threads, or in other processes"
    )

if TYPE_CHECKING:
    from pyconsumer import errors as errors
    from pyconsumer.admin import KafkaAdminClient as KafkaAdminClient
    from pyconsumer.admin.typed_settings import AdminSettings as AdminSettings
    from pyconsumer.consumer.consumer import KafkaConsumer as KafkaConsumer
    from pyconsumer.consumer.interface import Consumer as Consumer
    from pyconsumer.consumer.interface import ConsumerRebalanceListener as ConsumerRebalanceListener
    from pyconsumer.consumer.progress import RecordProgress as RecordProgress
    from pyconsumer.consumer.records import ConsumerRecords as ConsumerRecords
    from pyconsumer.consumer.share.consumer import KafkaShareConsumer as KafkaShareConsumer
    from pyconsumer.consumer.share.interface import ShareConsumer as ShareConsumer
    from pyconsumer.consumer.share.typed_settings import ShareConsumerSettings as ShareConsumerSettings
    from pyconsumer.consumer.typed_settings import ConsumerSettings as ConsumerSettings
    from pyconsumer.exactly_once import process_exactly_once as process_exactly_once
    from pyconsumer.producer import KafkaProducer as KafkaProducer
    from pyconsumer.producer.interface import Producer as Producer
    from pyconsumer.producer.typed_settings import ProducerSettings as ProducerSettings
    from pyconsumer.protocol.records import ConsumerRecord as ConsumerRecord
    from pyconsumer.signals import stop_on_signals as stop_on_signals
    from pyconsumer.structs import AcknowledgeType as AcknowledgeType
    from pyconsumer.structs import ConsumerGroupMetadata as ConsumerGroupMetadata
    from pyconsumer.structs import OffsetAndMetadata as OffsetAndMetadata
    from pyconsumer.structs import OffsetAndTimestamp as OffsetAndTimestamp
    from pyconsumer.structs import SubscriptionPattern as SubscriptionPattern
    from pyconsumer.structs import TopicPartition as TopicPartition

__version__ = "0.1.0"

_HOMES = {
    "AcknowledgeType": "pyconsumer.structs",
    "AdminSettings": "pyconsumer.admin.typed_settings",
    "Consumer": "pyconsumer.consumer.interface",
    "ConsumerGroupMetadata": "pyconsumer.structs",
    "ConsumerRebalanceListener": "pyconsumer.consumer.interface",
    "ConsumerRecord": "pyconsumer.protocol.records",
    "ConsumerRecords": "pyconsumer.consumer.records",
    "ConsumerSettings": "pyconsumer.consumer.typed_settings",
    "KafkaAdminClient": "pyconsumer.admin",
    "KafkaConsumer": "pyconsumer.consumer.consumer",
    "KafkaProducer": "pyconsumer.producer",
    "KafkaShareConsumer": "pyconsumer.consumer.share.consumer",
    "OffsetAndMetadata": "pyconsumer.structs",
    "OffsetAndTimestamp": "pyconsumer.structs",
    "Producer": "pyconsumer.producer.interface",
    "ProducerSettings": "pyconsumer.producer.typed_settings",
    "RecordProgress": "pyconsumer.consumer.progress",
    "ShareConsumer": "pyconsumer.consumer.share.interface",
    "ShareConsumerSettings": "pyconsumer.consumer.share.typed_settings",
    "SubscriptionPattern": "pyconsumer.structs",
    "TopicPartition": "pyconsumer.structs",
    "errors": "pyconsumer.errors",
    "process_exactly_once": "pyconsumer.exactly_once",
    "stop_on_signals": "pyconsumer.signals",
}

__all__ = [
    "AcknowledgeType",
    "AdminSettings",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerRecords",
    "ConsumerSettings",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "KafkaShareConsumer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "ProducerSettings",
    "RecordProgress",
    "ShareConsumer",
    "ShareConsumerSettings",
    "SubscriptionPattern",
    "TopicPartition",
    "errors",
    "process_exactly_once",
    "stop_on_signals",
]

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
