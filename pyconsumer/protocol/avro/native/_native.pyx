# cython: language_level=3, wraparound=False, nonecheck=True, initializedcheck=False, cdivision=True, boundscheck=True
# cython: embedsignature=False, auto_pickle=False
"""The compiled decoder and encoder of Avro: the twins of those in ``_pure``, whose rules are theirs.

Its parts:

* ``read.pxi``: ``Decoder``, ``PrefixDecoder``. ``write.pxi``: ``Encoder``. ``columns.pxi``: ``ColumnsDecoder``.
* ``messages.pxi`` and ``ordered.pxi``: columns of Protobuf, and ``documents.pxi``: columns of JSON, built by the same
  ``ColumnsDecoder``.

Rules

1. Before a byte is read, its index is compared with the end of the data. Before anything is allocated, its size is
   compared with the number of bytes left, or charged to the bound of the value. Values with slack are an exception
   (rule 3 of ``columns.pxi``).
2. What is refused here is given to the twin, which raises the error with its message.
3. A plan is checked when it is taken over: the indexes of its nodes and links, and the types of their objects.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.datetime cimport (
    date_new,
    datetime_new,
    import_datetime,
    time_new,
)
from cpython.dict cimport PyDict_Copy, PyDict_SetItem
from cpython.float cimport PyFloat_AsDouble, PyFloat_FromDouble
from cpython.list cimport PyList_Append
from cpython.long cimport PyLong_FromLongLong
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from operator import index as index_of
from uuid import UUID, SafeUUID

from pyconsumer.errors import SerializationError
from pyconsumer.protocol.avro import _pure
from pyconsumer.protocol.avro._pure import (
    AvroDuration,
    check_writes,
    decimal_bytes,
    decimal_of,
    duration_bytes,
    is_real,
    is_whole,
    micros_of,
    too_large,
)
from pyconsumer.protocol.avro.errors import AvroDecodeError
from pyconsumer.protocol.avro.plan import MAX_DECODED_BYTES
from pyconsumer.protocol.avro.plan import MAX_LEVELS as PLAN_LEVELS
from pyconsumer.protocol.compiled import not_copied

#: Changes whenever the Python modules expect something else of this one: a build of older sources is not used.
REVISION = 8

import_datetime()

cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(object found, object key) except? NULL
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    # plan.Op
    NULL_ = 0
    BOOLEAN
    INT
    LONG
    FLOAT
    DOUBLE
    BYTES
    STRING
    FIXED
    ENUM
    ARRAY
    MAP
    UNION
    RECORD
    NAMED
    DEFAULT
    REFUSED
    AS_FLOAT
    AS_DOUBLE
    DATE
    TIME_MILLIS
    TIME_MICROS
    TIMESTAMP
    DECIMAL
    UUID_TEXT
    UUID_FIXED
    DURATION
    LAST_OP

cdef int MAX_LEVELS = PLAN_LEVELS


cdef struct Node:
    int op
    Py_ssize_t a
    Py_ssize_t b
    Py_ssize_t c
    PyObject *of  # which the table keeps


cdef struct Link:
    Py_ssize_t node
    PyObject *key  # NULL: skipped
    PyObject *default_


class Refused(Exception):
    """A value is refused: the twin says why."""


cdef object refuse():
    raise Refused


@cython.no_gc_clear
cdef class Table:
    """A plan in C."""

    cdef Node *nodes
    cdef Link *links
    cdef Py_ssize_t node_count
    cdef Py_ssize_t link_count
    cdef object plan
    cdef tuple kept

    def __cinit__(self, plan, max_decoded_bytes=None):
        cdef Py_ssize_t place
        cdef list nodes = list(plan.nodes), links = list(plan.links), kept = []
        self.plan = plan
        self.node_count, self.link_count = len(nodes), len(links)
        if not nodes:
            raise ValueError("a plan has at least one node")
        self.nodes = <Node *>PyMem_Malloc(self.node_count * sizeof(Node))
        self.links = <Link *>PyMem_Malloc((self.link_count + 1) * sizeof(Link))
        if self.nodes is NULL or self.links is NULL:
            raise MemoryError()
        for place in range(self.link_count):
            node, key, default = links[place]
            self.links[place].node = self.checked(node, self.node_count)
            self.links[place].key = self.keep(kept, key, str)
            self.links[place].default_ = self.keep(kept, default, bytes)
        for place in range(self.node_count):
            op, a, b, c, of = nodes[place]
            self.nodes[place].op = self.checked(op, LAST_OP)
            self.nodes[place].a, self.nodes[place].b, self.nodes[place].c = a, b, c
            if op in (ARRAY, MAP, NAMED, DEFAULT):
                self.checked(a, self.node_count)
            elif op in (UNION, RECORD):
                if a < 0 or b < 0 or a + b > self.link_count:
                    raise ValueError("a link of the plan is out of range")
            elif op in (FIXED, UUID_FIXED, DURATION) and a < 0:
                raise ValueError("a size of the plan is below 0")
            elif op == TIMESTAMP and a not in (1000, 1_000_000):
                raise ValueError("a timestamp of the plan has no unit")
            if op == RECORD:
                name, template = of
                if c < b or c < len(template):
                    raise ValueError("a record of the plan counts too little")
                of = template if type(template) is dict else dict(template)
                if b and any(self.links[a + step].key is NULL and links[a + step][1] is not None for step in range(b)):
                    raise ValueError("a key of the plan is no text")
            elif op == ENUM and type(of) is not tuple:
                raise TypeError("the symbols of the plan are a tuple")
            elif op == DEFAULT and type(of) is not bytes:
                raise TypeError("a default of the plan is bytes")
            kept.append(of)
            self.nodes[place].of = <PyObject *>of
        self.kept = tuple(kept)

    cdef Py_ssize_t checked(self, Py_ssize_t number, Py_ssize_t limit) except -1:
        if not 0 <= number < limit:
            raise ValueError("a number of the plan is out of range")
        return number

    cdef PyObject *keep(self, list kept, of, kind) except? NULL:
        if of is None:
            return NULL
        if type(of) is not kind:
            raise TypeError(f"the plan has a {type(of).__name__} in the place of a {kind.__name__}")
        kept.append(of)
        return <PyObject *>of

    def __dealloc__(self):
        PyMem_Free(self.nodes)
        PyMem_Free(self.links)

    def __reduce__(self):
        return not_copied(self)


include "read.pxi"
include "write.pxi"
include "pieces.pxi"
include "columns.pxi"
include "column_program.pxi"
include "column_values.pxi"
include "column_decoder.pxi"
include "messages.pxi"
include "ordered.pxi"
include "documents.pxi"
