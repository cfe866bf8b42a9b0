"""Certificates and keys in each form: PEM text, PKCS12, Java's names, encrypted, replaced while a client runs."""

from __future__ import annotations

import datetime
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from pyconsumer.errors import AuthenticationError, ConfigurationError
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.tls import TlsContexts, make_context, secret_file
from tests.support.certificates import Certificates, make_certificates
from tests.unit.network.broker import ScriptedBroker, make_config
from tests.unit.network.security import ask, server_context, tls_settings

MakeClient = Callable[..., NetworkClient]


@pytest.fixture
def broker_that_asks(cleanup: ExitStack, certificates: Certificates) -> ScriptedBroker:
    """A broker that wants a certificate from its clients."""
    from pyconsumer.protocol.api import ApiKey
    from pyconsumer.protocol.messages.heartbeat import HeartbeatResponse

    context = server_context(certificates.server_pem, client_ca=certificates.ca_pem)
    broker = cleanup.enter_context(ScriptedBroker(tls=context))
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=27))
    return broker


def parts(pem: Path) -> tuple[str, str]:
    """Return the key and the chain of a file."""
    key, mark, chain = pem.read_text().partition("-----BEGIN CERTIFICATE-----")
    return key, mark + chain


def store(pem: Path, folder: Path, password: bytes) -> Path:
    key, chain = parts(pem)
    certificates = x509.load_pem_x509_certificates(chain.encode())
    loaded: Any = load_pem_private_key(key.encode(), None)
    path = folder / "store.p12"
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"client", loaded, certificates[0], certificates[1:], BestAvailableEncryption(password)
        )
    )
    return path


def test_pem_as_text(broker_that_asks: ScriptedBroker, make_client: MakeClient, certificates: Certificates) -> None:
    key, chain = parts(certificates.client_pem)
    config = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": certificates.ca_pem.read_text(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": chain,
        "ssl.keystore.key": key,
    }
    assert ask(make_client(metadata=None, config=config), broker_that_asks).error_code == 27


def test_librdkafkas_names_and_an_encrypted_key(
    broker_that_asks: ScriptedBroker, make_client: MakeClient, certificates: Certificates
) -> None:
    key, chain = parts(certificates.client_pem)
    loaded = load_pem_private_key(key.encode(), None)
    hidden = loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame")).decode()
    config = {
        "security.protocol": "ssl",
        "ssl.ca.location": str(certificates.ca_pem),
        "ssl.certificate.pem": chain.replace("\n", "\\n"),  # as one line of a file
        "ssl.key.pem": hidden,
        "ssl.key.password": "sesame",
    }
    assert ask(make_client(metadata=None, config=config), broker_that_asks).error_code == 27
    config["ssl.key.password"] = "s3cr3t"
    with pytest.raises(ConfigurationError, match=r"ssl_keystore_key.*or ssl_password") as caught:
        make_client(metadata=None, config=config)
    assert "s3cr3t" not in str(caught.value)


def test_a_key_as_text_touches_no_disk(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    key, chain = parts(certificates.client_pem)
    config = make_config(**tls_settings(certificates, ssl_keystore_key=key, ssl_keystore_certificate_chain=chain))
    made: list[Any] = []
    mkstemp = tempfile.mkstemp

    def watched(*args: Any, **kwargs: Any) -> tuple[int, str]:
        made.append(mkstemp(*args, **kwargs))
        found: tuple[int, str] = made[-1]
        return found

    monkeypatch.setattr(tempfile, "mkstemp", watched)
    assert make_context(config) is not None
    if hasattr(os, "memfd_create"):
        assert not made
        monkeypatch.delattr(os, "memfd_create")
    with secret_file("s3cr3t") as path:
        assert Path(path).read_text() == "s3cr3t"
        assert Path(path).stat().st_mode & 0o777 == 0o600
    assert not Path(path).exists()
    assert make_context(config) is not None
    assert len(made) == 2
    assert not any(Path(path).exists() for _, path in made)


def test_pkcs12_stores(
    broker_that_asks: ScriptedBroker, make_client: MakeClient, certificates: Certificates, tmp_path: Path
) -> None:
    keys = store(certificates.client_pem, tmp_path, b"changeit")
    authority = x509.load_pem_x509_certificate(certificates.ca_pem.read_bytes())
    trust = tmp_path / "trust.p12"
    trust.write_bytes(
        pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(authority, b"ca")], BestAvailableEncryption(b"changeit")
        )
    )
    config = {
        "security_protocol": "SSL",
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": "changeit",
        "ssl.keystore.location": str(keys),
        "ssl.keystore.password": "changeit",
        "ssl.keystore.type": "JKS",  # Java's default, under which it reads PKCS12, too
    }
    assert ask(make_client(metadata=None, config=config), broker_that_asks).error_code == 27
    config["ssl.keystore.password"] = "s3cr3t"
    with pytest.raises(ConfigurationError, match="ssl_keystore_password is wrong") as caught:
        make_client(metadata=None, config=config)
    assert "s3cr3t" not in str(caught.value)


def test_without_its_extra_a_pkcs12_store_names_the_package(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = store(certificates.client_pem, tmp_path, b"changeit")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    config = make_config(
        security_protocol="SSL",
        ssl_keystore_location=keys,
        ssl_keystore_password="changeit",
        ssl_keystore_type="PKCS12",
    )
    with pytest.raises(ConfigurationError, match=r"ssl_keystore_location: .*pip install 'pyconsumer\[crypto\]'"):
        make_context(config)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("keytool") is None, reason="there is no keytool")
def test_a_jks_store_is_refused_with_the_command_that_converts_it(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # keytool is Java
    path = tmp_path / "trust.jks"
    command = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(certificates.ca_pem)]
    login = ["-storetype", "JKS", "-storepass", "changeit", "-keystore", str(path)]
    subprocess.run([*command, *login], check=True, capture_output=True, timeout=120)
    settings = {"security_protocol": "SSL", "ssl_truststore_location": path, "ssl_truststore_password": "changeit"}
    with pytest.raises(ConfigurationError, match="ssl_truststore_location: a JKS store cannot be read") as caught:
        make_config(**settings)
    advice = str(caught.value).partition("Convert it by ")[2].partition(" and set ")[0].split()
    passwords = ["-srcstorepass", "changeit", "-deststorepass", "changeit"]
    subprocess.run([*advice, *passwords], check=True, capture_output=True, timeout=120)
    settings["ssl_truststore_location"] = f"{path}.p12"
    context = make_context(make_config(**settings, ssl_truststore_type="PKCS12"))
    assert context is not None
    assert len(context.get_ca_certs()) == 1


def test_a_replaced_pair_is_used_by_new_connections(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "other").mkdir()
    other = make_certificates(tmp_path / "other")
    certificate, key = tmp_path / "client.crt", tmp_path / "client.key"
    (old_key, old_chain), (new_key, new_chain) = parts(certificates.client_pem), parts(other.client_pem)
    certificate.write_text(old_chain)
    key.write_text(old_key)
    contexts = TlsContexts(make_config(**tls_settings(certificates, ssl_certfile=certificate, ssl_keyfile=key)))
    first = contexts.current()
    assert contexts.current() is first
    _replace(certificate, new_chain)
    assert contexts.current() is first
    _replace(certificate, new_chain + "\n")
    assert contexts.current() is first
    assert caplog.text.count("the earlier ones stay in use") == 1
    _replace(key, new_key)
    second = contexts.current()
    assert second is not first
    assert contexts.current() is second


def test_a_copy_with_the_time_of_the_earlier_file_is_noticed(certificates: Certificates, tmp_path: Path) -> None:
    path = tmp_path / "client.pem"
    shutil.copy(certificates.client_pem, path)
    contexts = TlsContexts(make_config(**tls_settings(certificates, ssl_certfile=path)))
    first, times = contexts.current(), path.stat()
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert contexts.current() is not first


@pytest.mark.parametrize("error", [KeyError("s3cr3t"), ValueError("s3cr3t"), RuntimeError("s3cr3t")])
def test_a_password_function_that_fails_later_leaves_the_earlier_files_in_use(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def password() -> str:
        if failing:
            raise error
        return "open sesame"

    failing: list[bool] = []
    path = tmp_path / "client.pem"
    key = load_pem_private_key(certificates.client_pem.read_bytes(), None)
    hidden = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open sesame")).decode()
    text = certificates.client_pem.read_text()
    path.write_text(hidden + text[text.index("-----BEGIN CERTIFICATE") :])
    settings = tls_settings(certificates, ssl_certfile=path, ssl_password=password)
    contexts = TlsContexts(make_config(**settings))
    first = contexts.current()
    failing.append(True)
    for _ in range(2):
        _replace(path, path.read_text() + "\n")
        assert contexts.current() is first
    assert caplog.text.count("the earlier ones stay in use") == 1
    assert f"failed with {type(error).__name__}" in caplog.text
    assert "s3cr3t" not in caplog.text


def _replace(path: Path, text: str) -> None:
    """Replace a file as tools that renew certificates do: in one step."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def test_versions(certificates: Certificates) -> None:
    def bounds(**settings: Any) -> tuple[Any, Any]:
        context = make_context(make_config(**tls_settings(certificates, **settings)))
        assert context is not None
        return context.minimum_version, context.maximum_version

    tls12, tls13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    assert bounds() == (tls12, tls13)
    assert bounds(ssl_enabled_protocols="TLSv1.3") == (tls13, tls13)
    assert bounds(**{"ssl.enabled.protocols": "TLSv1.2,TLSv1.3", "ssl.protocol": "TLSv1.2"}) == (tls12, tls12)
    for wrong in (
        {"ssl_enabled_protocols": "TLSv1.3", "ssl_protocol": "TLSv1.2"},
        {"ssl_enabled_protocols": ["TLSv1.1", "TLSv1.3"]},
    ):
        with pytest.raises(ConfigurationError, match="ssl_enabled_protocols"):
            bounds(**wrong)


def test_ciphers_have_javas_names_too(certificates: Certificates) -> None:
    def names(text: str) -> list[str]:
        context = make_context(make_config(**tls_settings(certificates, **{"ssl.cipher.suites": text})))
        assert context is not None
        return [found["name"] for found in context.get_ciphers() if not found["name"].startswith("TLS_")]

    assert names("TLS_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256") == ["ECDHE-RSA-AES128-GCM-SHA256"]
    assert names("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256") == ["ECDHE-RSA-CHACHA20-POLY1305"]
    assert names("TLS_RSA_WITH_AES_256_GCM_SHA384") == ["AES256-GCM-SHA384"]
    assert names("ECDHE-RSA-AES256-GCM-SHA384") == ["ECDHE-RSA-AES256-GCM-SHA384"]
    with pytest.raises(ConfigurationError, match=r"ssl_ciphers: .*TLS 1\.3"):
        names("TLS_AES_256_GCM_SHA384")


@pytest.fixture
def authority(tmp_path: Path) -> Callable[[bool], tuple[Path, Path, Path]]:
    """Make an authority with one below it, which is revoked or not: a server's file, the root, and lists."""
    import trustme

    def make(revoked: bool) -> tuple[Path, Path, Path]:
        root = trustme.CA()
        below = root.create_child_ca()
        server, ca, lists = tmp_path / "server.pem", tmp_path / "root.pem", tmp_path / "lists.pem"
        leaf = below.issue_cert("localhost")
        server.write_bytes(leaf.private_key_pem.bytes() + b"".join(each.bytes() for each in leaf.cert_chain_pems))
        ca.write_bytes(root.cert_pem.bytes())
        below_certificate = x509.load_pem_x509_certificate(below.cert_pem.bytes())
        found = [_list(root, [below_certificate.serial_number] if revoked else []), _list(below, [])]
        lists.write_bytes(b"".join(found))
        return server, ca, lists

    return make


def _list(authority: Any, serials: list[int]) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    certificate = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    key: Any = load_pem_private_key(authority.private_key_pem.bytes(), None)
    builder = x509.CertificateRevocationListBuilder().issuer_name(certificate.subject)
    builder = builder.last_update(now - datetime.timedelta(days=1)).next_update(now + datetime.timedelta(days=1))
    for serial in serials:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


@pytest.mark.parametrize("revoked", [False, True])
def test_the_whole_chain_is_checked_against_the_lists(
    revoked: bool,
    authority: Callable[[bool], tuple[Path, Path, Path]],
    cleanup: ExitStack,
    make_client: MakeClient,
) -> None:
    from pyconsumer.protocol.api import ApiKey
    from pyconsumer.protocol.messages.heartbeat import HeartbeatResponse

    server, ca, lists = authority(revoked)
    broker = cleanup.enter_context(ScriptedBroker(tls=server_context(server)))
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=27))
    config = {"security_protocol": "SSL", "ssl_cafile": ca, "ssl_crlfile": lists}
    found = ask(make_client(metadata=None, config=config), broker)
    if revoked:
        assert isinstance(found, AuthenticationError)
        assert "has been revoked" in str(found)
    else:
        assert found.error_code == 27
