"""The REST API of a Schema Registry, on ours and on those of others that judge it.

Each test names the registries that can judge it. Those of others need Go, Java and the network: ``tox -e registries``.
"""

from __future__ import annotations

import itertools
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyconsumer.schemas import (
    ConfigCompatibilityLevel,
    IncompatibleSchemaError,
    InvalidSchemaError,
    Schema,
    SchemaNotFoundError,
    SchemaReference,
    SchemaRegistryClient,
    SchemaVersion,
)
from tests.support.registries import KINDS, OTHER_REGISTRIES, OnALoop, Registries

pytestmark = [
    pytest.mark.embedded_only(reason="the registry is part of the embedded cluster"),
    *([pytest.mark.timeout(900)] if OTHER_REGISTRIES else []),  # they are fetched first
]

_OURS, _SRFAKE, _APICURIO = "embedded", "srfake", "apicurio"
_BOTH = (_SRFAKE, _APICURIO)
_NUMBERS = itertools.count(1)
_JSON = '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}'
_PROTO = 'syntax = "proto3";\n\nmessage A {\n  int32 a = 1;\n}\n'


def judged_by(*names: str) -> pytest.MarkDecorator:
    """Mark a test with the other registries that follow Confluent's documentation in it."""
    kinds = [kind for kind in KINDS if kind == _OURS or (OTHER_REGISTRIES and kind.partition("-")[0] in names)]
    return pytest.mark.parametrize("kind", kinds)


@pytest.fixture(scope="module")
def registries() -> Iterator[Registries]:
    found = Registries()
    yield found
    found.close()


@pytest.fixture
def url(registries: Registries, kind: str) -> str:
    return registries.url(kind)


@pytest.fixture(params=[SchemaRegistryClient, OnALoop], ids=["blocking", "asyncio"])
def client(url: str, request: pytest.FixtureRequest) -> Iterator[SchemaRegistryClient]:
    made = request.param(url)
    yield made
    made.close()


@pytest.fixture
def subject() -> str:
    return f"judged-{next(_NUMBERS)}-value"


@pytest.fixture
def level(client: SchemaRegistryClient, subject: str) -> str:
    """A subject with a level, as Apicurio's default is another one."""
    client.set_compatibility(subject, ConfigCompatibilityLevel.BACKWARD)
    return subject


def _record(name: str, *fields: str) -> Schema:
    """A schema that no other test has."""
    found = [json.loads(field) for field in fields]
    return Schema(json.dumps({"type": "record", "name": name, "fields": found}))


def _new(*fields: str) -> Schema:
    return _record(f"R{next(_NUMBERS)}", *fields)


def _same(one: Schema | None, two: Schema | None) -> bool:
    """Whether two schemas are equal. A registry may send the text as it came, or without its spaces."""
    assert one is not None
    assert two is not None
    assert one.schema_str is not None
    assert two.schema_str is not None
    return (json.loads(one.schema_str), one.schema_type) == (json.loads(two.schema_str), two.schema_type)


def _ask(url: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Make a request without our client. Returns the status and the JSON of the answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data, method=method)
    request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


# --- schemas and versions


@judged_by(*_BOTH)
def test_a_schema_is_registered_and_found(client: SchemaRegistryClient, subject: str) -> None:
    schema = _new()
    schema_id = client.register_schema(subject, schema)
    found = client.lookup_schema(subject, schema)
    assert (found.subject, found.version, found.schema_id) == (subject, 1, schema_id)
    assert _same(found.schema, schema)
    assert _same(client.get_schema(schema_id), schema)
    for version in (client.get_latest_version(subject), client.get_version(subject, 1)):
        assert (version.subject, version.version, version.schema_id) == (subject, 1, schema_id)
        assert _same(version.schema, schema)
    assert client.get_versions(subject) == [1]
    assert subject in client.get_subjects()
    assert client.get_subjects_by_schema_id(schema_id) == [subject]
    assert client.get_schema_versions(schema_id) == [SchemaVersion(subject, 1)]
    assert client.register_schema(subject, schema) == schema_id
    assert client.get_versions(subject) == [1]


@judged_by(*_BOTH)
def test_the_answers_of_registrations(url: str, subject: str) -> None:
    schema = {"schema": _new().schema_str}
    status, answer = _ask(url, "POST", f"/subjects/{subject}/versions", schema)
    assert status == 200
    schema_id = answer["id"]
    status, answer = _ask(url, "POST", f"/subjects/{subject}", schema)
    assert (status, answer["subject"], answer["version"], answer["id"]) == (200, subject, 1, schema_id)
    assert json.loads(answer["schema"]) == json.loads(schema["schema"] or "")
    status, answer = _ask(url, "GET", f"/subjects/{subject}/versions/latest")
    assert (status, answer["subject"], answer["version"], answer["id"]) == (200, subject, 1, schema_id)
    status, answer = _ask(url, "GET", f"/schemas/ids/{schema_id}")
    assert (status, json.loads(answer["schema"])) == (200, json.loads(schema["schema"] or ""))
    assert answer.get("schemaType", "AVRO") == "AVRO"
    assert _ask(url, "GET", f"/subjects/{subject}/versions") == (200, [1])
    assert _ask(url, "GET", f"/subjects/{subject}/versions/1/referencedby") == (200, [])


@judged_by(_APICURIO)
def test_the_text_of_a_schema_alone(url: str, subject: str) -> None:
    schema = {"schema": _new().schema_str}
    _, answer = _ask(url, "POST", f"/subjects/{subject}/versions", schema)
    text = json.loads(schema["schema"] or "")
    assert _ask(url, "GET", f"/subjects/{subject}/versions/1/schema") == (200, text)
    assert _ask(url, "GET", f"/schemas/ids/{answer['id']}/schema") == (200, text)


@judged_by(*_BOTH)
def test_one_schema_has_one_id_in_all_subjects(client: SchemaRegistryClient, subject: str) -> None:
    schema, other = _new(), _new()
    schema_id = client.register_schema(subject, schema)
    assert client.register_schema(f"{subject}-2", other) != schema_id
    client.set_compatibility(f"{subject}-2", "NONE")
    assert client.register_schema(f"{subject}-2", schema) == schema_id
    assert sorted(client.get_subjects_by_schema_id(schema_id)) == [subject, f"{subject}-2"]
    found = client.get_schema_versions(schema_id)
    assert set(found) == {SchemaVersion(subject, 1), SchemaVersion(f"{subject}-2", 2)}


@judged_by(*_BOTH)
def test_spaces_and_the_order_of_attributes_make_no_new_schema(client: SchemaRegistryClient, subject: str) -> None:
    name = f"R{next(_NUMBERS)}"
    schema_id = client.register_schema(subject, Schema(f'{{"type": "record", "name": "{name}", "fields": []}}'))
    again = Schema(f'{{"name":"{name}",\n  "type":"record","fields":[ ]}}')
    assert client.register_schema(subject, again) == schema_id
    assert client.get_versions(subject) == [1]


@judged_by(_SRFAKE)
def test_guids(client: SchemaRegistryClient, subject: str) -> None:
    schema = _new()
    client.register_schema(subject, schema)
    guid = client.get_latest_version(subject).guid
    assert guid is not None
    assert _same(client.get_schema_by_guid(guid), schema)
    client.clear_caches()
    assert client.peek_schema_by_guid(guid) is None
    assert _same(client.fetch_schema_by_guid(guid).result(30), schema)
    client.register_schema(f"{subject}-2", schema)
    assert client.get_latest_version(f"{subject}-2").guid == guid


@judged_by(*_BOTH)
def test_a_future_has_a_schema_without_waiting(client: SchemaRegistryClient, subject: str) -> None:
    schema = _new()
    schema_id = client.register_schema(subject, schema)
    client.clear_caches()
    assert client.peek_schema(schema_id) is None
    assert _same(client.fetch_schema(schema_id).result(30), schema)
    assert _same(client.peek_schema(schema_id), schema)
    with pytest.raises(SchemaNotFoundError):
        client.fetch_schema(1_000_000).result(30)


@judged_by(*_BOTH)
def test_names_with_any_characters(client: SchemaRegistryClient, subject: str) -> None:
    name = f"{subject}/ä?&#%20 +:"
    client.register_schema(name, _new())
    assert client.get_versions(name) == [1]
    assert name in client.get_subjects()
    assert client.get_latest_version(name).subject == name


@judged_by(*_BOTH)
@pytest.mark.parametrize(("schema_type", "text"), [("JSON", _JSON), ("PROTOBUF", _PROTO)])
def test_other_formats_are_kept(client: SchemaRegistryClient, subject: str, schema_type: str, text: str) -> None:
    schema = Schema(text, schema_type)
    schema_id = client.register_schema(subject, schema)
    assert client.get_schema(schema_id) == schema
    assert client.get_latest_version(subject).schema == schema


@judged_by(*_BOTH)
def test_clients_that_register_at_once_get_one_id(url: str, subject: str) -> None:
    clients = [SchemaRegistryClient(url) for _ in range(8)]
    start, schema = threading.Barrier(len(clients)), _new()

    def register(client: SchemaRegistryClient) -> int:
        start.wait(30)
        return client.register_schema(subject, schema)

    with ThreadPoolExecutor(len(clients)) as pool:
        assert len(set(pool.map(register, clients))) == 1
    assert clients[0].get_versions(subject) == [1]
    for client in clients:
        client.close()


@judged_by(_APICURIO)
def test_the_types_of_schemas(client: SchemaRegistryClient) -> None:
    assert sorted(client.get_schema_types()) == ["AVRO", "JSON", "PROTOBUF"]


@judged_by(_SRFAKE)
def test_contexts(client: SchemaRegistryClient, subject: str) -> None:
    context = f".c{next(_NUMBERS)}"
    client.register_schema(f":{context}:{subject}", _new())
    assert context in client.get_contexts()
    assert "." in client.get_contexts()
    assert f":{context}:{subject}" in client.get_subjects()


# --- references


def _pair(subject: str) -> tuple[Schema, Schema]:
    """Return a new schema, and one that refers to it as the first version of a subject."""
    name = f"E{next(_NUMBERS)}"
    outer = Schema(
        f'{{"type":"record","name":"{name}R","fields":[{{"name":"e","type":"{name}"}}]}}',
        references=[SchemaReference(name, subject, 1)],
    )
    return Schema(f'{{"type":"enum","name":"{name}","symbols":["A"]}}'), outer


@judged_by(*_BOTH)
def test_references(client: SchemaRegistryClient, subject: str) -> None:
    inner, outer = _pair(f"{subject}-e")
    client.register_schema(f"{subject}-e", inner)
    schema_id = client.register_schema(subject, outer)
    assert client.get_schema(schema_id).references == outer.references
    assert client.get_latest_version(subject).schema.references == outer.references
    assert client.lookup_schema(subject, outer).schema_id == schema_id
    assert client.get_referenced_by(f"{subject}-e", 1) == [schema_id]


@judged_by(*_BOTH)
def test_a_reference_must_exist(client: SchemaRegistryClient, subject: str) -> None:
    _, outer = _pair(f"{subject}-none")
    with pytest.raises(InvalidSchemaError) as caught:
        client.register_schema(subject, outer)
    assert (caught.value.http_status_code, caught.value.error_code) == (422, 42201)


@judged_by(_APICURIO)
def test_a_referenced_schema_is_not_deleted(client: SchemaRegistryClient, subject: str) -> None:
    inner, outer = _pair(f"{subject}-e")
    client.register_schema(f"{subject}-e", inner)
    client.register_schema(subject, outer)
    for delete in (lambda: client.delete_subject(f"{subject}-e"), lambda: client.delete_version(f"{subject}-e", 1)):
        with pytest.raises(InvalidSchemaError) as caught:
            delete()
        assert (caught.value.http_status_code, caught.value.error_code) == (422, 42206)
    assert client.delete_subject(subject) == [1]
    assert client.delete_subject(subject, permanent=True) == [1]
    assert client.delete_subject(f"{subject}-e") == [1]


# --- compatibility


_WITH_ID = '{"name":"id","type":"long"}'
_WITH_NAME = '{"name":"name","type":"string"}'
_WITH_DEFAULT = '{"name":"name","type":"string","default":""}'


@judged_by(_APICURIO)
@pytest.mark.parametrize(
    ("level_name", "with_default", "without_default", "fewer"),
    [
        ("NONE", True, True, True),
        ("BACKWARD", True, False, True),
        ("FORWARD", True, True, False),
        ("FULL", True, False, False),
        ("BACKWARD_TRANSITIVE", True, False, True),
        ("FORWARD_TRANSITIVE", True, True, False),
        ("FULL_TRANSITIVE", True, False, False),
    ],
)
def test_levels(
    client: SchemaRegistryClient, subject: str, level_name: str, with_default: bool, without_default: bool, fewer: bool
) -> None:
    client.set_compatibility(subject, level_name)
    client.register_schema(subject, _record("R", _WITH_ID))
    assert client.test_compatibility(subject, _record("R", _WITH_ID, _WITH_DEFAULT)) == with_default
    assert client.test_compatibility(subject, _record("R", _WITH_ID, _WITH_NAME)) == without_default
    assert client.test_compatibility(subject, _record("R")) == fewer


@judged_by(_APICURIO)
def test_transitive_levels_look_at_all_versions(client: SchemaRegistryClient, subject: str) -> None:
    first, second = _record("R", _WITH_ID, _WITH_NAME), _record("R", _WITH_ID)
    third = _record("R", _WITH_ID, '{"name":"name","type":"int","default":0}')
    client.set_compatibility(subject, "BACKWARD")
    client.register_schema(subject, first)
    client.register_schema(subject, second)
    assert client.test_compatibility(subject, third)
    client.set_compatibility(subject, "BACKWARD_TRANSITIVE")
    with pytest.raises(IncompatibleSchemaError):
        client.register_schema(subject, third)
    client.set_compatibility(subject, "BACKWARD")
    client.register_schema(subject, third)
    assert client.get_versions(subject) == [1, 2, 3]


@judged_by(_APICURIO)
def test_an_incompatible_schema_is_not_registered(client: SchemaRegistryClient, level: str) -> None:
    client.register_schema(level, _record("R", _WITH_ID))
    with pytest.raises(IncompatibleSchemaError) as caught:
        client.register_schema(level, _record("R", _WITH_ID, _WITH_NAME))
    assert (caught.value.http_status_code, caught.value.error_code) == (409, 409)
    assert client.get_versions(level) == [1]


@judged_by(_APICURIO)
def test_the_levels_of_subjects(client: SchemaRegistryClient, subject: str) -> None:
    with pytest.raises(SchemaNotFoundError):
        client.get_compatibility(subject)
    assert client.set_compatibility(subject, ConfigCompatibilityLevel.FULL) == "FULL"
    assert client.get_compatibility(subject) == "FULL"
    client.delete_config(subject)
    with pytest.raises(SchemaNotFoundError):
        client.get_compatibility(subject)


@judged_by(_SRFAKE)
def test_the_default_level(url: str) -> None:
    assert _ask(url, "GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})


@judged_by(*_BOTH)
def test_the_level_of_all_subjects(url: str, subject: str) -> None:
    _ask(url, "POST", f"/subjects/{subject}/versions", _INT)
    _, before = _ask(url, "GET", "/config")
    try:
        status, answer = _ask(url, "PUT", "/config", {"compatibility": "FULL"})
        assert (status, answer["compatibility"]) == (200, "FULL")
        assert _ask(url, "GET", "/config")[1]["compatibilityLevel"] == "FULL"
        path = f"/config/{subject}?defaultToGlobal=true"
        assert _ask(url, "GET", path)[1]["compatibilityLevel"] == "FULL"
    finally:
        _ask(url, "PUT", "/config", {"compatibility": before["compatibilityLevel"]})


# --- modes


@judged_by(*_BOTH)
def test_the_mode_of_the_registry(client: SchemaRegistryClient) -> None:
    assert client.get_global_mode() == "READWRITE"


@judged_by(_SRFAKE)
def test_the_modes_of_subjects(client: SchemaRegistryClient, subject: str) -> None:
    assert client.update_mode(subject, "READONLY") == "READONLY"
    assert client.get_mode(subject) == "READONLY"
    assert client.delete_mode(subject) == "READONLY"


# --- deletions


@judged_by(*_BOTH)
def test_deletions(client: SchemaRegistryClient, subject: str) -> None:
    one, two = _record("R", _WITH_ID), _record("R", _WITH_ID, _WITH_DEFAULT)
    client.register_schema(subject, one)
    second = client.register_schema(subject, two)
    assert client.delete_version(subject, 1) == 1
    assert client.get_versions(subject) == [2]
    assert client.get_versions(subject, deleted=True) == [1, 2]
    with pytest.raises(SchemaNotFoundError):
        client.get_version(subject, 1)
    assert client.get_version(subject, 1, deleted=True).version == 1
    assert client.delete_version(subject, 1, permanent=True) == 1
    assert client.get_versions(subject, deleted=True) == [2]
    assert client.delete_subject(subject) == [2]
    with pytest.raises(SchemaNotFoundError):
        client.get_latest_version(subject)
    assert subject not in client.get_subjects()
    assert subject in client.get_subjects(deleted=True)
    client.clear_caches()
    assert _same(client.get_schema(second), two)
    assert client.delete_subject(subject, permanent=True) == [2]
    assert subject not in client.get_subjects(deleted=True)


@judged_by(_APICURIO)
def test_a_number_is_not_given_twice(client: SchemaRegistryClient, level: str) -> None:
    client.register_schema(level, _record("R", _WITH_ID))
    client.register_schema(level, _record("R", _WITH_ID, _WITH_DEFAULT))
    client.delete_version(level, 2)
    client.register_schema(level, _record("R"))
    assert client.get_versions(level) == [1, 3]


@judged_by(_APICURIO)
def test_a_deleted_subject_goes_on(client: SchemaRegistryClient, level: str) -> None:
    schema_id = client.register_schema(level, _record("R", _WITH_ID))
    assert client.delete_subject(level) == [1]
    assert client.register_schema(level, _record("R", _WITH_ID)) == schema_id
    assert client.get_versions(level) == [2]


# --- errors


_INT, _BYTES, _SIDEWAYS = {"schema": '"int"'}, {"schema": '"bytes"'}, {"compatibility": "SIDEWAYS"}
_ERRORS: dict[str, tuple[str, str, Any, int, int, tuple[str, ...]]] = {
    "an unknown id": ("GET", "/schemas/ids/999999", None, 404, 40403, _BOTH),
    "the versions of an unknown id": ("GET", "/schemas/ids/999999/versions", None, 404, 40403, _BOTH),
    "the subjects of an unknown id": ("GET", "/schemas/ids/999999/subjects", None, 404, 40403, _BOTH),
    "an unknown guid": ("GET", "/schemas/guids/0f2c0a9e-0000-0000-0000-0123456789ab", None, 404, 40403, (_SRFAKE,)),
    "an unknown subject": ("GET", "/subjects/judged-none/versions", None, 404, 40401, _BOTH),
    "the latest version of none": (
        "GET",
        "/subjects/judged-none/versions/latest",
        None,
        404,
        40401,
        _BOTH,
    ),
    "a schema of an unknown subject": ("POST", "/subjects/judged-none", _INT, 404, 40401, _BOTH),
    "the deletion of an unknown subject": ("DELETE", "/subjects/judged-none", None, 404, 40401, _BOTH),
    "an unknown version": ("GET", "/subjects/judged/versions/77", None, 404, 40402, _BOTH),
    "the deletion of an unknown version": (
        "DELETE",
        "/subjects/judged/versions/77",
        None,
        404,
        40402,
        _BOTH,
    ),
    "a version that is no number": ("GET", "/subjects/judged/versions/x", None, 422, 42202, ()),
    "version 0": ("GET", "/subjects/judged/versions/0", None, 422, 42202, ()),
    "another schema": ("POST", "/subjects/judged", _BYTES, 404, 40403, _BOTH),
    "no JSON": ("POST", "/subjects/judged/versions", {"schema": "{"}, 422, 42201, _BOTH),
    "no Avro": ("POST", "/subjects/judged/versions", {"schema": '{"type":"x"}'}, 422, 42201, (_APICURIO,)),
    "an empty schema": ("POST", "/subjects/judged/versions", {"schema": ""}, 422, 42201, (_SRFAKE,)),
    "no schema": ("POST", "/subjects/judged/versions", {}, 422, 42201, (_SRFAKE,)),
    "an unknown type": (
        "POST",
        "/subjects/judged/versions",
        {"schema": "{}", "schemaType": "XML"},
        422,
        42201,
        _BOTH,
    ),
    "no level": ("PUT", "/config/judged", _SIDEWAYS, 422, 42203, (_APICURIO,)),
    "no level for all": ("PUT", "/config", _SIDEWAYS, 422, 42203, (_APICURIO,)),
    "no mode": ("PUT", "/mode/judged", {"mode": "SIDEWAYS"}, 422, 42204, (_SRFAKE,)),
    "a subject for good at once": ("DELETE", "/subjects/judged?permanent=true", None, 404, 40405, ()),
    "a version for good at once": ("DELETE", "/subjects/judged/versions/1?permanent=true", None, 404, 40407, ()),
    "no level of its own": ("GET", "/config/judged?defaultToGlobal=false", None, 404, 40408, ()),
    "no mode of its own": ("GET", "/mode/judged?defaultToGlobal=false", None, 404, 40409, ()),
    "a check of an unknown version": (
        "POST",
        "/compatibility/subjects/judged/versions/77",
        _INT,
        404,
        40402,
        (_APICURIO,),
    ),
    "a check of an unknown subject": (
        "POST",
        "/compatibility/subjects/judged-none/versions/latest",
        _INT,
        200,
        0,
        _BOTH,
    ),
}
_CASES = [
    pytest.param(kind, *case[:-1], id=f"{kind}-{name}")
    for name, case in _ERRORS.items()
    for kind in KINDS
    if kind == _OURS or (OTHER_REGISTRIES and kind.partition("-")[0] in case[-1])
]


@pytest.mark.parametrize(("kind", "method", "path", "body", "status", "code"), _CASES)
def test_errors(url: str, method: str, path: str, body: Any, status: int, code: int) -> None:
    if "/judged-none" not in path:
        _ask(url, "POST", "/subjects/judged/versions", {"schema": '"int"'})
    found, answer = _ask(url, method, path, body)
    assert (found, answer["error_code"] if code else 0) == (status, code), answer
