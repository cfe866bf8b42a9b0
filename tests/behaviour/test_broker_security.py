"""TLS and SASL PLAIN on the embedded broker's listeners, and clients of the wrong one."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from pyconsumer import KafkaAdminClient
from pyconsumer.admin import NewTopic
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import ConfigurationError, TopicAuthorizationFailedError
from pyconsumer.protocol.messages.api_versions import ApiVersionsRequest
from pyconsumer.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pyconsumer.protocol.messages.metadata import MetadataRequest
from pyconsumer.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pyconsumer.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.raw_client import RawClient

GOOD = b"\0alice\0alice-secret"


def trusting(certificates: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificates.ca_pem))


def receive_all(client: RawClient) -> None:
    """Read until the broker closes."""
    while True:
        client.receive_frame()


def ask_for_ever(client: RawClient) -> None:
    """Send requests until the broker closes."""
    while True:
        client.request(MetadataRequest([]))


def ask_without_certificate(address: str, certificates: Certificates) -> None:
    """One request over TLS."""
    with RawClient(address, tls=trusting(certificates)) as client:
        client.request(MetadataRequest([]))


def log_in(client: RawClient, token: bytes = GOOD, handshake_version: int = 1):
    assert client.versions  # asked for before the exchange begins, not in it
    chosen = client.request(SaslHandshakeRequest("PLAIN"), handshake_version)
    assert (chosen.error_code, chosen.mechanisms) == (0, ["PLAIN"])
    return client.request(SaslAuthenticateRequest(token))


class TestTls:
    def test_requests_are_answered(self, cluster: Cluster) -> None:
        with RawClient(cluster.address("SSL"), tls=trusting(cluster.certificates)) as client:
            assert client.request(MetadataRequest([])).brokers

    def test_clients_of_a_listener_get_its_port(self, cluster: Cluster) -> None:
        with RawClient(cluster.address("SSL"), tls=trusting(cluster.certificates)) as client:
            port = int(cluster.address("SSL").rsplit(":", 1)[1])
            assert [broker.port for broker in client.request(MetadataRequest([])).brokers] == [port]

    def test_large_answers_and_many_requests(self, embedded: Cluster) -> None:
        with RawClient(embedded.address("SSL"), tls=trusting(embedded.certificates)) as client:
            ids = [client.send(MetadataRequest(None)) for _ in range(100)]
            assert [client.receive()[0] for _ in ids] == ids

    def test_plain_bytes_on_a_tls_port_end_the_connection(self, cluster: Cluster) -> None:
        with RawClient(cluster.address("SSL"), timeout_s=10) as client:
            client.send(ApiVersionsRequest("a", "1"), 0)
            with pytest.raises(ConnectionError):
                receive_all(client)

    def test_tls_on_a_plain_port_ends_the_connection(self, cluster: Cluster) -> None:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            RawClient(cluster.bootstrap_servers, tls=trusting(cluster.certificates), timeout_s=10)

    def test_a_client_certificate_may_be_asked_for(self, certificates: Certificates) -> None:
        options = {"ssl_certfile": certificates.server_pem, "ssl_client_cafile": certificates.ca_pem}
        with EmbeddedCluster(data_dir=":memory:", listeners=("SSL",), **options) as cluster:  # type: ignore[arg-type]
            shown = trusting(certificates)
            shown.load_cert_chain(certificates.client_pem)
            with RawClient(cluster.bootstrap_servers, tls=shown) as client:
                assert client.request(MetadataRequest([])).brokers
            with pytest.raises((ssl.SSLError, ConnectionError)):  # TLS 1.3 says so at the first read
                ask_without_certificate(cluster.bootstrap_servers, certificates)

    def test_a_client_shows_a_replaced_certificate_on_new_connections(
        self, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        authority, chain, key = trustme.CA(), tmp_path / "client.crt", tmp_path / "client.key"
        authority.cert_pem.write_to_path(str(tmp_path / "clients.pem"))
        first, second = (authority.issue_cert(f"{name}@example.org", common_name=name) for name in ("first", "second"))

        def replace(path: Path, text: bytes) -> None:
            path.with_suffix(".new").write_bytes(text)
            path.with_suffix(".new").replace(path)

        replace(chain, first.cert_chain_pems[0].bytes())
        replace(key, first.private_key_pem.bytes())
        with (
            EmbeddedCluster(
                data_dir=tmp_path / "data",
                listeners=("SSL",),
                ssl_certfile=certificates.server_pem,
                ssl_client_cafile=tmp_path / "clients.pem",
                acls=["first: DESCRIBE topic *", "second: CREATE topic *"],
                config={"ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/"},
            ) as cluster,
            KafkaAdminClient(
                bootstrap_servers=cluster.bootstrap_servers,
                security_protocol="SSL",
                ssl_cafile=certificates.ca_pem,
                ssl_certfile=chain,
                ssl_keyfile=key,
            ) as admin,
        ):

            def is_first(*, reconnects: bool = True) -> bool:
                if reconnects:
                    cluster.kill()
                    cluster.restart()
                try:
                    admin.create_topics([NewTopic("t", 1)], validate_only=True)
                except TopicAuthorizationFailedError:
                    return True
                return False

            assert is_first(reconnects=False)
            replace(chain, second.cert_chain_pems[0].bytes())
            assert is_first()  # the key is that of the other certificate
            assert is_first()
            assert caplog.text.count("the earlier ones stay in use") == 1
            replace(key, second.private_key_pem.bytes())
            assert is_first(reconnects=False)
            assert not is_first()

    @pytest.mark.parametrize("auth", ["none", "requested", "required"])
    def test_each_listener_has_its_own_rules(self, certificates: Certificates, auth: str) -> None:
        config = {
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SSL,USERS:SASL_SSL",
            "listener.name.outside.ssl.client.auth": auth,
            "listener.name.outside.ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1-by-rule/U,DEFAULT",
            "listener.name.users.ssl.client.auth": "none",
            "listener.name.users.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "super.users": "User:CLIENT-BY-RULE;User:alice",
        }
        with EmbeddedCluster(
            data_dir=":memory:",
            listeners=("INSIDE", "OUTSIDE", "USERS"),
            ssl_certfile=certificates.server_pem,
            ssl_client_cafile=certificates.ca_pem,
            users={"alice": "alice-secret"},
            acls=["ANONYMOUS: DESCRIBE cluster kafka-cluster"],
            config=config,
        ) as cluster:
            shown = trusting(certificates)
            shown.load_cert_chain(certificates.client_pem)

            def may_create(address: str, tls: ssl.SSLContext | None) -> bool:
                with RawClient(address, tls=tls, timeout_s=10) as client:
                    (topic,) = client.request(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 10_000, True)).topics
                return topic.error_code == 0

            assert not may_create(cluster.address("INSIDE"), None)
            assert may_create(cluster.address("OUTSIDE"), shown) is (auth != "none")
            if auth == "required":
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    ask_without_certificate(cluster.address("OUTSIDE"), certificates)
            else:
                assert not may_create(cluster.address("OUTSIDE"), trusting(certificates))
            with RawClient(cluster.address("USERS"), tls=trusting(certificates)) as client:
                port = int(cluster.address("USERS").rsplit(":", 1)[1])
                assert client.request(SaslHandshakeRequest("PLAIN")).mechanisms == ["SCRAM-SHA-512"]
            login = cluster.login("alice", mechanism="SCRAM-SHA-512")
            assert (login["security_protocol"], login["bootstrap_servers"]) == ("SASL_SSL", f"127.0.0.1:{port}")
            with KafkaAdminClient(**login, ssl_cafile=str(certificates.ca_pem)) as admin:
                assert admin.describe_cluster().brokers[0].port == port
                assert admin.describe_acls()

    def test_a_subject_that_no_rule_matches_is_refused(self, certificates: Certificates) -> None:
        with EmbeddedCluster(
            data_dir=":memory:",
            listeners=("SSL",),
            ssl_certfile=certificates.server_pem,
            ssl_client_cafile=certificates.ca_pem,
            config={"ssl.principal.mapping.rules": "RULE:^CN=nobody$/x/"},
        ) as cluster:
            shown = trusting(certificates)
            shown.load_cert_chain(certificates.client_pem)
            with (
                RawClient(cluster.bootstrap_servers, tls=shown) as client,
                pytest.raises((ssl.SSLError, ConnectionError)),
            ):
                client.request(MetadataRequest([]))

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"listeners": ("OTHER",)}, "there is no listener 'OTHER'"),
            ({"config": {"listener.security.protocol.map": "A:TLS"}}, "must be pairs such as"),
            ({"config": {"ssl.client.auth": "maybe"}}, "must be one of none"),
            ({"config": {"listener.name.ssl.ssl.client.auth": "maybe"}}, "must be one of none"),
            ({"config": {"listener.name.ssl.speed": "1"}}, "Unknown broker setting"),
            ({"config": {"listener.name.nowhere.ssl.client.auth": "required"}}, "there is no listener of this name"),
            ({"config": {"listener.name.PLAINTEXT.ssl.client.auth": "none"}}, "which stands in lower case"),
            ({"config": {"ssl.principal.mapping.rules": "RULE:"}}, "invalid rule"),
            (
                {"config": {"ssl.client.auth": "required"}, "listeners": ("SSL",), "ssl_certfile": "x"},
                "ssl_client_cafile",
            ),
        ],
    )
    def test_mistakes_in_listeners(self, options: dict[str, object], text: str) -> None:
        with pytest.raises(ConfigurationError, match=text):
            EmbeddedCluster(data_dir=":memory:", **options)  # type: ignore[arg-type]


class TestSasl:
    @pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
    def test_who_knows_the_password_is_served(self, cluster: Cluster, listener: str) -> None:
        tls = trusting(cluster.certificates) if listener == "SASL_SSL" else None
        with RawClient(cluster.address(listener), tls=tls) as client:
            assert log_in(client).error_code == 0
            assert client.request(MetadataRequest([])).brokers

    @pytest.mark.parametrize(
        "token",
        [
            b"\0alice\0wrong",
            b"\0bob\0alice-secret",
            b"\0\0alice-secret",
            b"\0alice\0",
            b"alice",
            b"",
            b"bob\0alice\0alice-secret",
        ],
    )
    def test_a_client_without_a_login_gets_an_error_and_is_disconnected(self, cluster: Cluster, token: bytes) -> None:
        with RawClient(cluster.address("SASL_PLAINTEXT")) as client:
            answer = log_in(client, token)
            assert answer.error_code == 58
            assert answer.error_message
            assert client.closed_by_broker

    def test_an_authorization_id_may_repeat_the_name(self, cluster: Cluster) -> None:
        with RawClient(cluster.address("SASL_PLAINTEXT")) as client:
            assert log_in(client, b"alice\0alice\0alice-secret").error_code == 0

    def test_another_mechanism_is_refused(self, cluster: Cluster) -> None:
        with RawClient(cluster.address("SASL_PLAINTEXT")) as client:
            answer = client.request(SaslHandshakeRequest("SCRAM-SHA-256"))
            assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN"])
            assert client.closed_by_broker

    def test_a_request_before_the_login_ends_the_connection(self, cluster: Cluster) -> None:
        with RawClient(cluster.address("SASL_PLAINTEXT")) as client:
            client.send(MetadataRequest([]), 5)
            assert client.closed_by_broker

    @pytest.mark.parametrize(("token", "served"), [(GOOD, True), (b"\0alice\0wrong", False)])
    def test_tokens_without_a_header_follow_version_0(self, cluster: Cluster, token: bytes, served: bool) -> None:
        with RawClient(cluster.address("SASL_PLAINTEXT")) as client:
            assert client.request(SaslHandshakeRequest("PLAIN"), 0).error_code == 0
            client.send_bytes(len(token).to_bytes(4, "big") + token)
            if served:
                assert client.receive_frame() == b""
                assert client.request(MetadataRequest([])).brokers
            else:
                assert client.closed_by_broker

    def test_on_a_listener_without_sasl_it_is_the_wrong_state(self, cluster: Cluster) -> None:
        with cluster.raw() as client:
            assert client.request(SaslHandshakeRequest("PLAIN")).error_code == 34
            assert client.request(SaslAuthenticateRequest(GOOD)).error_code == 34

    def test_a_large_request_before_the_login_is_not_taken(self, cluster: Cluster) -> None:
        with RawClient(cluster.address("SASL_PLAINTEXT")) as client:
            client.send_bytes((600_000).to_bytes(4, "big"))
            assert client.closed_by_broker

    @pytest.mark.embedded_only("Apache Kafka takes a second login no sooner than a second after the first")
    def test_a_session_ends_unless_the_client_logs_in_again(
        self, cluster_kind: str, new_cluster: Callable[..., Cluster]
    ) -> None:
        cluster = new_cluster(cluster_kind, config={"connections.max.reauth.ms": 2000})
        with (
            RawClient(cluster.address("SASL_PLAINTEXT")) as client,
            RawClient(cluster.address("SASL_PLAINTEXT")) as other,
        ):
            assert 0 < log_in(client).session_lifetime_ms <= 2000
            assert log_in(other).error_code == 0
            for _ in range(3):
                assert client.request(MetadataRequest([])).brokers
                assert log_in(client).error_code == 0
            with pytest.raises(ConnectionError):
                ask_for_ever(other)

    @pytest.mark.embedded_only("it depends on the broker's own settings")
    @pytest.mark.parametrize("raw", [True, False])
    def test_a_session_ends_for_old_clients_too(
        self, cluster_kind: str, new_cluster: Callable[..., Cluster], raw: bool
    ) -> None:
        """Messages without a header, and version 0 of SaslAuthenticate, do not say how long the session lasts."""
        cluster = new_cluster(cluster_kind, config={"connections.max.reauth.ms": 1500})
        with RawClient(cluster.address("SASL_PLAINTEXT")) as client:
            assert client.request(SaslHandshakeRequest("PLAIN"), 0 if raw else 1).error_code == 0
            if raw:
                client.send_bytes(len(GOOD).to_bytes(4, "big") + GOOD)
                assert client.receive_frame() == b""
            else:
                assert client.request(SaslAuthenticateRequest(GOOD), 0).error_code == 0
            assert client.request(MetadataRequest([])).brokers
            time.sleep(1.6)
            client.send(MetadataRequest([]), 5)
            assert client.closed_by_broker


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"listeners": ("SSL",)}, "certificate"),
        ({"listeners": ("SASL_PLAINTEXT",)}, "users"),
        ({"listeners": ("HTTP",)}, "no listener"),
        ({"listeners": ()}, "needs a listener"),
    ],
)
def test_listeners_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        EmbeddedCluster(**options)  # type: ignore[arg-type]


def test_a_certificate_that_is_none(tmp_path) -> None:
    (tmp_path / "bad.pem").write_text("nonsense")
    with pytest.raises(ConfigurationError, match=r"bad\.pem cannot be used"):
        EmbeddedCluster(data_dir=":memory:", listeners=("SSL",), ssl_certfile=tmp_path / "bad.pem").start()


class TestBounds:
    def test_a_failed_login_is_answered_late(self, cluster: Cluster) -> None:
        with RawClient(cluster.address("SASL_PLAINTEXT")) as client:
            assert client.versions
            assert client.request(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
            began = time.monotonic()
            assert client.request(SaslAuthenticateRequest(b"\0alice\0wrong")).error_code == 58
            assert time.monotonic() - began > 0.09  # connection.failed.authentication.delay.ms
            assert client.closed_by_broker

    def test_a_login_has_a_time(self, certificates: Certificates) -> None:
        with EmbeddedCluster(
            data_dir=":memory:",
            listeners=("SSL", "SASL_PLAINTEXT", "PLAINTEXT"),
            ssl_certfile=certificates.server_pem,
            sasl_users={"alice": "alice-secret"},
            config={"pyconsumer.login.timeout.ms": 500},
        ) as cluster:
            half_open = RawClient(cluster.address("SSL"), timeout_s=10)  # it never begins the handshake
            silent = RawClient(cluster.address("SASL_PLAINTEXT"), timeout_s=10)
            begun = RawClient(cluster.address("SASL_PLAINTEXT"), timeout_s=10)
            assert begun.request(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
            plain = RawClient(cluster.address("PLAINTEXT"), timeout_s=10)
            ready = RawClient(cluster.address("SSL"), tls=trusting(certificates), timeout_s=10)
            logged_in = RawClient(cluster.address("SASL_PLAINTEXT"), timeout_s=10)
            assert log_in(logged_in).error_code == 0
            for client in (half_open, silent, begun):
                assert client.closed_by_broker
            for client in (plain, ready, logged_in):
                assert client.request(MetadataRequest([])).brokers
            for client in (half_open, silent, begun, plain, ready, logged_in):
                client.close()

    def test_the_oldest_login_ends_for_a_new_one(self) -> None:
        with EmbeddedCluster(
            data_dir=":memory:",
            listeners=("SASL_PLAINTEXT",),
            sasl_users={"alice": "alice-secret"},
            config={"pyconsumer.max.pending.logins": 2},
        ) as cluster:
            clients = [RawClient(cluster.bootstrap_servers, timeout_s=10) for _ in range(3)]
            assert clients[0].closed_by_broker
            for client in clients[1:]:
                assert log_in(client).error_code == 0
            others = [RawClient(cluster.bootstrap_servers, timeout_s=10) for _ in range(2)]
            for client in clients[1:]:  # those who have logged in stay
                assert client.request(MetadataRequest([])).brokers
            for client in (*clients, *others):
                client.close()

    def test_connections_of_an_address_are_bounded(self) -> None:
        config = {"max.connections.per.ip": 5, "max.connections.per.ip.overrides": "10.0.0.1:1,127.0.0.1:2"}
        with EmbeddedCluster(data_dir=":memory:", config=config) as cluster:
            clients = [RawClient(cluster.bootstrap_servers, timeout_s=10) for _ in range(3)]
            for client in clients[:2]:
                assert client.request(MetadataRequest([])).brokers
            assert clients[2].closed_by_broker
            for client in clients:
                client.close()

    def test_many_new_connections_wait(self) -> None:
        with EmbeddedCluster(data_dir=":memory:", config={"max.connection.creation.rate": 1}) as cluster:
            clients = [RawClient(cluster.bootstrap_servers, timeout_s=10) for _ in range(13)]
            assert clients[0].request(MetadataRequest([])).brokers
            clients[12].send(ApiVersionsRequest("a", "1"), 0)
            assert not clients[12].answered(0.3)
            for client in clients:
                client.close()
