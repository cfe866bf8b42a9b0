# Memory of columns.
#
# The system hands out large pieces of memory page by page, each at the first touch, and that costs several times as much
# as filling them. So a piece that nobody uses any more is kept for the next columns, within bounds.

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdlib cimport free, malloc

cdef extern from *:
    """
    #ifdef PYCONSUMER_NO_POOL /* so that an address sanitizer sees each piece come and go */
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
    """At least ``size`` bytes; ``capacity`` becomes how many."""
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
    """Bytes that grow while they are written, and are then read through the buffer protocol."""

    cdef char *start
    cdef Py_ssize_t capacity
    cdef Py_ssize_t size  # what readers see

    def __dealloc__(self):
        if self.start is not NULL:
            give_memory(self.start, self.capacity)

    cdef int resize(self, Py_ssize_t capacity, Py_ssize_t used) except -1:
        """Have room for so many bytes; the first ``used`` ones stay."""
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
        """A view of the first ``size`` bytes as numbers of a kind. Nothing may be written afterwards."""
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
