"""Tests of the source as Spark sees it before it runs a job."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType

import pyconsumer.spark
from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.offset_ranges import OffsetRange
from pyconsumer.spark.readers import BatchReader, RangePartition
from pyconsumer.spark.source import KafkaDataSource

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}
ROOT = Path(__file__).parents[3]


def source(**extra: str) -> KafkaDataSource:
    return KafkaDataSource(options=CaseInsensitiveDict(LEAST | extra))


def schema(*names: str) -> StructType:
    return StructType([StructField(name, BinaryType()) for name in names])


def test_the_name_of_the_format() -> None:
    assert KafkaDataSource.name() == "pyconsumer"


def test_the_schema_has_the_columns_of_sparks_connector() -> None:
    assert source().schema() == (
        "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint, `timestamp` timestamp,"
        " `timestampType` int"
    )
    assert source(includeHeaders="true").schema().endswith("`headers` array<struct<key: string, value: binary>>")


def test_load_names_invalid_options() -> None:
    with pytest.raises(ConfigurationError, match="startingOffsets"):
        source(startingOffset="earliest").schema()


def test_spark_calls_by_keyword() -> None:
    assert isinstance(source(columns="value").reader(schema=schema("value")), BatchReader)


def test_a_schema_of_the_user_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="cannot change the columns"):
        source().reader(schema=schema("mine"))


def test_an_option_that_a_batch_does_not_support_is_rejected_before_it_runs() -> None:
    with pytest.raises(ConfigurationError, match="latest cannot be used"):
        source(columns="value", startingOffsets="latest").reader(schema=schema("value"))


def test_a_task_made_by_spark_has_no_records() -> None:
    reader = source(columns="value").reader(schema=schema("value"))
    assert list(reader.read(InputPartition(None))) == []
    assert list(reader.read(None)) == []  # PySpark 4.1


def test_reader_and_tasks_travel() -> None:
    reader = source(columns="value").reader(schema=schema("value"))
    assert pickle.loads(pickle.dumps(reader)).options == reader.options
    task = pickle.loads(pickle.dumps(RangePartition(OffsetRange("t", 1, 2, 3))))
    assert isinstance(task, InputPartition)
    assert task.value == OffsetRange("t", 1, 2, 3)


def autoload() -> ModuleType:
    """The package as Spark imports it."""
    path = ROOT / "pyconsumer" / "spark" / "autoload" / "__init__.py"
    spec = importlib.util.spec_from_file_location("pyspark_pyconsumer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_spark_finds_the_source() -> None:
    found = autoload().DefaultSource
    assert issubclass(found, DataSource)
    assert found is KafkaDataSource


def test_a_source_that_cannot_be_used_is_not_found_and_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyconsumer.spark.source", None)
    module = autoload()
    assert not hasattr(module, "DefaultSource")
    assert not hasattr(module, "anything")


def test_public_names() -> None:
    for name in pyconsumer.spark.__all__:
        assert callable(getattr(pyconsumer.spark, name))
    with pytest.raises(AttributeError):
        pyconsumer.spark.nothing  # noqa: B018


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_a_missing_package_is_named_in_one_line(missing: str) -> None:
    program = (
        "import importlib.util as u; real = u.find_spec\n"
        f"u.find_spec = lambda name, *a: None if name == {missing!r} else real(name, *a)\n"
        "try:\n    import pyconsumer.spark\nexcept ImportError as e:\n    print(e.name, e)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert (
        said == f"{missing} pyconsumer.spark needs {missing}, which is not installed: pip install 'pyconsumer[spark]'\n"
    )
