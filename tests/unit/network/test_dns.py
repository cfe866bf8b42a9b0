"""Resolving names."""

from __future__ import annotations

import socket
import threading

import pytest

from pyconsumer.network.dns import Endpoint, Lookup, NameService, resolve


def endpoint(host: str, port: int = 1) -> Endpoint:
    return Endpoint(socket.AF_INET, (host, port), "name")


def take(names: NameService, woken: threading.Semaphore, count: int = 1) -> list[Lookup]:
    found: list[Lookup] = []
    while len(found) < count:
        assert woken.acquire(timeout=60)
        found += names.take()
    return found


def test_an_address_needs_no_thread() -> None:
    def never(host: str, port: int, canonical: bool) -> list[Endpoint]:
        raise AssertionError

    names = NameService(lambda: None, never)
    four, six = names.start("10.1.2.3", 9092, "owner"), names.start("::1", 9093, "owner")
    assert four.done
    assert four.at_once
    assert four.endpoints == [Endpoint(socket.AF_INET, ("10.1.2.3", 9092), "10.1.2.3")]
    assert six.endpoints == [Endpoint(socket.AF_INET6, ("::1", 9093, 0, 0), "::1")]
    assert str(six.endpoints[0]) == "[::1]:9093"
    assert names.take() == []


def test_a_name_is_resolved_in_a_thread_that_wakes_the_owner() -> None:
    woken = threading.Semaphore(0)
    addresses = [endpoint("10.0.0.1"), endpoint("10.0.0.2")]
    names = NameService(woken.release, lambda host, port, canonical: addresses)
    lookup = names.start("broker.example", 1, "owner")
    assert take(names, woken) == [lookup]
    assert lookup.done
    assert not lookup.at_once
    assert lookup.endpoints == addresses
    assert lookup.error is None


@pytest.mark.parametrize("failure", [OSError(-2, "Name or service not known"), UnicodeError("label too long"), None])
def test_a_name_without_an_address_is_an_error_with_the_stage(failure: Exception | None) -> None:
    def resolver(host: str, port: int, canonical: bool) -> list[Endpoint]:
        if failure is not None:
            raise failure
        return []

    lookup = Lookup("broker.example", 9092, None)
    lookup.finish(resolver, False)
    assert lookup.error is not None
    assert lookup.error.stage == "DNS"
    assert lookup.error.address == "broker.example:9092"
    assert "broker.example:9092" in str(lookup.error)


def test_one_name_server_that_hangs_delays_no_other_name() -> None:
    woken, hang = threading.Semaphore(0), threading.Event()

    def resolver(host: str, port: int, canonical: bool) -> list[Endpoint]:
        if host == "slow.example":
            hang.wait(10)
        return [endpoint("10.0.0.1")]

    names = NameService(woken.release, resolver)
    slow = names.start("slow.example", 1, None)
    fast = names.start("fast.example", 1, None)
    assert take(names, woken) == [fast]
    assert not slow.done
    hang.set()
    assert take(names, woken) == [slow]


def test_the_system_resolves_localhost() -> None:
    found = resolve("localhost", 9092)
    assert found
    assert {item.sockaddr[0] for item in found} <= {"127.0.0.1", "::1"}
    assert {item.host for item in found} == {"localhost"}


def test_canonical_names_are_found_by_reverse_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    info = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"10.0.0.{n}", 9092)) for n in (1, 2)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: [*info, info[0]])

    def reverse(sockaddr: tuple[str, int], flags: int) -> tuple[str, str]:
        if sockaddr[0] == "10.0.0.2":
            raise OSError("unknown")
        return "kafka-1.example", "9092"

    monkeypatch.setattr(socket, "getnameinfo", reverse)
    assert [item.host for item in resolve("kafka.example", 9092, True)] == ["kafka-1.example", "kafka.example"]
    assert [item.host for item in resolve("kafka.example", 9092)] == ["kafka.example", "kafka.example"]
