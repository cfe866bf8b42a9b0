"""``kafka.*`` options as settings of our client."""

from __future__ import annotations

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.network.tls import make_context
from pyconsumer.spark.client_config import ReaderConfig, build_config
from tests.support.certificates import Certificates

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def build(**options: object) -> ReaderConfig:
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    return build_config({"bootstrap.servers": "localhost:9092", **given})


def test_settings_have_kafkas_names_and_are_text() -> None:
    config = build(isolation__level="read_committed", max__partition__fetch__bytes="1000", check__crcs="false")
    assert config.read_committed
    assert config.max_partition_fetch_bytes == 1000
    assert not config.check_crcs


@pytest.mark.parametrize("module", [PLAIN, f"kafkashaded.{PLAIN}", "PlainLoginModule"])
def test_a_plain_login_needs_no_mechanism(module: str) -> None:
    config = build(
        security__protocol="SASL_PLAINTEXT", sasl__jaas__config=f'{module} required username="u" password="p";'
    )
    assert (config.sasl_mechanism, config.sasl_plain_username, config.sasl_plain_password) == ("PLAIN", "u", "p")


def test_a_scram_login_works_with_both_of_its_mechanisms() -> None:
    login = f"{SCRAM}   required\n username=u password='p';"
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        config = build(security__protocol="SASL_PLAINTEXT", sasl__mechanism=mechanism, sasl__jaas__config=login)
        assert (config.sasl_mechanism, config.sasl_plain_password) == (mechanism, "p")
    for wrong in ({}, {"sasl__mechanism": "PLAIN"}):
        with pytest.raises(ConfigurationError, match=r"sasl.mechanism must be SCRAM-SHA-256 or SCRAM-SHA-512"):
            build(security__protocol="SASL_PLAINTEXT", sasl__jaas__config=login, **wrong)


def test_a_malformed_login_names_the_option_and_not_the_value() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka.* sasl\.jaas\.config: .* required") as caught:
        build(security__protocol="SASL_PLAINTEXT", sasl__jaas__config=f"{PLAIN} s3cret")
    assert "s3cret" not in str(caught.value)


def test_stores_may_be_pem_files(certificates: Certificates) -> None:
    config = build(
        security__protocol="ssl",
        ssl__truststore__type="PEM",
        ssl__truststore__location=certificates.ca_pem,
        ssl__keystore__type="PEM",
        ssl__keystore__location=certificates.client_pem,
        ssl__endpoint__identification__algorithm="",
    )
    context = make_context(config)
    assert context is not None
    assert len(context.get_ca_certs()) == 1
    assert not config.ssl_check_hostname


@pytest.mark.parametrize("text", [None, "true", "TRUE", " true"])
def test_certificates_may_be_given_as_text(certificates: Certificates, text: str | None) -> None:
    pem = certificates.client_pem.read_text()
    key, _, chain = pem.partition("-----BEGIN CERTIFICATE-----")
    config = build(
        security__protocol="SSL",
        ssl__truststore__type="PEM",
        ssl__truststore__certificates=certificates.ca_pem.read_text(),
        ssl__keystore__type="PEM",
        ssl__keystore__key=key,
        ssl__keystore__certificate__chain=f"-----BEGIN CERTIFICATE-----{chain}",
        **({} if text is None else {"ssl__check__hostname": text}),
    )
    context = make_context(config)
    assert context is not None
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ssl__truststore__location": "/store.jks"}, "there is no file"),
        ({"ssl__truststore__certificates": "-----BEGIN CERTIFICATE-----"}, "security_protocol is PLAINTEXT"),
        ({"security__protocol": "SSL", "ssl__truststore__certificates": "x"}, "ssl.truststore.certificates"),
        ({"security__protocol": "SSL", "ssl__keystore__key": "-----BEGIN PRIVATE KEY-----"}, "must be given together"),
        ({"ssl__endpoint__identification__algorithm": "x"}, "must be https or empty"),
        ({"ssl__truststore__typ": "x"}, "did you mean 'kafka.ssl.truststore.type'"),
        ({"security__protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        ({"request__timeout__ms": "x"}, "request.timeout.ms"),
    ],
)
def test_an_invalid_setting_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build(**options)


def test_options_without_effect_are_named_once_a_query(caplog: pytest.LogCaptureFixture) -> None:
    options = {"bootstrap.servers": "localhost:9092", "max.poll.records": "5", "group.id": "g"}
    build_config(options)
    assert not caplog.records
    build_config(options, warn=True)
    assert [record.getMessage() for record in caplog.records] == [
        "option kafka.max.poll.records has no effect: this source reads partitions without a group"
    ]
