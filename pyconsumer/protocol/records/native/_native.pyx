# cython: language_level=3, wraparound=False, nonecheck=True, initializedcheck=False, cdivision=True
# cython: embedsignature=False, auto_pickle=False
"""The compiled decoder: the work of ``cursor``, ``record`` and ``columns`` on each record, in C.

Its parts, one file each:

* ``parse.pxi``: headers and records of format v2. It touches no Python object, allocates nothing and reads only the
  bytes it is given. It decides whether bytes are a record. The decoder in Python describes the error if they are not,
  so that both raise the same messages.
* ``check.pxi``: ``check_records``.
* ``record.pxi``: ``ConsumerRecord``, and its subclass that the garbage collector tracks.
* ``forms.pxi``: records in the forms of kafka-python and aiokafka.
* ``cursor.pxi``: ``Cursor``.
* ``memory.pxi``, ``columns.pxi``: ``ColumnsBuilder``.
* ``crc32c.h``: checksums.
* ``decompress.pxi``, ``decompress.c``: snappy, lz4 and zstd. ``libraries.c`` finds the system's libraries for the last
  two.
* ``ahead.pxi``, ``ahead.c``: decompression ahead of the reader, by native threads.
* ``log_scan.pxi``: ``LogScan``.

Rules

1. Before a byte is read, its index is compared with the end of the data. Before anything is allocated, its size is
   compared with the number of bytes left.
2. Records own copies. Only the cursor refers to the receive buffer.
3. Work that is done once per batch, or only after an error, is left to Python.
4. Whatever Python code can make or pass is checked: ``__new__`` alone leaves each type valid, and arguments are of any
   type. Lists may have changed after each call of Python code. An object is never used after a bare cast.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from types import GenericAlias

from pyconsumer.errors import UnsupportedCodecError
from pyconsumer.protocol.compiled import not_copied
from pyconsumer.protocol.records._pure import check_count, decode_message_set, decode_records
from pyconsumer.protocol.records._varint import DamageError
from pyconsumer.protocol.records.batch import batch_error, check_crc, scan, scan_until_damage
from pyconsumer.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, damage_of, decompress
from pyconsumer.protocol.records.cursor import aborts, read_end_transaction_marker
from pyconsumer.protocol.records.open_fields import (
    FIELDS,
    open_fields,
    open_repr,
    reduced_open,
    same_open,
)
from pyconsumer.protocol.records.record import (
    RecordOrigin,
    record_repr,
    reduced_record,
    same_record,
    size_of_headers,
)
from pyconsumer.structs import TopicPartition

#: Changes whenever the Python modules expect something else of this one: a build of older sources is not used.
REVISION = 13

cdef extern from "crc32c.h":
    void crc32c_init() noexcept nogil
    uint32_t crc32c_of(const uint8_t *data, size_t size, uint32_t before, int may_use_hardware) noexcept nogil

crc32c_init()


def crc32c(data, uint32_t before=0, *, bint by_tables=False):
    """Return the CRC-32C of a bytes-like object; ``before`` is the checksum of the data in front of it."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return crc32c_of(<const uint8_t *>view.buf, view.len, before, not by_tables)
    finally:
        PyBuffer_Release(&view)


include "parse.pxi"
include "check.pxi"
include "record.pxi"
include "forms.pxi"
include "memory.pxi"
include "columns.pxi"
include "decompress.pxi"
include "ahead.pxi"
include "cursor.pxi"
include "log_scan.pxi"
