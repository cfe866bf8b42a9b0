"""Which packages are shipped; everything else about the build is in pyproject.toml.

All of ``pyconsumer``, found by looking, and ``pyspark_pyconsumer``: a package of its own by which Spark finds the data
source, whose files are kept in ``pyconsumer/spark/autoload``.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["pyconsumer*"], exclude=["pyconsumer.spark.autoload*"]), "pyspark_pyconsumer"],
    package_dir={"pyspark_pyconsumer": "pyconsumer/spark/autoload"},
)
