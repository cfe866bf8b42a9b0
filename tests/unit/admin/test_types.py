"""Arguments of the admin client."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.admin import ConfigResource, ConfigResourceType


@pytest.mark.parametrize("given", [ConfigResourceType.TOPIC, "topic", "TOPIC", 2])
def test_the_type_of_a_resource_by_name_and_number(given: Any) -> None:
    assert ConfigResource(given, "orders").resource_type is ConfigResourceType.TOPIC


@pytest.mark.parametrize("given", ["topics", 3, None])
def test_a_type_that_is_none_is_refused_with_those_that_there_are(given: Any) -> None:
    with pytest.raises(ValueError, match=r"is no type of a resource. There are TOPIC, BROKER, BROKER_LOGGER"):
        ConfigResource(given, "orders")
