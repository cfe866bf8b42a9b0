# ConsumerRecord, and its subclass for the results of deserializers.
#
# The garbage collector does not track a ConsumerRecord, which saves 16 bytes and half of the time. That is correct only
# while a record cannot be part of a cycle: its key and value are exactly bytes, str, int, float, bool or None. Any
# other result of a deserializer goes into a TrackedRecord, which keeps it in members of its own.

cdef extern from *:
    """
    #include <structmember.h>

    static PyMemberDef pyconsumer_members[] = {
        {"offset", T_LONGLONG, 0, READONLY, NULL},
        {"timestamp", T_LONGLONG, 0, READONLY, NULL},
        {"serialized_key_size", T_INT, 0, READONLY, NULL},
        {"serialized_value_size", T_INT, 0, READONLY, NULL},
        {"origin", T_OBJECT_EX, 0, READONLY, NULL},
        {"key", T_OBJECT_EX, 0, READONLY, NULL},
        {"value", T_OBJECT_EX, 0, READONLY, NULL},
        {"key", T_OBJECT_EX, 0, READONLY, NULL},
        {"value", T_OBJECT_EX, 0, READONLY, NULL},
    };
    """
    ctypedef struct PyMemberDef:
        const char *name
        Py_ssize_t offset
    PyMemberDef pyconsumer_members[9]
    object PyDescr_NewMember(PyTypeObject *type, PyMemberDef *member)
    void PyType_Modified(PyTypeObject *type)

ctypedef object (*NewFunction)(PyTypeObject *, object, PyObject *)

cdef extern from *:
    """
    #define PYCONSUMER_DICT(type) (((PyTypeObject *)(type))->tp_dict)
    #define PYCONSUMER_SET_NEW(type, function, first) \
        (((PyTypeObject *)(type))->tp_vectorcall = NULL, /* it would bypass tp_new */ \
         *(first) = ((PyTypeObject *)(type))->tp_new, \
         ((PyTypeObject *)(type))->tp_new = (newfunc)(function))
    """
    PyObject *PYCONSUMER_DICT(object type)
    void PYCONSUMER_SET_NEW(object type, NewFunction function, NewFunction *first)


@cython.no_gc
@cython.freelist(1024)
cdef class ConsumerRecord:
    # _publish_members below relies on the order of these members. `new_record` sets `origin_`, so the properties do not
    # check it. `ConsumerRecord.__new__` in this module bypasses `new_record`, so that a record costs no more. Callers
    # set the origin themselves.
    cdef int64_t offset_
    cdef int64_t timestamp_
    cdef int32_t key_size
    cdef int32_t value_size
    cdef object origin_
    cdef object key_
    cdef object value_
    cdef object headers_  # bytes as received, a tuple of pairs, or None

    def __init__(
        self,
        topic,
        partition,
        int64_t offset,
        int64_t timestamp=-1,
        timestamp_type=0,
        key=None,
        value=None,
        headers=(),
        leader_epoch=-1,
    ):
        self.origin_ = RecordOrigin(topic, partition, leader_epoch, timestamp_type)
        self.offset_ = offset
        self.timestamp_ = timestamp
        self.key_size = size_of(key)
        self.value_size = size_of(value)
        self.headers_ = tuple(headers) or None
        set_content(self, key, value)

    @property
    def topic(self):
        return <object>PyTuple_GET_ITEM(self.origin_, 0)

    @property
    def partition(self):
        return <object>PyTuple_GET_ITEM(self.origin_, 1)

    @property
    def leader_epoch(self):
        return <object>PyTuple_GET_ITEM(self.origin_, 2)

    @property
    def timestamp_type(self):
        return <object>PyTuple_GET_ITEM(self.origin_, 3)

    @property
    def topic_partition(self):
        return TopicPartition(self.topic, self.partition)

    @property
    def headers(self):
        return [] if self.headers_ is None else list(self.header_tuple)

    @property
    def header_tuple(self):
        if self.headers_ is None:
            return ()
        if type(self.headers_) is bytes:
            return parse_headers(<bytes>self.headers_)
        return self.headers_

    @property
    def serialized_header_size(self):
        return -1 if self.headers_ is None else size_of_headers(self.header_tuple)

    @property
    def checksum(self):
        return None

    def deserialized(self, key, value):
        return with_content(self, key, value)

    def _sized(self, int32_t key_size, int32_t value_size):
        self.key_size = key_size
        self.value_size = value_size
        return self

    def __eq__(self, other):
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return same_record(self, other)

    def __hash__(self):
        return hash((self.topic, self.partition, self.offset_))

    def __repr__(self):
        return record_repr(self)

    def __reduce__(self):
        return reduced_record(self, type(self) is ConsumerRecord or type(self) is TrackedRecord)

    @classmethod
    def __class_getitem__(cls, types):
        return GenericAlias(cls, types)


@cython.final
cdef class TrackedRecord(ConsumerRecord):
    """A record whose key or value may refer to any object, even to the record itself."""

    cdef int64_t marker
    cdef object tracked_key
    cdef object tracked_value


cdef inline int32_t size_of(data):
    return <int32_t>PyBytes_GET_SIZE(data) if isinstance(data, bytes) else -1


cdef inline bint is_simple(value):
    return (
        value is None
        or type(value) is bytes
        or type(value) is str
        or type(value) is int
        or type(value) is float
        or type(value) is bool
    )


cdef int set_content(ConsumerRecord record, key, value) except -1:
    if isinstance(record, TrackedRecord):
        (<TrackedRecord>record).tracked_key = key
        (<TrackedRecord>record).tracked_value = value
    else:
        record.key_ = key
        record.value_ = value
    return 0


cdef ConsumerRecord with_content(ConsumerRecord record, key, value):
    """Return a copy with another key and value, and the serialized sizes of this record."""
    cdef ConsumerRecord made
    if is_simple(key) and is_simple(value):
        made = ConsumerRecord.__new__(ConsumerRecord)
    else:
        made = TrackedRecord.__new__(TrackedRecord)
    made.origin_ = record.origin_
    made.offset_ = record.offset_
    made.timestamp_ = record.timestamp_
    made.key_size = record.key_size
    made.value_size = record.value_size
    made.headers_ = record.headers_
    set_content(made, key, value)
    return made


cdef tuple parse_headers(bytes data):
    """Return the pairs of a record's headers, which ``read_record`` has checked."""
    cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef const uint8_t *end = at + PyBytes_GET_SIZE(data)
    cdef const uint8_t *start
    cdef uint64_t count = 0, number = 0
    cdef Py_ssize_t length
    cdef list headers = []
    at = read_varint32(at, end, &count)
    count >>= 1
    while count and at is not NULL:
        at = read_varint32(at, end, &number)
        if at is NULL or number >> 1 > <uint64_t>(end - at):
            break
        # As in Java, an invalid name never stops a consumer.
        name = PyUnicode_DecodeUTF8(<const char *>at, <Py_ssize_t>(number >> 1), "replace")
        at = read_nullable(at + (number >> 1), end, &start, &length)
        if at is NULL:
            break
        headers.append((name, None if length < 0 else PyBytes_FromStringAndSize(<const char *>start, length)))
        count -= 1
    return tuple(headers)


def make_record(origin, int64_t offset, int64_t timestamp, key, value):
    """Return a record without headers that was decoded in Python."""
    if type(origin) is not RecordOrigin:
        raise TypeError(f"an origin is a RecordOrigin, not {origin!r}")
    cdef ConsumerRecord record = ConsumerRecord.__new__(ConsumerRecord)
    record.origin_ = origin
    record.offset_ = offset
    record.timestamp_ = timestamp
    record.key_ = key
    record.value_ = value
    record.key_size = size_of(key)
    record.value_size = size_of(value)
    return record


def convert(raw, Py_ssize_t start, key, value, good, form=None):
    """Convert keys and values of ``raw[start:]`` and append the records to ``good``, up to the first error.

    See ``conversion.convert``. If a record need not be tracked, it is changed in place and not copied: nothing else
    refers to it yet.
    """
    cdef Py_ssize_t index
    cdef ConsumerRecord record
    cdef list records = raw if type(raw) is list else list(raw)
    cdef bint has_key = key is not None, has_value = value is not None
    cdef bint text_key = key is bytes_decode, text_value = value is bytes_decode
    cdef bint of_key
    check_form(form)
    if start < 0:
        raise ValueError(f"records are converted from an index on, not from {start}")
    if has_key:
        key, whole_key = key if isinstance(key, tuple) else (key, False)
    if has_value:
        value, whole_value = value if isinstance(value, tuple) else (value, False)
    for index in range(start, len(records)):
        record = <ConsumerRecord?>records[index]
        new_key, new_value = record.key_, record.value_
        of_key = True
        try:
            if has_key and (new_key is not None or form is not None):
                if text_key:
                    new_key = text_of(new_key)
                else:
                    new_key = key(record, new_key) if whole_key else key(new_key)
            of_key = False
            if has_value and (new_value is not None or form is not None):
                if text_value:
                    new_value = text_of(new_value)
                else:
                    new_value = value(record, new_value) if whole_value else value(new_value)
        except Exception as error:
            return index, "key" if of_key else "value", error
        if form is not None:
            good.append(formed_of(form, record, new_key, new_value))
            continue
        if is_simple(new_key) and is_simple(new_value):
            record.key_ = new_key
            record.value_ = new_value
        else:
            record = with_content(record, new_key, new_value)
        good.append(record)
    return len(records), "", None


cdef object bytes_decode = bytes.decode


cdef inline object text_of(data):
    if not isinstance(data, bytes):
        raise TypeError(f"text is made of bytes, not of {data!r}")
    return PyUnicode_DecodeUTF8(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), NULL)


#: Of a record that no decoder and no ``__init__`` has filled in.
cdef object NO_ORIGIN = RecordOrigin("", -1, -1, -1)

cdef NewFunction first_new_record = NULL
cdef NewFunction first_new_tracked_record = NULL


cdef ConsumerRecord empty_record(ConsumerRecord record):
    record.origin_ = NO_ORIGIN
    record.offset_ = record.timestamp_ = -1
    record.key_size = record.value_size = -1
    return record


cdef object new_record(PyTypeObject *cls, args, PyObject *named):
    """Return the object of ``ConsumerRecord(...)``: a tracked one if its key or value needs that."""
    if <object>cls is ConsumerRecord:
        key = args[5] if len(args) > 5 else (<dict>named).get("key") if named is not NULL else None
        value = args[6] if len(args) > 6 else (<dict>named).get("value") if named is not NULL else None
        if not (is_simple(key) and is_simple(value)):
            return empty_record(TrackedRecord.__new__(TrackedRecord))
    return empty_record(<ConsumerRecord?>first_new_record(cls, args, named))


cdef object new_tracked_record(PyTypeObject *cls, args, PyObject *named):
    return empty_record(<ConsumerRecord?>first_new_tracked_record(cls, args, named))


PYCONSUMER_SET_NEW(ConsumerRecord, new_record, &first_new_record)
PYCONSUMER_SET_NEW(TrackedRecord, new_tracked_record, &first_new_tracked_record)


# --- members

cdef int _publish_members() except -1:
    """Publish members as member descriptors, which are much faster than properties since Python 3.11.

    The objects of a ConsumerRecord follow its last number, and so do those of a TrackedRecord.
    """
    cdef ConsumerRecord record = ConsumerRecord.__new__(ConsumerRecord)
    cdef TrackedRecord tracked = TrackedRecord.__new__(TrackedRecord)
    cdef char *start = <char *><void *>record
    cdef Py_ssize_t pointer = sizeof(void *)
    cdef Py_ssize_t objects = (<char *>&record.value_size - start) + <Py_ssize_t>sizeof(int32_t)
    cdef Py_ssize_t own = (<char *>&tracked.marker - <char *><void *>tracked) + <Py_ssize_t>sizeof(int64_t)
    cdef Py_ssize_t places[9]
    cdef int i
    places[0] = <char *>&record.offset_ - start
    places[1] = <char *>&record.timestamp_ - start
    places[2] = <char *>&record.key_size - start
    places[3] = <char *>&record.value_size - start
    places[4] = objects
    places[5] = objects + pointer
    places[6] = objects + 2 * pointer
    places[7] = own
    places[8] = own + pointer
    for i in range(9):
        pyconsumer_members[i].offset = places[i]
        owner = ConsumerRecord if i < 7 else TrackedRecord
        members = <dict>PYCONSUMER_DICT(owner)
        name = (<bytes>pyconsumer_members[i].name).decode()
        members[name] = PyDescr_NewMember(<PyTypeObject *>owner, &pyconsumer_members[i])
    PyType_Modified(<PyTypeObject *>ConsumerRecord)
    PyType_Modified(<PyTypeObject *>TrackedRecord)
    # If a compiler laid out the members differently, this module must not be used.
    record.origin_, record.key_, record.value_ = "o", "k", "v"
    tracked.origin_, tracked.tracked_key, tracked.tracked_value = "o", "k", "v"
    for made in (record, tracked):
        if (made.origin, made.key, made.value) != ("o", "k", "v"):
            raise ImportError("the members of a record are not where they were expected")
    return 0


_publish_members()
