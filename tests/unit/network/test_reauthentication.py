"""Authenticating again (KIP-368) while requests are in flight."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pyconsumer.errors import KafkaConnectionError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.channel import Channel, ChannelSettings, LoginSignal
from pyconsumer.network.client_requests import CompletedRequests, Request, UnsentRequests
from pyconsumer.network.connection import Connection, State
from pyconsumer.network.connection_pool import ConnectionPool
from pyconsumer.network.dns import NameService
from pyconsumer.network.sasl import Plain
from pyconsumer.protocol.api import encode_response
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pyconsumer.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from pyconsumer.protocol.messages.sasl_handshake import SaslHandshakeResponse
from tests.unit.network.broker import api_versions_response


class Nothing:
    """A stub of a selector and a socket. Written bytes are dropped."""

    def register(self, *_: object) -> None: ...

    modify = unregister = register

    def sendmsg(self, pieces: list[memoryview]) -> int:
        return sum(map(len, pieces))

    def close(self) -> None: ...


class Bench:
    """One connection of a pool, set up, whose session is due for renewal. The clock is ``now``."""

    def __init__(self) -> None:
        nothing: Any = Nothing()
        settings = ChannelSettings(LoginSignal(), itertools.count(), sasl=lambda _: Plain("u", "p"))
        names = NameService(lambda: None)
        self.completed = CompletedRequests()
        self.pool = ConnectionPool(
            settings,
            nothing,
            names,
            UnsentRequests(self.completed),
            self.completed,
            where=lambda node: None,
            on_lost=lambda node, error, now: None,
            request_timeout=30.0,
            max_idle=540.0,
            reconnect=Backoff(0.05, 1.0),
            setup=Backoff(10.0, 30.0),
            max_in_flight=None,
            canonical_bootstrap=False,
        )
        self.node = self.pool.node(1, "coordinator")
        lookup = names.start("127.0.0.1", 9092, self.node, canonical=False)
        channel = self.node.channel = Channel(
            "b:9092", self.node, lookup, settings, nothing, self.pool.stats, handshake_timeout=30.0
        )
        channel._socket, channel._events = nothing, 1
        self.connection = channel.connection = Connection("b:9092", sasl=lambda: Plain("u", "p"))
        self.now = 0.0
        self.connection.connected(0.0)
        self.answer(api_versions_response())
        self.answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))
        self.answer(SaslAuthenticateResponse(session_lifetime_ms=3_600_000))
        self.connection.wrote(sum(map(len, self.connection.output())))
        self.now = self.connection.reauthenticate_at - 10

    def answer(self, message: Any) -> None:
        """The response to the oldest request in flight."""
        asked = self.connection.in_flight[0]
        data = b"".join(encode_response(message, asked.api_version, asked.correlation_id))
        buffer = self.connection.buffer()
        buffer[: len(data)] = data
        buffer.release()
        replies = self.connection.received(len(data), self.now)
        self.pool._received(self.node, replies, self.now)
        self.completed.fire()

    def send(self, timeout: float) -> Request:
        request = Request(11, JoinGroupRequest(group_id="g"), self.now, timeout, 0, None, True)
        self.pool.enqueue(self.node, request)
        self.turn(0.0)
        return request

    def turn(self, seconds: float) -> None:
        self.now += seconds
        self.pool.mark(self.node)
        self.pool.turn(self.now)
        self.completed.fire()


def test_a_request_that_waits_at_the_broker_does_not_end_the_connection() -> None:
    bench = Bench()
    join = bench.send(305.0)
    bench.turn(11.0)
    assert bench.connection.state is State.REAUTHENTICATING
    for _ in range(28):
        bench.turn(10.0)
        assert not join.future.done
    bench.answer(JoinGroupResponse())
    assert join.future.succeeded
    bench.turn(29.0)  # from here on the broker is to answer
    bench.answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    bench.answer(SaslAuthenticateResponse(session_lifetime_ms=3_600_000))
    assert bench.connection.ready


def test_a_broker_that_does_not_answer_the_renewal_is_given_up() -> None:
    bench = Bench()
    join = bench.send(100.0)
    bench.turn(11.0)
    bench.turn(20.0)
    bench.answer(JoinGroupResponse())
    assert join.future.succeeded
    bench.turn(29.0)
    assert bench.node.channel is not None
    bench.turn(2.0)
    assert bench.node.channel is None


def test_a_request_that_waits_at_the_broker_keeps_its_own_deadline() -> None:
    bench = Bench()
    join = bench.send(100.0)
    for _ in range(11):
        bench.turn(10.0)
    with pytest.raises(KafkaConnectionError, match="no response to JOIN_GROUP"):
        join.future.result()
