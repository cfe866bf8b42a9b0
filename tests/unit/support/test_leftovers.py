"""A test that leaves a thread behind fails, and so does a run that leaves a process or an open client behind."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.concurrent


@pytest.fixture
def run(inner: pytest.Pytester) -> pytest.Pytester:
    """A pytest of its own under the rules of tests/conftest.py, with short timeouts."""
    inner.makeconftest("import tests.conftest as it; it._THREADS_END_WITHIN_S = it._CHILDREN_END_WITHIN_S = 0.3")
    return inner


def _result(run: pytest.Pytester) -> pytest.RunResult:
    return run.runpytest_subprocess("-p", "tests.conftest", timeout=60)


def test_a_thread_left_behind_fails_its_own_test(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import threading

        stop = threading.Event()

        def test_bad():
            threading.Thread(target=stop.wait, args=(20,), name="pyconsumer-stray").start()

        def test_good():
            stop.set()
        """
    )
    result = _result(run)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*threads left behind: pyconsumer-stray*"])


def test_a_process_left_behind_fails_the_run(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import subprocess, sys

        def test_bad():
            global process
            process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])
        """
    )
    result = _result(run)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*processes left behind*", "*time.sleep(20)*"])


@pytest.mark.parametrize("workers", [(), ("-p", "xdist.plugin", "-n", "1")], ids=["alone", "in a process"])
def test_a_client_left_open_fails_the_run_with_the_place_where_it_was_made(
    workers: tuple[str, ...], run: pytest.Pytester
) -> None:
    run.makepyfile(
        """
        from pyconsumer import KafkaAdminClient, KafkaProducer

        def test_bad():
            global admin
            admin = KafkaAdminClient(bootstrap_servers="127.0.0.1:1", client_id="forgotten")

        def test_good():
            with KafkaProducer(bootstrap_servers="127.0.0.1:1"):
                pass
        """
    )
    result = run.runpytest_subprocess("-p", "tests.conftest", *workers, timeout=60)
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert [line for line in result.outlines if "forgotten" in line and "::test_bad" in line], result.outlines
    assert not [line for line in result.outlines if line.startswith("producer")]


def test_false_alarms_and_a_nameless_line_fail_their_own_behaviour_test(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import logging
        import pytest
        from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
        from pyconsumer.broker import EmbeddedCluster
        from pyconsumer.metrics import ConsumerHealth, ProducerHealth
        from tests.support.process import wait_until

        @pytest.fixture(scope="module")
        def servers():
            with EmbeddedCluster(data_dir=":memory:") as cluster:
                cluster.create_topic("tea", 1)
                yield cluster.bootstrap_servers

        def use(servers, watch, until):
            with (
                KafkaProducer(bootstrap_servers=servers, client_id="p") as producer,
                KafkaConsumer("tea", bootstrap_servers=servers, group_id="g", client_id="c") as consumer,
            ):
                producer.send("tea", b"x").get(30)
                wait_until(lambda: consumer.poll(20).count() >= 0 and until(watch), 60, "it")

        def alarmed(watch):
            return watch.alarms

        @pytest.mark.parametrize("kind", [ConsumerHealth, ProducerHealth])
        @pytest.mark.parametrize("verdict", ["is_alive", "is_ready"])
        def test_bad(kind, verdict, servers, monkeypatch, _health_watch):
            monkeypatch.setattr(kind, verdict, lambda health: False)
            use(servers, _health_watch, alarmed)

        def test_good(servers, _health_watch):
            _health_watch.ready.clear()
            use(servers, _health_watch, lambda watch: watch.ready.get(KafkaConsumer, 0) > 2 and watch.ready.get("p"))

        def test_nameless():
            logging.getLogger("pyconsumer.consumer").warning("whose line is this?")
        """
    )
    result = run.runpytest_subprocess("-p", "tests.conftest", "-p", "tests.behaviour.conftest", timeout=100)
    result.assert_outcomes(passed=6, errors=5)
    result.stdout.re_match_lines_random(
        [
            r".*c was called \d+\.\d+ s ago: ConsumerHealth.*",
            r".*c has partitions and reaches their leaders: ConsumerHealth.*",
            r".*the thread of p runs: ProducerHealth.*",
            r".*p runs and reaches the leaders of its batches: ProducerHealth.*",
            r".*whose line is this\?.*",
        ]
    )
    bad = [
        f"test_bad[{verdict}-{kind}Health]" for verdict in ("is_alive", "is_ready") for kind in ("Consumer", "Producer")
    ]
    headings = [line for line in result.outlines if "ERROR at teardown of" in line]
    assert len(headings) == 5
    assert all(any(name in line for line in headings) for name in [*bad, "test_nameless"]), headings


def test_a_clean_run_passes(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import subprocess, sys, threading

        def test_good():
            subprocess.run([sys.executable, "-c", ""], check=True)
            threading.Thread(target=lambda: None).start()
        """
    )
    assert _result(run).ret == 0
