# A plan of columns in C, and the fields of its records in the order of their bytes. See column_plan.py.

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
            step.first, step.cost, step.deepest = -1, step.c, 0
            if step.do == D_RECORD:
                for place in range(step.a, step.a + step.b):
                    if self.steps[self.links[place]].do == D_RECORD:
                        inner.add(self.links[place])
        for number in range(self.count):
            step = &self.steps[number]
            if step.do == D_RECORD and number not in inner:
                step.first = len(placed)
                self.place_record(step, step, placed, 0)
                placed.append((number, 0, BY_END))
        return self.fill_fields(placed)

    cdef int place_record(self, Do *whole, const Do *record, list placed, int depth) except -1:
        """Append the fields of a record, each with its depth, and behind a record those of that one.

        ``whole`` is the record that is no field itself. It gets the cost and the levels of all.
        """
        cdef Py_ssize_t place
        cdef const Do *step
        for place in range(record.a, record.a + record.b):
            step = self.steps + self.links[place]
            if len(placed) > 2 * self.count:  # no plan that was made here
                raise ValueError("a record of the plan is a field of several records")
            if step.do == D_RECORD and depth + 1 < MAX_LEVELS:
                placed.append((self.links[place], depth + 1, BY_RECORD))
                whole.deepest = max(whole.deepest, depth + 1)
                whole.cost += step.c
                self.place_record(whole, step, placed, depth + 1)
            else:
                placed.append((self.links[place], depth, step.way))
        return 0

    cdef int fill_fields(self, list placed) except -1:
        cdef Py_ssize_t branches = 0, next_branch = len(placed), place, branch
        cdef const Do *step
        for number, _depth, _way in placed:
            if self.steps[<Py_ssize_t>number].do == D_UNION:
                branches += self.steps[<Py_ssize_t>number].b
        self.fields = <Field *>PyMem_Malloc((len(placed) + branches + 1) * sizeof(Field))
        if self.fields is NULL:
            raise MemoryError()
        for place in range(len(placed)):
            number, depth, way = placed[place]
            step = self.steps + <Py_ssize_t>number
            make_field(&self.fields[place], step, depth)
            self.fields[place].way = way
            if way == BY_UNION:
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
        if do == D_NULL and layout[column].nullable:
            step.way = WAY_OF_NULL.get(layout[column].kind, BY_NULL)
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

WAY_OF_NULL = {
    K_BYTES: BY_NULL_TEXT,
    K_LONG: BY_NULL_8,
    K_DOUBLE: BY_NULL_8,
    K_INT: BY_NULL_4,
    K_FLOAT: BY_NULL_4,
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
