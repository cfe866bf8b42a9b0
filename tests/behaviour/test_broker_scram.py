"""Users of SCRAM: the requests with Kafka's errors on both brokers, Kafka's tool, logins on the embedded one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pyconsumer.admin import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import AuthenticationError, Errors
from pyconsumer.network.sasl import Scram
from pyconsumer.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pyconsumer.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from pyconsumer.protocol.messages.metadata import MetadataRequest
from pyconsumer.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pyconsumer.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pyconsumer.structs import TopicPartition
from tests.behaviour.access_support import by_scram
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.java import tools
from tests.support.process import wait_until
from tests.support.raw_client import RawClient

SALT, SALTED = b"s" * 16, b"p" * 64


def alter(client: RawClient, deletions: list = [], upsertions: list = []) -> dict[str, int]:  # noqa: B006
    response = client.request(
        AlterUserScramCredentialsRequest(
            [ScramCredentialDeletion(*one) for one in deletions],
            [ScramCredentialUpsertion(*one, SALT, SALTED) for one in upsertions],
        )
    )
    return {one.user: one.error_code for one in response.results}


def describe(client: RawClient, *users: str) -> dict[str, object]:
    response = client.request(DescribeUserScramCredentialsRequest([UserName(name) for name in users] or None))
    assert response.error_code == 0
    return {
        one.user: one.error_code or sorted((info.mechanism, info.iterations) for info in one.credential_infos)
        for one in response.results
    }


def expect(client: RawClient, expected: dict[str, object]) -> None:
    """Wait for users' credentials. Apache Kafka's broker reads a change some milliseconds after its controller."""
    wait_until(lambda: describe(client, *expected) == expected, 60, f"{expected}")


def test_users_are_created_changed_and_removed(cluster: Cluster, topic: str) -> None:
    name, other = f"{topic}-a", f"{topic}-b"
    with cluster.raw() as client:
        assert alter(client, [], [(name, 1, 4096), (other, 2, 16384)]) == {name: 0, other: 0}
        assert alter(client, [], [(name, 2, 8192)]) == {name: 0}
        expect(client, {name: [(1, 4096), (2, 8192)], other: [(2, 16384)]})
        assert describe(client).keys() >= {name, other}
        assert alter(client, [(name, 1)]) == {name: 0}
        expect(client, {name: [(2, 8192)]})
        assert alter(client, [(name, 2), (other, 2)]) == {name: 0, other: 0}
        expect(client, {name: Errors.RESOURCE_NOT_FOUND})


def test_a_user_with_an_error_is_left_as_it_was(cluster: Cluster, topic: str) -> None:
    twice, good, gone = f"{topic}-twice", f"{topic}-good", f"{topic}-gone"
    with cluster.raw() as client:
        assert alter(
            client,
            [(gone, 1), ("", 1), (twice, 1)],
            [
                ("u0", 0, 4096),
                ("u3", 3, 4096),
                ("few", 1, 4095),
                ("many", 1, 16385),
                ("most", 1, 2**31 - 1),
                ("negative", 1, -1),
                (good, 1, 4096),
                (twice, 2, 4096),
            ],
        ) == {
            gone: Errors.RESOURCE_NOT_FOUND,
            "": Errors.UNACCEPTABLE_CREDENTIAL,
            twice: Errors.RESOURCE_NOT_FOUND,
            "u0": Errors.UNSUPPORTED_SASL_MECHANISM,
            "u3": Errors.UNSUPPORTED_SASL_MECHANISM,
            "few": Errors.UNACCEPTABLE_CREDENTIAL,
            "many": Errors.UNACCEPTABLE_CREDENTIAL,
            "most": Errors.UNACCEPTABLE_CREDENTIAL,
            "negative": Errors.UNACCEPTABLE_CREDENTIAL,
            good: 0,
        }
        assert alter(client, [], [(twice, 1, 4096), (twice, 2, 4096)]) == {twice: Errors.DUPLICATE_RESOURCE}
        assert alter(client, [(good, 1)], [(good, 2, 4096)]) == {good: Errors.DUPLICATE_RESOURCE}
        expect(client, {good: [(1, 4096)], twice: Errors.RESOURCE_NOT_FOUND})
        assert describe(client, good, good) == {good: Errors.DUPLICATE_RESOURCE}
        assert alter(client, [(good, 1)]) == {good: 0}


def login(address: str, mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


@pytest.fixture(scope="module")
def secured() -> EmbeddedCluster:
    with EmbeddedCluster(
        data_dir=":memory:",
        users={"alice": "alice-secret"},
        listeners=("SASL_PLAINTEXT", "PLAINTEXT"),
        config={"connections.max.reauth.ms": 600_000},
    ) as made:
        yield made


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_from_the_start_logs_in_by_each_mechanism(secured: EmbeddedCluster, mechanism: str) -> None:
    with KafkaAdminClient(login(secured.bootstrap_servers, mechanism, "alice", "alice-secret")) as admin:
        assert admin.list_topics() == []
    for user, password in (("alice", "wrong"), ("eve", "alice-secret")):
        with (
            KafkaAdminClient(login(secured.bootstrap_servers, mechanism, user, password)) as admin,
            pytest.raises(AuthenticationError),
        ):
            admin.list_topics()


@pytest.fixture(scope="module", params=["SASL_PLAINTEXT", "SASL_SSL"])
def with_rules(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(
        data_dir=":memory:",
        users={"alice": "alice-secret"},
        acls=["alice: ALL topic *", "alice: READ group *"],
        listeners=(request.param,),
        ssl_certfile=certificates.server_pem,
        config={"group.initial.rebalance.delay.ms": 0},
    ) as made:
        yield made


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_librdkafka_and_our_clients_log_in_by_librdkafkas_settings(
    with_rules: EmbeddedCluster, certificates: Certificates, mechanism: str
) -> None:
    library, topic = pytest.importorskip("confluent_kafka"), mechanism.lower()
    login = with_rules.login("alice", mechanism=mechanism, style="librdkafka")
    if login["security.protocol"] == "SASL_SSL":
        login["ssl.ca.location"] = str(certificates.ca_pem)
    reading = login | {"group.id": topic, "auto.offset.reset": "earliest"}
    with KafkaProducer(login | {"sasl.mechanisms": login["sasl.mechanism"]}) as ours:  # its other name of it
        ours.send(topic, b"ours").result(60)
    failures = []
    theirs = library.Producer(login)
    theirs.produce(topic, b"theirs", on_delivery=lambda error, _: failures.append(error))
    assert theirs.flush(60) == 0
    assert failures == [None]
    consumer = library.Consumer(reading)
    consumer.subscribe([topic])
    found: set[bytes] = set()
    while len(found) < 2:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None, message.error()
        found.add(message.value())
    consumer.close()
    with KafkaConsumer(topic, reading | {"group.id": f"{topic}-ours"}) as ours_too:
        read = {record.value for record in islice(ours_too, 2)}
    assert read == found == {b"ours", b"theirs"}
    errors: list[object] = []
    wrong = library.Producer(login | {"sasl.password": "wrong", "error_cb": errors.append})
    wait_until(lambda: wrong.poll(0.1) == 0 and any(error.code() == -169 for error in errors), 60, "its refusal")


def test_messages_without_headers_after_version_0_of_the_handshake(secured: EmbeddedCluster) -> None:
    scram = Scram("SCRAM-SHA-256", "alice", "alice-secret")
    with RawClient(secured.bootstrap_servers) as client:
        assert client.versions
        assert client.request(SaslHandshakeRequest(scram.name), 0).error_code == 0
        message: bytes | None = scram.first()
        while message is not None:
            client.send_bytes(len(message).to_bytes(4, "big") + message)
            message = scram.respond(client.receive_frame())
        assert client.request(MetadataRequest([])).brokers


def test_a_request_in_the_middle_of_a_login_and_another_mechanism_later(secured: EmbeddedCluster) -> None:
    scram = Scram("SCRAM-SHA-256", "alice", "alice-secret")
    with RawClient(secured.bootstrap_servers) as client:
        assert client.versions
        client.request(SaslHandshakeRequest(scram.name), 1)
        assert client.request(SaslAuthenticateRequest(scram.first())).error_code == 0
        assert client.request(SaslHandshakeRequest("PLAIN"), 1).error_code == Errors.ILLEGAL_SASL_STATE
        client.send(MetadataRequest([]), 5)
        assert client.closed_by_broker


def test_a_deleted_user_is_served_until_the_next_login(secured: EmbeddedCluster) -> None:
    """As in Kafka: the rights of a connection are those of its principal. See test_logins.py for Apache Kafka."""
    sha_256 = ScramMechanism.SCRAM_SHA_256
    with (
        KafkaAdminClient(bootstrap_servers=secured.address("PLAINTEXT")) as admin,
        RawClient(secured.bootstrap_servers, timeout_s=20) as client,
    ):
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion("gone", sha_256, "gone-secret")])
        assert client.versions
        response = by_scram(client, "gone", "gone-secret")
        assert response.error_code == 0
        assert 590_000 < response.session_lifetime_ms <= 600_000  # connections.max.reauth.ms, also by SCRAM
        admin.alter_user_scram_credentials([UserScramCredentialDeletion("gone", sha_256)])
        assert client.request(MetadataRequest([])).brokers
        assert by_scram(client, "gone", "gone-secret").error_code == Errors.SASL_AUTHENTICATION_FAILED
        assert client.closed_by_broker


def salt_of(cluster: EmbeddedCluster, name: str) -> bytes:
    with RawClient(cluster.bootstrap_servers, timeout_s=20) as client:
        assert client.versions
        assert client.request(SaslHandshakeRequest("SCRAM-SHA-256"), 1).error_code == 0
        response = client.request(SaslAuthenticateRequest(f"n,,n={name},r=abc".encode()))
        assert response.error_code == 0
        return bytes(response.auth_bytes.split(b",")[1])


def refusal_of(cluster: EmbeddedCluster, name: str) -> tuple[int, str]:
    with RawClient(cluster.bootstrap_servers, timeout_s=20) as client:
        assert client.versions
        response = by_scram(client, name, "wrong-secret")
        return response.error_code, response.error_message


def test_an_unknown_user_is_as_a_known_one_and_no_password_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The salt of a name stays after a kill, and is another one elsewhere. The log has each line."""
    monkeypatch.setenv("PYCONSUMER_BROKER_LOG", "DEBUG")
    users, names = {"alice": "alice-secret"}, ("nobody", "eve", "alice")
    with EmbeddedCluster(data_dir=tmp_path / "data", users=users) as cluster:
        salts = [salt_of(cluster, name) for name in names]
        assert len(set(salts)) == 3
        assert refusal_of(cluster, "nobody") == refusal_of(cluster, "alice")
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            for password, expected in (
                ("alice-secret", nullcontext()),
                ("wrong-secret", pytest.raises(AuthenticationError)),
            ):
                settings = login(cluster.bootstrap_servers, mechanism, "alice", password)
                with KafkaAdminClient(settings) as admin, expected:
                    admin.list_topics()
        log = cluster.log()
        assert "has failed" in log
        cluster.kill()
        cluster.restart()
        assert [salt_of(cluster, name) for name in names] == salts
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert {"cluster.json", "cluster.journal"} <= {path.name for path in files}
    for secret in ("alice-secret", "wrong-secret"):
        assert secret not in log
        assert not [path for path in files if secret.encode() in path.read_bytes()]
    with EmbeddedCluster(data_dir=":memory:", users=users) as other:
        assert not {salt_of(other, name) for name in names} & set(salts)


def test_kafkas_tool_manages_users(secured: EmbeddedCluster) -> None:
    address = secured.address("PLAINTEXT")
    command = ("ConfigCommand", "--bootstrap-server", address, "--entity-type", "users", "--entity-name", "bob")
    tools().run(*command, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=bob-secret]")
    with KafkaAdminClient(login(secured.bootstrap_servers, "SCRAM-SHA-256", "bob", "bob-secret")) as admin:
        admin.create_topics(["made-by-bob"])
        assert admin.list_offsets({TopicPartition("made-by-bob", 0): -1})
    assert "SCRAM-SHA-256=iterations=8192" in tools().run(*command, "--describe").stdout
    tools().run(*command, "--alter", "--delete-config", "SCRAM-SHA-256")
    with (
        KafkaAdminClient(login(secured.bootstrap_servers, "SCRAM-SHA-256", "bob", "bob-secret")) as admin,
        pytest.raises(AuthenticationError),
    ):
        admin.list_topics()


def test_a_deleted_or_changed_user_has_no_old_login_by_any_mechanism() -> None:
    users = {"alice": "alice-secret", "bob": "bob-secret"}
    with EmbeddedCluster(
        data_dir=":memory:",
        users=users,
        sasl_users={"carol": "carol-secret"},
        listeners=("SASL_PLAINTEXT", "PLAINTEXT"),
    ) as cluster:
        sha_256, sha_512 = ScramMechanism

        def may(user: str, password: str, mechanism: str) -> bool:
            with KafkaAdminClient(login(cluster.bootstrap_servers, mechanism, user, password)) as client:
                try:
                    client.list_topics()
                except AuthenticationError:
                    return False
            return True

        with KafkaAdminClient(bootstrap_servers=cluster.address("PLAINTEXT")) as admin:
            admin.alter_user_scram_credentials([UserScramCredentialDeletion("alice", sha_256)])
            assert may("alice", "alice-secret", "PLAIN")  # the other credential is still hers
            admin.alter_user_scram_credentials([UserScramCredentialDeletion("alice", sha_512)])
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion("bob", one, "new") for one in [sha_256]])
            admin.alter_user_scram_credentials([UserScramCredentialDeletion("bob", sha_512)])
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            assert not may("alice", "alice-secret", mechanism)
            assert not may("bob", "bob-secret", mechanism)
        assert may("bob", "new", "PLAIN")
        assert may("bob", "new", "SCRAM-SHA-256")
        assert may("carol", "carol-secret", "PLAIN")
