"""Bytes to values and back: Kafka's wire protocol and record formats.

No I/O, no clock, no thread. Clients and the embedded broker use the same code. Everything that is read is untrusted:
whatever does not follow the protocol raises :class:`pyconsumer.errors.ProtocolError`, and nothing else.
"""
