# Decompression ahead, by the threads of ahead.c, which touch no Python object. A consumer's queue is its DecodeAhead.

import atexit

cdef extern from "ahead.h":
    ctypedef struct pyconsumer_queue:
        pass
    ctypedef struct pyconsumer_job:
        pass
    ctypedef struct pyconsumer_counts:
        uint64_t queued
        uint64_t workers
        uint64_t helped
        uint64_t late
        uint64_t done
        uint64_t wakeups
        uint64_t waits
        uint64_t jobs
        uint64_t held
        uint64_t threads
    ctypedef struct pyconsumer_found:
        int result
        int has_right_crc
        uint8_t *output
        size_t written
        size_t capacity
    enum:
        PYCONSUMER_OWN
        PYCONSUMER_READY
        PYCONSUMER_BUSY
    pyconsumer_queue *pyconsumer_queue_new(int threads, size_t room, size_t worth) noexcept nogil
    void pyconsumer_queue_free(pyconsumer_queue *queue) noexcept nogil
    int pyconsumer_queue_is_used(const pyconsumer_queue *queue) noexcept nogil
    void pyconsumer_queue_counts(const pyconsumer_queue *queue, pyconsumer_counts *counts) noexcept nogil
    pyconsumer_job *pyconsumer_job_new(
        pyconsumer_queue *queue, const uint8_t *data, size_t most, size_t limit, int check_crcs
    ) noexcept nogil
    void pyconsumer_job_add(pyconsumer_job *job, size_t position, size_t size, int codec, uint32_t crc) noexcept nogil
    size_t pyconsumer_job_start(pyconsumer_job *job) noexcept nogil
    int pyconsumer_job_reach(pyconsumer_job *job, size_t position, pyconsumer_found *found) noexcept nogil
    int pyconsumer_job_wait(
        pyconsumer_job *job, size_t position, uint64_t nanoseconds, int is_last, pyconsumer_found *found
    ) noexcept nogil
    int pyconsumer_job_end(pyconsumer_job *job, void *view) noexcept nogil
    void *pyconsumer_ended_view() noexcept nogil
    void pyconsumer_give_back(uint8_t *output, size_t capacity) noexcept nogil
    void pyconsumer_ahead_stop(unsigned milliseconds) noexcept nogil

cdef enum:
    SHORT_WAIT = 200_000  # nanoseconds. Too short to release the interpreter's lock for
    LONG_WAIT = 2_000_000
    WAIT_PER_BYTE = 50  # of compressed data: more than decompressing it takes
    LARGE_BATCH = 1 << 18
    WORTH_WAKING = 1 << 17
    EXIT_MS = 100


cdef void release_ended_views() noexcept:
    """Release the record sets that were dropped while a worker was reading them."""
    cdef Py_buffer *view = <Py_buffer *>pyconsumer_ended_view()
    while view is not NULL:
        PyBuffer_Release(view)
        free(view)
        view = <Py_buffer *>pyconsumer_ended_view()


@cython.final
cdef class DecodeAhead:
    """Queue of the batches in a consumer's buffer, which native threads decompress while the consumer's thread works.

    Args:
        threads: maximum number of threads that work for it. All queues of the process share them.
        size_bytes: limit of the output that waits for the reader.
        worth_bytes: a thread is woken only if at least this much output is expected.
    """

    cdef pyconsumer_queue *queue
    cdef readonly Py_ssize_t size_bytes

    def __cinit__(self, int threads, Py_ssize_t size_bytes, Py_ssize_t worth_bytes=WORTH_WAKING):
        self.size_bytes = size_bytes
        self.queue = pyconsumer_queue_new(threads, max(0, size_bytes), max(0, worth_bytes))
        if self.queue is NULL:
            raise MemoryError()

    def __dealloc__(self):
        if self.queue is not NULL:
            pyconsumer_queue_free(self.queue)
        release_ended_views()

    __reduce__ = not_copied

    @property
    def is_used(self):
        """True while the batches of a cursor are queued."""
        return pyconsumer_queue_is_used(self.queue) != 0

    def add(self, Cursor cursor not None):
        """Queue the compressed batches of a cursor. Return whether there are any to queue."""
        release_ended_views()
        return cursor.queue_job(self)

    def remove(self, Cursor cursor not None):
        """Decompress no more batches of a cursor, and drop the output that it has not reached."""
        release_ended_views()
        cursor.leave_queue()

    def counts(self):
        """Return the members of ``pyconsumer_counts``, see ``ahead.h``, by name."""
        cdef pyconsumer_counts counts
        pyconsumer_queue_counts(self.queue, &counts)
        return counts


def stop_workers():
    """Stop decompression ahead, at the end of the process."""
    with nogil:
        pyconsumer_ahead_stop(EXIT_MS)


atexit.register(stop_workers)
