# Parsing of headers and records: bytes in, numbers out.

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define PYCONSUMER_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define PYCONSUMER_PREFETCH(address) ((void)(address))
    #endif
    """
    void PYCONSUMER_PREFETCH(const uint8_t *address) noexcept nogil

cdef enum:
    GOOD = 0
    PASSED = 1  # a record below the wanted offset
    DAMAGED = 2
    NOTHING = 3  # no complete batch is left

cdef enum:
    LOG_OVERHEAD = 12
    BATCH_OVERHEAD = 61
    CRC_START = 21
    CODEC_MASK = 0x07
    TIMESTAMP_TYPE_FLAG = 0x08
    TRANSACTIONAL_FLAG = 0x10
    CONTROL_FLAG = 0x20
    DELETE_HORIZON_FLAG = 0x40

cdef enum:
    CACHE_LINE = 64
    MOST_AHEAD = 524288  # bytes. What is prefetched must still be in the cache when it is read

cdef int64_t MAX_OFFSET = 0x7FFFFFFFFFFFFFFF


cdef struct BatchHeader:
    Py_ssize_t position
    Py_ssize_t size
    int64_t base_offset
    int64_t last_offset
    int64_t first_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int32_t leader_epoch
    int32_t record_count
    uint32_t crc
    int attributes
    int magic


cdef struct RecordView:
    # The positions of a record's parts. A length of -1 is null.
    int64_t offset
    int64_t timestamp
    const uint8_t *key
    Py_ssize_t key_length
    const uint8_t *value
    Py_ssize_t value_length
    const uint8_t *headers  # they begin with their count
    Py_ssize_t headers_length  # 0 without headers


cdef inline uint32_t u32_at(const uint8_t *data) noexcept nogil:
    return <uint32_t>data[0] << 24 | <uint32_t>data[1] << 16 | <uint32_t>data[2] << 8 | data[3]


cdef inline int32_t i32_at(const uint8_t *data) noexcept nogil:
    return <int32_t>u32_at(data)


cdef inline int64_t i64_at(const uint8_t *data) noexcept nogil:
    return <int64_t>(<uint64_t>u32_at(data) << 32 | u32_at(data + 4))


cdef int read_header(const uint8_t *data, Py_ssize_t total, Py_ssize_t position, BatchHeader *header) noexcept nogil:
    """Read the header at a position, with the checks of ``batch.scan_until_damage``."""
    cdef const uint8_t *start = data + position
    cdef int64_t size
    cdef int32_t delta
    if total - position <= 16:
        return NOTHING
    size = <int64_t>i32_at(start + 8) + LOG_OVERHEAD
    header.magic = start[16]
    header.position = position
    header.base_offset = i64_at(start)
    if header.magic == 2:
        if size < BATCH_OVERHEAD:
            return DAMAGED
        if size > total - position:
            return NOTHING
        delta = i32_at(start + 23)
        header.record_count = i32_at(start + 57)
        if header.base_offset < 0 or delta < 0 or delta >= MAX_OFFSET - header.base_offset or header.record_count < 0:
            return DAMAGED
        header.last_offset = header.base_offset + delta
        header.leader_epoch = i32_at(start + 12)
        header.crc = u32_at(start + 17)
        header.attributes = <int>start[21] << 8 | start[22]
        header.first_timestamp = i64_at(start + 27)
        header.max_timestamp = i64_at(start + 35)
        header.producer_id = i64_at(start + 43)
    elif header.magic < 2:
        if size < (LOG_OVERHEAD + 22 if header.magic else LOG_OVERHEAD + 14):
            return DAMAGED
        if size > total - position:
            return NOTHING
        if header.base_offset < 0 or header.base_offset >= MAX_OFFSET:
            return DAMAGED
        header.last_offset = header.base_offset
        header.leader_epoch = -1
        header.crc = u32_at(start + 12)
        header.attributes = start[17]
        header.first_timestamp = header.max_timestamp = i64_at(start + 18) if header.magic else -1
        header.producer_id = -1
        header.record_count = -1 if header.attributes & CODEC_MASK else 1
    else:
        return DAMAGED
    header.size = <Py_ssize_t>size
    return GOOD


cdef inline int timestamp_type_of(const BatchHeader *header) noexcept nogil:
    if header.magic == 0:
        return -1
    return 1 if header.attributes & TIMESTAMP_TYPE_FLAG else 0


cdef inline int64_t first_time(const BatchHeader *header) noexcept nogil:
    """Return ``BatchInfo.time_before_reading``."""
    if timestamp_type_of(header) == 1 or (header.magic >= 2 and header.attributes & DELETE_HORIZON_FLAG):
        return header.max_timestamp
    return header.first_timestamp


cdef inline bint is_control(const BatchHeader *header) noexcept nogil:
    return header.magic == 2 and header.attributes & CONTROL_FLAG != 0


cdef inline bint is_transactional(const BatchHeader *header) noexcept nogil:
    return header.magic == 2 and header.attributes & TRANSACTIONAL_FLAG != 0


# Numbers of variable length, which are left in zigzag encoding. These functions return the position after the number,
# or NULL if it is damaged or goes beyond `end`. As in Java, bits of the last byte that a number may have are dropped if
# they are too many.

cdef const uint8_t *read_long_varint(
    const uint8_t *at, const uint8_t *end, int max_bits, uint64_t *number
) noexcept nogil:
    cdef int shift = 0
    cdef uint64_t byte, found = 0
    while at < end:
        byte = at[0]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            number[0] = <uint64_t><uint32_t>found if max_bits == 32 else found
            return at
        shift += 7
        if shift >= max_bits:
            return NULL
    return NULL


cdef inline const uint8_t *read_varint32(const uint8_t *at, const uint8_t *end, uint64_t *number) noexcept nogil:
    if at >= end:
        return NULL
    if at[0] < 0x80:
        number[0] = at[0]
        return at + 1
    if end - at > 1 and at[1] < 0x80:
        number[0] = (at[0] & 0x7F) | <uint64_t>at[1] << 7
        return at + 2
    return read_long_varint(at, end, 32, number)


cdef inline const uint8_t *read_varint64(const uint8_t *at, const uint8_t *end, uint64_t *number) noexcept nogil:
    if at >= end:
        return NULL
    if at[0] < 0x80:
        number[0] = at[0]
        return at + 1
    return read_long_varint(at, end, 64, number)


cdef inline const uint8_t *read_nullable(
    const uint8_t *at, const uint8_t *end, const uint8_t **start, Py_ssize_t *length
) noexcept nogil:
    """Read a length and that many bytes. A negative length is null."""
    cdef uint64_t number
    if at >= end:
        return NULL
    if at[0] == 1:
        length[0] = -1
        start[0] = NULL
        return at + 1
    at = read_varint32(at, end, &number)
    if at is NULL:
        return NULL
    if number & 1:
        length[0] = -1
        start[0] = NULL
        return at
    if number >> 1 > <uint64_t>(end - at):
        return NULL
    start[0] = at
    length[0] = <Py_ssize_t>(number >> 1)
    return at + length[0]


cdef const uint8_t *pass_headers(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Return the position after the headers that begin at ``at``; NULL if they are damaged."""
    cdef uint64_t count, number
    cdef const uint8_t *start
    cdef Py_ssize_t length
    at = read_varint32(at, end, &count)
    if at is NULL or count & 1:
        return NULL
    count >>= 1
    if count > <uint64_t>(end - at):
        return NULL
    while count:
        at = read_varint32(at, end, &number)
        if at is NULL or number & 1 or number >> 1 > <uint64_t>(end - at):
            return NULL
        at = read_nullable(at + (number >> 1), end, &start, &length)
        if at is NULL:
            return NULL
        count -= 1
    return at


cdef inline int read_record(
    const uint8_t **place,
    const uint8_t *limit,
    const BatchHeader *header,
    int64_t lowest,
    bint skipping,
    RecordView *record,
) noexcept nogil:
    """Read the record at ``place[0]``, which moves past it unless it is damaged."""
    cdef const uint8_t *at = place[0]
    cdef const uint8_t *end
    cdef uint64_t number
    at = read_varint32(at, limit, &number)
    if at is NULL or number & 1 or number >> 1 > <uint64_t>(limit - at):
        return DAMAGED
    end = at + (number >> 1)
    # One byte of attributes, which has no meaning yet. Of a record that is skipped, only the offset matters, even if it
    # lies beyond the record's end.
    if at >= limit:
        return DAMAGED
    at = read_varint64(at + 1, limit, &number)
    if at is NULL:
        return DAMAGED
    # The sum may wrap around, as in Java.
    record.timestamp = <int64_t>(<uint64_t>header.first_timestamp + ((number >> 1) ^ (0 - (number & 1))))
    at = read_varint32(at, limit, &number)
    if at is NULL or number & 1:
        return DAMAGED
    number >>= 1
    if number > <uint64_t>(header.last_offset - header.base_offset):
        return DAMAGED
    record.offset = header.base_offset + <int64_t>number
    if record.offset < lowest:
        if not skipping:
            return DAMAGED
        place[0] = end
        return PASSED
    at = read_nullable(at, end, &record.key, &record.key_length)
    if at is NULL:
        return DAMAGED
    at = read_nullable(at, end, &record.value, &record.value_length)
    if at is NULL or at >= end:
        return DAMAGED
    record.headers = at
    if at[0] == 0:
        record.headers_length = 0
        at += 1
    else:
        at = pass_headers(at, end)
        if at is NULL:
            return DAMAGED
        record.headers_length = at - record.headers
    if at != end:
        return DAMAGED
    place[0] = end
    return GOOD


cdef inline void prefetch(const uint8_t *start, const uint8_t *end, const uint8_t *limit) noexcept nogil:
    """Fetch bytes before ``limit`` into the cache. Of a large record only the beginning."""
    if end > limit:
        end = limit
    if end - start > 32 * CACHE_LINE:
        end = start + 32 * CACHE_LINE
    while start < end:
        PYCONSUMER_PREFETCH(start)
        start += CACHE_LINE
