# Memory of columns.
#
# The system provides large pieces of memory page by page, each on its first use, which costs several times as much as
# filling them. So pieces that are no longer used are kept for the next columns, up to a limit.

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdlib cimport free, malloc

cdef extern from *:
    """
    #ifdef PYCONSUMER_NO_POOL /* so that an address sanitizer sees each allocation and release */
    #define POOL_BYTES 0
    #else
    #define POOL_BYTES (64 << 20)
    #endif
    """
    Py_ssize_t POOL_BYTES

cdef enum:
    POOL_PIECES = 32
    SMALLEST_KEPT = 65536

cdef char *pool_pieces[POOL_PIECES]
cdef Py_ssize_t pool_sizes[POOL_PIECES]
cdef int pool_count = 0
cdef Py_ssize_t pool_held = 0


cdef char *take_memory(Py_ssize_t size, Py_ssize_t *capacity) except NULL:
    """Return at least ``size`` bytes, and set ``capacity`` to their number."""
    global pool_count, pool_held
    cdef int i, best = -1
    cdef char *start
    for i in range(pool_count):
        if size <= pool_sizes[i] <= 4 * size and (best < 0 or pool_sizes[i] < pool_sizes[best]):
            best = i
    if best >= 0:
        start = pool_pieces[best]
        capacity[0] = pool_sizes[best]
        pool_count -= 1
        pool_held -= pool_sizes[best]
        pool_pieces[best] = pool_pieces[pool_count]
        pool_sizes[best] = pool_sizes[pool_count]
        return start
    if size > SMALLEST_KEPT:
        size = (size + SMALLEST_KEPT - 1) // SMALLEST_KEPT * SMALLEST_KEPT
    start = <char *>malloc(max(size, 64))
    if start is NULL:
        raise MemoryError()
    capacity[0] = max(size, 64)
    return start


cdef void give_memory(char *start, Py_ssize_t capacity) noexcept:
    global pool_count, pool_held
    if capacity < SMALLEST_KEPT or pool_count == POOL_PIECES or pool_held + capacity > POOL_BYTES:
        free(start)
        return
    pool_pieces[pool_count] = start
    pool_sizes[pool_count] = capacity
    pool_count += 1
    pool_held += capacity


@cython.final
cdef class Memory:
    """Memory that grows while it is written, and is then read through the buffer protocol."""

    cdef char *start
    cdef Py_ssize_t capacity
    cdef Py_ssize_t size  # bytes that readers see

    def __dealloc__(self):
        if self.start is not NULL:
            give_memory(self.start, self.capacity)

    cdef int resize(self, Py_ssize_t capacity, Py_ssize_t used) except -1:
        """Change the capacity to at least this number of bytes. The first ``used`` ones are kept."""
        cdef Py_ssize_t found = 0
        cdef char *start = take_memory(capacity, &found)
        if used:
            memcpy(start, self.start, used)
        if self.start is not NULL:
            give_memory(self.start, self.capacity)
        self.start = start
        self.capacity = found
        return 0

    cdef object finish(self, Py_ssize_t size, str kind):
        """Return a view of the first ``size`` bytes, with the format ``kind``. Nothing may be written afterwards."""
        if self.capacity > SMALLEST_KEPT and size < self.capacity // 4:
            self.resize(size, size)
        self.size = size
        view = memoryview(self)
        return view if kind == "B" else view.cast(kind)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.start, self.size, 1, flags)

    def __releasebuffer__(self, Py_buffer *buffer):
        pass


cdef Memory new_memory(Py_ssize_t capacity):
    cdef Memory memory = Memory.__new__(Memory)
    memory.resize(capacity, 0)
    return memory
