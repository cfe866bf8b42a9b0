# Columns of JSON. The rules are in pyconsumer/schemas/json_schema/column_plan.py.
#
# This reads plain documents alone. The plan gets each other document, and reads it in Python: it is refused, or comes
# back as Avro. So the verdicts are those of Python.

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, PyObject *overflow) except? -1.0

cdef enum:
    # json_schema.column_plan.Node
    J_NULL = 0
    J_BOOLEAN
    J_INTEGER
    J_NUMBER
    J_STRING
    J_OTHER  # JSON text: only null is read here
    J_LIST
    J_MAP
    J_RECORD
    LAST_J

cdef enum:
    MOST_DIGITS = 18
    MOST_KEYS = 32  # of a map: for more, keys are compared in Python
    MOST_NUMBER = 60  # letters


cdef struct Jn:
    int kind
    bint nullable
    Py_ssize_t column  # -1: checked and not stored
    Py_ssize_t keys
    Py_ssize_t item
    Py_ssize_t first
    Py_ssize_t many
    int64_t counted
    int64_t null_counted


cdef struct Jm:
    const uint8_t *name
    Py_ssize_t size
    Py_ssize_t node
    bint required
    uint64_t seen  # the number of the object that has it


cdef struct Jr:
    Reading *r
    const Jn *nodes
    Jm *members
    const int32_t *order
    uint64_t *objects


@cython.final
cdef class DocumentProgram:
    """See ``json_schema.column_plan.DocumentProgram``."""

    cdef readonly object plan
    cdef readonly object label
    cdef ColumnProgram again
    cdef Jn *nodes
    cdef Jm *members
    cdef int32_t *order
    cdef Py_ssize_t node_count
    cdef Py_ssize_t member_count
    cdef uint64_t objects
    cdef list kept

    def __cinit__(self, plan, label=None):
        cdef Py_ssize_t number, place
        cdef list nodes = list(plan.nodes), members = list(plan.members), columns = list(plan.layout.columns)
        self.plan, self.label = plan, label
        self.again = ColumnProgram(plan.columns)
        self.kept = []
        self.node_count, self.member_count = len(nodes), len(members)
        if not nodes:
            raise ValueError("a plan has at least one node")
        self.nodes = <Jn *>PyMem_Malloc(self.node_count * sizeof(Jn))
        self.members = <Jm *>PyMem_Malloc((self.member_count + 1) * sizeof(Jm))
        self.order = <int32_t *>PyMem_Malloc((self.member_count + 1) * sizeof(int32_t))
        if self.nodes is NULL or self.members is NULL or self.order is NULL:
            raise MemoryError()
        for number in range(self.node_count):
            self.fill(number, nodes[number], columns)
        for number in range(self.member_count):
            name, node, required = members[number]
            if type(name) is not bytes or not 0 <= node < self.node_count:
                raise ValueError("a member of the plan is wrong")
            self.kept.append(name)
            self.members[number].name = <const uint8_t *>PyBytes_AS_STRING(name)
            self.members[number].size = PyBytes_GET_SIZE(name)
            self.members[number].node = node
            self.members[number].required = required
            self.members[number].seen = 0
        for number in range(self.node_count):
            place = self.nodes[number].first
            for found in sorted(
                range(place, place + self.nodes[number].many),
                key=lambda each: (len(members[each][0]), members[each][0]),
            ):
                self.order[place] = found
                place += 1

    cdef int fill(self, Py_ssize_t number, given, list columns) except -1:
        cdef Jn *node = &self.nodes[number]
        kind, nullable, column, item, first, many, counted, null_counted = given
        if not 0 <= kind < LAST_J or not -1 <= column < len(columns):
            raise ValueError("a node of the plan is unknown")
        if column >= 0 and columns[column].kind not in KINDS_OF_J[kind]:
            raise ValueError("a node of the plan has a wrong column")
        if kind in (J_LIST, J_MAP) and not number < item < self.node_count:
            raise ValueError("an item of the plan is out of range")
        if first < 0 or many < 0 or first + many > self.member_count or (many and kind != J_RECORD):
            raise ValueError("a member of the plan is out of range")
        node.kind, node.nullable, node.column, node.item = kind, nullable, column, item
        node.first, node.many, node.counted, node.null_counted = first, many, counted, null_counted
        node.keys = columns[column].children[0] if kind == J_MAP and column >= 0 else -1
        return 0

    def __dealloc__(self):
        PyMem_Free(self.nodes)
        PyMem_Free(self.members)
        PyMem_Free(self.order)

    def __reduce__(self):
        return not_copied_columns(self)


KINDS_OF_J = {
    J_NULL: frozenset([K_NULL]),
    J_BOOLEAN: frozenset([K_BOOLEAN]),
    J_INTEGER: frozenset([K_LONG]),
    J_NUMBER: frozenset([K_DOUBLE]),
    J_STRING: frozenset([K_BYTES]),
    J_OTHER: frozenset([K_BYTES]),
    J_LIST: frozenset([K_LIST]),
    J_MAP: frozenset([K_MAP]),
    J_RECORD: frozenset([K_STRUCT]),
}


# -- text --------------------------------------------------------------------------------------------------------------


cdef inline void pass_space(Reading *r) noexcept nogil:
    while r.at < r.end and (r.at[0] == 32 or r.at[0] == 10 or r.at[0] == 13 or r.at[0] == 9):
        r.at += 1


cdef inline bint starts_with(Reading *r, const char *word, Py_ssize_t size) noexcept nogil:
    if r.end - r.at < size or memcmp(r.at, word, <size_t>size) != 0:
        return False
    r.at += size
    return True


cdef inline bint plain_at(Reading *r, const uint8_t **start, Py_ssize_t *size, bint *escaped) noexcept nogil:
    """Read a string. Return False if there is none, or if it has surrogates."""
    cdef const uint8_t *at = r.at
    cdef const uint8_t *end = r.end
    cdef uint8_t letter
    cdef int place
    if at >= end or at[0] != 34:
        return False
    at += 1
    start[0] = at
    escaped[0] = False
    while at < end:
        letter = at[0]
        if letter == 34:
            size[0] = at - start[0]
            r.at = at + 1
            return True
        if letter < 32:
            return False
        at += 1
        if letter != 92:
            continue
        escaped[0] = True
        if at >= end:
            return False
        letter = at[0]
        at += 1
        if letter == 117:
            if end - at < 4:
                return False
            for place in range(4):
                if not is_digit(at[place]):
                    return False
            if (at[0] | 0x20) == 100 and at[1] >= 56:  # d800 to dfff
                return False
            at += 4
        elif not (
            letter == 34 or letter == 92 or letter == 47 or letter == 98 or letter == 102 or letter == 110
            or letter == 114 or letter == 116
        ):
            return False
    return False


cdef inline uint8_t hex_of(uint8_t letter) noexcept nogil:
    return letter - 48 if letter <= 57 else (letter | 0x20) - 87


cdef Py_ssize_t unescape(const uint8_t *at, Py_ssize_t size, uint8_t *to) noexcept nogil:
    """Write a string without its escapes. Return its length. It is no longer than with them."""
    cdef const uint8_t *end = at + size
    cdef uint8_t *start = to
    cdef uint8_t letter
    cdef int code
    while at < end:
        letter = at[0]
        at += 1
        if letter == 92:
            letter = at[0]
            at += 1
            if letter == 117:
                code = hex_of(at[0]) << 12 | hex_of(at[1]) << 8 | hex_of(at[2]) << 4 | hex_of(at[3])
                at += 4
                if code >= 0x800:
                    to[0] = <uint8_t>(0xE0 | code >> 12)
                    to[1] = <uint8_t>(0x80 | (code >> 6 & 0x3F))
                    to[2] = <uint8_t>(0x80 | (code & 0x3F))
                    to += 3
                    continue
                if code >= 0x80:
                    to[0] = <uint8_t>(0xC0 | code >> 6)
                    to[1] = <uint8_t>(0x80 | (code & 0x3F))
                    to += 2
                    continue
                letter = <uint8_t>code
            elif letter == 98:
                letter = 8
            elif letter == 102:
                letter = 12
            elif letter == 110:
                letter = 10
            elif letter == 114:
                letter = 13
            elif letter == 116:
                letter = 9
        to[0] = letter
        to += 1
    return to - start


cdef int add_string(Reading *r, Col *col, const uint8_t *start, Py_ssize_t size, bint escaped) noexcept:
    """Append a string, without its escapes."""
    cdef Py_ssize_t length
    if not escaped:
        return add_bytes(r, col, start, size) if counts(r, size) else BAD
    if next_of(r, col, True) != FINE:
        return NO_MEMORY
    if size > col.capacity - col.size and grow_text(r, col, size) != FINE:
        return NO_MEMORY
    length = unescape(start, size, col.data + col.size)
    if not counts(r, length):
        return BAD
    col.size += length
    col.count += 1
    col.ends[col.count] = <int32_t>col.size
    return FINE


cdef bint number_text(
    Reading *r, Py_ssize_t *size, bint *is_whole, int64_t *whole, int *digits, int *scale
) noexcept nogil:
    """Read a number: its length, its digits as a whole number, how many there are, and the power of ten."""
    cdef const uint8_t *at = r.at
    cdef const uint8_t *end = r.end
    cdef const uint8_t *start = at
    cdef bint is_negative = False, below = False
    cdef int exponent = 0, seen = 0
    cdef int64_t found = 0
    digits[0] = scale[0] = 0
    is_whole[0] = True
    if at < end and at[0] == 45:
        is_negative = True
        at += 1
    if at >= end or not 48 <= at[0] <= 57:
        return False
    if at[0] == 48 and at + 1 < end and 48 <= at[1] <= 57:
        return False
    while at < end and 48 <= at[0] <= 57:
        if found or at[0] != 48:
            digits[0] += 1
            if digits[0] <= MOST_DIGITS:
                found = 10 * found + (at[0] - 48)
        at += 1
    if at < end and at[0] == 46:
        is_whole[0] = False
        at += 1
        if at >= end or not 48 <= at[0] <= 57:
            return False
        while at < end and 48 <= at[0] <= 57:
            if found or at[0] != 48:
                digits[0] += 1
                if digits[0] <= MOST_DIGITS:
                    found = 10 * found + (at[0] - 48)
            scale[0] -= 1
            at += 1
    if at < end and (at[0] | 0x20) == 101:
        is_whole[0] = False
        at += 1
        if at < end and (at[0] == 43 or at[0] == 45):
            below = at[0] == 45
            at += 1
        if at >= end or not 48 <= at[0] <= 57:
            return False
        while at < end and 48 <= at[0] <= 57:
            seen += 1
            if seen > 2:
                return False
            exponent = 10 * exponent + (at[0] - 48)
            at += 1
        scale[0] += -exponent if below else exponent
    size[0] = at - start
    if size[0] > MOST_NUMBER:
        return False
    whole[0] = -found if is_negative else found
    r.at = at
    return True


cdef double[23] TENS
cdef int number_of_tens
TENS[0] = 1.0
for number_of_tens in range(1, 23):
    TENS[number_of_tens] = TENS[number_of_tens - 1] * 10.0


cdef bint real_of(const uint8_t *start, Py_ssize_t size, int64_t whole, int digits, int scale, double *real) noexcept:
    """Find the double next to a number, as Python does."""
    cdef char[64] text
    if digits == 0:
        real[0] = -0.0 if start[0] == 45 else 0.0
        return True
    if digits <= 15 and -22 <= scale <= 22:
        # Both numbers are exact, so there is one rounding.
        real[0] = <double>whole * TENS[scale] if scale >= 0 else <double>whole / TENS[-scale]
        return True
    memcpy(text, start, <size_t>size)
    text[size] = 0
    try:
        real[0] = PyOS_string_to_double(text, NULL, NULL)
    except BaseException:
        return False
    return -1.7976931348623157e308 <= real[0] <= 1.7976931348623157e308


# -- values ------------------------------------------------------------------------------------------------------------


cdef int skip_value(Reading *r, int level) noexcept nogil:
    """Go past any value."""
    cdef const uint8_t *start = NULL
    cdef Py_ssize_t size = 0
    cdef bint escaped = False, is_whole = False
    cdef int64_t whole = 0
    cdef int digits = 0, scale = 0
    cdef uint8_t letter, close
    if r.at >= r.end:
        return BAD
    letter = r.at[0]
    if letter == 34:
        return FINE if plain_at(r, &start, &size, &escaped) else BAD
    if letter == 110:
        return FINE if starts_with(r, b"null", 4) else BAD
    if letter == 116:
        return FINE if starts_with(r, b"true", 4) else BAD
    if letter == 102:
        return FINE if starts_with(r, b"false", 5) else BAD
    if letter != 91 and letter != 123:
        return FINE if number_text(r, &size, &is_whole, &whole, &digits, &scale) else BAD
    if level >= MAX_LEVELS:
        return BAD
    close = letter + 2
    r.at += 1
    pass_space(r)
    if r.at < r.end and r.at[0] == close:
        r.at += 1
        return FINE
    while True:
        pass_space(r)
        if letter == 123:
            if not plain_at(r, &start, &size, &escaped) or not colon_at(r):
                return BAD
        if skip_value(r, level + 1) != FINE:
            return BAD
        pass_space(r)
        if r.at >= r.end or (r.at[0] != 44 and r.at[0] != close):
            return BAD
        r.at += 1
        if (r.at - 1)[0] == close:
            return FINE


cdef inline bint colon_at(Reading *r) noexcept nogil:
    pass_space(r)
    if r.at >= r.end or r.at[0] != 58:
        return False
    r.at += 1
    pass_space(r)
    return True


cdef int read_value(Jr *j, const Jn *node, int level) noexcept:
    """Append a value of a node. After another result than FINE the columns must be truncated."""
    cdef Reading *r = j.r
    cdef Col *col = r.cols + node.column
    cdef const uint8_t *start = NULL
    cdef Py_ssize_t size = 0
    cdef bint escaped = False, is_whole = False
    cdef int64_t whole = 0
    cdef int digits = 0, scale = 0
    cdef double real = 0
    if r.at >= r.end:
        return BAD
    if r.at[0] == 110:
        if not node.nullable or not starts_with(r, b"null", 4):
            return BAD
        return add_absent(r, node)
    if node.kind == J_STRING:
        if not plain_at(r, &start, &size, &escaped):
            return BAD
        return FINE if node.column < 0 else add_string(r, col, start, size, escaped)
    if node.kind == J_RECORD:
        return read_object(j, node, level)
    if node.kind == J_INTEGER or node.kind == J_NUMBER:
        start = r.at
        if not number_text(r, &size, &is_whole, &whole, &digits, &scale):
            return BAD
        if node.kind == J_INTEGER:
            if not is_whole or digits > MOST_DIGITS:
                return BAD
            return FINE if node.column < 0 else add_long(r, col, whole)
        if is_whole:
            if digits > MOST_DIGITS:
                return BAD
            real = <double>whole
        elif not real_of(start, size, whole, digits, scale, &real):
            return BAD
        return FINE if node.column < 0 else add_double(r, col, real)
    if node.kind == J_BOOLEAN:
        is_whole = r.at[0] == 116
        if not (starts_with(r, b"true", 4) if is_whole else starts_with(r, b"false", 5)):
            return BAD
        return FINE if node.column < 0 else add_bits(r, col, is_whole)
    if node.kind == J_LIST:
        return read_list(j, node, level)
    if node.kind == J_MAP:
        return read_map(j, node, level)
    return BAD


cdef inline int add_absent(Reading *r, const Jn *node) noexcept:
    if node.column < 0:
        return FINE
    return add_null(r, r.cols + node.column) if counts(r, node.null_counted) else BAD


cdef int read_list(Jr *j, const Jn *node, int level) noexcept:
    cdef Reading *r = j.r
    cdef Col *col = r.cols + node.column
    cdef const Jn *item = j.nodes + node.item
    cdef int result
    if level >= MAX_LEVELS or r.at[0] != 91 or not counts(r, 64):
        return BAD
    if node.column >= 0 and next_of(r, col, True) != FINE:
        return NO_MEMORY
    r.at += 1
    pass_space(r)
    if r.at < r.end and r.at[0] == 93:
        r.at += 1
    else:
        while True:
            pass_space(r)
            if not counts(r, 8):
                return BAD
            result = read_value(j, item, level + 1)
            if result != FINE:
                return result
            pass_space(r)
            if r.at >= r.end or (r.at[0] != 44 and r.at[0] != 93):
                return BAD
            r.at += 1
            if (r.at - 1)[0] == 93:
                break
    if node.column >= 0:
        end_items(r, col, r.cols + r.children[col.first])
    return FINE


cdef inline void end_items(Reading *r, Col *col, const Col *items) noexcept:
    col.count += 1
    col.ends[col.count] = <int32_t>items.count
    if items.count > r.most_now:
        r.most_now = items.count


cdef int read_map(Jr *j, const Jn *node, int level) noexcept:
    cdef Reading *r = j.r
    cdef Col *col = r.cols + node.column
    cdef const uint8_t *start = NULL
    cdef const uint8_t *keys[MOST_KEYS]
    cdef Py_ssize_t sizes[MOST_KEYS]
    cdef Py_ssize_t size = 0, count = 0, place
    cdef bint escaped = False
    cdef int result
    if level >= MAX_LEVELS or r.at[0] != 123 or not counts(r, 64):
        return BAD
    if node.column >= 0 and next_of(r, col, True) != FINE:
        return NO_MEMORY
    r.at += 1
    pass_space(r)
    if r.at < r.end and r.at[0] == 125:
        r.at += 1
    else:
        while True:
            pass_space(r)
            if count == MOST_KEYS or not plain_at(r, &start, &size, &escaped) or escaped or not counts(r, 64):
                return BAD
            for place in range(count):
                if sizes[place] == size and memcmp(keys[place], start, <size_t>size) == 0:
                    return BAD
            keys[count], sizes[count] = start, size
            count += 1
            if node.column >= 0:
                result = add_string(r, r.cols + node.keys, start, size, False)
                if result != FINE:
                    return result
            if not colon_at(r):
                return BAD
            result = read_value(j, j.nodes + node.item, level + 1)
            if result != FINE:
                return result
            pass_space(r)
            if r.at >= r.end or (r.at[0] != 44 and r.at[0] != 125):
                return BAD
            r.at += 1
            if (r.at - 1)[0] == 125:
                break
    if node.column >= 0:
        end_items(r, col, r.cols + r.children[col.first + 1])
    return FINE


cdef inline Py_ssize_t member_of(const Jr *j, const Jn *node, const uint8_t *start, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t low = node.first, high = node.first + node.many, middle
    cdef const Jm *member
    cdef int found
    while low < high:
        middle = (low + high) // 2
        member = j.members + j.order[middle]
        if member.size != size:
            found = -1 if member.size < size else 1
        else:
            found = memcmp(member.name, start, <size_t>size)
        if found == 0:
            return j.order[middle]
        if found < 0:
            low = middle + 1
        else:
            high = middle
    return -1


cdef int read_object(Jr *j, const Jn *node, int level) noexcept:
    cdef Reading *r = j.r
    cdef Col *col = r.cols + node.column
    cdef const uint8_t *start = NULL
    cdef Py_ssize_t size = 0, place, guess = node.first, end = node.first + node.many
    cdef bint escaped = False
    cdef uint64_t serial
    cdef Jm *member
    cdef int result
    if level >= MAX_LEVELS or r.at[0] != 123 or not counts(r, node.counted):
        return BAD
    if node.column >= 0:
        if next_of(r, col, True) != FINE:
            return NO_MEMORY
        col.count += 1
    j.objects[0] += 1
    serial = j.objects[0]
    r.at += 1
    pass_space(r)
    if r.at < r.end and r.at[0] == 125:
        r.at += 1
    else:
        while True:
            pass_space(r)
            if not plain_at(r, &start, &size, &escaped) or escaped or not colon_at(r):
                return BAD
            place = guess
            if guess == end or j.members[guess].size != size or memcmp(j.members[guess].name, start, <size_t>size) != 0:
                place = member_of(j, node, start, size)
            if place < 0:
                if skip_value(r, level + 1) != FINE:
                    return BAD
            else:
                guess = place + 1
                member = j.members + place
                if member.seen == serial:
                    return BAD
                member.seen = serial
                result = read_value(j, j.nodes + member.node, level + 1)
                if result != FINE:
                    return result
            pass_space(r)
            if r.at >= r.end or (r.at[0] != 44 and r.at[0] != 125):
                return BAD
            r.at += 1
            if (r.at - 1)[0] == 125:
                break
    for place in range(node.first, end):
        if j.members[place].seen != serial:
            if j.members[place].required:
                return BAD
            result = add_absent(r, j.nodes + j.members[place].node)
            if result != FINE:
                return result
    return FINE


cdef int read_document(Reading *r, DocumentProgram program) noexcept:
    """Append a value. After another result than FINE the columns must be truncated."""
    cdef Jr j
    cdef int result
    j.r, j.nodes, j.members, j.order, j.objects = r, program.nodes, program.members, program.order, &program.objects
    if r.end - r.at > MAX_DECODED_BYTES or not pyconsumer_is_utf8(r.at, <size_t>(r.end - r.at)):
        return BAD
    pass_space(r)
    result = read_value(&j, j.nodes, 0)
    if result == FINE:
        pass_space(r)
    return result


cdef int read_again(Reading *r, DocumentProgram program, const uint8_t *start, Py_ssize_t size) except -1:
    """Append a document by way of Python, as Avro. BAD: it is refused."""
    cdef bytes encoded
    try:
        encoded = program.plan.encode(PyBytes_FromStringAndSize(<const char *>start, size))
    except SerializationError:
        return BAD
    use_steps(r, program.again)
    r.has_slack = False
    r.at = <const uint8_t *>PyBytes_AS_STRING(encoded)
    r.end = r.at + PyBytes_GET_SIZE(encoded)
    return read_step(r, r.steps, 0)
