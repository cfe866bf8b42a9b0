# The decoder of columns: rows of any program in, finished columns out.

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
            if is_full(&self.reading, self.most_held, self.most_items):
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
            if is_full(&self.reading, self.most_held, self.most_items):
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
        cdef Py_ssize_t before = r.cols[0].count - row
        cdef Rows rows
        cdef Pr p
        cdef int result = FINE
        if chosen.kind == OF_MESSAGES:
            p = reading_of(r, <MessageProgram>chosen.program)
        elif chosen.kind == OF_STEPS:
            use_steps(r, <ColumnProgram>chosen.program)
        else:
            return row
        r.has_slack = True
        rows.data, rows.ends, rows.valid = given.data, given.ends, given.valid
        rows.row, rows.count, rows.most = row, count, given.size - SLACK
        rows.number, rows.room = chosen.number, self.room
        rows.most_held, rows.most_items = self.most_held, self.most_items
        if chosen.kind == OF_STEPS and r.steps.do == D_RECORD and has_fields(r, r.steps, 0):
            result = read_fields(r, r.steps, &rows, 0, 0, 1)
        else:
            while begins_row(r, &rows):
                if chosen.kind == OF_MESSAGES:
                    result = read_message(&p, <MessageProgram>chosen.program)
                else:
                    result = read_step(r, r.steps, 0)
                if result != FINE or r.at != r.end:
                    result = BAD
                    break
                ends_row(r, &rows, r.room)
        if result != FINE:
            truncate_to(r, r.cols, before + rows.row)
        return rows.row

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
