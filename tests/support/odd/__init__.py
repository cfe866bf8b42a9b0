"""Odd requests: mistakes of clients, and the answers of Apache Kafka, kept as a table.

The modules for each area have a table of inputs, ``CASES``: the words for an input, and a function that sends it and
returns the answer in words. ``python -m tests.support.odd`` asks Apache Kafka for all answers and writes them to
``tests/vectors/odd_requests.tsv``, and ``python -m tests.support.odd --ours`` prints where the embedded broker differs.
"""
