"""The user of a client's certificate: the name that Java's class gives to it, which is Kafka's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from tests.support.client_names import name_of_client, self_signed
from tests.support.java import need_jars, tools

_CERTIFICATES = 60
#: The attributes that RFC 2253 names, and some that Java writes as a number with the bytes of the value.
_KINDS = [
    NameOID.COMMON_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.DOMAIN_COMPONENT,
    NameOID.USER_ID,
    NameOID.EMAIL_ADDRESS,
    NameOID.SERIAL_NUMBER,
    NameOID.TITLE,
    x509.ObjectIdentifier("2.999.1.70000"),
    x509.ObjectIdentifier("1.3.6.1.4.1.311.60.2.1.2"),
]
_PIECES = [
    *"aB7 ,=+\"\\<>;#/*'",
    "\t",
    "\n",
    "\r",
    "\x01",
    "\x7f",
    "\u00e9",
    "\u65e5",
    "\U0001f600",
    "\u00a0",
    "\u200b",
]
_ASCII = [piece for piece in _PIECES if piece.isascii()]
#: The types of text that a value may have, and the characters of each one.
_TEXTS = {
    _ASN1Type.UTF8String: _PIECES,
    _ASN1Type.PrintableString: [*"aB7 ,=+/'"],
    _ASN1Type.T61String: _PIECES,
    _ASN1Type.IA5String: _ASCII,
    _ASN1Type.NumericString: _ASCII,
    _ASN1Type.UniversalString: _PIECES,
    _ASN1Type.BMPString: [piece for piece in _PIECES if piece <= "\uffff"],
}


def _attribute(chance: random.Random, kinds: list[x509.ObjectIdentifier]) -> x509.NameAttribute:
    kind = chance.choice(kinds)
    text = chance.choice(list(_TEXTS)) if chance.random() < 0.4 else _ASN1Type.UTF8String
    pieces = [piece for piece in _TEXTS[text] if kind != NameOID.DOMAIN_COMPONENT or piece in _ASCII]
    return x509.NameAttribute(kind, "".join(chance.choices(pieces, k=chance.randrange(1, 7))), _type=text)


def _subject(chance: random.Random) -> list[x509.RelativeDistinguishedName]:
    parts = []
    for _ in range(chance.randrange(1, 5)):
        first = _attribute(chance, _KINDS)
        others = [kind for kind in _KINDS if kind != first.oid]
        parts.append([first, _attribute(chance, others)] if chance.random() < 0.25 else [first])
    return [x509.RelativeDistinguishedName(part) for part in parts]


@pytest.mark.kafka
def test_names_in_certificates_are_javas(tmp_path: Path) -> None:
    need_jars()
    chance = random.Random(39)
    subjects = [
        [x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.COMMON_NAME, "# \n")])],
        *(_subject(chance) for _ in range(_CERTIFICATES)),
    ]
    files, ours = [], []
    for number, subject in enumerate(subjects):
        folder = tmp_path / str(number)
        folder.mkdir()
        pem = self_signed(folder, *subject)
        ours.append(name_of_client(pem))
        text = pem.read_text()
        files.append(folder / "certificate.pem")
        files[-1].write_text(text[text.index("-----BEGIN CERTIFICATE") :])
    source = Path(__file__).with_name("CertificateNames.java")
    printed = tools().run_source(source, *map(str, files)).stdout.splitlines()
    assert ours == [bytes.fromhex(line).decode() for line in printed]
