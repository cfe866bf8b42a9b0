"""Credentials, names and errors of Kerberos, with a stand-in for the package ``gssapi``."""

from __future__ import annotations

import importlib.abc
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.errors import AuthenticationError, ConfigurationError, KafkaConnectionError
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.gssapi import Gssapi
from pyconsumer.network.kerberos import Kerberos, kerberos_error
from pyconsumer.network.sasl import mechanism_factory
from tests.unit.network.broker import make_config

SETTINGS: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
KRB5 = "com.sun.security.auth.module.Krb5LoginModule"


class GSSError(Exception):
    """As the package raises it."""

    def __init__(self, text: str, code: int = 0, major: int = 13 << 16) -> None:
        self.maj_code = major
        self.min_code = code & 0xFFFFFFFF
        super().__init__(f"Major ({major}): Unspecified GSS failure, Minor ({self.min_code}): {text}")


class Name:
    """A name, with a realm when it is canonical."""

    def __init__(self, text: str, kind: str = "hostbased") -> None:
        self.text, self.kind = text, kind

    def canonicalize(self, mechanism: str) -> str:
        return f"{self.text.replace('@', '/')}@" if self.kind == "hostbased" else self.text

    def __str__(self) -> str:
        return self.text


class Package:
    """The parts of ``gssapi`` that a login needs. ``asked`` has the arguments of each call."""

    NameType = SimpleNamespace(kerberos_principal="principal", hostbased_service="hostbased")
    MechType = SimpleNamespace(kerberos="krb5")
    RequirementFlag = SimpleNamespace(mutual_authentication=2, integrity=32)
    exceptions = SimpleNamespace(GSSError=GSSError)
    Name = Name

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[dict[str, Any]] = []

    def Credentials(self, **options: Any) -> Any:  # noqa: N802 - as the package has it
        self.asked.append(options)
        if self.error is not None:
            raise self.error
        return SimpleNamespace(name=options["name"] or "cached@EXAMPLE.COM")

    def SecurityContext(self, **options: Any) -> Any:  # noqa: N802
        self.asked.append(options)
        return SimpleNamespace(step=lambda token: b"ticket", complete=False)


def begin(package: Package, host: str = "broker.example.com", **settings: Any) -> bytes:
    """Return the first message of a login."""
    config = make_config(**SETTINGS, **settings)
    return _first(Kerberos(config, package=package).login(host))


def _first(login: Gssapi) -> bytes:
    while (first := login.first()) is None:
        assert login._pending is not None
        login._pending.exception(30)
    return first


@pytest.fixture
def keytab(tmp_path: Path) -> str:
    path = tmp_path / "alice.keytab"
    path.write_bytes(b"\x05\x02")
    return str(path)


def test_without_settings_the_ticket_cache_of_the_system_is_used() -> None:
    package = Package()
    assert begin(package) == b"ticket"
    credentials, context = package.asked
    assert credentials == {"name": None, "usage": "initiate", "mechs": ["krb5"], "store": None}
    assert (context["name"].text, context["name"].kind) == ("kafka@broker.example.com", "hostbased")
    assert (context["usage"], context["mech"], context["flags"]) == ("initiate", "krb5", 34)


@pytest.mark.parametrize("form", ["settings", "librdkafka", "jaas"])
def test_a_keytab_gives_tickets_in_memory_which_clients_share(keytab: str, form: str) -> None:
    settings = {
        "settings": {"sasl_kerberos_keytab": keytab, "sasl_kerberos_principal": "alice@EXAMPLE.COM"},
        "librdkafka": {"sasl.kerberos.keytab": keytab, "sasl.kerberos.principal": "alice@EXAMPLE.COM"},
        "jaas": {
            "sasl_jaas_config": f'{KRB5} required useKeyTab=true keyTab="{keytab}" principal="alice@EXAMPLE.COM";'
        },
    }[form]
    package = Package()
    begin(package, **settings)
    begin(package, **settings)
    begin(package, sasl_kerberos_keytab=keytab, sasl_kerberos_principal="bob")
    first, _, second, _, other, _ = package.asked
    assert (first["name"].text, first["name"].kind) == ("alice@EXAMPLE.COM", "principal")
    assert first["store"]["client_keytab"] == f"FILE:{keytab}"
    assert first["store"]["ccache"].startswith("MEMORY:")
    assert first["store"] == second["store"] != other["store"]


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl_kerberos_ticket_cache": "FILE:/tmp/cc"},
        {"sasl_jaas_config": f'{KRB5} required useTicketCache=true ticketCache="FILE:/tmp/cc";'},
    ],
)
def test_a_ticket_cache_can_be_named(settings: dict[str, str]) -> None:
    package = Package()
    begin(package, **settings)
    assert package.asked[0]["store"] == {"ccache": "FILE:/tmp/cc"}


@pytest.mark.parametrize(
    ("settings", "name", "kind"),
    [
        ({"sasl_kerberos_service_name": "brokers"}, "brokers@broker.example.com", "hostbased"),
        ({"sasl.kerberos.service.name": "brokers"}, "brokers@broker.example.com", "hostbased"),
        (
            {"sasl_jaas_config": f"{KRB5} required useTicketCache=true serviceName=b;"},
            "b@broker.example.com",
            "hostbased",
        ),
        ({"sasl_kerberos_domain_name": "balancer.example.com"}, "kafka@balancer.example.com", "hostbased"),
        ({"sasl_kerberos_name": "kafka@other"}, "kafka@other", "hostbased"),
        ({"sasl_kerberos_name": "kafka/other@EXAMPLE.COM"}, "kafka/other@EXAMPLE.COM", "principal"),
        ({"sasl_kerberos_name": Name("made by the program", "own")}, "made by the program", "own"),
    ],
)
def test_the_brokers_name(settings: dict[str, Any], name: str, kind: str) -> None:
    package = Package()
    begin(package, **settings)
    target = package.asked[1]["name"]
    assert (target.text, target.kind) == (name, kind)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl_kerberos_keytab": __file__}, "sasl_kerberos_keytab needs sasl_kerberos_principal"),
        ({"sasl_kerberos_keytab": "/nowhere"}, "there is no file '/nowhere'"),
        (
            {
                "sasl_kerberos_keytab": __file__,
                "sasl_kerberos_principal": "a",
                "sasl_kerberos_ticket_cache": "FILE:/tmp/cc",
            },
            "are both given",
        ),
        (
            {"sasl_jaas_config": f"{KRB5} required useKeyTab=true keyTab='/nowhere' principal=a;"},
            "keyTab: there is no file '/nowhere'",
        ),
        (
            {
                "sasl_jaas_config": f"{KRB5} required useTicketCache=true serviceName=a;",
                "sasl_kerberos_service_name": "b",
            },
            "sasl_kerberos_service_name and sasl.jaas.config give two values",
        ),
        ({"sasl_kerberos_name": 5}, "must be text or a gssapi.Name"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_config(**SETTINGS, **settings)


def test_the_login_module_chooses_the_mechanism() -> None:
    config = make_config(
        security_protocol="SASL_PLAINTEXT", sasl_jaas_config=f"{KRB5} required useTicketCache=true serviceName=a;"
    )
    assert (config.sasl_mechanism, config.sasl_kerberos_service_name) == ("GSSAPI", "a")


class _Hidden(importlib.abc.MetaPathFinder):
    def __init__(self, error: ImportError) -> None:
        self.error = error

    def find_spec(self, name: str, *_: object) -> None:
        if name == "gssapi":
            raise self.error


@pytest.mark.parametrize(
    ("error", "more"),
    [
        (ModuleNotFoundError("No module named 'gssapi'", name="gssapi"), "krb5-dev on Alpine$"),
        (ImportError("libgssapi_krb5.so.2: no such file"), "but cannot be loaded: libgssapi_krb5.so.2: no such file$"),
    ],
)
def test_without_the_package_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, error: ImportError, more: str
) -> None:
    monkeypatch.delitem(sys.modules, "gssapi", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Hidden(error), *sys.meta_path])
    config = make_config(**SETTINGS)
    with pytest.raises(ConfigurationError, match=rf"pip install 'pyconsumer\[gssapi\]'.*libkrb5-dev on Debian.*{more}"):
        mechanism_factory(config)
    with pytest.raises(ConfigurationError, match="libkrb5-dev"):
        NetworkClient(config)


@pytest.mark.parametrize(
    ("code", "text", "kind", "advice"),
    [
        (-1765328378, "Client not found", AuthenticationError, "does not know the principal alice@A: check sasl_ker"),
        (
            -1765328377,
            "Server not found",
            AuthenticationError,
            "service kafka/b: check sasl_kerberos_service_name.*rdns",
        ),
        (-1765328360, "Preauthentication failed", AuthenticationError, "export the keytab again"),
        (-1765328352, "Ticket expired", AuthenticationError, "ticket has expired: get a ticket by kinit"),
        (-1765328351, "Ticket not yet valid", KafkaConnectionError, "synchronize the clocks"),
        (-1765328350, "Request is a replay", KafkaConnectionError, "tries again"),
        (-1765328347, "Clock skew too great", AuthenticationError, "synchronize the clocks"),
        (-1765328236, "Clock skew too great in KDC reply", AuthenticationError, "synchronize the clocks"),
        (-1765328243, "No credentials", AuthenticationError, "get a ticket by kinit, or give sasl_kerberos_keytab"),
        (-1765328230, "Cannot find KDC", AuthenticationError, "no KDC for the realm"),
        (-1765328228, "Cannot contact any KDC", KafkaConnectionError, "check the KDC of the realm in krb5.conf"),
        (-1765328189, "No credentials cache found", AuthenticationError, "get a ticket by kinit"),
        (-1765328160, "no default realm", AuthenticationError, "krb5.conf has no default_realm"),
        (12345, "Something else", AuthenticationError, "Kerberos for kafka/b: Something else$"),
    ],
)
def test_errors_say_what_failed_and_what_to_do(code: int, text: str, kind: type[Exception], advice: str) -> None:
    found = kerberos_error(GSSError(text, code), "alice@A", "kafka/b", None)
    assert type(found) is kind
    with pytest.raises(kind, match=f"^Kerberos for kafka/b: {text}.*{advice}" if code != 12345 else advice):
        raise found


def test_gssapis_own_code_for_expired_credentials() -> None:
    found = kerberos_error(GSSError("Success", 0, major=11 << 16), None, "kafka/b", None)
    assert "the ticket has expired: get a ticket by kinit" in str(found)


def test_a_keytab_without_the_principal_is_not_reported_as_a_missing_cache() -> None:
    found = kerberos_error(GSSError("No credentials cache found", -1765328189), "bob@A", "kafka/b", "/etc/a.keytab")
    assert "the keytab /etc/a.keytab gives no credentials: it has no key of bob@A" in str(found)
    assert "cache" not in str(found)


def test_a_long_reason_is_cut_and_has_no_control_characters() -> None:
    found = kerberos_error(GSSError("x\x1b[31m\n" + "y" * 10_000), None, "kafka/b", None)
    assert len(str(found)) < 400
    assert str(found).isprintable()


@pytest.mark.parametrize(("content", "why"), [(b"text", "is not a keytab"), (None, "cannot be read: No such file")])
def test_a_keytab_that_is_replaced_by_something_else(keytab: str, content: bytes | None, why: str) -> None:
    config = make_config(**SETTINGS, sasl_kerberos_keytab=keytab, sasl_kerberos_principal="alice")
    Path(keytab).unlink() if content is None else Path(keytab).write_bytes(content)
    login = Kerberos(config, package=Package()).login("b")
    with pytest.raises(AuthenticationError, match=why):
        _first(login)


def test_a_library_without_stores_is_named() -> None:
    with pytest.raises(AuthenticationError, match="use MIT Kerberos"):
        begin(Package(NotImplementedError()), sasl_kerberos_ticket_cache="FILE:/tmp/cc")
