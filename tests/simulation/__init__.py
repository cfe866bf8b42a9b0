"""Groups in simulated time: whole schedules of faults, each made by one seed and replayed exactly by it.

Real parts: ``ConsumerCoordinator`` with everything below it (membership core, rebalancer, commits, discovery, the
heartbeat thread's rules) and ``GroupCoordinator`` with its log in Kafka's format. Simulated parts: the clock, the
network, the threads, the brokers' lives and the applications. One thread runs it all.

* :mod:`.network` - connections with delays that break, swallow, and deliver late.
* :mod:`.brokers` - two brokers over one log. One of them coordinates the group.
* :mod:`.member` - a consumer and its application.
* :mod:`.rules` - the rules, checked at each step. :mod:`.waiting` - the rule of the delayed assignor.
* :mod:`.world` - time, the schedule of faults, the trace.
* :mod:`.broken` - rules broken on purpose, to see that the simulation notices.

``python -m tests.simulation --protocol eager --seed 17`` replays one schedule and prints its trace if a rule is broken.

Protocols: eager, static (eager, with instance ids), cooperative and delayed (cooperative, and the partitions of a
vanished member wait for it). Half of the delayed groups have instance ids, and some have members without that assignor.
In one schedule of ten all messages go as bytes.
"""
