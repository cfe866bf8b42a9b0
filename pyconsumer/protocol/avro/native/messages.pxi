# Columns of Protobuf. The rules are in pyconsumer/protocol/protobuf/_pure_columns.py, the twin of this.
#
# State between fields (oneofs, entries of maps, moments) is in the program, since one value at a time is read.

from libc.stdlib cimport qsort
from libc.string cimport memcmp

cdef enum:
    # column_plan.Op
    P_SKIP = 0
    P_INT32
    P_INT64
    P_UINT32
    P_SINT32
    P_SINT64
    P_BOOL
    P_ENUM
    P_FIXED32
    P_SFIXED32
    P_FIXED64
    P_STRING
    P_BYTES
    P_MESSAGE
    P_WRAPPER
    P_MOMENT
    LAST_P

cdef enum:
    # column_plan.Rule
    SINGULAR = 0
    REPEATED = 1
    MAPPED = 2

cdef enum:
    # column_plan.Absent
    A_NULL = 0
    A_NUMBER = 1
    A_TEXT = 2
    A_EMPTY = 3

cdef enum:
    UNKNOWN = 3  # beside FINE, BAD, NO_MEMORY: the value counts as an unknown field
    DENSE = 256  # numbers of fields below this one are looked up in a table
    MOST_FREE = 16  # as the twin's FREE_BYTES
    KEPT_ENTRIES = 4096


cdef enum:
    # The ways to read a plain field: a singular number or text with a column, in no oneof.
    NOT_PLAIN = 0
    PLAIN_LONG
    PLAIN_INT
    PLAIN_BOOL
    PLAIN_TEXT
    PLAIN_BYTES
    PLAIN_WORD  # 8 bytes
    PLAIN_HALF  # 4 bytes


cdef struct Entry:
    const uint8_t *at
    const uint8_t *end
    const uint8_t *key  # of text
    uint64_t bits  # of a number, or the size of a text
    Py_ssize_t place
    bint kept


cdef struct Pf:
    int plain
    int wire
    int rule
    int absent
    Py_ssize_t column
    int do
    uint32_t number
    bint closed
    bint dense  # an enum whose numbers are 0, 1, 2 and so on
    Py_ssize_t items
    Py_ssize_t table
    Py_ssize_t oneof
    uint64_t bits  # the default
    const uint8_t *text
    Py_ssize_t size
    const int32_t *numbers  # of an enum, ascending
    const int32_t *ends
    const uint8_t *names
    Py_ssize_t many
    # state
    Entry *entries
    Py_ssize_t entry_count
    Py_ssize_t entry_room
    int64_t seconds
    int64_t nanos


cdef struct Plain:
    int plain
    int32_t column


cdef struct Table_:
    Py_ssize_t column
    Py_ssize_t first
    Py_ssize_t many
    Py_ssize_t first_oneof
    Py_ssize_t many_oneofs
    int64_t counted
    int32_t *by_number
    uint32_t numbers  # the length of that table
    Plain[128] plain  # by tags of one byte


cdef struct Slot


cdef struct Pr:
    Reading *r
    Pf *fields
    Slot *slots  # of the same fields, for ordered.pxi
    Table_ *tables
    Py_ssize_t *which  # by oneof, its field, -1 without one


cdef extern from *:
    """
    /* A number in varint. Returns its length, 0 if it is none. Bits beyond 64 are cut off, as by Google's readers. */
    static inline int pyconsumer_varint(const uint8_t *at, const uint8_t *end, uint64_t *number) {
        uint64_t found = 0;
        int shift = 0, length = 0;
    #if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        if (end - at >= 8) {
            uint64_t word, stop;
            memcpy(&word, at, 8);
            stop = ~word & 0x8080808080808080ull;
            if (stop) {
                word &= stop ^ (stop - 1);
                word = (word & 0x007F007F007F007Full) | (word & 0x7F007F007F007F00ull) >> 1;
                word = (word & 0x00003FFF00003FFFull) | (word & 0x3FFF00003FFF0000ull) >> 2;
                *number = (word & 0x000000000FFFFFFFull) | (word & 0x0FFFFFFF00000000ull) >> 4;
                return (__builtin_ctzll(stop) + 1) >> 3;
            }
        }
    #endif
        while (at < end) {
            uint64_t byte = *at++;
            length++;
            if (shift == 63 && byte > 0x7F) return 0;
            found |= (byte & 0x7F) << shift;
            if (byte < 0x80) {
                *number = found;
                return length;
            }
            shift += 7;
        }
        return 0;
    }

    /* Add. Return 0 if the sum has more than 64 bits. */
    static inline int pyconsumer_sum(int64_t one, int64_t other, int64_t *sum) {
        if (other > 0 ? one > INT64_MAX - other : one < INT64_MIN - other) return 0;
        *sum = one + other;
        return 1;
    }
    """
    int pyconsumer_varint(const uint8_t *at, const uint8_t *end, uint64_t *number) noexcept nogil
    bint pyconsumer_sum(int64_t one, int64_t other, int64_t *sum) noexcept nogil


# -- the plan ----------------------------------------------------------------------------------------------------------


@cython.final
cdef class MessageProgram:
    """See ``protobuf._pure_columns.MessageProgram``."""

    cdef readonly object plan
    cdef object columns
    cdef readonly object path
    cdef readonly bint zigzag
    cdef Pf *fields
    cdef Slot *slots
    cdef Table_ *tables
    cdef Py_ssize_t *which
    cdef int passed  # values that were given to the general reader at once after the last failure
    cdef int to_pass  # those of them that are to come
    cdef Py_ssize_t field_count
    cdef Py_ssize_t table_count
    cdef Py_ssize_t oneof_count
    cdef bint takes_first  # the path of the first type
    cdef list kept

    def __cinit__(self, plan, path=None, zigzag=True):
        cdef Py_ssize_t number
        cdef list fields = list(plan.fields), tables = list(plan.tables), layout = list(plan.layout.columns)
        self.columns = plan.layout.columns
        self.plan, self.path, self.zigzag = plan, None if path is None else tuple(path), zigzag
        self.takes_first = self.path is not None and self.path in ((), (0,))
        self.kept = []
        self.field_count, self.table_count, self.oneof_count = len(fields), len(tables), plan.oneofs
        if not tables:
            raise ValueError("a plan has at least one table")
        if self.oneof_count < 0:
            raise ValueError("a number of the plan is below 0")
        self.fields = <Pf *>PyMem_Malloc((self.field_count + 1) * sizeof(Pf))
        if self.fields is NULL:
            raise MemoryError()
        memset(self.fields, 0, (self.field_count + 1) * sizeof(Pf))
        self.slots = <Slot *>PyMem_Malloc((self.field_count + 1) * sizeof(Slot))
        if self.slots is NULL:
            raise MemoryError()
        self.tables = <Table_ *>PyMem_Malloc(self.table_count * sizeof(Table_))
        if self.tables is NULL:
            raise MemoryError()
        memset(self.tables, 0, self.table_count * sizeof(Table_))
        self.which = <Py_ssize_t *>PyMem_Malloc((self.oneof_count + 1) * sizeof(Py_ssize_t))
        if self.which is NULL:
            raise MemoryError()
        for number in range(self.oneof_count):
            self.which[number] = -1
        for number in range(self.field_count):
            self.fill(&self.fields[number], fields[number], layout)
        for number in range(self.table_count):
            self.fill_table(&self.tables[number], tables[number], number == 0, layout)
        for number in range(self.field_count):
            self.check(&self.fields[number])
            fill_slot_plan(&self.slots[number], &self.fields[number], layout)

    cdef int fill(self, Pf *field, given, list layout) except -1:
        cdef Py_ssize_t columns = len(layout), place
        if not 0 <= given.do < LAST_P or not 0 <= given.rule <= MAPPED or not 0 <= given.absent <= A_EMPTY:
            raise ValueError("a field of the plan is unknown")
        if given.wire not in (0, 1, 2, 3, 5) or not 0 < given.number < 1 << 29:
            raise ValueError("a tag of the plan is unknown")
        if not -1 <= given.table < self.table_count or not -1 <= given.oneof < self.oneof_count:
            raise ValueError("a number of the plan is out of range")
        field.do, field.wire, field.rule, field.absent = given.do, given.wire, given.rule, given.absent
        field.number, field.closed = given.number, given.is_closed
        field.column, field.items, field.table, field.oneof = given.column, given.items, given.table, given.oneof
        if (field.do in (P_MESSAGE, P_WRAPPER)) != (field.table >= 0):
            raise ValueError("a field of the plan has a wrong table")
        if WIRES_OF[given.do] is not None and field.wire not in WIRES_OF[given.do]:
            raise ValueError("a field of the plan has a wrong wire type")
        if field.rule != SINGULAR:
            if not 0 <= field.column < columns or not 0 <= field.items < columns or field.do == P_SKIP:
                raise ValueError("a repeated field of the plan has no column")
            column = layout[field.column]
            place = len(column.children) - 1
            if column.kind != (K_MAP if field.rule == MAPPED else K_LIST) or column.children[place] != field.items:
                raise ValueError("a repeated field of the plan has a wrong column")
            if field.rule == MAPPED and (field.do != P_MESSAGE or field.wire != 2):
                raise ValueError("a map of the plan has no entries")
        elif field.do == P_SKIP or (field.do == P_ENUM and field.column == -1):
            if field.column != -1:
                raise ValueError("a field of the plan that is skipped has a column")
        elif not 0 <= field.column < columns:
            raise ValueError("a field of the plan has no column")
        place = field.items if field.rule == REPEATED else field.column
        if place >= 0 and field.rule != MAPPED and field.do != P_WRAPPER:
            kind = layout[place].kind
            if kind not in KINDS_OF_P[field.do] or (kind == K_FIXED and layout[place].width != 16):
                raise ValueError("a field of the plan has a wrong column")
        if field.absent == A_TEXT:
            if type(given.default) is not bytes:
                raise TypeError("a text of the plan is bytes")
            field.text, field.size = <const uint8_t *>PyBytes_AS_STRING(given.default), PyBytes_GET_SIZE(given.default)
            self.kept.append(given.default)
        elif field.absent == A_NUMBER:
            field.bits = bits_of(given.default, 0 if place < 0 else layout[place].kind)
        if field.absent in (A_NUMBER, A_TEXT) and (field.rule != SINGULAR or field.column < 0):
            raise ValueError("a default of the plan has no column")
        if field.absent in (A_NUMBER, A_TEXT) and field.do != P_WRAPPER:
            if (field.absent == A_TEXT) != (layout[field.column].kind == K_BYTES):
                raise ValueError("a default of the plan does not fit its column")
        if field.absent == A_EMPTY and field.do != P_MESSAGE:
            raise ValueError("a default of the plan is no message")
        if field.do == P_ENUM:
            self.fill_enum(field, given.names)
        if field.rule == SINGULAR and field.oneof < 0 and field.column >= 0:
            field.plain = plain_of(field.do, layout[field.column].kind)
        return 0

    cdef int fill_enum(self, Pf *field, names) except -1:
        cdef list numbers = sorted(names)
        cdef Py_ssize_t total = 0
        ends = array("i", [0])
        for number in numbers:
            if type(names[number]) is not bytes:
                raise TypeError("a name of the plan is bytes")
            total += len(names[number])
            ends.append(total)
        if ends.itemsize != 4:
            raise ValueError("a number has no four bytes")
        joined = b"".join([names[number] for number in numbers]) + bytes(SLACK)
        held = array("i", numbers).tobytes(), ends.tobytes(), joined
        self.kept.append(held)
        field.numbers = <const int32_t *><const uint8_t *>PyBytes_AS_STRING(held[0])
        field.ends = <const int32_t *><const uint8_t *>PyBytes_AS_STRING(held[1])
        field.names = <const uint8_t *>PyBytes_AS_STRING(held[2])
        field.many = len(numbers)
        field.dense = numbers == list(range(len(numbers)))
        return 0

    cdef int fill_table(self, Table_ *table, given, bint is_root, list layout) except -1:
        cdef Py_ssize_t place, most = 0
        cdef int tag
        table.column, table.first, table.many, table.first_oneof, table.many_oneofs, table.counted = given
        if not -1 <= table.column < <Py_ssize_t>len(layout) or table.counted < 0:
            raise ValueError("a table of the plan is wrong")
        if (is_root and table.column != 0) or (table.column >= 0 and layout[table.column].kind != K_STRUCT):
            raise ValueError("a table of the plan has a wrong column")
        if table.first < 0 or table.many < 0 or table.first + table.many > self.field_count:
            raise ValueError("a field of the plan is out of range")
        if table.first_oneof < 0 or table.many_oneofs < 0:
            raise ValueError("a oneof of the plan is out of range")
        if table.first_oneof + table.many_oneofs > self.oneof_count:
            raise ValueError("a oneof of the plan is out of range")
        for place in range(table.first, table.first + table.many):
            if place > table.first and self.fields[place].number <= self.fields[place - 1].number:
                raise ValueError("the fields of a table are not in order")
            if table.column >= 0 and self.fields[place].column >= 0:
                if self.fields[place].column not in layout[table.column].children:
                    raise ValueError("a field of the plan has a column of another message")
            if self.fields[place].number < DENSE:
                most = self.fields[place].number + 1
        table.numbers = <uint32_t>most
        table.by_number = <int32_t *>PyMem_Malloc((most + 1) * sizeof(int32_t))
        if table.by_number is NULL:
            raise MemoryError()
        for place in range(most):
            table.by_number[place] = -1
        for place in range(table.first, table.first + table.many):
            if self.fields[place].number < DENSE:
                table.by_number[self.fields[place].number] = <int32_t>place
            if self.fields[place].number < 16 and self.fields[place].plain != NOT_PLAIN:
                tag = <int>(self.fields[place].number << 3) | self.fields[place].wire
                table.plain[tag].plain = self.fields[place].plain
                table.plain[tag].column = <int32_t>self.fields[place].column
        return 0

    cdef int check(self, Pf *field) except -1:
        """Check a field's table. An entry has a key and a value, a wrapper has one field."""
        cdef Table_ *table
        cdef Pf *keys
        if field.table < 0:
            return 0
        table = &self.tables[field.table]
        if table == self.tables:
            raise ValueError("a table of the plan contains itself")
        if field.rule == MAPPED:
            if table.many != 2 or table.many_oneofs or table.column != -1:
                raise ValueError("an entry of the plan has a key and a value")
            keys = &self.fields[table.first]
            if keys.number != 1 or keys[1].number != 2 or keys[1].column != field.items or keys.oneof != -1:
                raise ValueError("an entry of the plan has other fields")
            if keys.rule != SINGULAR or keys[1].rule != SINGULAR or keys.table >= 0 or keys.do == P_MOMENT:
                raise ValueError("an entry of the plan has other fields")
            column = self.plan.layout.columns[field.column]
            if keys.do == P_ENUM or keys.column < 0 or keys.column != column.children[0]:
                raise ValueError("a key of the plan has a wrong column")
            if keys.absent not in (A_NUMBER, A_TEXT) or keys[1].absent == A_NULL or keys[1].oneof != -1:
                raise ValueError("an entry of the plan lacks defaults")
        elif field.do == P_WRAPPER:
            keys = &self.fields[table.first]
            if table.many != 1 or table.many_oneofs or table.column != -1 or keys.rule != SINGULAR or keys.table >= 0:
                raise ValueError("a wrapper of the plan has one field")
            if keys.do in (P_SKIP, P_MOMENT) or keys.oneof != -1:
                raise ValueError("a wrapper of the plan has one field")
            if keys.column != (field.items if field.rule == REPEATED else field.column) or keys.absent == A_NULL:
                raise ValueError("a wrapper of the plan has another column")
        elif table.column != (field.items if field.rule == REPEATED else field.column):
            raise ValueError("a message of the plan has another column")
        return 0

    cdef void forget_all(self) noexcept:
        """Forget the state of a value that was refused."""
        cdef Py_ssize_t number
        for number in range(self.oneof_count):
            self.which[number] = -1
        for number in range(self.field_count):
            self.fields[number].entry_count = 0
            free_entries(&self.fields[number])

    def entry_room(self):
        """Return the number of map entries that there is memory for. This is for tests."""
        cdef Py_ssize_t number
        return sum([self.fields[number].entry_room for number in range(self.field_count)])

    def __dealloc__(self):
        cdef Py_ssize_t number
        if self.fields is not NULL:
            for number in range(self.field_count):
                free(self.fields[number].entries)
        if self.tables is not NULL:
            for number in range(self.table_count):
                PyMem_Free(self.tables[number].by_number)
        PyMem_Free(self.fields)
        PyMem_Free(self.slots)
        PyMem_Free(self.tables)
        PyMem_Free(self.which)

    def __reduce__(self):
        return not_copied_columns(self)


NUMBERS_OF_P = frozenset([K_INT, K_LONG, K_FIXED])
KINDS_OF_P = {
    P_SKIP: frozenset(),
    P_INT32: frozenset([K_INT]),
    P_INT64: frozenset([K_LONG, K_FIXED]),
    P_UINT32: frozenset([K_INT, K_LONG]),
    P_SINT32: frozenset([K_INT]),
    P_SINT64: frozenset([K_LONG]),
    P_BOOL: frozenset([K_BOOLEAN]),
    P_ENUM: frozenset([K_BYTES]),
    P_FIXED32: frozenset([K_INT, K_LONG, K_FLOAT]),
    P_SFIXED32: frozenset([K_INT]),
    P_FIXED64: frozenset([K_LONG, K_DOUBLE, K_FIXED]),
    P_STRING: frozenset([K_BYTES]),
    P_BYTES: frozenset([K_BYTES]),
    P_MESSAGE: frozenset([K_STRUCT]),
    P_MOMENT: frozenset([K_LONG]),
}
WIRES_OF = dict.fromkeys(range(LAST_P), (0,)) | {
    P_SKIP: None,
    P_FIXED32: (5,),
    P_SFIXED32: (5,),
    P_FIXED64: (1,),
    P_STRING: (2,),
    P_BYTES: (2,),
    P_MESSAGE: (2, 3),
    P_WRAPPER: (2, 3),
    P_MOMENT: (2, 3),
}


cdef int plain_of(int do, int kind) except -1:
    """Return the way to read a plain field."""
    if do == P_STRING or do == P_BYTES:
        return PLAIN_TEXT if do == P_STRING else PLAIN_BYTES
    if do == P_INT64 and kind == K_LONG:
        return PLAIN_LONG
    if (do == P_INT32 or do == P_UINT32) and kind == K_INT:
        return PLAIN_INT
    if do == P_BOOL:
        return PLAIN_BOOL
    if do == P_FIXED64 and (kind == K_LONG or kind == K_DOUBLE):
        return PLAIN_WORD
    if (do == P_FIXED32 or do == P_SFIXED32) and (kind == K_INT or kind == K_FLOAT):
        return PLAIN_HALF
    return NOT_PLAIN


cdef uint64_t bits_of(given, int kind) except? 1:
    """Return a default as the bits that its column has."""
    cdef double real
    cdef float small
    cdef uint64_t found = 0
    cdef uint32_t word
    if kind == K_DOUBLE:
        real = given
        memcpy(&found, &real, 8)
        return found
    if kind == K_FLOAT:
        small = given
        memcpy(&word, &small, 4)
        return word
    return <uint64_t>(int(given) & 0xFFFFFFFFFFFFFFFF)


# -- bytes -------------------------------------------------------------------------------------------------------------


cdef inline bint varint_at(Reading *r, uint64_t *number) noexcept nogil:
    cdef int length
    if r.at < r.end and r.at[0] < 0x80:
        number[0] = r.at[0]
        r.at += 1
        return True
    length = pyconsumer_varint(r.at, r.end, number)
    r.at += length
    return length > 0


cdef inline bint short_at(Reading *r, uint64_t most, uint64_t *number) noexcept nogil:
    """Read a number of at most five bytes."""
    cdef const uint8_t *start = r.at
    return varint_at(r, number) and r.at - start <= 5 and number[0] <= most


cdef inline bint tag_at(Reading *r, uint32_t *number, int *wire) noexcept nogil:
    cdef uint64_t tag
    if not short_at(r, 0xFFFFFFFF, &tag) or tag < 8:
        return False
    number[0] = <uint32_t>(tag >> 3)
    wire[0] = <int>(tag & 7)
    return True


cdef inline bint length_at(Reading *r, Py_ssize_t *size) noexcept nogil:
    """Read a length, which the bytes have."""
    cdef uint64_t found
    if not short_at(r, 0x7FFFFFFF, &found) or <Py_ssize_t>found > r.end - r.at:
        return False
    size[0] = <Py_ssize_t>found
    return True


cdef bint skip_field(Reading *r, uint32_t number, int wire, int level) noexcept nogil:
    """Go past a field whose tag was read."""
    cdef uint64_t found
    cdef Py_ssize_t size = 0
    cdef uint32_t inner = 0
    cdef int kind = 0
    if wire == 0:
        return varint_at(r, &found)
    if wire == 1 or wire == 5:
        size = 8 if wire == 1 else 4
        if size > r.end - r.at:
            return False
        r.at += size
        return True
    if wire == 2:
        if not length_at(r, &size):
            return False
        r.at += size
        return True
    if wire != 3 or level + 1 >= MAX_LEVELS:
        return False
    while r.at < r.end:
        if not tag_at(r, &inner, &kind):
            return False
        if kind == 4:
            return inner == number
        if not skip_field(r, inner, kind, level + 1):
            return False
    return False


cdef int bits_at(Pr *p, const Pf *field, uint64_t *bits) noexcept nogil:
    """Read a number of any type, as the bits of the number with its sign."""
    cdef Reading *r = p.r
    cdef uint64_t found = 0
    cdef uint32_t word = 0
    cdef int do = field.do
    if do == P_FIXED64:
        if r.end - r.at < 8:
            return BAD
        put_little(<uint8_t *>bits, r.at, 8)
        r.at += 8
        return FINE
    if do == P_FIXED32 or do == P_SFIXED32:
        if r.end - r.at < 4:
            return BAD
        put_little(<uint8_t *>&word, r.at, 4)
        r.at += 4
        bits[0] = <uint64_t><int64_t><int32_t>word if do == P_SFIXED32 else word
        return FINE
    if not varint_at(r, &found):
        return BAD
    if do == P_INT64:
        bits[0] = found
    elif do == P_INT32:
        bits[0] = <uint64_t><int64_t><int32_t><uint32_t>found
    elif do == P_UINT32:
        bits[0] = <uint32_t>found
    elif do == P_SINT64:
        bits[0] = (found >> 1) ^ (0 - (found & 1))
    elif do == P_SINT32:
        found = <uint32_t>found
        bits[0] = (found >> 1) ^ (0 - (found & 1))
    else:
        bits[0] = found != 0
    return FINE


cdef inline int add_bits(Reading *r, Col *col, uint64_t bits) noexcept:
    """Append a number to a column of its size."""
    if next_of(r, col, True) != FINE:
        return NO_MEMORY
    if col.kind == K_INT or col.kind == K_FLOAT:
        (<uint32_t *>col.data)[col.count] = <uint32_t>bits
    elif col.kind == K_BOOLEAN:
        set_bit(col.data, col.count, bits != 0)
    elif col.kind == K_FIXED:
        (<uint64_t *>(col.data + 16 * col.count))[0] = bits
        (<uint64_t *>(col.data + 16 * col.count))[1] = 0
    else:
        (<uint64_t *>col.data)[col.count] = bits
    col.count += 1
    return FINE


cdef inline int name_at(Pr *p, const Pf *field, const uint8_t **start, Py_ssize_t *size, uint8_t *room) noexcept nogil:
    """Read the number of an enum, and find its name. ``room`` has place for the text of a number."""
    cdef uint64_t found = 0
    cdef int32_t number
    cdef Py_ssize_t low = 0, high = field.many, middle
    if not varint_at(p.r, &found):
        return BAD
    number = <int32_t><uint32_t>found
    if field.dense:
        low = number if 0 <= number < field.many else field.many
    else:
        while low < high:
            middle = (low + high) // 2
            if field.numbers[middle] < number:
                low = middle + 1
            else:
                high = middle
    if low < field.many and field.numbers[low] == number:
        start[0] = field.names + field.ends[low]
        size[0] = field.ends[low + 1] - field.ends[low]
        return FINE
    if field.closed:
        return UNKNOWN
    size[0] = digits_of(number, room)
    start[0] = room + 12 - size[0]
    return FINE


cdef Py_ssize_t digits_of(int64_t number, uint8_t *room) noexcept nogil:
    """Write the text of a number to the end of 12 bytes. Return its length."""
    cdef Py_ssize_t at = 12
    cdef bint is_negative = number < 0
    if is_negative:
        number = -number
    while True:
        at -= 1
        room[at] = <uint8_t>(48 + number % 10)
        number //= 10
        if number == 0:
            break
    if is_negative:
        at -= 1
        room[at] = 45
    return 12 - at


cdef inline void reopen(Col *col, Py_ssize_t count) noexcept:
    """Drop the value that a field already has."""
    if col.count == count:
        col.count -= 1
        if col.kind == K_BYTES:
            col.size = col.ends[col.count]


cdef inline int add_scalar(Pr *p, const Pf *field, Py_ssize_t column, Py_ssize_t count, Py_ssize_t place) noexcept:
    """Read a number or text into a column. ``count``: the field has its value if the column has this number. -1: no."""
    cdef Reading *r = p.r
    cdef Col *col = r.cols + column
    cdef const uint8_t *start = NULL
    cdef Py_ssize_t size = 0
    cdef uint64_t bits = 0
    cdef uint8_t[12] room
    cdef int result
    if field.do == P_STRING or field.do == P_BYTES:
        if not length_at(r, &size):
            return BAD
        start = r.at
        r.at += size
        if field.do == P_STRING and not pyconsumer_is_utf8(start, <size_t>size):
            return BAD
    elif field.do == P_ENUM:
        result = name_at(p, field, &start, &size, room)
        if result != FINE:
            return result
    else:
        result = bits_at(p, field, &bits)
        if result != FINE:
            return result
        if field.oneof >= 0 and choose(p, field, place, count) != FINE:
            return BAD
        reopen(col, count)
        return add_bits(r, col, bits)
    if field.oneof >= 0 and choose(p, field, place, count) != FINE:
        return BAD
    if column < 0:
        return FINE
    if not counts(r, size):
        return BAD
    reopen(col, count)
    return add_bytes(r, col, start, size)


# -- messages ----------------------------------------------------------------------------------------------------------


cdef inline Py_ssize_t field_of(Pr *p, const Table_ *table, uint32_t number) noexcept nogil:
    cdef Py_ssize_t low, high, middle
    if number < table.numbers:
        return table.by_number[number]
    if number < DENSE:
        return -1
    low, high = table.first, table.first + table.many
    while low < high:
        middle = (low + high) // 2
        if p.fields[middle].number < number:
            low = middle + 1
        else:
            high = middle
    return low if low < table.first + table.many and p.fields[low].number == number else -1


cdef int open_message(Pr *p, const Table_ *table, int level) noexcept:
    """Begin a message."""
    cdef Col *col = p.r.cols + table.column
    if level >= MAX_LEVELS or not counts(p.r, table.counted):
        return BAD
    if next_of(p.r, col, True) != FINE:
        return NO_MEMORY
    col.count += 1
    return FINE


cdef int scan_message(Pr *p, const Table_ *table, Py_ssize_t count, uint32_t group, int level) noexcept:
    """Read fields up to the end of the bytes, or to the end of a group."""
    cdef Reading *r = p.r
    cdef uint32_t number = 0
    cdef int wire = 0, result
    cdef Py_ssize_t place
    while True:
        result = scan_plain(p, table, count)
        if result != FINE:
            return result
        if r.at >= r.end:
            break
        if not tag_at(r, &number, &wire):
            return BAD
        if wire == 4:
            return FINE if group != 0 and number == group else BAD
        place = field_of(p, table, number)
        if place < 0:
            if not skip_field(r, number, wire, level):
                return BAD
            continue
        result = scan_field(p, place, wire, count, level)
        if result != FINE and result != UNKNOWN:
            return result
    return FINE if group == 0 else BAD


cdef int scan_field(Pr *p, Py_ssize_t place, int wire, Py_ssize_t count, int level) noexcept:
    """Read a field whose tag was read."""
    cdef Reading *r = p.r
    cdef Pf *field = p.fields + place
    cdef int result
    if wire != field.wire:
        if wire == 2 and is_packable(field):
            return scan_packed(p, field)
        return FINE if skip_field(r, field.number, wire, level) else BAD
    if field.plain != NOT_PLAIN:
        return add_plain(r, field, count)
    if field.rule == MAPPED:
        return add_entry(p, field)
    if field.rule == REPEATED:
        return scan_repeated(p, field, level)
    if field.do == P_SKIP:
        result = FINE if skip_field(r, field.number, wire, level) else BAD
        return result if result != FINE else choose(p, field, place, count)
    if field.table < 0 and field.do != P_MOMENT:
        return add_scalar(p, field, field.column, count, place)
    result = FINE if field.oneof < 0 else choose(p, field, place, count)
    return result if result != FINE else scan_inner(p, field, field.column, count, level + 1)


cdef inline bint is_packable(const Pf *field) noexcept nogil:
    return field.rule == REPEATED and field.wire != 2 and field.wire != 3


cdef int scan_plain(Pr *p, const Table_ *table, Py_ssize_t count) noexcept:
    """Read fields up to the first one that is not plain, or has a tag of several bytes."""
    cdef Reading *r = p.r
    cdef const uint8_t *at = r.at
    cdef const uint8_t *end = r.end
    cdef Col *col
    cdef uint64_t found = 0
    cdef int length, plain
    while at < end and at[0] < 0x80:
        plain = table.plain[at[0]].plain
        if plain == NOT_PLAIN:
            break
        col = r.cols + table.plain[at[0]].column
        at += 1
        if plain == PLAIN_WORD:
            if end - at < 8:
                return BAD
            put_little(<uint8_t *>&found, at, 8)
            at += 8
        elif plain == PLAIN_HALF:
            if end - at < 4:
                return BAD
            found = at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 24
            at += 4
        elif at < end and at[0] < 0x80:  # a number, or the length of a text
            found = at[0]
            at += 1
        else:
            length = pyconsumer_varint(at, end, &found)
            if length == 0 or (plain >= PLAIN_TEXT and length > 5):
                return BAD
            at += length
        if col.count == count:  # the last value counts
            reopen(col, count)
        if col.count == col.room and grow_column(r, col) != FINE:
            return NO_MEMORY
        if plain == PLAIN_TEXT or plain == PLAIN_BYTES:
            if found > <uint64_t>(end - at) or not counts(r, <int64_t>found):
                return BAD
            if not pyconsumer_short_text(
                col.data + col.size, col.capacity - col.size, at, end - at, <int64_t>found
            ):
                if plain == PLAIN_TEXT and not pyconsumer_is_utf8(at, <size_t>found):
                    return BAD
                if <Py_ssize_t>found > col.capacity - col.size and grow_text(r, col, <Py_ssize_t>found) != FINE:
                    return NO_MEMORY
                pyconsumer_copy(col.data + col.size, at, <size_t>found)
            at += found
            col.size += <Py_ssize_t>found
            col.ends[col.count + 1] = <int32_t>col.size
        elif plain == PLAIN_LONG or plain == PLAIN_WORD:
            (<uint64_t *>col.data)[col.count] = found
        elif plain == PLAIN_BOOL:
            set_bit(col.data, col.count, found != 0)
        else:
            (<uint32_t *>col.data)[col.count] = <uint32_t>found
        col.count += 1
    r.at = at
    return FINE


cdef int add_plain(Reading *r, const Pf *field, Py_ssize_t count) noexcept:
    """Read a plain field whose tag was read, as :func:`scan_plain` does. Its tag has several bytes."""
    cdef Col *col = r.cols + field.column
    cdef const uint8_t *start
    cdef int plain = field.plain
    cdef uint64_t found = 0
    cdef Py_ssize_t size = 0
    if plain == PLAIN_TEXT or plain == PLAIN_BYTES:
        if not length_at(r, &size):
            return BAD
        start = r.at
        r.at += size
        if (plain == PLAIN_TEXT and not pyconsumer_is_utf8(start, <size_t>size)) or not counts(r, size):
            return BAD
        reopen(col, count)
        return add_bytes(r, col, start, size)
    if plain == PLAIN_WORD or plain == PLAIN_HALF:
        size = 8 if plain == PLAIN_WORD else 4
        if r.end - r.at < size:
            return BAD
        while size:
            size -= 1
            found = found << 8 | r.at[size]
        r.at += 8 if plain == PLAIN_WORD else 4
    elif not varint_at(r, &found):
        return BAD
    reopen(col, count)
    return add_bits(r, col, found)


cdef int scan_packed(Pr *p, Pf *field) noexcept:
    cdef Reading *r = p.r
    cdef const uint8_t *end = r.end
    cdef Py_ssize_t size = 0
    cdef int result = FINE
    if not length_at(r, &size):
        return BAD
    r.end = r.at + size
    while r.at < r.end:
        result = add_scalar(p, field, field.items, -1, 0)
        if result == FINE:
            if not counts(r, 8):
                return BAD
        elif result != UNKNOWN:
            return result
    r.end = end
    return FINE


cdef int scan_repeated(Pr *p, Pf *field, int level) noexcept:
    cdef Py_ssize_t items
    cdef int result
    if field.table < 0 and field.do != P_MOMENT:
        result = add_scalar(p, field, field.items, -1, 0)
        return BAD if result == FINE and not counts(p.r, 8) else result
    if not counts(p.r, 8):
        return BAD
    items = p.r.cols[field.items].count + 1
    result = scan_inner(p, field, field.items, items, level + 1)
    return result if result != FINE else close_field(p, field, field.items, items, level + 1)


cdef int scan_inner(Pr *p, Pf *field, Py_ssize_t column, Py_ssize_t count, int level) noexcept:
    """Read a message in a field. Its columns may have it already: then both are merged."""
    cdef Reading *r = p.r
    cdef const uint8_t *end = r.end
    cdef Py_ssize_t size = 0
    cdef uint32_t group = 0
    cdef int result
    if level >= MAX_LEVELS:
        return BAD
    if field.wire == 3:
        group = field.number
    else:
        if not length_at(r, &size):
            return BAD
        r.end = r.at + size
    if r.cols[column].count < count:
        result = begin_inner(p, field, column, level)
        if result != FINE:
            return result
    if field.do == P_MOMENT:
        result = scan_moment(r, field, group, level)
    else:
        result = scan_message(p, p.tables + field.table, count, group, level)
    r.end = end
    return result


cdef int begin_inner(Pr *p, Pf *field, Py_ssize_t column, int level) noexcept:
    if field.do == P_MESSAGE:
        return open_message(p, p.tables + field.table, level)
    if field.do == P_MOMENT:
        field.seconds = field.nanos = 0
        return add_bits(p.r, p.r.cols + column, 0)
    return add_default(p, p.fields + p.tables[field.table].first)


cdef int scan_moment(Reading *r, Pf *field, uint32_t group, int level) noexcept:
    cdef uint32_t number = 0
    cdef uint64_t found = 0
    cdef int wire = 0
    while r.at < r.end:
        if not tag_at(r, &number, &wire):
            return BAD
        if wire == 4:
            return FINE if group != 0 and number == group else BAD
        if number <= 2 and wire == 0:
            if not varint_at(r, &found):
                return BAD
            if number == 1:
                field.seconds = <int64_t>found
            else:
                field.nanos = <int32_t><uint32_t>found
        elif not skip_field(r, number, wire, level):
            return BAD
    return FINE if group == 0 else BAD


cdef int choose(Pr *p, const Pf *field, Py_ssize_t place, Py_ssize_t count) noexcept:
    """Let a oneof have a field, and drop the one that it had."""
    cdef Py_ssize_t before
    cdef Pf *dropped
    if field.oneof < 0:
        return FINE
    before = p.which[field.oneof]
    p.which[field.oneof] = place
    if before >= 0 and before != place:
        dropped = p.fields + before
        if dropped.column >= 0:
            if dropped.do == P_MESSAGE:
                forget_message(p, p.tables + dropped.table, count)
            truncate_to(p.r, p.r.cols + dropped.column, count - 1)
    return FINE


cdef void forget_message(Pr *p, const Table_ *table, Py_ssize_t count) noexcept:
    """Forget the state of a message that is dropped."""
    cdef Py_ssize_t place
    cdef Pf *field
    for place in range(table.first_oneof, table.first_oneof + table.many_oneofs):
        p.which[place] = -1
    for place in range(table.first, table.first + table.many):
        field = p.fields + place
        if field.rule == MAPPED:
            field.entry_count = 0
        elif field.rule == SINGULAR and field.do == P_MESSAGE and p.r.cols[field.column].count == count:
            forget_message(p, p.tables + field.table, count)


# -- the end of a message ----------------------------------------------------------------------------------------------


cdef int finish_message(Pr *p, const Table_ *table, Py_ssize_t count, int level) noexcept:
    """Fill in the missing fields of a message."""
    cdef Reading *r = p.r
    cdef Py_ssize_t place
    cdef Pf *field
    cdef Col *col
    cdef int result
    for place in range(table.first_oneof, table.first_oneof + table.many_oneofs):
        p.which[place] = -1
    for place in range(table.first, table.first + table.many):
        field = p.fields + place
        if field.column < 0:
            continue
        col = r.cols + field.column
        if field.plain != NOT_PLAIN:
            if col.count < count:
                result = fill_plain(p, field) if field.absent == A_NUMBER else fill_field(p, field, level)
                if result != FINE:
                    return result
            continue
        if field.rule == SINGULAR:
            if col.count < count:
                result = fill_field(p, field, level)
            elif field.do == P_MESSAGE or field.do == P_MOMENT:
                result = close_field(p, field, field.column, count, level + 1)
            else:
                continue
            if result != FINE:
                return result
            continue
        if field.rule == MAPPED and field.entry_count:
            result = finish_map(p, field, level + 1)
            if result != FINE:
                return result
        if next_of(r, col, True) != FINE:
            return NO_MEMORY
        end_list(r, col, r.cols + field.items)
    return FINE


cdef inline void end_list(Reading *r, Col *col, Col *items) noexcept:
    """Count a list or a map whose items are there."""
    col.count += 1
    col.ends[col.count] = <int32_t>items.count
    if items.count > r.most_now:
        r.most_now = items.count


cdef inline int fill_plain(Pr *p, const Pf *field) noexcept:
    """Fill in the number of a plain field."""
    cdef Col *col = p.r.cols + field.column
    if next_of(p.r, col, True) != FINE:
        return NO_MEMORY
    if field.plain == PLAIN_LONG or field.plain == PLAIN_WORD:
        (<uint64_t *>col.data)[col.count] = field.bits
    elif field.plain == PLAIN_BOOL:
        set_bit(col.data, col.count, field.bits != 0)
    else:
        (<uint32_t *>col.data)[col.count] = <uint32_t>field.bits
    col.count += 1
    return FINE


cdef int close_field(Pr *p, Pf *field, Py_ssize_t column, Py_ssize_t count, int level) noexcept:
    """End a message in a field."""
    cdef Col *col
    cdef int64_t micros
    cdef int overflow = 0
    if field.do == P_MESSAGE:
        return finish_message(p, p.tables + field.table, count, level)
    if field.do == P_MOMENT:
        col = p.r.cols + column
        micros = pyconsumer_times(field.seconds, 1000000, &overflow)
        if overflow or not pyconsumer_sum(micros, field.nanos // 1000, &micros):
            return BAD
        (<int64_t *>col.data)[col.count - 1] = micros
    return FINE


cdef int fill_field(Pr *p, Pf *field, int level) noexcept:
    """Fill in a field that is not there, and all that is in it."""
    cdef Col *col = p.r.cols + field.column
    cdef int result
    if field.absent == A_NULL:
        if col.null_bytes > MOST_FREE and not counts(p.r, col.null_bytes):
            return BAD
        return add_null(p.r, col)
    if field.absent == A_EMPTY:
        result = open_message(p, p.tables + field.table, level + 1)
        return result if result != FINE else close_field(p, field, field.column, col.count, level + 1)
    return add_default(p, field)


cdef int add_default(Pr *p, const Pf *field) noexcept:
    cdef Col *col = p.r.cols + field.column
    if field.absent != A_TEXT:
        return add_bits(p.r, col, field.bits)
    return add_bytes(p.r, col, field.text, field.size) if counts(p.r, field.size) else BAD


# -- maps --------------------------------------------------------------------------------------------------------------


cdef int add_entry(Pr *p, Pf *field) noexcept:
    """Keep the place of an entry."""
    cdef Reading *r = p.r
    cdef Py_ssize_t size = 0, room
    cdef void *made
    if not length_at(r, &size) or not counts(r, 64):
        return BAD
    if field.entry_count == field.entry_room:
        room = max(2 * field.entry_room, <Py_ssize_t>8)
        made = realloc(field.entries, room * sizeof(Entry))
        if made is NULL:
            return NO_MEMORY
        field.entries, field.entry_room = <Entry *>made, room
    field.entries[field.entry_count].at = r.at
    field.entries[field.entry_count].end = r.at + size
    field.entries[field.entry_count].place = field.entry_count
    field.entry_count += 1
    r.at += size
    return FINE


cdef int finish_map(Pr *p, Pf *field, int level) noexcept:
    """Append the entries of a map: of those with one key, the last one."""
    cdef Reading *r = p.r
    cdef const uint8_t *at = r.at
    cdef const uint8_t *end = r.end
    cdef const Table_ *table = p.tables + field.table
    cdef Pf *keys = p.fields + table.first
    cdef Py_ssize_t number, items, count = field.entry_count
    cdef int result
    if level >= MAX_LEVELS:
        return BAD
    field.entry_count = 0
    if count > 1 or keys[1].closed:
        result = choose_entries(p, field, keys, count, level)
        if result != FINE:
            return result
    else:
        field.entries[0].kept = True
    for number in range(count):
        r.at, r.end = field.entries[number].at, field.entries[number].end
        items = r.cols[keys.column].count + 1
        result = scan_message(p, table, items, 0, level)
        if result == FINE:
            result = finish_message(p, table, items, level)
        if result != FINE:
            return result
        if not field.entries[number].kept:
            truncate_to(r, r.cols + keys.column, items - 1)
            truncate_to(r, r.cols + field.items, items - 1)
    r.at, r.end = at, end
    free_entries(field)
    return FINE


cdef inline void free_entries(Pf *field) noexcept:
    """Give the memory of a large map back."""
    if field.entry_room > KEPT_ENTRIES:
        free(field.entries)
        field.entries = NULL
        field.entry_room = 0


cdef int choose_entries(Pr *p, Pf *field, Pf *keys, Py_ssize_t count, int level) noexcept:
    """Mark the entries that stay."""
    cdef Entry *entries = field.entries
    cdef Py_ssize_t number, known = 0
    cdef int result
    for number in range(count):
        result = read_key(p, keys, &entries[number], level)
        if result == FINE:
            entries[number].kept = True
            known += 1
        elif result == UNKNOWN:
            entries[number].kept = False
        else:
            return result
    # Those that are dropped come last. Of equal keys, the last one comes last.
    qsort(entries, <size_t>count, sizeof(Entry), compare_text if keys.absent == A_TEXT else compare_bits)
    for number in range(known - 1):
        if same_key(&entries[number], &entries[number + 1], keys.absent == A_TEXT):
            entries[number].kept = False
    qsort(entries, <size_t>count, sizeof(Entry), compare_places)
    return FINE


cdef int read_key(Pr *p, Pf *keys, Entry *entry, int level) noexcept:
    cdef Reading *r = p.r
    cdef uint32_t number = 0
    cdef int wire = 0, result
    cdef const uint8_t *start = NULL
    cdef Py_ssize_t size = 0
    cdef uint8_t[12] room
    r.at, r.end = entry.at, entry.end
    entry.key = keys.text
    entry.bits = <uint64_t>keys.size if keys.absent == A_TEXT else keys.bits
    while r.at < r.end:
        if not tag_at(r, &number, &wire) or wire == 4:
            return BAD
        if number == 1 and wire == keys.wire:
            if keys.absent == A_TEXT:
                if not length_at(r, &size):
                    return BAD
                entry.key, entry.bits = r.at, <uint64_t>size
                r.at += size
            else:
                result = bits_at(p, keys, &entry.bits)
                if result != FINE:
                    return result
        elif number == 2 and wire == 0 and keys[1].closed:
            result = name_at(p, &keys[1], &start, &size, room)
            if result != FINE:
                return result
        elif not skip_field(r, number, wire, level):
            return BAD
    return FINE


cdef bint same_key(const Entry *one, const Entry *other, bint is_text) noexcept nogil:
    if one.bits != other.bits:
        return False
    return not is_text or one.bits == 0 or memcmp(one.key, other.key, one.bits) == 0


cdef int compare_text(const void *one, const void *other) noexcept nogil:
    cdef const Entry *a = <const Entry *>one
    cdef const Entry *b = <const Entry *>other
    cdef int found
    if a.kept != b.kept:
        return -1 if a.kept else 1
    if a.bits != b.bits:
        return -1 if a.bits < b.bits else 1
    found = memcmp(a.key, b.key, a.bits) if a.bits else 0
    if found:
        return found
    return -1 if a.place < b.place else 1


cdef int compare_bits(const void *one, const void *other) noexcept nogil:
    cdef const Entry *a = <const Entry *>one
    cdef const Entry *b = <const Entry *>other
    if a.kept != b.kept:
        return -1 if a.kept else 1
    if a.bits != b.bits:
        return -1 if a.bits < b.bits else 1
    return -1 if a.place < b.place else 1


cdef int compare_places(const void *one, const void *other) noexcept nogil:
    return -1 if (<const Entry *>one).place < (<const Entry *>other).place else 1


# -- a whole value -----------------------------------------------------------------------------------------------------


cdef inline Pr reading_of(Reading *r, MessageProgram program) noexcept:
    """Return the state of a program for reading values."""
    cdef Pr p
    p.r, p.fields, p.slots, p.tables, p.which = r, program.fields, program.slots, program.tables, program.which
    return p


cdef int read_message(Pr *p, MessageProgram program) noexcept:
    """Append a value. After another result than FINE the columns must be truncated."""
    cdef Reading *r = p.r
    cdef int result
    cdef Py_ssize_t count
    if program.takes_first and r.at < r.end and r.at[0] == 0:
        r.at += 1
    elif program.path is not None:
        result = read_path(r, program)
        if result != FINE:
            return result
    if r.has_slack and read_in_order(p, program):
        return FINE
    result = open_message(p, p.tables, 0)
    if result == FINE:
        count = r.cols[0].count
        result = scan_message(p, p.tables, count, 0, 0)
        if result == FINE:
            result = finish_message(p, p.tables, count, 0)
    if result != FINE:
        program.forget_all()
    return result


cdef int read_path(Reading *r, MessageProgram program) noexcept:
    """Read the path of message indexes, and compare it with that of the program."""
    cdef Py_ssize_t expected = len(<tuple>program.path)
    cdef int64_t count = 0, number = 0
    cdef Py_ssize_t place = 0
    if not index_at(r, program.zigzag, &count) or count < 0 or count > 64:
        return BAD
    if count == 0:
        return FINE if expected == 0 or (expected == 1 and program.path[0] == 0) else BAD
    if expected and expected != count:
        return BAD
    while place < count:
        if not index_at(r, program.zigzag, &number) or number < 0:
            return BAD
        if expected and program.path[place] != number:
            return BAD
        place += 1
    return FINE


cdef bint index_at(Reading *r, bint zigzag, int64_t *number) noexcept nogil:
    cdef uint64_t found
    if not short_at(r, 0xFFFFFFFF, &found):
        return False
    number[0] = <int64_t>((found >> 1) ^ (0 - (found & 1))) if zigzag else <int64_t>found
    return True
