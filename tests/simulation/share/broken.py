"""Rules of share consumers broken on purpose. The simulation must notice each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.share.consumer import Consumer

RULES = {
    "no-expiry": "records whose lock has ended by time are returned",
    "no-loss": "records of a lost session are returned",
    "unsaid": "records that the application has not seen are accepted",
    "twice": "an acknowledgement is reported twice",
    "unreported": "the acknowledgements of a lost session are not reported",
}

#: The rules of the simulation that notice it.
NOTICED = {"no-expiry": "8", "no-loss": "8", "unsaid": "10", "twice": "9", "unreported": "9"}


def break_consumer(consumer: Consumer, rule: str | None) -> None:
    """Let one consumer break a rule."""
    delegate: Any = consumer.delegate
    fetcher: Any = delegate.fetcher
    if rule == "no-expiry":
        fetcher.drop_expired = lambda: None
    elif rule == "no-loss":
        lose = fetcher._lose

        def keep(session: Any, error: Any) -> None:
            kept = fetcher.buffer.copy()
            lose(session, error)
            fetcher.buffer = kept

        fetcher._lose = keep
    elif rule == "unsaid":
        delegate.give_back = lambda unyielded: None
    elif rule == "twice":
        outcome = fetcher._on_outcome

        def again(queued: Any, error: Any) -> None:
            outcome(queued, error)
            if error is not None:
                outcome(queued, error)

        fetcher._on_outcome = again
    elif rule == "unreported":
        finish = fetcher._finish
        fetcher._finish = lambda queued, error, *when: None if error is not None else finish(queued, error, *when)
