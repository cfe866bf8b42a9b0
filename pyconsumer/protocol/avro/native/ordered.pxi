# Messages of Protobuf whose fields come in the order of their numbers, as all common writers have them.
#
# Rules
#
# 1. The tag that comes is compared with that of the next field of the plan. Fields that were passed are filled in, so a
#    message is finished when its bytes are. Unknown fields are skipped at any place.
# 2. Whatever does not fit is not judged here: fields in another order or twice, equal keys in a map, errors. Then NULL
#    is returned, and the general reader of messages.pxi reads the whole value again, and gives the verdict.
# 3. If that happens, some values are given to the general reader at once: twice as many after each one that failed.
# 4. Only values with slack are read here. No byte is compared with the end before it is read, if that is at most SLACK
#    bytes away. That nothing was read beyond the end of a message is seen at its end.
# 5. ``row`` is the place of the message in its columns, for which ``ready`` holds (rule 2 of columns.pxi).
# 6. Types that are rare are read by the functions of messages.pxi, one field at a time.

cdef enum:
    # The ways to read a field of a slot.
    O_LONG = 0
    O_INT
    O_BOOL
    O_WORD
    O_HALF
    O_TEXT
    O_ENUM
    O_MESSAGE
    O_MESSAGES
    O_MAP
    O_OTHER

cdef enum:
    # The ways to fill in a field that is not there.
    F_NOTHING = 0
    F_WORD
    F_HALF
    F_BOOL
    F_TEXT
    F_NULL_WORD
    F_NULL_HALF
    F_NULL_TEXT
    F_LIST
    F_OTHER

cdef enum:
    FEW_ENTRIES = 8  # of a map, whose keys are compared one by one
    MOST_PASSED = 255


cdef struct Slot:
    uint32_t tag  # its bytes, the first one lowest
    uint32_t mask  # of the bytes that it has
    int32_t size
    int32_t way
    int32_t absent
    uint32_t number
    int32_t table
    Py_ssize_t column
    Py_ssize_t col  # the place of the column in bytes
    Py_ssize_t items


cdef extern from *:
    """
    /* The number of the field whose tag comes, 0 if there is none in five bytes. */
    static inline uint32_t pyconsumer_number_at(const uint8_t *at) {
        uint64_t tag;
        if (at[0] < 0x80) return at[0] >> 3;
        return pyconsumer_varint(at, at + 5, &tag) && tag <= UINT32_MAX ? (uint32_t)(tag >> 3) : 0;
    }

    static inline uint32_t pyconsumer_word_at(const uint8_t *at) {
        uint32_t word;
        put_little((uint8_t *)&word, at, 4);
        return word;
    }

    /* A number in varint, of which ten bytes can be read. Returns its end, NULL if it is none. */
    static inline const uint8_t *pyconsumer_varint_end(const uint8_t *at, uint64_t *number) {
        int length;
        if (at[0] < 0x80) {
            *number = at[0];
            return at + 1;
        }
        length = pyconsumer_varint(at, at + 10, number);
        return length ? at + length : NULL;
    }

    /* A length of at most five bytes. Returns its end, NULL if the bytes up to the end are fewer. */
    static inline const uint8_t *pyconsumer_size_end(const uint8_t *at, const uint8_t *end, int64_t *size) {
        uint64_t number;
        int length;
        if (at[0] < 0x80) {
            *size = at[0];
            at++;
        } else {
            length = pyconsumer_varint(at, at + 10, &number);
            if (length == 0 || length > 5 || number > 0x7FFFFFFF) return NULL;
            *size = (int64_t)number;
            at += length;
        }
        return *size <= end - at ? at : NULL;
    }
    """
    uint32_t pyconsumer_number_at(const uint8_t *at) noexcept nogil
    uint32_t pyconsumer_word_at(const uint8_t *at) noexcept nogil
    const uint8_t *pyconsumer_varint_end(const uint8_t *at, uint64_t *number) noexcept nogil
    const uint8_t *pyconsumer_size_end(const uint8_t *at, const uint8_t *end, int64_t *size) noexcept nogil


# -- the plan ----------------------------------------------------------------------------------------------------------


cdef int fill_slot_plan(Slot *slot, const Pf *field, list layout) except -1:
    """Find the ways of a field, which was checked."""
    cdef uint32_t tag = field.number << 3 | <uint32_t>field.wire
    cdef int place = 0
    slot.column, slot.items, slot.number, slot.table = field.column, field.items, field.number, <int32_t>field.table
    slot.col = field.column * <Py_ssize_t>sizeof(Col)
    slot.tag, slot.mask, slot.size = 0, 0, 0
    while True:
        if slot.size == 4:  # a longer tag never fits
            slot.tag, slot.mask = 1, 0
            break
        slot.mask |= <uint32_t>0xFF << 8 * slot.size
        slot.tag |= (tag & 0x7F | (0x80 if tag >= 0x80 else 0)) << 8 * slot.size
        slot.size += 1
        tag >>= 7
        if tag == 0:
            break
    slot.way = way_of_slot(field)
    slot.absent = absent_of_slot(field, layout)
    return 0


cdef int way_of_slot(const Pf *field) noexcept:
    if field.rule == MAPPED:
        return O_MAP
    if field.do == P_MESSAGE and field.wire == 2 and field.oneof < 0:
        return O_MESSAGES if field.rule == REPEATED else O_MESSAGE
    if field.rule == REPEATED or field.oneof >= 0:
        return O_OTHER
    if field.do == P_ENUM and field.dense and field.column >= 0:
        return O_ENUM
    if field.plain == PLAIN_LONG:
        return O_LONG
    if field.plain == PLAIN_INT:
        return O_INT
    if field.plain == PLAIN_BOOL:
        return O_BOOL
    if field.plain == PLAIN_WORD:
        return O_WORD
    if field.plain == PLAIN_HALF:
        return O_HALF
    return O_TEXT if field.plain == PLAIN_TEXT else O_OTHER


cdef int absent_of_slot(const Pf *field, list layout) except -1:
    if field.column < 0:
        return F_NOTHING
    if field.rule != SINGULAR:
        return F_LIST
    column = layout[field.column]
    kind = column.kind
    if field.absent == A_NULL:
        if column.null_bytes > MOST_FREE:
            return F_OTHER
        if kind == K_LONG or kind == K_DOUBLE:
            return F_NULL_WORD
        if kind == K_INT or kind == K_FLOAT:
            return F_NULL_HALF
        return F_NULL_TEXT if kind == K_BYTES else F_OTHER
    if field.absent == A_TEXT and field.size == 0 and field.do != P_WRAPPER:
        return F_TEXT
    if field.absent != A_NUMBER or field.plain == NOT_PLAIN:
        return F_OTHER
    if field.plain == PLAIN_BOOL:
        return F_BOOL
    return F_WORD if field.plain == PLAIN_LONG or field.plain == PLAIN_WORD else F_HALF


# -- messages ----------------------------------------------------------------------------------------------------------


cdef const uint8_t *read_ordered(
    Pr *p, const Table_ *table, Py_ssize_t row, const uint8_t *at, const uint8_t *end, int level
) noexcept:
    """Read the fields of a message, and fill in those that are missing. Return the end, or NULL (rule 2)."""
    cdef Reading *r = p.r
    cdef const Slot *slot = p.slots + table.first
    cdef const Slot *last = slot + table.many
    cdef char *cols = <char *>r.cols
    cdef Col *col
    cdef uint64_t found = 0
    cdef int64_t size = 0
    cdef int way
    while slot < last:
        if at >= end or pyconsumer_word_at(at) & slot.mask != slot.tag:
            if at >= end or pyconsumer_number_at(at) > slot.number:
                if fill_slot(p, slot, row, level) != FINE:
                    return NULL
                slot += 1
            else:
                at = pass_unknown(p, table, slot, at, end, level)
                if at is NULL:
                    return NULL
            continue
        at += slot.size
        col = <Col *>(cols + slot.col)
        way = slot.way
        if way == O_LONG:
            at = pyconsumer_varint_end(at, &found)
            (<uint64_t *>col.data)[row] = found
        elif way == O_INT:
            at = pyconsumer_varint_end(at, &found)
            (<uint32_t *>col.data)[row] = <uint32_t>found
        elif way == O_BOOL:
            at = pyconsumer_varint_end(at, &found)
            if at is NULL:
                return NULL
            col.data[row >> 3] |= <uint8_t>((found != 0) << (row & 7))
        elif way == O_WORD:
            put_little(<uint8_t *>&found, at, 8)
            (<uint64_t *>col.data)[row] = found
            at += 8
        elif way == O_HALF:
            (<uint32_t *>col.data)[row] = pyconsumer_word_at(at)
            at += 4
        elif way == O_TEXT:
            at = pyconsumer_size_end(at, end, &size)
            if at is NULL:
                return NULL
            if not pyconsumer_short_text(col.data + col.size, col.capacity - col.size, at, SLACK, size):
                if not append_text(r, col, at, size):
                    return NULL
            r.room -= size
            at += size
            col.size += size
            col.ends[row + 1] = <int32_t>col.size
        elif way == O_ENUM:
            at = read_name(p, slot, col, row, at, end)
        elif way == O_MESSAGE:
            at = pyconsumer_size_end(at, end, &size)
            if at is NULL or not begin_ordered(r, p.tables + slot.table, col, row, level + 1):
                return NULL
            at = read_ordered(p, p.tables + slot.table, row, at, at + size, level + 1)
        else:
            at = read_other(p, slot, row, at, end, level)
            if at is NULL:
                return NULL
            slot += 1
            continue
        if at is NULL:
            return NULL
        col.count = row + 1
        slot += 1
    if at < end:
        at = pass_unknown(p, table, NULL, at, end, level)
    for size in range(table.first_oneof, table.first_oneof + table.many_oneofs):
        p.which[size] = -1
    return at if at == end else NULL


cdef inline bint begin_ordered(Reading *r, const Table_ *table, Col *col, Py_ssize_t row, int level) noexcept:
    """Begin a message. Return False if that cannot be."""
    r.room -= table.counted
    if level >= MAX_LEVELS or r.room < 0:
        return False
    if row >= col.ready and make_ready(r, col, row) != FINE:
        return False
    col.count = row + 1
    return True


cdef bint append_text(Reading *r, Col *col, const uint8_t *at, int64_t size) noexcept:
    """Write a text behind those of a column, if it is UTF-8. The caller counts it."""
    if not pyconsumer_is_utf8(at, <size_t>size):
        return False
    if size > col.capacity - col.size and grow_text(r, col, size) != FINE:
        return False
    pyconsumer_copy(col.data + col.size, at, <size_t>size)
    return True


cdef const uint8_t *read_name(
    Pr *p, const Slot *slot, Col *col, Py_ssize_t row, const uint8_t *at, const uint8_t *end
) noexcept:
    """Read an enum. Unknown numbers go by the general function."""
    cdef const Pf *field = p.fields + (slot - p.slots)
    cdef Reading *r = p.r
    cdef const uint8_t *name
    cdef Py_ssize_t size
    if at[0] >= 0x80 or at[0] >= field.many:
        r.at, r.end = at, end
        return r.at if add_scalar(p, field, slot.column, row + 1, slot - p.slots) == FINE else NULL
    name = field.names + field.ends[at[0]]
    size = field.ends[at[0] + 1] - field.ends[at[0]]
    r.room -= size
    if not pyconsumer_short_text(col.data + col.size, col.capacity - col.size, name, SLACK, size):
        if not append_text(r, col, name, size):
            return NULL
    col.size += size
    col.ends[row + 1] = <int32_t>col.size
    return at + 1


cdef const uint8_t *read_other(
    Pr *p, const Slot *slot, Py_ssize_t row, const uint8_t *at, const uint8_t *end, int level
) noexcept:
    """Read a field that takes more than a few steps, and count it."""
    cdef Reading *r = p.r
    cdef Py_ssize_t place = slot - p.slots
    cdef Pf *field = p.fields + place
    if slot.way == O_MESSAGES:
        return read_messages(p, slot, row, at, end, level)
    if slot.way == O_MAP:
        return read_entries(p, slot, row, at, end, level)
    r.at, r.end = at, end
    if field.rule == REPEATED:
        while True:
            if scan_field(p, place, field.wire, row + 1, level) != FINE:
                return NULL
            if r.at >= end or pyconsumer_word_at(r.at) & slot.mask != slot.tag:
                break
            r.at += slot.size
        end_list(r, r.cols + field.column, r.cols + field.items)
        return r.at
    if field.oneof >= 0 and p.which[field.oneof] >= 0:  # another member was there
        return NULL
    if scan_field(p, place, field.wire, row + 1, level) != FINE:
        return NULL
    if field.do == P_MESSAGE or field.do == P_MOMENT:
        if close_field(p, field, field.column, row + 1, level + 1) != FINE:
            return NULL
    return r.at


cdef const uint8_t *read_messages(
    Pr *p, const Slot *slot, Py_ssize_t row, const uint8_t *at, const uint8_t *end, int level
) noexcept:
    """Read a list of messages."""
    cdef Reading *r = p.r
    cdef const Table_ *table = p.tables + slot.table
    cdef Col *col = r.cols + slot.column
    cdef Col *items = r.cols + slot.items
    cdef int64_t size = 0
    while True:
        at = pyconsumer_size_end(at, end, &size)
        if at is NULL:
            return NULL
        r.room -= 8
        if items.count >= col.ready and make_ready(r, col, items.count) != FINE:
            return NULL
        if not begin_ordered(r, table, items, items.count, level + 1):
            return NULL
        at = read_ordered(p, table, items.count - 1, at, at + size, level + 1)
        if at is NULL:
            return NULL
        if at >= end or pyconsumer_word_at(at) & slot.mask != slot.tag:
            break
        at += slot.size
    end_list(r, col, items)
    return at


cdef const uint8_t *read_entries(
    Pr *p, const Slot *slot, Py_ssize_t row, const uint8_t *at, const uint8_t *end, int level
) noexcept:
    """Read a map."""
    cdef Reading *r = p.r
    cdef Pf *field = p.fields + (slot - p.slots)
    cdef const Table_ *table = p.tables + slot.table
    cdef const Pf *keys = p.fields + table.first
    cdef Col *col = r.cols + slot.column
    cdef Col *items = r.cols + slot.items
    cdef Py_ssize_t number, count, before = items.count
    r.at, r.end = at, end
    while True:
        if add_entry(p, field) != FINE:
            return NULL
        if r.at >= end or pyconsumer_word_at(r.at) & slot.mask != slot.tag:
            break
        r.at += slot.size
    count, at = field.entry_count, r.at
    if count > FEW_ENTRIES or keys[1].closed or r.cols[keys.column].kind == K_BOOLEAN:
        if finish_map(p, field, level + 1) != FINE:
            return NULL
    else:
        field.entry_count = 0
        if level + 1 >= MAX_LEVELS:
            return NULL
        for number in range(count):
            if items.count >= col.ready and make_ready(r, col, items.count) != FINE:
                return NULL
            if read_ordered(
                p, table, items.count, field.entries[number].at, field.entries[number].end, level + 1
            ) is NULL:
                return NULL
        if count > 1 and has_equal_keys(r.cols + keys.column, before):
            return NULL
    end_list(r, col, items)
    return at


cdef bint has_equal_keys(const Col *keys, Py_ssize_t first) noexcept nogil:
    """Compare the last keys of a column, from the first of a map on, with each other."""
    cdef Py_ssize_t one, other, size = keys.width, start, begin
    for one in range(first + 1, keys.count):
        if keys.ends is not NULL:
            start, size = keys.ends[one], keys.ends[one + 1] - keys.ends[one]
        else:
            start = one * size
        for other in range(first, one):
            begin = other * size if keys.ends is NULL else keys.ends[other]
            if keys.ends is not NULL and keys.ends[other + 1] - begin != size:
                continue
            if size == 0 or memcmp(keys.data + start, keys.data + begin, size) == 0:
                return True
    return False


# -- missing fields --------------------------------------------------------------------------------------------------


cdef const uint8_t *pass_unknown(
    Pr *p, const Table_ *table, const Slot *slot, const uint8_t *at, const uint8_t *end, int level
) noexcept:
    """Skip unknown fields, up to one of a slot or behind it. A packed list in its place is read. Return the next one.

    Args:
        slot: the next one, NULL after the last one.
    """
    cdef Reading *r = p.r
    cdef uint32_t number = 0
    cdef int wire = 0
    r.at, r.end = at, end
    while r.at < end:
        at = r.at
        if not tag_at(r, &number, &wire) or wire == 4:
            return NULL
        if slot is not NULL and number >= slot.number:
            if number > slot.number:
                return at if number == pyconsumer_number_at(at) else NULL
            # Or else the tag is written or typed in another way.
            if wire != 2 or not is_packable(p.fields + (slot - p.slots)):
                return NULL
            if scan_packed(p, p.fields + (slot - p.slots)) != FINE:
                return NULL
        elif field_of(p, table, number) >= 0 or not skip_field(r, number, wire, level):
            return NULL
        at = r.at
        if at < end and slot is not NULL and pyconsumer_number_at(at) >= slot.number:
            return at
    return at


cdef inline int fill_slot(Pr *p, const Slot *slot, Py_ssize_t row, int level) noexcept:
    """Fill in a field that is not there."""
    cdef Reading *r = p.r
    cdef Col *col = r.cols + slot.column
    cdef int absent = slot.absent
    if absent == F_NOTHING:
        return FINE
    elif absent == F_OTHER:
        return fill_field(p, p.fields + (slot - p.slots), level)
    elif absent == F_LIST:
        end_list(r, col, r.cols + slot.items)
        return FINE
    elif absent == F_TEXT:
        col.ends[row + 1] = <int32_t>col.size
    elif absent == F_NULL_TEXT:
        set_null(col, row)
        col.ends[row + 1] = <int32_t>col.size
    elif absent == F_NULL_WORD:
        set_null(col, row)
        (<uint64_t *>col.data)[row] = 0
    elif absent == F_NULL_HALF:
        set_null(col, row)
        (<uint32_t *>col.data)[row] = 0
    elif absent == F_BOOL:
        set_bit(col.data, row, p.fields[slot - p.slots].bits != 0)
    elif absent == F_WORD:
        (<uint64_t *>col.data)[row] = p.fields[slot - p.slots].bits
    else:
        (<uint32_t *>col.data)[row] = <uint32_t>p.fields[slot - p.slots].bits
    col.count = row + 1
    return FINE


# -- a whole value -----------------------------------------------------------------------------------------------------


cdef bint read_in_order(Pr *p, MessageProgram program) noexcept:
    """Append a value whose fields are in order. Return False if it is to be read by the general reader."""
    cdef Reading *r = p.r
    cdef const uint8_t *at = r.at
    cdef const uint8_t *end = r.end
    cdef int64_t room = r.room
    cdef Py_ssize_t row = r.cols[0].count
    if program.to_pass:
        program.to_pass -= 1
        return False
    if next_of(r, r.cols, True) == FINE and begin_ordered(r, p.tables, r.cols, row, 0):
        r.at = read_ordered(p, p.tables, row, at, end, 0)
        if r.at is not NULL and r.room >= 0:
            r.end = end
            program.passed >>= 1
            return True
    program.forget_all()
    truncate_to(r, r.cols, row)
    r.at, r.end, r.room = at, end, room
    program.passed = min(2 * program.passed + 1, MOST_PASSED)
    program.to_pass = program.passed
    return False
