"""Tests of the Spark source and sink, which need pyspark but no JVM: without it all modules are skipped here."""

import pytest

pytest.importorskip("pyspark")
