"""The registry's calls without a socket: their requests, the cache, and calls that several callers share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.schemas import (
    Metadata,
    MetadataProperties,
    RegisteredSchema,
    Rule,
    RuleMode,
    RuleSet,
    Schema,
    SchemaNotFoundError,
    SchemaReference,
    SchemaRegistryError,
    SchemaRegistryTimeoutError,
    ServerConfig,
)
from pyconsumer.schemas.registry.cache import SchemaCache
from pyconsumer.schemas.registry.exchange import Attempt, Exchange, HttpRequest, HttpResponse, Join, Steps
from pyconsumer.schemas.registry.requests import RegistryCalls
from pyconsumer.schemas.registry.settings import RegistrySettings
from tests.support.make_async_registry import COMMAND, PATH, module

_STRING = Schema('"string"')


class _Client:
    """Calls with a registry that answers from a mapping of ``METHOD path`` to status and JSON."""

    def __init__(self, answers: Mapping[str, tuple[int, Any]], **conf: Any) -> None:
        self.clock = ManualClock()
        settings = RegistrySettings.of({"url": "http://a", "max.retries": 0, **conf})
        self.cache = SchemaCache(settings.cache_capacity, self.clock)
        self.calls = RegistryCalls(settings, Exchange(settings, self.clock, lambda: 1.0), self.cache, self.clock)
        self.answers = dict(answers)
        self.requests: list[HttpRequest] = []

    def answer(self, step: Attempt) -> HttpResponse:
        self.requests.append(step.request)
        status, body = self.answers[f"{step.request.method} {step.request.path}"]
        return HttpResponse(status, {}, json.dumps(body).encode())

    def run(self, name: str, *args: Any) -> Any:
        steps = getattr(self.calls, name)(self.clock.now() + 30, *args)
        answer: HttpResponse | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as stop:
                return stop.value
            assert isinstance(step, Attempt)
            answer = self.answer(step)

    def begin(self, name: str, *args: Any, timeout_s: float = 30) -> Steps[Any]:
        steps: Steps[Any] = getattr(self.calls, name)(self.clock.now() + timeout_s, *args)
        return steps


def _ended(steps: Iterator[Any], answer: HttpResponse | None = None) -> Any:
    try:
        step = steps.send(answer)  # type: ignore[attr-defined]
    except StopIteration as stop:
        return stop.value
    raise AssertionError(f"the call has another step: {step}")


_NOT_FOUND = (404, {"error_code": 40403, "message": "Schema not found"})


def test_a_schema_is_requested_once_and_kept() -> None:
    client = _Client({"GET /schemas/ids/1": (200, {"schema": '"string"', "guid": "AB"})})
    for _ in range(3):
        assert client.run("get_schema", 1, None, None, None) == _STRING
        client.clock.advance(1e6)
    assert len(client.requests) == 1
    assert client.calls.peek_schema(1) == _STRING
    assert client.run("get_schema_by_guid", "ab", None) == _STRING, "the answer had the GUID"
    assert len(client.requests) == 1


def test_ids_belong_to_the_context_of_their_subject() -> None:
    client = _Client({"GET /schemas/ids/1": (200, {"schema": '"int"'})})
    client.run("get_schema", 1, "a-value", None, None)
    client.run("get_schema", 1, "b-value", None, None)
    assert len(client.requests) == 1
    client.run("get_schema", 1, ":.test:a-value", None, None)
    client.run("get_schema", 1, ":.test:b-value", None, None)
    assert [request.query for request in client.requests] == [
        (("subject", "a-value"),),
        (("subject", ":.test:a-value"),),
    ]
    assert client.calls.peek_schema(1, ":.other:a") is None


def test_a_missing_schema_is_asked_for_again_after_a_second() -> None:
    client = _Client({"GET /schemas/ids/1": _NOT_FOUND})
    for _ in range(2):
        with pytest.raises(SchemaNotFoundError):
            client.run("get_schema", 1, None, None, None)
    assert len(client.requests) == 1
    client.clock.advance(1.0)
    client.answers["GET /schemas/ids/1"] = (200, {"schema": '"string"'})
    assert client.run("get_schema", 1, None, None, None) == _STRING


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"ruleSet": {"domainRules": [1]}}, "a rule of domainRules is an object, not int"),
        ({"ruleSet": {"domainRules": 1}}, "domainRules is a list, not int"),
        ({"ruleSet": {"domainRules": [{"params": [1]}]}}, "RuleParams is an object, not list"),
        ({"ruleSet": 7}, "ruleSet is an object, not int"),
        ({"references": 5}, "references is a list, not int"),
        ({"references": ["a"]}, "a reference is an object, not str"),
        ({"references": [{"name": "a", "subject": "a", "version": "x"}]}, "version of a reference is a whole number"),
        ({"metadata": "m"}, "metadata is an object, not str"),
        ({"metadata": {"properties": 1}}, "MetadataProperties is an object, not int"),
        ({"guid": 5}, "guid is text, not int"),
    ],
    ids=str,
)
def test_a_response_of_another_form_is_an_error_that_names_it(body: Any, message: str) -> None:
    client = _Client({"GET /schemas/ids/1": (200, {"schema": '"int"', **body})})
    with pytest.raises(SchemaRegistryError, match=message):
        client.run("get_schema", 1, None, None, None)


@pytest.mark.parametrize(
    ("name", "args", "place"),
    [
        ("get_subjects", (None, False, False, 0, -1), "GET /subjects"),
        ("get_schema_versions", (1, None, False, 0, -1), "GET /schemas/ids/1/versions"),
        ("delete_version", ("a", 1, False), "DELETE /subjects/a/versions/1"),
        ("get_compatibility", (None,), "GET /config"),
        ("get_mode", (None,), "GET /mode"),
    ],
)
def test_a_response_of_another_type_is_an_error_of_the_registry(name: str, args: Any, place: str) -> None:
    for body in (None, {"x": 1}):
        with pytest.raises(SchemaRegistryError, match=r"where a .* was expected|has no|is NoneType"):
            _Client({place: (200, body)}).run(name, *args)


@pytest.mark.parametrize("body", [{}, {"schema": None}, {"schema": 5}])
def test_an_answer_without_the_text_of_the_schema_is_refused_and_not_kept(body: Any) -> None:
    client = _Client({"GET /schemas/ids/1": (200, body), "GET /schemas/guids/ab": (200, body)})
    for name, *args in (("get_schema", 1, None, None, None), ("get_schema_by_guid", "ab", None)):
        with pytest.raises(SchemaRegistryError, match=r"text of the schema|schema is text"):
            client.run(name, *args)
    assert client.calls.peek_schema(1) is None


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_other_errors_are_not_kept(status: int) -> None:
    client = _Client({"GET /schemas/ids/1": (status, {"error_code": status, "message": "no"})})
    for _ in range(2):
        with pytest.raises(SchemaRegistryError, match="no"):
            client.run("get_schema", 1, None, None, None)
    assert len(client.requests) == 2


def test_the_latest_version_is_kept_for_its_time() -> None:
    place = "GET /subjects/a-value/versions/latest"
    client = _Client({place: (200, {"subject": "a-value", "version": 1, "id": 7, "schema": '"string"'})})
    first = client.run("get_latest_version", "a-value", None)
    client.answers[place] = (200, {"subject": "a-value", "version": 2, "id": 8, "schema": '"int"'})
    client.clock.advance(59)
    assert client.run("get_latest_version", "a-value", None) == first
    client.clock.advance(1)
    assert client.run("get_latest_version", "a-value", None).version == 2
    assert client.run("get_version", "a-value", "latest", False, None).version == 2
    assert len(client.requests) == 3, "get_version('latest') always asks"
    client.calls.clear_latest_caches()
    client.run("get_latest_version", "a-value", None)
    assert len(client.requests) == 4
    assert client.calls.peek_schema(8) == Schema('"int"')


def test_a_registration_of_ours_makes_the_latest_version_old() -> None:
    client = _Client(
        {
            "GET /subjects/a/versions/latest": (200, {"subject": "a", "version": 1, "id": 1, "schema": '"int"'}),
            "POST /subjects/a/versions": (200, {"id": 2}),
        }
    )
    client.run("get_latest_version", "a", None)
    assert client.run("register_schema", "a", _STRING, False) == 2
    assert client.run("register_schema", "a", _STRING, False) == 2, "from the cache"
    client.run("get_latest_version", "a", None)
    assert [request.method for request in client.requests] == ["GET", "POST", "GET"]


def test_a_deletion_of_ours_forgets_what_was_kept_of_the_subject() -> None:
    client = _Client({"POST /subjects/a/versions": (200, {"id": 2}), "DELETE /subjects/a": (200, [1])})
    client.run("register_schema", "a", _STRING, True)
    assert client.run("delete_subject", "a", False) == [1]
    client.run("register_schema", "a", _STRING, True)
    assert [request.method for request in client.requests] == ["POST", "DELETE", "POST"]


def test_callers_at_the_same_time_share_one_request() -> None:
    client = _Client({"GET /schemas/ids/1": (200, {"schema": '"string"'})})
    leader = client.begin("get_schema", 1, None, None, None)
    attempt = next(leader)
    others = [client.begin("get_schema", 1, None, None, None) for _ in range(3)]
    assert all(isinstance(next(other), Join) for other in others)
    assert isinstance(attempt, Attempt)
    assert _ended(leader, client.answer(attempt)) == _STRING
    assert [_ended(other) for other in others] == [_STRING] * 3
    assert len(client.requests) == 1


def test_callers_that_share_a_request_share_its_error() -> None:
    client = _Client({"GET /schemas/ids/1": (503, {"error_code": 50001, "message": "store"})})
    leader = client.begin("get_schema", 1, None, None, None)
    attempt, other = next(leader), client.begin("get_schema", 1, None, None, None)
    next(other)
    assert isinstance(attempt, Attempt)
    errors = []
    for steps, answer in ((leader, client.answer(attempt)), (other, None)):
        with pytest.raises(SchemaRegistryError, match="store") as caught:
            steps.send(answer)
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    assert len(client.requests) == 1


def test_a_caller_with_more_time_asks_again_when_the_first_has_none_left() -> None:
    client = _Client({"GET /schemas/ids/1": (200, {"schema": '"string"'})})
    leader = client.begin("get_schema", 1, None, None, None, timeout_s=1)
    next(leader)
    other = client.begin("get_schema", 1, None, None, None, timeout_s=30)
    next(other)
    client.clock.advance(1)
    with pytest.raises(SchemaRegistryTimeoutError):
        leader.send(HttpResponse(503, {}, b"{}"))
    attempt = next(other)
    assert isinstance(attempt, Attempt)
    assert _ended(other, client.answer(attempt)) == _STRING


def test_a_caller_that_gives_up_leaves_the_call_to_another() -> None:
    client = _Client({"GET /schemas/ids/1": (200, {"schema": '"string"'})})
    leader = client.begin("get_schema", 1, None, None, None)
    next(leader)
    other = client.begin("get_schema", 1, None, None, None)
    next(other)
    leader.close()
    attempt = next(other)
    assert isinstance(attempt, Attempt)
    assert _ended(other, client.answer(attempt)) == _STRING


def test_a_caller_waits_for_another_no_longer_than_its_own_time() -> None:
    client = _Client({})
    leader = client.begin("get_schema", 1, None, None, None)
    next(leader)
    other = client.begin("get_schema", 1, None, None, None, timeout_s=2)
    step = next(other)
    assert isinstance(step, Join)
    assert step.seconds == 2
    client.clock.advance(2)
    with pytest.raises(SchemaRegistryTimeoutError, match="another call for id"):
        next(other)


def test_names_are_quoted_in_paths_and_queries_are_not() -> None:
    client = _Client({"GET /subjects/a%2Fb%20%3F-value/versions": (200, [1])})
    assert client.run("get_versions", "a/b ?-value", True, False, 0, -1) == [1]
    assert client.requests[0].query == (
        ("deleted", "true"),
        ("deletedOnly", "false"),
        ("offset", "0"),
        ("limit", "-1"),
    )


def test_a_schema_is_sent_with_all_its_parts() -> None:
    schema = Schema(
        "x",
        "PROTOBUF",
        [SchemaReference("a.proto", "a", 3)],
        Metadata(None, MetadataProperties({"owner": "me"}), ["owner"]),
        RuleSet(domain_rules=[Rule(name="r", mode=RuleMode.WRITE, type="CEL", expr="true", disabled=False)]),
    )
    client = _Client(
        {"POST /subjects/a": (200, {"subject": "a", "id": 1, "version": 2, "guid": "g", **schema.to_dict()})}
    )
    found = client.run("lookup_schema", "a", schema, False, None, False)
    assert found == RegisteredSchema("a", 2, 1, "g", schema)
    assert json.loads(client.requests[0].body or b"") == {
        "schema": "x",
        "schemaType": "PROTOBUF",
        "references": [{"name": "a.proto", "subject": "a", "version": 3}],
        "metadata": {"properties": {"owner": "me"}, "sensitive": ["owner"]},
        "ruleSet": {"domainRules": [{"name": "r", "mode": "WRITE", "type": "CEL", "expr": "true", "disabled": False}]},
    }
    assert RegisteredSchema.from_dict(found.to_dict()) == found


def test_equal_schemas_have_equal_hashes() -> None:
    one, two = (Schema("x", references=[SchemaReference("a", "b", 1)]) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != Schema("x")


def test_a_setting_that_the_registry_adds_is_ignored() -> None:
    found = ServerConfig.from_dict({"compatibilityLevel": "NEWEST", "more": 1, "normalize": True})
    assert (found.compatibility_level, found.normalize) == ("NEWEST", True)


def test_a_response_of_another_shape_is_an_error() -> None:
    client = _Client({"GET /schemas/ids/1": (200, ["x"])})
    with pytest.raises(SchemaRegistryError, match="list where an object was expected"):
        client.run("get_schema", 1, None, None, None)


def test_reasons_are_returned_even_if_the_registry_gives_none() -> None:
    place = "POST /compatibility/subjects/a/versions"
    client = _Client({place: (200, {"is_compatible": False})})
    assert client.run("incompatibilities", "a", _STRING, None, False, True) == ["the registry gave no reason"]
    client.answers[place] = (200, {"is_compatible": True})
    assert client.run("incompatibilities", "a", _STRING, None, False, True) == []


def test_the_client_for_asyncio_is_made_from_the_blocking_one() -> None:
    assert PATH.read_text(encoding="utf-8") == module(), f"run {COMMAND}"


def test_urllib3_is_imported_in_one_module() -> None:
    package = PATH.parents[2]
    users = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"^\s*(import|from) urllib3\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert users == {"schemas/registry/http.py"}
