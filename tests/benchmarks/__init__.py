"""Benchmarks: pyconsumer beside other clients, on one broker, in one run. They report; no test asserts a time.

``python -m tests.benchmarks`` (or ``tox -e bench``) runs all of them and writes ``docs/benchmarks.md``. Only ratios
within one run mean anything: absolute figures move with the machine and with what else it does.
"""
