"""Tools for testing programs that use Kafka: a pytest plugin with a real broker, mocks, builders of records, a clock.

pytest loads the plugin where pyconsumer is installed. A test only has to name one of its fixtures (see
:mod:`pyconsumer.testing.plugin`)::

    def test_orders_are_counted(kafka_topic, kafka_producer):
        kafka_producer().send(kafka_topic, b"an order").get(timeout=10)
        ...

``docs/testing.md`` shows the tests of a sample program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyconsumer.clock import Clock, ManualClock, RunningClock
from pyconsumer.lazy_names import lazy_names

if TYPE_CHECKING:
    from pyconsumer.testing.async_mock_share_consumer import AsyncMockShareConsumer as AsyncMockShareConsumer
    from pyconsumer.testing.async_mocks import AsyncMockConsumer as AsyncMockConsumer
    from pyconsumer.testing.async_mocks import AsyncMockProducer as AsyncMockProducer
    from pyconsumer.testing.builders import make_arrow_batch as make_arrow_batch
    from pyconsumer.testing.builders import make_record as make_record
    from pyconsumer.testing.builders import make_records as make_records
    from pyconsumer.testing.builders import poll_result as poll_result
    from pyconsumer.testing.mock_consumer import MockConsumer as MockConsumer
    from pyconsumer.testing.mock_producer import MockProducer as MockProducer
    from pyconsumer.testing.mock_share_consumer import MockShareConsumer as MockShareConsumer
    from pyconsumer.testing.sent_record import SentRecord as SentRecord

#: Imported when they are first used: every run of pytest imports this package.
_HOMES = {
    "AsyncMockConsumer": "pyconsumer.testing.async_mocks",
    "AsyncMockProducer": "pyconsumer.testing.async_mocks",
    "AsyncMockShareConsumer": "pyconsumer.testing.async_mock_share_consumer",
    "MockConsumer": "pyconsumer.testing.mock_consumer",
    "MockProducer": "pyconsumer.testing.mock_producer",
    "MockShareConsumer": "pyconsumer.testing.mock_share_consumer",
    "SentRecord": "pyconsumer.testing.sent_record",
    "make_arrow_batch": "pyconsumer.testing.builders",
    "make_record": "pyconsumer.testing.builders",
    "make_records": "pyconsumer.testing.builders",
    "poll_result": "pyconsumer.testing.builders",
}

__all__ = [
    "AsyncMockConsumer",
    "AsyncMockProducer",
    "AsyncMockShareConsumer",
    "Clock",
    "ManualClock",
    "MockConsumer",
    "MockProducer",
    "MockShareConsumer",
    "RunningClock",
    "SentRecord",
    "make_arrow_batch",
    "make_record",
    "make_records",
    "poll_result",
]

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
