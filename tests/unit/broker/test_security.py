"""Who may connect: a cluster with users always demands a login, and the name in a client's certificate."""

from __future__ import annotations

import datetime
import os
import signal
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from pyconsumer.broker import EmbeddedCluster, run_broker
from pyconsumer.broker.security import SecurityConfig, TlsLayer
from pyconsumer.errors import ConfigurationError


def test_no_users_at_all_do_not_open_the_cluster_to_everybody() -> None:
    with pytest.raises(ConfigurationError, match="needs users"):
        EmbeddedCluster(data_dir=":memory:", users={})
    with pytest.raises(ConfigurationError, match="needs users"):
        run_broker(port=0, data_dir=":memory:", users={}, announce=lambda _: os.kill(os.getpid(), signal.SIGTERM))


def test_users_and_tokens_need_a_listener_with_a_login() -> None:
    for option in ({"users": {"a": "b"}}, {"sasl_users": {"a": "b"}}, {"oauth": {"unsecured": True}}):
        name = "oauth" if "oauth" in option else "users"
        with pytest.raises(ConfigurationError, match=f"{name}: nobody can log in, .* listeners INSIDE"):
            EmbeddedCluster(
                data_dir=":memory:",
                listeners=["INSIDE"],
                config={"listener.security.protocol.map": "INSIDE:PLAINTEXT"},
                **option,  # type: ignore[arg-type]
            )


def attribute(kind: x509.ObjectIdentifier, value: str) -> x509.RelativeDistinguishedName:
    return x509.RelativeDistinguishedName([x509.NameAttribute(kind, value)])


def certificate(folder: Path, *subject: x509.RelativeDistinguishedName) -> Path:
    """Return a file with a key and a certificate that it has signed itself."""
    key, name, now = ec.generate_private_key(ec.SECP256R1()), x509.Name(subject), datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    path = folder / "client.pem"
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(pem + made.public_bytes(Encoding.PEM))
    return path


def name_of_client(path: Path) -> str | None:
    """Return the name that the broker gives to a client with a certificate, after a handshake."""
    broker = TlsLayer(SecurityConfig(cert_file=str(path), client_ca_file=str(path)).ssl_context())
    context = ssl.create_default_context(cafile=str(path))
    context.check_hostname = False
    context.load_cert_chain(path)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing)
    for _ in range(4):
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        broker.feed(outgoing.read() or b"")
        incoming.write(broker.pending())
        if broker.client_name is not None:
            return broker.client_name
    return None


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ([attribute(NameOID.COMMON_NAME, "admin,OU=ops")], r"CN=admin\,OU\=ops"),
        ([attribute(NameOID.COMMON_NAME, 'a+b"c\\d<e>f;g')], r"CN=a\+b\"c\\d\<e\>f\;g"),
        ([attribute(NameOID.COMMON_NAME, "#a#b ")], r"CN=\#a\#b\ "),
        ([attribute(NameOID.COMMON_NAME, "  a b")], r"CN=\ \ a b"),
        ([attribute(NameOID.COMMON_NAME, " ")], r"CN=\ "),
        (
            [
                attribute(NameOID.DOMAIN_COMPONENT, "org"),
                attribute(NameOID.COUNTRY_NAME, "DE"),
                attribute(NameOID.STATE_OR_PROVINCE_NAME, "Berlin"),
                attribute(NameOID.LOCALITY_NAME, "Mitte"),
                attribute(NameOID.STREET_ADDRESS, "One"),
                attribute(NameOID.ORGANIZATION_NAME, "Jörg"),
                attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "ops"),
                attribute(NameOID.USER_ID, "7"),
                attribute(NameOID.COMMON_NAME, "alice"),
            ],
            "CN=alice,UID=7,OU=ops,O=Jörg,STREET=One,L=Mitte,ST=Berlin,C=DE,DC=org",
        ),
    ],
)
def test_a_name_in_a_certificate_cannot_pass_for_another(
    tmp_path: Path, subject: list[x509.RelativeDistinguishedName], name: str
) -> None:
    """The names are those of ``X500Principal.getName`` of Java 17 for the same certificates."""
    assert name_of_client(certificate(tmp_path, *subject)) == name


def test_a_part_of_a_name_may_have_several_attributes(tmp_path: Path) -> None:
    pair = [x509.NameAttribute(NameOID.COMMON_NAME, "alice"), x509.NameAttribute(NameOID.USER_ID, "7")]
    name = name_of_client(certificate(tmp_path, x509.RelativeDistinguishedName(pair)))
    assert name in ("CN=alice+UID=7", "UID=7+CN=alice")
