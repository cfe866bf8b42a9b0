# The decoder of columns: bytes in, buffers in the layout of Arrow out. Its rules are in _pure_columns.py.
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
    BY_FLOAT  # up to here, a value has at least one byte, which is read in the loop
    BY_NULL
    BY_UNION
    BY_ITEMS
    BY_RECORD


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
    Py_ssize_t fields  # and their number


cdef struct Field:
    # A field of a record, or a branch of its union, with what the loop over the fields needs. The fields of a record
    # that is a field itself follow it, as the rows of both are the same.
    int way
    int32_t size  # of UNION: the number of branches. Of ENUM: that of numbers
    int32_t depth  # levels below the record whose fields are read
    int32_t place  # of its column, in bytes from the first one
    int64_t cost  # of NULL and RECORD: the bytes that count
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
        if (at[0] < 0x80) {
            *number = (at[0] >> 1) ^ -(at[0] & 1);
            return at + 1;
        }
        length = pyconsumer_number(at, at + 10, number);
        return length ? at + length : NULL;
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
        __m128i text;
        if (size > 16 || room < 16 || left < 16) return 0;
        text = _mm_loadu_si128((const __m128i *)from);
        if ((unsigned)_mm_movemask_epi8(text) << (16 - size) & 0xFFFF) return 0;
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
    int64_t pyconsumer_times(int64_t number, int64_t factor, int *overflow) noexcept nogil
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


# -- the plan ----------------------------------------------------------------------------------------------------------


@cython.final
cdef class ColumnProgram:
    """See ``_pure_columns.ColumnProgram``."""

    cdef readonly object plan
    cdef object columns
    cdef Do *steps
    cdef Py_ssize_t count
    cdef int32_t *links
    cdef Py_ssize_t link_count
    cdef Field *fields
    cdef Decoder skipper
    cdef list kept

    def __cinit__(self, plan):
        cdef Py_ssize_t number, place
        cdef list steps = list(plan.steps), links = list(plan.links)
        cdef Py_ssize_t columns = len(plan.layout.columns)
        cdef list layout = list(plan.layout.columns)
        self.plan, self.columns = plan, plan.layout.columns
        self.kept = []
        self.fields = NULL
        self.skipper = Decoder(plan.skips)
        self.count, self.link_count = len(steps), len(links)
        if not steps:
            raise ValueError("a plan has at least one step")
        self.steps = <Do *>PyMem_Malloc(self.count * sizeof(Do))
        self.links = <int32_t *>PyMem_Malloc((self.link_count + 1) * sizeof(int32_t))
        if self.steps is NULL or self.links is NULL:
            raise MemoryError()
        for place in range(self.link_count):
            if not 0 <= links[place] < self.count:
                raise ValueError("a link of the plan is out of range")
            self.links[place] = links[place]
        for number in range(self.count):
            self.fill(&self.steps[number], steps[number], layout)
        for number in range(self.count):
            if self.steps[number].do == D_RECORD:
                self.check_fields(&self.steps[number], layout[self.steps[number].column].children)
        self.place_fields()

    cdef int place_fields(self) except -1:
        """Make the fields of each record that is no field itself."""
        cdef Py_ssize_t number, place
        cdef Do *step
        cdef list placed = []
        cdef set inner = set()
        for number in range(self.count):
            step = &self.steps[number]
            step.first, step.fields = -1, 0
            if step.do == D_RECORD:
                for place in range(step.a, step.a + step.b):
                    if self.steps[self.links[place]].do == D_RECORD:
                        inner.add(self.links[place])
        for number in range(self.count):
            step = &self.steps[number]
            if step.do == D_RECORD and number not in inner:
                step.first = len(placed)
                self.place_record(step, placed, 0)
                step.fields = len(placed) - step.first
        return self.fill_fields(placed)

    cdef int place_record(self, const Do *record, list placed, int depth) except -1:
        """Append the fields of a record, each with its depth, and behind a record those of that one."""
        cdef Py_ssize_t place
        cdef const Do *step
        for place in range(record.a, record.a + record.b):
            step = self.steps + self.links[place]
            if len(placed) > 2 * self.count:  # no plan that was made here
                raise ValueError("a record of the plan is a field of several records")
            if step.do == D_RECORD and depth + 1 < MAX_LEVELS:
                placed.append((self.links[place], depth + 1, True))
                self.place_record(step, placed, depth + 1)
            else:
                placed.append((self.links[place], depth, False))
        return 0

    cdef int fill_fields(self, list placed) except -1:
        cdef Py_ssize_t branches = 0, next_branch = len(placed), place, branch
        cdef const Do *step
        for number, _depth, _is_record in placed:
            if self.steps[<Py_ssize_t>number].do == D_UNION:
                branches += self.steps[<Py_ssize_t>number].b
        self.fields = <Field *>PyMem_Malloc((len(placed) + branches + 1) * sizeof(Field))
        if self.fields is NULL:
            raise MemoryError()
        for place in range(len(placed)):
            number, depth, is_record = placed[place]
            step = self.steps + <Py_ssize_t>number
            make_field(&self.fields[place], step, depth)
            if is_record:
                self.fields[place].way = BY_RECORD
            elif step.do == D_UNION:
                self.fields[place].of = &self.fields[next_branch]
                self.fields[place].size = <int32_t>step.b
                for branch in range(step.a, step.a + step.b):
                    make_field(&self.fields[next_branch], self.steps + self.links[branch], depth)
                    if self.fields[next_branch].way == BY_UNION:
                        self.fields[next_branch].way = BY_STEP
                    next_branch += 1
        return 0

    cdef int check_fields(self, const Do *record, children) except -1:
        """Check that a record, or a union in it, writes to columns of its own."""
        cdef Py_ssize_t place
        cdef const Do *step
        for place in range(record.a, record.a + record.b):
            step = self.steps + self.links[place]
            if step.do == D_UNION and record.do == D_RECORD:
                self.check_fields(step, children)
            elif step.column >= 0 and step.column not in children:
                raise ValueError("a field of the plan has a column of another record")
        return 0

    cdef int fill(self, Do *step, given, list layout) except -1:
        cdef Py_ssize_t nodes = self.skipper.node_count
        do, column, a, b, c, of = given
        if not 0 <= do < LAST_DO:
            raise ValueError("a step of the plan is unknown")
        step.do, step.column, step.a, step.b, step.c = do, column, a, b, c
        step.at, step.size = NULL, 0
        step.way = WAY_OF.get(do, BY_STEP)
        if do == D_LONG and (a == 0 or b != 1):
            step.way = BY_STEP
        if do == D_FLOAT and layout[column].kind != K_FLOAT:
            step.way = BY_STEP
        if do in (D_UNION, D_DEFAULT, D_REFUSED, D_SKIP):
            if column != -1:
                raise ValueError("a step of the plan has a column")
        elif not 0 <= column < len(layout) or layout[column].kind not in KINDS_OF[do]:
            raise ValueError("a step of the plan has a wrong column")
        if do == D_MAP and layout[layout[column].children[0]].kind != K_BYTES:
            raise ValueError("the keys of a map of Avro are text")
        if do in (D_LIST, D_MAP, D_DEFAULT) or (do == D_MEMBER and a >= 0):
            if not 0 <= a < self.count:
                raise ValueError("a step of the plan is out of range")
        if do in (D_RECORD, D_UNION) and not (a >= 0 and b >= 0 and a + b <= self.link_count):
            raise ValueError("a link of the plan is out of range")
        if (do == D_SKIP and not 0 <= a < nodes) or (do == D_MEMBER and a < 0 and not 0 <= b < nodes):
            raise ValueError("a node of the plan is out of range")
        if do == D_FIXED and not 0 <= a == layout[column].width:
            raise ValueError("a size of the plan is not that of its column")
        if do == D_DECIMAL and (layout[column].width != 16 or a < -1 or not 0 < c <= 38):
            raise ValueError("a decimal of the plan is too wide")
        if do in (D_LONG, D_TIME) and b < 1:
            raise ValueError("a factor of the plan is below 1")
        if do == D_DEFAULT:
            if type(of) is not bytes:
                raise TypeError("a default of the plan is bytes")
            held = of + bytes(SLACK)
            step.at, step.size = <const uint8_t *>PyBytes_AS_STRING(held), PyBytes_GET_SIZE(of)
            self.kept.append(held)
        elif do == D_ENUM:
            numbers = array("i", of)
            if numbers.itemsize != 4:
                raise ValueError("a number has no four bytes")
            held = numbers.tobytes()
            step.at, step.size = <const uint8_t *>PyBytes_AS_STRING(held), len(of)
            self.kept.append(held)
        return 0

    def __dealloc__(self):
        PyMem_Free(self.steps)
        PyMem_Free(self.links)
        PyMem_Free(self.fields)

    def __reduce__(self):
        return not_copied_columns(self)


cdef void make_field(Field *field, const Do *step, int depth) noexcept:
    field.way, field.depth, field.cost = step.way, depth, step.c
    field.place = <int32_t>(max(step.column, 0) * sizeof(Col))
    field.of, field.size, field.step = step.at, <int32_t>step.size, step


WAY_OF = {
    D_NULL: BY_NULL,
    D_BOOLEAN: BY_BOOLEAN,
    D_INT: BY_INT,
    D_LONG: BY_LONG,
    D_DOUBLE: BY_DOUBLE,
    D_BYTES: BY_BYTES,
    D_TEXT: BY_TEXT,
    D_ENUM: BY_ENUM,
    D_UNION: BY_UNION,
    D_FLOAT: BY_FLOAT,
    D_LIST: BY_ITEMS,
    D_MAP: BY_ITEMS,
}

KINDS_OF = {
    D_NULL: frozenset(range(LAST_KIND)),
    D_BOOLEAN: frozenset([K_BOOLEAN]),
    D_INT: frozenset([K_INT]),
    D_LONG: frozenset([K_LONG]),
    D_TIME: frozenset([K_INT, K_LONG]),
    D_FLOAT: frozenset([K_FLOAT, K_DOUBLE]),
    D_DOUBLE: frozenset([K_DOUBLE]),
    D_ROUNDED: frozenset([K_FLOAT, K_DOUBLE]),
    D_AS_DOUBLE: frozenset([K_DOUBLE]),
    D_BYTES: frozenset([K_BYTES]),
    D_TEXT: frozenset([K_BYTES]),
    D_UUID: frozenset([K_BYTES]),
    D_FIXED: frozenset([K_FIXED]),
    D_UUID_FIXED: frozenset([K_BYTES]),
    D_DECIMAL: frozenset([K_FIXED]),
    D_ENUM: frozenset([K_INT]),
    D_RECORD: frozenset([K_STRUCT]),
    D_LIST: frozenset([K_LIST]),
    D_MAP: frozenset([K_MAP]),
    D_MEMBER: frozenset([K_STRUCT]),
}


# -- the columns -------------------------------------------------------------------------------------------------------


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


# -- values ------------------------------------------------------------------------------------------------------------


cdef int read_step(Reading *r, const Do *step, int level) noexcept:
    """Append a value. After another result than FINE the columns must be truncated."""
    cdef int do = step.do
    cdef Col *col = r.cols + step.column
    cdef int64_t number = 0, size = 0
    cdef const uint8_t *start = NULL
    cdef uint8_t[8] word
    cdef double real
    cdef float small
    cdef int overflow = 0
    if do == D_TEXT:
        return read_text(r, col)
    if do == D_LONG:
        if not whole_at(r, step.a != 0, &number):
            return BAD
        if step.b != 1:
            number = pyconsumer_times(number, step.b, &overflow)
            if overflow:
                return BAD
        return add_long(r, col, number)
    if do == D_INT:
        if not whole_at(r, False, &number):
            return BAD
        return add_int(r, col, number)
    if do == D_UNION:
        if not number_at(r, &number) or number < 0 or number >= step.b:
            return BAD
        return read_step(r, r.steps + r.links[step.a + number], level)
    if do == D_NULL:
        return add_null(r, col) if counts(r, step.c) else BAD
    if do == D_RECORD:
        return read_record(r, step, level)
    if do == D_DOUBLE:
        if r.end - r.at < 8:
            return BAD
        put_little(word, r.at, 8)
        memcpy(&real, word, 8)
        r.at += 8
        return add_double(r, col, real)
    if do == D_BOOLEAN:
        if r.at >= r.end or r.at[0] > 1:
            return BAD
        if next_of(r, col, True) != FINE:
            return NO_MEMORY
        set_bit(col.data, col.count, r.at[0] == 1)
        r.at += 1
        col.count += 1
        return FINE
    if do == D_ENUM:
        if not whole_at(r, False, &number) or number < 0 or number >= step.size:
            return BAD
        number = (<const int32_t *>step.at)[number]
        return add_int(r, col, number) if number >= 0 else BAD
    if do == D_FLOAT:
        if r.end - r.at < 4:
            return BAD
        put_little(word, r.at, 4)
        memcpy(&small, word, 4)
        r.at += 4
        return add_float(r, col, small)
    if do == D_BYTES:
        return add_bytes(r, col, start, <Py_ssize_t>size) if sized_at(r, &start, &size) else BAD
    if do == D_TIME:
        if not whole_at(r, step.a != 0, &number) or number < 0 or number >= step.c:
            return BAD
        number *= step.b
        return add_int(r, col, number) if col.kind == K_INT else add_long(r, col, number)
    if do == D_LIST or do == D_MAP:
        return read_items(r, step, level)
    return read_rare(r, step, level)


cdef inline int read_text(Reading *r, Col *col) noexcept:
    cdef int64_t size = 0
    cdef const uint8_t *start = NULL
    if not sized_at(r, &start, &size):
        return BAD
    if r.has_slack and pyconsumer_short_text(col.data + col.size, col.capacity - col.size, start, SLACK, size):
        if col.count == col.room and grow_column(r, col) != FINE:
            return NO_MEMORY
        col.size += size
        col.count += 1
        col.ends[col.count] = <int32_t>col.size
        return FINE
    if not pyconsumer_is_utf8(start, <size_t>size):
        return BAD
    return add_bytes(r, col, start, <Py_ssize_t>size)


cdef inline int add_long(Reading *r, Col *col, int64_t number) noexcept:
    if next_of(r, col, True) != FINE:
        return NO_MEMORY
    (<int64_t *>col.data)[col.count] = number
    col.count += 1
    return FINE


cdef inline int add_int(Reading *r, Col *col, int64_t number) noexcept:
    if next_of(r, col, True) != FINE:
        return NO_MEMORY
    (<int32_t *>col.data)[col.count] = <int32_t>number
    col.count += 1
    return FINE


cdef inline int add_double(Reading *r, Col *col, double number) noexcept:
    if next_of(r, col, True) != FINE:
        return NO_MEMORY
    (<double *>col.data)[col.count] = number
    col.count += 1
    return FINE


cdef inline int add_float(Reading *r, Col *col, float number) noexcept:
    if col.kind == K_DOUBLE:
        return add_double(r, col, <double>number)
    if next_of(r, col, True) != FINE:
        return NO_MEMORY
    (<float *>col.data)[col.count] = number
    col.count += 1
    return FINE


cdef int read_rare(Reading *r, const Do *step, int level) noexcept:
    """Append a value of one of the less frequent steps. As :func:`read_step`."""
    cdef int do = step.do
    cdef Col *col = r.cols + step.column
    cdef int64_t number = 0, size = 0
    cdef const uint8_t *start = NULL
    cdef const uint8_t *after
    cdef const uint8_t *end
    cdef uint8_t[36] text
    cdef int result
    if do == D_MEMBER:
        return read_member(r, step, level)
    if do == D_FIXED:
        if step.a > r.end - r.at:
            return BAD
        if next_of(r, col, True) != FINE:
            return NO_MEMORY
        if step.a:
            memcpy(col.data + col.count * col.width, r.at, step.a)
        r.at += step.a
        col.count += 1
        return FINE if counts(r, step.a) else BAD
    if do == D_DECIMAL:
        return read_decimal(r, step)
    if do == D_ROUNDED:
        # By way of double, as the twin does: the two roundings are part of the verdict.
        return add_float(r, col, <float><double>number) if whole_at(r, step.a != 0, &number) else BAD
    if do == D_AS_DOUBLE:
        return add_double(r, col, <double>number) if whole_at(r, step.a != 0, &number) else BAD
    if do == D_UUID:
        if not sized_at(r, &start, &size) or size != 36:
            return BAD
        for result in range(36):
            if result == 8 or result == 13 or result == 18 or result == 23:
                if start[result] != 45:
                    return BAD
            elif not is_digit(start[result]):
                return BAD
        return add_bytes(r, col, start, 36)
    if do == D_UUID_FIXED:
        if r.end - r.at < 16 or not counts(r, 16):
            return BAD
        uuid_as_text(r.at, text)
        r.at += 16
        return add_bytes(r, col, text, 36)
    if do == D_DEFAULT:
        after, end = r.at, r.end
        r.at, r.end = step.at, step.at + step.size
        result = read_step(r, r.steps + step.a, level)
        r.at, r.end = after, end
        return result
    if do == D_SKIP:
        return skip_node(r, <Py_ssize_t>step.a, level)
    return BAD  # REFUSED


cdef inline bint is_digit(uint8_t letter) noexcept nogil:
    return 48 <= letter <= 57 or 97 <= (letter | 0x20) <= 102


cdef void uuid_as_text(const uint8_t *data, uint8_t *text) noexcept nogil:
    cdef int place = 0, i
    cdef const char *digits = "0123456789abcdef"
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            text[place] = 45
            place += 1
        text[place] = <uint8_t>digits[data[i] >> 4]
        text[place + 1] = <uint8_t>digits[data[i] & 15]
        place += 2


cdef int skip_node(Reading *r, Py_ssize_t node, int level) noexcept:
    """Go past a value by the nodes of the skip plan."""
    cdef Bytes left
    cdef Decoder skipper = <Decoder>r.skipper
    left.at, left.end, left.room = r.at, r.end, r.room
    try:
        skipper.skip(&left, skipper.nodes + node, level)
    except MemoryError:
        return NO_MEMORY
    except BaseException:
        return BAD
    r.at, r.room = left.at, left.room
    return FINE


cdef int read_record(Reading *r, const Do *step, int level) noexcept:
    cdef Col *col = r.cols + step.column
    cdef const int32_t *link = r.links + step.a
    cdef const int32_t *last = link + step.b
    cdef Py_ssize_t row = col.count
    cdef int result
    if level >= MAX_LEVELS or not counts(r, step.c):
        return BAD
    if next_of(r, col, True) != FINE:
        return NO_MEMORY
    col.count += 1
    if r.has_slack and step.first >= 0:
        if row >= col.ready and make_ready(r, col, row) != FINE:
            return NO_MEMORY
        return read_fields(r, r.fields + step.first, r.fields + step.first + step.fields, row, level + 1)
    while link < last:
        result = read_step(r, r.steps + link[0], level + 1)
        if result != FINE:
            return result
        link += 1
    return FINE


cdef int read_fields(Reading *r, const Field *first, const Field *last, Py_ssize_t row, int level) noexcept:
    """Append the fields of a record, whose columns are ready. Most of them are read here, without a call for each.

    The value has slack: a number is read without a look at the end. That it was beyond the end is seen by the next
    field, or by the end of the value.
    """
    cdef const uint8_t *at = r.at
    cdef const uint8_t *end = r.end
    cdef const Field *field
    cdef uint8_t *cols = <uint8_t *>r.cols
    cdef Col *col
    cdef int64_t number = 0
    cdef int64_t room = r.room
    cdef int way, result
    while first < last:
        field = first
        first += 1
        way = field.way
        if way == BY_UNION and at < end and at[0] < 0x80:
            number = at[0] >> 1
            if at[0] & 1 or number >= field.size:
                return BAD
            field = <const Field *>field.of + number
            at += 1
            way = field.way
        col = <Col *>(cols + field.place)
        if way == BY_STEP or way > BY_FLOAT:
            if at > end:
                return BAD
            if way == BY_NULL or way == BY_RECORD:
                room -= field.cost
                if room < 0:
                    return BAD
                if way == BY_RECORD:
                    if level + field.depth > MAX_LEVELS:
                        return BAD
                    col.count = row + 1
                elif add_null_at(r, col, row) != FINE:
                    return NO_MEMORY
                continue
            r.at, r.room = at, room
            if way == BY_ITEMS:
                result = read_items(r, field.step, level + field.depth)
            else:
                result = read_step(r, field.step, level + field.depth)
            if result != FINE:
                return result
            at, room = r.at, r.room
            continue
        if at >= end:
            return BAD
        if way == BY_LONG:
            at = pyconsumer_number_end(at, &number)
            if at is NULL:
                return BAD
            (<int64_t *>col.data)[row] = number
        elif way == BY_INT:
            at = pyconsumer_number_end(at, &number)
            if at is NULL or number < INT32_MIN or number > INT32_MAX:
                return BAD
            (<int32_t *>col.data)[row] = <int32_t>number
        elif way == BY_ENUM:
            at = pyconsumer_number_end(at, &number)
            if at is NULL or number < 0 or number >= field.size:
                return BAD
            number = (<const int32_t *>field.of)[number]
            if number < 0:
                return BAD
            (<int32_t *>col.data)[row] = <int32_t>number
        elif way == BY_DOUBLE:
            put_little(col.data + 8 * row, at, 8)
            at += 8
        elif way == BY_FLOAT:
            put_little(col.data + 4 * row, at, 4)
            at += 4
        elif way == BY_BOOLEAN:
            if at[0] > 1:
                return BAD
            col.data[row >> 3] |= <uint8_t>(at[0] << (row & 7))
            at += 1
        else:
            at = pyconsumer_number_end(at, &number)
            if at is NULL or number < 0 or number > end - at:
                return BAD
            room -= number
            if room < 0:
                return BAD
            if not pyconsumer_short_text(col.data + col.size, col.capacity - col.size, at, SLACK, number):
                if way == BY_TEXT and not pyconsumer_is_utf8(at, <size_t>number):
                    return BAD
                if number > col.capacity - col.size and grow_text(r, col, number) != FINE:
                    return NO_MEMORY
                pyconsumer_copy(col.data + col.size, at, <size_t>number)
            at += number
            col.size += number
            col.ends[row + 1] = <int32_t>col.size
        col.count = row + 1
    r.at, r.room = at, room
    return FINE


cdef inline void set_null(Col *col, Py_ssize_t row) noexcept nogil:
    if col.valid is not NULL:
        col.valid[row >> 3] &= <uint8_t>~(1 << (row & 7))


cdef inline int add_null_at(Reading *r, Col *col, Py_ssize_t row) noexcept:
    """Append a null to a column that is ready."""
    if col.kind == K_BYTES:
        col.ends[row + 1] = <int32_t>col.size
    elif col.width == 8:
        (<uint64_t *>col.data)[row] = 0
    elif col.width == 4:
        (<uint32_t *>col.data)[row] = 0
    else:
        return add_null(r, col)
    set_null(col, row)
    col.count = row + 1
    return FINE


cdef int read_member(Reading *r, const Do *step, int level) noexcept:
    cdef Col *col = r.cols + step.column
    cdef Py_ssize_t child
    if not counts(r, step.c):
        return BAD
    if next_of(r, col, True) != FINE:
        return NO_MEMORY
    col.count += 1
    for child in range(col.many):
        if step.a < 0 or child != step.b:
            if add_null(r, r.cols + r.children[col.first + child]) != FINE:
                return NO_MEMORY
    if step.a < 0:
        return skip_node(r, <Py_ssize_t>step.b, level)
    return read_step(r, r.steps + step.a, level)


cdef int read_items(Reading *r, const Do *step, int level) noexcept:
    cdef Col *col = r.cols + step.column
    cdef Col *keys = NULL
    cdef Col *items
    cdef const Do *item = r.steps + step.a
    cdef const uint8_t *end
    cdef const uint8_t *start = NULL
    cdef int64_t count = 0, size = 0
    cdef int result
    if level >= MAX_LEVELS or not counts(r, 64):
        return BAD
    if next_of(r, col, True) != FINE:
        return NO_MEMORY
    if step.do == D_MAP:
        keys = r.cols + r.children[col.first]
    items = r.cols + r.children[col.first + col.many - 1]
    while True:
        if not number_at(r, &count):
            return BAD
        end = NULL
        if count < 0:
            if not number_at(r, &size) or size < 0 or size > r.end - r.at:
                return BAD
            end = r.at + size
            # The smallest number has no counterpart. So many items never fit.
            count = -count if count != INT64_MIN else -(count + 1)
        if count == 0:
            if end is not NULL and r.at != end:
                return BAD
            break
        while count:
            count -= 1
            if not counts(r, 8 if keys is NULL else 64):
                return BAD
            if keys is not NULL:
                result = read_text(r, keys)
                if result != FINE:
                    return result
            if item.do == D_RECORD:
                result = read_record(r, item, level + 1)
            elif item.do == D_TEXT:
                result = read_text(r, r.cols + item.column)
            else:
                result = read_step(r, item, level + 1)
            if result != FINE:
                return result
        if end is not NULL and r.at != end:
            return BAD
    if items.count > r.most_now:
        r.most_now = items.count
    col.count += 1
    col.ends[col.count] = <int32_t>items.count
    return FINE


cdef int read_decimal(Reading *r, const Do *step) noexcept:
    """Append a decimal: from two's complement, the highest byte first, to 16 bytes, in the machine's order."""
    cdef Col *col = r.cols + step.column
    cdef const uint8_t *start = r.at
    cdef int64_t size = step.a
    cdef uint64_t high, low, most_high, most_low
    cdef uint8_t sign
    cdef bint is_negative
    if size < 0:
        if not sized_at(r, &start, &size):
            return BAD
    elif size > r.end - r.at or not counts(r, size):
        return BAD
    else:
        r.at += size
    if size < 1 or size > step.b:
        return BAD
    is_negative = start[0] >= 0x80
    sign = 0xFF if is_negative else 0
    while size > 16:
        if start[0] != sign:
            return BAD
        start += 1
        size -= 1
    high = low = 0 - <uint64_t>is_negative
    while size:
        high = high << 8 | low >> 56
        low = low << 8 | start[0]
        start += 1
        size -= 1
    if (high >> 63 != 0) != is_negative:  # the sign was in the bytes that were cut off
        return BAD
    if next_of(r, col, True) != FINE:
        return NO_MEMORY
    (<uint64_t *>(col.data + 16 * col.count))[0] = low
    (<uint64_t *>(col.data + 16 * col.count))[1] = high
    if is_negative:
        low = 0 - low
        high = ~high + (low == 0)
    powers_of_ten(<int>step.c, &most_high, &most_low)
    if high > most_high or (high == most_high and low >= most_low):
        return BAD
    col.count += 1
    return FINE


cdef void powers_of_ten(int digits, uint64_t *high, uint64_t *low) noexcept nogil:
    """Compute 10 ** digits, for at most 38 digits."""
    cdef uint64_t upper, lower
    high[0], low[0] = 0, 1
    while digits > 0:
        digits -= 1
        # Ten times a number of 128 bits, by halves of 32 bits.
        lower = (low[0] << 32 >> 32) * 10
        upper = (low[0] >> 32) * 10 + (lower >> 32)
        low[0] = (lower << 32 >> 32) | upper << 32
        high[0] = high[0] * 10 + (upper >> 32)


# -- the decoder -------------------------------------------------------------------------------------------------------


cdef enum:
    # The kinds of programs.
    NO_PROGRAM = 0
    OF_STEPS
    OF_MESSAGES
    OF_DOCUMENTS


cdef struct Chosen:
    int64_t number
    PyObject *program
    int kind


cdef class Given:
    """The strings of a ``BinaryColumn``, and the hold on their memory."""

    cdef Py_buffer ends_view
    cdef Py_buffer data_view
    cdef bint has_ends
    cdef bint has_data
    cdef const int32_t *ends
    cdef const uint8_t *data
    cdef const uint8_t *valid
    cdef Py_ssize_t size
    cdef bytes bitmap

    def __cinit__(self, column, Py_ssize_t count):
        self.has_ends = self.has_data = False
        self.bitmap = column.bitmap
        PyObject_GetBuffer(column.offsets, &self.ends_view, PyBUF_SIMPLE)
        self.has_ends = True
        PyObject_GetBuffer(column.data, &self.data_view, PyBUF_SIMPLE)
        self.has_data = True
        self.ends = <const int32_t *>self.ends_view.buf
        self.data = <const uint8_t *>self.data_view.buf
        self.size = self.data_view.len
        self.valid = NULL
        if count < 0 or self.ends_view.len < 4 * (count + 1):
            raise ValueError(f"there are not {count} strings")
        if self.bitmap is not None:
            if PyBytes_GET_SIZE(self.bitmap) < (count + 7) // 8:
                raise ValueError(f"there are not {count} bits")
            self.valid = <const uint8_t *>PyBytes_AS_STRING(self.bitmap)

    def __dealloc__(self):
        if self.has_ends:
            PyBuffer_Release(&self.ends_view)
        if self.has_data:
            PyBuffer_Release(&self.data_view)

    cdef inline bint at(self, Py_ssize_t row, const uint8_t **start, Py_ssize_t *size) except -1:
        """Find a string. Return False if it is null."""
        cdef Py_ssize_t begin, end
        if self.valid is not NULL and not self.valid[row >> 3] >> (row & 7) & 1:
            return False
        begin, end = self.ends[row], self.ends[row + 1]
        if begin < 0 or end < begin or end > self.size:
            raise ValueError("an offset of a string is wrong")
        start[0] = self.data + begin
        size[0] = end - begin
        return True


@cython.final
@cython.no_gc
cdef class ColumnsDecoder:
    """See ``_pure_columns.ColumnsDecoder``."""

    cdef Col *cols
    cdef Py_ssize_t *children
    cdef Py_ssize_t count
    cdef int64_t room
    cdef Py_ssize_t most_held
    cdef Py_ssize_t most_items
    cdef Py_ssize_t null_bytes
    cdef Py_ssize_t announced  # rows
    cdef Reading reading
    cdef uint8_t[MOST_COPIED + SLACK] copied  # a value without slack
    cdef bint is_finished
    cdef object columns
    cdef object fitting  # the columns of the program that was compared last

    def __cinit__(self, columns, max_decoded_bytes=MAX_DECODED_BYTES, most_held=MOST_HELD, most_items=MOST_ITEMS):
        cdef Py_ssize_t number, place = 0
        cdef list given = list(columns)
        cdef Py_ssize_t children = sum([len(column.children) for column in given])
        if not 0 <= max_decoded_bytes <= MOST_ROOM:
            raise ValueError(f"max_decoded_bytes is 0 to {MOST_ROOM}, not {max_decoded_bytes}")
        if not given:
            raise ValueError("there is at least one column")
        self.columns = self.fitting = columns
        self.room = max_decoded_bytes
        self.most_held = most_held
        self.most_items = most_items
        self.null_bytes = max(0, <Py_ssize_t>given[0].null_bytes)
        self.count = len(given)
        self.is_finished = False
        self.announced = 0
        self.cols = <Col *>PyMem_Malloc(self.count * sizeof(Col))
        self.children = <Py_ssize_t *>PyMem_Malloc((children + 1) * sizeof(Py_ssize_t))
        if self.cols is NULL or self.children is NULL:
            raise MemoryError()
        memset(self.cols, 0, self.count * sizeof(Col))
        memset(&self.reading, 0, sizeof(Reading))
        memset(self.copied, 0, sizeof(self.copied))
        for number in range(self.count):
            column = given[number]
            self.cols[number].kind = column.kind
            self.cols[number].nullable = column.nullable
            self.cols[number].width = width_of(column.kind, column.width)
            self.cols[number].null_bytes = column.null_bytes
            self.cols[number].first = place
            self.cols[number].many = len(column.children)
            if column.kind in (K_LIST, K_MAP) and len(column.children) != column.kind - K_LIST + 1:
                raise ValueError("a list has one child, a map has two")
            for child in column.children:
                if not number < child < self.count:
                    raise ValueError("a child comes after its parent")
                if column.kind == K_MAP and child == column.children[0] and given[child].children:
                    raise ValueError("a map's keys are text or numbers")
                self.children[place] = child
                place += 1
        self.reading.cols = self.cols
        self.reading.children = self.children

    def __dealloc__(self):
        cdef Py_ssize_t number
        if self.cols is not NULL:
            for number in range(self.count):
                pyconsumer_piece_back(self.cols[number].valid)
                pyconsumer_piece_back(self.cols[number].ends)
                pyconsumer_piece_back(self.cols[number].data)
        PyMem_Free(self.cols)
        PyMem_Free(self.children)

    def __reduce__(self):
        return not_copied_columns(self)

    def __len__(self):
        return self.cols[0].count

    cdef int check_open(self) except -1:
        if self.is_finished:
            raise ValueError("these columns are finished")
        return 0

    def scan(self, rows, dict programs not None):
        """See ``_pure_columns.ColumnsDecoder.scan``."""
        cdef Py_ssize_t row = 0
        cdef dict missing = {}
        cdef list odd = []
        cdef const uint8_t *start
        cdef int64_t number, last = -1
        for data in rows:
            if data is not None:
                start = <const uint8_t *>PyBytes_AS_STRING(data)
                if PyBytes_GET_SIZE(data) < 5 or start[0] != 0:
                    odd.append(row)
                else:
                    number = id_at(start)
                    if number != last:
                        last = number
                        if number not in programs and number not in missing:
                            missing[number] = row
            row += 1
        return Scanned(missing, odd)

    def scan_column(self, column, Py_ssize_t count, dict programs not None):
        """See ``_pure_columns.ColumnsDecoder.scan_column``."""
        cdef Py_ssize_t row, size = 0
        cdef dict missing = {}
        cdef list odd = []
        cdef const uint8_t *start = NULL
        cdef int64_t number, last = -1
        cdef Given given = Given(column, count)
        for row in range(count):
            if not given.at(row, &start, &size):
                continue
            if size < 5 or start[0] != 0:
                odd.append(row)
                continue
            number = id_at(start)
            if number != last:
                last = number
                if number not in programs and number not in missing:
                    missing[number] = row
        return Scanned(missing, odd)

    def append(self, rows, dict programs not None, dict odd=None, *, bint stop=False):
        """See ``_pure_columns.ColumnsDecoder.append``."""
        cdef Py_ssize_t row = 0, size
        cdef const uint8_t *start
        cdef list bad = []
        cdef Chosen chosen
        self.check_open()
        self.reading.expected = max(<Py_ssize_t>len(rows), self.announced)
        chosen.number = -1
        chosen.program = NULL
        chosen.kind = NO_PROGRAM
        for data in rows:
            if self.is_full():
                return row, bad
            if data is None:
                if self.null_row() != FINE:
                    self.give_up(row)
            else:
                if type(data) is not bytes:
                    raise TypeError(f"a row is bytes or None, not {data!r}")
                start, size = <const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)
                self.reading.limit = start + size
                if not self.row(row, start, size, programs, odd, &chosen, bad, stop):
                    return row, bad
            row += 1
        return row, bad

    def append_column(self, column, Py_ssize_t count, dict programs not None, dict odd=None, *, bint stop=False):
        """See ``_pure_columns.ColumnsDecoder.append_column``."""
        cdef Py_ssize_t row = 0, size = 0
        cdef list bad = []
        cdef Chosen chosen
        cdef const uint8_t *start = NULL
        cdef Py_ssize_t after
        cdef Given given = Given(column, count)
        self.check_open()
        self.reading.expected = max(count, self.announced)
        self.reading.limit = given.data + given.size
        chosen.number = -1
        chosen.program = NULL
        chosen.kind = NO_PROGRAM
        if not odd:
            odd = None
        while row < count:
            if self.is_full():
                return row, bad
            if odd is None:
                after = self.run(given, row, count, &chosen)
                if after > row:
                    row = after
                    continue
            if not given.at(row, &start, &size):
                if self.null_row() != FINE:
                    self.give_up(row)
            elif not self.row(row, start, size, programs, odd, &chosen, bad, stop):
                return row, bad
            row += 1
        return count, bad

    cdef Py_ssize_t run(self, Given given, Py_ssize_t row, Py_ssize_t count, Chosen *chosen) noexcept:
        """Append rows of the chosen program. Return the next row, which is left to :meth:`row` for any reason."""
        cdef Reading *r = &self.reading
        cdef const int32_t *ends = given.ends
        cdef const uint8_t *valid = given.valid
        cdef const uint8_t *start
        cdef Py_ssize_t most = given.size - SLACK, before
        cdef Pr p
        cdef int result
        if chosen.kind == OF_MESSAGES:
            p = reading_of(r, <MessageProgram>chosen.program)
        elif chosen.kind == OF_STEPS:
            use_steps(r, <ColumnProgram>chosen.program)
        else:
            return row
        r.has_slack = True
        while row < count and not self.is_full():
            if valid is not NULL and not valid[row >> 3] >> (row & 7) & 1:
                break
            if ends[row] < 0 or ends[row + 1] - 5 < ends[row] or ends[row + 1] > most:
                break
            start = given.data + ends[row]
            if start[0] != 0 or id_at(start) != chosen.number:
                break
            before = r.cols[0].count
            r.at, r.end, r.room = start + 5, given.data + ends[row + 1], self.room
            if chosen.kind == OF_MESSAGES:
                result = read_message(&p, <MessageProgram>chosen.program)
            elif r.steps.do == D_RECORD:
                result = read_record(r, r.steps, 0)
            else:
                result = read_step(r, r.steps, 0)
            if result != FINE or r.at != r.end:
                truncate_to(r, r.cols, before)
                break
            r.held += ROW_BYTES + <Py_ssize_t>(self.room - r.room)
            row += 1
        return row

    cdef inline bint is_full(self) noexcept:
        return self.reading.held > self.most_held or self.reading.most_now > self.most_items

    cdef int give_up(self, Py_ssize_t row) except -1:
        truncate_to(&self.reading, self.cols, self.cols[0].count)
        raise MemoryError(f"there is no memory for the columns, from row {row} on")

    @cython.nonecheck(False)
    cdef bint row(
        self,
        Py_ssize_t row,
        const uint8_t *start,
        Py_ssize_t size,
        dict programs,
        dict odd,
        Chosen *chosen,
        list bad,
        bint stop,
    ) except -1:
        """Append a row of bytes. Return False if it ends the call."""
        cdef Reading *r = &self.reading
        cdef Py_ssize_t before = self.cols[0].count
        cdef PyObject *program = NULL
        cdef int result = BAD, kind = NO_PROGRAM
        cdef int64_t number
        cdef Pr p
        cdef Py_ssize_t begin = 5
        if odd is not None and row in odd:
            found, begin = odd[row]
            program = <PyObject *>found  # which the dictionary keeps
            kind = self.kind_of(program)
            if not 0 <= begin <= size:
                raise ValueError(f"row {row} has no byte {begin}")
        elif size < 5 or start[0] != 0:
            begin = 0
        else:
            number = id_at(start)
            if number != chosen.number:
                chosen.number = number
                chosen.program = PyDict_GetItemWithError(programs, number)
                chosen.kind = self.kind_of(chosen.program)
            program, kind = chosen.program, chosen.kind
        if kind != NO_PROGRAM:
            start += begin
            size -= begin
            r.has_slack = True
            if r.limit - start < size + SLACK:
                r.has_slack = size <= MOST_COPIED
                if r.has_slack:
                    memcpy(self.copied, start, size)
                    start = self.copied
            r.at, r.end, r.room = start, start + size, self.room
            if kind == OF_STEPS:
                use_steps(r, <ColumnProgram>program)
                result = read_step(r, r.steps, 0)
            elif kind == OF_MESSAGES:
                p = reading_of(r, <MessageProgram>program)
                result = read_message(&p, <MessageProgram>program)
            else:
                result = read_document(r, <DocumentProgram>program)
                if result == BAD or (result == FINE and r.at != r.end):
                    truncate_to(r, self.cols, before)
                    r.room = self.room
                    result = read_again(r, <DocumentProgram>program, start, size)
            if result == FINE:
                if r.at == r.end:
                    r.held += ROW_BYTES + <Py_ssize_t>(self.room - r.room)
                    return True
                result = BAD
            truncate_to(r, self.cols, before)
            if result == NO_MEMORY:
                self.give_up(row)
        bad.append(Bad(row, None if program is NULL else <object>program, begin))
        if stop:
            return False
        if self.null_row() != FINE:
            self.give_up(row)
        return True

    cdef int kind_of(self, PyObject *program) except -1:
        """Return the kind of a program, and check that it is of these columns: it has their numbers."""
        cdef object columns
        cdef int kind
        if program is NULL:
            return NO_PROGRAM
        if type(<object>program) is ColumnProgram:
            kind, columns = OF_STEPS, (<ColumnProgram>program).columns
        elif type(<object>program) is MessageProgram:
            kind, columns = OF_MESSAGES, (<MessageProgram>program).columns
        elif type(<object>program) is DocumentProgram:
            kind, columns = OF_DOCUMENTS, (<DocumentProgram>program).again.columns
        else:
            return NO_PROGRAM
        if columns is not self.columns and columns is not self.fitting:
            check_columns(self.columns, columns)
            self.fitting = columns
        return kind

    cdef inline int null_row(self) noexcept:
        self.reading.held += ROW_BYTES + self.null_bytes
        return add_null(&self.reading, self.cols)

    def expect(self, Py_ssize_t rows):
        """See ``_pure_columns.ColumnsDecoder.expect``."""
        self.announced = min(max(rows, 0), MOST_ANNOUNCED)

    def truncate(self, Py_ssize_t count):
        """Drop all rows but the first ``count``."""
        self.check_open()
        if 0 <= count < self.cols[0].count:
            truncate_to(&self.reading, self.cols, count)
        if count == 0:
            self.reading.held = self.reading.most_now = 0

    def finish(self):
        """Return all columns. Nothing can be appended afterwards."""
        cdef list found = []
        cdef Py_ssize_t number
        self.check_open()
        self.is_finished = True
        for number in range(self.count):
            found.append(finished(&self.cols[number]))
        return found


cdef inline void use_steps(Reading *r, ColumnProgram program) noexcept:
    r.steps, r.links, r.fields = program.steps, program.links, program.fields
    r.skipper = <PyObject *>program.skipper


cdef inline int64_t id_at(const uint8_t *start) noexcept nogil:
    return <int64_t>start[1] << 24 | <int64_t>start[2] << 16 | <int64_t>start[3] << 8 | start[4]


cdef Py_ssize_t width_of(int kind, Py_ssize_t width) except -1:
    if kind == K_INT or kind == K_FLOAT:
        return 4
    if kind == K_LONG or kind == K_DOUBLE:
        return 8
    if kind == K_FIXED:
        if width < 0:
            raise ValueError("a width is below 0")
        return width
    if not 0 <= kind < LAST_KIND:
        raise ValueError("a kind of column is unknown")
    return 0


cdef void truncate_to(Reading *r, Col *col, Py_ssize_t count) noexcept:
    """Drop all values but the first ``count``. A column may have fewer, after a failure within a row."""
    cdef Py_ssize_t child, place
    # A struct counts a value before its children do. The items of a list come before the list.
    if count >= col.count and col.kind != K_LIST and col.kind != K_MAP:
        return
    for place in range(count, col.count):  # rule 1
        if col.valid is not NULL:
            set_bit(col.valid, place, True)
        if col.kind == K_BOOLEAN:
            set_bit(col.data, place, False)
    col.count = min(count, col.count)
    if col.kind == K_BYTES:
        col.size = 0 if col.ends is NULL else col.ends[col.count]
    elif col.kind == K_LIST or col.kind == K_MAP:
        count = 0 if col.ends is NULL else col.ends[col.count]
    for child in range(col.many):
        truncate_to(r, r.cols + r.children[col.first + child], count)


cdef object finished(Col *col):
    """Return the buffers of a column, which loses its memory."""
    cdef object bitmap = None, ends = None, data = None
    cdef Py_ssize_t nulls = 0
    if col.kind == K_NULL:
        return Buffers(col.count, col.count, None, None, None)
    if col.valid is not NULL:
        nulls = col.count - pyconsumer_bits_set(col.valid, col.count)
        if nulls:
            bitmap = block_of_memory(col.valid, (col.count + 7) // 8)
            col.valid = NULL
    if col.kind == K_BYTES or col.kind == K_LIST or col.kind == K_MAP:
        if col.ends is NULL:
            col.ends = <int32_t *>pyconsumer_piece(4)
            if col.ends is NULL:
                raise MemoryError()
            col.ends[0] = 0
        ends = block_of_memory(col.ends, 4 * (col.count + 1))
        col.ends = NULL
    if col.kind != K_STRUCT and col.kind != K_LIST and col.kind != K_MAP:
        data = block_of_memory(
            col.data,
            col.size if col.kind == K_BYTES
            else (col.count + 7) // 8 if col.kind == K_BOOLEAN
            else col.count * col.width,
        )
        col.data = NULL
    return Buffers(col.count, nulls, bitmap, ends, data)
