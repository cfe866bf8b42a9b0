"""``AsyncKafkaAdminClient``: the calls of ``KafkaAdminClient`` as coroutines.

The client belongs to the event loop of its first call. One call runs at a time. A lock makes those of other tasks wait.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from pyconsumer.admin import KafkaAdminClient
from pyconsumer.admin.config import ADMIN_SETTINGS
from pyconsumer.aio.awaited import awaited
from pyconsumer.aio.driver import LoopDriver
from pyconsumer.clock import Clock, seconds_of
from pyconsumer.errors import IllegalStateError, KafkaTimeoutError
from pyconsumer.generic import refuse_pickling
from pyconsumer.metrics.source import Metric
from pyconsumer.network.calls import Calls
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.futures import Steps
from pyconsumer.network.metadata import Metadata

if TYPE_CHECKING:
    from typing import Unpack

    from pyconsumer.admin.typed_settings import AdminSettings

__all__ = ["AsyncKafkaAdminClient"]

P = ParamSpec("P")
R = TypeVar("R")

_NAME = "AsyncKafkaAdminClient"


class _LoopAdminClient(KafkaAdminClient):
    """The blocking client, with calls that return coroutines."""

    _how_to_close = "await close(), or use it in async with"

    def __init__(
        self, configs: Mapping[str, object] | None, clock: Clock | None, settings: Mapping[str, object]
    ) -> None:
        super().__init__({**(configs or {}), **settings}, clock=clock)
        self._driver = LoopDriver(self._client, _NAME)
        self._one_call = asyncio.Lock()

    @property
    def network(self) -> NetworkClient:
        """The network client."""
        return self._client

    @property
    def metadata(self) -> Metadata:
        """The brokers and topics that are known."""
        return self._calls.metadata

    def bind(self) -> None:
        """Make the running loop that of this client."""
        self._driver.bind()

    def _abandon(self) -> None:
        self._driver.abandon()

    def _run(self, steps: Callable[[float], Steps[R]], timeout_ms: int | None) -> Any:
        return self._on_loop(steps, timeout_ms)

    async def run(self, steps: Callable[[Calls, float], Steps[R]], timeout_ms: int | None = None) -> R:
        """Run steps that are not among the calls of this class.

        Args:
            steps: a function of the requests of this client and of the deadline (monotonic seconds).
        """
        return await self._on_loop(lambda until: steps(self._calls, until), timeout_ms)

    async def _on_loop(self, steps: Callable[[float], Steps[R]], timeout_ms: int | None) -> R:
        if self._pid != os.getpid():
            raise IllegalStateError("the admin client was made before a fork. Make one in each process")
        self._driver.bind()
        timeout = seconds_of(self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)
        deadline = self._clock.now() + timeout
        try:
            async with asyncio.timeout(timeout):
                await self._one_call.acquire()
        except TimeoutError:
            raise KafkaTimeoutError("timed out while waiting for calls of other tasks to finish") from None
        try:
            if self._closed:
                raise IllegalStateError("the admin client is closed")
            return await self._driver.run(steps(deadline), deadline)
        finally:
            self._one_call.release()

    def close(self) -> None:
        """Close the connections at once. A call in progress fails. In a forked child this has no effect."""
        if self._pid != os.getpid():
            return
        self._metric_source.close()
        self._closed = True
        self._driver.close()

    def __repr__(self) -> str:
        return super().__repr__().replace("KafkaAdminClient", _NAME)


def _on_calls(client: AsyncKafkaAdminClient, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Begin a call on the client whose ``_run`` returns a coroutine."""
    return method(client.calls, *args, **kwargs)


def _awaited(
    method: Callable[Concatenate[KafkaAdminClient, P], R],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    return awaited(method, _on_calls)


class AsyncKafkaAdminClient:
    """Manages topics, groups and settings of a cluster from an event loop (asyncio or uvloop).

    Args:
        configs: mappings with settings. They may use Kafka's dotted names.
        clock: the source of time. Tests can pass a :class:`pyconsumer.testing.RunningClock` and move it ahead. By
            default it is the machine's clock.
        settings: see :data:`pyconsumer.admin.config.ADMIN_SETTINGS`. ``bootstrap_servers`` is required.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or contradicts another one.

    Every call of :class:`pyconsumer.KafkaAdminClient` is a coroutine here, with the same arguments, results and errors.
    Calls of several tasks run one after the other. The client belongs to the loop of its first call. Use it in ``async
    with``, or await :meth:`close`.
    """

    @classmethod
    def from_file(cls, path: str | os.PathLike[str] | None = None, **overrides: Any) -> Self:
        """Create an admin client with settings from a properties file and from the environment.

        Arguments and errors are those of :meth:`pyconsumer.KafkaConsumer.from_file`.

        Example::

            admin = AsyncKafkaAdminClient.from_file("client.properties", request_timeout_ms=10_000)
        """
        from pyconsumer.settings.properties import from_file

        return cls(**from_file(ADMIN_SETTINGS, path, overrides))

    def __init__(
        self,
        configs: Mapping[str, object] | None = None,
        /,
        *,
        clock: Clock | None = None,
        **settings: Unpack[AdminSettings],
    ) -> None:
        self.calls = _LoopAdminClient(configs, clock, settings)
        self.config = self.calls.config

    describe_cluster = _awaited(KafkaAdminClient.describe_cluster)
    list_topics = _awaited(KafkaAdminClient.list_topics)
    describe_topics = _awaited(KafkaAdminClient.describe_topics)
    create_topics = _awaited(KafkaAdminClient.create_topics)
    delete_topics = _awaited(KafkaAdminClient.delete_topics)
    create_partitions = _awaited(KafkaAdminClient.create_partitions)
    delete_records = _awaited(KafkaAdminClient.delete_records)
    list_offsets = _awaited(KafkaAdminClient.list_offsets)
    first_records = _awaited(KafkaAdminClient.first_records)
    list_config_resources = _awaited(KafkaAdminClient.list_config_resources)
    describe_configs = _awaited(KafkaAdminClient.describe_configs)
    alter_configs = _awaited(KafkaAdminClient.alter_configs)
    list_groups = _awaited(KafkaAdminClient.list_groups)
    describe_groups = _awaited(KafkaAdminClient.describe_groups)
    delete_groups = _awaited(KafkaAdminClient.delete_groups)
    list_group_offsets = _awaited(KafkaAdminClient.list_group_offsets)
    list_offsets_of_groups = _awaited(KafkaAdminClient.list_offsets_of_groups)
    alter_group_offsets = _awaited(KafkaAdminClient.alter_group_offsets)
    delete_group_offsets = _awaited(KafkaAdminClient.delete_group_offsets)
    list_transactions = _awaited(KafkaAdminClient.list_transactions)
    describe_transactions = _awaited(KafkaAdminClient.describe_transactions)
    describe_producers = _awaited(KafkaAdminClient.describe_producers)
    find_hanging_transactions = _awaited(KafkaAdminClient.find_hanging_transactions)
    abort_transaction = _awaited(KafkaAdminClient.abort_transaction)
    fence_producers = _awaited(KafkaAdminClient.fence_producers)
    create_acls = _awaited(KafkaAdminClient.create_acls)
    describe_acls = _awaited(KafkaAdminClient.describe_acls)
    delete_acls = _awaited(KafkaAdminClient.delete_acls)
    describe_user_scram_credentials = _awaited(KafkaAdminClient.describe_user_scram_credentials)
    alter_user_scram_credentials = _awaited(KafkaAdminClient.alter_user_scram_credentials)
    describe_client_quotas = _awaited(KafkaAdminClient.describe_client_quotas)
    alter_client_quotas = _awaited(KafkaAdminClient.alter_client_quotas)
    create_delegation_token = _awaited(KafkaAdminClient.create_delegation_token)
    renew_delegation_token = _awaited(KafkaAdminClient.renew_delegation_token)
    expire_delegation_token = _awaited(KafkaAdminClient.expire_delegation_token)
    describe_delegation_tokens = _awaited(KafkaAdminClient.describe_delegation_tokens)

    def metrics(self) -> dict[str, dict[str, float | None]]:
        """Return the metrics by group and name. See :meth:`pyconsumer.KafkaAdminClient.metrics`.

        Example::

            admin.metrics()["admin-client-metrics"]["request-total"]
        """
        return self.calls.metrics()

    def metric_table(self) -> list[Metric]:
        """Return each metric. See :meth:`pyconsumer.KafkaAdminClient.metric_table`.

        Example::

            nodes = [metric for metric in admin.metric_table() if "node-id" in metric.tags]
        """
        return self.calls.metric_table()

    async def close(self) -> None:
        """Close all connections at once. If another task is making a call, that call fails.

        A second close has no effect.

        Example::

            await admin.close()
        """
        self.calls.close()

    __reduce__ = refuse_pickling

    def __repr__(self) -> str:
        return repr(self.calls)

    async def __aenter__(self) -> Self:
        self.calls.bind()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
