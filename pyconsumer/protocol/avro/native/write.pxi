# The encoder: objects in, bytes out.

cdef struct Output:
    char *start
    Py_ssize_t size
    Py_ssize_t room


cdef int grow(Output *out, Py_ssize_t more) except -1:
    cdef Py_ssize_t room = out.room * 2
    cdef char *start
    if more > (<Py_ssize_t>1 << 62) - out.size:
        raise MemoryError()
    if room < out.size + more:
        room = out.size + more
    start = <char *>PyMem_Realloc(out.start, room)
    if start is NULL:
        raise MemoryError()
    out.start = start
    out.room = room
    return 0


cdef inline int put(Output *out, const char *data, Py_ssize_t size) except -1:
    if out.room - out.size < size:
        grow(out, size)
    memcpy(out.start + out.size, data, size)
    out.size += size
    return 0


cdef inline int put_long(Output *out, int64_t value) except -1:
    cdef uint64_t number = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    if out.room - out.size < 10:
        grow(out, 10)
    while number > 0x7F:
        out.start[out.size] = <char>(number & 0x7F | 0x80)
        out.size += 1
        number >>= 7
    out.start[out.size] = <char>number
    out.size += 1
    return 0


cdef inline int put_text(Output *out, value) except -1:
    cdef Py_ssize_t size
    cdef const char *data
    if not isinstance(value, str):
        refuse()
    data = PyUnicode_AsUTF8AndSize(value, &size)
    put_long(out, size)
    put(out, data, size)
    return 0


cdef inline bytes data_of(value):
    if type(value) is bytes:
        return <bytes>value
    if not isinstance(value, (bytes, bytearray, memoryview)):
        refuse()
    return bytes(value)


cdef inline int put_bytes(Output *out, bytes data) except -1:
    put_long(out, PyBytes_GET_SIZE(data))
    put(out, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return 0


cdef inline int put_fixed(Output *out, value, Py_ssize_t size) except -1:
    cdef bytes data = data_of(value)
    if PyBytes_GET_SIZE(data) != size:
        refuse()
    put(out, PyBytes_AS_STRING(data), size)
    return 0


cdef inline int put_whole(Output *out, value, bint is_long) except -1:
    cdef int64_t number = value if type(value) is int else index_of(value)
    if not is_long and (number < INT32_MIN or number > INT32_MAX):
        refuse()
    put_long(out, number)
    return 0


cdef inline int put_real(Output *out, value, bint is_double) except -1:
    cdef double number = PyFloat_AsDouble(value)
    cdef float small
    cdef uint8_t[8] data
    if is_double:
        put_little(data, <const uint8_t *>&number, 8)
        put(out, <const char *>data, 8)
    else:
        small = <float>number
        if (small - small) != 0 and (number - number) == 0:  # it became infinite
            refuse()
        put_little(data, <const uint8_t *>&small, 4)
        put(out, <const char *>data, 4)
    return 0


cdef int put_decimal(Output *out, Node *node, value) except -1:
    cdef bytes data
    if isinstance(value, (Decimal, int)):
        data = decimal_bytes(value, node.a, node.b, node.c)
    else:
        data = data_of(value)
        decimal_of(data, node.b, node.c)
    if node.a < 0:
        put_bytes(out, data)
    else:
        put_fixed(out, data, node.a)
    return 0


cdef inline int64_t micros_of_time(value) except? -1:
    return ((<int64_t>value.hour * 60 + <int64_t>value.minute) * 60 + <int64_t>value.second) * 1000000 + (
        <int64_t>value.microsecond
    )


cdef int64_t micros_without_zone(value) except? -1:
    if value.tzinfo is not None:
        refuse()
    return micros_of_time(value)


cdef int64_t days_of(value) except? -1:
    return <int64_t>value.toordinal() - 719163


cdef int put_timestamp(Output *out, Node *node, value) except -1:
    cdef int64_t micros, units, found
    if not isinstance(value, datetime):
        return put_whole(out, value, True)
    if node.b == 0 or value.tzinfo is utc:
        micros = days_of(value) * DAY_MICROS + micros_of_time(value)
    else:
        micros = micros_of(value, is_instant=True)
    units = 1000000 // node.a
    found = micros // units
    if found * units > micros:  # C rounds to zero
        found -= 1
    return put_long(out, found)


cdef object ABSENT = object()


cdef bint is_data(value, Py_ssize_t size) except -1:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        return False
    return size < 0 or len(bytes(value)) == size


@cython.no_gc_clear
cdef class Encoder(Table):
    """See ``_pure.Encoder``."""

    cdef list names  # of the records among the nodes

    def __cinit__(self, plan):
        check_writes(plan)
        self.names = [node[4][0] if node[0] == RECORD else None for node in plan.nodes]

    def encode(self, value, bytes prefix not None=b""):
        """Return the bytes of a value, after a prefix.

        Raises:
            AvroEncodeError: the value does not fit the schema.
        """
        cdef Output out
        out.size, out.room = 0, 512
        out.start = <char *>PyMem_Malloc(out.room)
        if out.start is NULL:
            raise MemoryError()
        try:
            put(&out, PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix))
            self.write(&out, self.nodes, value, 0)
            return PyBytes_FromStringAndSize(out.start, out.size)
        except (Refused, _pure.RefusedError, ValueError, TypeError, OverflowError):
            pass
        finally:
            PyMem_Free(out.start)
        return _pure.Encoder(self.plan).encode(value, prefix)

    def matches(self, value, Py_ssize_t number=0):
        """Return whether a value is one of a node's type, as the choice of a union's branch needs to know."""
        return bool(self.match(self.nodes + self.checked(number, self.node_count), value, 0, {}))

    cdef int write(self, Output *out, Node *node, value, int level) except -1:
        cdef int op = node.op
        if op == STRING:
            return put_text(out, value)
        if op == LONG:
            return put_whole(out, value, True)
        if op == INT:
            return put_whole(out, value, False)
        if op == UNION:
            return self.write_union(out, node, value, level)
        if op == DOUBLE:
            return put_real(out, value, True)
        if op == BOOLEAN:
            if value is not True and value is not False:
                refuse()
            return put(out, b"\1" if value is True else b"\0", 1)
        if op == RECORD:
            return self.write_record(out, node, value, level)
        if op == NULL_:
            if value is not None:
                refuse()
            return 0
        if op == ENUM:
            return self.write_enum(out, node, value)
        if op == FLOAT:
            return put_real(out, value, False)
        if op == BYTES:
            return put_bytes(out, data_of(value))
        if op == FIXED:
            return put_fixed(out, value, node.a)
        if op == ARRAY:
            return self.write_array(out, node, value, level)
        if op == MAP:
            return self.write_map(out, node, value, level)
        return self.write_logical(out, node, value)

    cdef int write_logical(self, Output *out, Node *node, value) except -1:
        cdef int op = node.op
        if op == TIMESTAMP:
            return put_timestamp(out, node, value)
        if op == DATE:
            return put_long(out, days_of(value)) if isinstance(value, date) else put_whole(out, value, False)
        if op == TIME_MILLIS:
            if isinstance(value, time):
                return put_long(out, micros_without_zone(value) // 1000)
            return put_whole(out, value, False)
        if op == TIME_MICROS:
            return put_long(out, micros_without_zone(value)) if isinstance(value, time) else put_whole(out, value, True)
        if op == DECIMAL:
            return put_decimal(out, node, value)
        if op == UUID_TEXT:
            return put_text(out, str(value) if isinstance(value, UUID) else value)
        if op == UUID_FIXED:
            return put_fixed(out, value.bytes if isinstance(value, UUID) else value, 16)
        if op == DURATION:
            return put_fixed(out, duration_bytes(value), 12)
        refuse()

    cdef int write_enum(self, Output *out, Node *node, value) except -1:
        cdef tuple symbols = <tuple>node.of
        cdef Py_ssize_t place
        if not isinstance(value, str):
            refuse()
        for place in range(len(symbols)):
            if symbols[place] is value:
                return put_long(out, place)
        for place in range(len(symbols)):
            if symbols[place] == value:
                return put_long(out, place)
        refuse()

    cdef int write_record(self, Output *out, Node *node, value, int level) except -1:
        cdef Link *link = self.links + node.a
        cdef Link *end = link + node.b
        cdef PyObject *found
        cdef bint is_dict = type(value) is dict
        cdef bytes default
        if level >= MAX_LEVELS or not (is_dict or isinstance(value, Mapping)):
            refuse()
        level += 1
        while link < end:
            if is_dict:
                found = PyDict_GetItemWithError(value, <object>link.key)
                item = ABSENT if found is NULL else <object>found
            else:
                item = value.get(<object>link.key, ABSENT)
            if item is ABSENT:
                if link.default_ is not NULL:
                    default = <bytes>link.default_
                    put(out, PyBytes_AS_STRING(default), PyBytes_GET_SIZE(default))
                    link += 1
                    continue
                item = None
            self.write(out, self.nodes + link.node, item, level)
            link += 1
        return 0

    cdef int write_array(self, Output *out, Node *node, value, int level) except -1:
        cdef tuple items
        if level >= MAX_LEVELS:
            refuse()
        if not isinstance(value, (list, tuple)) and (
            isinstance(value, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(value, Iterable)
        ):
            refuse()
        items = tuple(value)  # which the code of a value cannot change
        if items:
            put_long(out, len(items))
            for item in items:
                self.write(out, self.nodes + node.a, item, level + 1)
        return put(out, b"\0", 1)

    cdef int write_map(self, Output *out, Node *node, value, int level) except -1:
        cdef list items
        if level >= MAX_LEVELS or not isinstance(value, Mapping):
            refuse()
        items = list(value.items())
        if items:
            put_long(out, len(items))
            for key, item in items:
                put_text(out, key)
                self.write(out, self.nodes + node.a, item, level + 1)
        return put(out, b"\0", 1)

    cdef int write_union(self, Output *out, Node *node, value, int level) except -1:
        cdef Py_ssize_t chosen = self.named_branch(node, value)
        cdef Link *branches = self.links + node.a
        if chosen >= 0:
            if type(value) is tuple or isinstance(value, tuple):
                value = value[1]
        elif node.b == 2 and self.is_null(branches) != self.is_null(branches + 1):
            chosen = <int>self.is_null(branches) if value is not None else 1 - <int>self.is_null(branches)
        else:
            chosen = self.best(node, value)
        put_long(out, chosen)
        return self.write(out, self.nodes + branches[chosen].node, value, level)

    cdef inline bint is_null(self, Link *branch) noexcept:
        return self.nodes[branch.node].op == NULL_

    cdef Py_ssize_t named_branch(self, Node *node, value) except -2:
        """Return the index of the branch that a value names, -1 if it names none."""
        cdef Py_ssize_t place
        if isinstance(value, tuple):
            if len(value) != 2 or not isinstance(value[0], str):
                return -1
            name = value[0]
        elif isinstance(value, dict) and "-type" in value:
            name = value["-type"]
        else:
            return -1
        for place in range(node.b):
            if <object>self.links[node.a + place].key == name:
                return place
        return -1

    cdef Py_ssize_t best(self, Node *node, value) except -1:
        """Return the index of the branch that fits a value best (rule 1 of encoding)."""
        cdef Py_ssize_t place, step, found = -1, most = -1, count
        cdef Node *branch
        cdef dict refused = {}
        for place in range(node.b):
            branch = self.nodes + self.links[node.a + place].node
            if found >= 0 and self.nodes[self.links[node.a + found].node].op == FLOAT:
                if branch.op == DOUBLE:
                    return place
                continue
            if not self.match(branch, value, 0, refused):
                continue
            if branch.op != RECORD:
                found = place
                if branch.op != FLOAT:
                    break
                continue
            count = 0
            for step in range(branch.b):
                count += <object>self.links[branch.a + step].key in value
            if count > most:
                found, most = place, count
        if found < 0:
            refuse()
        return found

    cdef bint match(self, Node *node, value, int level, dict refused) except -1:
        """Compare a value with a type. ``refused`` keeps the pairs that do not fit, with the values of their ids."""
        cdef int op = node.op
        if op == STRING:
            return isinstance(value, str)
        if op == NULL_:
            return value is None
        if op == LONG:
            return is_whole(value, 64)
        if op == INT:
            return is_whole(value, 32)
        if op == BOOLEAN:
            return isinstance(value, bool)
        if op == DOUBLE or op == FLOAT:
            return is_real(value)
        if op == BYTES:
            return is_data(value, -1)
        if op == FIXED:
            return is_data(value, node.a)
        if op == ENUM:
            return isinstance(value, str) and value in <tuple>node.of
        if op == RECORD or op == ARRAY or op == MAP or op == UNION:
            if refused and (node - self.nodes, id(value), level) in refused:
                return False
            if self.match_nested(node, value, level, refused):
                return True
            refused[node - self.nodes, id(value), level] = value
            return False
        if op == DATE:
            return isinstance(value, date) or is_whole(value, 32)
        if op == TIME_MILLIS:
            return isinstance(value, time) or is_whole(value, 32)
        if op == TIME_MICROS:
            return isinstance(value, time) or is_whole(value, 64)
        if op == TIMESTAMP:
            return isinstance(value, datetime) or is_whole(value, 64)
        if op == DECIMAL:
            return isinstance(value, Decimal) or is_data(value, node.a)
        if op == UUID_TEXT:
            return isinstance(value, (UUID, str))
        if op == UUID_FIXED:
            return isinstance(value, UUID) or is_data(value, 16)
        if op == DURATION:
            return isinstance(value, AvroDuration) or is_data(value, 12)
        return False

    cdef bint match_nested(self, Node *node, value, int level, dict refused) except -1:
        cdef Py_ssize_t place
        cdef Link *link
        if node.op == UNION:
            if isinstance(value, tuple):
                place = self.named_branch(node, value)
                if place >= 0:
                    return self.match(self.nodes + self.links[node.a + place].node, value[1], level, refused)
            for place in range(node.b):
                if self.match(self.nodes + self.links[node.a + place].node, value, level, refused):
                    return True
            return False
        if level >= MAX_LEVELS:
            return False
        level += 1
        if node.op == ARRAY:
            if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray, memoryview)):
                return False
            for item in value:
                if not self.match(self.nodes + node.a, item, level, refused):
                    return False
            return True
        if not isinstance(value, Mapping):
            return False
        if node.op == MAP:
            for key, item in value.items():
                if not isinstance(key, str) or not self.match(self.nodes + node.a, item, level, refused):
                    return False
            return True
        if "-type" in value and value["-type"] != <object>self.names[node - self.nodes]:
            return False
        for place in range(node.b):
            link = self.links + node.a + place
            item = value.get(<object>link.key, ABSENT)
            if item is ABSENT:
                if link.default_ is not NULL:
                    continue
                item = None
            if not self.match(self.nodes + link.node, item, level, refused):
                return False
        return True
