"""``kafka.*`` options as settings of our client."""

from __future__ import annotations

import re
import ssl
import traceback

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.client_config import ReaderConfig, build_config
from pyconsumer.spark.secrets import parse_jaas
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


def test_quotes_in_passwords() -> None:
    assert parse_jaas(rf'{PLAIN} required username="u" password="a\"b\\c=;d" ;').password == 'a"b\\c=;d'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "login modules that can be used"),
        ('com.sun.security.auth.module.Krb5LoginModule required keyTab="x";', "begins with neither"),
        (f'{PLAIN} required username="u" password="s3cret"', "with the semicolon"),
        (f'{PLAIN} username="u" password="s3cret";', "with the semicolon"),
        (f'{PLAIN} required username "s3cret" password;', "with the semicolon"),
        (f"{PLAIN} required username='u' password=s3cret s3cret;", "with the semicolon"),
        (f'{PLAIN} required username="u";', "no password"),
        (f'{PLAIN} required username="u" password="s3cret;', "quote is not closed"),
        (f'{SCRAM} required username="u" password="s3cret" tokenauth="true";', "delegation tokens"),
    ],
)
def test_what_is_wrong_with_a_login_is_told_without_the_password(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        parse_jaas(text)
    assert "s3cret" not in str(caught.value)


def test_no_part_of_a_malformed_login_is_shown() -> None:
    secret = "Zq7xKw9vJ"
    right = f'{PLAIN} required username="{secret}" password="{secret}";'
    words = re.split(r"[ =]", right)
    login = {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "PLAIN"}
    malformed = [
        *(
            f"{before}{secret}{after}"
            for before in ("", "a.", "$", '"', "'", "=")
            for after in ("", ".b", ";", '"', " ;")
        ),
        *(right[:length] for length in range(len(right))),
        *(right[length:] for length in range(1, len(right))),
        *(f"{right[:place]}{right[place + 1 :]}" for place in range(len(right))),
        *(" ".join(words[:place] + words[place + 1 :]) for place in range(len(words))),
        *(" ".join([*words[:place], secret, *words[place:]]) for place in range(len(words) + 1)),
    ]
    shown = set()
    for text in malformed:
        try:
            build(**login, sasl__jaas__config=text)
        except ConfigurationError as error:
            shown.add("".join(traceback.format_exception_only(error)) + repr(error.__cause__) + repr(error.__context__))
    assert len(shown) >= 4
    pieces = [secret[place : place + 2] for place in range(len(secret) - 1)]
    assert not [message for message in shown for piece in pieces if piece in message]


def test_stores_may_be_pem_files(certificates: Certificates) -> None:
    config = build(
        security__protocol="ssl",
        ssl__truststore__type="PEM",
        ssl__truststore__location=certificates.ca_pem,
        ssl__keystore__type="PEM",
        ssl__keystore__location=certificates.client_pem,
        ssl__endpoint__identification__algorithm="",
    )
    assert config.ssl_cafile == str(certificates.ca_pem)
    assert config.ssl_certfile == str(certificates.client_pem)
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
    assert isinstance(config.ssl_context, ssl.SSLContext)
    assert config.ssl_context.check_hostname
    assert len(config.ssl_context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ssl__truststore__location": "/store.jks"}, "a JKS store cannot be read.*kafka.ssl.truststore.type=PEM"),
        ({"ssl__truststore__certificates": "x"}, "security.protocol is PLAINTEXT"),
        ({"security__protocol": "SSL", "ssl__truststore__certificates": "x"}, "ssl.truststore.certificates"),
        ({"security__protocol": "SSL", "ssl__keystore__key": "x"}, "belong together"),
        ({"ssl__endpoint__identification__algorithm": "x"}, "must be https or empty"),
        ({"ssl__truststore__typ": "x"}, "did you mean 'kafka.ssl.truststore.type'"),
        ({"security__protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        ({"request__timeout__ms": "x"}, "request.timeout.ms"),
    ],
)
def test_what_is_wrong_with_a_setting_is_told(options: dict[str, str], message: str) -> None:
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
