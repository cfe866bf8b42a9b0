"""Random schedules of transactions: programs that consume, transform and produce, on three brokers that fail.

All code but time, disks and sockets is that of production: the producer's sender with its accumulator and
transaction manager, and brokers with their handlers, logs, replication, group and transaction coordinators.

``python -m tests.simulation.transactions --version 2 --seed 17`` replays a schedule.
"""
