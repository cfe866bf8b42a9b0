"""The settings of TLS and SASL, in each way of giving them: keywords, dots, a file, the environment, Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from pyconsumer.admin.config import ADMIN_SETTINGS
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.errors import ConfigurationError
from pyconsumer.network.tls import make_context
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.settings.config import ClientConfig
from pyconsumer.settings.properties import environment_entries, from_file, resolve
from tests.support.certificates import Certificates

_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
Build = Callable[[Mapping[str, str], Path], ClientConfig]


def _keywords(given: Mapping[str, str], folder: Path) -> ClientConfig:
    return ADMIN_SETTINGS.build({name.replace(".", "_"): text for name, text in given.items()})


def _dotted(given: Mapping[str, str], folder: Path) -> ClientConfig:
    return CONSUMER_SETTINGS.build(given)


def _file(given: Mapping[str, str], folder: Path) -> ClientConfig:
    path = folder / "client.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in given.items()))
    return PRODUCER_SETTINGS.build(from_file(PRODUCER_SETTINGS, str(path), {}))


def _environment(given: Mapping[str, str], folder: Path) -> ClientConfig:
    variables = {f"PYCONSUMER_{name.upper().replace('.', '_')}": text for name, text in given.items()}
    return CONSUMER_SETTINGS.build(resolve(CONSUMER_SETTINGS, environment_entries(variables)))


def _spark(given: Mapping[str, str], folder: Path) -> ClientConfig:
    pytest.importorskip("pyspark")
    from pyconsumer.spark.client_config import build_config

    return build_config(given)


_WAYS = pytest.mark.parametrize("build", [_keywords, _dotted, _file, _environment, _spark])
_SERVER = {"bootstrap.servers": "localhost:9092"}


@_WAYS
def test_a_login_by_a_delegation_token(build: Build, tmp_path: Path) -> None:
    login = f'{_SCRAM} required username="id" password="s3cr3t" tokenauth="true";'
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login}
    config = build({**_SERVER, **given}, tmp_path)
    assert (config.sasl_plain_username, config.sasl_plain_password) == ("id", "s3cr3t")
    assert config.sasl_scram_tokenauth
    assert "s3cr3t" not in repr(config)


@_WAYS
def test_a_login_of_javas_oauth_module(build: Build, tmp_path: Path) -> None:
    login = f'{_OAUTH} required clientId="me" clientSecret="s3cr3t" scope="a b" extension_cluster="lkc";'
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": login,
        "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
        "sasl.oauthbearer.scope": "c",
        "enable.metrics.push": "false",
    }
    config = build({**_SERVER, **given}, tmp_path)
    assert config.sasl_oauthbearer_client_credentials_client_id == "me"
    assert config.sasl_oauthbearer_client_credentials_client_secret == "s3cr3t"
    assert config.sasl_oauthbearer_scope == "c"  # the setting comes before the module's option
    assert config.sasl_oauthbearer_extensions == {"cluster": "lkc"}
    assert config.sasl_oauthbearer_grant_type == "client_credentials"
    assert config.replace(client_id="x").sasl_oauthbearer_client_credentials_client_secret == "s3cr3t"
    assert "s3cr3t" not in repr(config)


@_WAYS
@pytest.mark.parametrize("form", ["files", "text"])
def test_stores_of_pem(build: Build, tmp_path: Path, certificates: Certificates, form: str) -> None:
    key, mark, chain = certificates.client_pem.read_text().partition("-----BEGIN CERTIFICATE-----")
    given = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}
    if form == "files":
        given |= {
            "ssl.truststore.location": str(certificates.ca_pem),
            "ssl.keystore.location": str(certificates.client_pem),
        }
    else:
        texts = {
            "ssl.truststore.certificates": certificates.ca_pem.read_text(),
            "ssl.keystore.certificate.chain": mark + chain,
            "ssl.keystore.key": key,
        }
        given |= {name: text.replace("\n", "\\n") for name, text in texts.items()}  # a file has it in one line
    config = build({**_SERVER, **given}, tmp_path)
    context = make_context(config)
    assert context is not None
    assert [each["serialNumber"] for each in context.get_ca_certs()] == [_serial(certificates.ca_pem)]
    assert key.splitlines()[1] not in repr(config)


def _serial(path: Path) -> str:
    number = x509.load_pem_x509_certificate(path.read_bytes()).serial_number
    return f"{number:X}".zfill(len(f"{number:X}") + len(f"{number:X}") % 2)


@pytest.mark.parametrize("build", [_dotted, _file, _environment, _spark])
def test_librdkafkas_names(build: Build, tmp_path: Path) -> None:
    given = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "s3cr3t",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
        "sasl.oauthbearer.extensions": "cluster=lkc,pool=p",
        "ssl.endpoint.identification.algorithm": "none",
        "https.ca.location": __file__,
        "statistics.interval.ms": "0",
    }
    config = build({**_SERVER, **given}, tmp_path)
    assert config.sasl_mechanism == "OAUTHBEARER"
    assert config.sasl_oauthbearer_extensions == {"cluster": "lkc", "pool": "p"}
    assert config.sasl_oauthbearer_cafile == __file__
    assert not config.ssl_check_hostname


class Provider:
    def token(self) -> str:
        return "a token"


def provide() -> str:
    return "another token"


@pytest.mark.parametrize("build", [_dotted, _file, _environment, _spark])
def test_a_provider_is_named_by_its_import_path(build: Build, tmp_path: Path) -> None:
    given = {**_SERVER, "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    config = build({**given, "sasl.oauth.token.provider": f"{__name__}:Provider"}, tmp_path)
    assert config.sasl_oauth_token_provider.token() == "a token"
    assert build(
        {**given, "sasl.oauth.token.provider": f"{__name__}:provide"}, tmp_path
    ).sasl_oauth_token_provider() == ("another token")
    for wrong in ("s3cr3t", "no_such_module_s3cr3t:x", f"{__name__}:s3cr3t"):
        with pytest.raises(ConfigurationError, match=r"import path|cannot be loaded") as caught:
            build({**given, "sasl.oauth.token.provider": wrong}, tmp_path)
        assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ssl_check_hostname": True, "ssl.endpoint.identification.algorithm": ""}, "contradict"),
        ({"security_protocol": "SSL", "ssl_cafile": __file__, "ssl_truststore_location": __file__}, "two forms"),
        ({"security_protocol": "SSL", "ssl_certfile": __file__, "ssl_keystore_location": __file__}, "two forms"),
        (
            {"security_protocol": "SSL", "ssl_truststore_type": "PKCS12", "ssl.ca.pem": "-----BEGIN CERTIFICATE-----"},
            "certificates as text are PEM",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "u",
                "sasl_plain_password": "s3cr3t",
                "sasl_scram_tokenauth": True,
            },
            "for SCRAM, not for PLAIN",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_plain_username": "other",
                "sasl_jaas_config": 'PlainLoginModule required username="u" password="s3cr3t";',
            },
            "give two values",
        ),
    ],
)
def test_contradictions_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        CONSUMER_SETTINGS.build({"bootstrap_servers": "localhost:9092", **options})
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("url", ["file:///token", "FILE:///token"])
def test_settings_with_tokens_of_a_file_can_be_copied(url: str) -> None:
    config = ADMIN_SETTINGS.build(
        {
            "bootstrap_servers": "localhost",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": url,
            "sasl_oauthbearer_grant_type": None,
        }
    )
    assert config.replace(client_id="x").sasl_oauthbearer_token_endpoint_url == url
