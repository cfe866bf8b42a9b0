"""The calls of a share consumer that never wait."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer import KafkaShareConsumer


@pytest.mark.parametrize(
    ("topics", "kind"),
    [
        ("orders", TypeError),
        (None, TypeError),
        (5, TypeError),
        ([1], ValueError),
        ([None], ValueError),
        ([" "], ValueError),
    ],
)
def test_subscribe_takes_a_list_of_names_only(topics: Any, kind: type[Exception]) -> None:
    with KafkaShareConsumer(bootstrap_servers="127.0.0.1:1", group_id="g") as consumer:
        with pytest.raises(kind, match="name"):
            consumer.subscribe(topics)
        assert consumer.subscription() == set()
