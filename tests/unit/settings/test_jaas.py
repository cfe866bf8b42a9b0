"""``sasl.jaas.config`` of Java clients."""

from __future__ import annotations

import re
import traceback

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_quotes_in_passwords() -> None:
    assert parse_jaas(rf'{PLAIN} required username="u" password="a\"b\\c=;d" ;').options["password"] == 'a"b\\c=;d'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "login modules that can be used"),
        ('com.sun.security.auth.module.LdapLoginModule required userFilter="x";', "begins with another name"),
        (f'{KERBEROS} required keyTab="s3cret" principal="s3cret";', "needs useKeyTab=true with keyTab and principal"),
        (f'{KERBEROS} required useKeyTab=true keyTab="s3cret";', "needs keyTab and principal"),
        (f"{KERBEROS} required useTicketCache=true isInitiator=false;", "isInitiator=false is for brokers"),
        (f'{PLAIN} required username="u" password="s3cret"', "with the semicolon"),
        (f'{PLAIN} username="u" password="s3cret";', "with the semicolon"),
        (f'{PLAIN} required username "s3cret" password;', "with the semicolon"),
        (f"{PLAIN} required username='u' password=s3cret s3cret;", "with the semicolon"),
        (f'{PLAIN} required username="u";', "no password"),
        (f'{PLAIN} required username="u" password="s3cret;', "quote is not closed"),
        (f"{TOKENS} required unsecuredLoginStringClaim_sub='s3cret';", "unsecured tokens are not made"),
    ],
)
def test_errors_name_the_fault_and_not_the_password(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        parse_jaas(text)
    assert "s3cret" not in str(caught.value)


def test_the_login_of_a_delegation_token() -> None:
    login = parse_jaas(f'{SCRAM} required username="id" password="hmac" tokenauth="true";')
    assert login.tokenauth
    assert not parse_jaas(f'{SCRAM} required username="id" password="hmac";').tokenauth
    assert login.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")


def test_a_login_by_tokens_has_the_options_of_javas_client() -> None:
    login = parse_jaas(f"{TOKENS} required clientId=me clientSecret='s3cret' scope=a extension_cluster=lkc;")
    assert login.mechanisms == ("OAUTHBEARER",)
    assert login.options["clientSecret"] == "s3cret"
    assert "s3cret" not in repr(login)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (
            "useKeyTab=true storeKey=true keyTab='/etc/a.keytab' principal='alice@EXAMPLE.COM' ticketCache='/tmp/cc'",
            {"keyTab": "/etc/a.keytab", "principal": "alice@EXAMPLE.COM"},
        ),
        ("useKeyTab=TRUE keyTab='FILE:/etc/a.keytab' principal=a", {"keyTab": "/etc/a.keytab", "principal": "a"}),
        ("useKeyTab=true keyTab='file:///etc/a.keytab' principal=a", {"keyTab": "/etc/a.keytab", "principal": "a"}),
        (
            "useTicketCache=true renewTGT=true ticketCache='/tmp/cc' keyTab='/etc/a.keytab' serviceName=brokers",
            {"ticketCache": "/tmp/cc", "serviceName": "brokers"},
        ),
        ("useTicketCache=true", {}),
    ],
)
def test_a_login_by_kerberos_says_where_tickets_come_from(options: str, found: dict[str, str]) -> None:
    login = parse_jaas(f"{KERBEROS} required {options};")
    assert login.mechanisms == ("GSSAPI",)
    assert login.options == found


def test_no_part_of_a_malformed_value_is_shown() -> None:
    secret = "Zq7xKw9vJ"
    right = f'{PLAIN} required username="{secret}" password="{secret}";'
    words = re.split(r"[ =]", right)
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
            parse_jaas(text)
        except ConfigurationError as error:
            shown.add("".join(traceback.format_exception_only(error)) + repr(error.__cause__) + repr(error.__context__))
    assert len(shown) >= 4
    pieces = [secret[place : place + 2] for place in range(len(secret) - 1)]
    assert not [message for message in shown for piece in pieces if piece in message]
