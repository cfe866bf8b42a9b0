"""The tests of the decoder run on both of its twins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyconsumer.protocol import records
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
        patch.setattr(records, "ConsumerRecord", chosen.ConsumerRecord)  # what unpickled records are made of
        yield chosen
    helpers.current = before
