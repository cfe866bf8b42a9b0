"""A whole cluster in one event loop: the controller, the brokers, their sockets, and the scheduled tasks.

Everything here runs in the loop's thread. Callers outside it (:mod:`.cluster`, through a pipe or from another thread)
send a command by name, see :meth:`ClusterHost.command`.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from pyconsumer.acls import AclBinding
from pyconsumer.background_log import Log
from pyconsumer.broker.access.authorizer import STANDARD_AUTHORIZER, Authorizer, parse_super_users
from pyconsumer.broker.access.commands import ACCESS_COMMANDS, run_access_command
from pyconsumer.broker.access.quotas import QuotaAlteration, QuotaStore
from pyconsumer.broker.access.store import check_binding
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.controller import OFFSETS_TOPIC, Controller, check_feature
from pyconsumer.broker.faults import FaultRule, Faults
from pyconsumer.broker.group.common.offset_records import partition_for
from pyconsumer.broker.listener_addresses import ADVERTISED_LISTENERS, LISTENERS, addresses_of, reachable
from pyconsumer.broker.logins import MECHANISMS, Login
from pyconsumer.broker.ports import HeldPorts
from pyconsumer.broker.principal_rules import PrincipalRules
from pyconsumer.broker.scheduled_tasks import ScheduledTasks
from pyconsumer.broker.security import SecurityConfig, no_logins
from pyconsumer.broker.server import BrokerServer
from pyconsumer.broker.timer import Timer
from pyconsumer.broker.token_keys import KeySource
from pyconsumer.broker.tokens import FindKeys, OAuthLogin, TokenChecker, TokenRules
from pyconsumer.clock import RunningClock
from pyconsumer.errors import (
    BrokerStartError,
    ConfigurationError,
    IllegalStateError,
    InvalidRequestError,
    InvalidUpdateVersionError,
)
from pyconsumer.quotas import QuotaEntity
from pyconsumer.structs import Address, BrokerMetadata

if TYPE_CHECKING:
    from pyconsumer.broker.registry.http_server import RegistryServer

__all__ = ["REGISTRY", "ClusterHost", "ClusterOptions", "has_tokens", "token_settings"]

_log = Log(__name__)
#: A logger of its own, because ``pyconsumer broker`` prints its lines although they are not warnings.
_progress_log = Log("pyconsumer.broker.progress")

#: The name of the schema registry's port among the listeners of the first broker.
REGISTRY: Final = "SCHEMA_REGISTRY"
#: Seconds between two lines about a long recovery.
_REPORT_S: Final = 2.0
#: A bound against mistyped numbers: each broker has its own files and sockets in the one process.
_MOST_BROKERS: Final = 100
_LAST_PORT: Final = 65_535
_RACK: Final = "broker.rack"
#: Settings with which tokens can be accepted.
_FOR_TOKENS: Final = ("sasl.oauthbearer.jwks.endpoint.url", "pyconsumer.oauthbearer.unsecured")


def token_settings(oauth: Mapping[str, object]) -> dict[str, object]:
    """Return the settings for tokens with their full names."""
    return {f"{'pyconsumer' if name == 'unsecured' else 'sasl'}.oauthbearer.{name}": oauth[name] for name in oauth}


def has_tokens(settings: Mapping[str, object]) -> bool:
    """Return whether the settings say how tokens are checked."""
    return any(settings.get(name) for name in _FOR_TOKENS)


@dataclass(slots=True)
class ClusterOptions:
    """The options of a cluster.

    Attributes:
        data_dir: the folder for all data. None keeps the data in memory.
        config: broker settings by Kafka's names.
        broker_configs: settings of single brokers by node id, which go before ``config``.
        features: finalized versions of features, which are set at the start. Other features keep their versions
            (KIP-584).
        host: the address to listen on. ``advertised_host`` is the address for clients, if it is another one.
        ports: for each broker, the port of each listener by name. If a port is missing or 0, a free port is used.
        listeners: names of listeners: of security protocols, or in ``listener.security.protocol.map``. The settings
            ``listeners`` and ``advertised.listeners`` have addresses of their own for them.
        security: certificates and users for listeners other than PLAINTEXT.
        flush_at_stop: True flushes logs to disk when the cluster stops.
        schema_registry: run a schema registry. Its port is that of the first broker with the name :data:`REGISTRY`.
        registry_users: passwords by user name for the registry. Empty: no login.
        acls: rules that are created at the start. With any, there is an authorizer.
        quotas: quotas that are set at the start.
    """

    brokers: int = 1
    data_dir: Path | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    broker_configs: Mapping[int, Mapping[str, object]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    host: str = "127.0.0.1"
    advertised_host: str | None = None
    ports: Sequence[Mapping[str, int]] = ()
    listeners: Sequence[str] = ("PLAINTEXT",)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    flush_at_stop: bool = True
    schema_registry: bool = False
    registry_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    acls: Sequence[AclBinding] = ()
    quotas: Mapping[QuotaEntity, Mapping[str, float | None]] = field(default_factory=dict)

    def check(self) -> None:
        """Raise ``ConfigurationError`` if the options are invalid."""
        if not 1 <= self.brokers <= _MOST_BROKERS:
            raise ConfigurationError(f"a cluster has 1 to {_MOST_BROKERS} brokers, not {self.brokers}")
        if not self.listeners:
            raise ConfigurationError("a broker needs a listener")
        for ports in self.ports:
            for port in ports.values():
                if not 0 <= port <= _LAST_PORT:
                    raise ConfigurationError(
                        f"there is no port {port}: {self.brokers} brokers need ports of their own up to {_LAST_PORT}."
                        " Begin with a lower one, or with 0 for free ones"
                    )
        for name, level in self.features.items():
            try:
                check_feature(name, level)
            except InvalidUpdateVersionError as error:
                raise ConfigurationError(str(error.args[0])) from None
        self._check_broker_configs()
        config = BrokerConfig(self.settings)
        listeners = {name.lower() for name in self.listeners}
        for name in self.settings:
            listener = name.removeprefix("listener.name.").partition(".")[0]
            if name.startswith("listener.name.") and listener not in listeners:
                raise ConfigurationError(
                    f"{name}: there is no listener of this name, which stands in lower case there. The listeners are"
                    f" {', '.join(self.listeners)}"
                )
        for setting in (LISTENERS, ADVERTISED_LISTENERS):
            unknown = addresses_of(setting, config.listeners(setting)).keys() - set(self.listeners)
            if unknown:
                raise ConfigurationError(
                    f"{setting}: there is no listener {min(unknown)}, only {', '.join(self.listeners)}"
                )
        by_token = self.takes_tokens
        if has_tokens(self.config) and not by_token:
            raise ConfigurationError(no_logins("oauth", self.listeners))
        if by_token:
            TokenRules.of(config).check(config.text("sasl.oauthbearer.jwks.endpoint.url"))
        protocols = {name: config.protocol(name) for name in self.listeners}
        self.security.check(protocols, by_token=by_token)
        for name in self.listeners:
            PrincipalRules(config.of_listener(name, "ssl.principal.mapping.rules"))
            if protocols[name].endswith("SSL"):
                self.security.ssl_context(config.of_listener(name, "ssl.client.auth"))
        users: Mapping[str, object] = self.registry_users
        for user, password in users.items():
            if not isinstance(password, str):
                kind = type(password).__name__
                raise ConfigurationError(
                    f"schema_registry_users: the password of {user!r} must be a string, not of type {kind}"
                )
        for acl in self.acls:
            try:
                check_binding(acl)
            except InvalidRequestError as error:
                raise ConfigurationError(f"acls: {acl}: {error.args[0]}") from None
        for entity, problem in QuotaStore(lambda undo, change: None).alter(self.quota_alterations).items():
            if problem is not None:
                raise ConfigurationError(f"quotas: {dict(entity)}: {problem.args[0]}")
        parse_super_users(config.text("super.users"))

    def _check_broker_configs(self) -> None:
        for node_id, own in self.broker_configs.items():
            if not isinstance(node_id, int) or not 0 <= node_id < self.brokers:
                raise ConfigurationError(
                    f"broker_configs: there is no broker {node_id!r}, only 0 to {self.brokers - 1}"
                )
            self.config_of(node_id)
            for name in own:
                if name != _RACK and not BrokerConfig.is_dynamic(name):
                    raise ConfigurationError(
                        f"broker_configs: {name} is a setting of the whole cluster here: write it into config"
                    )

    def config_of(self, node_id: int) -> BrokerConfig:
        """Return the settings of a broker at its start."""
        return BrokerConfig({**self.settings, **self.broker_configs.get(node_id, {})})

    @property
    def takes_tokens(self) -> bool:
        """Return whether clients may log in by OAUTHBEARER at a listener."""
        config = BrokerConfig(self.settings)
        return any(
            "OAUTHBEARER" in config.of_listener(name, "sasl.enabled.mechanisms")
            for name in self.listeners
            if config.protocol(name).startswith("SASL")
        )

    def host_of(self, listener: str) -> str:
        """Return the address on which a listener listens."""
        found = addresses_of(LISTENERS, BrokerConfig(self.settings).listeners(LISTENERS)).get(listener)
        return self.host if found is None else found.host

    def advertised(self, listener: str, node_id: int, port: int) -> Address:
        """Return the address at which clients find a listener. Each broker has the next port.

        Args:
            port: the port on which the broker listens.
        """
        found = addresses_of(ADVERTISED_LISTENERS, BrokerConfig(self.settings).listeners(ADVERTISED_LISTENERS))
        own = found.get(listener)
        if own is not None:
            return Address(reachable(own.host), own.port + node_id if own.port else port)
        return Address(self.advertised_host or reachable(self.host_of(listener)), port)

    @property
    def quota_alterations(self) -> list[QuotaAlteration]:
        """Return :attr:`quotas` as the controller takes them."""
        return [QuotaAlteration(entity.parts, list(values.items())) for entity, values in self.quotas.items()]

    @property
    def settings(self) -> dict[str, object]:
        """Return the broker settings.

        With users the mechanisms for passwords are enabled, with settings for tokens OAUTHBEARER, and with rules the
        authorizer, unless the settings say otherwise.
        """
        defaults: dict[str, object] = {}
        security = self.security
        mechanisms = list(MECHANISMS) if security.users else ["PLAIN"] if security.sasl_users else []
        if has_tokens(self.config):
            mechanisms.append("OAUTHBEARER")
        if mechanisms:
            defaults["sasl.enabled.mechanisms"] = mechanisms
        if self.acls:
            defaults["authorizer.class.name"] = STANDARD_AUTHORIZER
        return {**defaults, **self.config}


class ClusterHost:
    """Runs a cluster in ``loop``. Call all methods in the loop's thread.

    Args:
        held: for each broker, the sockets that reserve its ports. This object closes them.
    """

    def __init__(
        self, options: ClusterOptions, loop: asyncio.AbstractEventLoop, held: Sequence[HeldPorts] = ()
    ) -> None:
        options.check()
        self.options = options
        self.faults = Faults()
        self.brokers: dict[int, Broker] = {}
        self.servers: dict[int, BrokerServer] = {}
        self._config = BrokerConfig(options.settings)
        self._loop = loop
        self._clock = RunningClock()
        self._timer = Timer(self._on_earlier)
        self._wake: asyncio.TimerHandle | None = None
        self._tasks = ScheduledTasks(self.brokers, self._config, self._clock, self._timer, loop)
        #: Ports of killed brokers that have not restarted.
        self._held_ports: dict[int, HeldPorts] = dict(enumerate(held))
        self._known_ports: dict[int, dict[str, int]] = {}
        self._advertised: dict[tuple[str, int, int], Address] = {}
        self._recovering: dict[int, Broker] = {}
        self._running = False
        self._lock: IO[str] | None = None
        self._opening: Broker | None = None
        self._registry: RegistryServer | None = None
        self._authorizer: Authorizer | None = None
        self._by_token: Callable[[], Login] | None = None
        self._keys: KeySource | None = None
        self.controller: Controller

    # --- life

    def start(self) -> None:
        """Start all brokers. Errors are those of :meth:`starting`."""
        for _ in self.starting():
            pass

    def starting(self) -> Generator[None, None, None]:
        """Start all brokers in steps. To cancel the start before the last step, close the generator.

        Raises:
            BrokerStartError: a port or the data folder cannot be used. The message has its name and the cause.
        """
        options = self.options
        try:
            if options.data_dir is not None:
                self._lock_folder(options.data_dir)
            yield from self._starting_brokers()
        except OSError as error:
            self.abandon()
            raise BrokerStartError(f"the broker cannot start: {error}") from error
        except BaseException:
            self.abandon()
            raise
        self._running = True
        self._tasks.start()
        self._tasks.every(
            self._config.integer("leader.imbalance.check.interval.seconds") * 1000, self._rebalance_leaders
        )

    @property
    def is_running(self) -> bool:
        """Return whether the cluster is running: from the end of :meth:`starting` until the stop."""
        return self._running

    def _lock_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(folder / ".lock", "a")  # noqa: SIM115 (held until the end)
        except OSError as error:
            raise BrokerStartError(f"the data folder {folder} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            self._lock = None
            raise BrokerStartError(f"the data folder {folder} is in use by another broker") from None

    def _starting_brokers(self) -> Generator[None, None, None]:
        options = self.options
        self.controller = Controller(options.data_dir, BrokerConfig(options.settings))
        if options.features:
            self.controller.update_features(options.features)
        self.controller.acls.create(options.acls)
        self.controller.quotas.alter(options.quota_alterations)
        self._authorizer = self._make_authorizer()
        self._by_token = self._make_token_logins()
        for name, password in options.security.users.items():
            self.controller.scram.set_password(name, password)
            yield
        if options.security.users:
            self.controller.scram.warn_of_others()
        if options.schema_registry:
            self._open_registry()
        for node_id in range(options.brokers):
            broker = self._make(node_id)
            self.servers[node_id] = self._listen(broker)
            self.brokers[node_id] = broker
        for broker in list(self.brokers.values()):
            yield from self._recover(broker)
        # From here on without a pause, because a running broker calls the others.
        self.controller.register(list(self.brokers))
        for broker in list(self.brokers.values()):
            broker.start()
        for server in self.servers.values():
            server.accept()
        if self._registry is not None:
            self._registry.accept()

    def _make_authorizer(self) -> Authorizer | None:
        """Return the authorizer of all brokers, or None if the settings want none."""
        config, acls = self._config, self.controller.acls
        if not config.text("authorizer.class.name"):
            if len(acls):
                _log.warning(
                    "%d access control lists have no effect: authorizer.class.name is not %s",
                    len(acls),
                    STANDARD_AUTHORIZER,
                )
            return None
        return Authorizer(
            acls,
            parse_super_users(config.text("super.users")),
            allow_without_acl=config.boolean("allow.everyone.if.no.acl.found"),
        )

    def _make_token_logins(self) -> Callable[[], Login] | None:
        """Return the maker of logins by OAUTHBEARER, or None if the settings have none. Wait for the first keys."""
        config = self._config
        if not self.options.takes_tokens:
            return None
        rules = TokenRules.of(config)
        find: FindKeys = lambda key_id: ()  # noqa: E731
        if not rules.unsecured:
            self._keys = KeySource.of(config)
            self._keys.start()
            find = self._keys.find
        checker = TokenChecker(rules, find, self._clock.wall_ms)
        return lambda: OAuthLogin(checker.check)

    def _open_registry(self) -> None:
        """Open the listener of the schema registry, which serves clients together with the brokers."""
        from pyconsumer.broker.registry.http_server import RegistryServer
        from pyconsumer.broker.registry.service import RegistryService

        options = self.options
        service = RegistryService(self.controller, self.brokers, options.registry_users)
        self._registry = RegistryServer(service, self._loop)
        port = options.ports[0].get(REGISTRY, 0) if options.ports else 0
        held = self._held_ports.get(0, {}).pop(REGISTRY, None)
        try:
            self._registry.open(options.host, port, held)
        except OSError as error:
            reason = error.strerror or str(error)
            address = Address(options.host, port)
            raise BrokerStartError(f"the schema registry cannot listen on {address}: {reason}") from error

    def _make(self, node_id: int) -> Broker:
        options = self.options
        return Broker(
            node_id,
            folder=None if options.data_dir is None else options.data_dir / f"broker-{node_id}",
            config=options.config_of(node_id),
            controller=self.controller,
            clock=self._clock,
            timer=self._timer,
            faults=self.faults,
            endpoints=self.endpoints,
            peers=self.brokers,
            call_soon=self._call_soon,
            fenced_endpoints=self.fenced_endpoints,
            authorizer=self._authorizer,
        )

    def _listen(self, broker: Broker) -> BrokerServer:
        """Open the listeners of a broker, which serves no client before :meth:`BrokerServer.accept`."""
        options, node_id = self.options, broker.node_id
        server = BrokerServer(broker, self._loop, options.security, self._by_token)
        ports = options.ports[node_id] if node_id < len(options.ports) else {}
        held, known = self._held_ports.pop(node_id, {}), self._known_ports.pop(node_id, {})
        try:
            for name in options.listeners:
                port, host = known.get(name) or ports.get(name, 0), options.host_of(name)
                try:
                    server.open(name, host, port, held.pop(name, None))
                except OSError as error:
                    reason = error.strerror or str(error)
                    raise BrokerStartError(f"cannot listen on {Address(host, port)}: {reason}") from error
        except BaseException:
            server.close(reset=True)
            self._known_ports[node_id] = known  # for another attempt
            raise
        finally:
            for unused in held.values():
                unused.close()
        return server

    @property
    def progress(self) -> str:
        """Return a description of the current recovery. Empty if there is none. Any thread may call this."""
        broker = self._opening
        return "" if broker is None else f"node {broker.node_id}: {broker.recovery}"

    def _recover(self, broker: Broker) -> Generator[None, None, None]:
        """Open the logs of a broker in steps, and log the progress if that takes long."""
        began = reported = self._clock.now()
        self._opening = broker
        try:
            for _ in broker.opening():
                now = self._clock.now()
                if now - reported >= _REPORT_S:
                    reported = now
                    _progress_log.info("%s", self.progress)
                yield
        finally:
            self._opening = None
        if reported != began:
            took = self._clock.now() - began
            _progress_log.info("node %d: opened %d logs in %.1f s", broker.node_id, broker.recovery.count, took)

    # --- single brokers

    def kill_broker(self, node_id: int) -> None:
        """Kill one broker, like ``kill -9``: its connections are reset, and its memory is lost.

        Raises:
            IllegalStateError: the broker is not running. Or the cluster is in memory, so that the broker could not
                restart.
        """
        if self.options.data_dir is None:
            raise IllegalStateError("a broker in memory cannot be killed: it would lose everything")
        broker = self._broker(node_id)
        _log.info("killing node %d", node_id)
        self._drop(broker)
        self.controller.unregister([node_id])

    def _drop(self, broker: Broker) -> None:
        del self.brokers[broker.node_id]
        server = self.servers.pop(broker.node_id)
        self._known_ports[broker.node_id] = {name: port for name, (_, port) in server.addresses.items()}
        self._held_ports[broker.node_id] = server.close_and_hold_ports()
        self._tasks.forget(broker.node_id)
        broker.abandon()

    def restart_broker(self, node_id: int) -> None:
        """Restart a killed broker without a pause. See :meth:`restarting_broker`."""
        for _ in self.restarting_broker(node_id):
            pass

    def restarting_broker(self, node_id: int) -> Generator[None, None, None]:
        """Restart a killed broker.

        It recovers its files, follows the leaders, and joins the ISRs when it has caught up.

        The recovery is done in steps. Between two steps the other brokers serve requests. The broker counts as alive
        only after its recovery. A second call for the same broker waits for the first call.

        Raises:
            IllegalStateError: the broker was not killed.
            BrokerStartError: a port or a file cannot be used.
        """
        if node_id in self._recovering:
            while node_id in self._recovering:
                yield
            if node_id in self.brokers:
                return
        if node_id in self.brokers or not 0 <= node_id < self.options.brokers:
            raise IllegalStateError(f"broker {node_id} was not killed")
        _log.info("starting node %d", node_id)
        broker = self._recovering[node_id] = self._make(node_id)
        try:
            yield from self._recover(broker)
            server = self._listen(broker)
        except BaseException as error:
            broker.abandon()
            if isinstance(error, OSError):
                raise BrokerStartError(f"broker {node_id} cannot start: {error}") from error
            raise
        finally:
            del self._recovering[node_id]
        self.servers[node_id], self.brokers[node_id] = server, broker
        self.controller.register([node_id])
        try:
            broker.start()
        except BaseException as error:
            self._drop(broker)
            self.controller.unregister([node_id])
            if isinstance(error, OSError):
                raise BrokerStartError(f"broker {node_id} cannot start: {error}") from error
            raise
        server.accept()

    def _broker(self, node_id: int) -> Broker:
        broker = self.brokers.get(node_id)
        if broker is None:
            raise IllegalStateError(f"broker {node_id} does not run")
        return broker

    def _rebalance_leaders(self) -> None:
        if self._config.boolean("auto.leader.rebalance.enable"):
            self.controller.elect_preferred_leaders()

    # --- the end

    def stop(self) -> None:
        """Stop cleanly."""
        try:
            self._end(reset=False)
            for broker in self.brokers.values():
                broker.stop(flush=self.options.flush_at_stop)
            self.controller.close()
        finally:
            self._release()

    def abandon(self) -> None:
        """Stop as if the process had been killed: reset the sockets, and write no files."""
        try:
            self._end(reset=True)
            for broker in self.brokers.values():
                broker.abandon()
        finally:
            self._release()

    def _end(self, *, reset: bool) -> None:
        self._running = False
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if self._registry is not None:
            self._registry.close()
        for server in self.servers.values():
            server.close(reset=reset)
        for held in self._held_ports.values():
            for sock in held.values():
                sock.close()
        self._held_ports.clear()
        self._tasks.stop()
        if self._keys is not None:
            self._keys.stop()

    def _release(self) -> None:
        self.brokers.clear()
        self.servers.clear()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # --- addresses

    def endpoints(self, listener: str) -> list[BrokerMetadata]:
        """Return the addresses of live brokers for clients of a listener."""
        return [
            self._endpoint(listener, node_id, server.addresses[listener][1], server.broker.config)
            for node_id, server in self.servers.items()
            if listener in server.addresses
        ]

    def fenced_endpoints(self, listener: str) -> list[BrokerMetadata]:
        """Return the addresses of killed brokers. They will listen on these addresses again."""
        return [
            self._endpoint(listener, node_id, ports[listener], self.options.config_of(node_id))
            for node_id, ports in sorted(self._known_ports.items())
            if listener in ports
        ]

    def _endpoint(self, listener: str, node_id: int, port: int, config: BrokerConfig) -> BrokerMetadata:
        key = listener, node_id, port
        address = self._advertised.get(key)
        if address is None:
            address = self._advertised[key] = self.options.advertised(listener, node_id, port)
        return BrokerMetadata(node_id, *address, config.value(_RACK))

    def ports(self) -> list[dict[str, int]]:
        """Return the port of each listener, for each broker. The first one also has the port of the schema registry."""
        found = [{name: port for name, (_, port) in server.addresses.items()} for server in self.servers.values()]
        if self._registry is not None:
            found[0][REGISTRY] = self._registry.port
        return found

    # --- time

    def _call_soon(self, action: Callable[[], None]) -> None:
        self._loop.call_soon(action)

    def _on_earlier(self, when: float) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake = self._loop.call_at(when - self._clock.ahead, self._run_timer)

    def _run_timer(self) -> None:
        self._wake = None
        try:
            self._timer.run_due(self._clock.now())
        finally:
            deadline = self._timer.next_deadline()
            if deadline is not None and self._wake is None and (self._running or self.brokers):
                self._wake = self._loop.call_at(deadline - self._clock.ahead, self._run_timer)

    # --- commands from outside

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run a command of a test, or of a program that embeds the cluster. Arguments and result are plain JSON values.

        Raises:
            KafkaError: an error of the controller or of the fault injector.
        """
        if name == "create_topic":
            topic = self.controller.create_topic(**arguments)
            return len(topic.partitions)
        if name == "delete_topic":
            self.controller.delete_topic(arguments["name"])
            return None
        if name == "add_fault":
            return self.faults.add(FaultRule(**arguments))
        if name == "remove_fault":
            self.faults.remove(arguments["rule_id"])
            return None
        if name == "clear_faults":
            self.faults.clear()
            return None
        if name == "fault_hits":
            return self.faults.hits(arguments["rule_id"])
        if name == "kill_broker":
            self.kill_broker(arguments["node_id"])
            return None
        if name == "restart_broker":
            self.restart_broker(arguments["node_id"])
            return None
        if name == "move_leader":
            return self.controller.move_leader(**arguments)
        if name == "move_coordinator":
            return self._move_coordinator(**arguments)
        if name == "elect_preferred_leaders":
            return self.controller.elect_preferred_leaders()
        if name == "pause_replication":
            self._broker(arguments["node_id"]).fetcher.pause()
            return None
        if name == "resume_replication":
            self._broker(arguments["node_id"]).fetcher.resume()
            return None
        if name == "advance_clock":
            self._clock.advance(arguments["seconds"])
            deadline = self._timer.next_deadline()
            if deadline is not None:
                self._on_earlier(deadline)
            return None
        if name in ACCESS_COMMANDS:
            return run_access_command(self.controller, self._authorizer, name, arguments)
        if name == "ping":
            return os.getpid()
        raise ConfigurationError(f"there is no command {name!r}")

    def _move_coordinator(self, group_id: str, node: int | None) -> int:
        topic = self.controller.ensure_internal(OFFSETS_TOPIC)
        return self.controller.move_leader(topic.name, partition_for(group_id, len(topic.partitions)), node)
