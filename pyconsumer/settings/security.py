"""The settings of TLS and SASL that every client has: the table, and the rules that concern several of them.

Rules
1. Java's and librdkafka's names are settings, or other names of settings, in this one table. So they work in each way
   of giving settings: keywords, mappings with dots, files, the environment, and Spark.
2. A setting that says the same in another form is turned into the one that the client reads: :func:`finish_security`.
3. Certificates, keys and stores are read where a connection is made (:mod:`pyconsumer.network.tls`). Only the format of
   a store is looked at here, since an error at the start is better than one at a connection.
4. No message has a part of ``sasl.jaas.config``, a key, a password or a token.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.kinds import (
    Choice,
    Duration,
    File,
    Flag,
    Function,
    Instance,
    Integer,
    Kind,
    ListOf,
    Number,
    Secret,
    Setting,
    Text,
)

if TYPE_CHECKING:
    from pyconsumer.settings.jaas import Login

__all__ = ["SASL_MECHANISMS", "SECURITY_SETTINGS", "ExtensionPairs", "PemText", "finish_security"]

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
"""SASL mechanisms that a client can use."""

_PEM: Final = b"-----BEGIN "
_JKS: Final = b"\xfe\xed\xfe\xed"
_JCEKS: Final = b"\xce\xce\xce\xce"
_RETRIEVERS: Final = {
    "DefaultJwtRetriever": None,
    "ClientCredentialsJwtRetriever": "client_credentials",
    "JwtBearerJwtRetriever": "jwt-bearer",
    "FileJwtRetriever": "file",
}
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class PemText(Secret):
    """PEM as a string. ``block`` is the kind of block in it, such as ``CERTIFICATE``."""

    def __init__(self, block: str) -> None:
        super().__init__(nullable=True)
        self.block = block

    def check(self, value: Any) -> str:
        text: str = super().check(value)
        # A properties file, or a variable, may have the two characters \n for the end of a line.
        text = text.replace("\\n", "\n")
        if not re.search(rf"-----BEGIN [A-Z0-9 ]*{self.block}-----", text):
            raise ValueError(f"it must be PEM text with -----BEGIN ... {self.block}-----")
        return text


class _Jaas(Kind):
    """Java's login, as its ``sasl.jaas.config`` has it."""

    type_text = "str"
    discreet = True

    def __init__(self) -> None:
        super().__init__(nullable=True)

    def check(self, value: Any) -> Login:
        from pyconsumer.settings.jaas import Login, parse_jaas  # few programs need it

        if isinstance(value, Login):
            return value
        if not isinstance(value, str):
            raise TypeError(f"it must be a string, not a value of type {type(value).__name__}")
        return parse_jaas(value)


class _Endpoint(Choice):
    """A check of the name in a certificate: ``https``. ``none``, or empty text, is no check."""

    def __init__(self) -> None:
        super().__init__("https", "none", nullable=True)

    def check(self, value: Any) -> str:
        try:
            return super().check(value if value != "" else "none")
        except ValueError:
            raise ValueError(f"it must be https or empty, not {value!r}") from None


class _Retriever(Kind):
    """One of Java's classes that fetch tokens, with its package or without."""

    type_text = "str"

    def check(self, value: Any) -> str:
        name = value.rpartition(".")[2] if isinstance(value, str) else ""
        if name not in _RETRIEVERS:
            raise ValueError(
                f"it must be one of {', '.join(_RETRIEVERS)}: for another way give sasl_oauth_token_provider"
            )
        return name


class _Grant(Choice):
    def check(self, value: Any) -> str:
        return super().check("jwt-bearer" if value == _JWT_BEARER else value)


class ExtensionPairs(Kind):
    """SASL extensions (KIP-342): a mapping of strings. In text, ``name=value`` pairs with commas."""

    type_text = "Mapping[str, str]"

    _NAME = re.compile(r"[A-Za-z]+")
    _VALUE = re.compile(r"[\x21-\x7e \t\r\n]*")

    def check(self, value: Any) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise TypeError(f"it must be a mapping, not {value!r}")
        for name, text in value.items():
            if not isinstance(name, str) or not self._NAME.fullmatch(name) or name.lower() == "auth":
                raise ValueError(f"a name must be letters, and not auth, but is {name!r}")
            if not isinstance(text, str) or not self._VALUE.fullmatch(text):
                raise ValueError(f"the value of {name} must be printable ASCII text")
        return dict(value)

    def parse(self, text: str) -> dict[str, str]:
        pairs = [part.partition("=") for part in text.split(",") if part.strip()]
        if not all(sign for _, sign, _ in pairs):
            raise ValueError("write it as name=value,name=value")
        return {name.strip(): value.strip() for name, _, value in pairs}


class _Named(Function):
    """A function, or an object with one of the methods. In text, its import path: ``package.module:name``."""

    discreet = True

    def check(self, value: Any) -> Any:
        try:
            return super().check(value)
        except TypeError:
            raise TypeError(f"it must be a function, not a value of type {type(value).__name__}") from None

    def parse(self, text: str) -> Any:
        module, colon, name = text.strip().partition(":")
        if not colon or not module or not name:
            raise ValueError("in text it must be an import path such as package.module:name")
        try:
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
            # A class with the method is made here, without arguments. Another callable is the function itself.
            if isinstance(found, type) and any(hasattr(found, method) for method in self.methods):
                found = found()
        except Exception as error:
            raise ValueError(f"it cannot be loaded: {type(error).__name__}") from None
        return found


class _ServiceName(Kind):
    """The name of a service: text, or a ``gssapi.Name``."""

    type_text = "object"  # which spares type checkers the package

    def check(self, value: Any) -> Any:
        if isinstance(value, str):
            return Text().check(value)
        if callable(getattr(value, "canonicalize", None)):
            return value
        raise TypeError(f"it must be text or a gssapi.Name, not {value!r}")


class _Url(Text):
    def check(self, value: Any) -> str:
        text = super().check(value).strip()
        try:
            parts = urlsplit(text)
            right = bool(parts.path) if parts.scheme == "file" else parts.scheme in ("http", "https") and parts.hostname
            _ = parts.port
        except ValueError:
            right = False
        if not right:
            raise ValueError("it must be an address that begins with https://, http:// or file:///")
        if re.search(r"[\x00-\x20\x7f]", text):
            raise ValueError("it must have no blanks or control characters")
        if parts.username is not None or parts.password is not None:
            raise ValueError("it must have no user name or password: the client's id and secret are settings")
        return text

    def shown(self, value: Any) -> Any:
        return value if value is None else value.partition("?")[0].partition("#")[0]


_KINDS_OF_STORE: Final = ("PEM", "PKCS12", "JKS")
_TLS_VERSIONS: Final = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")

_TLS: Final = (
    Setting(
        "ssl_context",
        None,
        Instance("ssl.SSLContext", nullable=True),
        "An `ssl.SSLContext` to use instead of the other `ssl_` settings.",
    ),
    Setting(
        "ssl_check_hostname",
        True,
        Flag(),
        "Check that the broker's certificate is for the host name that the client connects to (KIP-294).",
    ),
    Setting(
        "ssl_endpoint_identification_algorithm",
        None,
        _Endpoint(),
        "Java's form of `ssl_check_hostname`: `https`, or empty for False. librdkafka says `none` for False.",
    ),
    Setting(
        "ssl_cafile",
        None,
        File(nullable=True),
        "PEM file with the certificate authorities to trust (by default the system's).",
        ("ssl.ca.location",),
    ),
    Setting(
        "ssl_certfile",
        None,
        File(nullable=True),
        "PEM file with the client's certificate and its chain, for mTLS. A new connection uses the files that are there"
        " then. If certificate and key do not match, the earlier ones are used and the log says so once.",
        ("ssl.certificate.location",),
    ),
    Setting(
        "ssl_keyfile",
        None,
        File(nullable=True),
        "PEM file with the private key of the client's certificate. By default it is read from `ssl_certfile`.",
        ("ssl.key.location",),
    ),
    Setting(
        "ssl_password",
        None,
        Secret(function=True, nullable=True),
        "Password of the private key, or a function that returns it.",
        ("ssl.key.password", "ssl_key_password"),
        secret=True,
    ),
    Setting(
        "ssl_truststore_certificates",
        None,
        PemText("CERTIFICATE"),
        "The certificate authorities to trust, as PEM text instead of a file.",
        ("ssl.ca.pem", "ssl_ca_pem"),
        secret=True,
    ),
    Setting(
        "ssl_keystore_certificate_chain",
        None,
        PemText("CERTIFICATE"),
        "The client's certificate and its chain, as PEM text instead of a file.",
        ("ssl.certificate.pem", "ssl_certificate_pem"),
        secret=True,
    ),
    Setting(
        "ssl_keystore_key",
        None,
        PemText("PRIVATE KEY"),
        "The private key of the client's certificate, as PEM text. It is never written to a disk.",
        ("ssl.key.pem", "ssl_key_pem"),
        secret=True,
    ),
    Setting(
        "ssl_truststore_location",
        None,
        File(nullable=True),
        "Java's form of `ssl_cafile`: a PEM file, or a PKCS12 store (needs the extra `crypto`). A JKS store is refused,"
        " with the command that converts it.",
    ),
    Setting(
        "ssl_truststore_type",
        None,
        Choice(*_KINDS_OF_STORE, nullable=True),
        "The format of the trust store. By default the file's first bytes decide.",
    ),
    Setting(
        "ssl_truststore_password",
        None,
        Secret(nullable=True),
        "Password of a PKCS12 trust store.",
        secret=True,
    ),
    Setting(
        "ssl_keystore_location",
        None,
        File(nullable=True),
        "The client's certificate and key in one file: PEM, or PKCS12 (needs the extra `crypto`).",
    ),
    Setting(
        "ssl_keystore_type",
        None,
        Choice(*_KINDS_OF_STORE, nullable=True),
        "The format of the key store. By default the file's first bytes decide.",
    ),
    Setting(
        "ssl_keystore_password",
        None,
        Secret(nullable=True),
        "Password of a PKCS12 key store.",
        secret=True,
    ),
    Setting(
        "ssl_crlfile",
        None,
        File(nullable=True),
        "PEM file with certificate revocation lists. Each authority of the broker's chain must have a list in it.",
        ("ssl.crl.location",),
    ),
    Setting(
        "ssl_ciphers",
        None,
        Text(nullable=True),
        "Ciphers in OpenSSL's notation, or Java's names with commas, for TLS 1.2 and older. Those of TLS 1.3 are always"
        " on.",
        ("ssl.cipher.suites", "ssl_cipher_suites"),
    ),
    Setting(
        "ssl_enabled_protocols",
        None,
        ListOf(Choice(*_TLS_VERSIONS), nullable=True),
        "Versions of TLS that may be used (by default 1.2 and 1.3).",
    ),
    Setting(
        "ssl_protocol",
        None,
        Choice("TLS", *_TLS_VERSIONS, nullable=True),
        "The newest version of TLS that may be used. `TLS` is the newest that there is.",
    ),
)

_SASL: Final = (
    Setting(
        "sasl_mechanism",
        None,
        Choice(*SASL_MECHANISMS, nullable=True),
        "SASL mechanism to authenticate with.",
        ("sasl.mechanisms", "sasl_mechanisms"),
    ),
    Setting(
        "sasl_mechanism_factory",
        None,
        _Named("first", nullable=True, type_text="Callable[[], SaslMechanism]"),
        "A mechanism of your own: a function that returns a `pyconsumer.logins.SaslMechanism` for each login. In text"
        " it is an import path, such as `my_logins:make`.",
        secret=True,
    ),
    Setting(
        "sasl_plain_username",
        None,
        Text(nullable=True),
        "User name for PLAIN and SCRAM. For a delegation token it is the token's id.",
        ("sasl.username", "sasl_username"),
    ),
    Setting(
        "sasl_plain_password",
        None,
        Secret(nullable=True),
        "Password for PLAIN and SCRAM. For a delegation token it is the token's HMAC in Base64.",
        ("sasl.password", "sasl_password"),
        secret=True,
    ),
    Setting(
        "sasl_scram_tokenauth",
        False,
        Flag(),
        "User name and password are those of a delegation token (KIP-48), for SCRAM.",
    ),
    Setting(
        "sasl_jaas_config",
        None,
        _Jaas(),
        "Java's login: PlainLoginModule, ScramLoginModule (with `tokenauth`), OAuthBearerLoginModule or"
        " Krb5LoginModule.",
        secret=True,
    ),
    Setting(
        "sasl_oauth_token_provider",
        None,
        _Named("token", nullable=True, type_text="Callable[[], str] | TokenProvider"),
        "For OAUTHBEARER: an object with `token() -> str`, or a function, that returns a valid JWT. In text it is an"
        " import path, such as `my_logins:Provider`.",
        secret=True,  # a token given by mistake instead
    ),
)

_KERBEROS: Final = (
    Setting(
        "sasl_kerberos_service_name",
        "kafka",
        Text(),
        "For GSSAPI: the brokers' name in Kerberos, without host and realm. Java's client has no default.",
    ),
    Setting(
        "sasl_kerberos_domain_name",
        None,
        Text(nullable=True),
        "For GSSAPI: the host in the brokers' name, instead of the host of each broker's address.",
    ),
    Setting(
        "sasl_kerberos_name",
        None,
        _ServiceName(nullable=True),
        "For GSSAPI: the brokers' whole name, such as `kafka@host` or `kafka/host@EXAMPLE.COM`, or a `gssapi.Name`."
        " The two settings above have no effect then.",
    ),
    Setting(
        "sasl_kerberos_principal",
        None,
        Text(nullable=True),
        "For GSSAPI: the client's own name, such as `alice@EXAMPLE.COM`. By default that of the ticket cache.",
    ),
    Setting(
        "sasl_kerberos_keytab",
        None,
        File(nullable=True),
        "For GSSAPI: file with the client's key. With it the client gets tickets by itself.",
    ),
    Setting(
        "sasl_kerberos_ticket_cache",
        None,
        Text(nullable=True),
        "For GSSAPI: the ticket cache of `kinit`, such as `FILE:/tmp/krb5cc_1000`. By default the one that `KRB5CCNAME`"
        " or krb5.conf names.",
    ),
)

_OIDC: Final = (
    Setting(
        "sasl_oauthbearer_token_endpoint_url",
        None,
        _Url(nullable=True),
        "For OAUTHBEARER: the address of the provider's token end point (KIP-768). `file:///...` names a file with a"
        " token.",
    ),
    Setting(
        "sasl_oauthbearer_client_credentials_client_id",
        None,
        Text(nullable=True),
        "The client's id at the provider.",
        ("sasl.oauthbearer.client.id", "sasl_oauthbearer_client_id"),
    ),
    Setting(
        "sasl_oauthbearer_client_credentials_client_secret",
        None,
        Secret(nullable=True),
        "The client's secret at the provider.",
        ("sasl.oauthbearer.client.secret", "sasl_oauthbearer_client_secret"),
        secret=True,
    ),
    Setting("sasl_oauthbearer_scope", None, Text(nullable=True), "The scope that the token is asked for."),
    Setting(
        "sasl_oauthbearer_extensions",
        {},
        ExtensionPairs(),
        "SASL extensions that are sent with a token (KIP-342), such as `{'logicalCluster': 'lkc-1'}`.",
    ),
    Setting(
        "sasl_oauthbearer_header_urlencode",
        False,
        Flag(),
        "Encode the client's id and secret as RFC 6749 says before they go into the header (KIP-1025).",
    ),
    Setting(
        "sasl_oauthbearer_grant_type",
        None,
        _Grant("client_credentials", "jwt-bearer", nullable=True),
        "How the client asks for a token: by its credentials, or by a signed assertion (`jwt-bearer`, KIP-1139).",
    ),
    Setting(
        "sasl_oauthbearer_jwt_retriever_class",
        None,
        _Retriever(nullable=True),
        "Java's form of `sasl_oauthbearer_grant_type`: the name of one of Java's four classes.",
    ),
    Setting(
        "sasl_oauthbearer_method",
        None,
        Choice("default", "oidc", nullable=True),
        "librdkafka's choice: `oidc` needs `sasl_oauthbearer_token_endpoint_url`.",
    ),
    Setting(
        "sasl_oauthbearer_cafile",
        None,
        File(nullable=True),
        "PEM file with the authorities to trust at the token end point (by default the system's).",
        ("https.ca.location", "https_ca_location"),
    ),
    Setting(
        "sasl_oauthbearer_assertion_file",
        None,
        File(nullable=True),
        "File with a signed assertion. It is read for each request. With client credentials it stands for the secret"
        " (KIP-1258).",
    ),
    Setting(
        "sasl_oauthbearer_assertion_private_key_file",
        None,
        File(nullable=True),
        "PEM file with the key that signs assertions (needs the extra `crypto`).",
    ),
    Setting(
        "sasl_oauthbearer_assertion_private_key_pem",
        None,
        PemText("PRIVATE KEY"),
        "The key that signs assertions as PEM text.",
        secret=True,
    ),
    Setting(
        "sasl_oauthbearer_assertion_private_key_passphrase",
        None,
        Secret(nullable=True),
        "Password of the key that signs assertions.",
        secret=True,
    ),
    Setting(
        "sasl_oauthbearer_assertion_algorithm",
        "RS256",
        Choice("RS256", "ES256"),
        "The algorithm that signs assertions.",
    ),
    Setting(
        "sasl_oauthbearer_assertion_template_file",
        None,
        File(nullable=True),
        "JSON file with the objects `header` and `payload`: more claims for assertions.",
        ("sasl.oauthbearer.assertion.jwt.template.file",),
    ),
    Setting("sasl_oauthbearer_assertion_claim_aud", None, Text(nullable=True), "The audience in assertions."),
    Setting(
        "sasl_oauthbearer_assertion_claim_iss",
        None,
        Text(nullable=True),
        "The issuer in assertions. With client credentials it says that an assertion stands for the secret (KIP-1258).",
    ),
    Setting("sasl_oauthbearer_assertion_claim_sub", None, Text(nullable=True), "The subject in assertions."),
    Setting(
        "sasl_oauthbearer_assertion_claim_exp_seconds",
        300,
        Integer(0, 86_400),
        "An assertion expires so many seconds after it was made.",
    ),
    Setting(
        "sasl_oauthbearer_assertion_claim_nbf_seconds",
        60,
        Integer(0, 3_600),
        "An assertion is valid from so many seconds before it was made.",
    ),
    Setting(
        "sasl_oauthbearer_assertion_claim_jti_include",
        False,
        Flag(),
        "Give each assertion an id of its own (`jti`).",
    ),
    Setting(
        "sasl_login_connect_timeout_ms",
        10_000,
        Duration(1),
        "Longest time to connect to the token end point. Java's default is no limit.",
        blanks=(None,),
    ),
    Setting(
        "sasl_login_read_timeout_ms",
        10_000,
        Duration(1),
        "Longest time until all of the token end point's answer is there. Java's default is no limit.",
        blanks=(None,),
    ),
    Setting(
        "sasl_login_retry_backoff_ms",
        100,
        Duration(1),
        "Pause before a failed request for a token is sent again. It doubles with each failure.",
    ),
    Setting("sasl_login_retry_backoff_max_ms", 10_000, Duration(1), "Longest pause before such a request."),
    Setting(
        "sasl_login_refresh_window_factor",
        0.8,
        Number(0.5, 1.0),
        "The part of a token's life after which a new one is fetched.",
    ),
    Setting(
        "sasl_login_refresh_window_jitter",
        0.05,
        Number(0.0, 0.25),
        "The largest random part of a token's life that is added to it.",
    ),
    Setting(
        "sasl_login_refresh_min_period_seconds",
        60,
        Integer(0, 900),
        "Shortest time between two tokens. It is ignored if a token's life is shorter than it and the buffer together.",
    ),
    Setting(
        "sasl_login_refresh_buffer_seconds",
        300,
        Integer(0, 3_600),
        "A new token is fetched so many seconds before the old one expires, or earlier.",
    ),
)

SECURITY_SETTINGS: Final = (
    Setting(
        "security_protocol",
        "PLAINTEXT",
        Choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "Security of connections to brokers: with TLS (`SSL`) or without, with SASL or without.",
    ),
    *_TLS,
    *_SASL,
    *_KERBEROS,
    *_OIDC,
)
"""The settings of TLS and SASL that every client has."""

#: These say nothing without a store, or change nothing where TLS is not used.
_WITHOUT_WEIGHT: Final = {
    "ssl_check_hostname",
    "ssl_endpoint_identification_algorithm",
    "ssl_enabled_protocols",
    "ssl_protocol",
    "ssl_truststore_type",
    "ssl_keystore_type",
}


def finish_security(values: dict[str, Any], given: frozenset[str]) -> None:
    """Check the settings of TLS and SASL together, and fill in those that follow from others.

    Args:
        values: all settings. The dictionary is changed in place.
        given: names of the settings that the user gave.

    Raises:
        ConfigurationError: two settings contradict each other, one is missing, or a store has a format that cannot be
            read.
    """
    protocol = values["security_protocol"]
    tls = {name for name in given if name.startswith("ssl_") and values[name] is not None}
    sasl = {name for name in given if name.startswith("sasl_") and values[name] is not None}
    if tls - _WITHOUT_WEIGHT and not protocol.endswith("SSL"):
        name = min(tls - _WITHOUT_WEIGHT)
        raise ConfigurationError(f"{name} is given, but security_protocol is {protocol}, which does not use TLS")
    # Java's clients have a mechanism and times of logins by default, so a shared file may name them.
    meant = {name for name in sasl if not name.startswith("sasl_login_")}
    if meant and not protocol.startswith("SASL"):
        raise ConfigurationError(f"{min(meant)} is given, but security_protocol is {protocol}, which does not use SASL")
    beside = tls - _WITHOUT_WEIGHT - {"ssl_context"}
    if "ssl_context" in tls and beside:
        raise ConfigurationError(f"ssl_context and {min(beside)} are both given: set everything in the context")
    _finish_names(values, given)
    _finish_stores(values)
    if protocol.startswith("SASL"):
        _finish_login(values, given)


def _finish_names(values: dict[str, Any], given: frozenset[str]) -> None:
    algorithm = values["ssl_endpoint_identification_algorithm"]
    if algorithm is None:
        return
    checked = algorithm == "https"
    if "ssl_check_hostname" in given and values["ssl_check_hostname"] != checked:
        raise ConfigurationError("ssl_endpoint_identification_algorithm and ssl_check_hostname contradict each other")
    values["ssl_check_hostname"] = checked


def _one_of(values: Mapping[str, Any], *names: str) -> None:
    found = [name for name in names if values[name] is not None]
    if len(found) > 1:
        raise ConfigurationError(f"{found[0]} and {found[1]} are both given: they are two forms of one setting")


def _finish_stores(values: dict[str, Any]) -> None:
    _one_of(values, "ssl_cafile", "ssl_truststore_location", "ssl_truststore_certificates")
    _one_of(values, "ssl_certfile", "ssl_keystore_location", "ssl_keystore_certificate_chain")
    if values["ssl_keyfile"] and not values["ssl_certfile"]:
        raise ConfigurationError("ssl_keyfile is given without ssl_certfile")
    if (values["ssl_keystore_key"] is None) != (values["ssl_keystore_certificate_chain"] is None):
        raise ConfigurationError("ssl_keystore_certificate_chain and ssl_keystore_key must be given together")
    for store in ("ssl_truststore", "ssl_keystore"):
        path = values[f"{store}_location"]
        as_text = values["ssl_keystore_key" if store == "ssl_keystore" else "ssl_truststore_certificates"] is not None
        kind = values[f"{store}_type"]
        if as_text and kind not in (None, "PEM"):
            raise ConfigurationError(f"{store}_type is {kind}, but certificates as text are PEM")
        if path is None:
            continue
        found = _format(path)
        if kind is None or (kind == "JKS" and found == "PKCS12"):  # Java's JKS reads both
            kind = values[f"{store}_type"] = found
        if kind == "JKS":
            raise ConfigurationError(f"{store}_location: {_conversion(path, store)}")
        if kind == "PEM" and values[f"{store}_password"] is not None:
            raise ConfigurationError(f"{store}_password: a PEM file has none. A key's password is ssl_password")


def _format(path: str) -> str:
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise ConfigurationError(f"the file {path} cannot be read: {error.strerror}") from None
    if start.startswith((_JKS, _JCEKS)):
        return "JKS"
    return "PEM" if _PEM in start else "PKCS12"


def _conversion(path: str, store: str) -> str:
    return (
        f"a JKS store cannot be read. Convert it by"
        f" keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
        f" and set {store}_location={path}.p12 and {store}_type=PKCS12"
    )


def _finish_login(values: dict[str, Any], given: frozenset[str]) -> None:
    login: Login | None = values["sasl_jaas_config"]
    if values["sasl_mechanism_factory"] is not None:
        return
    if login is not None:
        _take_login(values, login, given)
    mechanism, protocol = values["sasl_mechanism"], values["security_protocol"]
    if mechanism is None:
        raise ConfigurationError(f"security_protocol {protocol} needs sasl_mechanism ({', '.join(SASL_MECHANISMS)})")
    if values["sasl_scram_tokenauth"] and not mechanism.startswith("SCRAM"):
        raise ConfigurationError(f"sasl_scram_tokenauth: a delegation token is for SCRAM, not for {mechanism}")
    if mechanism == "OAUTHBEARER":
        _finish_tokens(values)
    elif mechanism == "GSSAPI":
        _finish_kerberos(values)
    elif values["sasl_plain_username"] is None or values["sasl_plain_password"] is None:
        raise ConfigurationError(f"sasl_mechanism {mechanism} needs sasl_plain_username and sasl_plain_password")


#: What the options of Java's login modules are called as settings.
_OPTIONS: Final = {
    "username": "sasl_plain_username",
    "password": "sasl_plain_password",
    "clientId": "sasl_oauthbearer_client_credentials_client_id",
    "clientSecret": "sasl_oauthbearer_client_credentials_client_secret",
    "scope": "sasl_oauthbearer_scope",
    "serviceName": "sasl_kerberos_service_name",
    "principal": "sasl_kerberos_principal",
    "ticketCache": "sasl_kerberos_ticket_cache",
}
#: Of these a setting with another value is an error. Of OAUTHBEARER the setting comes first, as in Java.
_ONE_VALUE: Final = ("sasl_plain_username", "sasl_plain_password", "sasl_kerberos_service_name")


def _take_login(values: dict[str, Any], login: Login, given: frozenset[str]) -> None:
    if values["sasl_mechanism"] is None and len(login.mechanisms) == 1:
        values["sasl_mechanism"] = login.mechanisms[0]
    if values["sasl_mechanism"] not in login.mechanisms:
        raise ConfigurationError(
            f"sasl_mechanism must be {' or '.join(login.mechanisms)} with the login module that sasl.jaas.config names,"
            f" not {values['sasl_mechanism']}"
        )
    for option, name in _OPTIONS.items():
        if option not in login.options:
            continue
        if name in _ONE_VALUE and name in given:
            if values[name] != login.options[option]:
                raise ConfigurationError(f"{name} and sasl.jaas.config give two values")
        elif name not in given:
            values[name] = login.options[option]
    if login.options.get("keyTab") and "sasl_kerberos_keytab" not in given:
        try:
            values["sasl_kerberos_keytab"] = File().check(login.options["keyTab"])
        except ValueError as error:
            raise ConfigurationError(f"sasl.jaas.config: keyTab: {error}") from None
    if login.tokenauth:
        values["sasl_scram_tokenauth"] = True
    prefix = "extension_"
    extensions = {name.removeprefix(prefix): text for name, text in login.options.items() if name.startswith(prefix)}
    if extensions:
        try:
            values["sasl_oauthbearer_extensions"] = {
                **ExtensionPairs().check(extensions),
                **values["sasl_oauthbearer_extensions"],
            }
        except ValueError as error:
            raise ConfigurationError(f"sasl.jaas.config: an extension is wrong: {error}") from None


def _finish_kerberos(values: Mapping[str, Any]) -> None:
    """Check where tickets come from: a keytab with the name of its principal, or a ticket cache."""
    if values["sasl_kerberos_keytab"] is None:
        return
    if values["sasl_kerberos_ticket_cache"] is not None:
        raise ConfigurationError(
            "sasl_kerberos_keytab and sasl_kerberos_ticket_cache are both given: both give tickets"
        )
    if values["sasl_kerberos_principal"] is None:
        raise ConfigurationError(
            "sasl_kerberos_keytab needs sasl_kerberos_principal: a keytab may have keys of several"
        )


def _finish_tokens(values: dict[str, Any]) -> None:
    """Check the source of tokens: a provider of the program, or the settings of an end point."""
    url = values["sasl_oauthbearer_token_endpoint_url"]
    if values["sasl_oauth_token_provider"] is not None:
        if url is not None:
            raise ConfigurationError(
                "sasl_oauth_token_provider and sasl_oauthbearer_token_endpoint_url are both given: both give tokens"
            )
        return
    if url is None:
        raise ConfigurationError(
            "sasl_mechanism OAUTHBEARER needs sasl_oauth_token_provider or sasl_oauthbearer_token_endpoint_url"
        )
    grant = _grant(values, url)
    if grant != "file":  # that is no value of the setting: a copy of the settings could not be made
        values["sasl_oauthbearer_grant_type"] = grant
    _one_of(values, "sasl_oauthbearer_assertion_private_key_file", "sasl_oauthbearer_assertion_private_key_pem")
    if grant == "file":
        return
    asserts = values["sasl_oauthbearer_assertion_file"] or values["sasl_oauthbearer_assertion_claim_iss"]
    if grant == "jwt-bearer" or asserts:
        if not any(
            values[f"sasl_oauthbearer_assertion_{part}"] for part in ("file", "private_key_file", "private_key_pem")
        ):
            raise ConfigurationError(
                "an assertion needs sasl_oauthbearer_assertion_file or sasl_oauthbearer_assertion_private_key_file"
            )
        return
    for name in ("client_id", "client_secret"):
        setting = f"sasl_oauthbearer_client_credentials_{name}"
        if values[setting] is None:
            raise ConfigurationError(f"sasl_oauthbearer_token_endpoint_url needs {setting}")


def _grant(values: Mapping[str, Any], url: str) -> str:
    retriever = values["sasl_oauthbearer_jwt_retriever_class"]
    named = _RETRIEVERS[retriever] if retriever is not None else None
    grant: str | None = values["sasl_oauthbearer_grant_type"]
    if named is not None and grant not in (None, named):
        raise ConfigurationError(
            "sasl_oauthbearer_grant_type and sasl_oauthbearer_jwt_retriever_class contradict each other"
        )
    is_file = urlsplit(url).scheme == "file"
    grant = grant or named or ("file" if is_file else "client_credentials")
    if (grant == "file") != is_file:
        raise ConfigurationError(f"sasl_oauthbearer_token_endpoint_url does not fit: the way to get tokens is {grant}")
    return grant
