# The decoder of columns: bytes in, buffers in the layout of Arrow out. Its rules are in _pure_columns.py.
#
# Here are the columns, their memory, and the parts that all values share. column_program.pxi has the plan,
# column_values.pxi the values of Avro, and column_decoder.pxi the decoder.
#
# A row is read by plain C code, which returns a code instead of raising. Memory belongs to the columns until it is
# handed over as objects with the buffer protocol.
#
# Rules of the memory of columns
#
# 1. The bits of values that a column does not have yet are those of a valid value that is false. So a valid value
#    writes no bit of its validity. A null clears its bit, and what is dropped has its bits restored.
# 2. ``ready`` of a struct, list or map is the number of values that each of its children has room for, and each child
#    of a struct among them, and so on. Whoever has compared a row with it writes to these columns at that place without
#    looking again.
# 3. ``has_slack`` of a value says that SLACK bytes behind its end can be read, so that words may be read at its end.
#    The last values of a buffer are copied for that, if they are short.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from pyconsumer.protocol.avro._pure_columns import MOST_HELD, MOST_ITEMS, MOST_ROOM, Bad, Buffers, Scanned
from pyconsumer.protocol.avro._pure_columns import check_columns
from pyconsumer.protocol.avro._pure_columns import ROW_BYTES as ROW_BYTES_OF_TWIN
from pyconsumer.protocol.compiled import not_copied as not_copied_columns

cdef enum:
    # layout.Kind
    K_NULL = 0
    K_BOOLEAN
    K_INT
    K_LONG
    K_FLOAT
    K_DOUBLE
    K_BYTES
    K_FIXED
    K_STRUCT
    K_LIST
    K_MAP
    LAST_KIND

cdef enum:
    # column_plan.Do
    D_NULL = 0
    D_BOOLEAN
    D_INT
    D_LONG
    D_TIME
    D_FLOAT
    D_DOUBLE
    D_ROUNDED
    D_AS_DOUBLE
    D_BYTES
    D_TEXT
    D_UUID
    D_FIXED
    D_UUID_FIXED
    D_DECIMAL
    D_ENUM
    D_RECORD
    D_LIST
    D_MAP
    D_UNION
    D_MEMBER
    D_DEFAULT
    D_REFUSED
    D_SKIP
    LAST_DO

cdef enum:
    # The result of reading a value.
    FINE = 0
    BAD = 1
    NO_MEMORY = 2

cdef enum:
    FIRST_ROOM = 64
    SLACK = 32
    MOST_COPIED = 4096
    MOST_ANNOUNCED = 1 << 18


cdef Py_ssize_t ROW_BYTES = ROW_BYTES_OF_TWIN

cdef class MessageProgram
cdef class DocumentProgram
cdef struct Pr


cdef struct Col:
    int kind
    bint nullable
    Py_ssize_t width  # bytes of a value, 0 for bits and for columns without numbers
    Py_ssize_t first  # of the decoder's children
    Py_ssize_t many
    Py_ssize_t count
    Py_ssize_t room  # in values
    Py_ssize_t size  # of BYTES, in bytes
    Py_ssize_t capacity  # of BYTES, in bytes
    Py_ssize_t ready  # rule 2
    int64_t null_bytes
    uint8_t *valid  # NULL if no value is null
    int32_t *ends
    uint8_t *data


cdef enum:
    # The ways to read a field within the loop over the fields of a record. The others go by way of read_step.
    BY_STEP = 0
    BY_LONG
    BY_INT
    BY_ENUM
    BY_TEXT
    BY_BYTES
    BY_DOUBLE
    BY_BOOLEAN
    BY_FLOAT
    BY_NULL
    BY_NULL_TEXT  # of a nullable column of strings
    BY_NULL_8  # of a nullable column of numbers of 8 bytes
    BY_NULL_4
    BY_UNION
    BY_ITEMS
    BY_RECORD
    BY_END  # behind the last field


cdef struct Do:
    int do
    int way
    Py_ssize_t column
    int64_t a
    int64_t b
    int64_t c
    const uint8_t *at  # of DEFAULT: its bytes. Of ENUM: the numbers, as int32_t
    Py_ssize_t size  # of DEFAULT: the number of bytes. Of ENUM: that of numbers
    Py_ssize_t first  # of RECORD: the place of its fields in those of the program, or -1
    int64_t cost  # of RECORD: the bytes that it counts together with the records that are its fields
    int deepest  # of RECORD: the levels of these records


cdef struct Field:
    # A field of a record, or a branch of its union, with what the loop over the fields needs. The fields of a record
    # that is a field itself follow it, as the rows of both are the same.
    int way
    int32_t size  # of UNION: the number of branches. Of ENUM: that of numbers
    int32_t depth  # levels below the record whose fields are read
    int32_t place  # of its column, in bytes from the first one
    int64_t cost  # of NULL: the bytes that count
    const void *of  # of UNION: its branches. Of ENUM: the numbers, as int32_t
    const Do *step


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* The length of the longest beginning of a text that is ASCII, by words. The last word may overlap. */
    static inline size_t pyconsumer_ascii(const uint8_t *text, size_t size) {
        const uint64_t high = 0x8080808080808080ull;
        size_t at = 0;
        uint64_t word, last;
        if (size >= 8) {
            for (; at + 8 <= size; at += 8) {
                memcpy(&word, text + at, 8);
                if (word & high) goto by_bytes;
            }
            memcpy(&word, text + size - 8, 8);
            if (!(word & high)) return size;
        } else if (size >= 4) {
            uint32_t first, second;
            memcpy(&first, text, 4);
            memcpy(&second, text + size - 4, 4);
            last = first | second;
            if (!(last & high)) return size;
        }
    by_bytes:
        while (at < size && text[at] < 0x80) at++;
        return at;
    }

    /* 1 if the bytes are UTF-8 as Python's strict decoder reads it. */
    static inline int pyconsumer_is_utf8(const uint8_t *text, size_t size) {
        size_t at = pyconsumer_ascii(text, size);
        while (at < size) {
            uint8_t first = text[at];
            size_t left = size - at;
            if (first < 0x80) {
                at += pyconsumer_ascii(text + at, left);
            } else if (first < 0xC2) {
                return 0;
            } else if (first < 0xE0) {
                if (left < 2 || (text[at + 1] & 0xC0) != 0x80) return 0;
                at += 2;
            } else if (first < 0xF0) {
                if (left < 3 || (text[at + 1] & 0xC0) != 0x80 || (text[at + 2] & 0xC0) != 0x80) return 0;
                if (first == 0xE0 && text[at + 1] < 0xA0) return 0;
                if (first == 0xED && text[at + 1] > 0x9F) return 0;
                at += 3;
            } else if (first < 0xF5) {
                if (left < 4 || (text[at + 1] & 0xC0) != 0x80 || (text[at + 2] & 0xC0) != 0x80
                    || (text[at + 3] & 0xC0) != 0x80) return 0;
                if (first == 0xF0 && text[at + 1] < 0x90) return 0;
                if (first == 0xF4 && text[at + 1] > 0x8F) return 0;
                at += 4;
            } else {
                return 0;
            }
        }
        return 1;
    }

    /* A number in zigzag varint. Returns its length, 0 if it is none. */
    static inline int pyconsumer_number(const uint8_t *at, const uint8_t *end, int64_t *number) {
        uint64_t found = 0;
        int shift = 0, length = 0;
    #if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        if (end - at >= 8) {  /* Numbers of up to eight bytes: join pairs, then fours, then both halves. */
            uint64_t word, stop;
            memcpy(&word, at, 8);
            stop = ~word & 0x8080808080808080ull;
            if (stop) {
                word &= stop ^ (stop - 1);  /* the bytes after the last one of the number are cut off */
                word = (word & 0x007F007F007F007Full) | (word & 0x7F007F007F007F00ull) >> 1;
                word = (word & 0x00003FFF00003FFFull) | (word & 0x3FFF00003FFF0000ull) >> 2;
                word = (word & 0x000000000FFFFFFFull) | (word & 0x0FFFFFFF00000000ull) >> 4;
                *number = (int64_t)((word >> 1) ^ (0 - (word & 1)));
                return (__builtin_ctzll(stop) + 1) >> 3;
            }
        }
    #endif
        while (at < end) {
            uint64_t byte = *at++;
            length++;
            if (shift == 63 && byte > 1) return 0;
            found |= (byte & 0x7F) << shift;
            if (byte < 0x80) {
                *number = (int64_t)((found >> 1) ^ (0 - (found & 1)));
                return length;
            }
            shift += 7;
        }
        return 0;
    }

    /* A number in zigzag varint, of which ten bytes can be read. Returns its end, NULL if it is none. */
    static inline const uint8_t *pyconsumer_number_end(const uint8_t *at, int64_t *number) {
        int length;
        uint64_t found = at[0];
        if (found < 0x80) {
            *number = (int64_t)((found >> 1) ^ (0 - (found & 1)));
            return at + 1;
        }
        if (at[1] < 0x80) {
            found = (found & 0x7F) | (uint64_t)at[1] << 7;
            *number = (int64_t)((found >> 1) ^ (0 - (found & 1)));
            return at + 2;
        }
        length = pyconsumer_number(at, at + 10, number);
        return length ? at + length : NULL;
    }

    /* The same of a length. A number below 0 is returned, too. */
    static inline const uint8_t *pyconsumer_length_end(const uint8_t *at, int64_t *number) {
        if (at[0] & 0x81) return pyconsumer_number_end(at, number);
        *number = at[0] >> 1;
        return at + 1;
    }

    /* Copy bytes. Short ones are copied by words, since most texts are short and a call costs more. */
    static inline void pyconsumer_copy(uint8_t *to, const uint8_t *from, size_t size) {
        uint64_t first, second;
        uint32_t small, other;
        if (size > 16) {
            memcpy(to, from, size);
        } else if (size >= 8) {
            memcpy(&first, from, 8);
            memcpy(&second, from + size - 8, 8);
            memcpy(to, &first, 8);
            memcpy(to + size - 8, &second, 8);
        } else if (size >= 4) {
            memcpy(&small, from, 4);
            memcpy(&other, from + size - 4, 4);
            memcpy(to, &small, 4);
            memcpy(to + size - 4, &other, 4);
        } else {
            while (size--) to[size] = from[size];
        }
    }

    #if defined(__SSE2__)  /* as all processors of x86-64 have it */
    #include <emmintrin.h>
    #endif

    /* Append a text to others, if that is cheap: it is short and ASCII, and both sides have 16 bytes. Else return 0. */
    static inline int pyconsumer_short_text(
        uint8_t *to, int64_t room, const uint8_t *from, int64_t left, int64_t size
    ) {
    #if defined(__SSE2__)
        static const uint16_t bits[17] = {
            0x0, 0x1, 0x3, 0x7, 0xF, 0x1F, 0x3F, 0x7F, 0xFF, 0x1FF, 0x3FF, 0x7FF, 0xFFF, 0x1FFF, 0x3FFF, 0x7FFF, 0xFFFF,
        };
        __m128i text;
        if (size > 16 || room < 16 || left < 16) return 0;
        text = _mm_loadu_si128((const __m128i *)from);
        if ((unsigned)_mm_movemask_epi8(text) & bits[size]) return 0;
        _mm_storeu_si128((__m128i *)to, text);
        return 1;
    #else
        static const uint8_t high[32] = {
            128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,  /* and zeros */
        };
        uint64_t text[2], mask[2];
        if (size > 16 || room < 16 || left < 16) return 0;
        memcpy(text, from, 16);
        memcpy(mask, high + 16 - size, 16);
        if ((text[0] & mask[0]) | (text[1] & mask[1])) return 0;
        memcpy(to, text, 16);
        return 1;
    #endif
    }

    #if defined(__GNUC__)
    #define pyconsumer_unreachable() __builtin_unreachable()
    #else
    #define pyconsumer_unreachable() ((void)0)
    #endif

    static inline int64_t pyconsumer_times(int64_t number, int64_t factor, int *overflow) {
        *overflow = number > INT64_MAX / factor || number < INT64_MIN / factor;
        return *overflow ? 0 : number * factor;
    }

    static inline int64_t pyconsumer_bits_set(const uint8_t *bits, int64_t count) {
        int64_t found = 0, at = 0;
        uint64_t word;
        for (; at + 64 <= count; at += 64) {
            memcpy(&word, bits + at / 8, 8);
            word = word - ((word >> 1) & 0x5555555555555555ull);
            word = (word & 0x3333333333333333ull) + ((word >> 2) & 0x3333333333333333ull);
            found += (int64_t)((((word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Full) * 0x0101010101010101ull) >> 56);
        }
        for (; at < count; at++) found += bits[at / 8] >> (at % 8) & 1;
        return found;
    }
    """
    bint pyconsumer_is_utf8(const uint8_t *text, size_t size) noexcept nogil
    void pyconsumer_copy(uint8_t *to, const uint8_t *from_, size_t size) noexcept nogil
    bint pyconsumer_short_text(
        uint8_t *to, int64_t room, const uint8_t *from_, int64_t left, int64_t size
    ) noexcept nogil
    int pyconsumer_number(const uint8_t *at, const uint8_t *end, int64_t *number) noexcept nogil
    const uint8_t *pyconsumer_number_end(const uint8_t *at, int64_t *number) noexcept nogil
    const uint8_t *pyconsumer_length_end(const uint8_t *at, int64_t *number) noexcept nogil
    int64_t pyconsumer_times(int64_t number, int64_t factor, int *overflow) noexcept nogil
    void pyconsumer_unreachable() noexcept nogil
    int64_t pyconsumer_bits_set(const uint8_t *bits, int64_t count) noexcept nogil


@cython.final
@cython.no_gc
cdef class Block:
    """Memory of a finished column, to be read through the buffer protocol."""

    cdef void *start
    cdef Py_ssize_t size

    def __cinit__(self):
        self.start = NULL

    def __dealloc__(self):
        pyconsumer_piece_back(self.start)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.start, self.size, 1, flags)

    def __releasebuffer__(self, Py_buffer *buffer):
        pass

    def __reduce__(self):
        return not_copied_columns(self)


cdef object block_of_memory(void *start, Py_ssize_t size):
    """Take over memory. Arrow needs an address for no bytes, too."""
    cdef Block block = Block.__new__(Block)
    if start is NULL:
        start = pyconsumer_piece(8)
        if start is NULL:
            raise MemoryError()
    block.start = pyconsumer_piece_cut(start, <size_t>size)
    block.size = size
    return block


cdef struct Reading:
    const uint8_t *at
    const uint8_t *end
    int64_t room  # bytes that the value may still count
    Col *cols
    Py_ssize_t *children
    const Do *steps
    const int32_t *links
    const Field *fields
    PyObject *skipper
    Py_ssize_t held  # the sizes of all rows by rule 6
    Py_ssize_t most_now  # items of the longest list
    Py_ssize_t expected  # rows
    const uint8_t *limit  # the end of the bytes that can be read
    bint has_slack  # rule 3


cdef struct Rows:
    # Rows of a column of strings, all of one program.
    const uint8_t *data
    const int32_t *ends
    const uint8_t *valid  # NULL if no row is null
    Py_ssize_t row  # the next one
    Py_ssize_t count
    Py_ssize_t most  # the end of those that have slack
    int64_t number  # of the schema
    int64_t room  # of each value
    Py_ssize_t most_held
    Py_ssize_t most_items


cdef inline bint is_full(const Reading *r, Py_ssize_t most_held, Py_ssize_t most_items) noexcept nogil:
    return r.held > most_held or r.most_now > most_items


cdef inline bint begins_row(Reading *r, const Rows *rows) noexcept nogil:
    """Begin the next row. Return False if there is none, or if it is left to :meth:`ColumnsDecoder.row`."""
    cdef Py_ssize_t row = rows.row
    cdef const uint8_t *start
    if row >= rows.count or is_full(r, rows.most_held, rows.most_items):
        return False
    if rows.valid is not NULL and not rows.valid[row >> 3] >> (row & 7) & 1:
        return False
    if rows.ends[row] < 0 or rows.ends[row + 1] - 5 < rows.ends[row] or rows.ends[row + 1] > rows.most:
        return False
    start = rows.data + rows.ends[row]
    if start[0] != 0 or id_at(start) != rows.number:
        return False
    r.at, r.end, r.room = start + 5, rows.data + rows.ends[row + 1], rows.room
    return True


cdef inline void ends_row(Reading *r, Rows *rows, int64_t room) noexcept nogil:
    """Count a row that was read, with the room that it has left."""
    r.held += ROW_BYTES + <Py_ssize_t>(rows.room - room)
    rows.row += 1


cdef int grow_column(Reading *r, Col *col) noexcept:
    """Make room for more values."""
    # Room for all rows at once, but for wide values no more than 1 MiB: they may be few, or null.
    cdef Py_ssize_t room = max(min(r.expected, (<Py_ssize_t>1 << 20) // max(1, col.width)), <Py_ssize_t>FIRST_ROOM)
    cdef void *made
    if col.room:
        room = 2 * col.room
    room = (room + 63) // 64 * 64
    if col.nullable and col.kind != K_NULL:
        made = pyconsumer_piece_of(col.valid, col.room // 8, room // 8)
        if made is NULL:
            return NO_MEMORY
        col.valid = <uint8_t *>made
        memset(col.valid + col.room // 8, 0xFF, (room - col.room) // 8)
    if col.kind == K_BYTES or col.kind == K_LIST or col.kind == K_MAP:
        made = pyconsumer_piece_of(col.ends, 4 * (col.room + 1), 4 * (room + 1))
        if made is NULL:
            return NO_MEMORY
        col.ends = <int32_t *>made
        if col.room == 0:
            col.ends[0] = 0
    elif col.kind == K_BOOLEAN:
        made = pyconsumer_piece_of(col.data, col.room // 8, room // 8)
        if made is NULL:
            return NO_MEMORY
        col.data = <uint8_t *>made
        memset(col.data + col.room // 8, 0, (room - col.room) // 8)
    elif col.width:
        made = pyconsumer_piece_of(col.data, col.room * col.width, room * col.width)
        if made is NULL:
            return NO_MEMORY
        col.data = <uint8_t *>made
    col.room = room
    return FINE


cdef int make_ready(Reading *r, Col *col, Py_ssize_t row) noexcept:
    """Make room for one more value than ``row`` in all children, and in those of structs among them (rule 2)."""
    cdef Py_ssize_t place, ready = <Py_ssize_t>1 << 62
    cdef Col *child
    for place in range(col.many):
        child = r.cols + r.children[col.first + place]
        while child.room <= row:
            if grow_column(r, child) != FINE:
                return NO_MEMORY
        ready = min(ready, child.room)
        if child.kind == K_STRUCT:
            if row >= child.ready and make_ready(r, child, row) != FINE:
                return NO_MEMORY
            ready = min(ready, child.ready)
    col.ready = ready
    return FINE


cdef int grow_text(Reading *r, Col *col, Py_ssize_t more) noexcept:
    cdef Py_ssize_t capacity = max(2 * col.capacity, col.size + more, min(8 * col.room, <Py_ssize_t>1 << 20))
    cdef void *made = pyconsumer_piece_of(col.data, col.size, capacity)
    if made is NULL:
        return NO_MEMORY
    col.data = <uint8_t *>made
    col.capacity = capacity
    return FINE


cdef inline void set_bit(uint8_t *bits, Py_ssize_t place, bint value) noexcept nogil:
    cdef uint8_t mask = <uint8_t>(1 << (place & 7))
    if value:
        bits[place >> 3] |= mask
    else:
        bits[place >> 3] &= <uint8_t>~mask


cdef inline int next_of(Reading *r, Col *col, bint valid) noexcept:
    """Begin a value: make room, and clear its bit if it is null. The caller writes it, and then counts it."""
    if col.count == col.room and grow_column(r, col) != FINE:
        return NO_MEMORY
    if not valid and col.valid is not NULL:
        set_bit(col.valid, col.count, False)
    return FINE


cdef int add_null(Reading *r, Col *col) noexcept:
    cdef Py_ssize_t child
    if next_of(r, col, False) != FINE:
        return NO_MEMORY
    if col.ends is not NULL:
        col.ends[col.count + 1] = col.ends[col.count]
    elif col.kind == K_BOOLEAN:
        set_bit(col.data, col.count, False)
    elif col.width:
        memset(col.data + col.count * col.width, 0, col.width)
    col.count += 1  # before its children, see truncate_to
    if col.kind == K_STRUCT:
        for child in range(col.many):
            if add_null(r, r.cols + r.children[col.first + child]) != FINE:
                return NO_MEMORY
    return FINE


cdef inline int add_bytes(Reading *r, Col *col, const uint8_t *start, Py_ssize_t size) noexcept:
    if next_of(r, col, True) != FINE:
        return NO_MEMORY
    if size > col.capacity - col.size and grow_text(r, col, size) != FINE:
        return NO_MEMORY
    pyconsumer_copy(col.data + col.size, start, <size_t>size)
    col.size += size
    col.count += 1
    col.ends[col.count] = <int32_t>col.size
    return FINE


cdef inline bint number_at(Reading *r, int64_t *number) noexcept nogil:
    """Read a number. Return False if there is none."""
    cdef uint64_t found
    cdef int length
    if r.at < r.end and r.at[0] < 0x80:
        found = r.at[0]
        r.at += 1
        number[0] = <int64_t>((found >> 1) ^ (0 - (found & 1)))
        return True
    length = pyconsumer_number(r.at, r.end, number)
    r.at += length
    return length > 0


cdef inline bint whole_at(Reading *r, bint is_long, int64_t *number) noexcept nogil:
    return number_at(r, number) and (is_long or INT32_MIN <= number[0] <= INT32_MAX)


cdef inline bint counts(Reading *r, int64_t size) noexcept nogil:
    """Charge bytes to the bound of the value. Return False if they exceed it."""
    r.room -= size
    return r.room >= 0


cdef inline bint sized_at(Reading *r, const uint8_t **start, int64_t *size) noexcept nogil:
    """Read bytes with their length, which count."""
    if not number_at(r, size) or size[0] < 0 or size[0] > r.end - r.at:
        return False
    start[0] = r.at
    r.at += size[0]
    return counts(r, size[0])
