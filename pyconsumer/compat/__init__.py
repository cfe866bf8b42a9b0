"""Names and habits of other clients, thin layers over ours, so that a port of a program is one import.

:mod:`pyconsumer.compat.kafka` stands for kafka-python.
"""
