"""Names of other clients' settings: the errors for them name the setting to use."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pyconsumer.admin.config import ADMIN_SETTINGS
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.errors import ConfigurationError
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.settings.foreign_names import CLIENT_NAMES, CONSUMER_NAMES, PRODUCER_NAMES, SWITCHED_OFF

_CLIENTS = {
    "consumer": (CONSUMER_SETTINGS, CLIENT_NAMES | CONSUMER_NAMES),
    "producer": (PRODUCER_SETTINGS, CLIENT_NAMES | PRODUCER_NAMES),
    "admin": (ADMIN_SETTINGS, CLIENT_NAMES),
}


@pytest.mark.parametrize("client", _CLIENTS)
def test_every_name_leads_to_a_setting_that_is_there(client: str) -> None:
    settings, names = _CLIENTS[client]
    known = {name for setting in settings for name in setting.names}
    for name, hint in names.items():
        if name in known:
            continue
        with pytest.raises(ConfigurationError) as caught:
            settings.build({"bootstrap_servers": "localhost:9092", name.replace("_", "."): "so"})
        assert str(caught.value).endswith(f": {hint}"), name
        for dotted, plain in re.findall(r"it is called ([a-z_.]+)(?: \((\w+)\))?", hint):
            assert {dotted, plain} - {""} <= known, f"{name}: {hint}"


@pytest.mark.parametrize(
    ("settings", "name", "said"),
    [
        (CONSUMER_SETTINGS, "socket.timeout.ms", "request.timeout.ms"),
        (PRODUCER_SETTINGS, "message.timeout.ms", "delivery.timeout.ms"),
        (CONSUMER_SETTINGS, "sasl.login.class", "sasl_mechanism_factory"),
        (ADMIN_SETTINGS, "metadata.broker.list", "bootstrap.servers"),
        (CONSUMER_SETTINGS, "sasl.oauthbearer.token.endpoint.uri", "sasl.oauthbearer.token.endpoint.url"),
        (PRODUCER_SETTINGS, "on_delivery", "add_callback"),
    ],
)
def test_names_of_librdkafka(settings: Any, name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        settings.build({"bootstrap_servers": "localhost:9092", name: "x"})


@pytest.mark.parametrize("client", _CLIENTS)
def test_what_only_switches_off_is_accepted(client: str) -> None:
    settings, _ = _CLIENTS[client]
    for name, values in SWITCHED_OFF.items():
        if settings.find(name) is not None:
            continue
        value = "anything" if values == ("*",) else values[-1]
        for spelled in (name, name.replace("_", ".")):
            settings.build({"bootstrap_servers": "localhost:9092", spelled: value.upper()})
        if values != ("*",):
            with pytest.raises(ConfigurationError, match=r"unknown .* setting"):
                settings.build({"bootstrap_servers": "localhost:9092", name: "something"})
    settings.build({"bootstrap_servers": "localhost:9092", "enable_metrics_push": False, "statistics.interval.ms": 0})
    with pytest.raises(ConfigurationError, match="metrics are not pushed"):
        settings.build({"bootstrap_servers": "localhost:9092", "enable.metrics.push": True})
