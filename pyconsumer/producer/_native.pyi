"""The compiled half of the producer, see ``native/_native.pyx``: the names of the twins, with the same meaning."""

from pyconsumer.producer.batch import BufferMemory as BufferMemory
from pyconsumer.producer.batch import ProducerBatch as ProducerBatch
from pyconsumer.producer.fast_append import Appender as Appender
from pyconsumer.producer.future import BatchResult as BatchResult
from pyconsumer.producer.future import FutureRecordMetadata as FutureRecordMetadata
from pyconsumer.protocol.records.builder import BatchBuilder as BatchBuilder

REVISION: int

def murmur2(data: bytes) -> int: ...
