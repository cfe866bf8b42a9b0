"""``--kafka-acls=record|check``, ``kafka_acls`` and users of ``kafka_cluster``, in runs of pytest of their own."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.concurrent, pytest.mark.slow]

USERS = """
    import pytest

    @pytest.fixture(scope="session")
    def kafka_cluster_users():
        return {"shop": "shop-secret", "billing": "billing-secret"}
"""
PROGRAMS = """
    import asyncio, pytest
    from pyconsumer import KafkaConsumer, KafkaProducer
    from pyconsumer.aio import AsyncKafkaProducer
    from pyconsumer.errors import ClusterAuthorizationFailedError

    @pytest.mark.parametrize("number", [1, 2])
    def test_billing(kafka_cluster, kafka_topic, kafka_group, kafka_producer, number):
        kafka_producer().send(kafka_topic, b"v").get()
        with KafkaConsumer(
            kafka_topic, group_id=kafka_group, auto_offset_reset="earliest", **kafka_cluster.login("billing")
        ) as consumer:
            assert consumer.poll(10_000).count() == 1
            consumer.commit()

    class TestShop:
        def test_shop(self, kafka_cluster, kafka_topic):
            async def program():
                async with AsyncKafkaProducer(**kafka_cluster.login("shop")) as producer:
                    await producer.send_and_wait(kafka_topic, b"v")
            asyncio.run(program())

    class TestOther:
        def test_shop(self, kafka_cluster, kafka_topic, kafka_producer):
            kafka_producer().send(kafka_topic, b"v").get()
            with KafkaConsumer(kafka_topic, auto_offset_reset="earliest", **kafka_cluster.login("shop")) as consumer:
                assert consumer.poll(10_000).count() == 1

    @pytest.mark.kafka_acls("billing: READ topic {kafka_topic}", "shop: WRITE topic {kafka_topic}")
    @pytest.mark.kafka_acls("shop: READ topic never")
    def test_marked(kafka_cluster, kafka_topic):
        with KafkaProducer(**kafka_cluster.login("shop")) as producer:
            producer.send(kafka_topic, b"v").get()
        with KafkaProducer(**kafka_cluster.login("billing")) as producer:
            with pytest.raises(ClusterAuthorizationFailedError):
                producer.send(kafka_topic, b"v").get()

    def test_the_mark_of_another_test_is_gone(kafka_cluster, kafka_admin):
        assert len(kafka_admin.describe_acls()) == 5
        assert not [acl for acl in kafka_admin.describe_acls() if acl.principal != "User:*"]

    def test_without_a_broker():
        pass
"""


def test_a_list_is_recorded_checked_and_names_missing_rules(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))
    pytester.makeconftest(USERS)
    module = pytester.makepyfile(test_programs=PROGRAMS)
    rules = module.with_suffix(".kafka-acls")
    run = ("-p", "pyconsumer.testing.plugin", "--strict-markers", "-W", "error")
    workers = ("-p", "xdist", "-n", "2")

    # The workers of pytest-xdist spread the tests, and also the parameters of one. They share the list.
    result = pytester.runpytest_subprocess(*run, *workers, "--kafka-acls=record", "-k", "not another_test", timeout=120)
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["Kafka ACLs of 3 tests: *test_programs.kafka-acls"])
    by_workers = rules.read_text()
    rules.unlink()
    result = pytester.runpytest_subprocess(*run, "--kafka-acls=record", "-k", "not another_test", timeout=120)
    result.assert_outcomes(passed=6, deselected=1)
    result.stdout.fnmatch_lines(["Kafka ACLs of 3 tests: *test_programs.kafka-acls"])
    assert rules.read_text() == by_workers
    assert rules.read_text().splitlines()[2:] == [
        "# test: TestOther::test_shop",
        "shop: READ topic test_shop-*",
        "",
        "# test: TestShop::test_shop",
        "shop: WRITE topic test_shop-*",
        "",
        "# test: test_billing",
        "billing: READ topic test_billing-1--*",
        "billing: READ topic test_billing-2--*",
        "billing: READ group test_billing-1--*",
        "billing: READ group test_billing-2--*",
    ]

    result = pytester.runpytest_subprocess(*run, *workers, "--kafka-acls=check", "-k", "not another_test", timeout=120)
    result.assert_outcomes(passed=6)

    lines = rules.read_text().splitlines()
    rules.write_text("\n".join(line for line in lines if "READ group" not in line and "WRITE" not in line))
    result = pytester.runpytest_subprocess(*run, "--kafka-acls=check", "-k", "shop or billing", timeout=120)
    result.assert_outcomes(failed=3, passed=1, deselected=3)
    result.stdout.fnmatch_lines(
        [
            "*Kafka ACLs that are not in test_programs.kafka-acls*",
            "billing: DESCRIBE group test_billing-1--[*] (or READ, WRITE, DELETE or ALTER)",
        ]
    )
    result = pytester.runpytest_subprocess(*run, timeout=120)
    result.assert_outcomes(passed=7)


def test_a_mark_needs_users(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_acls("a: READ topic t")
        def test_one(kafka_cluster): ...
        """
    )
    result = pytester.runpytest_subprocess("-p", "pyconsumer.testing.plugin", timeout=60)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*kafka_acls needs users: define the fixture kafka_cluster_users*"])
