"""The APIs of other clients as thin layers over ours, so that porting a program takes only a change of its imports.

:mod:`pyconsumer.compat.kafka` replaces kafka-python, and :mod:`pyconsumer.compat.aiokafka` aiokafka.
"""
