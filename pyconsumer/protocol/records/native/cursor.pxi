# Cursor: the same steps as in cursor.py, and the same error messages.

cdef Py_ssize_t DEFAULT_COLUMN_BYTES = 8 * 1024 * 1024
cdef Py_ssize_t BYTES_PER_ROW = 16  # a take of columns has at most one row per 16 bytes of its limit


@cython.final
@cython.no_gc_clear  # `at` points into `payload` or `unpacked`, so they are freed together, at the end
cdef class Cursor:
    cdef readonly object topic_partition
    cdef readonly int64_t fetch_offset
    cdef readonly Py_ssize_t size_bytes
    cdef readonly Py_ssize_t batch_count
    cdef readonly Py_ssize_t packed_count  # batches that may be decompressed ahead
    cdef readonly int64_t end_offset
    cdef readonly bint has_incomplete_batch
    cdef int64_t next
    cdef int32_t leader_epoch
    cdef bint check_crcs
    cdef object form  # of the records: see forms.pxi
    cdef object max_decompressed_bytes
    cdef size_t most_unpacked  # the same, as a C number
    # The record set. It is behind a pointer, so that the garbage collector does not see the object in the view:
    # otherwise it would begin to release a memoryview that is still in use here.
    cdef Py_buffer *view
    cdef bint is_released
    cdef const uint8_t *data
    # The job that decompresses it ahead, or NULL, and the queue of the job, which must live as long, or None.
    cdef pyconsumer_job *job
    cdef DecodeAhead ahead
    cdef Py_ssize_t place  # of the next batch to open
    cdef Py_ssize_t end  # of the last complete batch
    cdef BatchHeader head  # of the batch at `place`, if there is one
    # Aborted transactions that have not been reached, the earliest last. The producers whose batches are skipped now.
    cdef list aborted
    cdef set aborting
    # The batch being read: a v2 batch is decoded record by record, a message set at once.
    cdef bint is_open
    cdef BatchHeader current
    cdef object payload  # decompressed in Python
    cdef char *unpacked  # decompressed in C: `unpacked_size` bytes, in memory for `drop_unpacked`. Else NULL
    cdef size_t unpacked_size
    cdef Py_ssize_t unpacked_capacity
    cdef bint is_ahead  # `unpacked` was decompressed ahead
    cdef const uint8_t *at
    cdef const uint8_t *limit
    cdef int32_t remaining
    cdef bint delivering
    cdef object origin
    cdef list pending
    cdef object damage  # of the header after the complete batches
    cdef object failure  # the error that the next take raises
    cdef bint is_busy

    def __init__(
        self,
        topic_partition,
        buffer,
        *,
        int64_t fetch_offset,
        bint check_crcs=True,
        aborted=None,
        max_decompressed_bytes=DEFAULT_MAX_DECOMPRESSED_BYTES,
        form=None,
    ):
        check_form(form)
        if self.view is not NULL or self.is_released:
            raise TypeError("a cursor is made once")
        self.view = <Py_buffer *>malloc(sizeof(Py_buffer))
        if self.view is NULL:
            raise MemoryError()
        self.is_released = True
        PyObject_GetBuffer(buffer, self.view, PyBUF_SIMPLE)
        self.is_released = False
        self.data = <const uint8_t *>self.view.buf
        self.topic_partition = topic_partition
        self.fetch_offset = self.next = fetch_offset
        self.check_crcs = check_crcs
        self.form = form
        self.max_decompressed_bytes = max_decompressed_bytes
        self.most_unpacked = size_limit(max_decompressed_bytes)
        self.aborted = sorted(aborted or (), key=first_offset, reverse=True)
        self.aborting = set()
        self.leader_epoch = -1
        self.payload = b""
        self.pending = []
        self.scan()

    __reduce__ = not_copied

    def __dealloc__(self):
        self.release()
        self.drop_unpacked()
        free(self.view)

    cdef int scan(self) except -1:
        cdef BatchHeader header
        cdef Py_ssize_t position = 0, total = self.view.len
        cdef int found = read_header(self.data, total, 0, &header)
        self.end_offset = self.fetch_offset
        while found == GOOD:
            position += header.size
            self.batch_count += 1
            self.packed_count += is_queued(&header)
            self.end_offset = header.last_offset + 1
            found = read_header(self.data, total, position, &header)
        if found == DAMAGED:
            self.damage = scan_until_damage(self.buffer(), self.topic_partition)[1]
        self.end_offset = max(self.end_offset, self.fetch_offset)
        self.size_bytes = self.end = position
        self.has_incomplete_batch = self.damage is None and position < total
        return 0

    @property
    def next_offset(self):
        return self.next

    @property
    def last_leader_epoch(self):
        return self.leader_epoch

    @property
    def next_timestamp(self):
        cdef BatchHeader header
        cdef RecordView found
        cdef const uint8_t *at = self.at
        cdef Py_ssize_t position = self.place
        if self.failure is not None:
            return None
        if self.is_open:
            if self.pending:
                return (<ConsumerRecord?>self.pending[len(self.pending) - 1]).timestamp_
            if timestamp_type_of(&self.current) == 1:
                return self.current.max_timestamp
            if read_record(&at, self.limit, &self.current, self.next, not self.delivering, &found) == GOOD:
                return found.timestamp
            return first_time(&self.current)
        while position < self.end and read_header(self.data, self.end, position, &header) == GOOD:
            if header.last_offset >= self.next and header.record_count and not is_control(&header):
                return first_time(&header)
            position += header.size
        return None

    @property
    def exhausted(self):
        return not self.is_open and self.place >= self.end and self.failure is None and self.damage is None

    @property
    def error(self):
        return self.failure

    @property
    def decompressed_bytes(self):
        return self.unpacked_size + len(self.payload)

    def take(self, Py_ssize_t max_records):
        cdef list records = []
        self.enter()
        try:
            while len(records) < max_records and self.failure is None:
                if not self.is_open:
                    if not self.open_next():
                        break
                elif self.pending:
                    self.take_pending(records, max_records - len(records), self.form)
                else:
                    self.decode(records, max_records - len(records), self.form)
            self.after_take(len(records), max_records)
        finally:
            self.is_busy = False
        return records

    def take_into(self, ColumnsBuilder columns not None, max_records, max_bytes=DEFAULT_COLUMN_BYTES):
        cdef Py_ssize_t before = columns.count
        cdef Py_ssize_t most_bytes = min(max_bytes, <Py_ssize_t>1 << 60)
        cdef Py_ssize_t most_rows = min(max_records, <Py_ssize_t>1 << 60, most_bytes // BYTES_PER_ROW + 1)
        cdef Py_ssize_t most = columns.heaviness() + most_bytes
        cdef Py_ssize_t room
        cdef list records
        cdef bint is_full = False
        cdef Py_ssize_t expected = -1
        self.enter()
        try:
            columns.reserve(0)
            while not is_full and self.failure is None:
                room = most_rows - (columns.count - before)
                if room <= 0 or columns.heaviness() >= most:
                    break
                if not self.is_open:
                    if not self.open_next():
                        break
                elif self.pending:
                    records = []
                    self.take_pending(records, min(room, 100), None)
                    columns.add(records)
                else:
                    if self.place > expected:
                        expected = self.place if self.is_unpacked() else self.end
                        self.expect(columns, min(room, <Py_ssize_t>1 << 31), most - columns.heaviness())
                    is_full = self.decode_columns(columns, room, most)
            self.after_take(columns.count - before, most_rows)
        finally:
            self.is_busy = False
        return columns.count - before

    def take_columns(self, max_records, max_bytes=DEFAULT_COLUMN_BYTES, *, with_headers=False):
        columns = ColumnsBuilder(with_headers=with_headers)
        self.take_into(columns, max_records, max_bytes)
        return columns.build(*self.topic_partition)

    def close(self):
        self.enter()
        self.end = self.place
        self.release()
        self.is_open = False
        self.drop_unpacked()
        self.payload = b""
        self.damage = self.failure = None
        self.pending = []
        self.remaining = 0
        self.is_busy = False

    # --- the buffer

    cdef int enter(self) except -1:
        # Memory is read without the interpreter's help, so nothing may release it concurrently: no other thread, and no
        # code that a decompressor or the garbage collector calls.
        if self.is_busy:
            raise RuntimeError("this cursor is in use")
        self.is_busy = True
        return 0

    cdef object buffer(self):
        return <object>self.view.obj

    cdef void release(self) noexcept:
        self.data = NULL
        self.end_job()
        if self.view is not NULL and not self.is_released:
            self.is_released = True
            PyBuffer_Release(self.view)

    cdef int after_take(self, Py_ssize_t taken, Py_ssize_t wanted) except -1:
        if self.failure is not None:
            if not taken and wanted > 0:
                raise self.failure.with_traceback(None)
        elif not self.is_open and wanted > 0:
            self.pass_hidden()
            if self.exhausted:
                self.release()
        return 0

    cdef int read_head(self) except -1:
        """Read the header of the batch at ``place``, which was good when the record set was scanned."""
        if read_header(self.data, self.end, self.place, &self.head) != GOOD:
            raise RuntimeError("a record set changed while it was read")
        return 0

    cdef object info(self, const BatchHeader *header):
        """Return the header as a ``BatchInfo``."""
        cdef object part = memoryview(self.buffer())[header.position : header.position + header.size]
        return scan_until_damage(part)[0][0]._replace(position=header.position)

    cdef bint has_right_crc(self, const BatchHeader *header) except -1:
        if header.magic < 2:
            return check_crc(self.buffer(), self.info(header))
        return (
            crc32c_of(self.data + header.position + CRC_START, header.size - CRC_START, 0, True) == header.crc
        )

    # --- decompression ahead

    cdef bint queue_job(self, DecodeAhead ahead) except -1:
        """Queue the batches from ``place`` on. Return whether there are any to queue."""
        cdef BatchHeader header
        cdef Py_ssize_t position = self.place
        if not self.packed_count or self.job is not NULL or self.data is NULL:
            return False
        self.enter()
        self.job = pyconsumer_job_new(ahead.queue, self.data, self.packed_count, self.most_unpacked, self.check_crcs)
        if self.job is not NULL:
            self.ahead = ahead
            while read_header(self.data, self.end, position, &header) == GOOD:
                if is_queued(&header) and header.last_offset >= self.next:
                    pyconsumer_job_add(
                        self.job, header.position, header.size, header.attributes & CODEC_MASK, header.crc
                    )
                position += header.size
            if not pyconsumer_job_start(self.job):
                self.end_job()
        self.is_busy = False
        return self.job is not NULL

    cdef int leave_queue(self) except -1:
        """End the job, but keep the record set, which is still to be read."""
        cdef Py_buffer *other
        if self.job is NULL:
            return 0
        self.enter()
        try:
            other = <Py_buffer *>malloc(sizeof(Py_buffer))
            if other is NULL:
                raise MemoryError()
            try:
                PyObject_GetBuffer(self.buffer(), other, PyBUF_SIMPLE)
            except BaseException:
                free(other)
                raise
            if not self.end_job():
                self.view = other
                self.is_released = False
            else:
                PyBuffer_Release(other)
                free(other)
        finally:
            self.is_busy = False
        return 0

    cdef bint end_job(self) noexcept:
        """End the job. Return False if it has kept the view, because a worker still reads the record set."""
        cdef pyconsumer_job *job = self.job
        cdef bint is_free
        if job is NULL:
            return True
        self.job = NULL
        is_free = pyconsumer_job_end(job, self.view)
        if not is_free:
            self.view = NULL
            self.is_released = True
        self.ahead = None
        return is_free

    cdef bint reach(self, const BatchHeader *head, pyconsumer_found *found) noexcept:
        """Take the outcome of the batch at ``place`` if it was decompressed ahead. Return False if it was not."""
        cdef size_t position = head.position
        cdef uint64_t longest = LONG_WAIT + <uint64_t>head.size * WAIT_PER_BYTE
        cdef int state = pyconsumer_job_reach(self.job, position, found)
        if state == PYCONSUMER_BUSY and head.size < LARGE_BATCH:
            state = pyconsumer_job_wait(self.job, position, SHORT_WAIT, False, found)
        if state == PYCONSUMER_BUSY:
            with nogil:
                state = pyconsumer_job_wait(self.job, position, longest, True, found)
        if state != PYCONSUMER_READY:
            return False
        self.drop_unpacked()
        if found.output is not NULL:
            self.unpacked = <char *>found.output
            self.unpacked_size = found.written
            self.unpacked_capacity = found.capacity
            self.is_ahead = True
        return True

    # --- one batch

    cdef bint open_next(self) except -1:
        """Make the next visible batch the current one. Return False at the end, or after setting ``failure``."""
        cdef const BatchHeader *head = &self.head
        self.pass_hidden()
        if self.failure is not None or self.place >= self.end:
            if self.failure is None:
                self.failure = self.damage
            return False
        cdef pyconsumer_found found
        cdef bint is_done = self.job is not NULL and self.reach(head, &found)
        if self.check_crcs and not (found.has_right_crc if is_done else self.has_right_crc(head)):
            self.fail(head, "its checksum is wrong")
            return False
        origin = self.origin_of(head)
        try:
            if head.magic == 2:
                self.open_batch(head, found.result if is_done else -1)
            else:
                self.open_message_set(head, origin)
        except DamageError as error:
            self.fail(head, str(error))
            return False
        except UnsupportedCodecError as error:
            self.fail_unsupported(error)
            return False
        self.place += head.size
        self.current = head[0]
        self.is_open = True
        self.origin = origin
        self.delivering = False
        self.leader_epoch = head.leader_epoch
        if not self.remaining and not self.pending:
            self.finish_batch()
        return True

    cdef int open_batch(self, const BatchHeader *head, int result) except -1:
        """Prepare to decode a v2 batch. ``result`` is that of its decompression ahead, or -1."""
        cdef const uint8_t *start = self.data + head.position + BATCH_OVERHEAD
        cdef Py_ssize_t size = head.size - BATCH_OVERHEAD
        if head.attributes & CODEC_MASK and head.record_count and pyconsumer_serves(head.attributes & CODEC_MASK):
            self.unpack_batch(head, start, size, result)
            start = <const uint8_t *>self.unpacked
            size = self.unpacked_size
        elif head.attributes & CODEC_MASK and head.record_count:
            packed = memoryview(self.buffer())[head.position + BATCH_OVERHEAD : head.position + head.size]
            payload = decompress(head.attributes & CODEC_MASK, packed, self.max_decompressed_bytes)
            if type(payload) is not bytes:
                raise TypeError("a decompressor gave something else than bytes")
            check_count(head.record_count, PyBytes_GET_SIZE(payload))
            self.payload = payload
            start = <const uint8_t *>PyBytes_AS_STRING(payload)
            size = PyBytes_GET_SIZE(payload)
        elif <int64_t>head.record_count * 7 > size:
            check_count(head.record_count, size)
        self.at = start
        self.limit = start + size
        self.remaining = head.record_count
        return 0

    cdef int unpack_batch(self, const BatchHeader *head, const uint8_t *start, Py_ssize_t size, int result) except -1:
        """Decompress the records of a batch into ``unpacked``, unless that was done ahead."""
        cdef int codec = head.attributes & CODEC_MASK
        cdef size_t written = 0
        cdef Py_ssize_t capacity = 0
        cdef char *output
        if result < 0:
            output = unpack_into_new(codec, 2, start, size, self.most_unpacked, &written, &capacity, &result)
            if output is not NULL:
                self.drop_unpacked()
                self.unpacked = output
                self.unpacked_size = written
                self.unpacked_capacity = capacity
        if result != PYCONSUMER_UNPACKED:
            packed = memoryview(self.buffer())[head.position + BATCH_OVERHEAD : head.position + head.size]
            raise damage_of(codec, packed, self.max_decompressed_bytes, 2, result == PYCONSUMER_TOO_LARGE)
        try:
            check_count(head.record_count, self.unpacked_size)
        except BaseException:
            self.drop_unpacked()
            raise
        return 0

    cdef void drop_unpacked(self) noexcept:
        if self.unpacked is not NULL:
            if self.is_ahead:
                pyconsumer_give_back(<uint8_t *>self.unpacked, self.unpacked_capacity)
            else:
                give_memory(self.unpacked, self.unpacked_capacity)
            self.unpacked = NULL
            self.unpacked_size = self.unpacked_capacity = 0
            self.is_ahead = False

    cdef inline bint is_unpacked(self) noexcept:
        """Return whether the open batch was compressed."""
        return self.unpacked is not NULL or len(<bytes>self.payload) > 0

    cdef int open_message_set(self, const BatchHeader *head, origin) except -1:
        records, damage = decode_message_set(
            self.buffer(),
            self.info(head),
            self.next,
            self.check_crcs,
            self.max_decompressed_bytes,
            origin,
            make_record,
        )
        if damage is not None:
            raise DamageError(damage)
        records.reverse()
        self.pending = records
        self.remaining = 0
        return 0

    cdef object origin_of(self, const BatchHeader *head):
        """Return the origin of the batch's records, the same object as for the previous batch if it is equal."""
        cdef object origin = self.origin
        cdef int timestamp_type = timestamp_type_of(head)
        if (
            origin is None
            or <int32_t>(<object>PyTuple_GET_ITEM(origin, 2)) != head.leader_epoch
            or <int>(<object>PyTuple_GET_ITEM(origin, 3)) != timestamp_type
        ):
            topic, partition = self.topic_partition
            origin = RecordOrigin(topic, partition, head.leader_epoch, timestamp_type)
        return origin

    cdef int take_pending(self, list records, Py_ssize_t room, form) except -1:
        cdef list pending = self.pending
        cdef ConsumerRecord record
        while room > 0 and pending:
            record = <ConsumerRecord?>pending.pop()
            records.append(record if form is None else formed_of(form, record, record.key, record.value))
            self.next = record.offset_ + 1
            room -= 1
        if not pending:
            self.finish_batch()
        return 0

    @cython.nonecheck(False)  # each record passes it
    cdef int decode(self, list records, Py_ssize_t room, form) except -1:
        """Append up to ``room`` records of the open batch."""
        cdef RecordView found
        cdef ConsumerRecord record
        cdef const BatchHeader *head = &self.current
        cdef bint has_append_time = timestamp_type_of(head) == 1
        cdef object origin = self.origin
        cdef const uint8_t *before
        cdef Py_ssize_t distance = self.distance_ahead()
        cdef int result
        while room > 0 and self.remaining > 0:
            before = self.at
            result = read_record(&self.at, self.limit, head, self.next, not self.delivering, &found)
            if result == DAMAGED:
                return self.fail_at_record()
            if distance:
                prefetch(before + distance, self.at + distance, self.data + self.end)
            room -= 1
            self.remaining -= 1
            if result == PASSED:
                continue
            if form is not None:
                records.append(self.formed_view(form, &found))
                self.delivering = True
                self.next = found.offset + 1
                continue
            record = ConsumerRecord.__new__(ConsumerRecord)
            record.origin_ = origin
            record.offset_ = found.offset
            record.timestamp_ = head.max_timestamp if has_append_time else found.timestamp
            if found.key_length >= 0:
                record.key_ = PyBytes_FromStringAndSize(<const char *>found.key, found.key_length)
            record.key_size = <int32_t>found.key_length
            if found.value_length >= 0:
                record.value_ = PyBytes_FromStringAndSize(<const char *>found.value, found.value_length)
            record.value_size = <int32_t>found.value_length
            if found.headers_length:
                record.headers_ = PyBytes_FromStringAndSize(<const char *>found.headers, found.headers_length)
            records.append(record)
            self.delivering = True
            self.next = found.offset + 1
        if self.remaining == 0:
            self.end_batch()
        return 0

    cdef object formed_view(self, form, const RecordView *found):
        """Return a record of the open batch in another form than ours."""
        cdef const BatchHeader *head = &self.current
        cdef object key = None, value = None, headers = None
        if found.key_length >= 0:
            key = PyBytes_FromStringAndSize(<const char *>found.key, found.key_length)
        if found.value_length >= 0:
            value = PyBytes_FromStringAndSize(<const char *>found.value, found.value_length)
        if found.headers_length:
            headers = PyBytes_FromStringAndSize(<const char *>found.headers, found.headers_length)
        return formed(
            form,
            self.origin,
            found.offset,
            head.max_timestamp if timestamp_type_of(head) == 1 else found.timestamp,
            key,
            value,
            <int32_t>found.key_length,
            <int32_t>found.value_length,
            headers,
        )

    cdef inline Py_ssize_t distance_ahead(self) noexcept:
        """Return the distance from a record's bytes to the bytes of the next batch to prefetch; 0 for no prefetch.

        A checksum is computed faster than memory is read. So the next batch is fetched while this one is decoded.
        """
        cdef Py_ssize_t size = self.current.size
        if self.is_unpacked() or size > MOST_AHEAD or self.place + size > self.end:
            return 0
        return size

    cdef int expect(self, ColumnsBuilder columns, Py_ssize_t room, Py_ssize_t most_bytes) except -1:
        """Make room at once for the expected rows of the record set: growing step by step copies them several times."""
        cdef Py_ssize_t size = self.limit - self.at
        cdef Py_ssize_t count = self.remaining
        cdef Py_ssize_t bytes_per_record = size // max(count, 1) + 1
        if not self.is_unpacked():
            size += self.end - self.place  # the batches that follow are probably similar
        size = min(max(size, columns.expected), most_bytes + 2 * bytes_per_record, (room + 1) * bytes_per_record)
        columns.expected = 0
        if columns.values is not None and size > columns.values.data.capacity - columns.values.size:
            columns.values.grow(size)
        # The overhead of a record does not count towards the limit of keys and values, so more rows fit.
        bytes_per_record -= min(bytes_per_record - 1, bytes_per_record // 8 + 6)
        columns.reserve(min(size // bytes_per_record + 16, room, most_bytes // BYTES_PER_ROW + 1))
        return 0

    @cython.nonecheck(False)  # each record passes it
    cdef bint decode_columns(self, ColumnsBuilder columns, Py_ssize_t room, Py_ssize_t most) except -1:
        """Append up to ``room`` records of the open batch to columns. Return True if these are full, or on damage."""
        cdef RecordView found
        cdef const BatchHeader *head = &self.current
        cdef bint has_append_time = timestamp_type_of(head) == 1
        cdef int32_t timestamp_type = timestamp_type_of(head)
        cdef ByteStrings keys = columns.keys, values = columns.values
        cdef bint has_headers = columns.header_offsets is not None
        cdef bint is_plain = True  # the last row had no headers
        cdef const uint8_t *before
        cdef Py_ssize_t distance = self.distance_ahead()
        cdef int result
        room = min(room, self.remaining)
        columns.reserve(room)
        while room > 0 and columns.heaviness() < most:
            if is_plain:
                room -= self.decode_plain_rows(columns, room, most)
                if room <= 0 or columns.heaviness() >= most:
                    break
            # One row, which may have headers, or be skipped or damaged.
            before = self.at
            result = read_record(&self.at, self.limit, head, self.next, not self.delivering, &found)
            if result == DAMAGED:
                self.fail_at_record()
                return True
            if distance:
                prefetch(before + distance, self.at + distance, self.data + self.end)
            if result == GOOD:
                if not columns.has_room(&found):
                    self.at = before
                    return True
                columns.add_numbers(
                    found.offset,
                    head.max_timestamp if has_append_time else found.timestamp,
                    timestamp_type,
                    head.leader_epoch,
                )
                if keys is not None:
                    keys.append(found.key, found.key_length)
                if values is not None:
                    values.append(found.value, found.value_length)
                if has_headers:
                    columns.add_headers(found.headers, found.headers_length)
                    is_plain = found.headers_length == 0
                columns.end_row()
                self.delivering = True
                self.next = found.offset + 1
            room -= 1
            self.remaining -= 1
        if self.remaining == 0:
            self.end_batch()
        return False

    @cython.nonecheck(False)  # each record passes it
    cdef Py_ssize_t decode_plain_rows(self, ColumnsBuilder columns, Py_ssize_t room, Py_ssize_t most) noexcept:
        """Append rows up to the first that needs more than a copy, such as one with headers. Return their number."""
        cdef RecordView found
        cdef Strings keys, values
        cdef const BatchHeader *head = &self.current
        cdef const uint8_t *at = self.at
        cdef const uint8_t *limit = self.limit
        cdef const uint8_t *data_end = self.data + self.end
        cdef const uint8_t *before
        cdef int64_t *offsets = <int64_t *>columns.offsets.start
        cdef int64_t *timestamps = <int64_t *>columns.timestamps.start
        cdef int64_t lowest = self.next
        cdef bint has_append_time = timestamp_type_of(head) == 1
        cdef bint has_keys = columns.keys is not None, has_values = columns.values is not None
        cdef bint has_headers = columns.header_offsets is not None
        cdef Py_ssize_t distance = self.distance_ahead()
        cdef Py_ssize_t first = columns.count, row = first, end = first + room
        memset(&keys, 0, sizeof(keys))
        memset(&values, 0, sizeof(values))
        if has_keys:
            keys = strings_of(columns.keys)
        if has_values:
            values = strings_of(columns.values)
        while row < end and keys.size + values.size < most:
            before = at
            if read_record(&at, limit, head, lowest, False, &found) != GOOD:
                break
            if found.headers_length and has_headers:
                at = before
                break
            if distance:
                prefetch(before + distance, at + distance, data_end)
            # Keys come first: if the value has no room, the key will be written again.
            if has_keys and not add_string(&keys, row, found.key, found.key_length, limit):
                at = before
                break
            if has_values and not add_string(&values, row, found.value, found.value_length, limit):
                if has_keys:
                    keys.size = keys.ends[row]
                    keys.nulls -= found.key_length < 0
                at = before
                break
            offsets[row] = found.offset
            timestamps[row] = head.max_timestamp if has_append_time else found.timestamp
            lowest = found.offset + 1
            row += 1
        if row > first:
            self.at = at
            self.next = lowest
            self.delivering = True
            self.remaining -= <int32_t>(row - first)
            columns.add_same(row, timestamp_type_of(head), head.leader_epoch)
            if has_keys:
                take_over(columns.keys, &keys, row)
            if has_values:
                take_over(columns.values, &values, row)
        return row - first

    cdef int end_batch(self) except -1:
        """End the open batch after its last record. Set ``failure`` if bytes are left."""
        if self.at == self.limit:
            self.finish_batch()
        else:
            self.fail(&self.current, f"{self.limit - self.at} bytes are left after its last record")
        return 0

    cdef int finish_batch(self) except -1:
        self.next = max(self.next, self.current.last_offset + 1)
        self.leader_epoch = self.current.leader_epoch
        self.is_open = False
        self.drop_unpacked()
        self.payload = b""
        self.at = self.limit = NULL
        self.pending = []
        self.remaining = 0
        return 0

    # --- damage

    cdef int fail(self, const BatchHeader *head, reason) except -1:
        self.failure = batch_error(
            self.topic_partition, head.base_offset, head.last_offset, head.magic, self.next, reason
        )
        return 0

    cdef int fail_unsupported(self, error) except -1:
        self.failure = UnsupportedCodecError(f"{self.topic_partition} at offset {self.next}: {error}")
        return 0

    cdef int fail_at_record(self) except -1:
        """Set the error of the next record, which is damaged: the decoder in Python describes it."""
        cdef bytes rest = PyBytes_FromStringAndSize(<const char *>self.at, self.limit - self.at)
        damage = decode_records(
            rest, 0, 1, self.info(&self.current), self.next, not self.delivering, self.origin, []
        )[2]
        return self.fail(&self.current, damage or "a record is damaged")

    # --- batches that are not delivered

    cdef int pass_hidden(self) except -1:
        """Skip batches below the position, control batches, and batches of aborted transactions."""
        cdef const BatchHeader *head = &self.head
        while self.place < self.end and self.failure is None:
            self.read_head()
            if head.producer_id >= 0 and self.aborted:
                self.start_aborting(head.last_offset)
            if is_control(head):
                if not self.pass_control(head):
                    return 0
            elif head.last_offset >= self.next:
                if not (self.aborting and is_transactional(head) and head.producer_id in self.aborting):
                    return 0
                if self.check_crcs and not self.has_right_crc(head):
                    self.fail(head, "its checksum is wrong")
                    return 0
            self.place += head.size
            if head.last_offset >= self.next:
                self.next = head.last_offset + 1
                self.leader_epoch = head.leader_epoch
        return 0

    cdef int start_aborting(self, int64_t last_offset) except -1:
        while self.aborted and self.aborted[len(self.aborted) - 1][1] <= last_offset:
            self.aborting.add(self.aborted.pop()[0])
        return 0

    cdef bint pass_control(self, const BatchHeader *head) except -1:
        if self.check_crcs and not self.has_right_crc(head):
            self.fail(head, "its checksum is wrong")
            return False
        if not self.aborting or head.producer_id not in self.aborting:
            return True
        try:
            if aborts(self.buffer(), self.info(head), self.max_decompressed_bytes):
                self.aborting.discard(head.producer_id)
            return True
        except DamageError as error:
            self.fail(head, str(error))
        except UnsupportedCodecError as error:
            self.fail_unsupported(error)
        return False


cdef inline bint is_queued(const BatchHeader *header) noexcept nogil:
    """Return whether a batch is decompressed ahead: records in zstd. Other codecs are not worth the overhead."""
    return (
        header.attributes & CODEC_MASK == PYCONSUMER_ZSTD
        and header.magic == 2
        and header.record_count != 0
        and not is_control(header)
        and pyconsumer_serves(PYCONSUMER_ZSTD)
    )


def first_offset(aborted):
    return aborted[1]
