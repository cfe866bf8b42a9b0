# BatchResult and FutureRecordMetadata.

ctypedef object (*NewFunction)(PyTypeObject *, object, PyObject *)

cdef extern from *:
    """
    #define PYCONSUMER_SET_NEW(type, function, first) \
        (((PyTypeObject *)(type))->tp_vectorcall = NULL, /* it would bypass tp_new */ \
         *(first) = ((PyTypeObject *)(type))->tp_new, \
         ((PyTypeObject *)(type))->tp_new = (newfunc)(function))
    """
    void PYCONSUMER_SET_NEW(object type, NewFunction function, NewFunction *first)

# Futures of an untracked subclass are as cheap as ours: the garbage collector does not know them, and their memory is
# used again. Python makes each class of a `class` statement known to the collector, so this is changed before the class
# has an object. A class that is derived from an untracked one is known to the collector again.
cdef extern from *:
    """
    #include <string.h>
    enum { PYCONSUMER_KEPT = 1024 };
    static void *pyconsumer_kept[PYCONSUMER_KEPT];
    static int pyconsumer_kept_count = 0;

    static void pyconsumer_free_future(void *future) {
        if (pyconsumer_kept_count < PYCONSUMER_KEPT) pyconsumer_kept[pyconsumer_kept_count++] = future;
        else PyObject_Free(future);
    }

    static void pyconsumer_untrack(PyObject *derived, PyObject *base) {
        PyTypeObject *type = (PyTypeObject *)derived;
        if (type->tp_basicsize != ((PyTypeObject *)base)->tp_basicsize || type->tp_dictoffset != 0) return;
        if (type->tp_alloc != PyType_GenericAlloc || type->tp_free != PyObject_GC_Del) return;
        type->tp_flags &= ~Py_TPFLAGS_HAVE_GC;
        type->tp_free = pyconsumer_free_future;
    }

    /* Returns NULL, without an exception, if no memory is kept. */
    static PyObject *pyconsumer_kept_future(PyObject *of, PyObject *blank) {
        PyTypeObject *type = (PyTypeObject *)of;
        PyObject *future;
        if (pyconsumer_kept_count == 0 || type->tp_free != pyconsumer_free_future) return NULL;
        future = (PyObject *)pyconsumer_kept[--pyconsumer_kept_count];
        memcpy((char *)future + sizeof(PyObject), (char *)blank + sizeof(PyObject),
            (size_t)type->tp_basicsize - sizeof(PyObject));
        Py_INCREF(Py_None); /* its two attributes that are objects */
        Py_INCREF(Py_None);
        return PyObject_Init(future, type);
    }
    """
    void pyconsumer_untrack(object derived, object base)
    PyObject *pyconsumer_kept_future(object of, object blank)


cdef class BatchResult:
    cdef readonly object topic_partition
    cdef readonly int64_t base_offset
    cdef readonly int64_t log_append_time_ms
    cdef readonly object error
    cdef readonly object last_failure
    cdef bint settled
    cdef bint is_released
    cdef object released  # an event, as soon as a thread waits
    cdef list waiting  # None once settled. Created in advance, since creating a list may let other threads run
    cdef list parts

    def __cinit__(self):
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.waiting = []

    def __init__(self, topic_partition):
        self.topic_partition = topic_partition

    __reduce__ = not_copied

    def split(self, parts):
        parts = list(parts)
        for _, part in parts:
            # Never one that is split already: results would come to refer to each other in a circle.
            if not isinstance(part, BatchResult) or part is self or (<BatchResult>part).parts:
                raise TypeError(f"a batch is split into new ones, not into {part!r}")
        self.parts = parts
        left = [len(parts)]

        def one_done():
            left[0] -= 1
            if not left[0]:
                self.finish(-1, -1, None)

        for _, part in parts:
            part.on_done(one_done)

    def of(self, index):
        cdef BatchResult result = self
        while result.parts:
            for first, part in reversed(result.parts):
                if first <= index:
                    break
            result, index = <BatchResult?>part, index - first
        return result, index

    def ranges(self, int64_t first, int64_t count):
        if self.parts is None:
            return [(self, first, count)]
        found = []
        ends = [start for start, _ in self.parts[1:]] + [first + count]
        for (start, part), end in zip(self.parts, ends):
            low, high = max(first, start), min(first + count, end)
            if low < high:
                found += part.ranges(low - start, high - low)
        return found

    @property
    def done(self):
        return self.settled

    def attempt_failed(self, error):
        self.last_failure = error

    def wait(self, timeout):
        if self.is_released or (self.settled and in_sender_thread()):
            return True
        if self.released is None:
            event = threading.Event()
            if self.released is None:
                self.released = event
        if self.is_released:
            return True
        return self.released.wait(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))

    def finish(self, int64_t base_offset, int64_t log_append_time_ms, error):
        cdef list waiting
        if self.settled:
            return False
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.error = error
        waiting = self.waiting
        self.waiting = None
        self.settled = True
        exited = None
        try:
            for call in waiting:
                try:
                    if isinstance(call, FutureRecordMetadata):
                        (<FutureRecordMetadata>call).run()
                    elif type(call) is tuple:
                        run_one(<tuple>call)
                    else:
                        call()
                except BaseException as failure:  # sys.exit() in a callback: whoever else waits is called all the same
                    exited = failure
                    callback_exited(failure)
        finally:
            self.is_released = True
            if self.released is not None:
                self.released.set()
        if exited is not None:
            raise exited
        return True

    def on_done(self, call):
        if not callable(call):  # tuples and futures in `waiting` are ours
            raise TypeError(f"a function is called when the batch is done, not {call!r}")
        if self.settled:
            call()
        else:
            self.waiting.append(call)


cdef enum:
    AFTER_SUCCESS = 1
    AFTER_FAILURE = 2


# The garbage collector does not track futures, which saves half of their cost. Of the objects that a future refers to,
# only its function may refer back. It is released when the future is done, and every future is done eventually.
@cython.no_gc
@cython.freelist(1024)
cdef class FutureRecordMetadata:
    cdef BatchResult result_
    cdef int32_t index
    cdef int32_t key_size
    cdef int32_t value_size
    cdef int32_t header_size
    cdef int64_t timestamp_ms
    cdef int when
    cdef object function  # the first callback, if it takes no other argument than the outcome
    cdef object __weakref__

    def __init__(self, BatchResult result not None, index, timestamp_ms, key_size, value_size, header_size=-1):
        self.result_ = result
        self.index = index
        self.timestamp_ms = timestamp_ms
        self.key_size = key_size
        self.value_size = value_size
        self.header_size = header_size

    __reduce__ = not_copied

    @property
    def place(self):
        return self.result_, self.index

    @property
    def is_done(self):
        return self.result_.settled

    def done(self):
        return self.result_.settled

    def succeeded(self):
        return bool(self.result_.settled and self.failure() is None)

    def failed(self):
        return bool(self.result_.settled and self.failure() is not None)

    @property
    def exception(self):
        return self.failure() if self.result_.settled else None

    @property
    def value(self):
        return self.metadata() if self.succeeded() else None

    def get(self, timeout=None):
        if not self.result_.settled and in_sender_thread():
            raise IllegalStateError(
                "a callback of a record cannot wait for another record: its thread is the one that sends"
            )
        if not self.result_.wait(timeout):
            raise no_result(self.result_, self.index, timeout)
        error = self.failure()
        if error is not None:
            raise error
        return self.metadata()

    result = get

    def __await__(self):
        return awaited(self).__await__()

    def add_callback(self, function, *args, **kwargs):
        return self.register(AFTER_SUCCESS, function, args, kwargs)

    def add_errback(self, function, *args, **kwargs):
        return self.register(AFTER_FAILURE, function, args, kwargs)

    def add_both(self, function, *args, **kwargs):
        return self.register(AFTER_SUCCESS | AFTER_FAILURE, function, args, kwargs)

    cdef object register(self, int when, function, tuple args, dict kwargs):
        if self.when == 0 and not args and not kwargs and not self.result_.settled:
            self.function = function
            self.when = when
            self.result_.waiting.append(self)
            return self
        call = (self, when, function, args, kwargs)
        if self.result_.settled:
            run_one(call)
        else:
            self.result_.waiting.append(call)
        return self

    cdef int run(self) except -1:
        function = self.function
        self.function = None
        outcome = self.outcome(self.when)
        if outcome is None:
            return 0
        try:
            function(outcome)
        except Exception:
            callback_failed()
        return 0

    cdef object outcome(self, int when):
        """Return the metadata or the error, None if a function does not wait for that one."""
        error = self.failure()
        if error is None:
            return self.metadata() if when & AFTER_SUCCESS else None
        return error if when & AFTER_FAILURE else None

    cdef object failure(self):
        if self.result_.parts is None:
            return self.result_.error
        return (<BatchResult?>self.result_.of(self.index)[0]).error

    cdef object metadata(self):
        cdef BatchResult result = self.result_
        cdef int64_t index = self.index
        if result.parts is not None:
            found, index = result.of(index)
            result = <BatchResult?>found
        topic, partition = result.topic_partition
        return tuple.__new__(
            RecordMetadata,
            (
                topic,
                partition,
                result.base_offset + index if result.base_offset >= 0 else -1,
                self.timestamp_ms if result.log_append_time_ms < 0 else result.log_append_time_ms,
                self.key_size,
                self.value_size,
                self.header_size,
            ),
        )


cdef int run_one(tuple call) except -1:
    cdef FutureRecordMetadata future = <FutureRecordMetadata?>call[0]
    outcome = future.outcome(call[1])
    if outcome is not None:
        run_callback(call[2], (*call[3], outcome), call[4])
    return 0


#: Of a future that was made without a record.
cdef BatchResult NO_RESULT = BatchResult(None)
NO_RESULT.finish(-1, -1, IllegalStateError("this future was made by __new__ alone, without a record"))

cdef NewFunction first_new_future = NULL


cdef object new_future(PyTypeObject *cls, args, PyObject *named):
    """Return a future that is valid without ``__init__``. The appender bypasses this, and sets the result itself."""
    cdef FutureRecordMetadata future = <FutureRecordMetadata?>first_new_future(cls, args, named)
    future.result_ = NO_RESULT
    future.timestamp_ms = -1
    future.key_size = future.value_size = future.header_size = -1
    return future


PYCONSUMER_SET_NEW(FutureRecordMetadata, new_future, &first_new_future)


#: Its memory is that of a new future.
cdef FutureRecordMetadata BLANK = FutureRecordMetadata.__new__(FutureRecordMetadata)


cdef extern from *:
    """
    #define PYCONSUMER_OWNED(object) ((PyObject *)(object))
    """
    object PYCONSUMER_OWNED(PyObject *new)  # takes over the reference


def untracked(cls):
    """Decorate a subclass of FutureRecordMetadata whose objects the garbage collector need not know."""
    if not issubclass(cls, FutureRecordMetadata) or cls is FutureRecordMetadata:
        raise TypeError(f"a subclass of FutureRecordMetadata is expected, not {cls!r}")
    pyconsumer_untrack(cls, FutureRecordMetadata)
    return cls


cdef inline FutureRecordMetadata new_future_of(future_class):
    """Return a future of a subclass. The garbage collector does not track it."""
    cdef PyObject *kept = pyconsumer_kept_future(future_class, BLANK)
    if kept is not NULL:
        return <FutureRecordMetadata>PYCONSUMER_OWNED(kept)
    cdef FutureRecordMetadata future
    future = <FutureRecordMetadata>first_new_future(<PyTypeObject *>future_class, (), NULL)
    if PyObject_IS_GC(future):
        PyObject_GC_UnTrack(<void *>future)
    return future
