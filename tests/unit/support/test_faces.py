"""Each face of each test runs on some broker, and on Apache Kafka both faces have about half of the tests."""

from __future__ import annotations

import pytest

from tests.support.faces import FACES, faces_of

TESTS = [f"test_{number}" for number in range(200)]


def test_by_default_each_test_uses_both_on_each_broker() -> None:
    assert {faces_of(test, broker, "") for test in TESTS for broker in ("embedded", "apache")} == {FACES}


def test_faces_alternate_on_apache_kafka_alone() -> None:
    assert {faces_of(test, "embedded", "embedded") for test in TESTS} == {FACES}
    for broker in ("apache", "apache_old", "apache_new"):
        found = [faces_of(test, broker, "embedded") for test in TESTS]
        assert {len(faces) for faces in found} == {1}
        assert 70 < found.count(("blocking",)) < 130


def test_faces_alternate_on_every_broker() -> None:
    for test in TESTS:
        (face,) = faces_of(test, "embedded", "alternate")
        assert faces_of(test, "apache", "alternate") == (face,)


def test_a_choice_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="PYCONSUMER_FACES is 'both', not 'alternate' or 'embedded'"):
        faces_of("test_it", "embedded", "both")
