"""Behaviour over real sockets, on the embedded broker and on Apache Kafka alike."""
