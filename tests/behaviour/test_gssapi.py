"""Logins by Kerberos: MIT's KDC, and Apache Kafka as the judge.

Not part of a bare ``tox``, as the KDC and the headers of Kerberos are packages of the system: ``tox -e gssapi``.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pyconsumer.admin import NewTopic
from pyconsumer.aio import AsyncKafkaAdminClient, AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import AuthenticationError, KafkaTimeoutError, TopicAuthorizationFailedError
from tests.support.apache_kafka import ApacheKafka
from tests.support.kerberos import REALM, Kdc
from tests.support.process import run

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

_KRB5 = "com.sun.security.auth.module.Krb5LoginModule"
_SESSION_MS = 3000


class World(NamedTuple):
    kdc: Kdc
    kafka: ApacheKafka
    keytab: Path

    def settings(self, **login: Any) -> dict[str, Any]:
        """The settings of a client with these ones for its login."""
        return {
            "bootstrap_servers": self.kafka.address("SASL_PLAINTEXT"),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "GSSAPI",
            **login,
        }

    def by_keytab(self, name: str = "alice", keytab: Path | None = None, **more: Any) -> dict[str, Any]:
        own = {"sasl_kerberos_principal": f"{name}@{REALM}", "sasl_kerberos_keytab": str(keytab or self.keytab)}
        return self.settings(**own, **more)

    def by_cache(self, **more: Any) -> dict[str, Any]:
        return self.settings(sasl_kerberos_ticket_cache=self.kdc.cache("alice", self.keytab), **more)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A realm, and a broker on which alice may do all. Sessions last for 3 s."""
    with Kdc(tmp_path_factory.mktemp("realm")) as kdc:
        for name in ("kafka/localhost", "alice", "bob"):
            kdc.add(name)
        service = kdc.keytab("kafka/localhost")
        listener = "listener.name.sasl_plaintext."
        login = f'{_KRB5} required useKeyTab=true storeKey=true keyTab="{service}" principal="kafka/localhost@{REALM}";'
        config = {
            f"{listener}sasl.enabled.mechanisms": "GSSAPI",
            f"{listener}gssapi.sasl.jaas.config": login,
            f"{listener}sasl.kerberos.service.name": "kafka",
            f"{listener}connections.max.reauth.ms": _SESSION_MS,
            "sasl.kerberos.service.name": "kafka",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
            "early.start.listeners": "CONTROLLER",
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KRB5_CONFIG", str(kdc.krb5_conf))
            patch.setenv("KRB5CCNAME", f"FILE:{kdc.folder}/none")
            options = f"-Djava.security.krb5.conf={kdc.krb5_conf} -Dsun.security.krb5.rcache=none"
            patch.setenv("JAVA_TOOL_OPTIONS", options)
            broker = ApacheKafka(config=config)
            broker.start()
            try:
                yield World(kdc, broker, kdc.keytab("alice", "bob"))
            finally:
                broker.stop()


@pytest.fixture
def topic(world: World) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=world.kafka.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 1)])
    return name


READING: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000}


def _write_and_read(topic: str, settings: dict[str, Any]) -> None:
    with KafkaProducer(**settings) as producer:
        producer.send(topic, b"one").get(timeout=30)
    with KafkaConsumer(topic, group_id=topic, **READING, **settings) as consumer:
        assert next(consumer).value == b"one"


async def _write_and_read_on_a_loop(topic: str, settings: dict[str, Any]) -> None:
    async with AsyncKafkaProducer(**settings) as producer:
        await (await producer.send(topic, b"one"))
    async with AsyncKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings) as consumer:
        async for record in consumer:
            assert record.value == b"one"
            break
    async with AsyncKafkaAdminClient(**settings) as admin:
        assert topic in await admin.list_topics()


def _login_of(world: World, kind: str, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    keytab = f'useKeyTab=true keyTab="{world.keytab}" principal="alice@{REALM}" serviceName="kafka"'
    if kind == "keytab":
        return world.by_keytab()
    if kind == "cache":
        return world.by_cache()
    if kind == "environment":
        patch.setenv("KRB5CCNAME", world.kdc.cache("alice", world.keytab))
        return world.settings()
    if kind == "jaas":
        return world.settings(sasl_jaas_config=f"{_KRB5} required {keytab};")
    assert kind == "jaas cache"
    cache = world.kdc.cache("alice", world.keytab)
    return world.settings(sasl_jaas_config=f'{_KRB5} required useTicketCache=true ticketCache="{cache}";')


@pytest.mark.parametrize("kind", ["keytab", "cache", "environment", "jaas", "jaas cache"])
def test_blocking_clients_log_in(world: World, topic: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _login_of(world, kind, monkeypatch)
    _write_and_read(topic, settings)
    with KafkaAdminClient(**settings) as admin:
        assert topic in admin.list_topics()


@pytest.mark.parametrize("kind", ["keytab", "cache", "jaas"])
def test_clients_for_asyncio_log_in(world: World, topic: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _login_of(world, kind, monkeypatch)
    asyncio.run(asyncio.wait_for(_write_and_read_on_a_loop(topic, settings), 60))


def test_the_broker_knows_the_user_by_the_principal(world: World, topic: str) -> None:
    with KafkaProducer(**world.by_keytab("bob")) as producer, pytest.raises(TopicAuthorizationFailedError):
        producer.send(topic, b"one").get(timeout=30)


@pytest.mark.parametrize("kind", ["keytab", "cache"])
def test_sessions_are_renewed_on_the_same_connection(world: World, topic: str, kind: str) -> None:
    settings = world.by_keytab() if kind == "keytab" else world.by_cache()
    with KafkaProducer(**settings) as producer:
        until = time.monotonic() + 2.5 * _SESSION_MS / 1000
        while time.monotonic() < until:
            producer.send(topic, b"one").get(timeout=30)
            time.sleep(0.05)
        found = _totals(producer)
    assert found["successful-reauthentication-total"] >= 2
    assert found["failed-reauthentication-total"] == 0


def _totals(client: Any) -> dict[str, float]:
    metrics = client.metrics()
    found: dict[str, float] = {}
    for group in metrics.values():
        if isinstance(group, dict):
            found |= {name: value for name, value in group.items() if isinstance(value, (int, float))}
    return found


# -- faults ----------------------------------------------------------------------------------------------------------


def _fails(settings: dict[str, Any]) -> str:
    with KafkaAdminClient(**settings) as admin, pytest.raises(AuthenticationError) as caught:
        admin.list_topics(timeout_ms=20_000)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 1000
    return text


def test_a_principal_that_the_keytab_has_not(world: World) -> None:
    text = _fails(world.by_keytab("carol"))
    assert f"has no key of carol@{REALM}: check sasl_kerberos_principal" in text
    assert str(world.keytab) in text


def test_a_principal_that_the_kdc_does_not_know(world: World) -> None:
    world.kdc.add("dave")
    keytab = world.kdc.keytab("dave")
    world.kdc.delete("dave")
    assert f"the KDC does not know the principal dave@{REALM}" in _fails(world.by_keytab("dave", keytab))


def test_a_keytab_with_an_old_key(world: World) -> None:
    world.kdc.add("erin")
    old = world.kdc.keytab("erin")
    world.kdc.keytab("erin", new_key=True)
    assert "export the keytab again" in _fails(world.by_keytab("erin", old))


@pytest.mark.parametrize(
    ("settings", "service"),
    [
        ({"sasl_kerberos_service_name": "brokers"}, "brokers/localhost"),
        ({"sasl_kerberos_domain_name": "elsewhere"}, "kafka/elsewhere"),
        ({"sasl_kerberos_name": f"kafka/other@{REALM}"}, f"kafka/other@{REALM}"),
    ],
)
def test_a_service_that_the_kdc_does_not_know(world: World, settings: dict[str, str], service: str) -> None:
    text = _fails(world.by_keytab(**settings))
    assert f"SASL with {world.kafka.address('SASL_PLAINTEXT')}" in text
    assert f"the KDC does not know the service {service}: check sasl_kerberos_service_name" in text
    assert "dns_canonicalize_hostname" in text


def test_a_broker_that_is_another_service(world: World) -> None:
    """The KDC gives a ticket for it, and the broker cannot read that."""
    world.kdc.add("other/localhost")
    text = _fails(world.by_keytab(sasl_kerberos_service_name="other"))
    assert "SASL with" in text
    assert "check that the broker's keytab has the key that the KDC has" in text


def test_no_ticket_cache(world: World) -> None:
    assert "get a ticket by kinit, or give sasl_kerberos_keytab" in _fails(world.settings())
    missing = world.settings(sasl_kerberos_ticket_cache=f"FILE:{world.kdc.folder}/missing")
    assert "get a ticket by kinit, or give sasl_kerberos_keytab" in _fails(missing)


def test_the_ticket_cache_of_somebody_else(world: World) -> None:
    assert "does not match desired name" in _fails(world.by_cache(sasl_kerberos_principal="bob"))


def test_a_ticket_that_has_expired(world: World) -> None:
    cache = world.kdc.cache("alice", world.keytab, lifetime_s=2)
    time.sleep(2.5)
    text = _fails(world.settings(sasl_kerberos_ticket_cache=cache))
    assert "the ticket has expired: get a ticket by kinit, or give sasl_kerberos_keytab" in text


def test_a_kdc_that_is_down_ends_a_call_in_time_and_one_that_is_back_is_found(world: World, topic: str) -> None:
    world.kdc.add("frank")
    settings = world.by_keytab("frank", world.kdc.keytab("frank"))
    world.kdc.stop()
    try:
        with KafkaAdminClient(**settings) as admin:
            begun = time.monotonic()
            with pytest.raises(KafkaTimeoutError, match="Cannot contact any KDC") as caught:
                admin.describe_cluster(timeout_ms=2000)
            assert 1.5 < time.monotonic() - begun < 5
            assert "check the KDC of the realm in krb5.conf" in str(caught.value)
            world.kdc.start()
            assert admin.describe_cluster(timeout_ms=30_000).brokers
    finally:
        world.kdc.stop()
        world.kdc.start()


def test_a_kdc_that_is_silent_blocks_no_event_loop(world: World) -> None:
    world.kdc.add("grace")
    settings = world.by_keytab("grace", world.kdc.keytab("grace"), request_timeout_ms=1500)
    gaps: list[float] = []

    async def ask() -> None:
        async def tick() -> None:
            last = time.monotonic()
            while True:
                await asyncio.sleep(0.01)
                gaps.append(time.monotonic() - last)
                last = time.monotonic()

        ticks = asyncio.create_task(tick())
        try:
            async with AsyncKafkaAdminClient(**settings) as admin:
                with pytest.raises(KafkaTimeoutError, match="no ticket from a KDC"):
                    await admin.describe_cluster(timeout_ms=4000)
        finally:
            ticks.cancel()

    world.kdc.signal(signal.SIGSTOP)
    try:
        begun = time.monotonic()
        asyncio.run(asyncio.wait_for(ask(), 60))
        assert time.monotonic() - begun < 10
    finally:
        world.kdc.signal(signal.SIGCONT)
    assert len(gaps) > 50
    assert max(gaps) < 1.0  # the KDC was silent for 4 s


def test_a_kdc_that_is_down_costs_a_session_nothing_while_tickets_are_valid(world: World, topic: str) -> None:
    with KafkaProducer(**world.by_keytab()) as producer:
        producer.send(topic, b"one").get(timeout=30)
        world.kdc.stop()
        try:
            until = time.monotonic() + 2 * _SESSION_MS / 1000
            while time.monotonic() < until:
                producer.send(topic, b"one").get(timeout=30)
                time.sleep(0.05)
            assert _totals(producer)["successful-reauthentication-total"] >= 1
        finally:
            world.kdc.start()


def test_the_embedded_broker_has_other_mechanisms(world: World) -> None:
    with EmbeddedCluster(users={"alice": "secret"}) as cluster:
        settings = world.by_keytab(bootstrap_servers=cluster.address("SASL_PLAINTEXT"))
        assert "the broker does not take GSSAPI, but offers" in _fails(settings)


# -- clocks ----------------------------------------------------------------------------------------------------------

_FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
_PROGRAM = """
import json, sys
from pyconsumer import KafkaAdminClient
from pyconsumer.errors import KafkaError
with KafkaAdminClient(**json.loads(sys.argv[1])) as admin:
    try:
        admin.list_topics(timeout_ms=4000)
    except KafkaError as error:
        print(type(error).__name__, error)
"""


def _minutes_later(world: World, settings: dict[str, Any], minutes: int, krb5_conf: Path | None = None) -> str:
    """Log in with a clock that is wrong by some minutes. Return the error, or nothing."""
    assert _FAKETIME is not None, "there is no libfaketime: install the package faketime"
    env = {"LD_PRELOAD": str(_FAKETIME), "FAKETIME": f"{minutes:+d}m", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    env["KRB5_CONFIG"] = str(krb5_conf or world.kdc.krb5_conf)
    done = run([sys.executable, "-c", _PROGRAM, json.dumps(settings)], env=env, timeout_s=60).check()
    return done.stdout.strip()


@pytest.mark.parametrize("minutes", [-10, 10])
def test_with_a_keytab_the_clock_of_the_kdc_counts(world: World, minutes: int) -> None:
    """MIT Kerberos takes the difference into account, unless krb5.conf switches that off."""
    assert _minutes_later(world, world.by_keytab(), minutes) == ""
    strict = world.kdc.folder / "strict.conf"
    strict.write_text(world.kdc.krb5_conf.read_text().replace("[realms]", "  kdc_timesync = 0\n[realms]"))
    text = _minutes_later(world, world.by_keytab(), minutes, strict)
    assert text.startswith("AuthenticationError SASL with ")
    assert "Clock skew too great in KDC reply: synchronize the clocks of this machine, the KDC and the broker" in text


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_clock_that_differs_from_the_kdcs_after_kinit(world: World, minutes: int) -> None:
    text = _minutes_later(world, world.by_cache(), minutes)
    assert text.startswith("AuthenticationError SASL with ")
    assert "Clock skew too great: synchronize the clocks of this machine, the KDC and the broker" in text


def test_a_clock_that_differs_from_the_brokers(world: World) -> None:
    """With a ticket for the broker in the cache, the KDC is not asked, and the broker does not say why it refuses."""
    cache = world.kdc.cache("alice", world.keytab, service="kafka/localhost")
    settings = world.settings(sasl_kerberos_ticket_cache=cache)
    assert _minutes_later(world, settings, 0) == ""
    late = _minutes_later(world, settings, 10)
    assert late.startswith("AuthenticationError SASL with ")
    assert "invalid credentials with SASL mechanism GSSAPI" in late
    assert "if the clocks of this machine, the KDC and the broker differ, synchronize them" in late
    early = _minutes_later(world, settings, -10)  # time may mend it: the client tries again
    assert early.startswith("KafkaTimeoutError ")
    assert "Ticket not yet valid: synchronize the clocks of this machine, the KDC and the broker" in early


# -- the layers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        {"sasl_kerberos_service_name": "kafka"},
        {"sasl_kerberos_domain_name": "localhost"},
        {"sasl_kerberos_name": "kafka@localhost"},
    ],
)
def test_programs_of_kafka_python_log_in(
    world: World, topic: str, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import gssapi

    from pyconsumer.compat import kafka

    if "sasl_kerberos_name" in names:  # kafka-python takes a name of the package, too
        names = {"sasl_kerberos_name": gssapi.Name(names["sasl_kerberos_name"], gssapi.NameType.hostbased_service)}
    monkeypatch.setenv("KRB5CCNAME", world.kdc.cache("alice", world.keytab))
    settings = world.settings(**names)
    producer = kafka.KafkaProducer(**settings)
    producer.send(topic, b"one").get(timeout=30)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, group_id=topic, **READING, **settings)
    assert next(consumer).value == b"one"
    consumer.close()


def test_programs_of_aiokafka_log_in(world: World, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyconsumer.compat import aiokafka

    monkeypatch.setenv("KRB5CCNAME", world.kdc.cache("alice", world.keytab))
    settings = world.settings(sasl_kerberos_service_name="kafka", sasl_kerberos_domain_name="localhost")

    async def both() -> None:
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"one")
        reader = aiokafka.AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)
        async with reader:
            assert (await reader.getone()).value == b"one"

    asyncio.run(asyncio.wait_for(both(), 60))
