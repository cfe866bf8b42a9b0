# Values of Avro, appended to columns.

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


cdef int copy_text(Reading *r, Col *col, const uint8_t *start, Py_ssize_t size, bint is_text) noexcept:
    """Copy the bytes of any value behind the others. The caller counts them."""
    if is_text and not pyconsumer_is_utf8(start, <size_t>size):
        return BAD
    if size > col.capacity - col.size and grow_text(r, col, size) != FINE:
        return NO_MEMORY
    pyconsumer_copy(col.data + col.size, start, <size_t>size)
    return FINE


cdef inline int next_text(
    Reading *r, Col *col, const uint8_t **at, int64_t *room, Py_ssize_t count, bint is_text
) noexcept:
    """Append a text, or bytes, of a value with slack. The column has room for it, and has ``count`` values then.

    The length may be read at the end of the value, or a little behind it. The text is too long then.
    """
    cdef int64_t size = 0
    cdef const uint8_t *start = pyconsumer_length_end(at[0], &size)
    cdef int result
    if start is NULL or size < 0 or size > r.end - start:
        return BAD
    room[0] -= size
    if room[0] < 0:
        return BAD
    if not pyconsumer_short_text(col.data + col.size, col.capacity - col.size, start, SLACK, size):
        result = copy_text(r, col, start, size, is_text)
        if result != FINE:
            return result
    at[0] = start + size
    size += col.size
    col.size = size
    col.ends[count] = <int32_t>size
    return FINE


cdef int read_text(Reading *r, Col *col) noexcept:
    cdef int64_t size = 0
    cdef const uint8_t *start = NULL
    if not r.has_slack:
        if not sized_at(r, &start, &size) or not pyconsumer_is_utf8(start, <size_t>size):
            return BAD
        return add_bytes(r, col, start, <Py_ssize_t>size)
    return read_texts(r, NULL, col, 1, 0)


cdef int read_texts(Reading *r, Col *keys, Col *items, int64_t many, int64_t each) noexcept:
    """Append texts of a value with slack, each with a key if there are columns of these.

    Args:
        each: the bytes that each counts in addition to its own.
    """
    cdef const uint8_t *at = r.at
    cdef int64_t room = r.room
    cdef int result
    while many:
        many -= 1
        room -= each
        if room < 0:
            return BAD
        if keys is not NULL:
            if keys.count == keys.room and grow_column(r, keys) != FINE:
                return NO_MEMORY
            result = next_text(r, keys, &at, &room, keys.count + 1, True)
            if result != FINE:
                return result
            keys.count += 1
        if items.count == items.room and grow_column(r, items) != FINE:
            return NO_MEMORY
        result = next_text(r, items, &at, &room, items.count + 1, True)
        if result != FINE:
            return result
        items.count += 1
    r.at, r.room = at, room
    return FINE


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


cdef inline bint has_fields(Reading *r, const Do *step, int level) noexcept nogil:
    """Return whether :func:`read_fields` may read a record at this level."""
    return r.has_slack and step.first >= 0 and level + step.deepest < MAX_LEVELS


cdef int read_record(Reading *r, const Do *step, int level) noexcept:
    cdef Col *col = r.cols + step.column
    cdef const int32_t *link = r.links + step.a
    cdef const int32_t *last = link + step.b
    cdef int result
    if has_fields(r, step, level):
        return read_fields(r, step, NULL, 1, 0, level + 1)
    if level >= MAX_LEVELS or not counts(r, step.c):
        return BAD
    if next_of(r, col, True) != FINE:
        return NO_MEMORY
    col.count += 1
    while link < last:
        result = read_step(r, r.steps + link[0], level + 1)
        if result != FINE:
            return result
        link += 1
    return FINE


cdef int read_fields(
    Reading *r, const Do *record, Rows *rows, int64_t many, int64_t each, int level
) noexcept:
    """Append records. Most of their fields are read here, without a call for each.

    The value has slack: a number is read without a look at the end. That it was beyond the end is seen by the next
    field, or by the end of the value.

    Args:
        record: the step of the records, for which ``has_fields`` is true.
        rows: if they are not items of a value, but values. Then it is up to them how many there are.
        many: how many items there are.
        each: the bytes that each counts in addition to its own.
        level: that of the fields.
    """
    cdef const uint8_t *at = r.at
    cdef const uint8_t *end = r.end
    cdef const Field *first = r.fields + record.first
    cdef const Field *field
    cdef const Field *now
    cdef uint8_t *cols = <uint8_t *>r.cols
    cdef Col *whole = r.cols + record.column
    cdef Col *col
    cdef int64_t number = 0
    cdef int64_t room = r.room
    cdef Py_ssize_t row, count = whole.count, byte
    cdef uint8_t bit
    cdef int way, result
    while True:
        if rows is NULL:
            if many == 0:
                break
            many -= 1
        elif begins_row(r, rows):
            at, end, room = r.at, r.end, r.room
        else:
            return FINE
        room -= each + record.cost
        if room < 0:
            return BAD
        if count == whole.room and grow_column(r, whole) != FINE:
            return NO_MEMORY
        if count >= whole.ready and make_ready(r, whole, count) != FINE:
            return NO_MEMORY
        row, byte, bit = count, count >> 3, <uint8_t>(1 << (count & 7))
        count += 1
        whole.count = count
        field = first
        while True:
            now = field
            field += 1
            way = now.way
            if way == BY_UNION:
                if at >= end:
                    return BAD
                at = pyconsumer_length_end(at, &number)
                if at is NULL or number < 0 or number >= now.size:
                    return BAD
                now = <const Field *>now.of + number
                way = now.way
            col = <Col *>(cols + now.place)
            # All of them are here, so that the compiler makes one jump of it.
            if way == BY_TEXT or way == BY_BYTES:
                result = next_text(r, col, &at, &room, count, way == BY_TEXT)
                if result != FINE:
                    return result
            elif way == BY_LONG:
                if at >= end:
                    return BAD
                at = pyconsumer_number_end(at, &number)
                if at is NULL:
                    return BAD
                (<int64_t *>col.data)[row] = number
            elif way == BY_INT:
                if at >= end:
                    return BAD
                at = pyconsumer_number_end(at, &number)
                if at is NULL or number != <int32_t>number:
                    return BAD
                (<int32_t *>col.data)[row] = <int32_t>number
            elif way == BY_ENUM:
                if at >= end:
                    return BAD
                at = pyconsumer_length_end(at, &number)
                if at is NULL or number < 0 or number >= now.size:
                    return BAD
                result = (<const int32_t *>now.of)[number]
                if result < 0:
                    return BAD
                (<int32_t *>col.data)[row] = result
            elif way == BY_DOUBLE:
                if at >= end:
                    return BAD
                put_little(col.data + 8 * row, at, 8)
                at += 8
            elif way == BY_FLOAT:
                if at >= end:
                    return BAD
                put_little(col.data + 4 * row, at, 4)
                at += 4
            elif way == BY_BOOLEAN:
                if at >= end or at[0] > 1:
                    return BAD
                if at[0]:
                    col.data[byte] |= bit
                at += 1
            elif way == BY_NULL_TEXT:
                room -= now.cost
                if room < 0:
                    return BAD
                col.valid[byte] &= <uint8_t>~bit
                col.ends[count] = <int32_t>col.size
            elif way == BY_NULL_8:
                room -= now.cost
                if room < 0:
                    return BAD
                col.valid[byte] &= <uint8_t>~bit
                (<uint64_t *>col.data)[row] = 0
            elif way == BY_NULL_4:
                room -= now.cost
                if room < 0:
                    return BAD
                col.valid[byte] &= <uint8_t>~bit
                (<uint32_t *>col.data)[row] = 0
            elif way == BY_NULL:
                room -= now.cost
                if room < 0:
                    return BAD
                if add_null(r, col) != FINE:
                    return NO_MEMORY
                continue
            elif way == BY_RECORD:
                pass  # its fields come next
            elif way == BY_ITEMS or way == BY_STEP:
                if at > end:
                    return BAD
                r.at, r.room = at, room
                if way == BY_ITEMS:
                    result = read_items(r, now.step, level + now.depth)
                else:
                    result = read_step(r, now.step, level + now.depth)
                if result != FINE:
                    return result
                at, room = r.at, r.room
                continue
            elif way == BY_END:
                break
            else:
                pyconsumer_unreachable()
            col.count = count
        if rows is not NULL:
            if at != end:
                return BAD
            ends_row(r, rows, room)
    r.at, r.room = at, room
    return FINE


cdef inline void set_null(Col *col, Py_ssize_t row) noexcept nogil:
    if col.valid is not NULL:
        col.valid[row >> 3] &= <uint8_t>~(1 << (row & 7))


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
    cdef int64_t count = 0, size = 0, each = 8
    cdef int result
    if level >= MAX_LEVELS or not counts(r, 64):
        return BAD
    if next_of(r, col, True) != FINE:
        return NO_MEMORY
    if step.do == D_MAP:
        keys = r.cols + r.children[col.first]
        each = 64
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
        result = FINE
        if item.do == D_TEXT and r.has_slack:
            result = read_texts(r, keys, r.cols + item.column, count, each)
            count = 0
        elif item.do == D_RECORD and keys is NULL and has_fields(r, item, level + 1):
            result = read_fields(r, item, NULL, count, each, level + 2)
            count = 0
        if result != FINE:
            return result
        while count:
            count -= 1
            if not counts(r, each):
                return BAD
            if keys is not NULL:
                result = read_text(r, keys)
                if result != FINE:
                    return result
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
