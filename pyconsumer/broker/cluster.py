"""``EmbeddedCluster``, the public class: starts and stops a cluster for a program or a test.

It runs in a child process, so that it can be killed like a real one and does not compete with the program for the
interpreter lock. Tests that do not need that run it in a thread. The child ends when the pipe from its parent closes,
so it never outlives the parent.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyconsumer.acls import AclBinding, parse_acl
from pyconsumer.broker.access.authorizer import STANDARD_AUTHORIZER
from pyconsumer.broker.access.recorder import AccessRecord, Question
from pyconsumer.broker.access.store import acl_to_json
from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.host import REGISTRY, ClusterOptions, token_settings
from pyconsumer.broker.listener_addresses import LISTENERS, addresses_of, reachable
from pyconsumer.broker.logins import MECHANISMS
from pyconsumer.broker.ports import HeldPorts, hold_ports
from pyconsumer.broker.runners import Deadlines, ProcessRunner, Runner, ThreadRunner
from pyconsumer.broker.security import SecurityConfig
from pyconsumer.errors import ConfigurationError, IllegalStateError, KafkaTimeoutError
from pyconsumer.quotas import QuotaEntity
from pyconsumer.settings.jaas import quoted
from pyconsumer.structs import Address

__all__ = ["ClusterFaults", "EmbeddedCluster"]


class EmbeddedCluster:
    """A Kafka cluster on this machine. As a context manager it starts and stops by itself.

    Args:
        brokers: the number of brokers. Their node ids are 0, 1, and so on. All brokers run in one process. Each has its
            own listeners and files, and they replicate to each other.
        data_dir: the folder for the data. None: a temporary folder that :meth:`stop` removes. ``":memory:"``: no files.
        config: broker settings by Kafka's names, such as ``{"num.partitions": 3}``.
        broker_configs: settings of single brokers by node id, such as ``{1: {"broker.rack": "b"}}``. They go before
            ``config``. Other settings than the rack must be ones that Kafka lets a single broker change while it runs.
        features: versions of features, such as ``{"transaction.version": 1}``. By default the newest versions.
        host: the address to listen on.
        port: port of the first broker's first listener. The other listeners get the next ports. 0 picks free ports.
        listeners: any of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, or names of your own whose protocols are in the
            setting ``listener.security.protocol.map``. ``bootstrap_servers`` has the addresses of the first of them.
            The setting ``listeners`` also has addresses and ports, and ``advertised.listeners`` those for clients.
            The default is PLAINTEXT, or with ``users`` or ``oauth`` SASL_PLAINTEXT.
        ssl_certfile, ssl_keyfile: PEM files for the TLS listeners. The certificate's file may also contain the key.
        ssl_client_cafile: a PEM file with an authority. Clients must then present a certificate of this authority.
        users: passwords by name, for the SASL listeners (mechanisms PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512). For SCRAM
            they are users as those that ``alter_user_scram_credentials`` creates. See :meth:`login`.
        acls: rules for what users may do, as :class:`~pyconsumer.acls.AclBinding` or as lines such as
            ``"alice: READ topic orders"`` (see :func:`~pyconsumer.acls.parse_acl`). With a list, even an empty one, the
            brokers have an authorizer, and everything that no rule allows is denied.
        quotas: bounds of what clients may do, such as ``{QuotaEntity(user="alice"): {"producer_byte_rate": 100_000}}``
            (see :mod:`pyconsumer.quotas`). They are set at each start.
        oauth: settings for tokens (SASL OAUTHBEARER) by Kafka's names without ``sasl.oauthbearer.``, such as
            ``{"jwks.endpoint.url": "https://...", "expected.audience": "kafka"}``. ``{"unsecured": True}`` accepts
            tokens without a signature, for tests.
        sasl_users: the same as ``users`` for the mechanism PLAIN alone.
        schema_registry: also run a Schema Registry with Confluent's REST API, at :attr:`schema_registry_url`. It keeps
            its schemas in the topic ``_schemas``.
        schema_registry_port: its port. 0 picks a free one.
        schema_registry_users: passwords by name for its basic login. None: no login.
        in_thread: True runs the brokers in a thread of this process, instead of a child process.
        start_timeout_ms: the longest time for :meth:`start`, :meth:`restart` and :meth:`restart_broker`, in ms. After a
            crash the brokers first read their logs from the last flush on, some hundred megabytes a second.
        stop_timeout_ms: after this time (ms) :meth:`stop` kills the brokers. At the next start they must then recover
            their logs.

    Raises:
        ConfigurationError: a setting is unknown or contradicts another one.
    """

    def __init__(
        self,
        brokers: int = 1,
        data_dir: str | os.PathLike[str] | None = None,
        config: Mapping[str, object] | None = None,
        *,
        broker_configs: Mapping[int, Mapping[str, object]] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        listeners: Sequence[str] | None = None,
        ssl_certfile: str | os.PathLike[str] | None = None,
        ssl_keyfile: str | os.PathLike[str] | None = None,
        ssl_client_cafile: str | os.PathLike[str] | None = None,
        users: Mapping[str, str] | None = None,
        acls: Sequence[AclBinding | str] | None = None,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]] | None = None,
        oauth: Mapping[str, object] | None = None,
        sasl_users: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        schema_registry: bool = False,
        schema_registry_port: int = 0,
        schema_registry_users: Mapping[str, str] | None = None,
        in_thread: bool = False,
        start_timeout_ms: float = 60_000,
        stop_timeout_ms: float = 20_000,
    ) -> None:
        own = addresses_of(LISTENERS, BrokerConfig({LISTENERS: (config or {}).get(LISTENERS, ())}).listeners(LISTENERS))
        if listeners is None:
            plain = users is None and oauth is None
            listeners = tuple(own) or (("PLAINTEXT",) if plain else ("SASL_PLAINTEXT",))
        self._memory = data_dir == ":memory:"
        self._own_folder = data_dir is None
        self._folder = None if data_dir is None or self._memory else Path(data_dir)
        ports = [{listeners[0]: port + node} for node in range(brokers)] if port and listeners else []
        if own:
            ports = [{name: at.port + node if at.port else 0 for name, at in own.items()} for node in range(brokers)]
        if schema_registry_port:
            ports = ports or [{} for _ in range(brokers)]
            ports[0][REGISTRY] = schema_registry_port
        self._options = ClusterOptions(
            brokers=brokers,
            data_dir=self._folder,
            config=({} if acls is None else {"authorizer.class.name": STANDARD_AUTHORIZER})
            | token_settings(oauth or {})
            | dict(config or {}),
            broker_configs={node_id: dict(own) for node_id, own in (broker_configs or {}).items()},
            acls=_rules(acls or ()),
            quotas={entity: dict(values) for entity, values in (quotas or {}).items()},
            features=dict(features or {}),
            host=host,
            ports=ports,
            listeners=tuple(listeners),
            security=SecurityConfig(
                cert_file=_path(ssl_certfile),
                key_file=_path(ssl_keyfile),
                client_ca_file=_path(ssl_client_cafile),
                sasl_users=dict(sasl_users or {}),
                users=dict(users or {}),
            ),
            flush_at_stop=not self._own_folder,
            schema_registry=schema_registry,
            registry_users=dict(schema_registry_users or {}),
        )
        self._options.check()
        for name, value in (("start_timeout_ms", start_timeout_ms), ("stop_timeout_ms", stop_timeout_ms)):
            if not value > 0:
                raise ConfigurationError(f"{name} must be greater than 0, not {value!r}")
        self._deadlines = Deadlines(start_timeout_ms / 1000, stop_timeout_ms / 1000)
        self._in_thread = in_thread
        self._runner: Runner | None = None
        self._ports: list[dict[str, int]] = list(map(dict, self._options.ports))
        self._down: set[int] = set()
        self._late: set[int] = set()  # killed brokers whose restart timed out
        self._killed = False
        self._access: Any = None  # users, rules and quotas at the start
        self._record: AccessRecord | None = None
        self._records_all = False
        self._record_remains = False  # the brokers may still record, because the end of it has failed
        self._held_ports: list[HeldPorts] = []  # while all brokers are killed
        #: The faults that the brokers inject.
        self.faults = ClusterFaults(self)

    # --- life

    def start(self) -> None:
        """Start the cluster. The call returns when the cluster serves requests.

        Raises:
            BrokerStartError: the cluster cannot start, or has not started within ``start_timeout_ms``. If a log was
                being recovered, the message names it. You may call this again.
        """
        if self._runner is not None or self._killed:
            raise IllegalStateError("the cluster was started already")
        if self._own_folder and self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="pyconsumer-cluster-"))
            self._options = replace(self._options, data_dir=self._folder)
        try:
            self._run()
        except BaseException:
            self._remove_folder()
            raise

    def _run(self) -> None:
        self._options = replace(self._options, ports=self._ports)
        runner: Runner
        if self._in_thread:
            runner = ThreadRunner(self._deadlines)
        else:
            runner = ProcessRunner(self._deadlines, remove_folder=self._own_folder)
        held, self._held_ports = self._held_ports, []
        try:
            self._ports = runner.start(self._options, held)
        except BaseException:
            if self._killed:
                self._hold_ports()
            raise
        self._runner = runner
        self._record_remains = False
        if self._access is None:
            self._access = self.command("access")
        if self._record is not None:
            self._take_questions(begin=True)

    def _hold_ports(self) -> None:
        for ports in self._ports:
            try:
                held = [hold_ports(self._options.host_of(name), {name: port}) for name, port in ports.items()]
                self._held_ports.append({name: sock for one in held for name, sock in one.items()})
            except OSError:  # another program has taken one, which the next start reports
                self._held_ports.append({})

    def _release_ports(self) -> None:
        held, self._held_ports = self._held_ports, []
        for ports in held:
            for sock in ports.values():
                sock.close()

    def stop(self) -> None:
        """Stop the cluster cleanly, and remove a temporary folder. If the cluster does not run, this has no effect."""
        runner, self._runner = self._runner, None
        self._down.clear()
        self._late.clear()
        self._killed = False
        self._access = None
        try:
            if runner is not None:
                runner.stop()
        finally:
            self._release_ports()
            self._remove_folder()

    def _remove_folder(self) -> None:
        if self._own_folder and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # --- addresses

    @property
    def bootstrap_servers(self) -> str:
        """Return ``host:port`` of every broker's first listener, separated by commas."""
        return self.address(self._options.listeners[0])

    def address(self, listener: str) -> str:
        """Return ``host:port`` of the listener with this name.

        A broker that listens on all addresses is at ``localhost``.

        Raises ``ConfigurationError`` if there is no such listener.
        """
        if listener not in self._options.listeners:
            raise ConfigurationError(f"the cluster has no listener {listener}")
        if not self._ports or listener not in self._ports[0]:
            raise IllegalStateError("the cluster was not started")
        host = reachable(self._options.host_of(listener))
        return ",".join(str(Address(host, ports[listener])) for ports in self._ports)

    def login(self, user: str, *, mechanism: str = "SCRAM-SHA-256", style: str = "pyconsumer") -> dict[str, str]:
        """Return the settings by which a client connects as a user.

        Args:
            user: a name in ``users`` or ``sasl_users``.
            mechanism: ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``.
            style: the names of the settings: ``pyconsumer`` for our clients, ``librdkafka`` for Confluent's client, or
                ``java`` for Java's.

        Raises:
            ConfigurationError: there is no such user, style or SASL listener.
            IllegalStateError: the cluster was not started.

        Example::

            with EmbeddedCluster(users={"alice": "secret"}, acls=["alice: READ topic orders"]) as cluster:
                consumer = KafkaConsumer("orders", **cluster.login("alice"))
        """
        security = self._options.security
        password = {**security.sasl_users, **security.users}.get(user)
        if password is None:
            raise ConfigurationError(f"the cluster has no user {user!r}")
        if mechanism not in MECHANISMS:
            raise ConfigurationError(f"mechanism is {', '.join(MECHANISMS)}, not {mechanism!r}")
        if mechanism != "PLAIN" and user not in security.users:
            raise ConfigurationError(f"{user!r} is in sasl_users, which is for PLAIN only")
        config = BrokerConfig(self._options.settings)
        protocols = {name: config.protocol(name) for name in self._options.listeners}
        listener = next((name for name, protocol in protocols.items() if protocol.startswith("SASL")), None)
        if listener is None:
            raise ConfigurationError("the cluster has no SASL listener: EmbeddedCluster(listeners=['SASL_PLAINTEXT'])")
        common = {
            "bootstrap.servers": self.address(listener),
            "security.protocol": protocols[listener],
            "sasl.mechanism": mechanism,
        }
        if style == "java":
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            login = f"username={quoted(user)} password={quoted(password)};"
            return common | {"sasl.jaas.config": f"org.apache.kafka.common.security.{module} required {login}"}
        if style == "librdkafka":
            return common | {"sasl.username": user, "sasl.password": password}
        if style != "pyconsumer":
            raise ConfigurationError(f"style is pyconsumer, librdkafka or java, not {style!r}")
        ours = {name.replace(".", "_"): value for name, value in common.items()}
        return ours | {"sasl_plain_username": user, "sasl_plain_password": password}

    @property
    def schema_registry_url(self) -> str:
        """Return the URL of the Schema Registry, such as ``http://127.0.0.1:8081``.

        Raises:
            ConfigurationError: the cluster was made without ``schema_registry=True``.
            IllegalStateError: it was not started.
        """
        if not self._options.schema_registry:
            raise ConfigurationError("the cluster has no schema registry: EmbeddedCluster(schema_registry=True)")
        if not self._ports or REGISTRY not in self._ports[0]:
            raise IllegalStateError("the cluster was not started")
        return f"http://{Address(self._options.host, self._ports[0][REGISTRY])}"

    @property
    def data_dir(self) -> Path | None:
        """Return the folder of the data.

        None if the data is in memory, or if the folder is temporary and not created yet.
        """
        return self._folder

    # --- calls for tests

    def create_topic(
        self, name: str, partitions: int = -1, replication_factor: int = -1, config: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic. -1 takes the broker's default. Raises the errors of CreateTopics."""
        own = {key: _text(value) for key, value in (config or {}).items()}
        self.command(
            "create_topic", name=name, partitions=partitions, replication_factor=replication_factor, config=own
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self.command("delete_topic", name=name)

    def add_acls(self, *acls: AclBinding | str) -> None:
        """Add rules for what users may do. They hold for the next request of every connection.

        Each argument is a rule in a form that the argument ``acls`` of :class:`EmbeddedCluster` takes.

        Raises:
            ConfigurationError: a rule that is given as text is not written like ``"alice: READ topic orders"``.
            InvalidRequestError: a rule cannot be stored.
        """
        self._end_remains()
        self.command("add_acls", acls=[acl_to_json(acl) for acl in _rules(acls)])

    def remove_acls(self, *acls: AclBinding | str) -> int:
        """Remove rules. Return how many of them were there."""
        self._end_remains()
        return int(self.command("remove_acls", acls=[acl_to_json(acl) for acl in _rules(acls)]))

    def set_acls(self, *acls: AclBinding | str) -> None:
        """Let these rules be the only ones. Arguments and errors are those of :meth:`add_acls`."""
        self._end_remains()
        self.command("set_acls", acls=[acl_to_json(acl) for acl in _rules(acls)])

    @contextmanager
    def record_access(self, *, allow_all: bool = True) -> Iterator[AccessRecord]:
        """Record which rights clients need while a block runs.

        ``super.users`` are not recorded. pytest does this by ``--kafka-acls`` (see ``docs/testing.md``).

        Args:
            allow_all: grant every right meanwhile, so that ``needed`` has the fewest rules for what the clients have
                done. False leaves the rules in force, so that ``denied`` has the rules that were missing.

        Yields:
            AccessRecord: complete when the block has ended.

        Raises:
            SecurityDisabledError: the cluster was made without ``acls``.
            IllegalStateError: the block is inside another one, or the cluster does not run.

        Example::

            with EmbeddedCluster(users={"shop": "secret"}, acls=[]) as cluster:
                with cluster.record_access() as record:
                    run_the_shop(**cluster.login("shop"))
                print(*record.needed, sep="\\n")  # shop: WRITE topic orders
        """
        record = self.begin_record(allow_all=allow_all)
        try:
            yield record
        finally:
            self.end_record()

    def begin_record(self, *, allow_all: bool = True) -> AccessRecord:
        """Begin what :meth:`record_access` does. Its record is complete after :meth:`end_record`."""
        if self._record is not None:
            raise IllegalStateError("the rights are being recorded already")
        self._end_remains()
        self._records_all = allow_all
        self._record = record = AccessRecord()
        try:
            self._take_questions(begin=True)
        except BaseException:
            self._record = None
            raise
        return record

    def end_record(self) -> None:
        """End a record. If none was begun, this has no effect.

        If the brokers did not answer, they may still grant every right. The next call of this cluster that begins a
        record, changes rules or repairs the cluster ends that first.
        """
        try:
            if self._runner is not None and (self._record is not None or self._record_remains):
                self._record_remains = True
                self._take_questions(end=True)
                self._record_remains = False
        finally:
            self._record = None

    def _end_remains(self) -> None:
        if self._record_remains:
            self.end_record()

    def update_record(self) -> None:
        """Add what clients have asked until now to the record that was begun."""
        if self._record is not None and self._runner is not None:
            self._take_questions()

    def _take_questions(self, *, begin: bool = False, end: bool = False) -> None:
        found = self.command("record_access", begin=begin, end=end, allows_all=self._records_all)
        if self._record is not None:
            self._record.add(map(Question.from_json, found["questions"]), left_out=found["left_out"])

    def kill_broker(self, node_id: int) -> None:
        """End a broker as ``kill -9`` does: its connections are reset, and its memory is lost.

        The broker leaves the ISRs, and other in-sync replicas take over its partitions. With one broker this is
        :meth:`kill`.

        Raises:
            IllegalStateError: the cluster does not run, or is in memory, so that the broker could not restart.
            ConfigurationError: there is no such broker.
        """
        self._check_node(node_id)
        if self._options.brokers == 1:
            self.kill()
        else:
            self._check_files()
            self.command("kill_broker", node_id=node_id)
        self._down.add(node_id)

    def restart_broker(self, node_id: int) -> None:
        """Start a killed broker again, on the same ports and with its files.

        The broker follows the present leaders, truncates records that they do not have, and joins the ISRs when it has
        caught up. All this may continue after the call has returned.

        Raises:
            IllegalStateError: the broker was not killed.
            KafkaTimeoutError: the broker has not restarted within ``start_timeout_ms``. The restart continues. Call
                this again to wait for it.
            BrokerStartError: the broker cannot start. You may call this again.
        """
        self._check_node(node_id)
        if node_id not in self._down:
            raise IllegalStateError(f"broker {node_id} was not killed")
        if self._killed:
            self.restart()
        else:
            self._restart_broker(node_id)
        self._down.discard(node_id)

    def _restart_broker(self, node_id: int) -> None:
        try:
            self.command("restart_broker", node_id=node_id)
        except KafkaTimeoutError:
            self._late.add(node_id)
            raise
        except IllegalStateError:
            if node_id not in self._late:  # otherwise it has restarted since the timeout
                raise
        self._late.discard(node_id)

    def kill(self) -> None:
        """Kill the process of all brokers, like ``kill -9``.

        Until :meth:`restart` or :meth:`stop` the ports stay reserved, and clients' connections are refused.

        Raises:
            IllegalStateError: the cluster does not run, or is in memory, so that it could not restart.
        """
        runner = self._running()
        self._check_files()
        self.update_record()
        runner.kill()
        self._runner = None
        self._killed = True
        self._hold_ports()

    def restart(self) -> None:
        """Start all brokers again after :meth:`kill`.

        Raises:
            IllegalStateError: the brokers were not killed.
            BrokerStartError: see :meth:`start`. The ports stay reserved, and you may call this again.
        """
        if not self._killed:
            raise IllegalStateError("the cluster was not killed")
        self._run()
        self._killed = False
        self._down.clear()
        self._late.clear()

    def repair(self) -> None:
        """Undo the changes of a test.

        Faults are removed, replication continues, and killed brokers start again. Users, rules and quotas are those of
        the start again.
        """
        if self._killed:
            self.restart()
        for node_id in sorted(self._down):
            self.restart_broker(node_id)
        self.faults.clear()
        for node_id in range(self._options.brokers) if self._options.brokers > 1 else ():
            self.faults.resume_replication(node_id)
        self._end_remains()
        self.command("restore_access", state=self._access)

    def _check_files(self) -> None:
        if self._memory:
            raise IllegalStateError("a cluster in memory cannot be killed: it would lose everything")

    def _check_node(self, node_id: int) -> None:
        if not 0 <= node_id < self._options.brokers:
            raise ConfigurationError(f"there is no broker {node_id}")

    def elect_preferred_leaders(self) -> int:
        """Make the first replica of each partition its leader, if it is in sync.

        Return how many leaders have changed.
        """
        return int(self.command("elect_preferred_leaders"))

    def advance_clock(self, seconds: float) -> None:
        """Move the brokers' clock ahead. Everything that becomes due happens now: sessions end, records expire.

        The clocks of clients do not move. See :class:`pyconsumer.testing.RunningClock`.

        Raises:
            ValueError: ``seconds`` is negative.
        """
        if not seconds >= 0:
            raise ValueError(f"time cannot go back by {-seconds} s")
        self.command("advance_clock", seconds=seconds)

    def command(self, name: str, /, **arguments: Any) -> Any:
        """Run a command of :class:`~pyconsumer.broker.host.ClusterHost`. Any thread may call this.

        Raises:
            KafkaTimeoutError: the brokers did not respond within 30 s. They may still run the command.
            BrokerStartError: the brokers' process has ended.
        """
        return self._running().command(name, arguments)

    def _running(self) -> Runner:
        if self._runner is None:
            raise IllegalStateError("the cluster does not run")
        return self._runner

    @property
    def pid(self) -> int:
        """Return the process id of the brokers."""
        return int(self.command("ping"))

    def log(self) -> str:
        """Return the log of the brokers. This works only for a child process."""
        return self._runner.log() if self._runner is not None else ""


class ClusterFaults:
    """The fault injector of a running cluster. :mod:`pyconsumer.broker.faults` describes each kind of fault."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    def add(
        self,
        kind: str,
        api: str | int,
        *,
        node: int | None = None,
        topic: str | None = None,
        client_id: str | None = None,
        count: int | None = 1,
        error_code: int = -1,
        delay_ms: int = 0,
    ) -> int:
        """Inject a fault into requests. Return the id of the new rule.

        The arguments are those of :class:`.faults.FaultRule`.
        """
        arguments = {"node": node, "topic": topic, "client_id": client_id, "count": count}
        return int(
            self._cluster.command(
                "add_fault", kind=kind, api=api, error_code=error_code, delay_ms=delay_ms, **arguments
            )
        )

    def move_leader(self, topic: str, partition: int, node: int | None = None) -> int:
        """Make another in-sync replica the leader of a partition. Return its node id.

        Args:
            node: the new leader. None takes the next replica in the order of the replicas.

        Raises:
            UnknownTopicOrPartitionError: there is no such partition.
            EligibleLeadersNotAvailableError: the node has no replica that is alive and in sync. Or, without ``node``,
                no other node has one.
            ElectionNotNeededError: the node is the leader already.
        """
        return int(self._cluster.command("move_leader", name=topic, partition=partition, node=node))

    def move_coordinator(self, group_id: str, node: int | None = None) -> int:
        """Make another broker the coordinator of a group.

        The other groups in the same partition of ``__consumer_offsets`` move, too.

        Arguments, result and errors are those of :meth:`move_leader`.
        """
        return int(self._cluster.command("move_coordinator", group_id=group_id, node=node))

    def pause_replication(self, node: int) -> None:
        """Stop a broker from fetching records from leaders until :meth:`resume_replication`. Everything else continues.

        As long as this broker is in sync, ``acks=all`` waits for it, at most ``replica.lag.time.max.ms``.
        """
        self._cluster.command("pause_replication", node_id=node)

    def resume_replication(self, node: int) -> None:
        """Let a broker fetch records from leaders again."""
        self._cluster.command("resume_replication", node_id=node)

    def remove(self, rule_id: int) -> None:
        """Remove a fault's rule."""
        self._cluster.command("remove_fault", rule_id=rule_id)

    def clear(self) -> None:
        """Remove all rules."""
        self._cluster.command("clear_faults")

    def hits(self, rule_id: int) -> int:
        """Return the number of requests into which a rule has injected its fault."""
        return int(self._cluster.command("fault_hits", rule_id=rule_id))


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.path.abspath(path)


def _rules(acls: Sequence[AclBinding | str]) -> tuple[AclBinding, ...]:
    if isinstance(acls, str):
        raise ConfigurationError(f"acls must be a list of rules, not the string {acls!r}")
    return tuple(one for acl in acls for one in ([acl] if isinstance(acl, AclBinding) else parse_acl(acl)))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
