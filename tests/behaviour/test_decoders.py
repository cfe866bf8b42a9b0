"""Consumers on either decoder: tests marked ``twins`` read with that of the run and with the other one."""

from __future__ import annotations

import pytest

from pyconsumer import TopicPartition
from tests.behaviour.consumer_support import consuming, fill, read
from tests.support.cluster import Cluster
from tests.unit.protocol.records.helpers import Decoder

pytestmark = [pytest.mark.twins, pytest.mark.embedded_only("the decoder is ours, whatever broker the bytes come from")]


@pytest.mark.parametrize("options", [{}, {"value_deserializer": bytes.decode}], ids=["raw", "deserialized"])
def test_records_come_from_the_decoder_of_the_test(
    cluster: Cluster, topic: str, decoder: Decoder, options: dict[str, object]
) -> None:
    fill(cluster, topic, 3)
    with consuming(cluster, TopicPartition(topic, 0), **options) as consumer:
        assert all(isinstance(record, decoder.ConsumerRecord) for record in read(consumer, 3))
