"""A step of a blocking call that goes on in the background of others, so that ``poll`` has one wait for everything."""

from __future__ import annotations

import math
from typing import Generic, TypeVar

from pyconsumer.errors import KafkaError, KafkaTimeoutError, RequestCancelledError
from pyconsumer.network.waiting import Steps, Wait

__all__ = ["BackgroundSteps"]

T = TypeVar("T")


class BackgroundSteps(Generic[T]):
    """Runs a generator of waits a little further each time it is asked, without waiting.

    Args:
        steps: the generator.
        deadline: when it fails with ``KafkaTimeoutError`` (monotonic seconds).
    """

    def __init__(self, steps: Steps[T], deadline: float) -> None:
        self._steps = steps
        self._deadline = deadline
        self._wait: Wait | None = None
        self.done = False
        self.result: T | None = None
        self.error: KafkaError | None = None

    @property
    def due_at(self) -> float:
        """When to ask again if nothing happens before."""
        if self.done:
            return math.inf
        return min(self._deadline, self._wait.until if self._wait is not None else -math.inf)

    def advance(self, now: float) -> bool:
        """Go as far as possible now; whether it is done."""
        looked = False
        while not self.done:
            wait = self._wait
            if now >= self._deadline:
                self._resume(KafkaTimeoutError("the time given has passed"))
                if not self.done:
                    self.close()
                    self.done, self.error = True, KafkaTimeoutError("the time given has passed")
                break
            if wait is not None and now < wait.until:
                if wait.future is not None:
                    if not wait.future.done:
                        break
                elif looked:
                    break  # it waits for anything to happen, and has looked at what has
            elif wait is not None and looked and wait.future is None:
                break
            self._resume(None)
            looked = True
        return self.done

    def _resume(self, error: KafkaError | None) -> None:
        if getattr(self._steps, "gi_frame", self) is None:
            self.done, self.error = True, RequestCancelledError("interrupted")  # Ctrl-C ended it, or hid its end
            return
        try:
            self._wait = self._steps.send(None) if error is None else self._steps.throw(error)
        except StopIteration as stop:
            self.result, self.done = stop.value, True
        except KafkaError as failure:
            self.error, self.done = failure, True

    def close(self) -> None:
        """Give up; ``finally`` blocks of the generator run."""
        self._steps.close()
        self.done = True
