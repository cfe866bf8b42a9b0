"""Certificates made for one test run, as PEM files: a good one, and the ones that a client must refuse."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

import trustme

__all__ = ["Certificates", "make_certificates"]


@dataclass(frozen=True)
class Certificates:
    """Files of one certificate authority. ``*_pem`` hold a private key (PKCS#8) and its chain together."""

    ca_pem: Path  #: the authority that signed all of these
    server_pem: Path  #: for localhost, 127.0.0.1 and ::1
    wrong_host_pem: Path  #: for another host's name
    expired_pem: Path  #: for localhost, until yesterday
    client_pem: Path  #: for a client that must show who it is
    stranger_ca_pem: Path  #: an authority that signed none of these


def make_certificates(folder: Path) -> Certificates:
    """Write a fresh authority and its certificates into ``folder``."""
    authority, stranger = trustme.CA(), trustme.CA()
    found = Certificates(
        ca_pem=folder / "ca.pem",
        server_pem=folder / "server.pem",
        wrong_host_pem=folder / "wrong-host.pem",
        expired_pem=folder / "expired.pem",
        client_pem=folder / "client.pem",
        stranger_ca_pem=folder / "stranger-ca.pem",
    )
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    hosts = ("localhost", "127.0.0.1", "::1")
    leaves = {
        found.server_pem: authority.issue_cert(*hosts),
        found.wrong_host_pem: authority.issue_cert("broker.invalid"),
        found.expired_pem: authority.issue_cert(*hosts, not_after=yesterday),
        found.client_pem: authority.issue_cert("client@example.org", common_name="client"),
    }
    authority.cert_pem.write_to_path(str(found.ca_pem))
    stranger.cert_pem.write_to_path(str(found.stranger_ca_pem))
    for path, leaf in leaves.items():
        path.write_bytes(b"")
        path.chmod(0o600)
        path.write_bytes(_pkcs8(leaf.private_key_pem.bytes()) + b"".join(c.bytes() for c in leaf.cert_chain_pems))
    return found


def _pkcs8(key_pem: bytes) -> bytes:
    """A private key in the one form that Java reads."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    key = load_pem_private_key(key_pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
