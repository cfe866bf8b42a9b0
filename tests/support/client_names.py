"""Certificates with any subject, and the name that the broker gives to a client that has one."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pyconsumer.broker.security import SecurityConfig, TlsLayer

__all__ = ["name_of_client", "self_signed"]


def self_signed(folder: Path, *subject: x509.RelativeDistinguishedName) -> Path:
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
