"""Attacks on logins and rights: each is refused clearly, and costs other clients nothing. docs/security.md lists them.

Attacks with tokens are in ``test_broker_tokens``, those on the keys of tokens in ``test_token_keys``.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import statistics
import time
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyconsumer import KafkaProducer
from pyconsumer.acls import AclBinding, AclOperation, ResourceType
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.api_versions import ApiVersionsRequest
from pyconsumer.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pyconsumer.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pyconsumer.settings.jaas import parse_jaas, quoted
from tests.support.apache_kafka import ApacheKafka
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.java import properties, tools
from tests.support.process import wait_until
from tests.support.raw_client import RawClient

GOOD = b"\0alice\0alice-secret"
#: How many logins an attack has. ``tox -e long`` has 10,000.
MANY = int(os.environ.get("PYCONSUMER_ATTACKS", "200"))
#: A name in its composed form. The other form has the same letters, and is another user.
NAME = unicodedata.normalize("NFC", "Jörg")


@pytest.fixture(scope="module")
def secured(certificates: Certificates) -> Iterator[EmbeddedCluster]:
    """A cluster in which failed logins are answered at once, with few logins at a time."""
    with EmbeddedCluster(
        data_dir=":memory:",
        listeners=("SASL_PLAINTEXT", "SASL_SSL"),
        users={"alice": "alice-secret", NAME: "name-secret", 'odd"\n=\\,': "odd-secret"},
        oauth={"unsecured": True, "clock.skew.seconds": 0},
        acls=["alice: CREATE topic *", "alice: READ,WRITE topic a*"],
        ssl_certfile=certificates.server_pem,
        config={"connection.failed.authentication.delay.ms": 0, "pyconsumer.max.pending.logins": 20},
    ) as made:
        yield made


def log_in(client: RawClient, message: bytes, mechanism: str = "PLAIN") -> tuple[int, str]:
    assert client.versions
    assert client.request(SaslHandshakeRequest(mechanism), 1).error_code == 0
    response = client.request(SaslAuthenticateRequest(message))
    return response.error_code, response.error_message or ""


def served(address: str) -> None:
    """Fail unless a client with a good login is served."""
    with RawClient(address, timeout_s=20) as client:
        assert log_in(client, GOOD)[0] == 0
        assert client.request(MetadataRequest([])).brokers


def token(user: str, seconds: float) -> str:
    now_s = time.time()
    parts = ({"alg": "none"}, {"sub": user, "iat": now_s - 1, "exp": now_s + seconds})
    return "".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") + "." for part in parts)


def bearer(user: str, seconds: float) -> bytes:
    return f"n,,\x01auth=Bearer {token(user, seconds)}\x01\x01".encode()


def test_a_login_without_a_handshake(cluster: Cluster) -> None:
    with RawClient(cluster.address("SASL_PLAINTEXT"), timeout_s=20) as client:
        assert client.versions
        client.send(SaslAuthenticateRequest(GOOD))
        if cluster.embedded:  # Apache Kafka closes at once
            assert client.receive()[1].error_code == Errors.ILLEGAL_SASL_STATE
            client.send(MetadataRequest([]))
        assert client.closed_by_broker


@pytest.mark.parametrize(
    "message",
    [
        b"\0alice\0alice-secret\0",
        b"\0alice\0\0alice-secret",
        b"\0alice\0x\0alice\0alice-secret",
        b"\0al\xffice\0alice-secret",
        b"\0" + b"a" * 500_000 + b"\0alice-secret",
    ],
    ids=["NUL behind", "NUL before", "two logins", "not UTF-8", "500 kB"],
)
def test_odd_messages_of_plain(cluster: Cluster, message: bytes) -> None:
    with RawClient(cluster.address("SASL_PLAINTEXT"), timeout_s=20) as client:
        code, text = log_in(client, message)
        assert (code, len(text) < 200) == (Errors.SASL_AUTHENTICATION_FAILED, True)
        assert client.closed_by_broker


def test_a_name_of_1_mb_is_not_read(cluster: Cluster) -> None:
    with RawClient(cluster.address("SASL_PLAINTEXT"), timeout_s=20) as client:
        assert client.versions
        assert client.request(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
        client.send_bytes((1 << 20).to_bytes(4, "big"))
        assert client.closed_by_broker


def test_a_login_byte_by_byte_holds_up_nobody(secured: EmbeddedCluster) -> None:
    with RawClient(secured.bootstrap_servers, timeout_s=20) as slow:
        assert slow.versions
        assert slow.request(SaslHandshakeRequest("PLAIN"), 0).error_code == 0
        frame = len(GOOD).to_bytes(4, "big") + GOOD
        for number in range(len(frame)):
            slow.send_bytes(frame[number : number + 1])
            if number % 8 == 0:
                served(secured.bootstrap_servers)
        assert slow.receive_frame() == b""
        assert slow.request(MetadataRequest([])).brokers


def test_another_unicode_form_is_another_user(secured: EmbeddedCluster) -> None:
    other = unicodedata.normalize("NFD", NAME)
    found = []
    for name in (NAME, other):
        with RawClient(secured.bootstrap_servers, timeout_s=20) as client:
            found.append(log_in(client, f"\0{name}\0name-secret".encode())[0])
    assert found == [0, Errors.SASL_AUTHENTICATION_FAILED]


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_half_open_connections_keep_nobody_out(
    secured: EmbeddedCluster, certificates: Certificates, listener: str
) -> None:
    host, _, port = secured.address(listener).rpartition(":")
    opened = [socket.create_connection((host, int(port)), 20) for _ in range(60)]
    try:
        for each in opened[:30]:
            each.sendall(b"\x16\x03\x01\x02\x00" if listener == "SASL_SSL" else b"\0\0")  # the beginning of a frame
        served(secured.bootstrap_servers)
    finally:
        for each in opened:
            each.close()


class TlsClients:
    """Makes connections to a listener with TLS."""

    def __init__(self, address: str, certificates: Certificates) -> None:
        self._address = address
        self._trusting = ssl.create_default_context(cafile=str(certificates.ca_pem))

    def connect(self, timeout_s: float = 20) -> socket.socket:
        host, _, port = self._address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout_s)

    def client(self, timeout_s: float = 20) -> RawClient:
        return RawClient(self._address, timeout_s=timeout_s, tls=self._trusting)

    def is_served(self) -> bool:
        """Return whether a new client is served."""
        try:
            with self.client(timeout_s=2) as client:
                return bool(client.request(MetadataRequest([])).brokers)
        except OSError:
            return False

    def half_open(self, count: int, stack: ExitStack) -> list[socket.socket]:
        """Return connections without TLS. Every other one has begun the handshake."""
        made = [stack.enter_context(self.connect()) for _ in range(count)]
        for each in made[::2]:
            each.sendall(b"\x16\x03\x01\x02\x00")
        return made


def test_half_open_tls_up_to_the_most_connections(certificates: Certificates) -> None:
    most = 20
    with (
        EmbeddedCluster(
            data_dir=":memory:",
            listeners=("SSL",),
            ssl_certfile=certificates.server_pem,
            config={"max.connections": most, "pyconsumer.login.timeout.ms": 5000},
        ) as cluster,
        ExitStack() as stack,
    ):
        clients = TlsClients(cluster.address("SSL"), certificates)
        present = stack.enter_context(clients.client())
        assert present.request(MetadataRequest([])).brokers
        half_open = clients.half_open(most - 1, stack)
        assert present.request(MetadataRequest([])).brokers  # it has accepted all of them
        used_s = _used_s(cluster)
        for _ in range(200):
            with clients.connect() as refused:
                assert refused.recv(1) == b""  # without any work of TLS
        assert _used_s(cluster) - used_s < 200 * 0.002
        assert present.request(MetadataRequest([])).brokers
        half_open[0].close()
        half_open[1].close()
        wait_until(clients.is_served, 4, "a place that was given back", 0.02)
        assert half_open[2].recv(1) == b""  # its time for a login is over
        wait_until(clients.is_served, 20, "a place whose time was over")
        assert present.request(MetadataRequest([])).brokers


@pytest.mark.kafka
@pytest.mark.slow
def test_half_open_tls_up_to_the_most_connections_of_apache_kafka(certificates: Certificates) -> None:
    """They count there as well. Kafka accepts no more connections meanwhile, and bounds no time of a login."""
    config = {"max.connections": 20, "connections.max.idle.ms": 6000}
    with ApacheKafka(config=config, certificates=certificates) as kafka, ExitStack() as stack:
        clients = TlsClients(kafka.address("SSL"), certificates)
        present = stack.enter_context(clients.client())
        assert present.request(MetadataRequest([])).brokers
        half_open = clients.half_open(20, stack)
        began = time.monotonic()
        assert not clients.is_served()
        waiting = stack.enter_context(clients.connect(0.5))
        with pytest.raises(TimeoutError):
            waiting.recv(1)  # ours closes it at once
        assert present.request(MetadataRequest([])).brokers
        with RawClient(kafka.bootstrap_servers, timeout_s=20) as client:  # the listener of the brokers has no bound
            assert client.request(MetadataRequest([])).brokers
        assert not clients.is_served()
        assert time.monotonic() - began < 6, "too slow for this test: they were idle for too long"
        for each in half_open[:8]:
            each.close()
        wait_until(clients.is_served, 4, "a place that was given back", 0.02)
        assert half_open[8].recv(1) == b""  # it was idle
        assert present.request(MetadataRequest([])).brokers


def _used_s(cluster: EmbeddedCluster) -> float:
    """Return the processor time of the broker's process."""
    fields = Path(f"/proc/{cluster.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def test_many_logins_by_scram_that_are_left_in_the_middle(secured: EmbeddedCluster) -> None:
    for number in range(MANY):
        with RawClient(secured.bootstrap_servers, timeout_s=20) as client:
            client.send(ApiVersionsRequest(), 0)
            client.send(SaslHandshakeRequest("SCRAM-SHA-512"), 1)
            client.send(SaslAuthenticateRequest(b"n,,n=alice,r=nonce%d" % number), 1)
            if number % 50 == 0:
                client.receive()
                client.receive()
                assert client.receive()[1].auth_bytes.startswith(b"r=nonce%d" % number)
    served(secured.bootstrap_servers)


@pytest.mark.parametrize("change", ["nonce", "binding", "proof"])
def test_a_changed_message_of_scram(secured: EmbeddedCluster, change: str) -> None:
    with RawClient(secured.bootstrap_servers, timeout_s=20) as client:
        assert client.versions
        assert client.request(SaslHandshakeRequest("SCRAM-SHA-256"), 1).error_code == 0
        first = client.request(SaslAuthenticateRequest(b"n,,n=alice,r=abc"))
        nonce = first.auth_bytes.split(b",")[0]
        nonce += b"x" if change == "nonce" else b""
        binding = b"c=" + (b"eSws" if change == "binding" else b"biws")
        proof = base64.b64encode(bytes(32))
        answer = client.request(SaslAuthenticateRequest(binding + b"," + nonce + b",p=" + proof))
        assert answer.error_code == Errors.SASL_AUTHENTICATION_FAILED
        assert client.closed_by_broker


def test_wrong_logins_are_logged_once_and_others_are_served(secured: EmbeddedCluster) -> None:
    before, began = secured.log().count("has failed"), time.monotonic()
    for number in range(MANY // 2):
        with RawClient(secured.bootstrap_servers, timeout_s=20) as client:
            name = b"alice" if number % 2 else b"nobody"
            assert log_in(client, b"\0" + name + b"\0wrong") == (
                Errors.SASL_AUTHENTICATION_FAILED,
                "Authentication failed: Invalid username or password",
            )
        if number % 25 == 0:
            served(secured.bootstrap_servers)
    minutes = int(time.monotonic() - began) // 60
    count = secured.log().count("has failed")
    assert count - before <= 2 + minutes
    assert count > 0
    served(secured.bootstrap_servers)


@pytest.mark.skipif(MANY < 2000, reason="times need many logins: tox -e long")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_user_takes_as_long_as_a_wrong_password(secured: EmbeddedCluster, mechanism: str) -> None:
    ratios = []
    for _ in range(3):  # other work on the machine disturbs one of them at most
        times: dict[str, list[float]] = {"alice": [], "nobody": []}
        for number in range(1000):
            for name in sorted(times, reverse=number % 2 == 1):
                times[name].append(_time_of_refusal(secured, mechanism, name))
        known, unknown = map(statistics.median, times.values())
        print(f"{mechanism}: medians of {known * 1e3:.3f} and {unknown * 1e3:.3f} ms")
        ratios.append(unknown / known)
    assert abs(statistics.median(ratios) - 1) < 0.05


def _time_of_refusal(cluster: EmbeddedCluster, mechanism: str, name: str) -> float:
    """Return how long a login with a wrong password takes, in seconds."""
    with RawClient(cluster.bootstrap_servers, timeout_s=20) as client:
        assert client.versions
        assert client.request(SaslHandshakeRequest(mechanism), 1).error_code == 0
        message = f"\0{name}\0wrong" if mechanism == "PLAIN" else f"n,,n={name},r=abc"
        began = time.perf_counter()
        response = client.request(SaslAuthenticateRequest(message.encode()))
        if mechanism != "PLAIN":
            nonce = response.auth_bytes.split(b",")[0]
            final = b"c=biws," + nonce + b",p=" + base64.b64encode(bytes(64))
            response = client.request(SaslAuthenticateRequest(final))
        taken = time.perf_counter() - began
        assert response.error_code == Errors.SASL_AUTHENTICATION_FAILED
        return taken


def test_another_user_or_mechanism_at_reauthentication(secured: EmbeddedCluster) -> None:
    for mechanism, message in (("OAUTHBEARER", bearer(NAME, 60)), ("PLAIN", GOOD)):
        with RawClient(secured.bootstrap_servers, timeout_s=20) as client:
            assert log_in(client, bearer("alice", 60), "OAUTHBEARER")[0] == 0
            assert log_in(client, message, mechanism)[0] == Errors.SASL_AUTHENTICATION_FAILED
            assert client.closed_by_broker


def test_a_token_that_ends_during_a_long_fetch(secured: EmbeddedCluster) -> None:
    """The request was admitted, so it is answered. The next one ends the connection."""
    with RawClient(secured.bootstrap_servers, timeout_s=20) as client:
        assert log_in(client, GOOD)[0] == 0
        client.request(CreateTopicsRequest([CreatableTopic("a-long", 1, 1)], 10_000))
    with RawClient(secured.bootstrap_servers, timeout_s=20) as client:
        assert log_in(client, bearer("alice", 0.6), "OAUTHBEARER")[0] == 0
        part = FetchPartition(partition=0, partition_max_bytes=1000)
        fetch = FetchRequest(max_wait_ms=900, min_bytes=1, topics=[FetchTopic("a-long", partitions=[part])])
        assert client.request(fetch, 12).responses[0].partitions[0].error_code == 0
        client.send(MetadataRequest([]))
        assert client.closed_by_broker


def test_tokens_that_end_during_a_transaction(secured: EmbeddedCluster) -> None:
    """The client logs in again before each end, and the transaction continues."""
    secured.set_acls("alice: CREATE,READ,WRITE topic a*", "alice: CREATE topic *", "alice: WRITE transactional_id t")
    given: list[float] = []

    def short() -> str:
        given.append(time.monotonic())
        return token("alice", 1.5)

    login = {"bootstrap_servers": secured.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT"}
    with KafkaProducer(
        **login, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=short, transactional_id="t"
    ) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("a-transaction", b"1").result(20)
            time.sleep(2)
            producer.send("a-transaction", b"2").result(20)
    assert len(given) > 1


@pytest.mark.kafka
def test_a_login_of_java_cannot_be_injected(secured: EmbeddedCluster, tmp_path: Path) -> None:
    """A quote, a newline or a backslash in a name or a password stays a part of it, for Java's client and for ours."""
    name = 'odd"\n=\\,'
    login = secured.login(name, mechanism="PLAIN", style="java")
    found = parse_jaas(login["sasl.jaas.config"])
    assert (found.options["username"], found.options["password"]) == (name, "odd-secret")
    evil = 'x" ;\norg.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="y'
    module = login["sasl.jaas.config"].split()[0]
    found = parse_jaas(f'{module} required username={quoted(evil)} password="p";')
    assert (found.options["username"], found.options["password"]) == (evil, "p")
    secured.create_topic("a-of-java")
    secured.set_acls(AclBinding(ResourceType.TOPIC, "a-of-java", f"User:{name}", AclOperation.DESCRIBE))
    file = tmp_path / "java.properties"
    file.write_text(properties({key: value.replace("\\", "\\\\") for key, value in login.items()}))
    address = login["bootstrap.servers"]
    shown = tools().run("TopicCommand", "--bootstrap-server", address, "--command-config", str(file), "--list").stdout
    assert shown.split() == ["a-of-java"]


def test_look_alikes_and_stars_inside_of_names(secured: EmbeddedCluster) -> None:
    cyrillic = "\N{CYRILLIC SMALL LETTER A}lice"
    secured.set_acls(
        AclBinding(ResourceType.TOPIC, "b*c", "User:alice", AclOperation.READ),
        AclBinding(ResourceType.GROUP, "g*h", "User:alice", AclOperation.READ),
        AclBinding(ResourceType.TOPIC, "c", f"User:{cyrillic}", AclOperation.READ),
        AclBinding(ResourceType.TOPIC, "\N{CYRILLIC SMALL LETTER A}", "User:alice", AclOperation.READ),
    )
    with RawClient(secured.bootstrap_servers, timeout_s=20) as client:
        assert log_in(client, GOOD)[0] == 0
        names = ["bxc", "b*c", "c", "a"]
        wanted = [MetadataRequestTopic(name=name) for name in names]
        found = client.request(MetadataRequest(wanted, allow_auto_topic_creation=False), 12)
        denied = {topic.name for topic in found.topics if topic.error_code == Errors.TOPIC_AUTHORIZATION_FAILED}
        assert denied == {"bxc", "c", "a"}
        groups = client.request(FindCoordinatorRequest(coordinator_keys=["gxh", "g*h"]), 4).coordinators
        refused = {one.key for one in groups if one.error_code == Errors.GROUP_AUTHORIZATION_FAILED}
        assert refused == {"gxh"}
