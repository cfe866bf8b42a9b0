"""The log of one partition: record batches in segments, their indexes, and what recovery needs.

Nothing here knows a request, a socket or an event loop. Batches are stored as they were received, except for the base
offset, the leader epoch and, with ``message.timestamp.type=LogAppendTime``, the timestamp. Files have Apache Kafka's
formats, so that its ``DumpLogSegments`` reads them.
"""
