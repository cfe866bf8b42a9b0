"""The log of one partition: record batches in segments, their indexes, and the files that recovery needs.

The package knows no request, socket or event loop. Batches are stored as they were received, except for the base
offset, the leader epoch, timestamps that the broker sets or corrects, and the topic's ``compression.type``. Files have
Apache Kafka's formats, so that its ``DumpLogSegments`` reads them.
"""
