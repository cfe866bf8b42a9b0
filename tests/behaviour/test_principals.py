"""The user of a client of a TLS listener, and rights to a resource without a rule, on both brokers."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest

from pyconsumer.acls import parse_acl
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pyconsumer.protocol.messages.describe_acls import DescribeAclsRequest
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.behaviour.access_support import authorized_cluster, set_acls
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.raw_client import RawClient

_LISTENER = "listener.name.ssl.ssl."


@pytest.fixture(scope="module")
def guarded(cluster_kind: str, certificates: Certificates) -> Iterator[Cluster]:
    """A cluster that asks for certificates. Who has none is ANONYMOUS, who may do anything."""
    config = {
        f"{_LISTENER}client.auth": "requested",
        f"{_LISTENER}principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1-by-rule/U,DEFAULT",
        "allow.everyone.if.no.acl.found": True,
    }
    with authorized_cluster(cluster_kind, certificates, **config) as made:
        yield made


def client(cluster: Cluster, *, shows: bool) -> RawClient:
    context = ssl.create_default_context(cafile=str(cluster.certificates.ca_pem))
    if shows:
        context.load_cert_chain(cluster.certificates.client_pem)
    return RawClient(cluster.address("SSL"), tls=context, timeout_s=20)


def may_list_rules(raw: RawClient) -> bool:
    return bool(raw.request(DescribeAclsRequest(1, None, 1, None, None, 1, 1)).error_code == 0)


def fetched(raw: RawClient, topic: str) -> int:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=[FetchTopic(topic, partitions=[part])])
    return int(raw.request(request, 12).responses[0].partitions[0].error_code)


def test_the_user_is_that_of_the_certificate_by_a_rule_or_anonymous(guarded: Cluster, topic: str) -> None:
    with (
        guarded.raw() as admin,
        client(guarded, shows=True) as named,
        client(guarded, shows=False) as unnamed,
    ):
        admin.create_topic(topic)
        read = f"READ topic {topic}"
        cluster_rule = "nobody: ALL cluster"
        for lines, may_read in (
            ([f"CLIENT-BY-RULE: {read}"], True),
            ([f"CN=client: {read}"], False),
            ([f"ANONYMOUS: {read}"], False),
            (["CLIENT-BY-RULE: ALL topic *", f"deny CLIENT-BY-RULE: {read}"], False),
        ):
            set_acls(admin, [acl for line in [*lines, cluster_rule] for acl in parse_acl(line)])
            assert (fetched(named, topic) == 0) is may_read, lines
            assert fetched(unnamed, topic) == 0  # a super user
        assert not may_list_rules(named)
        assert may_list_rules(unnamed)


def test_without_a_rule_everybody_is_allowed_if_the_setting_says_so(guarded: Cluster, topic: str) -> None:
    with guarded.raw() as admin, client(guarded, shows=True) as named:
        for name in (topic, f"{topic}-free"):
            admin.create_topic(name)
        set_acls(admin, parse_acl(f"bob: READ topic {topic}"))
        assert fetched(named, topic) == Errors.TOPIC_AUTHORIZATION_FAILED
        assert fetched(named, f"{topic}-free") == 0
        assert may_list_rules(named)
        set_acls(admin, [*parse_acl(f"bob: READ topic {topic}"), *parse_acl("bob: ALTER cluster")])
        assert not may_list_rules(named)
        new = CreateTopicsRequest([CreatableTopic(f"{topic}-new", 1, 1)], 10_000, True)
        assert named.request(new).topics[0].error_code == 0  # there is no rule for this topic
        set_acls(admin, [*parse_acl(f"bob: READ topic {topic}*"), *parse_acl("bob: ALTER cluster")])
        assert named.request(new).topics[0].error_code == Errors.TOPIC_AUTHORIZATION_FAILED
        set_acls(admin, [])
        assert fetched(named, topic) == 0
