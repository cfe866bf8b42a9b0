"""Chooses the node for a request that any node can serve, and sends metadata requests.

Rules
1. A request for any node is queued until a node is ready, and is then sent to the least loaded one
   (``least_loaded`` in :mod:`.node`). Until then it belongs to no node, so it does not fail when an attempt to connect
   fails. Only a failed authentication fails it.
2. While no node is ready, nodes are tried one after another, 0.25 s apart, at most four at a time.
3. The client starts over with the bootstrap addresses (KIP-899, KIP-1102) in three cases. Metadata is due and no known
   broker can be reached, metadata could not be refreshed for too long, or a broker asks for it. A broker whose
   connection was lost is tried once more before it counts as out of reach, so that the restart of a cluster's only
   broker does not make the client forget it. A broker that says that a connection was meant for another node or
   cluster asks for it, too (KIP-1242).
4. The first metadata response ends the bootstrap. The connection that it came on becomes the connection of the broker
   that is advertised under the same address. The other bootstrap connections are closed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from pyconsumer.background_log import Log
from pyconsumer.errors import (
    AuthenticationError,
    KafkaConnectionError,
    KafkaError,
    MisroutedConnectionError,
    NoBrokersAvailableError,
    UnsupportedVersionError,
)
from pyconsumer.network.bootstrap import BootstrapWatch
from pyconsumer.network.client_requests import ClientResponse, Request, UnsentRequests
from pyconsumer.network.connection_pool import ConnectionPool
from pyconsumer.network.futures import RequestFuture
from pyconsumer.network.metadata import Metadata, MetadataQuery
from pyconsumer.network.node import Candidate, Node, NodeStatus, least_loaded
from pyconsumer.protocol.api import ApiKey
from pyconsumer.structs import BrokerMetadata

__all__ = ["NodeSelector"]

_log = Log("pyconsumer.network")

# Compare RFC 8305.
_NEXT_CANDIDATE_S = 0.25
_MAX_CANDIDATES = 4


class NodeSelector:
    """Chooses nodes for requests, and refreshes metadata. See the rules of the module.

    Args:
        make_pool: a function of ``where`` and ``on_lost`` that makes the connections (see :class:`ConnectionPool`).
        unsent: the unsent requests, including those for any node.
        metadata: the cluster's metadata. None for a client that gets all addresses from its caller.
        now: returns the present time.
        random: returns numbers in [0, 1).
        request_timeout: timeout of metadata requests, in seconds.
        rebootstraps: True if rule 3 applies. ``metadata_recovery_strategy`` decides that.
        watch: reports that no broker responds. None for no such reports.

    Attributes:
        pool: the connections.
    """

    def __init__(
        self,
        make_pool: Callable[..., ConnectionPool],
        unsent: UnsentRequests,
        metadata: Metadata | None,
        *,
        now: Callable[[], float],
        random: Callable[[], float],
        request_timeout: float,
        rebootstraps: bool,
        watch: BootstrapWatch | None = None,
    ) -> None:
        self.pool = make_pool(where=self._where, on_lost=self._on_lost)
        self._unsent = unsent
        self._metadata = metadata
        self._now = now
        self._random = random
        self._request_timeout = request_timeout
        self._rebootstraps = rebootstraps
        self._watch = watch if metadata is not None else None
        self._given: dict[int, BrokerMetadata] = {}
        self._reported: Request | None = None
        self._query: RequestFuture[ClientResponse] | None = None
        self._misrouted: KafkaError | None = None
        self._started_over = ""  # why, since a known broker has sent metadata

    def turn(self, now: float, *, served: bool = True) -> float:
        """Do the work that is due, and return when more is due. Call this before :meth:`ConnectionPool.turn`."""
        metadata = self._metadata
        if self._misrouted is not None:
            error, self._misrouted = self._misrouted, None
            self._rebootstrap(str(error))
        if metadata is None or (self._query is not None and not self._query.done):
            due = math.inf
        else:
            due = metadata.next_update_at(now)
            if due <= now:
                due = self._refresh_metadata(metadata, now)
        if None in self._unsent.queues:
            due = min(due, self._place_any(now, served))
        if metadata is not None and metadata.is_bootstrap and self._watch is not None:
            due = min(due, self._report(self._watch, metadata, now, served=served))
        return due

    def _report(self, watch: BootstrapWatch, metadata: Metadata, now: float, *, served: bool) -> float:
        """Report that no broker has responded yet, when that is due, and return when to check again."""
        first = metadata.update_count == 0
        nodes = self._main_nodes()
        if not served or any(node.auth_error is not None for node in nodes):  # a refused login is raised to the user
            return watch.due_at(first=first)
        all_failed = all(node.health.last_error is not None for node in nodes)
        resolved = any(node.is_resolved for node in nodes)
        error = watch.waiting(now, first=first, all_failed=all_failed, causes=self.failures, resolved=resolved)
        if error is not None:
            metadata.give_up(error)
            self._unsent.fail(None, error)
            self.pool.note()
        return watch.due_at(first=first)

    def node(self, broker: int | BrokerMetadata, connection: str) -> Node:
        """Return the state of a connection to a broker.

        The broker is given by its id, or with its address. The address is then remembered.
        """
        if not isinstance(broker, BrokerMetadata):
            return self.pool.node(broker, connection)
        node = self.pool.node(broker.node_id, connection)
        self._given[node.connection_key] = broker
        return node

    def _where(self, node: Node) -> BrokerMetadata | None:
        given = self._given.get(node.connection_key)
        known = self._metadata.broker(node.node_id) if self._metadata is not None else None
        if node.connection_key != node.node_id or known is None:
            return given or known
        return known

    def _on_lost(self, node: Node, error: KafkaError, now: float) -> None:
        refused = isinstance(error, AuthenticationError)
        if refused and node.is_main and not any(main.ready for main in self._main_nodes()):
            self._unsent.fail(None, error)
        if self._metadata is not None:
            if refused:
                self._metadata.failed(now, error, fatal=True)
            self._metadata.request_update()
            if self._rebootstraps and isinstance(error, MisroutedConnectionError) and not self._metadata.is_bootstrap:
                self._misrouted = error  # the next turn starts over: this one is at work on the nodes

    def _main_nodes(self) -> list[Node]:
        """Return the main connections of the brokers in metadata, in its order. Of all nodes without metadata."""
        if self._metadata is None:
            return [node for node in self.pool.nodes.values() if node.is_main]
        return [self.pool.node(broker.node_id) for broker in self._metadata.brokers()]

    def _best(self, now: float) -> tuple[Node | None, NodeStatus]:
        candidates = [
            Candidate(
                node.node_id,
                node.status(now, self.pool.max_in_flight),
                len(node.outstanding) + self._unsent.count(node),
                node.health.last_attempt,
            )
            for node in self._main_nodes()
        ]
        best = least_loaded(candidates, int(self._random() * len(candidates)))
        if best is None:
            return None, NodeStatus.UNAVAILABLE
        return self.pool.node(best.node_id), best.status

    def _connect_some(self, now: float) -> float:
        """Connect to a node, as none is ready, if rule 2 allows it now, and return when to try the next one."""
        nodes = self._main_nodes()
        connecting = [node for node in nodes if node.channel is not None and node.channel.setting_up]
        allowed = [node for node in nodes if node.channel is None and node.health.may_connect(now)]
        newest = max((node.health.last_attempt for node in connecting), default=-math.inf)
        if allowed and len(connecting) < _MAX_CANDIDATES and now >= newest + _NEXT_CANDIDATE_S:
            start = int(self._random() * len(allowed))
            chosen = min(allowed[start:] + allowed[:start], key=lambda node: node.health.last_attempt)
            self.pool.connect(chosen, now)
            allowed.remove(chosen)
            newest = now if chosen.channel is not None else now - _NEXT_CANDIDATE_S
            connecting.append(chosen)
        due = min((node.throttled_until for node in nodes if node.throttled_until > now), default=math.inf)
        if len(connecting) >= _MAX_CANDIDATES:
            return due
        if allowed:
            return min(due, newest + _NEXT_CANDIDATE_S)
        return min([due, *(node.health.backoff_until for node in nodes if node.channel is None)])

    def _place_any(self, now: float, served: bool) -> float:
        """Move the requests for any node to the queues of ready nodes, and return when to try again."""
        unsent = self._unsent
        while (request := unsent.first(None)) is not None:
            node, status = self._best(now)
            if node is None or status is not NodeStatus.READY:
                if served:
                    unsent.expire(None, now, self._nobody)
                if not unsent.count(None):
                    break
                # An authentication that fails at once may have failed all requests in this queue.
                due = self._connect_some(now)
                first = unsent.first(None)
                if first is not None and self._reported is not first:
                    self._reported = first
                    _log.debug("no broker is ready yet for %s", ApiKey(first.api_key).name)
                return due if first is None else min(due, first.expires_at)
            _log.debug("%s goes to node %d, the least loaded", ApiKey(request.api_key).name, node.node_id)
            self.pool.enqueue(node, request)
            unsent.remove_first(None)
        return math.inf

    def _nobody(self, request: Request) -> KafkaError:
        name = ApiKey(request.api_key).name
        return NoBrokersAvailableError(
            f"no broker could be reached for {name} within {round(request.timeout, 2):g} s: {self.failures()}",
            stage="TCP",
        )

    def failures(self) -> str:
        """Return, for messages, the last error of each node that is not ready. Without an error: its stage and address.

        If none of these nodes has failed yet, the last error of any node comes first. After a rebootstrap, that is the
        error of a node that is no longer in the metadata.
        """
        errors, stages = [], []
        for node in self.pool.nodes.values():
            if node.ready:
                continue
            if node.health.last_error is not None:
                errors.append(str(node.health.last_error))
            elif node.channel is not None:
                stages.append(f"{node.channel.stage} with {node.channel.address} is under way")
        if not errors and self.pool.last_error is not None:
            errors.append(str(self.pool.last_error))
        return "; ".join(dict.fromkeys(errors + stages)) or "nothing has failed so far"

    def _refresh_metadata(self, metadata: Metadata, now: float) -> float:
        """Send a metadata request, which is due, and return when to check again."""
        if self._rebootstraps and not metadata.is_bootstrap:
            if metadata.must_rebootstrap(now):
                self._rebootstrap("no metadata could be had for too long")
            elif all(node.out_of_reach(now) for node in self._main_nodes()):
                self._rebootstrap("no known broker can be reached")
        node, status = self._best(now)
        if node is None or status is not NodeStatus.READY:
            return self._connect_some(now)
        query = metadata.query(now)
        request = Request(ApiKey.METADATA, query.request, now, self._request_timeout, 4, None, True)
        request.future.add_callback(lambda future: self._on_metadata(node, query, future))
        self.pool.enqueue(node, request, first=True)
        self._query = request.future  # last: after Ctrl-C, a query that was not queued is not in flight
        return math.inf

    def _rebootstrap(self, why: str) -> None:
        assert self._metadata is not None
        causes = self.failures()
        # While the bootstrap addresses lead to the same dead end, one line is enough.
        level = logging.DEBUG if self._started_over == f"{why} {causes}" else logging.WARNING
        self._started_over = f"{why} {causes}"
        _log.log(level, "starting over with bootstrap_servers: %s (%s)", why, causes)
        error = KafkaConnectionError(f"starting over with bootstrap_servers: {why} ({causes})")
        for node in [node for node in self.pool.nodes.values() if node.is_main]:
            self.pool.remove(node, error)
        self._metadata.rebootstrap(self._now())

    def _on_metadata(self, node: Node, query: MetadataQuery, future: RequestFuture[ClientResponse]) -> None:
        assert self._metadata is not None
        now = self._now()
        error = future.exception
        if error is not None:
            self._metadata.failed(now, error, fatal=isinstance(error, (UnsupportedVersionError, AuthenticationError)))
            return
        response = future.value
        if not self._metadata.update(response.message, response.api_version, now, query):
            self._rebootstrap("a broker asked for it")
            return
        if self._watch is not None:
            self._watch.responded(now)
        if node.node_id >= 0:
            self._started_over = ""
        if node.node_id < 0 and not self._metadata.is_bootstrap:
            self._leave_bootstrap(node)

    def _leave_bootstrap(self, node: Node) -> None:
        assert self._metadata is not None
        pool = self.pool
        for broker in self._metadata.brokers():
            same = node.channel is not None and node.channel.address == str(broker.address)
            if same and pool.find(broker.node_id) is None:
                pool.rename(node, broker.node_id)
                break
        for other in list(pool.nodes.values()):
            if other.node_id < 0:
                other.retire()
                if pool.is_idle(other):
                    pool.remove(other)
