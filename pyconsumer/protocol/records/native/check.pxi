# Checks of the records of a batch, for a broker. No record is created.


cdef inline const uint8_t *read_field(
    const uint8_t *at, const uint8_t *end, bint is_nullable, bint *is_null
) noexcept nogil:
    """Return the position after a length and that many bytes, NULL if they are damaged. Any negative length is null."""
    cdef uint64_t number
    at = read_varint32(at, end, &number)
    is_null[0] = number & 1
    if at is NULL:
        return NULL
    if number & 1:
        return at if is_nullable else NULL
    return NULL if number >> 1 > <uint64_t>(end - at) else at + (number >> 1)


cdef inline const uint8_t *check_record(
    const uint8_t *at, const uint8_t *limit, int64_t *timestamp, uint64_t *delta, bint *no_key
) noexcept nogil:
    """Return the position after a record, NULL if it is damaged. The numbers are still in zigzag encoding."""
    cdef const uint8_t *end
    cdef uint64_t number
    cdef bint is_null
    at = read_varint32(at, limit, &number)
    if at is NULL or number & 1 or number >> 1 > <uint64_t>(limit - at):
        return NULL
    end = at + (number >> 1)
    if at >= end:
        return NULL
    at = read_varint64(at + 1, end, <uint64_t *>timestamp)
    if at is NULL:
        return NULL
    at = read_varint32(at, end, delta)
    if at is NULL:
        return NULL
    at = read_field(at, end, True, no_key)
    if at is NULL:
        return NULL
    at = read_field(at, end, True, &is_null)
    if at is NULL:
        return NULL
    at = read_varint32(at, end, &number)
    if at is NULL or number & 1 or number >> 1 > <uint64_t>(end - at):
        return NULL
    number >>= 1
    while number:
        at = read_field(at, end, False, &is_null)
        if at is NULL:
            return NULL
        at = read_field(at, end, True, &is_null)
        if at is NULL:
            return NULL
        number -= 1
    return at if at == end else NULL


def check_records(
    data,
    Py_ssize_t position,
    Py_ssize_t end,
    info,
    bint needs_keys,
    int64_t earliest,
    int64_t latest,
    bint needs_order=True,
):
    """See ``checking.check_records``."""
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef const uint8_t *next_one
    cdef const uint8_t *limit
    cdef int64_t first = info.first_timestamp, greatest = -1, timestamp = 0
    cdef uint64_t delta = 0, number
    cdef bint no_key = False
    cdef int32_t index = 0, count = info.record_count
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= position <= end <= view.len:
            raise ValueError("not a part of the data")
        at = <const uint8_t *>view.buf + position
        limit = <const uint8_t *>view.buf + end
        with nogil:
            while index < count:
                next_one = check_record(at, limit, &timestamp, &delta, &no_key)
                if next_one is NULL:
                    break
                if needs_order and delta != <uint64_t>index << 1:
                    break
                if needs_keys and no_key:
                    break
                # The sum may wrap around, as in Java.
                number = <uint64_t>timestamp
                timestamp = <int64_t>(<uint64_t>first + ((number >> 1) ^ (0 - (number & 1))))
                if timestamp != -1 and not earliest <= timestamp <= latest:
                    break
                if timestamp > greatest:
                    greatest = timestamp
                at = next_one
                index += 1
        if index == count and at == limit:
            return -1, greatest
        return index, greatest
    finally:
        PyBuffer_Release(&view)
