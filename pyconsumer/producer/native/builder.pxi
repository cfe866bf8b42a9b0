# BatchBuilder: records of format v2, written one after another.

cdef enum:
    BATCH_OVERHEAD = 61
    CRC_START = 21
    CRC_AT = 17
    FULL = -1
    FAILED = -2

cdef int32_t MAX_INT32 = 0x7FFFFFFF
cdef Py_ssize_t SMALLEST = 1024


cdef inline uint64_t zigzag(int64_t number) noexcept nogil:
    return (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)


cdef inline int varint_size(uint64_t number) noexcept nogil:
    cdef int size = 1
    while number >= 0x80:
        number >>= 7
        size += 1
    return size


cdef inline uint8_t *put_varint(uint8_t *at, uint64_t number) noexcept nogil:
    while number >= 0x80:
        at[0] = <uint8_t>(number & 0x7F) | 0x80
        at += 1
        number >>= 7
    at[0] = <uint8_t>number
    return at + 1


cdef inline uint8_t *put_bytes(uint8_t *at, const char *data, Py_ssize_t length) noexcept nogil:
    """Write a field and its length. Length -1 is null."""
    at = put_varint(at, zigzag(length))
    if length > 0:
        memcpy(at, data, length)
        at += length
    return at


cdef object NO_CODEC = Codec.NONE


cdef class BatchBuilder:
    cdef uint8_t *start
    cdef Py_ssize_t capacity
    cdef Py_ssize_t size
    cdef int exports
    cdef int64_t limit
    cdef int64_t base
    cdef int64_t highest
    cdef int32_t count
    cdef int32_t last_delta
    cdef double ratio
    cdef bint has_horizon
    cdef object codec_
    cdef object level
    cdef object payload
    cdef object timestamp_type
    cdef readonly double compression_ratio

    def __cinit__(self):
        self.codec_ = NO_CODEC
        self.timestamp_type = 0
        self.limit = <int64_t>1 << 62
        self.last_delta = -1
        self.base = self.highest = -1
        self.ratio = self.compression_ratio = 1.0

    def __init__(
        self,
        codec=Codec.NONE,
        timestamp_type=0,
        size_limit=None,
        *,
        double expected_ratio=1.0,
        level=None,
        delete_horizon_ms=None,
    ):
        self.codec_ = Codec.of(codec)
        self.timestamp_type = timestamp_type
        self.level = level
        self.ratio = expected_ratio if self.codec_ else 1.0
        if size_limit is None:
            self.limit = <int64_t>1 << 62
        else:
            self.limit = max(0, int((size_limit - BATCH_OVERHEAD) / max(self.ratio, 0.01)))
        self.last_delta = -1
        self.has_horizon = delete_horizon_ms is not None
        self.base = -1 if delete_horizon_ms is None else delete_horizon_ms
        self.highest = -1
        self.compression_ratio = 1.0

    def __dealloc__(self):
        free(self.start)

    @property
    def record_count(self):
        return self.count

    @property
    def codec(self):
        return self.codec_

    @property
    def estimated_size(self):
        return self.estimate()

    @property
    def base_timestamp(self):
        return self.base

    @property
    def max_timestamp(self):
        return self.highest

    cdef inline int64_t estimate(self) noexcept:
        if self.ratio != 1.0:
            return BATCH_OVERHEAD + <int64_t>(self.size * self.ratio)
        return BATCH_OVERHEAD + self.size

    cdef int32_t put(
        self,
        int64_t timestamp_ms,
        int32_t delta,
        const char *key,
        Py_ssize_t key_length,
        const char *value,
        Py_ssize_t value_length,
        const char *headers,
        Py_ssize_t headers_length,
    ) noexcept:
        """Append a record. Return its relative offset, FULL, or FAILED without memory. A length of -1 is null."""
        cdef uint64_t since_base
        cdef int64_t body
        cdef Py_ssize_t total, wanted
        cdef uint8_t *at
        if delta < 0:  # the number after the largest
            return FULL
        if self.count or self.has_horizon:
            since_base = zigzag(<int64_t>(<uint64_t>timestamp_ms - <uint64_t>self.base))
        else:
            since_base = 0
        body = 1 + varint_size(since_base) + varint_size(zigzag(delta)) + headers_length
        body += varint_size(zigzag(key_length)) + max(key_length, 0)
        body += varint_size(zigzag(value_length)) + max(value_length, 0)
        total = body + varint_size(zigzag(body))
        if self.count and self.size + total > self.limit:
            return FULL
        if self.size + total > self.capacity:
            wanted = max(self.size + total, max(2 * self.capacity, SMALLEST))
            at = <uint8_t *>realloc(self.start, wanted)
            if at is NULL:
                return FAILED
            self.start = at
            self.capacity = wanted
        at = put_varint(self.start + self.size, zigzag(body))
        at[0] = 0
        at = put_varint(at + 1, since_base)
        at = put_varint(at, zigzag(delta))
        at = put_bytes(at, key, key_length)
        at = put_bytes(at, value, value_length)
        memcpy(at, headers, headers_length)
        if not self.count:
            if not self.has_horizon:
                self.base = timestamp_ms
            self.highest = timestamp_ms
        elif timestamp_ms > self.highest:
            self.highest = timestamp_ms
        self.size += total
        self.count += 1
        self.last_delta = delta
        self.payload = None
        return delta

    cdef void drop_records(self) noexcept:
        """Free the memory of the records, and keep their count. The batch is closed."""
        if not self.exports:
            free(self.start)
            self.start = NULL
            self.size = self.capacity = 0
            self.payload = None

    def try_append(self, int64_t timestamp_ms, key, value, headers=(), *, relative_offset=None):
        cdef int32_t delta, found
        cdef Py_buffer key_view, value_view
        cdef bytes header_bytes = encode_headers(headers) if headers else b"\0"
        view_of(key, &key_view)
        try:
            view_of(value, &value_view)
            try:
                if relative_offset is None:
                    delta = next_delta(self.last_delta)
                elif self.last_delta < relative_offset <= MAX_INT32:
                    delta = relative_offset
                else:
                    raise ValueError(f"relative offset {relative_offset} does not come after {self.last_delta}")
                # Last, for all of this may call Python code. The key may even be a view of this batch.
                if self.exports:
                    raise BufferError("the batch is being read")
                if delta <= self.last_delta and delta >= 0:
                    raise ValueError(f"relative offset {delta} does not come after {self.last_delta}")
                found = self.put(
                    timestamp_ms,
                    delta,
                    <const char *>key_view.buf,
                    key_view.len,
                    <const char *>value_view.buf,
                    value_view.len,
                    PyBytes_AS_STRING(header_bytes),
                    PyBytes_GET_SIZE(header_bytes),
                )
            finally:
                if value_view.len >= 0:
                    PyBuffer_Release(&value_view)
        finally:
            if key_view.len >= 0:
                PyBuffer_Release(&key_view)
        if found == FAILED:
            raise MemoryError()
        return None if found == FULL else found

    def build(
        self,
        base_offset=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        is_transactional=False,
        is_control=False,
        leader_epoch=-1,
        *,
        log_append_time_ms=None,
        last_offset_delta=None,
    ):
        cdef bytes packed
        cdef bytes batch
        cdef bytes payload = None
        cdef const char *data = <const char *>self.start
        cdef Py_ssize_t length = self.size
        cdef uint8_t *at
        cdef uint32_t crc
        if self.codec_ and length:
            payload = self.payload
            if payload is None:
                payload = compress(self.codec_, memoryview(self), self.level)
                self.compression_ratio = <double>len(payload) / length
                self.payload = payload
            data = PyBytes_AS_STRING(payload)
            length = PyBytes_GET_SIZE(payload)
        packed = batch_header(
            payload_size=length,
            last_delta=self.last_delta,
            last_offset_delta=last_offset_delta,
            codec=self.codec_ if self.count else 0,
            timestamp_type=self.timestamp_type,
            is_transactional=is_transactional,
            is_control=is_control,
            has_delete_horizon=self.has_horizon,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            base_timestamp=self.base,
            max_timestamp=self.highest if log_append_time_ms is None else log_append_time_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.count,
        )
        if length and payload is None and (self.size != length or <const char *>self.start != data):
            raise BufferError("the batch changed while it was built")  # by code that was called with an argument
        batch = PyBytes_FromStringAndSize(NULL, BATCH_OVERHEAD + length)
        at = <uint8_t *>PyBytes_AS_STRING(batch)
        memcpy(at, PyBytes_AS_STRING(packed), BATCH_OVERHEAD)
        if length:
            memcpy(at + BATCH_OVERHEAD, data, length)
        crc = crc32c_of(at + CRC_START, BATCH_OVERHEAD - CRC_START + length, 0, 1)
        at[CRC_AT] = crc >> 24
        at[CRC_AT + 1] = crc >> 16 & 0xFF
        at[CRC_AT + 2] = crc >> 8 & 0xFF
        at[CRC_AT + 3] = crc & 0xFF
        return batch

    __reduce__ = not_copied

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.start, self.size, 1, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer *buffer):
        self.exports -= 1


cdef inline int32_t next_delta(int32_t delta) noexcept nogil:
    """Return the relative offset after another one, -1 if there is none."""
    return delta + 1 if delta < MAX_INT32 else -1


cdef int view_of(data, Py_buffer *view) except -1:
    """Get a view of the bytes of an object. Its length is -1 for None."""
    if data is None:
        view.buf = NULL
        view.len = -1
        return 0
    return PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
