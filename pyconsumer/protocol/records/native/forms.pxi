# Records in the forms of kafka-python and aiokafka, for `pyconsumer.compat`.
#
# A form is None (our own records), a subclass of tuple with the 13 fields of kafka-python's record and nothing else, or
# `OpenRecord`. `check_form` runs once for each cursor, `formed` once for each record.
#
# The garbage collector tracks none of them while key and value are simple (see record.pxi), an `OpenRecord` until an
# attribute is set. Two tracked objects for each record, the tuple and its list, made the collector walk through all
# objects of the program every 60,000 records, which took longer than decoding. In exchange a cycle that a program makes
# through the list of headers of such a tuple (a record among its own headers) is not found.
#
# Cython's constructor makes a dictionary for each instance of a class that has one. So `open_record` does not call it:
# CPython makes the dictionary when an attribute is set. Released records are kept for the next ones, as many as two
# reads without a limit return. Otherwise each one would count as a new object for the collector, which then runs.

cdef extern from *:
    """
    #define PYCONSUMER_TUPLE(type, size) \
        (((PyTypeObject *)(type))->tp_alloc((PyTypeObject *)(type), (size)))
    #define PYCONSUMER_IS_TUPLE_TYPE(type) \
        (PyType_Check(type) && PyType_IsSubtype((PyTypeObject *)(type), &PyTuple_Type) \
         && ((PyTypeObject *)(type))->tp_basicsize == PyTuple_Type.tp_basicsize \
         && ((PyTypeObject *)(type))->tp_itemsize == PyTuple_Type.tp_itemsize \
         && ((PyTypeObject *)(type))->tp_dictoffset == 0)
    #define PYCONSUMER_NAME(type, name) (((PyTypeObject *)(type))->tp_name = (name))

    static PyMemberDef pyconsumer_open_members[] = {
        {"key", T_OBJECT_EX, 0, 0, NULL},
        {"value", T_OBJECT_EX, 0, 0, NULL},
        {"headers", T_OBJECT_EX, 0, 0, NULL},
    };

    #define PYCONSUMER_MOST_SPARE 10000 /* about a megabyte */
    static PyTypeObject *pyconsumer_open_type;
    static PyObject *pyconsumer_spare; /* released ones, each with the address of the next one behind its head */
    static int pyconsumer_spare_count;
    #define PYCONSUMER_NEXT_SPARE(record) (*(PyObject **)((char *)(record) + sizeof(PyObject)))

    static void pyconsumer_open_free(void *record)
    {
        if (Py_TYPE((PyObject *)record) != pyconsumer_open_type || pyconsumer_spare_count >= PYCONSUMER_MOST_SPARE) {
            PyObject_GC_Del(record);
            return;
        }
        PYCONSUMER_NEXT_SPARE(record) = pyconsumer_spare;
        pyconsumer_spare = (PyObject *)record;
        pyconsumer_spare_count++;
    }

    static Py_ssize_t pyconsumer_open_start; /* of its members that are objects */

    static void pyconsumer_open_publish(PyObject *type, Py_ssize_t start)
    {
        pyconsumer_open_start = start;
        pyconsumer_open_type = (PyTypeObject *)type;
        pyconsumer_open_type->tp_free = pyconsumer_open_free;
    }

    /* Return a record that the collector does not track, with no dictionary. */
    static PyObject *pyconsumer_open_new(PyObject *key, PyObject *value, PyObject *headers, PyObject *origin)
    {
        PyObject *made = pyconsumer_spare, **member;
        if (made == NULL) {
            made = PyObject_GC_New(PyObject, pyconsumer_open_type);
            if (made == NULL)
                return NULL;
        } else {
            pyconsumer_spare = PYCONSUMER_NEXT_SPARE(made);
            pyconsumer_spare_count--;
            (void)PyObject_Init(made, pyconsumer_open_type);
        }
        memset((char *)made + sizeof(PyObject), 0, (size_t)pyconsumer_open_type->tp_basicsize - sizeof(PyObject));
        member = (PyObject **)((char *)made + pyconsumer_open_start);
        Py_INCREF(key);
        member[0] = key;
        Py_INCREF(value);
        member[1] = value;
        Py_INCREF(headers);
        member[2] = headers;
        Py_INCREF(origin);
        member[3] = origin;
        return made;
    }
    """
    object PYCONSUMER_TUPLE(object type, Py_ssize_t size)
    bint PYCONSUMER_IS_TUPLE_TYPE(object type)
    void PYCONSUMER_NAME(object type, const char *name)
    PyMemberDef pyconsumer_open_members[3]
    object pyconsumer_open_new(object key, object value, object headers, object origin)
    void pyconsumer_open_publish(object type, Py_ssize_t start)
    void PyTuple_SET_ITEM(object made, Py_ssize_t place, object item)
    int PyObject_GC_IsTracked(object record)
    void PyObject_GC_Track(void *record)
    void PyObject_GC_UnTrack(void *record)
    object PyObject_GenericGetDict(object record, void *context)
    PyObject **_PyObject_GetDictPtr(object record)
    int PyObject_GenericSetAttr(object record, object name, object value) except -1

cdef enum:
    FORM_FIELDS = 13  # of kafka-python's record
    OPEN_MEMBERS = 3


cdef class OpenRecord:
    """ConsumerRecord(topic, partition, offset, timestamp, timestamp_type, key, value, checksum, serialized_key_size, \
serialized_value_size, headers)
--

A consumed record: see the twin in ``open_record.py``."""

    # Most programs set no field, so most fields are numbers, and an object is made when one is read. A field that was
    # set is in the instance's dictionary. Only members that programs use most are Python's own, which are faster. A
    # program may delete these, which leaves NULL there, so they are read and set by attribute.
    cdef int64_t offset_
    cdef int64_t timestamp_
    cdef int32_t key_size
    cdef int32_t value_size  # pyconsumer_open_new and _publish_open_members rely on the order of the objects after it
    cdef object key_
    cdef object value_
    cdef object headers_
    cdef object origin_  # None if all fields are in the dictionary
    cdef dict __dict__
    cdef object __weakref__

    def __init__(
        self,
        topic,
        partition,
        offset,
        timestamp,
        timestamp_type,
        key,
        value,
        checksum,
        serialized_key_size,
        serialized_value_size,
        headers,
    ):
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self.checksum = checksum
        self.serialized_key_size = serialized_key_size
        self.serialized_value_size = serialized_value_size
        self.headers = headers

    @property
    def topic(self):
        if is_changed(self):
            return changed_field(self, "topic")
        return <object>PyTuple_GET_ITEM(self.origin_, 0)

    @topic.setter
    def topic(self, value):
        set_field(self, "topic", value)

    @property
    def partition(self):
        if is_changed(self):
            return changed_field(self, "partition")
        return <object>PyTuple_GET_ITEM(self.origin_, 1)

    @partition.setter
    def partition(self, value):
        set_field(self, "partition", value)

    @property
    def offset(self):
        if is_changed(self):
            return changed_field(self, "offset")
        return self.offset_

    @offset.setter
    def offset(self, value):
        set_field(self, "offset", value)

    @property
    def timestamp(self):
        if is_changed(self):
            return changed_field(self, "timestamp")
        return self.timestamp_

    @timestamp.setter
    def timestamp(self, value):
        set_field(self, "timestamp", value)

    @property
    def timestamp_type(self):
        if is_changed(self):
            return changed_field(self, "timestamp_type")
        return <object>PyTuple_GET_ITEM(self.origin_, 3)

    @timestamp_type.setter
    def timestamp_type(self, value):
        set_field(self, "timestamp_type", value)

    @property
    def checksum(self):
        if is_changed(self):
            return changed_field(self, "checksum")
        return None

    @checksum.setter
    def checksum(self, value):
        set_field(self, "checksum", value)

    @property
    def serialized_key_size(self):
        if is_changed(self):
            return changed_field(self, "serialized_key_size")
        return self.key_size

    @serialized_key_size.setter
    def serialized_key_size(self, value):
        set_field(self, "serialized_key_size", value)

    @property
    def serialized_value_size(self):
        if is_changed(self):
            return changed_field(self, "serialized_value_size")
        return self.value_size

    @serialized_value_size.setter
    def serialized_value_size(self, value):
        set_field(self, "serialized_value_size", value)

    def __setattr__(self, name, value):
        # From now on it may be part of a cycle.
        if not PyObject_GC_IsTracked(self):
            PyObject_GC_Track(<void *>self)
        PyObject_GenericSetAttr(self, name, value)

    def __eq__(self, other):
        return same_open(self, other)

    def __repr__(self):
        return open_repr(self)

    def __reduce__(self):
        return reduced_open(self)

    def __setstate__(self, state):
        for name, value in state.items():
            setattr(self, name, value)

    @classmethod
    def __class_getitem__(cls, types):
        return GenericAlias(cls, types)


cdef inline bint is_changed(OpenRecord record) noexcept:
    """Return whether a field may be in the dictionary."""
    cdef PyObject **own = _PyObject_GetDictPtr(record)
    return record.origin_ is None or (own is not NULL and own[0] is not NULL)


cdef object changed_field(OpenRecord record, str name):
    own = PyObject_GenericGetDict(record, NULL)
    if name in own:
        return own[name]
    origin = record.origin_
    if origin is None:
        raise AttributeError(f"{type(record).__name__!r} object has no attribute {name!r}")
    if name == "checksum":
        return None
    if name == "topic":
        return origin[0]
    if name == "partition":
        return origin[1]
    if name == "timestamp_type":
        return origin[3]
    if name == "offset":
        return record.offset_
    if name == "timestamp":
        return record.timestamp_
    return record.key_size if name == "serialized_key_size" else record.value_size


cdef int set_field(OpenRecord record, str name, value) except -1:
    PyObject_GenericGetDict(record, NULL)[name] = value
    return 0


def variables(record):
    """Return the ``__dict__`` of an ``OpenRecord``: its fields, and what was set besides."""
    cdef dict found = {}
    for name in OPEN_NAMES:
        value = getattr(record, name, found)
        if value is not found:
            found[name] = value
    found.update(PyObject_GenericGetDict(record, NULL))
    return found


cdef int check_form(form) except -1:
    if form is not None and form is not OpenRecord and not PYCONSUMER_IS_TUPLE_TYPE(form):
        raise TypeError(f"records cannot be made in the form of {form!r}")
    return 0


cdef inline object header_tuple_of(headers):
    return parse_headers(<bytes>headers) if type(headers) is bytes else headers


cdef object formed(
    form, origin, int64_t offset, int64_t timestamp, key, value, int32_t key_size, int32_t value_size, headers
):
    """Return a record in another form than ours.

    Args:
        form: checked by ``check_form``, and not None.
        headers: bytes as received, a tuple of pairs, or None.
    """
    if form is OpenRecord:
        return open_record(origin, offset, timestamp, key, value, key_size, value_size, headers)
    cdef object header_size = -1
    cdef list header_list
    if headers is None:
        header_list = []
    else:
        headers = header_tuple_of(headers)
        header_list = list(headers)
        header_size = size_of_headers(headers)
    cdef object offset_object = offset, timestamp_object = timestamp
    cdef object key_size_object = key_size, value_size_object = value_size
    # No object is made between here and the end, so nobody sees a tuple with empty places.
    cdef object made = PYCONSUMER_TUPLE(form, FORM_FIELDS)
    put(made, 0, <object>PyTuple_GET_ITEM(origin, 0))
    put(made, 1, <object>PyTuple_GET_ITEM(origin, 1))
    put(made, 2, <object>PyTuple_GET_ITEM(origin, 2))
    put(made, 3, offset_object)
    put(made, 4, timestamp_object)
    put(made, 5, <object>PyTuple_GET_ITEM(origin, 3))
    put(made, 6, key)
    put(made, 7, value)
    put(made, 8, header_list)
    put(made, 9, None)
    put(made, 10, key_size_object)
    put(made, 11, value_size_object)
    put(made, 12, header_size)
    if is_simple(key) and is_simple(value):
        PyObject_GC_UnTrack(<void *>made)
        PyObject_GC_UnTrack(<void *>header_list)
    return made


cdef inline void put(object made, Py_ssize_t place, object item) noexcept:
    Py_INCREF(item)
    PyTuple_SET_ITEM(made, place, item)


cdef OpenRecord open_record(
    origin, int64_t offset, int64_t timestamp, key, value, int32_t key_size, int32_t value_size, headers
):
    cdef object header_tuple = () if headers is None else header_tuple_of(headers)
    cdef OpenRecord made = <OpenRecord>pyconsumer_open_new(key, value, header_tuple, origin)
    made.offset_ = offset
    made.timestamp_ = timestamp
    made.key_size = key_size
    made.value_size = value_size
    if not (is_simple(key) and is_simple(value)):
        PyObject_GC_Track(<void *>made)
    return made


cdef object formed_of(form, ConsumerRecord record, key, value):
    """Return one of our records in another form, with this key and value."""
    return formed(
        form,
        record.origin_,
        record.offset_,
        record.timestamp_,
        key,
        value,
        record.key_size,
        record.value_size,
        record.headers_,
    )


cdef tuple OPEN_NAMES = FIELDS


cdef int _publish_open_members() except -1:
    """Publish members as member descriptors, and give the class the name that programs know."""
    cdef OpenRecord record = OpenRecord.__new__(OpenRecord)
    cdef Py_ssize_t start = (<char *>&record.value_size - <char *><void *>record) + <Py_ssize_t>sizeof(int32_t)
    cdef int i
    members = <dict>PYCONSUMER_DICT(OpenRecord)
    for i in range(OPEN_MEMBERS):
        pyconsumer_open_members[i].offset = start + i * <Py_ssize_t>sizeof(void *)
        name = (<bytes>pyconsumer_open_members[i].name).decode()
        members[name] = PyDescr_NewMember(<PyTypeObject *>OpenRecord, &pyconsumer_open_members[i])
    members["__dict__"] = property(variables)
    members.pop("__ne__", None)  # a dataclass that derives from it has an __eq__ of its own
    PYCONSUMER_NAME(OpenRecord, "pyconsumer.compat.aiokafka.structs.ConsumerRecord")
    pyconsumer_open_publish(OpenRecord, start)
    PyType_Modified(<PyTypeObject *>OpenRecord)
    # If a compiler laid out the members differently, this module must not be used.
    record = open_record(RecordOrigin("t", 1, 2, 3), 4, 5, "k", "v", 6, 7, None)
    if open_fields(record) != ("t", 1, 4, 5, 3, "k", "v", None, 6, 7, ()):
        raise ImportError("the members of a record are not where they were expected")
    return 0


def take_class_dict(dict attributes):
    """Add to the class of `OpenRecord` what makes it a dataclass."""
    (<dict>PYCONSUMER_DICT(OpenRecord)).update(attributes)
    PyType_Modified(<PyTypeObject *>OpenRecord)


_publish_open_members()
