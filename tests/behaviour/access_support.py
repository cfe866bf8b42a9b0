"""Help for tests of access: brokers with an authorizer, rules by raw requests, and the error codes of a response."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyconsumer.acls import AclBinding
from pyconsumer.network.sasl import Scram
from pyconsumer.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from pyconsumer.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pyconsumer.protocol.messages.describe_acls import DescribeAclsRequest
from pyconsumer.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pyconsumer.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pyconsumer.protocol.primitives import Struct
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster, start_cluster
from tests.support.process import wait_until
from tests.support.raw_client import RawClient

__all__ = [
    "AUTHORIZED",
    "alice_login",
    "as_alice",
    "authorized_cluster",
    "by_scram",
    "codes",
    "logged_in",
    "set_acls",
    "stored_acls",
]

#: Settings with which a client of the plain listener may do anything, and the user of the SASL listener nothing.
AUTHORIZED: dict[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_ANY, _ANY_PATTERN = 1, 1
_NAMES = ("name", "topic_name", "topic", "group_id", "transactional_id", "resource_name", "key", "user")


@contextmanager
def authorized_cluster(kind: str, certificates: Certificates, **config: object) -> Iterator[Cluster]:
    """Yield a cluster with an authorizer."""
    cluster = start_cluster(kind, certificates, config=AUTHORIZED | config)
    try:
        yield cluster
    finally:
        cluster.stop()


def as_alice(cluster: Cluster) -> RawClient:
    """Return a connection of the user of the SASL listener."""
    return logged_in(cluster.address("SASL_PLAINTEXT"), b"\0alice\0alice-secret")


def logged_in(address: str, message: bytes) -> RawClient:
    """Return a connection after a login by PLAIN."""
    client = RawClient(address, timeout_s=20)
    assert client.versions
    assert client.request(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
    assert client.request(SaslAuthenticateRequest(message)).error_code == 0
    return client


def by_scram(client: RawClient, name: str, password: str) -> Any:
    """Log in by SCRAM. Return the response to the last message."""
    scram = Scram("SCRAM-SHA-256", name, password)
    assert client.request(SaslHandshakeRequest(scram.name), 1).error_code == 0
    message: bytes | None = scram.first()
    answer: Any = None
    while message is not None:
        answer = client.request(SaslAuthenticateRequest(message))
        if answer.error_code:
            return answer
        message = scram.respond(answer.auth_bytes)
    return answer


def alice_login(cluster: Cluster) -> dict[str, Any]:
    """Return the settings by which one of our clients logs in as the user of the SASL listener."""
    return {
        "bootstrap_servers": cluster.address("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "alice-secret",
    }


def stored_acls(client: RawClient) -> set[AclBinding]:
    """Return all rules that the broker has."""
    response = client.request(DescribeAclsRequest(_ANY, None, _ANY_PATTERN, None, None, _ANY, _ANY))
    assert response.error_code == 0
    return {
        AclBinding(
            one.resource_type,  # type: ignore[arg-type]  # a number equals its member
            one.resource_name,
            acl.principal,
            acl.operation,
            acl.host,
            acl.permission_type,
            one.pattern_type,  # type: ignore[arg-type]
        )
        for one in response.resources
        for acl in one.acls
    }


def set_acls(client: RawClient, acls: Iterable[AclBinding]) -> None:
    """Replace all rules, and wait until the broker shows the new ones."""
    wanted = set(acls)
    before = stored_acls(client)
    if before - wanted:
        filters = [
            DeleteAclsFilter(
                acl.resource_type,
                acl.name,
                acl.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission,
            )
            for acl in before - wanted
        ]
        response = client.request(DeleteAclsRequest(filters))
        assert [one.error_code for one in response.filter_results] == [0] * len(filters)
    if wanted - before:
        creations = [
            AclCreation(
                acl.resource_type,
                acl.name,
                acl.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission,
            )
            for acl in wanted - before
        ]
        response = client.request(CreateAclsRequest(creations))
        assert [one.error_code for one in response.results] == [0] * len(creations)
    wait_until(lambda: stored_acls(client) == wanted, 60, "the broker shows the rules", 0.005)


def codes(response: Any) -> set[str]:
    """Return the error codes and authorized operations of a response, each with the names above it."""
    found: set[str] = set()
    _collect(response, "", found)
    return found


def _collect(part: Struct, path: str, found: set[str]) -> None:
    for spec in part.FIELDS:
        value = getattr(part, spec.name)
        if "error_code" in spec.name or spec.name.endswith("authorized_operations"):
            found.add(f"{path}{spec.name}={value}")
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, Struct):
                    name = next((getattr(item, one) for one in _NAMES if getattr(item, one, None)), "")
                    found.add(f"{path}{spec.name}[{name}]")
                    _collect(item, f"{path}{spec.name}[{name}].", found)
