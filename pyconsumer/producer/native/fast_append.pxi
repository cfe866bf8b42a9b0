# BufferMemory, ProducerBatch, and Appender, which adds records to batches.

from cpython.unicode cimport PyUnicode_AsUTF8AndSize

cdef extern from "Python.h":
    bint PyObject_IS_GC(object record)
    void PyObject_GC_UnTrack(void *record)

cdef extern from "time.h" nogil:
    """
    #include <time.h>
    static inline long long pyconsumer_wall_ms(void) {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    """
    int64_t pyconsumer_wall_ms()

cdef enum:
    RECORD_OVERHEAD = 21
    CHOOSE = -1  # no partition was given
    MOST_AT_ONCE = 10000  # records after which other threads get their turn
    MOST_PARTITIONS = 1 << 20  # of a topic whose batches are remembered

cdef int64_t MAX_INT64 = 0x7FFFFFFFFFFFFFFF

#: Number of forks that led to this process: a producer is used only in the process that created it.
cdef int forks = 0


def _count_fork():
    global forks
    forks += 1


os.register_at_fork(after_in_child=_count_fork)


cdef class BufferMemory:
    cdef readonly int64_t limit
    cdef readonly int64_t used

    def __init__(self, limit):
        self.limit = limit

    __reduce__ = not_copied

    def has_room(self, size_bytes):
        return self.used + size_bytes <= self.limit or self.used == 0

    def take(self, int64_t size_bytes):
        self.used += size_bytes

    def give_back(self, int64_t size_bytes):
        self.used -= size_bytes


cdef class ProducerBatch:
    cdef readonly object topic_partition
    cdef BatchBuilder builder_
    cdef BatchResult result_
    cdef BufferMemory memory_
    cdef int64_t charged
    cdef bint closed_
    cdef bint announced
    cdef readonly double created_at
    cdef readonly int attempts
    cdef readonly double retry_at
    cdef readonly bint uncertain
    cdef readonly bint expired
    cdef readonly int64_t base_sequence
    cdef readonly object producer
    cdef readonly object data

    def __cinit__(self):
        self.builder_ = BatchBuilder.__new__(BatchBuilder)
        self.memory_ = BufferMemory.__new__(BufferMemory)
        self.result_ = BatchResult.__new__(BatchResult)
        self.closed_ = True
        self.base_sequence = -1
        self.producer = (-1, -1)

    def __init__(self, topic_partition, BatchBuilder builder not None, double now, BufferMemory memory not None):
        self.topic_partition = topic_partition
        self.builder_ = builder
        self.created_at = now
        self.memory_ = memory
        self.result_.topic_partition = topic_partition
        self.closed_ = False

    __reduce__ = not_copied

    @property
    def builder(self):
        return self.builder_

    @property
    def result(self):
        return self.result_

    @property
    def record_count(self):
        return self.builder_.count

    @property
    def memory(self):
        return self.charged

    @property
    def closed(self):
        return self.closed_

    def close(self):
        self.closed_ = True

    def leave(self):
        self.closed_ = True
        self.attempts += 1

    def retry(self, double at):
        self.retry_at = at

    def take_number(self, producer, int64_t base_sequence):
        self.producer = producer
        self.base_sequence = base_sequence
        self.data = None

    def built(self, data):
        self.data = data
        return data

    def mark_uncertain(self):
        self.uncertain = True

    def expire(self):
        self.expired = True
        self.release()

    def done(self):
        self.release()
        self.data = None

    def append(self, int64_t timestamp_ms, key, value, headers, int64_t size_bytes):
        if self.closed_:
            return None
        index = self.builder_.try_append(timestamp_ms, key, value, headers)
        if index is None:
            self.closed_ = True
        else:
            self.charged += size_bytes
            self.memory_.used += size_bytes
        return index

    def move_memory(self, ProducerBatch to not None, int64_t size_bytes):
        self.charged -= size_bytes
        to.charged += size_bytes

    def inherit_memory(self, int64_t size_bytes):
        self.charged += size_bytes

    def release(self):
        self.closed_ = True
        self.memory_.used -= self.charged
        self.charged = 0
        self.builder_.drop_records()  # the appender, and whoever else has the batch, must not keep them


cdef class _Topic:
    cdef int32_t count
    cdef list open  # the open batch of each partition, or None
    cdef list sticky  # the partitioner's current partition, and the bytes appended to it


cdef class Appender:
    cdef BufferMemory memory
    cdef object wake
    cdef int64_t batch_size
    cdef int64_t largest
    cdef bint ignore_keys
    cdef bint chooses
    cdef bint reads_clock
    cdef bint takes_text
    cdef object future_class  # a subclass of FutureRecordMetadata, None for that itself
    cdef dict topics
    cdef int forks
    cdef readonly bint is_open
    cdef readonly int64_t records

    def __cinit__(self):
        self.topics = {}

    __reduce__ = not_copied

    def __init__(
        self,
        BufferMemory memory not None,
        wake,
        *,
        batch_size,
        largest,
        ignore_keys,
        chooses,
        reads_clock,
        takes_text=True,
        future_class=None,
    ):
        if future_class is not None and not issubclass(future_class, FutureRecordMetadata):
            raise TypeError(f"the class of futures must be derived from FutureRecordMetadata, not {future_class!r}")
        self.future_class = future_class
        self.takes_text = takes_text
        self.memory = memory
        self.wake = wake
        self.batch_size = batch_size
        self.largest = largest
        self.ignore_keys = ignore_keys
        self.chooses = chooses
        self.reads_clock = reads_clock
        self.topics = {}
        self.forks = forks
        self.is_open = True

    def remember(self, topic, int32_t count, ProducerBatch batch not None, int32_t partition, sticky):
        cdef _Topic known
        if not isinstance(topic, str):
            raise TypeError(f"a topic's name is text, not {topic!r}")
        if not 0 < count <= MOST_PARTITIONS:
            return
        topic = str.__str__(topic)
        found = self.topics.get(topic)
        if found is None:
            known = _Topic.__new__(_Topic)
            known.count = count
            known.open = [None] * count
            self.topics[topic] = known
        else:
            known = found
        if sticky is not None:
            known.sticky = sticky if type(sticky) is list else None
        if 0 <= partition < known.count:
            known.open[partition] = batch

    def forget(self):
        self.topics = {}

    def close(self):
        self.is_open = False

    @cython.nonecheck(False)  # each record passes it. `__cinit__` has set the attributes
    cdef _Topic known_topic(self, topic):
        """Return the topic, or None if no records may be appended to its batches here."""
        cdef PyObject *found
        if not self.is_open or forks != self.forks:
            return None
        if type(topic) is not str:
            return self.known_topic(str.__str__(topic)) if isinstance(topic, str) else None  # a StrEnum's
        found = PyDict_GetItem(self.topics, topic)
        return None if found is NULL else <_Topic>found

    @cython.nonecheck(False)  # each record passes it. `__cinit__` has set the attributes
    cdef int64_t time_of(self, timestamp_ms):
        """Return milliseconds since the epoch, or -1 to leave that to Python."""
        if timestamp_ms is None:
            return pyconsumer_wall_ms() if self.reads_clock else -1
        if type(timestamp_ms) is not int or not 0 <= timestamp_ms <= MAX_INT64:
            return -1
        return timestamp_ms

    cdef int32_t chosen(self, partition):
        """Return the user's partition, CHOOSE if there is none, or FAILED to leave that to Python."""
        if partition is None:
            return FAILED if self.chooses else CHOOSE
        if type(partition) is not int or not 0 <= partition <= MAX_INT32:
            return FAILED
        return partition

    @cython.nonecheck(False)  # each record passes it. `__cinit__` has set the attributes
    cdef ProducerBatch place(
        self,
        _Topic known,
        int32_t partition,
        int64_t timestamp,
        const char *key,
        Py_ssize_t key_size,
        const char *value,
        Py_ssize_t value_size,
        PackedHeaders *headers,
        int32_t *index,
    ):
        """Append a record to its open batch and return the batch, None if a decision is needed first.

        No object is created here: that may run the garbage collector, and with it any code and any thread.
        """
        cdef PyObject *found
        cdef ProducerBatch batch
        cdef BatchBuilder builder
        cdef int64_t size = RECORD_OVERHEAD + max(key_size, 0) + max(value_size, 0) + headers.charge
        cdef int64_t used = 0
        cdef bint by_bytes = False
        if size > self.largest:
            return None
        if partition == CHOOSE:
            if key_size >= 0 and not self.ignore_keys:
                partition = (murmur2_of(<const uint8_t *>key, key_size) & 0x7FFFFFFF) % <uint32_t>known.count
            elif known.sticky is None:
                return None
            else:
                by_bytes = True
                if PyList_GET_SIZE(known.sticky) != 2:
                    return None
                if not (is_int(PyList_GET_ITEM(known.sticky, 0)) and is_int(PyList_GET_ITEM(known.sticky, 1))):
                    return None
                partition = <object>PyList_GET_ITEM(known.sticky, 0)
                used = <object>PyList_GET_ITEM(known.sticky, 1)
                if used >= self.batch_size:
                    return None
        if not 0 <= partition < known.count:
            return None
        found = PyList_GET_ITEM(known.open, partition)
        if found is <PyObject *>None:
            return None
        batch = <ProducerBatch>found
        builder = batch.builder_
        if batch.closed_ or builder.exports:
            return None
        if self.memory.used + size > self.memory.limit and self.memory.used:
            return None
        index[0] = builder.put(
            timestamp,
            next_delta(builder.last_delta),
            key,
            key_size,
            value,
            value_size,
            headers.start,
            headers.length,
        )
        if index[0] < 0:
            return None
        batch.charged += size
        self.memory.used += size
        self.records += 1
        if by_bytes:
            known.sticky[1] = used + size
        return batch

    @cython.nonecheck(False)  # each record passes it. `__cinit__` has set the attributes
    cdef int announce(self, ProducerBatch batch) except -1:
        """Wake the sender once for a batch that is large enough."""
        if not batch.announced and batch.builder_.estimate() >= self.batch_size:
            batch.announced = True
            self.wake()
        return 0

    @cython.nonecheck(False)  # each record passes it. `__cinit__` has set the attributes
    def append(self, topic, value, key, headers, partition, timestamp_ms):
        cdef _Topic known = self.known_topic(topic)
        cdef ProducerBatch batch
        cdef FutureRecordMetadata future
        cdef PackedHeaders packed
        cdef bytes encoded
        cdef const char *key_data = NULL
        cdef const char *value_data = NULL
        cdef Py_ssize_t key_size = -1, value_size = -1
        cdef int64_t timestamp
        cdef int32_t number, index = 0
        if known is None:
            return None
        timestamp = self.time_of(timestamp_ms)
        number = self.chosen(partition)
        if timestamp < 0 or number == FAILED:
            return None
        encoded = pack_headers(headers, &packed)
        if encoded is None:
            return None
        try:
            if not (
                text_or_bytes(value, self.takes_text, &value_data, &value_size)
                and text_or_bytes(key, self.takes_text, &key_data, &key_size)
            ):
                return None
        except UnicodeEncodeError:
            return None
        if self.future_class is None:  # before the batch is checked, see `place`
            future = FutureRecordMetadata.__new__(FutureRecordMetadata)
        else:
            future = new_future_of(self.future_class)
        batch = self.place(
            known, number, timestamp, key_data, key_size, value_data, value_size, &packed, &index
        )
        if batch is None:
            return None
        future.result_ = batch.result_
        future.index = index
        future.key_size = <int32_t>key_size
        future.value_size = <int32_t>value_size
        future.header_size = <int32_t>packed.size
        future.timestamp_ms = timestamp
        self.announce(batch)
        return future

    @cython.nonecheck(False)  # each record passes it. `__cinit__` has set the attributes
    def append_many(self, topic, values, keys, Py_ssize_t start, partition, timestamp_ms, runs, headers=None):
        cdef _Topic known = self.known_topic(topic)
        cdef PackedHeaders packed
        cdef bytes encoded
        cdef list value_list = exact_list(values)
        cdef list key_list = None if keys is None else exact_list(keys)
        cdef ProducerBatch batch, last = None
        cdef const char *key_data
        cdef const char *value_data
        cdef Py_ssize_t key_size, value_size, at = start
        cdef Py_ssize_t end = min(PyList_GET_SIZE(value_list), start + MOST_AT_ONCE)
        cdef int64_t timestamp
        cdef int32_t number, index = 0, first = 0, count = 0
        if known is None or start < 0 or (keys is not None and len(key_list) != len(value_list)):
            return start
        timestamp = self.time_of(timestamp_ms)
        number = self.chosen(partition)
        if timestamp < 0 or number == FAILED:
            return start
        encoded = pack_headers(headers, &packed)
        if encoded is None:
            return start
        while at < end:
            if at >= PyList_GET_SIZE(value_list) or (keys is not None and at >= PyList_GET_SIZE(key_list)):
                break  # `wake` let other code run, which made the lists shorter
            key_data = value_data = NULL
            key_size = value_size = -1
            try:
                if not text_or_bytes(<object>PyList_GET_ITEM(value_list, at), True, &value_data, &value_size):
                    break
                if keys is not None and not text_or_bytes(
                    <object>PyList_GET_ITEM(key_list, at), True, &key_data, &key_size
                ):
                    break
            except UnicodeEncodeError:
                break
            batch = self.place(
                known, number, timestamp, key_data, key_size, value_data, value_size, &packed, &index
            )
            if batch is None:
                break
            at += 1
            if batch is last:
                count += 1
                continue
            if last is not None:
                runs.append((last.result_, first, count))
                self.announce(last)
            last, first, count = batch, index, 1
        if last is not None:
            runs.append((last.result_, first, count))
            self.announce(last)
        return at


cdef struct PackedHeaders:
    const char *start
    Py_ssize_t length
    Py_ssize_t size  # of names and values, -1 without headers
    int64_t charge  # the memory they are counted with


cdef bytes NO_HEADERS = b"\0"


cdef bytes pack_headers(headers, PackedHeaders *packed):
    """Encode the headers of a record. Return None to leave them to Python.

    The result owns the bytes that ``packed`` points to. The copy of a list may run the garbage collector. A tuple of
    tuples does not change after that.
    """
    cdef PyObject *item
    cdef Py_ssize_t number, count, length, total
    cdef bytes encoded
    cdef uint8_t *at
    packed.size = -1
    packed.charge = 0
    if headers is None or ((type(headers) is list or type(headers) is tuple) and not headers):
        packed.start = PyBytes_AS_STRING(NO_HEADERS)
        packed.length = 1
        return NO_HEADERS
    if type(headers) is list:
        headers = PyList_AsTuple(headers)
    elif type(headers) is not tuple:
        return None
    count = PyTuple_GET_SIZE(headers)
    total = varint_size(zigzag(count))
    packed.size = 0
    for number in range(count):
        item = PyTuple_GET_ITEM(headers, number)
        if type(<object>item) is not tuple or PyTuple_GET_SIZE(<object>item) != 2:
            return None
        name = <object>PyTuple_GET_ITEM(<object>item, 0)
        data = <object>PyTuple_GET_ITEM(<object>item, 1)
        if type(name) is not str or not (data is None or type(data) is bytes):
            return None
        try:
            PyUnicode_AsUTF8AndSize(name, &length)
        except UnicodeEncodeError:
            return None
        total += varint_size(zigzag(length)) + length
        packed.size += length
        packed.charge += 10 + 4 * len(<str>name)
        length = -1 if data is None else PyBytes_GET_SIZE(data)
        total += varint_size(zigzag(length)) + max(length, 0)
        packed.size += max(length, 0)
        packed.charge += max(length, 0)
    encoded = PyBytes_FromStringAndSize(NULL, total)
    at = put_varint(<uint8_t *>PyBytes_AS_STRING(encoded), zigzag(count))
    for number in range(count):
        item = PyTuple_GET_ITEM(headers, number)
        name = <object>PyTuple_GET_ITEM(<object>item, 0)
        data = <object>PyTuple_GET_ITEM(<object>item, 1)
        at = put_bytes(at, PyUnicode_AsUTF8AndSize(name, &length), length)
        if data is None:
            at = put_varint(at, zigzag(-1))
        else:
            at = put_bytes(at, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    packed.start = PyBytes_AS_STRING(encoded)
    packed.length = total
    return encoded


cdef inline list exact_list(given):
    return <list>given if type(given) is list else list(given)


cdef inline bint is_int(PyObject *number) noexcept:
    return type(<object>number) is int


cdef inline bint text_or_bytes(data, bint takes_text, const char **start, Py_ssize_t *length) except *:
    """Set ``start`` and ``length`` to the bytes of a key or value.

    Return False if it is not bytes, None, or a str that is taken.
    """
    if type(data) is bytes:
        start[0] = PyBytes_AS_STRING(data)
        length[0] = PyBytes_GET_SIZE(data)
        return True
    if data is None:
        return True
    if takes_text and type(data) is str:
        start[0] = PyUnicode_AsUTF8AndSize(data, length)
        return True
    return False


cdef uint32_t murmur2_of(const uint8_t *data, Py_ssize_t length) noexcept nogil:
    """Return the same hash as ``partitioner.murmur2``."""
    cdef uint32_t m = 0x5BD1E995
    cdef uint32_t h = <uint32_t>0x9747B28C ^ <uint32_t>length
    cdef uint32_t k
    cdef Py_ssize_t at = 0
    while length - at >= 4:
        k = <uint32_t>data[at] | <uint32_t>data[at + 1] << 8
        k |= <uint32_t>data[at + 2] << 16 | <uint32_t>data[at + 3] << 24
        k *= m
        k ^= k >> 24
        h = (h * m) ^ (k * m)
        at += 4
    if length - at >= 3:
        h ^= <uint32_t>data[at + 2] << 16
    if length - at >= 2:
        h ^= <uint32_t>data[at + 1] << 8
    if length - at >= 1:
        h = (h ^ data[at]) * m
    h ^= h >> 13
    h *= m
    return h ^ h >> 15


def murmur2(data):
    """Return the same hash as ``partitioner.murmur2``."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return murmur2_of(<const uint8_t *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
