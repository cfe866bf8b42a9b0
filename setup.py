"""Which packages are shipped, and the compiled decoder; everything else about the build is in pyproject.toml.

All of ``pyconsumer``, found by looking, and ``pyspark_pyconsumer``: a package of its own by which Spark finds the data
source, whose files are kept in ``pyconsumer/spark/autoload``.

The decoder is translated by Cython, which pyproject.toml names as needed for a build, and compiled by the C compiler,
which may be missing: then there is a warning, and pyconsumer reads records with the decoder's twin in Python. The C
that Cython makes is neither kept in the repository nor shipped: it is long, nobody would review it, and a new version
of CPython may need that of a new Cython.
"""

import os
import sysconfig

from setuptools import Extension, find_packages, setup

NATIVE = "pyconsumer/protocol/records/native"


def extensions():
    """The compiled decoder, or nothing where it would not be used."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []  # a build without isolation
    decoder = Extension(
        "pyconsumer.protocol.records._native",
        [f"{NATIVE}/_native.pyx"],
        include_dirs=[NATIVE],
        depends=[f"{NATIVE}/{name}" for name in sorted(os.listdir(NATIVE))],
        extra_compile_args=["-O3", "-g0"],
    )
    built = cythonize([decoder], build_dir="build/cython", quiet=True)
    for extension in built:  # Cython makes new ones, and forgets this
        extension.optional = True
    return built


setup(
    packages=[*find_packages(include=["pyconsumer*"], exclude=["pyconsumer.spark.autoload*"]), "pyspark_pyconsumer"],
    package_dir={"pyspark_pyconsumer": "pyconsumer/spark/autoload"},
    ext_modules=extensions(),
)
