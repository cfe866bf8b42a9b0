"""A scripted network of a group's member, and its blocking calls, one step at a time."""

from __future__ import annotations

from typing import Any

from pyconsumer.clock import ManualClock
from pyconsumer.network.futures import Steps, Wait
from pyconsumer.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pyconsumer.structs import BrokerMetadata
from tests.support.fake_network import FakeNetwork


class GroupNetwork(FakeNetwork):
    """The network of a group's member."""

    def find(self, node: BrokerMetadata, group: str = "g") -> None:
        """Answer the pending lookup of the coordinator."""
        sent = self.take(FindCoordinatorRequest)
        sent.answer(
            FindCoordinatorResponse(
                coordinators=[Coordinator(key=group, node_id=node.node_id, host=node.host, port=node.port)]
            )
        )


class Call:
    """A blocking call as a generator, run until its first wait."""

    def __init__(self, steps: Steps[Any], clock: ManualClock) -> None:
        self._steps = steps
        self._clock = clock
        self.waiting: Wait | None = None
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.resume()

    def resume(self) -> Call:
        """Resume the call after an event. A call that waits only for a later time stays blocked."""
        try:
            self.waiting = self._steps.send(None)
        except StopIteration as stop:
            self.done, self.result, self.waiting = True, stop.value, None
        except Exception as error:
            self.done, self.error, self.waiting = True, error, None
        return self

    def sleep(self) -> Call:
        """Advance the clock to the time that the call waits for, and resume it."""
        assert self.waiting is not None
        self._clock.advance_to(self.waiting.until)
        return self.resume()
