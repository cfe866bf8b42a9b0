"""Which packages are shipped, and what is compiled; everything else about the build is in pyproject.toml.

All of ``pyconsumer``, found by looking, and ``pyspark_pyconsumer``: a package of its own by which Spark finds the data
source, whose files are kept in ``pyconsumer/spark/autoload``.

The decoder, and the part of the producer that each record passes, are translated by Cython, which pyproject.toml names
as needed for a build, and compiled by the C compiler, which may be missing: then there is a warning, and their twins in
Python serve. The C that Cython makes is neither kept in the repository nor shipped: it is long, nobody would review it,
and a new version of CPython may need that of a new Cython.

The decoder finds the libraries of zstd and lz4 when it first needs them, so nothing of theirs is needed for a build.
With ``PYCONSUMER_LINK_CODECS=1`` it is linked with them, which needs their development packages: ``auditwheel`` and
``delocate`` bundle into a release wheel what a module is linked with. Then a build that cannot compile it fails.
"""

import os
import sys
import sysconfig

from setuptools import Distribution, Extension, find_packages, setup

DECODER = "pyconsumer/protocol/records/native"
PRODUCER = "pyconsumer/producer/native"
AVRO = "pyconsumer/protocol/avro/native"
LINKS_CODECS = os.environ.get("PYCONSUMER_LINK_CODECS", "") not in ("", "0")


def extensions():
    """The compiled modules, or nothing where they would not be used."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []  # a build without isolation
    sources = {
        "pyconsumer.protocol.records._native": (DECODER, ["decompress.c", "libraries.c", "ahead.c"]),
        "pyconsumer.producer._native": (PRODUCER, []),
        "pyconsumer.protocol.avro._native": (AVRO, []),
    }
    found = [
        Extension(
            name,
            [f"{folder}/{file}" for file in ("_native.pyx", *in_c)],
            include_dirs=[DECODER],
            depends=[
                f"{used}/{file}" for used in (folder, DECODER) for file in sorted(os.listdir(used)) if "." in file
            ],
            define_macros=[("PYCONSUMER_LINKED_CODECS", "1")] if in_c and LINKS_CODECS else [],
            libraries=["zstd", "lz4"] if in_c and LINKS_CODECS else [],
            extra_compile_args=["-O3", "-g0", "-fvisibility=hidden", "-pthread"],
            # Before glibc 2.34, the functions that load libraries are in a library of their own.
            extra_link_args=["-pthread", *(["-ldl"] if sys.platform == "linux" else [])],
        )
        for name, (folder, in_c) in sources.items()
    ]
    built = cythonize(found, build_dir="build/cython", quiet=True)
    for extension in built:  # Cython makes new ones, and forgets this
        extension.optional = not LINKS_CODECS
    return built


class WithData(Distribution):
    """A distribution whose editable wheel has its data files, too: setuptools asks ``has_data`` before it adds them."""

    def has_data(self):
        return self.has_data_files()


setup(
    distclass=WithData,
    packages=[*find_packages(include=["pyconsumer*"], exclude=["pyconsumer.spark.autoload*"]), "pyspark_pyconsumer"],
    package_dir={"pyspark_pyconsumer": "pyconsumer/spark/autoload"},
    ext_modules=extensions(),
    # Python reads this file at each start, from the folder that has the package: see pyconsumer/compat/installing.py.
    # The path is that of a wheel's data, so that editable installs have it, too.
    data_files=[("../purelib", ["pyconsumer/compat/pyconsumer-compat.pth"])],
)
