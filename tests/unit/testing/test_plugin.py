"""The pytest plugin provides one cluster and fresh topics, and takes its settings from the user's conftest."""

from __future__ import annotations

import pytest

from pyconsumer.testing import ManualClock

pytestmark = pytest.mark.concurrent


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> pytest.Pytester:
    """A pytest of its own with the plugin, and with no other installed one."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))
    return pytester


def _passes(run: pytest.Pytester, count: int) -> None:
    result = run.runpytest_subprocess("-p", "pyconsumer.testing.plugin", "--strict-markers", timeout=60)
    result.assert_outcomes(passed=count)


def test_a_test_gets_a_cluster_and_a_fresh_topic(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import socket, pytest
        from pyconsumer.broker import EmbeddedCluster

        seen = []

        @pytest.mark.parametrize("number", [1, 2])
        def test_one(kafka_cluster, kafka_topic, number):
            assert isinstance(kafka_cluster, EmbeddedCluster)
            host, port = kafka_cluster.bootstrap_servers.split(",")[0].rsplit(":", 1)
            socket.create_connection((host, int(port))).close()
            assert kafka_topic.startswith("test_one-")
            assert kafka_topic not in seen
            seen.append(kafka_topic)
        """
    )
    _passes(run, 2)


def test_the_cluster_has_a_schema_registry_if_a_test_uses_it(run: pytest.Pytester) -> None:
    run.makepyfile(
        test_with="""
        import urllib.request
        def test_first(kafka_cluster):
            assert kafka_cluster.schema_registry_url
        def test_url(kafka_schema_registry):
            assert urllib.request.urlopen(kafka_schema_registry + "/subjects").read() == b"[]"
        """,
        test_without="""
        import pytest
        from pyconsumer.errors import ConfigurationError
        def test_none(kafka_cluster):
            with pytest.raises(ConfigurationError):
                kafka_cluster.schema_registry_url
        """,
    )
    plugin = ("-p", "pyconsumer.testing.plugin")
    run.runpytest_subprocess(*plugin, "test_with.py", timeout=60).assert_outcomes(passed=2)
    run.runpytest_subprocess(*plugin, "test_without.py", timeout=60).assert_outcomes(passed=1)


def test_another_fixture_may_have_the_name_of_the_cluster(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_cluster():
            return "a cluster in a container"

        def test_it(kafka_cluster):
            assert kafka_cluster == "a cluster in a container"
        """
    )
    _passes(run, 1)


def test_the_mark_shapes_the_topic(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pytest
        from tests.support.raw_client import RawClient

        pytestmark = pytest.mark.kafka_topic(partitions=2)

        def leaders(cluster, topic):
            with RawClient(cluster.bootstrap_servers) as client:
                return set(client.leaders(topic))

        def test_module(kafka_cluster, kafka_topic):
            assert leaders(kafka_cluster, kafka_topic) == {0, 1}

        @pytest.mark.kafka_topic(partitions=3, config={"cleanup.policy": "compact"})
        def test_own(kafka_cluster, kafka_topic):
            assert leaders(kafka_cluster, kafka_topic) == {0, 1, 2}
        """
    )
    _passes(run, 2)


def test_an_invalid_mark_is_reported(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_topic(partition=3)
        def test_wrong_name(kafka_topic): ...

        @pytest.mark.kafka_topic(3)
        def test_no_name(kafka_topic): ...
        """
    )
    result = run.runpytest_subprocess("-p", "pyconsumer.testing.plugin", timeout=60)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        [
            "*kafka_topic takes partitions and config, not partition*",
            "*kafka_topic takes partitions and config by name, such as kafka_topic(partitions=3), not (3,)*",
        ]
    )


def test_settings_come_from_the_users_conftest(run: pytest.Pytester) -> None:
    run.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_cluster_config():
            return {"auto.create.topics.enable": "true", "num.partitions": 4}
        """
    )
    run.makepyfile(
        """
        from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
        from tests.support.raw_client import RawClient

        def test_partitions(kafka_cluster):
            with RawClient(kafka_cluster.bootstrap_servers) as client:
                request = MetadataRequest(topics=[MetadataRequestTopic(name="by-itself")])
                while (topic := client.request(request).topics[0]).error_code:
                    pass
                assert len(topic.partitions) == 4
        """
    )
    _passes(run, 1)


@pytest.mark.slow
def test_faults_and_killed_brokers_are_undone_after_each_test(run: pytest.Pytester) -> None:
    run.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_cluster_brokers():
            return 2
        """
    )
    run.makepyfile(
        """
        from pyconsumer.errors import Errors

        def test_breaks(kafka_cluster, kafka_faults, kafka_topic):
            for kind in ("drop_request", "drop_response"):
                kafka_faults.add(kind, "Metadata", count=None)
            kafka_faults.add("error", "Produce", error_code=Errors.UNKNOWN_SERVER_ERROR, count=None)
            kafka_faults.pause_replication(0)
            kafka_cluster.kill_broker(1)

        def test_is_whole(kafka_topic, kafka_producer, kafka_admin):
            assert len(kafka_admin.describe_cluster().brokers) == 2
            assert kafka_producer().send(kafka_topic, b"v").get(timeout=30).offset == 0

        def test_breaks_all(kafka_cluster):
            kafka_cluster.kill()

        def test_is_whole_again(kafka_admin):
            assert len(kafka_admin.describe_cluster().brokers) == 2
        """
    )
    _passes(run, 4)


@pytest.mark.slow
def test_clients_of_the_fixtures_are_closed_and_take_the_clock(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import gc, pytest

        made = []

        def test_clients(kafka_topic, kafka_group, kafka_consumer, kafka_producer, kafka_clock):
            consumer, producer = kafka_consumer(kafka_topic, group_id=kafka_group), kafka_producer()
            made.extend((consumer, producer))
            producer.send(kafka_topic, b"v").get(timeout=30)
            assert consumer.poll(10_000).count() == 1
            assert kafka_topic != kafka_group

        def test_closed():
            assert [repr(each).endswith("closed>") or " closed" in repr(each) for each in made] == [True, True]
        """
    )
    _passes(run, 2)


def test_fixtures_for_asyncio_need_pytest_asyncio(run: pytest.Pytester) -> None:
    run.makepyfile("def test_one(kafka_async_consumer): ...\ndef test_two(kafka_async_producer): ...")
    result = run.runpytest_subprocess("-p", "pyconsumer.testing.plugin", timeout=60)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*this fixture needs pytest-asyncio: pip install pytest-asyncio*"])


def test_a_run_without_the_fixtures_imports_no_broker(run: pytest.Pytester) -> None:
    run.makepyfile("import sys\ndef test_light(): assert 'pyconsumer.broker' not in sys.modules")
    _passes(run, 1)


def test_the_clock_is_exported() -> None:
    clock = ManualClock(now=5.0)
    assert clock.advance(1.5) == 6.5
