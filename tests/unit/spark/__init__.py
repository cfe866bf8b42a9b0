"""Tests of the Spark source and sink, which need pyspark but no JVM. Without pyspark all modules here are skipped."""

import pytest

pytest.importorskip("pyspark")
