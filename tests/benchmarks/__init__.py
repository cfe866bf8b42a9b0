"""Benchmarks: pyconsumer beside other clients, on one broker, in one run. They report. No test asserts a time.

``python -m tests.benchmarks`` (or ``tox -e bench``) runs them and writes ``docs/benchmarks.md``. Only ratios within one
run mean anything: absolute figures move with the machine and with what else it does. With ``--results FILE`` each run
is kept at once. The same command continues after an abort, and ``--report-only`` makes the pages again.

``workloads`` lists what is measured. ``clients`` puts the Python clients behind one interface, and ``client_program``
is what each of them is made to do. ``BenchmarkConsumer.java`` and ``franz/benchmark`` in ``tests/support`` do the same.
``TopicWriter.java`` writes the topics and says what is in them: nobody's reading is the measure of another's.

``python -m tests.benchmarks.pairs BEFORE`` tells whether a change made anything slower.
"""
