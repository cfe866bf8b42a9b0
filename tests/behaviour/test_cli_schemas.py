"""The command with a Schema Registry: ``schemas``, and values in Avro with ``produce`` and ``consume``."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.cli import _run
from tests.support.cluster import Cluster

Here = Callable[..., tuple[int, str, str]]

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": "bytes"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "rate", "type": "double", "default": 0.5},
    ],
}
WITH_CODE = ORDER | {"fields": [*ORDER["fields"], {"name": "code", "type": "string", "default": "-"}]}
WITHOUT_DEFAULT = ORDER | {"fields": [*ORDER["fields"], {"name": "code", "type": "string"}]}


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with EmbeddedCluster(schema_registry=True) as made:
        assert made.schema_registry_url is not None
        yield made.schema_registry_url


@pytest.fixture
def here(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    """Run the command in this process: ``(status, standard output, standard error)``."""

    def command(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(stdin.encode()), isatty=lambda: False))
        status = _run(arguments)
        out, err = capfd.readouterr()
        assert "Traceback" not in err, err
        return status, out, err

    return command


@pytest.fixture
def order_file(tmp_path: Path) -> str:
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(ORDER))
    return str(path)


def written(folder: Path, schema: Any) -> str:
    path = folder / "schema.json"
    path.write_text(json.dumps(schema))
    return str(path)


def test_a_schema_from_registration_to_deletion(registry: str, here: Here, order_file: str, tmp_path: Path) -> None:
    url = ("--schema-registry", registry)
    status, out, _ = here("schemas", "register", "life-value", order_file, *url)
    assert status == 0
    schema_id = int(out)
    status, out, _ = here("schemas", "register", "life-value", order_file, *url, "--json")
    assert json.loads(out) | {"guid": ""} == {"subject": "life-value", "version": 1, "id": schema_id, "guid": ""}

    assert here("schemas", "check", "life-value", written(tmp_path, WITH_CODE), *url)[:2] == (0, "compatible\n")
    status, out, _ = here("schemas", "check", "life-value", written(tmp_path, WITHOUT_DEFAULT), *url)
    assert (status, out.splitlines()[0]) == (1, "not compatible")
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in out
    status, out, _ = here("schemas", "check", "life-value", written(tmp_path, WITHOUT_DEFAULT), *url, "--json")
    found = json.loads(out)
    assert (status, found["compatible"], len(found["reasons"])) == (1, False, 1)
    status, out, err = here("schemas", "register", "life-value", written(tmp_path, WITHOUT_DEFAULT), *url)
    assert (status, out, err.count("\n")) == (1, "", 1)

    assert here("schemas", "register", "life-value", written(tmp_path, WITH_CODE), *url)[0] == 0
    status, out, _ = here("schemas", "list", *url, "--prefix", "life", "--json")
    assert [json.loads(line) | {"id": 0} for line in out.splitlines()] == [
        {"subject": "life-value", "version": 2, "id": 0, "type": "AVRO"}
    ]
    assert here("schemas", "list", *url, "--prefix", "life")[1].startswith(
        "subject\tversion\tid\ttype\nlife-value\t2\t"
    )
    status, out, _ = here("schemas", "show", "life-value", "--version", "1", *url)
    assert json.loads(out)["name"] == "Order"
    assert out.startswith("{\n")
    shown = json.loads(here("schemas", "show", "life-value", "--version", "1", *url, "--json")[1])
    assert (shown["version"], shown["id"], shown["type"], shown["references"]) == (1, schema_id, "AVRO", [])
    by_id = json.loads(here("schemas", "show", "--id", str(schema_id), *url, "--json")[1])
    assert by_id["schema"] == shown["schema"]

    assert here("schemas", "delete", "life-value", "--version", "2", *url)[1] == "deleted life-value, version 2\n"
    status, out, _ = here("schemas", "delete", "life-value", *url, "--json")
    assert json.loads(out) == {"subject": "life-value", "versions": [1], "permanent": False}
    assert here("schemas", "list", *url, "--prefix", "life") == (0, "", "no subjects\n")
    assert "life-value" in here("schemas", "list", *url, "--prefix", "life", "--deleted")[1]
    assert here("schemas", "delete", "life-value", "--permanent", *url)[0] == 0
    status, out, err = here("schemas", "show", "life-value", *url)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("Error: ")


def test_references_are_given_by_name(registry: str, here: Here, tmp_path: Path) -> None:
    url = ("--schema-registry", registry)
    inner = written(tmp_path, {"type": "enum", "name": "Color", "symbols": ["RED"]})
    assert here("schemas", "register", "Color", inner, *url)[0] == 0
    outer = written(tmp_path, {"type": "record", "name": "Car", "fields": [{"name": "color", "type": "Color"}]})
    assert here("schemas", "register", "Car", outer, *url)[0] == 1
    assert here("schemas", "register", "Car", outer, *url, "--reference", "Color=Color:1")[0] == 0
    shown = json.loads(here("schemas", "show", "Car", *url, "--json")[1])
    assert shown["references"] == [{"name": "Color", "subject": "Color", "version": 1}]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["schemas", "show"], "SUBJECT"),
        (["schemas", "show", "a", "--id", "1"], "SUBJECT"),
        (["schemas", "show", "--id", "1", "--version", "1"], "cannot be combined"),
        (["schemas", "show", "a", "--version", "0"], "'0'"),
        (["schemas", "show", "a", "--version", "new"], "'new'"),
        (["schemas", "register", "a", "/no/such/file"], "/no/such/file"),
        (["schemas", "register", "a", "-", "--type", "xml"], "'xml'"),
        (["schemas", "register", "a", "-", "--reference", "x"], "NAME=SUBJECT:VERSION"),
        (["schemas", "register", "a", "-", "--reference", "x=y:z"], "NAME=SUBJECT:VERSION"),
        (["schemas", "list", "--schema-registry", "ftp://a"], "ftp"),
        (["schemas", "list", "--registry-config", "timeout=soon"], "timeout is a number"),
        (["schemas", "list", "--registry-config", "time.out=3"], "time.out"),
        (["schemas", "list", "--registry-config", "no-such-file"], "not an existing file"),
        (["schemas", "liszt"], "liszt"),
        (["consume", "t", "--value-format", "xml"], "'xml'"),
        (["produce", "t", "--value-schema", __file__], "--value-format avro"),
        (["produce", "t", "--value-format", "avro", "--value-schema", "/no/such/file"], "/no/such/file"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_has_status_2_and_names_the_fault(arguments: list[str], told: str, here: Here) -> None:
    status, out, err = here(*arguments)
    assert (status, out) == (2, "")
    assert told in err.splitlines()[-1]


def test_a_registry_that_is_not_there_is_one_line(dead_address: str, here: Here) -> None:
    for arguments in (["schemas", "list"], ["produce", "t", "--value-format", "avro"]):
        status, out, err = here(*arguments, "--schema-registry", f"http://{dead_address}", "--timeout-ms", "1500")
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert err.startswith("Error: ")


def test_a_password_in_a_file_logs_in(here: Here, tmp_path: Path) -> None:
    with EmbeddedCluster(schema_registry=True, schema_registry_users={"ann": "secret"}) as cluster:
        url = ("--schema-registry", str(cluster.schema_registry_url))
        assert here("schemas", "list", *url)[0] == 1
        path = tmp_path / "registry.properties"
        path.write_text("schema.registry.basic.auth.user.info=ann:secret\n")
        assert here("schemas", "list", *url, "--registry-config", str(path)) == (0, "", "no subjects\n")
        path.write_text("basic.auth.user.info=ann:secret\n")
        assert here("schemas", "list", *url, "--registry-config", str(path))[0] == 0
        status, _, err = here("schemas", "list", *url, "--registry-config", "basic.auth.user.info=ann:secret")
        assert (status, "list of processes" in err, "ann:secret" in err) == (0, True, False)


def test_values_in_avro_are_json_on_both_sides(
    cluster: Cluster, topic: str, registry: str, here: Here, order_file: str
) -> None:
    address = ("-b", cluster.bootstrap_servers, "--schema-registry", registry)
    one = {"id": 1, "price": "12.50", "at": "2026-01-31T18:00:00+00:00", "raw": "text", "note": "hi", "rate": 2.0}
    two = one | {"id": 2, "raw": {"base64": "/w=="}, "note": None, "rate": "NaN"}
    short = {key: one[key] for key in ("id", "price", "at", "raw")}
    lines = "".join(f"k:{json.dumps(each)}\n" for each in (one, two, short))
    avro = ("--value-format", "avro")
    status, _, err = here(
        "produce", topic, *address, *avro, "--value-schema", order_file, "-k", ":", "-q", "-p", "0", stdin=lines
    )
    assert (status, err) == (0, "")
    status, out, _ = here("consume", topic, *address, *avro, "--from-beginning", "-n", "3")
    found = [json.loads(line) for line in out.splitlines()]
    assert (status, found) == (0, [one, two, one | {"note": None, "rate": 0.5}])
    with KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        data = next(iter(consumer)).value
    assert data[:1] == b"\0"
    assert b"hi" in data

    # As documents, and back: the latest version is the schema.
    status, documents, _ = here("consume", topic, *address, *avro, "--from-beginning", "-n", "3", "--json")
    assert [json.loads(line)["value"]["id"] for line in documents.splitlines()] == [1, 2, 1]
    tombstone = json.dumps({"key": "k", "value": None}) + "\n"
    status, _, err = here("produce", topic, *address, *avro, "--json", "-q", stdin=documents + tombstone)
    assert (status, err) == (0, "")
    status, out, _ = here("consume", topic, *address, *avro, "--from-beginning", "-n", "7", "--json")
    values = [json.loads(line)["value"] for line in out.splitlines()]
    assert sorted(json.dumps(value) for value in values) == sorted(
        json.dumps(value) for value in [*found, *found, None]
    )
    status, out, _ = here("consume", topic, *address, *avro, "-p", "0", "-o", "0", "-n", "1", "--format", "%k %v\\n")
    assert out.startswith('k {"id": 1')


def test_values_of_json_schema_are_checked_on_both_sides(
    cluster: Cluster, topic: str, registry: str, here: Here, tmp_path: Path
) -> None:
    address = ("-b", cluster.bootstrap_servers, "--schema-registry", registry, "--value-format", "json")
    schema = written(tmp_path, {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})
    documents = [{"id": 1, "note": "é"}, {"id": 2**70}]
    lines = "".join(f"{json.dumps(each)}\n" for each in documents)
    assert here("produce", topic, *address, "--value-schema", schema, "-q", "-p", "0", stdin=lines)[0] == 0
    status, out, _ = here("consume", topic, *address, "--from-beginning", "-n", "2")
    assert (status, [json.loads(line) for line in out.splitlines()]) == (0, documents)
    status, out, err = here("produce", topic, *address, "-q", stdin='{"id": "x"}\n')
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("Error: line 1: ")
    assert '$.id: "x" is not of type "integer"' in err
    status, out, err = here("produce", topic, *address[:-1], "avro", "-q", stdin="{}\n")
    assert (status, err) == (1, f"Error: the schema of {topic}-value is JSON, not AVRO\n")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "not JSON"),
        ("[]", "must be an object"),
        ('{"id": 1}', "has no 'price', 'at', 'raw'"),
        ('{"id": "1"}', "the value.id must be a whole number of 64 bits"),
        ('{"id": 1, "price": "x", "at": 0, "raw": ""}', "the value.price must be a decimal as text"),
        ('{"id": 1, "price": "1.005", "at": 0, "raw": ""}', "price"),
        ('{"id": 1, "price": "1", "at": "soon", "raw": ""}', "the value.at must be a time in ISO 8601"),
        ('{"id": 1, "price": "1", "at": 0, "raw": 5}', "the value.raw must be a string"),
        ('{"id": 1, "price": "1", "at": 0, "raw": "", "note": 5}', "the value.note must be a string"),
        ('{"id": 1, "price": "1", "at": 0, "raw": "", "nite": "x"}', "has no field 'nite'"),
        ("[" * 5000, "not JSON"),
    ],
)
def test_a_line_that_does_not_fit_names_the_place(
    cluster: Cluster, topic: str, registry: str, here: Here, order_file: str, line: str, told: str
) -> None:
    address = ("-b", cluster.bootstrap_servers, "--schema-registry", registry)
    status, _, err = here(
        "produce", topic, *address, "--value-format", "avro", "--value-schema", order_file, "-q", stdin=line + "\n"
    )
    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith("Error: line 1: ")
    assert told in err


def test_a_value_that_is_no_avro_ends_the_reader_in_one_line(
    cluster: Cluster, topic: str, registry: str, here: Here
) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send(topic, b"plain text", partition=0)
    address = ("-b", cluster.bootstrap_servers, "--schema-registry", registry)
    status, out, err = here("consume", topic, *address, "--value-format", "avro", "--from-beginning", "-n", "1")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert f"{topic}" in err
