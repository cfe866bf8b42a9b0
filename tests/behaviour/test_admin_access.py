"""The admin clients' calls for access, on both brokers, with kafka-python beside our layer for it."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient
from pyconsumer.admin import (
    AclBinding,
    AclFilter,
    AclOperation,
    PatternType,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
    parse_acl,
)
from pyconsumer.aio import AsyncKafkaAdminClient
from pyconsumer.errors import (
    ClusterAuthorizationFailedError,
    ConfigurationError,
    InvalidRequestError,
    ResourceNotFoundError,
    SecurityDisabledError,
)
from tests.behaviour.access_support import authorized_cluster
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.process import wait_until


@pytest.fixture(scope="module")
def guarded(cluster_kind: str, certificates: Certificates) -> Iterator[Cluster]:
    with authorized_cluster(cluster_kind, certificates) as made:
        yield made


@pytest.fixture
def admin(guarded: Cluster) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=guarded.bootstrap_servers) as client:
        yield client
        client.delete_acls([AclFilter()])


def expect(admin: KafkaAdminClient, wanted: AclFilter, expected: list[AclBinding]) -> None:
    """Wait for rules. Apache Kafka's broker reads a change some milliseconds after its controller."""
    wait_until(lambda: admin.describe_acls(wanted) == sorted(expected), 60, f"{expected}")


def test_rules_are_created_described_and_deleted(admin: KafkaAdminClient, topic: str) -> None:
    read, prefix = parse_acl(f"alice: READ topic {topic}")[0], parse_acl(f"deny eve: ALL topic {topic[:-1]}*")[0]
    group = AclBinding(ResourceType.GROUP, "g", "User:alice", AclOperation.READ, "10.0.0.1")
    assert admin.create_acls([read, prefix, group, str(read)]) == {read: None, prefix: None, group: None}
    expect(admin, AclFilter(), [read, prefix, group])
    assert admin.describe_acls(AclFilter(principal="User:eve")) == [prefix]
    match = AclFilter(ResourceType.TOPIC, topic, pattern_type=PatternType.MATCH)
    assert admin.describe_acls(match) == sorted([read, prefix])
    assert admin.describe_acls(AclFilter(ResourceType.TOPIC, topic)) == [read]
    deleted = admin.delete_acls([read, AclFilter(operation=AclOperation.ALL), AclFilter(principal="User:nobody")])
    assert [one.acls for one in deleted.values()] == [(read,), (prefix,), ()]
    expect(admin, AclFilter(), [group])


def test_errors_of_single_rules(admin: KafkaAdminClient, topic: str) -> None:
    good, bad = (
        parse_acl(f"alice: READ topic {topic}")[0],
        AclBinding(ResourceType.TOPIC, topic, "alice", AclOperation.READ),
    )
    found = admin.create_acls([bad, good], raise_errors=False)
    assert isinstance(found[bad], InvalidRequestError)
    assert found[good] is None
    expect(admin, AclFilter(), [good])
    with pytest.raises(InvalidRequestError, match="colon"):
        admin.create_acls([bad])
    with pytest.raises(ConfigurationError, match="is no rule of access"):
        admin.create_acls(["alice may read everything"])
    with pytest.raises(TypeError, match="a list of rules is needed"):
        admin.create_acls("alice: READ topic t")


def test_users_of_scram(admin: KafkaAdminClient, topic: str) -> None:
    sha_256, sha_512 = ScramMechanism
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(topic, sha_512, "secret", 8192)])

    def iterations() -> Any:
        return admin.describe_user_scram_credentials([topic])[topic].iterations

    wait_until(lambda: topic in admin.describe_user_scram_credentials(), 60, "the user")
    assert iterations() == {sha_512: 8192}
    with pytest.raises(ResourceNotFoundError):
        admin.alter_user_scram_credentials([UserScramCredentialDeletion(topic, sha_256)])
    other = f"{topic}-other"
    found = admin.alter_user_scram_credentials(
        [UserScramCredentialDeletion(topic, sha_512), UserScramCredentialDeletion(other, sha_512)], raise_errors=False
    )
    assert found[topic] is None
    assert isinstance(found[other], ResourceNotFoundError)
    wait_until(lambda: topic not in admin.describe_user_scram_credentials(), 60, "the end of the user")
    with pytest.raises(ResourceNotFoundError):
        admin.describe_user_scram_credentials([topic])
    (error,) = [one.error for one in admin.describe_user_scram_credentials([topic], raise_errors=False).values()]
    assert isinstance(error, ResourceNotFoundError)


def test_a_coroutine_has_the_same_result(guarded: Cluster, admin: KafkaAdminClient, topic: str) -> None:
    (acl,) = parse_acl(f"alice: READ topic {topic}")

    async def program() -> list[Any]:
        async with AsyncKafkaAdminClient(bootstrap_servers=guarded.bootstrap_servers) as client:
            created = await client.create_acls([acl])
            while not await client.describe_acls(AclFilter.of(acl)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            users = await client.describe_user_scram_credentials()
            deleted = await client.delete_acls([acl])
            return [created, users, [one.acls for one in deleted.values()]]

    assert asyncio.run(program()) == [{acl: None}, {}, [(acl,)]]


def test_a_user_without_the_right(guarded: Cluster) -> None:
    with KafkaAdminClient(
        bootstrap_servers=guarded.address("SASL_PLAINTEXT"),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password="alice-secret",
    ) as client:
        for call in (
            lambda: client.describe_acls(),
            lambda: client.create_acls(["alice: ALL topic *"]),
            lambda: client.delete_acls([AclFilter()]),
            # Without names, Apache Kafka never answers this one: it fails while it makes the error's response.
            lambda: client.describe_user_scram_credentials(["alice"]),
            lambda: client.alter_user_scram_credentials(
                [UserScramCredentialUpsertion("alice", ScramMechanism.SCRAM_SHA_256, "x")]
            ),
        ):
            with pytest.raises(ClusterAuthorizationFailedError):
                call()


def test_without_an_authorizer(cluster: Cluster) -> None:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        for call in (
            lambda: client.describe_acls(),
            lambda: client.create_acls(["alice: READ topic t"]),
            lambda: client.delete_acls([AclFilter()]),
        ):
            with pytest.raises(SecurityDisabledError):
                call()


def test_a_password_is_in_no_repr_and_its_iterations_are_bounded() -> None:
    assert "secret" not in repr(UserScramCredentialUpsertion("alice", ScramMechanism.SCRAM_SHA_256, "secret"))
    with pytest.raises(ValueError, match="iterations must be 4096 to 16384, not 100"):
        UserScramCredentialUpsertion("alice", ScramMechanism.SCRAM_SHA_256, "secret", 100)
    with pytest.raises(ValueError, match="must be a string that is not empty"):
        UserScramCredentialUpsertion("alice", ScramMechanism.SCRAM_SHA_256, "")


@pytest.mark.parametrize("package", ["kafka", "pyconsumer.compat.kafka"])
def test_kafka_pythons_calls(guarded: Cluster, admin: KafkaAdminClient, topic: str, package: str) -> None:
    pytest.importorskip("kafka", reason="needs kafka-python, which pyconsumer[peers] installs")
    theirs = importlib.import_module(f"{package}.admin")
    errors = importlib.import_module(f"{package}.errors")
    client = theirs.KafkaAdminClient(bootstrap_servers=guarded.bootstrap_servers)
    pattern = theirs.ResourcePattern(theirs.ResourceType.TOPIC, topic)
    read, allow = theirs.ACLOperation.READ, theirs.ACLPermissionType.ALLOW
    acl = theirs.ACL("User:alice", "*", read, allow, pattern)
    bad = theirs.ACL("alice", "*", read, allow, pattern)
    assert client.create_acls([acl, bad]) == {"succeeded": [acl], "failed": [errors.InvalidRequestError]}
    wanted = theirs.ACLFilter(
        None,
        None,
        theirs.ACLOperation.ANY,
        theirs.ACLPermissionType.ANY,
        theirs.ResourcePatternFilter(theirs.ResourceType.TOPIC, topic, theirs.ACLResourcePatternType.ANY),
    )
    wait_until(lambda: client.describe_acls(wanted)[0], 60, "the rule")
    assert client.describe_acls(wanted) == ([acl], errors.NoError)
    assert client.delete_acls([wanted]) == [(wanted, [acl], errors.NoError)]
    upsertion = theirs.UserScramCredentialUpsertion(topic, "SCRAM-SHA-256", "secret")
    assert client.alter_user_scram_credentials([upsertion]) == {topic: None}
    wait_until(lambda: client.describe_user_scram_credentials([topic])[topic]["error"] is None, 60, "the user")
    assert client.describe_user_scram_credentials([topic]) == {
        topic: {"error": None, "credential_infos": [{"mechanism": theirs.ScramMechanism(1), "iterations": 4096}]}
    }
    deletion = theirs.UserScramCredentialDeletion(topic, 1)
    assert client.alter_user_scram_credentials([deletion]) == {topic: None}
    (text,) = client.alter_user_scram_credentials([deletion]).values()
    assert "does not exist" in text
    for call in (client.create_acls, client.alter_user_scram_credentials):
        with pytest.raises(errors.IllegalArgumentError):
            call(["something"])
    client.close()
