# Checks of the records of a batch, for a broker. No record is created.


def check_records(
    data, Py_ssize_t position, Py_ssize_t end, info, bint needs_keys, int64_t earliest, int64_t latest
):
    """See ``checking.check_records``."""
    cdef Py_buffer view
    cdef BatchHeader head
    cdef RecordView record
    cdef const uint8_t *at
    cdef const uint8_t *limit
    cdef int64_t lowest, greatest = -1
    cdef int32_t index = 0, count = info.record_count
    memset(&head, 0, sizeof(head))
    lowest = head.base_offset = info.base_offset
    head.last_offset = info.last_offset
    head.first_timestamp = info.first_timestamp
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= position <= end <= view.len:
            raise ValueError("not a part of the data")
        at = <const uint8_t *>view.buf + position
        limit = <const uint8_t *>view.buf + end
        with nogil:
            while index < count:
                if read_record(&at, limit, &head, lowest, False, &record) != GOOD:
                    break
                if needs_keys and record.key_length < 0:
                    break
                if record.timestamp != -1 and not earliest <= record.timestamp <= latest:
                    break
                if record.timestamp > greatest:
                    greatest = record.timestamp
                lowest = record.offset + 1
                index += 1
        if index == count and at == limit:
            return -1, greatest
        return index, greatest
    finally:
        PyBuffer_Release(&view)
