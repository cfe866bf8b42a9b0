"""Settings of the registry's client: confluent-kafka's dictionary, and secrets that are shown nowhere."""

from __future__ import annotations

import threading
import traceback
from typing import Any

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.schemas import SchemaRegistryClient
from pyconsumer.schemas.registry.settings import RegistrySettings


def _refused(given: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        RegistrySettings.of(given)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        "http://a:8081/,http://b/path",
        ["http://a:8081/", "http://b/path"],
        {"url": "http://a:8081, http://b/path/"},
    ],
)
def test_a_registry_has_one_or_several_urls(given: Any) -> None:
    assert RegistrySettings.of(given).urls == ("http://a:8081", "http://b/path")


def test_the_defaults_are_those_of_confluent_kafka_except_for_the_two_times() -> None:
    settings = RegistrySettings.of("https://[::1]:8081")
    assert settings.urls == ("https://[::1]:8081",)
    assert (settings.max_retries, settings.retry_wait_s, settings.retry_max_wait_s) == (3, 1.0, 20.0)
    assert (settings.cache_capacity, settings.latest_ttl_s, settings.timeout_s) == (1000, 60.0, 30.0)


def test_a_time_is_no_longer_than_a_thread_can_wait() -> None:
    assert RegistrySettings.of({"url": "http://a", "timeout": 1e11}).timeout_s == threading.TIMEOUT_MAX


def test_an_unknown_key_names_the_nearest() -> None:
    assert _refused({"url": "http://a", "cache.latest.ttl.secs": 1}) == (
        "unknown registry setting 'cache.latest.ttl.secs': did you mean 'cache.latest.ttl.sec'?"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give url"),
        ("", "http\\[s\\]://"),
        ("localhost:8081", "http\\[s\\]://"),
        ("ftp://a", "http\\[s\\]://"),
        ("http://a?x=1", "http\\[s\\]://"),
        ("http://u:s3cr3t@", "http\\[s\\]://"),
        (b"http://a", "not as a bytes"),
        ({"url": "http://a", "timeout": "soon"}, "timeout must be a number"),
        ({"url": "http://a", "max.retries": -1}, "max.retries must be a number of at least 0"),
        ({"url": "http://a", "ssl.key.location": "x"}, "need ssl.certificate.location"),
        ({"url": "http://a", "ssl.ca.location": True}, "ssl.ca.location"),
        ({"url": "http://a", "basic.auth.user.info": "s3cr3t"}, "name:password"),
        ({"url": "http://a", "basic.auth.user.info": b"a:s3cr3t"}, "must be text"),
        ({"url": "http://u:s3cr3t@a", "basic.auth.user.info": "u:s3cr3t"}, "give it once"),
        ("http://u:s3cr3t@a,http://v:s3cr3t@a", "different logins"),
        ({"url": "http://a", "bearer.auth.credentials.source": "MAGIC"}, "CUSTOM and a function"),
        ({"url": "http://a", "bearer.auth.credentials.source": "OAUTHBEARER"}, "client.id.*client.secret.*endpoint"),
        ({"url": "http://a", "bearer.auth.token": "s3cr3t", "basic.auth.user.info": "u:s3cr3t"}, "not both"),
        ({"url": "http://a", "bearer.auth.token": "s3cr3t\nX: y"}, "bearer.auth.token has characters"),
        ({"url": "http://a", "bearer.auth.token": "s3cr3t\x00"}, "bearer.auth.token has characters"),
        ({"url": "http://a", "bearer.auth.token": "s3cr3t\u20ac"}, "bearer.auth.token has characters"),
        ({"url": "https://a", "ssl.key.password": 5}, "ssl.key.password must be text"),
    ],
)
def test_a_wrong_setting_is_refused(given: Any, message: str) -> None:
    import re

    assert re.search(message, _refused(given))


def test_secrets_are_in_no_repr() -> None:
    settings = RegistrySettings.of(
        {
            "url": "http://a",
            "bearer.auth.credentials.source": "OAUTHBEARER",
            "bearer.auth.client.id": "me",
            "bearer.auth.client.secret": "s3cr3t",
            "bearer.auth.issuer.endpoint.url": "http://issuer",
            "ssl.certificate.location": "cert.pem",
            "ssl.key.password": "s3cr3t",
            "proxy": "http://u:s3cr3t@proxy",
        }
    )
    assert "s3cr3t" not in repr(settings)
    login = RegistrySettings.of("http://u:s3cr3t@a")
    assert login.user == ("u", "s3cr3t")
    assert "s3cr3t" not in repr(login)
    with SchemaRegistryClient({"url": "http://a", "basic.auth.user.info": "u:s3cr3t"}) as client:
        assert repr(client) == "SchemaRegistryClient(http://a)"


def test_the_line_end_of_a_token_is_cut_off() -> None:
    settings = RegistrySettings.of({"url": "http://a", "bearer.auth.token": " t0ken\r\n"})
    assert settings.bearer is not None
    assert settings.bearer.token == "t0ken"


@pytest.mark.parametrize(
    "url",
    [
        "http://bob:s3cr3t,s3cr3t2@host",
        "http://bob:12/s3cr3t@host",
        "http://bob:s3cr3t/34@host",
        "http://bob:12,s3cr3t@host",
        "http://bob:s3cr3t#4@host",
        "http://bob:s3cr3t?4@host",
        "http://bob:12@s3cr3t@host",
        "http://a,http://bob:s3cr3t,4@host",
    ],
)
def test_a_login_that_is_not_quoted_is_refused_and_no_part_is_shown(url: str) -> None:
    message = _refused(url)
    assert "It is not shown" in message
    assert "bob" not in message
    assert "host'" not in message


def test_the_login_of_an_authorization_server_is_shown_nowhere() -> None:
    conf = {
        "url": "http://a",
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": "x",
    }
    name = "bearer.auth.issuer.endpoint.url"
    settings = RegistrySettings.of({**conf, name: "https://u:s3cr3t@issuer:1/token?x=1"})
    assert "s3cr3t" not in repr(settings)
    assert settings.bearer is not None
    assert settings.bearer.endpoint == "https://issuer:1/token?x=1"
    for url in ("https://u:12/s3cr3t@issuer", "u:s3cr3t@issuer", "https://u:s3cr3t/@issuer", "https://[s3cr3t"):
        assert "(it is not shown)" in _refused({**conf, name: url})


def test_a_login_in_a_url_may_be_quoted() -> None:
    assert RegistrySettings.of("http://a%40b:p%3Aq@host").user == ("a@b", "p:q")


def test_certificates_that_cannot_be_read_are_named() -> None:
    with pytest.raises(ConfigurationError, match=r"certificates cannot be read \(/no/such/file\)"):
        SchemaRegistryClient({"url": "https://a", "ssl.ca.location": "/no/such/file"})
