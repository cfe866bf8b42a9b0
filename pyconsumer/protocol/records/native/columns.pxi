# Records as columns, in the layout of Arrow. The results are objects of columns.py that contain memoryviews.

from pyconsumer.protocol.records.columns import BinaryColumn, Columns, HeaderColumn

cdef Py_ssize_t MOST_BYTES = 0x7FFFFFFF  # offsets have 32 bits


cdef extern from *:
    """
    /* Copies `length` bytes in pieces of 32. For so short a copy, the call of memcpy would take longer than the copy
       itself. Up to 32 bytes after them are read and written, too. */
    static inline void pyconsumer_copy(char *to, const uint8_t *from, Py_ssize_t length) {
        Py_ssize_t done = 0;
        do {
            memcpy(to + done, from + done, 32);
            done += 32;
        } while (done < length);
    }
    """
    void pyconsumer_copy(char *to, const uint8_t *start, Py_ssize_t length) noexcept nogil

cdef enum:
    COPIED_AT_ONCE = 32
    LONGEST_SMALL = 512  # bytes. Longer strings are copied by memcpy


@cython.final
@cython.no_gc
cdef class ByteStrings:
    """Builder of a ``BinaryColumn``."""

    cdef Memory offsets  # 0, then the end of each string
    cdef Memory data
    cdef Memory bits  # 1 for a string, 0 for null. Lowest bit first
    cdef int32_t *ends
    cdef char *bytes
    cdef uint8_t *valid
    cdef Py_ssize_t size
    cdef Py_ssize_t count
    cdef Py_ssize_t nulls
    cdef Py_ssize_t capacity  # number of strings

    def __cinit__(self):
        self.size = self.count = self.nulls = self.capacity = 0
        self.offsets = new_memory(64)
        self.data = new_memory(64)
        self.bits = new_memory(64)
        self.bytes = self.data.start
        self.valid = <uint8_t *>self.bits.start
        self.ends = <int32_t *>self.offsets.start
        self.ends[0] = 0

    cdef int reserve(self, Py_ssize_t more) except -1:
        """Make room for ``more`` strings, not for their bytes."""
        cdef Py_ssize_t wanted = self.count + more
        if wanted > self.capacity:
            wanted = max(wanted, 2 * self.capacity)
            self.offsets.resize(4 * (wanted + 1), 4 * (self.count + 1))
            self.ends = <int32_t *>self.offsets.start
            self.bits.resize(wanted // 8 + 1, self.count // 8 + 1 if self.capacity else 0)
            self.valid = <uint8_t *>self.bits.start
            self.capacity = wanted
        return 0

    cdef int grow(self, Py_ssize_t more) except -1:
        """Make room for at least ``more`` bytes."""
        self.data.resize(max(self.size + more, 2 * self.data.capacity), self.size)
        self.bytes = self.data.start
        return 0

    cdef inline int append(self, const uint8_t *start, Py_ssize_t length) except -1:
        """Append a string. Length -1 is null. Room for it must be reserved. The column must stay below 2 GiB."""
        cdef Strings strings
        if length > self.data.capacity - self.size:
            self.grow(length)
        strings = strings_of(self)
        add_string(&strings, self.count, start, length, start + max(length, 0))
        take_over(self, &strings, self.count + 1)
        return 0

    cdef object build(self):
        """Return the column. Nothing may be appended afterwards."""
        cdef object bitmap = None
        cdef Py_ssize_t nulls = self.nulls
        if nulls:
            bitmap = PyBytes_FromStringAndSize(<char *>self.valid, (self.count + 7) // 8)
        return BinaryColumn(
            self.offsets.finish(4 * (self.count + 1), "i"), self.data.finish(self.size, "B"), bitmap, nulls
        )


cdef struct Strings:
    # The members of a ByteStrings that change with each string.
    int32_t *ends
    char *bytes
    uint8_t *valid
    Py_ssize_t size
    Py_ssize_t nulls
    Py_ssize_t capacity  # in bytes


cdef inline Strings strings_of(ByteStrings column) noexcept:
    cdef Strings found
    found.ends = column.ends
    found.bytes = column.bytes
    found.valid = column.valid
    found.size = column.size
    found.nulls = column.nulls
    found.capacity = column.data.capacity
    return found


cdef inline bint add_string(
    Strings *strings, Py_ssize_t row, const uint8_t *start, Py_ssize_t length, const uint8_t *limit
) noexcept nogil:
    """Add a string. Length -1 is null. Return False if its bytes have no room. Bytes before ``limit`` may be read."""
    if row & 7 == 0:
        strings.valid[row >> 3] = 0
    if length < 0:
        strings.nulls += 1
    else:
        if length > strings.capacity - strings.size or length > MOST_BYTES - strings.size:
            return False
        if (
            length <= LONGEST_SMALL
            and length + COPIED_AT_ONCE <= strings.capacity - strings.size
            and length + COPIED_AT_ONCE <= limit - start
        ):
            pyconsumer_copy(strings.bytes + strings.size, start, length)
        else:
            memcpy(strings.bytes + strings.size, start, length)
        strings.size += length
        strings.valid[row >> 3] |= <uint8_t>(1 << (row & 7))
    strings.ends[row + 1] = <int32_t>strings.size
    return True


cdef inline void take_over(ByteStrings column, const Strings *strings, Py_ssize_t count) noexcept:
    column.size = strings.size
    column.nulls = strings.nulls
    column.count = count


@cython.final
@cython.no_gc
cdef class ColumnsBuilder:
    cdef Memory offsets
    cdef Memory timestamps
    cdef Memory types
    cdef Memory epochs
    cdef Memory header_offsets
    cdef ByteStrings keys
    cdef ByteStrings values
    cdef ByteStrings header_names
    cdef ByteStrings header_values
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef Py_ssize_t expected
    cdef bint is_built

    def __init__(self, *, bint with_keys=True, bint with_values=True, bint with_headers=False):
        if self.offsets is not None:
            raise TypeError("a builder is made once")
        self.offsets = new_memory(64)
        self.timestamps = new_memory(64)
        self.types = new_memory(64)
        self.epochs = new_memory(64)
        self.count = self.capacity = 0
        if with_keys:
            self.keys = ByteStrings()
        if with_values:
            self.values = ByteStrings()
        if with_headers:
            self.header_offsets = new_memory(64)
            (<int32_t *>self.header_offsets.start)[0] = 0
            self.header_names = ByteStrings()
            self.header_values = ByteStrings()

    __reduce__ = not_copied

    def __len__(self):
        return self.count

    @property
    def size_bytes(self):
        return self.size()

    @property
    def weight(self):
        return self.heaviness()

    def expect(self, Py_ssize_t size_bytes):
        """Announce the expected number of bytes, so that memory is allocated at once, for the first record."""
        self.expected = max(size_bytes, 0)

    cdef inline Py_ssize_t size(self) noexcept:
        return (0 if self.keys is None else self.keys.size) + (0 if self.values is None else self.values.size)

    cdef inline Py_ssize_t heaviness(self) noexcept:
        """Return the number of bytes that count towards the limit of a take."""
        cdef Py_ssize_t size = self.size()
        if self.header_names is not None:
            size += self.header_names.size + self.header_values.size + 8 * self.header_names.count
        return size

    cdef int reserve(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t wanted = self.count + more
        if self.is_built or self.offsets is None:
            raise ValueError("these columns are built")  # and own the memory
        if wanted > self.capacity:
            wanted = max(wanted, 2 * self.capacity)
            self.offsets.resize(8 * wanted, 8 * self.count)
            self.timestamps.resize(8 * wanted, 8 * self.count)
            self.types.resize(4 * wanted, 4 * self.count)
            self.epochs.resize(4 * wanted, 4 * self.count)
            if self.header_offsets is not None:
                self.header_offsets.resize(4 * (wanted + 1), 4 * (self.count + 1))
            self.capacity = wanted
        if self.keys is not None:
            self.keys.reserve(more)
        if self.values is not None:
            self.values.reserve(more)
        return 0

    cdef inline bint has_room(self, const RecordView *record) noexcept:
        """Return whether the record's bytes fit: offsets have 32 bits."""
        if self.keys is not None and record.key_length > MOST_BYTES - self.keys.size:
            return False
        if self.values is not None and record.value_length > MOST_BYTES - self.values.size:
            return False
        if self.header_names is not None:
            # A byte that is replaced becomes three, and a header has at least two bytes.
            if 3 * record.headers_length > MOST_BYTES - self.header_names.size:
                return False
            if record.headers_length > MOST_BYTES - self.header_values.size:
                return False
            if record.headers_length > MOST_BYTES - self.header_names.count:
                return False
        return True

    cdef int add_headers(self, const uint8_t *at, Py_ssize_t length) except -1:
        """Add the headers of a record, which ``read_record`` has checked."""
        cdef const uint8_t *end = at + length
        cdef const uint8_t *start
        cdef uint64_t count = 0, number = 0
        cdef Py_ssize_t i, size
        cdef bytes name
        if not length:
            return 0
        at = read_varint32(at, end, &count)
        count >>= 1
        self.header_names.reserve(<Py_ssize_t>count)
        self.header_values.reserve(<Py_ssize_t>count)
        while count and at is not NULL:
            at = read_varint32(at, end, &number)
            if at is NULL or number >> 1 > <uint64_t>(end - at):
                break
            size = <Py_ssize_t>(number >> 1)
            for i in range(size):
                if at[i] >= 0x80:
                    # Bytes that are not UTF-8 are replaced, as in a record's headers.
                    name = PyUnicode_DecodeUTF8(<const char *>at, size, "replace").encode()
                    self.header_names.append(<const uint8_t *>PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
                    break
            else:
                self.header_names.append(at, size)
            at = read_nullable(at + size, end, &start, &size)
            if at is NULL:
                break
            self.header_values.append(start, size)
            count -= 1
        return 0

    cdef inline void add_numbers(
        self, int64_t offset, int64_t timestamp, int32_t timestamp_type, int32_t epoch
    ) noexcept:
        (<int64_t *>self.offsets.start)[self.count] = offset
        (<int64_t *>self.timestamps.start)[self.count] = timestamp
        (<int32_t *>self.types.start)[self.count] = timestamp_type
        (<int32_t *>self.epochs.start)[self.count] = epoch

    cdef inline void add_same(self, Py_ssize_t end, int32_t timestamp_type, int32_t epoch) noexcept:
        """Fill in the values that the rows up to ``end`` have in common, and count these rows. They have no headers."""
        cdef int32_t *types = <int32_t *>self.types.start
        cdef int32_t *epochs = <int32_t *>self.epochs.start
        cdef int32_t *ends = NULL
        cdef Py_ssize_t row
        for row in range(self.count, end):
            types[row] = timestamp_type
            epochs[row] = epoch
        if self.header_offsets is not None:
            ends = <int32_t *>self.header_offsets.start
            for row in range(self.count, end):
                ends[row + 1] = <int32_t>self.header_names.count
        self.count = end

    cdef inline void end_row(self) noexcept:
        self.count += 1
        if self.header_offsets is not None:
            (<int32_t *>self.header_offsets.start)[self.count] = <int32_t>self.header_names.count

    def add(self, records):
        """Append records, whose keys and values are bytes or None. See ``columns.ColumnsBuilder``."""
        cdef ConsumerRecord record
        cdef bytes key, value
        cdef int32_t timestamp_type, epoch
        cdef list headers
        for found in records:
            # Nothing is appended before all of the record is known to be right: rows would no longer match.
            record = <ConsumerRecord?>found
            timestamp_type, epoch = record.timestamp_type, record.leader_epoch
            key = exact_bytes(record.key)
            value = exact_bytes(record.value)
            headers = []
            if self.header_offsets is not None:
                headers = [(exact_bytes(name.encode()), exact_bytes(data)) for name, data in record.header_tuple]
            self.reserve(1)
            if self.keys is not None:
                check_size(self.keys, key)
            if self.values is not None:
                check_size(self.values, value)
            self.add_numbers(record.offset_, record.timestamp_, timestamp_type, epoch)
            if self.keys is not None:
                append_bytes(self.keys, key)
            if self.values is not None:
                append_bytes(self.values, value)
            for name, data in headers:
                self.header_names.reserve(1)
                self.header_values.reserve(1)
                append_bytes(self.header_names, name)
                append_bytes(self.header_values, data)
            self.end_row()

    def build(self, topic="", partition=-1):
        """Return the columns. The builder cannot be used afterwards."""
        cdef object headers = None
        self.reserve(0)
        self.is_built = True
        if self.header_offsets is not None:
            headers = HeaderColumn(
                self.header_offsets.finish(4 * (self.count + 1), "i"),
                self.header_names.build(),
                self.header_values.build(),
            )
        return Columns(
            topic,
            partition,
            self.offsets.finish(8 * self.count, "q"),
            self.timestamps.finish(8 * self.count, "q"),
            self.types.finish(4 * self.count, "i"),
            self.epochs.finish(4 * self.count, "i"),
            None if self.keys is None else self.keys.build(),
            None if self.values is None else self.values.build(),
            headers,
        )


cdef bytes exact_bytes(data):
    """Return bytes, or None for None. A subclass of bytes is copied."""
    if data is None or type(data) is bytes:
        return <bytes>data
    if isinstance(data, bytes):
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    raise TypeError(f"a column is made of bytes or None, not of {data!r}")


cdef int check_size(ByteStrings column, bytes data) except -1:
    if data is not None and PyBytes_GET_SIZE(data) > MOST_BYTES - column.size:
        raise OverflowError("a column has 2 GiB or more")
    return 0


cdef int append_bytes(ByteStrings column, bytes data) except -1:
    """Append bytes or None."""
    if data is None:
        return column.append(NULL, -1)
    check_size(column, data)
    return column.append(<const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
