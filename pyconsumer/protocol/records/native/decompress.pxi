# Decompression of snappy, lz4 and zstd by decompress.c, which touches no Python object.

cdef extern from "decompress.h":
    enum:
        PYCONSUMER_SNAPPY
        PYCONSUMER_ZSTD
        PYCONSUMER_UNPACKED
        PYCONSUMER_DAMAGED
        PYCONSUMER_TOO_LARGE
        PYCONSUMER_NO_MEMORY
    ctypedef struct pyconsumer_extent:
        size_t used
        size_t bound
        int is_exact
        int is_capped
    int pyconsumer_bound(
        int codec, const uint8_t *data, size_t size, size_t limit, pyconsumer_extent *extent
    ) noexcept nogil
    int pyconsumer_unpack(
        int codec,
        int magic,
        const uint8_t *data,
        size_t size,
        const pyconsumer_extent *extent,
        void *context,
        uint8_t *output,
        size_t *written,
    ) noexcept nogil
    int pyconsumer_serves(int codec) noexcept nogil
    void *pyconsumer_new_context() noexcept nogil
    void pyconsumer_free_context(void *context) noexcept nogil

cdef extern from "libraries.h":
    ctypedef struct pyconsumer_library:
        const char *name
        const char *file
        const char *problem
        unsigned version
    const pyconsumer_library *pyconsumer_library_of(int codec) noexcept nogil

# The interpreter's lock is released only for an output of at least this size, which takes about a millisecond. A thread
# that computes releases the lock after 5 ms at the earliest, so releasing it for each small batch would mean waiting
# most of the time.
cdef size_t UNLOCKED_BYTES = 1 << 20

cdef enum:
    IDLE_CONTEXTS = 4

cdef void *idle_contexts[IDLE_CONTEXTS]
cdef int idle_context_count = 0


cdef void *take_context() except NULL:
    """Return a zstd context that is not in use."""
    global idle_context_count
    cdef void *context
    if idle_context_count:
        idle_context_count -= 1
        return idle_contexts[idle_context_count]
    context = pyconsumer_new_context()
    if context is NULL:
        raise MemoryError()
    return context


cdef void give_context(void *context) noexcept:
    global idle_context_count
    if idle_context_count < IDLE_CONTEXTS:
        idle_contexts[idle_context_count] = context
        idle_context_count += 1
    else:
        pyconsumer_free_context(context)


def library_of(int codec):
    """Return the library that decompresses a codec: its name, version, file, and why it is not used ("": it is).

    None for a codec without one.
    """
    cdef const pyconsumer_library *found = pyconsumer_library_of(codec)
    if found is NULL:
        return None
    version = f"{found.version // 10000}.{found.version // 100 % 100}.{found.version % 100}" if found.version else ""
    return (
        found.name.decode(),
        version,
        found.file.decode("utf-8", "replace"),
        found.problem.decode("utf-8", "replace"),
    )


cdef size_t size_limit(max_bytes) except? 0:
    return max(0, min(max_bytes, <Py_ssize_t>1 << 60))


cdef int unpack(
    int codec,
    int magic,
    const uint8_t *data,
    size_t size,
    const pyconsumer_extent *extent,
    uint8_t *output,
    size_t *written,
) except -1:
    """Call ``pyconsumer_unpack`` and return its result. Other threads may run, and must not free its memory."""
    cdef void *context = take_context() if codec == PYCONSUMER_ZSTD else NULL
    cdef int result
    if extent.bound >= UNLOCKED_BYTES:
        with nogil:
            result = pyconsumer_unpack(codec, magic, data, size, extent, context, output, written)
    else:
        result = pyconsumer_unpack(codec, magic, data, size, extent, context, output, written)
    if context is not NULL:
        give_context(context)
    if result == PYCONSUMER_NO_MEMORY:
        raise MemoryError()
    return result


cdef char *unpack_into_new(
    int codec, int magic, const uint8_t *data, size_t size, size_t limit,
    size_t *written, Py_ssize_t *capacity, int *result
) except? NULL:
    """Return the output in new memory, for ``give_memory``; NULL if ``result`` is an error."""
    cdef pyconsumer_extent extent
    cdef char *output
    cdef char *smaller
    cdef Py_ssize_t found = 0
    cdef bint is_whole
    written[0] = 0
    result[0] = pyconsumer_bound(codec, data, size, limit, &extent)
    if result[0] != PYCONSUMER_UNPACKED:
        return NULL
    output = take_memory(extent.bound, capacity)
    try:
        result[0] = unpack(codec, magic, data, size, &extent, <uint8_t *>output, written)
        is_whole = result[0] == PYCONSUMER_UNPACKED
        if is_whole and capacity[0] > SMALLEST_KEPT and <Py_ssize_t>written[0] < capacity[0] // 4:
            # Frames that were written as a stream state only an upper bound of their size.
            smaller = take_memory(written[0], &found)
            memcpy(smaller, output, written[0])
            give_memory(output, capacity[0])
            output = smaller
            capacity[0] = found
    except BaseException:
        give_memory(output, capacity[0])
        raise
    if result[0] != PYCONSUMER_UNPACKED:
        give_memory(output, capacity[0])
        return NULL
    return output


def decompress_compiled(int codec, data, max_bytes, int magic):
    """Decompress snappy, lz4 or zstd, see ``compression.decompress``. Return the number of the error if that fails.

    None if the library for the codec was not found.
    """
    cdef Py_buffer view
    cdef size_t limit = size_limit(max_bytes), written = 0
    cdef Py_ssize_t capacity = 0
    cdef pyconsumer_extent extent
    cdef int result = 0
    cdef char *output
    cdef bytes whole
    if not pyconsumer_serves(codec):
        return None
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        result = pyconsumer_bound(codec, <const uint8_t *>view.buf, view.len, limit, &extent)
        if result == PYCONSUMER_UNPACKED and extent.is_exact:
            whole = PyBytes_FromStringAndSize(NULL, extent.bound)
            result = unpack(
                codec, magic, <const uint8_t *>view.buf, view.len, &extent,
                <uint8_t *>PyBytes_AS_STRING(whole), &written
            )
            if result == PYCONSUMER_UNPACKED:
                return whole if written == extent.bound else whole[:written]
        elif result == PYCONSUMER_UNPACKED:
            output = unpack_into_new(
                codec, magic, <const uint8_t *>view.buf, view.len, limit, &written, &capacity, &result
            )
            if output is not NULL:
                try:
                    return PyBytes_FromStringAndSize(output, written)
                finally:
                    give_memory(output, capacity)
        return result
    finally:
        PyBuffer_Release(&view)
