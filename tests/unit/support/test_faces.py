"""Each test runs with each face on some broker, and both faces have about half of the tests of each broker."""

from __future__ import annotations

import itertools

import pytest

from tests.support.faces import FACES, faces_of, is_combined

TESTS = [f"test_{number}" for number in range(200)]


def test_by_default_each_test_uses_both_on_each_broker() -> None:
    assert {faces_of(test, broker, "") for test in TESTS for broker in ("embedded", "apache")} == {FACES}


@pytest.mark.parametrize("broker", ["embedded", "apache", "apache_old", "apache_new"])
@pytest.mark.parametrize("choice", ["alternate", "pairs"])
def test_each_face_has_half_of_the_tests_of_a_broker(choice: str, broker: str) -> None:
    found = [faces_of(test, broker, choice) for test in TESTS]
    assert {len(faces) for faces in found} == {1}
    assert 70 < found.count(("blocking",)) < 130


def test_each_pair_of_face_broker_and_protocol_is_there_once_in_two_tests() -> None:
    for test in TESTS:
        found = {
            (broker, protocol, *faces_of(test, broker, "pairs", swaps=protocol == "consumer"))
            for broker in ("embedded", "apache")
            for protocol in ("classic", "consumer")
        }
        assert len(found) == 4
        for one, other in ((0, 1), (0, 2), (1, 2)):
            assert len({(each[one], each[other]) for each in found}) == 4


def test_a_test_without_apache_kafka_uses_both_in_pairs() -> None:
    assert {faces_of(test, "embedded", "pairs", embedded_only=True) for test in TESTS} == {FACES}
    assert {len(faces_of(test, "embedded", "alternate", embedded_only=True)) for test in TESTS} == {1}


def test_faces_alternate_on_every_broker() -> None:
    for test in TESTS:
        (face,) = faces_of(test, "embedded", "alternate")
        assert faces_of(test, "apache", "alternate") == (face,)


def test_a_choice_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="PYCONSUMER_FACES is 'both', not 'alternate' or 'pairs'"):
        faces_of("test_it", "embedded", "both")


@pytest.mark.parametrize("sizes", [(6, 3, 2), (4, 2, 2), (3, 3, 2, 2)])
def test_each_pair_of_values_is_in_half_of_the_combinations(sizes: tuple[int, ...]) -> None:
    every = list(itertools.product(*map(range, sizes)))
    assert all(is_combined(each, "") for each in every)
    found = [each for each in every if is_combined(each, "pairs")]
    assert len(found) == len(every) // 2
    for one, other in itertools.combinations(range(len(sizes)), 2):
        assert len({(each[one], each[other]) for each in found}) == sizes[one] * sizes[other]
