"""Errors cross process borders as pickles."""

from __future__ import annotations

import pickle

import pytest

from pyconsumer.spark.errors import DataLossError, OffsetsError, ReadError
from pyconsumer.structs import TopicPartition


@pytest.mark.parametrize(
    "error",
    [DataLossError("KAFKA_DATA_LOSS.X", "gone"), OffsetsError("Y", "odd"), ReadError("why", TopicPartition("t", 1), 5)],
)
def test_an_error_is_the_same_after_pickling(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_the_condition_comes_first() -> None:
    assert str(DataLossError("KAFKA_DATA_LOSS.X", "gone")) == "[KAFKA_DATA_LOSS.X] gone"
