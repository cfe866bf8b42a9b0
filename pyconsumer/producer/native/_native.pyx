# cython: language_level=3, wraparound=False, nonecheck=True, initializedcheck=False, cdivision=True
# cython: embedsignature=False, auto_pickle=False
"""The compiled half of the producer: the work on each record between ``send`` and its batch, and its result.

Its parts, one file each:

* ``builder.pxi``: ``BatchBuilder``, which encodes records.
* ``result.pxi``: ``BatchResult`` and ``FutureRecordMetadata``.
* ``fast_append.pxi``: ``BufferMemory``, ``ProducerBatch`` and ``Appender``.

Rules

1. The code here is atomic between two calls of Python code: it holds the interpreter's lock, and no signal handler
   runs. So a record can be appended without the producer's lock, and after Ctrl-C it is either in its batch or nowhere.
   (Free-threaded Python uses the twins.)
2. A record is appended here only if no decision is needed: its batch is open and has room, memory is left, and there is
   no error to raise. Everything else is left to Python, which takes the lock and decides.
3. A closed batch never changes. Whoever takes a batch out of its queue closes it first.
4. Whatever Python code can make or pass is checked: ``__new__`` alone leaves each type valid, and arguments are of any
   type. Lists and builders may have changed after each call of Python code.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_AsTuple, PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

import os
import threading

from pyconsumer.errors import IllegalStateError
from pyconsumer.producer.future import (
    awaited,
    callback_exited,
    callback_failed,
    in_sender_thread,
    no_result,
    run_callback,
)
from pyconsumer.protocol.compiled import not_copied
from pyconsumer.protocol.records.builder import batch_header, encode_headers
from pyconsumer.protocol.records.compression import Codec, compress
from pyconsumer.structs import RecordMetadata

#: Changes whenever the Python modules expect something else of this one: a build of older sources is not used.
REVISION = 9

cdef extern from "crc32c.h":
    void crc32c_init() noexcept nogil
    uint32_t crc32c_of(const uint8_t *data, size_t size, uint32_t before, int may_use_hardware) noexcept nogil

crc32c_init()

include "builder.pxi"
include "result.pxi"
include "fast_append.pxi"
