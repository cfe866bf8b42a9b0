"""A test that leaves a thread behind fails, and so does a run that leaves a process behind."""

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
