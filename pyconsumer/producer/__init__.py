"""The producer: batches in the calling thread, one background thread that sends them.

``partitioner`` chooses where, ``accumulator`` keeps batches and their order (no I/O), ``sender`` is the thread,
``future`` what ``send`` returns, ``producer`` the facade.
"""

from pyconsumer.producer.future_records import FutureRecords, SentRange
from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.producer.producer import KafkaProducer

__all__ = ["FutureRecordMetadata", "FutureRecords", "KafkaProducer", "SentRange"]
