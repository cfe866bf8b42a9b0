# The decoder: bytes in, objects out.

cdef struct Bytes:
    const uint8_t *at
    const uint8_t *end
    int64_t room  # bytes that the value may still have, decoded


#: For values of more bytes, as data or decoded, the twin is not asked for the message: it would take seconds.
cdef int64_t TWIN_BYTES = 65536
cdef int64_t DAY_MICROS = 86400000000
cdef object utc = UTC
cdef object safe_unknown = SafeUUID.unknown
cdef object new_uuid = UUID.__new__
cdef object set_slot = object.__setattr__
cdef object from_bytes = int.from_bytes


cdef int64_t long_number(Bytes *data) except? -1:
    """Read a number of more than two bytes."""
    cdef uint64_t number = 0, byte
    cdef int shift = 0
    while data.at < data.end:
        byte = data.at[0]
        data.at += 1
        if shift == 63 and byte > 1:
            refuse()
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return <int64_t>((number >> 1) ^ (0 - (number & 1)))
        shift += 7
    refuse()


cdef inline int64_t number_of(Bytes *data) except? -1:
    cdef uint64_t number
    if data.at < data.end and data.at[0] < 0x80:
        number = data.at[0]
        data.at += 1
        return <int64_t>((number >> 1) ^ (0 - (number & 1)))
    if data.end - data.at > 1 and data.at[1] < 0x80:
        number = (data.at[0] & 0x7F) | <uint64_t>data.at[1] << 7
        data.at += 2
        return <int64_t>((number >> 1) ^ (0 - (number & 1)))
    return long_number(data)


cdef inline int64_t int_of(Bytes *data) except? -1:
    cdef int64_t number = number_of(data)
    if number < INT32_MIN or number > INT32_MAX:
        refuse()
    return number


cdef inline const uint8_t *taken(Bytes *data, int64_t size) except NULL:
    """Go past bytes, and return where they begin."""
    cdef const uint8_t *start = data.at
    if size < 0 or size > data.end - start:
        refuse()
    data.at = start + size
    return start


cdef inline int charge(Bytes *data, int64_t size) except -1:
    data.room -= size
    if data.room < 0:
        refuse()
    return 0


cdef inline int64_t block_of(Bytes *data, const uint8_t **end) except -1:
    """Return the number of items in the next block, and its end, NULL if it is not known."""
    cdef int64_t count = number_of(data), size
    end[0] = NULL
    if count >= 0:
        return count
    size = number_of(data)
    if size < 0 or size > data.end - data.at:
        refuse()
    end[0] = data.at + size
    # As an unsigned number, since the smallest has no counterpart. So many items never fit.
    return -count if count != INT64_MIN else -(count + 1)


cdef inline object text_of(Bytes *data):
    cdef int64_t size = number_of(data)
    cdef const uint8_t *start = taken(data, size)
    charge(data, size)
    return PyUnicode_DecodeUTF8(<const char *>start, <Py_ssize_t>size, NULL)


cdef inline object bytes_of(Bytes *data, int64_t size):
    cdef const uint8_t *start = taken(data, size)
    charge(data, size)
    return PyBytes_FromStringAndSize(<const char *>start, <Py_ssize_t>size)


cdef inline double float_of(Bytes *data) except? -1.0:
    cdef const uint8_t *start = taken(data, 4)
    cdef uint8_t[4] little
    cdef float found
    put_little(little, start, 4)
    memcpy(&found, little, 4)
    return found


cdef inline double double_of(Bytes *data) except? -1.0:
    cdef const uint8_t *start = taken(data, 8)
    cdef uint8_t[8] little
    cdef double found
    put_little(little, start, 8)
    memcpy(&found, little, 8)
    return found


cdef extern from *:
    """
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    static void put_little(unsigned char *to, const unsigned char *from, int size) {
        for (int i = 0; i < size; i++) to[i] = from[size - 1 - i];
    }
    #else
    #define put_little(to, from, size) memcpy(to, from, size)
    #endif
    """
    void put_little(uint8_t *to, const uint8_t *source, int size) noexcept nogil


# -- dates -----------------------------------------------------------------------------------------------------------

cdef struct Civil:
    int year
    int month
    int day


cdef int civil_of(int64_t days, Civil *found) except -1:
    """Find the date of a day since 1970, by eras of 400 years. Refuse one that Python's ``date`` cannot hold."""
    cdef int64_t era, of_era, year, of_year, month
    if days < -719162 or days > 2932896:  # 0001-01-01 to 9999-12-31
        refuse()
    days += 719468  # since 0000-03-01
    era = days // 146097
    of_era = days - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    found.day = <int>(of_year - (153 * month + 2) // 5 + 1)
    found.month = <int>(month + 3 if month < 10 else month - 9)
    found.year = <int>(year + era * 400 + (1 if month >= 10 else 0))
    return 0


cdef object date_of(int64_t days):
    cdef Civil civil
    civil_of(days, &civil)
    return date_new(civil.year, civil.month, civil.day)


cdef object time_of(int64_t number, int64_t factor):
    cdef int64_t seconds
    if number < 0 or number >= DAY_MICROS // factor:
        refuse()
    number *= factor
    seconds = number // 1000000
    return time_new(
        <int>(seconds // 3600), <int>(seconds // 60 % 60), <int>(seconds % 60), <int>(number % 1000000), None
    )


cdef object timestamp_of(int64_t number, int64_t units, bint is_instant):
    cdef Civil civil
    cdef int64_t day_units = 86400 * units, days, rest, seconds, micros
    days = number // day_units
    rest = number - days * day_units
    if rest < 0:  # C rounds to zero
        rest += day_units
        days -= 1
    civil_of(days, &civil)
    seconds = rest // units
    micros = (rest - seconds * units) * (1000000 // units)
    return datetime_new(
        civil.year,
        civil.month,
        civil.day,
        <int>(seconds // 3600),
        <int>(seconds // 60 % 60),
        <int>(seconds % 60),
        <int>micros,
        utc if is_instant else None,
    )


# -- other logical types -----------------------------------------------------------------------------------------------


cdef object decimal_value(Bytes *data, Node *node):
    found = bytes_of(data, number_of(data) if node.a < 0 else node.a)
    return decimal_of(found, node.b, node.c)


cdef inline int digit_of(uint8_t letter) except -1:
    if 48 <= letter <= 57:
        return letter - 48
    letter |= 0x20
    if 97 <= letter <= 102:
        return letter - 87
    refuse()


cdef object uuid_text(Bytes *data):
    cdef int64_t size = number_of(data)
    cdef const uint8_t *start = taken(data, size)
    cdef uint8_t[16] found
    cdef int place = 0, at
    charge(data, size)
    if size != 36:
        refuse()
    for at in range(0, 16):
        if place == 8 or place == 13 or place == 18 or place == 23:
            if start[place] != 45:
                refuse()
            place += 1
        found[at] = <uint8_t>(digit_of(start[place]) << 4 | digit_of(start[place + 1]))
        place += 2
    return uuid_of(found)


cdef object uuid_of(const uint8_t *data):
    """Make a UUID of 16 bytes, without the checks of its class, which cost more than all else."""
    made = new_uuid(UUID)
    set_slot(made, "int", from_bytes(PyBytes_FromStringAndSize(<const char *>data, 16), "big"))
    set_slot(made, "is_safe", safe_unknown)
    return made


cdef inline unsigned long little_word(const uint8_t *at) noexcept:
    return <unsigned long>at[0] | <unsigned long>at[1] << 8 | <unsigned long>at[2] << 16 | <unsigned long>at[3] << 24


cdef object duration_of(Bytes *data):
    cdef const uint8_t *start = taken(data, 12)
    charge(data, 12)
    return AvroDuration(little_word(start), little_word(start + 4), little_word(start + 8))


# -- the walk ----------------------------------------------------------------------------------------------------------


@cython.no_gc_clear
cdef class Decoder(Table):
    """See ``_pure.Decoder``."""

    cdef int64_t most

    def __init__(self, plan, max_decoded_bytes=MAX_DECODED_BYTES):
        self.most = max_decoded_bytes

    def decode(self, data, Py_ssize_t start=0):
        """Return the value that begins at an index and ends with the bytes.

        Raises:
            AvroDecodeError: the bytes are no value of the plan.
        """
        cdef Bytes bytes_left
        cdef Py_ssize_t number
        cdef bytes whole = data if type(data) is bytes else bytes(data)
        if not 0 <= start <= PyBytes_GET_SIZE(whole):
            raise ValueError(f"there is no byte {start}")
        bytes_left.at = <const uint8_t *>PyBytes_AS_STRING(whole) + start
        bytes_left.end = <const uint8_t *>PyBytes_AS_STRING(whole) + PyBytes_GET_SIZE(whole)
        bytes_left.room = self.most
        try:
            found = self.read(&bytes_left, self.nodes, 0)
            if bytes_left.at == bytes_left.end:
                return found
        except (Refused, ValueError, OverflowError):
            if bytes_left.room < 0:
                raise too_large(self.most) from None
        if PyBytes_GET_SIZE(whole) - start > TWIN_BYTES or self.most - bytes_left.room > TWIN_BYTES:
            number = bytes_left.at - <const uint8_t *>PyBytes_AS_STRING(whole)
            raise AvroDecodeError(
                f"the value is not that of the schema from byte {number} of {PyBytes_GET_SIZE(whole)} on. It is too"
                " large to look for the place in it"
            )
        return _pure.Decoder(self.plan, self.most).decode(whole, start)

    cdef object read(self, Bytes *data, Node *node, int level):
        cdef int op = node.op
        cdef int64_t number
        cdef const uint8_t *start
        if op == STRING:
            return text_of(data)
        if op == LONG:
            return PyLong_FromLongLong(number_of(data))
        if op == INT:
            return PyLong_FromLongLong(int_of(data))
        if op == UNION:
            number = number_of(data)
            if number < 0 or number >= node.b:
                refuse()
            node = self.nodes + self.links[node.a + number].node
            if node.op == NULL_:
                return None
            return self.read(data, node, level)
        if op == DOUBLE:
            return PyFloat_FromDouble(double_of(data))
        if op == BOOLEAN:
            start = taken(data, 1)
            if start[0] > 1:
                refuse()
            return start[0] == 1
        if op == RECORD:
            return self.record(data, node, level)
        if op == ENUM:
            number = int_of(data)
            if number < 0 or number >= len(<tuple>node.of):
                refuse()
            found = (<tuple>node.of)[number]
            return refuse() if found is None else found
        if op == NULL_:
            return None
        if op == FLOAT:
            return PyFloat_FromDouble(float_of(data))
        if op == TIMESTAMP:
            return timestamp_of(number_of(data) if node.c else int_of(data), node.a, node.b != 0)
        if op == BYTES:
            return bytes_of(data, number_of(data))
        if op == FIXED:
            return bytes_of(data, node.a)
        if op == ARRAY:
            return self.array(data, node, level)
        if op == MAP:
            return self.map(data, node, level)
        if op == DECIMAL:
            return decimal_value(data, node)
        if op == DATE:
            return date_of(int_of(data))
        if op == TIME_MILLIS:
            return time_of(int_of(data), 1000)
        if op == TIME_MICROS:
            return time_of(number_of(data) if node.c else int_of(data), 1)
        if op == UUID_TEXT:
            return uuid_text(data)
        if op == UUID_FIXED:
            start = taken(data, 16)
            charge(data, 16)
            return uuid_of(start)
        if op == DURATION:
            return duration_of(data)
        if op == AS_DOUBLE:
            return PyFloat_FromDouble(<double>(number_of(data) if node.c else int_of(data)))
        if op == AS_FLOAT:
            # By way of double, as the twin does: the two roundings are part of the verdict.
            return PyFloat_FromDouble(<float><double>(number_of(data) if node.c else int_of(data)))
        if op == NAMED:
            return <object>node.of, self.read(data, self.nodes + node.a, level)
        if op == DEFAULT:
            return self.default_of(data, node, level)
        return refuse()

    cdef object default_of(self, Bytes *data, Node *node, int level):
        cdef Bytes inner
        cdef bytes held = <bytes>node.of
        inner.at = <const uint8_t *>PyBytes_AS_STRING(held)
        inner.end = inner.at + PyBytes_GET_SIZE(held)
        inner.room = data.room
        try:
            return self.read(&inner, self.nodes + node.a, level)
        finally:
            data.room = inner.room

    cdef object record(self, Bytes *data, Node *node, int level):
        cdef Link *link = self.links + node.a
        cdef Link *end = link + node.b
        if level >= MAX_LEVELS:
            refuse()
        level += 1
        charge(data, 64 + 8 * node.c)
        found = PyDict_Copy(<dict>node.of)
        while link < end:
            if link.key is NULL:
                self.skip(data, self.nodes + link.node, level)
            else:
                PyDict_SetItem(found, <object>link.key, self.read(data, self.nodes + link.node, level))
            link += 1
        return found

    cdef list array(self, Bytes *data, Node *node, int level):
        cdef list found = []
        cdef const uint8_t *end
        cdef int64_t count
        cdef Node *item = self.nodes + node.a
        if level >= MAX_LEVELS:
            refuse()
        level += 1
        charge(data, 64)
        while True:
            count = block_of(data, &end)
            if count == 0:
                if end is not NULL and data.at != end:
                    refuse()
                return found
            while count:
                count -= 1
                charge(data, 8)
                PyList_Append(found, self.read(data, item, level))
            if end is not NULL and data.at != end:
                refuse()

    cdef dict map(self, Bytes *data, Node *node, int level):
        cdef dict found = {}
        cdef const uint8_t *end
        cdef int64_t count
        cdef Node *item = self.nodes + node.a
        if level >= MAX_LEVELS:
            refuse()
        level += 1
        charge(data, 64)
        while True:
            count = block_of(data, &end)
            if count == 0:
                if end is not NULL and data.at != end:
                    refuse()
                return found
            while count:
                count -= 1
                charge(data, 64)
                key = text_of(data)
                PyDict_SetItem(found, key, self.read(data, item, level))
            if end is not NULL and data.at != end:
                refuse()

    cdef int skip(self, Bytes *data, Node *node, int level) except -1:
        """Go past a value, with the checks of the twin."""
        cdef int op = node.op
        cdef int64_t number
        cdef Link *link
        cdef Link *end
        if op == INT or op == DATE or op == TIME_MILLIS:
            int_of(data)
        elif op == LONG:
            number_of(data)
        elif op == AS_FLOAT or op == AS_DOUBLE or op == TIMESTAMP or op == TIME_MICROS:
            if node.c:
                number_of(data)
            else:
                int_of(data)
        elif op == STRING or op == BYTES or op == UUID_TEXT or (op == DECIMAL and node.a < 0):
            taken(data, number_of(data))
        elif op == FLOAT:
            taken(data, 4)
        elif op == DOUBLE:
            taken(data, 8)
        elif op == FIXED or op == DECIMAL or op == UUID_FIXED or op == DURATION:
            taken(data, node.a)
        elif op == UNION:
            number = number_of(data)
            if number < 0 or number >= node.b:
                refuse()
            self.skip(data, self.nodes + self.links[node.a + number].node, level)
        elif op == NULL_:
            pass
        elif op == BOOLEAN:
            if taken(data, 1)[0] > 1:
                refuse()
        elif op == ENUM:
            self.read(data, node, level)
        elif op == NAMED:
            self.skip(data, self.nodes + node.a, level)
        elif level >= MAX_LEVELS:
            refuse()
        elif op == RECORD:
            charge(data, 64 + 8 * node.c)
            link = self.links + node.a
            end = link + node.b
            while link < end:
                self.skip(data, self.nodes + link.node, level + 1)
                link += 1
        elif op == ARRAY or op == MAP:
            self.skip_items(data, node, level + 1)
        else:
            refuse()
        return 0

    cdef int skip_items(self, Bytes *data, Node *node, int level) except -1:
        cdef const uint8_t *end
        cdef int64_t count
        charge(data, 64)
        while True:
            count = block_of(data, &end)
            if end is not NULL:
                data.at = end
            if count == 0:
                return 0
            if end is not NULL:
                continue
            while count:
                count -= 1
                if node.op == MAP:
                    charge(data, 64)
                    taken(data, number_of(data))
                else:
                    charge(data, 8)
                self.skip(data, self.nodes + node.a, level)


cdef class PrefixDecoder:
    """See ``_pure.PrefixDecoder``."""

    cdef dict decoders
    cdef object other

    def __init__(self, dict decoders not None, other):
        self.decoders = decoders
        self.other = other

    def __call__(self, record, data):
        """Return the value of some bytes of a record."""
        cdef const uint8_t *start
        cdef unsigned long number
        if type(data) is bytes and PyBytes_GET_SIZE(data) > 4 and self.decoders is not None:
            start = <const uint8_t *>PyBytes_AS_STRING(data)
            if start[0] == 0 and not record.headers:
                number = <unsigned long>start[1] << 24 | start[2] << 16 | start[3] << 8 | start[4]
                decoder = self.decoders.get(number)
                if type(decoder) is Decoder:
                    try:
                        return (<Decoder>decoder).decode(data, 5)
                    except AvroDecodeError as error:
                        raise AvroDecodeError(f"the schema {number}: {error}") from None
        return self.other(record, data)

    def __reduce__(self):
        return not_copied(self)
