"""The rules of the registry's calls, without a topic and without HTTP: through routes, as a client's request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyconsumer.broker.registry import routes
from pyconsumer.broker.registry.errors import RegistryError
from pyconsumer.broker.registry.operations import Operations
from pyconsumer.broker.registry.records import Record, decode
from pyconsumer.broker.registry.state import State


class _Registry:
    """A registry in memory. Its records can be applied to another one."""

    def __init__(self) -> None:
        self.state = State()
        self.written: list[tuple[bytes, bytes | None]] = []

    def call(self, method: str, target: str, body: Any = None) -> Any:
        make = routes.find(method, target, b"" if body is None else json.dumps(body).encode())
        result = make(Operations(self.state))
        for record in result.records:
            self.written.append(record.encode())
            self.state.apply(_decoded(record.encode()))
        return json.loads(json.dumps(result.body))

    def error(self, method: str, target: str, body: Any = None) -> tuple[int, int, str]:
        with pytest.raises(RegistryError) as caught:
            self.call(method, target, body)
        return caught.value.status, int(caught.value.code), caught.value.message

    def register(self, subject: str, schema: str, **more: Any) -> Any:
        return self.call("POST", f"/subjects/{subject}/versions", {"schema": schema, **more})

    def replayed(self, records: list[tuple[bytes, bytes | None]] | None = None) -> _Registry:
        """Return a registry that has read these records, by default all that were written."""
        other = _Registry()
        for record in self.written if records is None else records:
            other.state.apply(_decoded(record))
        return other


def _decoded(record: tuple[bytes, bytes | None]) -> Record:
    found = decode(*record)
    assert found is not None
    return found


def _compacted(records: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    last = {key: index for index, (key, _) in enumerate(records)}
    return [record for index, record in enumerate(records) if last[record[0]] == index and record[1] is not None]


def test_the_same_schema_has_one_id_under_all_subjects() -> None:
    registry = _Registry()
    first = registry.register("a", '"string"')
    assert (first["id"], first["version"], first["schemaType"]) == (1, 1, "AVRO")
    assert registry.register("a", '{"type": "string"}') == first
    assert registry.register("b", '"string"')["id"] == 1
    assert registry.register("c", '"int"')["id"] == 2
    assert registry.call("GET", "/schemas/ids/1/versions") == [
        {"subject": "a", "version": 1},
        {"subject": "b", "version": 1},
    ]
    assert registry.call("GET", "/schemas/ids/1/subjects") == ["a", "b"]
    assert registry.call("GET", f"/schemas/guids/{first['guid']}")["schema"] == '"string"'
    assert registry.call("GET", f"/schemas/guids/{first['guid']}/ids") == [{"context": ".", "id": 1}]
    assert len(registry.written) == 3


def test_a_schema_of_another_type_with_the_same_text_has_another_id() -> None:
    registry = _Registry()
    text = '{"type":"record","name":"R","fields":[]}'
    assert registry.register("a", text)["id"] == 1
    assert registry.register("b", text, schemaType="JSON")["id"] == 2
    assert registry.call("GET", "/schemas/ids/2")["schemaType"] == "JSON"


def test_records_have_the_form_of_confluents_registry() -> None:
    registry = _Registry()
    registry.register("a", '"string"')
    registry.call("PUT", "/config/a", {"compatibility": "FULL"})
    registry.call("PUT", "/mode", {"mode": "READONLY"})
    registry.call("PUT", "/mode", {"mode": "READWRITE"})
    registry.call("DELETE", "/subjects/a")
    registry.call("DELETE", "/subjects/a?permanent=true")
    assert registry.written == [
        (
            b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
            b'{"subject":"a","version":1,"id":1,"schema":"\\"string\\"","deleted":false}',
        ),
        (b'{"keytype":"CONFIG","subject":"a","magic":0}', b'{"subject":"a","compatibilityLevel":"FULL"}'),
        (b'{"keytype":"MODE","subject":null,"magic":0}', b'{"subject":null,"mode":"READONLY"}'),
        (b'{"keytype":"MODE","subject":null,"magic":0}', b'{"subject":null,"mode":"READWRITE"}'),
        (b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}', b'{"subject":"a","version":1}'),
        (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', None),
        (b'{"keytype":"CONFIG","subject":"a","magic":0}', None),
    ]


def test_a_registry_that_reads_the_compacted_topic_is_the_same() -> None:
    registry = _Registry()
    registry.register("a", '"string"')
    registry.call("PUT", "/config", {"compatibility": "NONE"})
    registry.register("a", '"int"')
    registry.call("DELETE", "/subjects/a/versions/1")
    registry.register("b", '"long"')
    registry.call("DELETE", "/subjects/b")
    registry.register("b", '"double"')
    registry.register(":.test:c", '"int"')
    for other in (registry.replayed(), registry.replayed(_compacted(registry.written))):
        for target in (
            "/subjects?subjectPrefix=:*:",
            "/subjects/a/versions",
            "/subjects/b/versions?deleted=true",
            "/schemas?deleted=true",
            "/contexts",
            "/config",
        ):
            assert other.call("GET", target) == registry.call("GET", target), target
        assert other.state.next_id(".") == 5


def test_a_deletion_can_be_undone_until_it_is_made_for_good() -> None:
    registry = _Registry()
    assert registry.error("GET", "/subjects/a/versions")[1] == 40401
    assert registry.error("DELETE", "/subjects/a")[1] == 40401
    registry.register("a", '"string"')
    assert registry.error("DELETE", "/subjects/a?permanent=true")[1] == 40405
    assert registry.call("DELETE", "/subjects/a") == [1]
    assert registry.error("DELETE", "/subjects/a")[1] == 40404
    assert registry.call("GET", "/subjects") == []
    assert registry.call("GET", "/subjects?deleted=true") == ["a"]
    assert registry.call("GET", "/subjects?deletedOnly=true") == ["a"]
    assert registry.error("GET", "/subjects/a/versions/1")[1] == 40402
    assert registry.call("GET", "/subjects/a/versions/1?deleted=true")["deleted"] is True
    assert registry.call("GET", "/schemas/ids/1")["schema"] == '"string"', "ids outlive a deletion"
    assert registry.register("a", '"string"') | {"guid": ""} == registry.register("a", '"string"') | {"guid": ""}
    assert registry.call("GET", "/subjects/a/versions") == [2]
    registry.call("DELETE", "/subjects/a")
    assert registry.call("DELETE", "/subjects/a?permanent=true") == [1, 2]
    assert registry.error("GET", "/schemas/ids/1")[:2] == (404, 40403)
    assert registry.call("GET", "/subjects?deleted=true") == []


def test_a_version_is_deleted_alone() -> None:
    registry = _Registry()
    registry.call("PUT", "/config/a", {"compatibility": "NONE"})
    for text in ('"string"', '"int"', '"boolean"'):
        registry.register("a", text)
    assert registry.error("DELETE", "/subjects/a/versions/2?permanent=true")[1] == 40407
    assert registry.call("DELETE", "/subjects/a/versions/latest") == 3
    assert registry.error("DELETE", "/subjects/a/versions/3")[1] == 40406
    assert registry.call("GET", "/subjects/a/versions") == [1, 2]
    assert registry.call("GET", "/subjects/a/versions/latest")["schema"] == '"int"'
    assert registry.call("DELETE", "/subjects/a/versions/3?permanent=true") == 3
    assert registry.register("a", '"bytes"')["version"] == 3


@pytest.mark.parametrize("version", ["0", "-2", "x", "2147483648"])
def test_a_version_is_a_number_or_latest(version: str) -> None:
    registry = _Registry()
    registry.register("a", '"string"')
    assert registry.error("GET", f"/subjects/a/versions/{version}")[:2] == (422, 42202)


def test_references_are_checked_and_protect_what_they_refer_to() -> None:
    registry = _Registry()
    registry.register("e", '{"type":"enum","name":"x.E","symbols":["A"]}')
    outer = '{"type":"record","name":"R","fields":[{"name":"e","type":"x.E"}]}'
    assert registry.error("POST", "/subjects/r/versions", {"schema": outer})[:2] == (422, 42201)
    missing = [{"name": "x.E", "subject": "e", "version": 9}]
    status, code, message = registry.error("POST", "/subjects/r/versions", {"schema": outer, "references": missing})
    assert (status, code) == (422, 42201)
    assert "version 9 of subject 'e', which does not exist" in message
    references = [{"name": "x.E", "subject": "e", "version": 1}]
    made = registry.register("r", outer, references=references)
    assert made["references"] == references
    assert registry.call("GET", "/subjects/e/versions/1/referencedby") == [made["id"]]
    assert registry.error("DELETE", "/subjects/e")[:2] == (422, 42206)
    assert registry.error("DELETE", "/subjects/e/versions/1")[:2] == (422, 42206)
    registry.call("DELETE", "/subjects/r")
    assert registry.call("DELETE", "/subjects/e") == [1]
    assert registry.error("DELETE", "/subjects/e?permanent=true")[1] == 42206, "the deletion of r can be undone"
    registry.call("DELETE", "/subjects/r?permanent=true")
    assert registry.call("DELETE", "/subjects/e?permanent=true") == [1]


def test_two_references_to_one_schema_are_one_type() -> None:
    registry = _Registry()
    registry.register("e", '{"type":"enum","name":"E","symbols":["A"]}')
    to_e = [{"name": "E", "subject": "e", "version": 1}]
    for name in ("B", "C"):
        schema = {"type": "record", "name": name, "fields": [{"name": "e", "type": "E"}]}
        registry.register(name, json.dumps(schema), references=to_e)
    both = [{"name": name, "subject": name, "version": 1} for name in ("B", "C")]
    text = '{"type":"record","name":"D","fields":[{"name":"b","type":"B"},{"name":"c","type":"C"}]}'
    assert registry.register("d", text, references=both)["version"] == 1


def test_a_new_version_must_be_compatible() -> None:
    registry = _Registry()
    registry.register("a", '"int"')
    status, code, message = registry.error("POST", "/subjects/a/versions", {"schema": '"string"'})
    assert (status, code) == (409, 409)
    assert "TYPE_MISMATCH" in message
    body = {"schema": '"string"'}
    assert registry.call("POST", "/compatibility/subjects/a/versions/latest", body) == {"is_compatible": False}
    checked = registry.call("POST", "/compatibility/subjects/a/versions?verbose=true", body)
    assert checked["is_compatible"] is False
    assert "TYPE_MISMATCH" in checked["messages"][0]
    assert registry.call("POST", "/compatibility/subjects/a/versions/1", {"schema": '"long"'})["is_compatible"]
    assert registry.error("POST", "/compatibility/subjects/a/versions/9", body)[1] == 40402
    assert registry.call("POST", "/compatibility/subjects/new/versions/latest", body)["is_compatible"]
    registry.call("PUT", "/config/a", {"compatibility": "none"})
    assert registry.register("a", '"string"')["version"] == 2


def test_versions_are_compared_within_their_compatibility_group() -> None:
    registry = _Registry()
    registry.call("PUT", "/config/a", {"compatibilityGroup": "major"})
    one, two = ({"properties": {"major": number}} for number in "12")
    registry.register("a", '"int"', metadata=one)
    assert registry.register("a", '"string"', metadata=two)["version"] == 2
    assert registry.error("POST", "/subjects/a/versions", {"schema": '"string"', "metadata": one})[0] == 409
    assert registry.call("GET", "/subjects/a/metadata?key=major&value=1")["version"] == 1
    assert registry.error("GET", "/subjects/a/metadata?key=major&value=3")[1] == 40403


def test_settings_of_a_subject_come_before_those_of_its_context_and_the_registry() -> None:
    registry = _Registry()
    assert registry.call("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert registry.error("GET", "/config/a")[:2] == (404, 40408)
    assert registry.call("GET", "/config/a?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    assert registry.call("PUT", "/config", {"compatibility": "FULL"}) == {"compatibility": "FULL"}
    assert registry.call("PUT", "/config/:.t:", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    level = {"compatibilityLevel": "NONE"}
    assert registry.call("GET", "/config/:.t:a?defaultToGlobal=true") == level
    assert registry.call("GET", "/config/a?defaultToGlobal=true") == {"compatibilityLevel": "FULL"}
    assert registry.error("PUT", "/config/a", {"compatibility": "SIDEWAYS"})[:2] == (422, 42203)
    assert registry.error("DELETE", "/config/a")[0] == 404
    assert registry.call("DELETE", "/config/:.t:") == level
    assert registry.call("GET", "/config/:.t:a?defaultToGlobal=true") == {"compatibilityLevel": "FULL"}


def test_modes() -> None:
    registry = _Registry()
    assert registry.call("GET", "/mode") == {"mode": "READWRITE"}
    assert registry.error("GET", "/mode/a")[:2] == (404, 40409)
    assert registry.error("PUT", "/mode", {"mode": "OTHER"})[:2] == (422, 42204)
    registry.register("a", '"int"')
    assert registry.call("PUT", "/mode/a", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert registry.error("POST", "/subjects/a/versions", {"schema": '"long"'})[:2] == (422, 42205)
    assert registry.error("DELETE", "/subjects/a")[:2] == (422, 42205)
    assert registry.call("DELETE", "/mode/a") == {"mode": "READONLY"}
    assert registry.error("PUT", "/mode", {"mode": "IMPORT"})[:2] == (422, 42205)
    assert registry.error("POST", "/subjects/b/versions", {"schema": '"int"', "id": 7})[:2] == (422, 42205)
    assert registry.call("PUT", "/mode?force=true", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    made = registry.register("b", '"string"', id=70, version=3)
    assert (made["id"], made["version"]) == (70, 3)
    assert registry.error("POST", "/subjects/b/versions", {"schema": '"bytes"', "id": 70})[:2] == (422, 42205)
    assert registry.error("POST", "/subjects/b/versions", {"schema": '"bytes"'})[:2] == (422, 42205)
    registry.call("PUT", "/mode", {"mode": "READWRITE"})
    assert registry.register("c", '"bytes"')["id"] == 71


def test_contexts_have_ids_of_their_own() -> None:
    registry = _Registry()
    assert registry.register("a", '"int"')["id"] == 1
    assert registry.register("b", '"string"')["id"] == 2
    assert registry.register(":.test:a", '"string"')["id"] == 1
    assert registry.call("GET", "/contexts") == [".", ".test"]
    assert registry.call("GET", "/schemas/ids/1")["schema"] == '"int"'
    assert registry.call("GET", "/schemas/ids/1?subject=:.test:")["schema"] == '"string"'
    assert registry.call("GET", "/schemas/ids/1?subject=:.test:a")["schema"] == '"string"'
    assert registry.call("GET", "/contexts/.test/schemas/ids/1")["schema"] == '"string"'
    assert registry.call("GET", "/contexts/.test/subjects") == [":.test:a"]
    assert registry.call("POST", "/contexts/.test/subjects/c/versions", {"schema": '"long"'})["id"] == 2
    assert registry.call("GET", "/subjects") == [":.test:a", ":.test:c", "a", "b"]
    assert registry.call("GET", "/subjects?subjectPrefix=") == ["a", "b"]
    assert registry.call("GET", "/contexts/.test/subjects?subjectPrefix=:*:c") == [":.test:c"]
    assert [found["subject"] for found in registry.call("GET", "/schemas")] == ["a", "b"]
    assert [found["subject"] for found in registry.call("GET", "/contexts/.test/schemas")] == [":.test:a", ":.test:c"]
    assert registry.call("GET", "/subjects?subjectPrefix=:*:a") == [":.test:a", "a"]
    assert registry.call("GET", "/subjects?subjectPrefix=:.test:") == [":.test:a", ":.test:c"]


def test_lookup() -> None:
    registry = _Registry()
    body = {"schema": '{"type":"string"}'}
    assert registry.error("POST", "/subjects/a", body)[1] == 40401
    registry.register("a", '"string"')
    found = registry.call("POST", "/subjects/a", body)
    assert (found["subject"], found["version"], found["id"], found["schema"]) == ("a", 1, 1, '"string"')
    assert registry.error("POST", "/subjects/a", {"schema": '"int"'})[1] == 40403
    registry.call("DELETE", "/subjects/a")
    assert registry.error("POST", "/subjects/a", body)[1] == 40401
    assert registry.call("POST", "/subjects/a?deleted=true", body)["deleted"] is True


def test_lists_are_cut_by_offset_and_limit() -> None:
    registry = _Registry()
    for name in "abcd":
        registry.register(name, '"int"')
    assert registry.call("GET", "/subjects?offset=1&limit=2") == ["b", "c"]
    assert registry.call("GET", "/subjects?offset=3&limit=-1") == ["d"]
    assert registry.error("GET", "/subjects?limit=x")[0] == 422


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/associations/resources/x", 404),
        ("GET", "/schemas/ids/x", 404),
        ("PATCH", "/subjects", 405),
        ("DELETE", "/contexts", 405),
    ],
)
def test_unknown_paths_and_methods(method: str, target: str, status: int) -> None:
    assert _Registry().error(method, target)[0] == status


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff"])
def test_a_body_is_a_json_object(body: bytes) -> None:
    with pytest.raises(RegistryError, match="no JSON object"):
        routes.find("POST", "/subjects/a", body)


@pytest.mark.parametrize("subject", ["%20", "__GLOBAL", "a%0Ab"])
def test_names_that_are_no_subjects(subject: str) -> None:
    assert _Registry().error("POST", f"/subjects/{subject}/versions", {"schema": '"int"'})[:2] == (422, 42208)


def test_records_that_are_none_of_a_registry_are_recognised() -> None:
    assert decode(None, b"{}") is None
    assert decode(b"x", None) is None
    assert decode(b"[]", None) is None
    assert decode(b"{}", b"[]") is None
    state = State()
    state.apply(Record({"keytype": "NEWER"}, {}))
    state.apply(Record({"keytype": "NOOP", "magic": 0}, None))
    assert state.subjects == {}
