"""Values of secret settings are never shown: not in errors, not by repr, in no client, in Spark, in no broker."""

from __future__ import annotations

import re
import traceback
from typing import Any

import pytest

from pyconsumer.admin.config import ADMIN_SETTINGS
from pyconsumer.broker.host import ClusterOptions
from pyconsumer.broker.security import SecurityConfig
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.errors import ConfigurationError
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.settings.config import Setting, Settings

_TABLES: list[Settings[Any]] = [CONSUMER_SETTINGS, PRODUCER_SETTINGS, ADMIN_SETTINGS]
_SECRETS = [
    pytest.param(table, setting, name, id=f"{table.component}-{name}")
    for table in _TABLES
    for setting in table
    if setting.secret
    for name in setting.names
]
_WRONG = [b"s3cr3t", ["s3cr3t"], {"s3cr3t": 1}]


def test_the_settings_that_hold_secrets_are_marked() -> None:
    for table in _TABLES:
        marked = {setting.name for setting in table if setting.secret}
        assert marked >= {"ssl_password", "sasl_plain_password", "sasl_oauth_token_provider", "sasl_jaas_config"}
        hidden = re.compile("password$|passphrase$|secret$|key$|key_pem$|certificates$|chain$")
        assert {setting.name for setting in table if hidden.search(setting.name)} <= marked


@pytest.mark.parametrize("wrong", _WRONG, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(("table", "setting", "name"), _SECRETS)
def test_a_wrong_type_is_rejected_without_the_value(
    table: Settings[Any], setting: Setting, name: str, wrong: object
) -> None:
    with pytest.raises(ConfigurationError, match=f"of type {type(wrong).__name__}") as caught:
        table.build({"bootstrap_servers": "localhost", name: wrong})
    assert name in str(caught.value)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("table", _TABLES, ids=lambda table: table.component)
def test_a_token_in_the_place_of_its_provider_is_not_shown(table: Settings[Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        table.build({"bootstrap_servers": "localhost", "sasl_oauth_token_provider": "s3cr3t"})
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("table", _TABLES, ids=lambda table: table.component)
def test_repr_hides_secrets(table: Settings[Any]) -> None:
    options = {"bootstrap_servers": "localhost", "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
    login = {"sasl_plain_username": "u", "sasl_plain_password": "s3cr3t", "ssl_password": "s3cr3t"}
    assert "s3cr3t" not in repr(table.build({**options, **login}))


def test_spark_hides_secrets() -> None:
    pytest.importorskip("pyspark")
    from pyconsumer.spark.client_config import build_config

    options = {"bootstrap.servers": "localhost", "sasl.password": "s3cr3t", "ssl.key.password": "s3cr3t"}
    with pytest.raises(ConfigurationError) as caught:
        build_config(options)
    assert "s3cr3t" not in str(caught.value)


def test_users_of_a_broker_are_not_shown() -> None:
    security = SecurityConfig(sasl_users={"u": "s3cr3t"})
    assert "s3cr3t" not in repr(ClusterOptions(security=security))
    wrong = SecurityConfig(sasl_users={"u": b"s3cr3t"})  # type: ignore[dict-item]
    with pytest.raises(ConfigurationError, match="the password of 'u' must be a string, not of type bytes") as caught:
        wrong.check(["SASL_PLAINTEXT"])
    assert "s3cr3t" not in str(caught.value)
