"""The tests of the decoder run on both of its twins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyconsumer.protocol.records import record
from tests.unit.protocol.records import helpers


@pytest.fixture(params=["pure", "native"], scope="module")
def decoder(request: pytest.FixtureRequest) -> Iterator[helpers.Decoder]:
    """Makes the helpers use one implementation, by ``pytestmark = pytest.mark.usefixtures("decoder")`` in a module."""
    chosen = helpers.decoder_named(request.param)
    if chosen is None:
        pytest.skip("the compiled decoder was not built")
    before = helpers.current
    helpers.current = chosen
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "_class_in_use", lambda: chosen.ConsumerRecord)  # of unpickled records
        yield chosen
    helpers.current = before
