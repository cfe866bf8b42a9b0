"""The settings of every client for type checkers.

Made of the table of settings by ``python -m tests.support.make_typed_settings``: change the table, not this module.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypedDict

from pyconsumer.generic import SaslMechanism, TokenProvider
from pyconsumer.metrics.source import MetricsReporter

__all__ = ["ClientSettings"]


class ClientSettings(TypedDict, total=False):
    """Keyword arguments of every client."""

    bootstrap_servers: str | Sequence[str | tuple[str, int]]
    """Addresses of brokers to contact first: ``host:port``, separated by commas or as a list. The default port is 9092.
    Any one of them is enough to find the whole cluster.
    """

    client_id: str | None
    """Name of this client in the broker's logs and quotas (generated if empty)."""

    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    """``use_all_dns_ips``: try all addresses of a host name in turn. ``resolve_canonical_bootstrap_servers_only``:
    replace each bootstrap host name by the canonical names of its addresses (KIP-235).
    """

    bootstrap_timeout_ms: int | None
    """Raise ``NoBrokersAvailableError`` when no broker has responded for this long since the client began to connect.
    None: do not give up, for a cluster that starts later. Each call then waits until its own timeout, and the log
    repeats from time to time that no broker answers.
    """

    bootstrap_resolve_timeout_ms: int
    """Raise ``BootstrapResolutionError`` when no name in ``bootstrap_servers`` could be looked up for this long since
    the client began to connect. Then you must close the client (KIP-909). 0: keep trying. Names are looked up in the
    background either way.
    """

    request_timeout_ms: int
    """Longest time to wait for a response. After that the request fails and the connection is closed."""

    default_api_timeout_ms: int
    """Longest duration of a blocking call without a ``timeout_ms`` of its own (KIP-266)."""

    retry_backoff_ms: int
    """Pause before the first retry of a failed request. It doubles with each failure, with 20 % jitter (KIP-580)."""

    retry_backoff_max_ms: int
    """Longest pause before a retry of a failed request."""

    reconnect_backoff_ms: int
    """Pause before the first new attempt to connect to a broker. It doubles with each failure, with 20 % jitter."""

    reconnect_backoff_max_ms: int
    """Longest pause before a new attempt to connect."""

    socket_connection_setup_timeout_ms: int
    """Longest time to establish a connection. It doubles with each consecutive failure (KIP-601)."""

    socket_connection_setup_timeout_max_ms: int
    """Upper limit of ``socket_connection_setup_timeout_ms`` as it doubles."""

    connections_max_idle_ms: int
    """Close a connection that has been idle for this time (-1: never)."""

    metadata_max_age_ms: int
    """Refresh topics, partitions and leaders after this time, even if no change is known."""

    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """Action when no known broker can be reached. ``rebootstrap``: start over with ``bootstrap_servers`` (KIP-899).
    ``none``: keep trying the known brokers.
    """

    metadata_recovery_rebootstrap_trigger_ms: int
    """With the strategy ``rebootstrap``: also start over when no metadata has arrived for this time (KIP-1102)."""

    metadata_cluster_check_enable: bool
    """With the strategy ``rebootstrap``: send the expected cluster and node id when connecting, so that a broker of
    Apache Kafka 4.4 or newer can reject a misrouted connection. The client then starts over (KIP-1242).
    """

    send_buffer_bytes: int | None
    """Size of the socket's send buffer (SO_SNDBUF). -1: the system's default."""

    receive_buffer_bytes: int | None
    """Size of the socket's receive buffer (SO_RCVBUF). -1: the system's default, which adapts and is faster."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """Security of connections to brokers: with TLS (``SSL``) or without, with SASL or without."""

    ssl_context: ssl.SSLContext | None
    """An ``ssl.SSLContext`` to use instead of the other ``ssl_`` settings."""

    ssl_check_hostname: bool
    """Check that the broker's certificate is for the host name that the client connects to (KIP-294)."""

    ssl_endpoint_identification_algorithm: Literal["https", "none"] | None
    """Java's form of ``ssl_check_hostname``: ``https``, or empty for False. librdkafka says ``none`` for False."""

    ssl_cafile: str | os.PathLike[str] | None
    """PEM file with the certificate authorities to trust (by default the system's)."""

    ssl_certfile: str | os.PathLike[str] | None
    """PEM file with the client's certificate and its chain, for mTLS. A new connection uses the files that are there
    then. If certificate and key do not match, the earlier ones are used and the log says so once.
    """

    ssl_keyfile: str | os.PathLike[str] | None
    """PEM file with the private key of the client's certificate. By default it is read from ``ssl_certfile``."""

    ssl_password: str | Callable[[], str] | None
    """Password of the private key, or a function that returns it."""

    ssl_key_password: str | Callable[[], str] | None
    """The same as ``ssl_password``."""

    ssl_truststore_certificates: str | None
    """The certificate authorities to trust, as PEM text instead of a file."""

    ssl_ca_pem: str | None
    """The same as ``ssl_truststore_certificates``."""

    ssl_keystore_certificate_chain: str | None
    """The client's certificate and its chain, as PEM text instead of a file."""

    ssl_certificate_pem: str | None
    """The same as ``ssl_keystore_certificate_chain``."""

    ssl_keystore_key: str | None
    """The private key of the client's certificate, as PEM text. It is never written to a disk."""

    ssl_key_pem: str | None
    """The same as ``ssl_keystore_key``."""

    ssl_truststore_location: str | os.PathLike[str] | None
    """Java's form of ``ssl_cafile``: a PEM file, or a PKCS12 store (needs the extra ``crypto``). A JKS store is
    refused, with the command that converts it.
    """

    ssl_truststore_type: Literal["PEM", "PKCS12", "JKS"] | None
    """The format of the trust store. By default the file's first bytes decide."""

    ssl_truststore_password: str | None
    """Password of a PKCS12 trust store."""

    ssl_keystore_location: str | os.PathLike[str] | None
    """The client's certificate and key in one file: PEM, or PKCS12 (needs the extra ``crypto``)."""

    ssl_keystore_type: Literal["PEM", "PKCS12", "JKS"] | None
    """The format of the key store. By default the file's first bytes decide."""

    ssl_keystore_password: str | None
    """Password of a PKCS12 key store."""

    ssl_crlfile: str | os.PathLike[str] | None
    """PEM file with certificate revocation lists. Each authority of the broker's chain must have a list in it."""

    ssl_ciphers: str | None
    """Ciphers in OpenSSL's notation, or Java's names with commas, for TLS 1.2 and older. Those of TLS 1.3 are always
    on.
    """

    ssl_cipher_suites: str | None
    """The same as ``ssl_ciphers``."""

    ssl_enabled_protocols: Iterable[Literal["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]] | None
    """Versions of TLS that may be used (by default 1.2 and 1.3)."""

    ssl_protocol: Literal["TLS", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"] | None
    """The newest version of TLS that may be used. ``TLS`` is the newest that there is."""

    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"] | None
    """SASL mechanism to authenticate with."""

    sasl_mechanisms: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"] | None
    """The same as ``sasl_mechanism``."""

    sasl_mechanism_factory: Callable[[], SaslMechanism] | None
    """A mechanism of your own: a function that returns a ``pyconsumer.logins.SaslMechanism`` for each login. In text it
    is an import path, such as ``my_logins:make``.
    """

    sasl_plain_username: str | None
    """User name for PLAIN and SCRAM. For a delegation token it is the token's id."""

    sasl_username: str | None
    """The same as ``sasl_plain_username``."""

    sasl_plain_password: str | None
    """Password for PLAIN and SCRAM. For a delegation token it is the token's HMAC in Base64."""

    sasl_password: str | None
    """The same as ``sasl_plain_password``."""

    sasl_scram_tokenauth: bool
    """User name and password are those of a delegation token (KIP-48), for SCRAM."""

    sasl_jaas_config: str | None
    """Java's login: PlainLoginModule, ScramLoginModule (with ``tokenauth``), OAuthBearerLoginModule or Krb5LoginModule.
    """

    sasl_oauth_token_provider: Callable[[], str] | TokenProvider | None
    """For OAUTHBEARER: an object with ``token() -> str``, or a function, that returns a valid JWT. In text it is an
    import path, such as ``my_logins:Provider``.
    """

    sasl_kerberos_service_name: str
    """For GSSAPI: the brokers' name in Kerberos, without host and realm. Java's client has no default."""

    sasl_kerberos_domain_name: str | None
    """For GSSAPI: the host in the brokers' name, instead of the host of each broker's address."""

    sasl_kerberos_name: object | None
    """For GSSAPI: the brokers' whole name, such as ``kafka@host`` or ``kafka/host@EXAMPLE.COM``, or a ``gssapi.Name``.
    The two settings above have no effect then.
    """

    sasl_kerberos_principal: str | None
    """For GSSAPI: the client's own name, such as ``alice@EXAMPLE.COM``. By default that of the ticket cache."""

    sasl_kerberos_keytab: str | os.PathLike[str] | None
    """For GSSAPI: file with the client's key. With it the client gets tickets by itself."""

    sasl_kerberos_ticket_cache: str | None
    """For GSSAPI: the ticket cache of ``kinit``, such as ``FILE:/tmp/krb5cc_1000``. By default the one that
    ``KRB5CCNAME`` or krb5.conf names.
    """

    sasl_oauthbearer_token_endpoint_url: str | None
    """For OAUTHBEARER: the address of the provider's token end point (KIP-768). ``file:///...`` names a file with a
    token.
    """

    sasl_oauthbearer_client_credentials_client_id: str | None
    """The client's id at the provider."""

    sasl_oauthbearer_client_id: str | None
    """The same as ``sasl_oauthbearer_client_credentials_client_id``."""

    sasl_oauthbearer_client_credentials_client_secret: str | None
    """The client's secret at the provider."""

    sasl_oauthbearer_client_secret: str | None
    """The same as ``sasl_oauthbearer_client_credentials_client_secret``."""

    sasl_oauthbearer_scope: str | None
    """The scope that the token is asked for."""

    sasl_oauthbearer_extensions: Mapping[str, str]
    """SASL extensions that are sent with a token (KIP-342), such as ``{'logicalCluster': 'lkc-1'}``."""

    sasl_oauthbearer_header_urlencode: bool
    """Encode the client's id and secret as RFC 6749 says before they go into the header (KIP-1025)."""

    sasl_oauthbearer_grant_type: Literal["client_credentials", "jwt-bearer"] | None
    """How the client asks for a token: by its credentials, or by a signed assertion (``jwt-bearer``, KIP-1139)."""

    sasl_oauthbearer_jwt_retriever_class: str | None
    """Java's form of ``sasl_oauthbearer_grant_type``: the name of one of Java's four classes."""

    sasl_oauthbearer_method: Literal["default", "oidc"] | None
    """librdkafka's choice: ``oidc`` needs ``sasl_oauthbearer_token_endpoint_url``."""

    sasl_oauthbearer_cafile: str | os.PathLike[str] | None
    """PEM file with the authorities to trust at the token end point (by default the system's)."""

    https_ca_location: str | os.PathLike[str] | None
    """The same as ``sasl_oauthbearer_cafile``."""

    sasl_oauthbearer_assertion_file: str | os.PathLike[str] | None
    """File with a signed assertion. It is read for each request. With client credentials it stands for the secret
    (KIP-1258).
    """

    sasl_oauthbearer_assertion_private_key_file: str | os.PathLike[str] | None
    """PEM file with the key that signs assertions (needs the extra ``crypto``)."""

    sasl_oauthbearer_assertion_private_key_pem: str | None
    """The key that signs assertions as PEM text."""

    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    """Password of the key that signs assertions."""

    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256"]
    """The algorithm that signs assertions."""

    sasl_oauthbearer_assertion_template_file: str | os.PathLike[str] | None
    """JSON file with the objects ``header`` and ``payload``: more claims for assertions."""

    sasl_oauthbearer_assertion_claim_aud: str | None
    """The audience in assertions."""

    sasl_oauthbearer_assertion_claim_iss: str | None
    """The issuer in assertions. With client credentials it says that an assertion stands for the secret (KIP-1258)."""

    sasl_oauthbearer_assertion_claim_sub: str | None
    """The subject in assertions."""

    sasl_oauthbearer_assertion_claim_exp_seconds: int
    """An assertion expires so many seconds after it was made."""

    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    """An assertion is valid from so many seconds before it was made."""

    sasl_oauthbearer_assertion_claim_jti_include: bool
    """Give each assertion an id of its own (``jti``)."""

    sasl_login_connect_timeout_ms: int | None
    """Longest time to connect to the token end point. Java's default is no limit."""

    sasl_login_read_timeout_ms: int | None
    """Longest time until all of the token end point's answer is there. Java's default is no limit."""

    sasl_login_retry_backoff_ms: int
    """Pause before a failed request for a token is sent again. It doubles with each failure."""

    sasl_login_retry_backoff_max_ms: int
    """Longest pause before such a request."""

    sasl_login_refresh_window_factor: float
    """The part of a token's life after which a new one is fetched."""

    sasl_login_refresh_window_jitter: float
    """The largest random part of a token's life that is added to it."""

    sasl_login_refresh_min_period_seconds: int
    """Shortest time between two tokens. It is ignored if a token's life is shorter than it and the buffer together."""

    sasl_login_refresh_buffer_seconds: int
    """A new token is fetched so many seconds before the old one expires, or earlier."""

    metrics_sample_window_ms: int
    """The time of one window in which rates, averages and maxima of the metrics are computed."""

    metrics_num_samples: int
    """The number of complete windows that count beside the current one."""

    metric_reporters: Iterable[MetricsReporter]
    """Objects with the methods ``configure``, ``init`` and ``close`` of ``pyconsumer.metrics.MetricsReporter``: they
    get the metrics of this client.
    """
