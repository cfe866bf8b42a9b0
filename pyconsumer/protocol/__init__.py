"""Kafka's wire protocol and record formats: encoding values to bytes, and decoding them.

No I/O, no clock, no threads. Clients and the embedded broker use the same code. All input is untrusted: if it violates
the protocol, :class:`pyconsumer.errors.ProtocolError` alone is raised. For record batches it is
:class:`pyconsumer.errors.CorruptRecordError`, or UnsupportedCodecError for an unknown compression type. State: codecs
and message classes, cached for the process.
"""
