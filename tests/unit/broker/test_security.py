"""Who may connect: a cluster with users always demands a login, and the name in a client's certificate."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from pyconsumer.broker import EmbeddedCluster, run_broker
from pyconsumer.broker.certificate_names import subject_of
from pyconsumer.broker.logins import LoginError
from pyconsumer.errors import ConfigurationError
from tests.support.client_names import name_of_client, self_signed


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
    assert name_of_client(self_signed(tmp_path, *subject)) == name


def test_a_part_of_a_name_may_have_several_attributes(tmp_path: Path) -> None:
    pair = [x509.NameAttribute(NameOID.COMMON_NAME, "alice"), x509.NameAttribute(NameOID.USER_ID, "7")]
    name = name_of_client(self_signed(tmp_path, x509.RelativeDistinguishedName(pair)))
    assert name in ("CN=alice+UID=7", "UID=7+CN=alice")


def test_a_certificate_that_cannot_be_read_has_no_name(tmp_path: Path) -> None:
    pem = self_signed(tmp_path, attribute(NameOID.COMMON_NAME, "alice"))
    whole = x509.load_pem_x509_certificate(pem.read_bytes()).public_bytes(Encoding.DER)
    assert subject_of(whole) == "CN=alice"
    end = whole.rindex(b"alice") + len(b"alice")
    for size in range(end):
        with pytest.raises(LoginError, match="cannot be read"):
            subject_of(whole[:size])
