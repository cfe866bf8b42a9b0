"""A member with an unreadable subscription, in a group that our consumer leads."""

from __future__ import annotations

import pytest

from pyconsumer import KafkaConsumer
from pyconsumer.errors import ProtocolError
from tests.behaviour.consumer_support import poll_until
from tests.behaviour.raw_members import Connect, Member
from tests.support.cluster import Cluster


@pytest.mark.concurrent
def test_the_leader_names_the_member_whose_subscription_is_broken(
    cluster: Cluster, topic: str, group_id: str, connect: Connect
) -> None:
    with KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        partition_assignment_strategy=["range"],
        heartbeat_interval_ms=100,
    ) as leader:
        poll_until(leader, leader.assignment)
        broken = Member(connect, group_id, metadata=b"\x00")
        broken.join()
        broken.send_join()
        with pytest.raises(ProtocolError) as raised:
            poll_until(leader, lambda: False, 30)
        text = str(raised.value)
        assert f"subscription of member '{broken.member_id}' in group '{group_id}' cannot be read" in text
        assert "1 bytes are too short for a version. These bytes come from that member" in text
        broken.client.close()
