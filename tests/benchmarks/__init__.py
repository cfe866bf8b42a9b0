"""Benchmarks: pyconsumer beside other clients, on one broker, in one run. They report. No test asserts a time.

``python -m tests.benchmarks`` (or ``tox -e bench``) runs them and writes ``docs/benchmarks.md``. Only ratios within one
run mean anything: absolute figures vary with the machine and its load. With ``--results FILE`` each run
is kept at once. The same command continues after an abort, and ``--report-only`` makes the pages again.

``workloads`` lists the measurements. ``clients`` puts the Python clients behind one interface, and each of them runs
``client_program``. ``BenchmarkConsumer.java`` and ``franz/benchmark`` in ``tests/support`` do the same.
``TopicWriter.java`` writes the topics and reports their contents, so no client is checked against another one.

``python -m tests.benchmarks.pairs BEFORE`` shows whether a change made anything slower, and
``python -m tests.benchmarks.instructions BEFORE`` how many instructions of a call it added.
"""
