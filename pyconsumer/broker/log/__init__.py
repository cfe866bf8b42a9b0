"""The log of one partition: record batches in segments, their indexes, and what recovery needs.

Nothing here knows a request, a socket or an event loop. Batches are stored as they were received; only their place
(base offset, leader epoch, and the timestamp where the topic says so) is written into them. Files are those of Apache
Kafka, so that its ``DumpLogSegments`` reads them.
"""
