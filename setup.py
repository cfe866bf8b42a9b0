"""Which packages are shipped, and what is compiled; everything else about the build is in pyproject.toml.

All of ``pyconsumer``, found by looking, and ``pyspark_pyconsumer``: a package of its own by which Spark finds the data
source, whose files are kept in ``pyconsumer/spark/autoload``.

The decoder, and the part of the producer that each record passes, are translated by Cython, which pyproject.toml names
as needed for a build, and compiled by the C compiler, which may be missing: then there is a warning, and their twins in
Python serve. The C that Cython makes is neither kept in the repository nor shipped: it is long, nobody would review it,
and a new version of CPython may need that of a new Cython.
"""

import os
import sysconfig

from setuptools import Extension, find_packages, setup

DECODER = "pyconsumer/protocol/records/native"
PRODUCER = "pyconsumer/producer/native"


def extensions():
    """The compiled modules, or nothing where they would not be used."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []  # a build without isolation
    sources = {
        "pyconsumer.protocol.records._native": (DECODER, ["decompress.c", "decompress_zstd.c", "ahead.c"]),
        "pyconsumer.producer._native": (PRODUCER, []),
    }
    found = [
        Extension(
            name,
            [f"{folder}/{file}" for file in ("_native.pyx", *in_c)],
            include_dirs=[DECODER],
            depends=[
                f"{used}/{file}" for used in (folder, DECODER) for file in sorted(os.listdir(used)) if "." in file
            ],
            # Hidden: another copy of zstd or lz4 in the process must not stand in for that in the extension.
            extra_compile_args=["-O3", "-g0", "-fvisibility=hidden", "-pthread"],
            extra_link_args=["-pthread"],
        )
        for name, (folder, in_c) in sources.items()
    ]
    built = cythonize(found, build_dir="build/cython", quiet=True)
    for extension in built:  # Cython makes new ones, and forgets this
        extension.optional = True
    return built


setup(
    packages=[*find_packages(include=["pyconsumer*"], exclude=["pyconsumer.spark.autoload*"]), "pyspark_pyconsumer"],
    package_dir={"pyspark_pyconsumer": "pyconsumer/spark/autoload"},
    ext_modules=extensions(),
)
