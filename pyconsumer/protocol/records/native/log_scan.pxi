# The scan of a broker's log: bounds, indexes, leader epochs, producers. The twin is ``log_scan.LogScan``.

from array import array

from libc.stdlib cimport calloc, realloc

cdef enum:
    KEPT_BATCHES = 5
    FEWEST_SLOTS = 64

cdef enum:  # the numbers of ``log_scan.ScanStop``
    SCAN_NONE = 0
    SCAN_INCOMPLETE = 1
    SCAN_HEADER = 2
    SCAN_CHECKSUM = 3
    SCAN_ORDER = 4
    SCAN_FORMAT = 5
    SCAN_NO_MEMORY = 100
    SCAN_MARKER = 101  # Python has to read it

cdef enum:
    NOT_OPEN = -1


cdef struct Numbers:
    int64_t *data
    Py_ssize_t size
    Py_ssize_t capacity


cdef struct ScannedProducer:
    int64_t producer_id
    int64_t last_timestamp
    int64_t txn_first_offset
    int64_t last_offsets[KEPT_BATCHES]
    int64_t timestamps[KEPT_BATCHES]
    int32_t last_sequences[KEPT_BATCHES]
    int32_t deltas[KEPT_BATCHES]
    int32_t coordinator_epoch
    int32_t epoch
    int32_t batches  # how many, at most KEPT_BATCHES
    int32_t oldest  # the index of the first of them
    Py_ssize_t before_open  # neighbours among the producers with an open transaction, in the order of offsets
    Py_ssize_t after_open


cdef int push(Numbers *numbers, int64_t number) noexcept nogil:
    cdef Py_ssize_t capacity
    cdef int64_t *grown
    if numbers.size == numbers.capacity:
        capacity = numbers.capacity * 2 if numbers.capacity else 64
        grown = <int64_t *>realloc(numbers.data, capacity * sizeof(int64_t))
        if grown is NULL:
            return -1
        numbers.data = grown
        numbers.capacity = capacity
    numbers.data[numbers.size] = number
    numbers.size += 1
    return 0


cdef object numbers_array(const Numbers *numbers):
    found = array("q")
    if numbers.size:
        found.frombytes(PyBytes_FromStringAndSize(<const char *>numbers.data, numbers.size * sizeof(int64_t)))
    return found


cdef int read_marker(const uint8_t *batch, const BatchHeader *header, int *kind, int32_t *epoch) noexcept nogil:
    """Read an end marker: ``kind`` is 0 for abort, 1 for commit, -1 for none. Anything unusual is left to Python."""
    cdef const uint8_t *at = batch + BATCH_OVERHEAD
    cdef RecordView record
    kind[0] = -1
    if header.record_count == 0:
        return GOOD
    if header.attributes & CODEC_MASK:
        return DAMAGED
    if read_record(&at, batch + header.size, header, header.base_offset, False, &record) != GOOD:
        return DAMAGED
    if record.key_length < 4 or record.key[0] & 0x80:
        return DAMAGED
    if record.key[2] or record.key[3] > 1:
        return GOOD  # a control record of another type
    if record.value_length < 6 or record.value[0] & 0x80:
        return DAMAGED
    kind[0] = record.key[3]
    epoch[0] = i32_at(record.value + 2)
    return GOOD


@cython.final
cdef class LogScan:
    """See ``log_scan.LogScan``."""

    cdef readonly int64_t base_offset
    cdef readonly int64_t next_offset
    cdef readonly int64_t position
    cdef readonly int64_t last_batch_position
    cdef readonly int64_t since_index
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t max_timestamp_offset
    cdef readonly int64_t first_timestamp
    cdef readonly int stop
    cdef int64_t interval
    cdef int64_t latest_epoch
    cdef int64_t producers_from
    cdef int64_t last_indexed_timestamp
    cdef Numbers offset_numbers
    cdef Numbers time_numbers
    cdef Numbers epoch_numbers
    cdef Numbers aborted_numbers
    cdef Numbers ended_numbers
    cdef ScannedProducer *producer_list
    cdef Py_ssize_t producer_count
    cdef Py_ssize_t producer_capacity
    cdef Py_ssize_t *slots  # index into the list + 1, 0 if free
    cdef Py_ssize_t slot_count
    cdef Py_ssize_t first_open
    cdef Py_ssize_t last_open

    def __cinit__(self):
        self.first_open = self.last_open = NOT_OPEN
        self.latest_epoch = self.last_indexed_timestamp = self.max_timestamp = self.first_timestamp = -1
        self.last_batch_position = -1

    def __init__(self, int64_t index_interval_bytes, int64_t latest_epoch=-1, int64_t producers_from=0):
        self.interval = index_interval_bytes
        self.latest_epoch = latest_epoch
        self.producers_from = producers_from

    def __dealloc__(self):
        free(self.offset_numbers.data)
        free(self.time_numbers.data)
        free(self.epoch_numbers.data)
        free(self.aborted_numbers.data)
        free(self.ended_numbers.data)
        free(self.producer_list)
        free(self.slots)

    # --- the producers

    cdef Py_ssize_t find(self, int64_t producer_id, int32_t epoch) noexcept nogil:
        """Return the index of a producer, which is added if it is unknown; -1 if there is no memory."""
        cdef Py_ssize_t slot, index, capacity
        cdef ScannedProducer *grown
        cdef ScannedProducer *producer
        if 2 * (self.producer_count + 1) > self.slot_count and self.more_slots() < 0:
            return -1
        slot = self.slot_of(producer_id)
        if self.slots[slot]:
            return self.slots[slot] - 1
        if self.producer_count == self.producer_capacity:
            capacity = self.producer_capacity * 2 if self.producer_capacity else 16
            grown = <ScannedProducer *>realloc(self.producer_list, capacity * sizeof(ScannedProducer))
            if grown is NULL:
                return -1
            self.producer_list = grown
            self.producer_capacity = capacity
        index = self.producer_count
        producer = &self.producer_list[index]
        memset(producer, 0, sizeof(ScannedProducer))
        producer.producer_id = producer_id
        producer.epoch = epoch
        producer.last_timestamp = producer.coordinator_epoch = -1
        producer.txn_first_offset = -1
        producer.before_open = producer.after_open = NOT_OPEN
        self.producer_count = self.producer_count + 1
        self.slots[slot] = index + 1
        return index

    cdef Py_ssize_t slot_of(self, int64_t producer_id) noexcept nogil:
        cdef uint64_t mixed = <uint64_t>producer_id * <uint64_t>0x9E3779B97F4A7C15
        cdef Py_ssize_t slot = <Py_ssize_t>((mixed >> 32) & <uint64_t>(self.slot_count - 1))
        while self.slots[slot] and self.producer_list[self.slots[slot] - 1].producer_id != producer_id:
            slot = (slot + 1) & (self.slot_count - 1)
        return slot

    cdef int more_slots(self) noexcept nogil:
        cdef Py_ssize_t *before = self.slots
        cdef Py_ssize_t count = self.slot_count * 2 if self.slot_count else FEWEST_SLOTS
        cdef Py_ssize_t *fresh = <Py_ssize_t *>calloc(count, sizeof(Py_ssize_t))
        cdef Py_ssize_t index
        if fresh is NULL:
            return -1
        self.slots = fresh
        self.slot_count = count
        for index in range(self.producer_count):
            self.slots[self.slot_of(self.producer_list[index].producer_id)] = index + 1
        free(before)
        return 0

    cdef void open_transaction(self, Py_ssize_t index, int64_t offset) noexcept nogil:
        cdef ScannedProducer *producer = &self.producer_list[index]
        producer.txn_first_offset = offset
        producer.before_open = self.last_open
        producer.after_open = NOT_OPEN
        if self.last_open == NOT_OPEN:
            self.first_open = index
        else:
            self.producer_list[self.last_open].after_open = index
        self.last_open = index

    cdef void close_transaction(self, Py_ssize_t index) noexcept nogil:
        cdef ScannedProducer *producer = &self.producer_list[index]
        producer.txn_first_offset = -1
        if producer.before_open == NOT_OPEN:
            self.first_open = producer.after_open
        else:
            self.producer_list[producer.before_open].after_open = producer.after_open
        if producer.after_open == NOT_OPEN:
            self.last_open = producer.before_open
        else:
            self.producer_list[producer.after_open].before_open = producer.before_open
        producer.before_open = producer.after_open = NOT_OPEN

    cdef void add_batch(
        self, ScannedProducer *producer, int32_t last_sequence, int64_t last_offset, int32_t delta, int64_t timestamp
    ) noexcept nogil:
        cdef int32_t place = (producer.oldest + producer.batches) % KEPT_BATCHES
        if producer.batches == KEPT_BATCHES:
            producer.oldest = (producer.oldest + 1) % KEPT_BATCHES
        else:
            producer.batches += 1
        producer.last_sequences[place] = last_sequence
        producer.last_offsets[place] = last_offset
        producer.deltas[place] = delta
        producer.timestamps[place] = timestamp

    cdef int set_epoch(self, ScannedProducer *producer, int32_t epoch) noexcept nogil:
        if producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches = producer.oldest = 0

    cdef int add_data(self, const uint8_t *batch, const BatchHeader *header, int32_t epoch) noexcept nogil:
        cdef Py_ssize_t index = self.find(header.producer_id, epoch)
        cdef ScannedProducer *producer
        cdef int32_t sequence = i32_at(batch + 53), delta = i32_at(batch + 23)
        if index < 0:
            return SCAN_NO_MEMORY
        producer = &self.producer_list[index]
        self.set_epoch(producer, epoch)
        sequence = -1 if sequence < 0 else <int32_t>((<int64_t>sequence + delta) & 0x7FFFFFFF)
        self.add_batch(producer, sequence, header.last_offset, delta, header.max_timestamp)
        producer.last_timestamp = header.max_timestamp
        if header.attributes & TRANSACTIONAL_FLAG and producer.txn_first_offset < 0:
            self.open_transaction(index, header.base_offset)
        return SCAN_NONE

    cdef int end_transaction(
        self, const BatchHeader *header, int32_t epoch, int kind, int32_t coordinator_epoch
    ) noexcept nogil:
        cdef Py_ssize_t index = self.find(header.producer_id, epoch)
        cdef ScannedProducer *producer
        cdef int64_t first, stable
        if index < 0:
            return SCAN_NO_MEMORY
        producer = &self.producer_list[index]
        self.set_epoch(producer, epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        first = producer.txn_first_offset
        if first < 0:
            return SCAN_NONE
        self.close_transaction(index)
        if push(&self.ended_numbers, first) < 0 or push(&self.ended_numbers, header.last_offset) < 0:
            return SCAN_NO_MEMORY
        if kind:
            return SCAN_NONE
        stable = header.last_offset + 1
        if self.first_open != NOT_OPEN:
            stable = self.producer_list[self.first_open].txn_first_offset
        if (
            push(&self.aborted_numbers, header.producer_id) < 0
            or push(&self.aborted_numbers, first) < 0
            or push(&self.aborted_numbers, header.last_offset) < 0
            or push(&self.aborted_numbers, stable) < 0
        ):
            return SCAN_NO_MEMORY
        return SCAN_NONE

    cdef int add_to_producers(self, const uint8_t *batch, const BatchHeader *header) noexcept nogil:
        cdef int32_t epoch = <int16_t>(<int>batch[51] << 8 | batch[52])
        cdef int32_t coordinator_epoch = -1
        cdef int kind = -1
        if not header.attributes & CONTROL_FLAG:
            return self.add_data(batch, header, epoch)
        if read_marker(batch, header, &kind, &coordinator_epoch) != GOOD:
            return SCAN_MARKER
        if kind < 0:
            return SCAN_NONE
        return self.end_transaction(header, epoch, kind, coordinator_epoch)

    # --- the rest

    cdef int add_to_index(self, const BatchHeader *header) noexcept nogil:
        if header.max_timestamp > self.max_timestamp and header.record_count:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = header.last_offset
        if self.position == 0:
            self.first_timestamp = header.max_timestamp
        if self.since_index > self.interval:
            if push(&self.offset_numbers, header.last_offset) < 0 or push(&self.offset_numbers, self.position) < 0:
                return SCAN_NO_MEMORY
            if self.max_timestamp >= 0 and self.max_timestamp > self.last_indexed_timestamp:
                if (
                    push(&self.time_numbers, self.max_timestamp) < 0
                    or push(&self.time_numbers, self.max_timestamp_offset) < 0
                ):
                    return SCAN_NO_MEMORY
                self.last_indexed_timestamp = self.max_timestamp
            self.since_index = 0
        self.since_index = self.since_index + header.size
        if header.leader_epoch > self.latest_epoch:
            self.latest_epoch = header.leader_epoch
            if push(&self.epoch_numbers, header.leader_epoch) < 0 or push(&self.epoch_numbers, header.base_offset) < 0:
                return SCAN_NO_MEMORY
        self.last_batch_position = self.position
        self.position = self.position + header.size
        self.next_offset = header.last_offset + 1
        return SCAN_NONE

    cdef int run(
        self, const uint8_t *data, Py_ssize_t size, bint check_crcs, Py_ssize_t *place, BatchHeader *header
    ) noexcept nogil:
        """Read batches from ``place[0]`` on, which moves. If Python has to read a marker, it stays at that batch."""
        cdef int found
        while place[0] < size:
            found = read_header(data, size, place[0], header)
            if found == NOTHING:
                return SCAN_INCOMPLETE
            if found != GOOD:
                return SCAN_HEADER
            if header.magic != 2:
                return SCAN_FORMAT
            if header.base_offset < self.next_offset or header.last_offset - self.base_offset > 0x7FFFFFFF:
                return SCAN_ORDER
            if check_crcs and crc32c_of(
                data + place[0] + CRC_START, header.size - CRC_START, 0, True
            ) != header.crc:
                return SCAN_CHECKSUM
            if header.producer_id >= 0 and header.last_offset >= self.producers_from:
                found = self.add_to_producers(data + place[0], header)
                if found != SCAN_NONE:
                    return found
            found = self.add_to_index(header)
            if found != SCAN_NONE:
                return found
            place[0] += header.size
        return SCAN_NONE

    def feed(self, data, bint check_crcs=True):
        """See the twin."""
        cdef Py_buffer view
        cdef BatchHeader header
        cdef Py_ssize_t place = 0
        cdef int stop
        memset(&header, 0, sizeof(header))
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            while True:
                # With the interpreter's lock: a piece takes a millisecond, and no other thread can change the state.
                stop = self.run(<const uint8_t *>view.buf, view.len, check_crcs, &place, &header)
                if stop == SCAN_NO_MEMORY:
                    raise MemoryError()
                if stop != SCAN_MARKER:
                    self.stop = stop
                    return place
                (info,) = scan(bytes(memoryview(data)[place : place + header.size]))
                marker = read_end_transaction_marker(memoryview(data)[place : place + header.size], info)
                if marker is not None and self.end_transaction(
                    &header, info.producer_epoch, marker.type == 1, marker.coordinator_epoch
                ) != SCAN_NONE:
                    raise MemoryError()
                if self.add_to_index(&header) != SCAN_NONE:
                    raise MemoryError()
                place += header.size
        finally:
            PyBuffer_Release(&view)

    def begin_segment(self, int64_t base_offset):
        """See the twin."""
        self.resume_segment(base_offset, base_offset, 0, -1, base_offset, -1)

    def resume_segment(
        self,
        int64_t base_offset,
        int64_t next_offset,
        int64_t position,
        int64_t max_timestamp,
        int64_t max_timestamp_offset,
        int64_t first_timestamp,
    ):
        """See the twin."""
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.position = position
        self.max_timestamp = self.last_indexed_timestamp = max_timestamp
        self.max_timestamp_offset = max_timestamp_offset
        self.first_timestamp = first_timestamp
        self.since_index = 0
        self.last_batch_position = -1
        self.stop = SCAN_NONE
        self.offset_numbers.size = self.time_numbers.size = self.aborted_numbers.size = 0

    def add_producer(
        self,
        int64_t producer_id,
        int32_t epoch,
        int32_t coordinator_epoch,
        int64_t last_timestamp,
        int64_t txn_first_offset,
        batches,
    ):
        """See the twin."""
        cdef Py_ssize_t index = self.find(producer_id, epoch)
        cdef ScannedProducer *producer
        if index < 0:
            raise MemoryError()
        producer = &self.producer_list[index]
        self.set_epoch(producer, epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = last_timestamp
        for last_sequence, last_offset, delta, timestamp in batches:
            self.add_batch(producer, last_sequence, last_offset, delta, timestamp)
        if txn_first_offset >= 0 and producer.txn_first_offset < 0:
            self.open_transaction(index, txn_first_offset)

    def offset_entries(self):
        """See the twin."""
        found = numbers_array(&self.offset_numbers)
        return found[::2], found[1::2]

    def time_entries(self):
        """See the twin."""
        found = numbers_array(&self.time_numbers)
        return found[::2], found[1::2]

    def epochs(self):
        """See the twin."""
        found = numbers_array(&self.epoch_numbers)
        return list(zip(found[::2], found[1::2]))

    def aborted(self):
        """See the twin."""
        found = numbers_array(&self.aborted_numbers)
        return list(zip(found[::4], found[1::4], found[2::4], found[3::4]))

    def ended(self):
        """See the twin."""
        found = numbers_array(&self.ended_numbers)
        return dict(zip(found[::2], found[1::2]))

    def producers(self):
        """See the twin."""
        cdef Py_ssize_t index
        cdef int32_t i, place
        cdef ScannedProducer *producer
        found = []
        for index in range(self.producer_count):
            producer = &self.producer_list[index]
            batches = []
            for i in range(producer.batches):
                place = (producer.oldest + i) % KEPT_BATCHES
                batches.append((
                    producer.last_sequences[place],
                    producer.last_offsets[place],
                    producer.deltas[place],
                    producer.timestamps[place],
                ))
            found.append((
                producer.producer_id,
                producer.epoch,
                producer.coordinator_epoch,
                producer.last_timestamp,
                producer.txn_first_offset,
                batches,
            ))
        return found
