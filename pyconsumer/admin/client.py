"""``KafkaAdminClient``: the public class.

Calls end within their ``timeout_ms``. Those of several threads take turns.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pyconsumer import background_log
from pyconsumer.acls import AclBinding, AclFilter
from pyconsumer.admin import access, configs, groups, quotas, topics, transactions
from pyconsumer.admin.config import ADMIN_SETTINGS, AdminConfig
from pyconsumer.admin.delegation_tokens import DelegationTokenCalls
from pyconsumer.admin.outcomes import names_of, raising, results_of
from pyconsumer.admin.share_group_calls import ShareGroupCalls
from pyconsumer.admin.types import (
    AclDeletion,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    GroupDescription,
    GroupListing,
    HangingTransaction,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ProducerState,
    ScramUserDescription,
    TopicDescription,
    TransactionDescription,
    TransactionListing,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pyconsumer.clock import Clock, SystemClock, checked_timestamp, seconds_of
from pyconsumer.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from pyconsumer.generic import refuse_pickling
from pyconsumer.metrics.source import Metric, MetricSource
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.calls import Calls
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.futures import Steps
from pyconsumer.network.metadata import Metadata
from pyconsumer.network.metric_scopes import NetworkScopes
from pyconsumer.quotas import QuotaEntity
from pyconsumer.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

    from pyconsumer.admin.typed_settings import AdminSettings

__all__ = ["KafkaAdminClient"]

R = TypeVar("R")

_OFFSET_SPECS = tuple(OffsetSpec)
_ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}


class KafkaAdminClient(ShareGroupCalls, DelegationTokenCalls):
    """Manages topics, groups and settings of a cluster.

    Args:
        configs: mappings with settings. They may use Kafka's dotted names.
        clock: the source of time. Tests can pass a :class:`pyconsumer.testing.RunningClock` and move it ahead. By
            default it is the machine's clock.
        settings: see :data:`pyconsumer.admin.config.ADMIN_SETTINGS`. ``bootstrap_servers`` is required.

    Every method takes ``timeout_ms``. None means ``default_api_timeout_ms``. When the time is up, the method raises
    ``KafkaTimeoutError``.
    """

    _closed = True  # until the sockets are there
    _how_to_close = "call close(), or use it in a with statement"

    @classmethod
    def from_file(cls, path: str | os.PathLike[str] | None = None, **overrides: Any) -> Self:
        """Create an admin client with settings from a properties file and from the environment.

        Arguments and errors are those of :meth:`pyconsumer.KafkaConsumer.from_file`.

        Example::

            admin = KafkaAdminClient.from_file("client.properties", request_timeout_ms=10_000)
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
        self.config: AdminConfig = ADMIN_SETTINGS.build({**(configs or {}), **settings})
        if not self.config.client_id:
            self.config = self.config.replace(client_id=f"pyconsumer-admin-{os.getpid()}")
        self._clock = clock or SystemClock()
        metadata = Metadata.from_config(self.config, allow_auto_topic_creation=False)
        self._client = NetworkClient(self.config, metadata=metadata, clock=self._clock)
        self._calls = Calls(
            self._client,
            metadata,
            self._clock,
            request_timeout=self.config.request_timeout_ms / 1000,
            retries=self.config.retries,
            backoff=Backoff.ms(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms),
        )
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._closed = False
        try:
            self._metric_source = MetricSource(
                "admin-client",
                self.config.client_id,
                "admin",
                self._clock.now,
                NetworkScopes(self._client),
                reporters=self.config.metric_reporters,
                settings=self.config.shown(),
            )
        except BaseException:  # of a reporter
            self._closed = True
            self._client.close()
            raise

    # ------------------------------------------------------------ cluster and topics

    def describe_cluster(
        self, *, include_authorized_operations: bool = False, timeout_ms: int | None = None
    ) -> ClusterDescription:
        """Return the brokers, the controller and the cluster id.

        Args:
            include_authorized_operations: also ask which operations this client may do with the cluster (KIP-430).

        Example::

            print(len(admin.describe_cluster().brokers))
        """
        asks = include_authorized_operations
        return self._run(lambda until: topics.describe_cluster(self._calls, until, operations=asks), timeout_ms)

    def list_topics(self, *, include_internal: bool = False, timeout_ms: int | None = None) -> list[str]:
        """Return the names of all topics, sorted.

        Args:
            include_internal: True includes Kafka's own topics, such as ``__consumer_offsets``.

        Example::

            print("flights" in admin.list_topics())
        """

        def steps(until: float) -> Steps[list[str]]:
            found = yield from topics.describe(self._calls, None, until)
            return [topic.name for topic in found if include_internal or not topic.is_internal]

        return self._run(steps, timeout_ms)

    def describe_topics(
        self,
        names: Iterable[str] | None = None,
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> list[TopicDescription]:
        """Return the partitions, leaders and replicas of topics. Without names, of all topics.

        Args:
            include_authorized_operations: also ask which operations this client may do with each topic (KIP-430).

        Raises:
            UnknownTopicOrPartitionError: one of the topics does not exist.

        Example::

            [flights] = admin.describe_topics(["flights"])
            print(len(flights.partitions))
        """
        wanted = None if names is None else names_of(names)
        asks = include_authorized_operations
        return self._run(lambda until: topics.describe(self._calls, wanted, until, operations=asks), timeout_ms)

    def create_topics(
        self,
        new_topics: Iterable[NewTopic | str],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Create topics.

        Args:
            new_topics: descriptions of topics. A name alone creates a topic with the broker's defaults.
            validate_only: True checks the request and creates nothing.
            raise_errors: True raises the first error. False returns the errors in the result.

        Returns:
            The error of each topic, or None for success.

        Example::

            admin.create_topics([NewTopic("flights", num_partitions=6)])
        """
        wanted = [NewTopic(item) if isinstance(item, str) else item for item in new_topics]
        return self._run(
            lambda until: raising(topics.create(self._calls, wanted, until, validate_only=validate_only), raise_errors),
            timeout_ms,
        )

    def delete_topics(
        self, names: Iterable[str], *, raise_errors: bool = True, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete topics with their data. Return the error of each topic, or None for success.

        Example::

            admin.delete_topics(["flights"])
        """
        wanted = names_of(names)
        return self._run(lambda until: raising(topics.delete(self._calls, wanted, until), raise_errors), timeout_ms)

    def create_partitions(
        self,
        topic_partitions: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Increase the number of partitions of topics to the given totals.

        Return the error of each topic, or None for success.

        Example::

            admin.create_partitions({"flights": 12})  # 12 in all
        """
        return self._run(
            lambda until: raising(
                topics.raise_partitions(self._calls, topic_partitions, until, validate_only=validate_only),
                raise_errors,
            ),
            timeout_ms,
        )

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset of each partition (-1: all records).

        Return the first offset that remains.

        Example::

            admin.delete_records({TopicPartition("flights", 0): -1})
        """
        return self._run(lambda until: topics.delete_before(self._calls, offsets, until), timeout_ms)

    def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return an offset of each partition: the start, the end, or the first record at or after a time in ms.

        The offset is None if there is no such record.

        Args:
            isolation_level: with ``read_committed`` the end is the last stable offset.

        Example::

            ends = admin.list_offsets({TopicPartition("flights", 0): OffsetSpec.LATEST})
        """
        level = _ISOLATION_LEVELS.get(isolation_level)
        if level is None:
            raise ValueError(f"isolation_level is {' or '.join(_ISOLATION_LEVELS)}, not {isolation_level!r}")
        wanted = {
            tp: at if at in _OFFSET_SPECS else checked_timestamp(at, f"the time for {tp}")
            for tp, at in partitions.items()
        }
        return self._run(lambda until: self._calls.list_offsets(wanted, until, isolation_level=level), timeout_ms)

    def first_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return offset and timestamp of the first record at or after an offset of each partition.

        It is None if no record follows. Its age is the lag of a group at this offset, as time. Each
        partition costs one fetch of one batch, and at most 64 are in flight. You need the right to READ the topics.

        Args:
            offsets: an offset below the start of the log stands for the start.

        Returns:
            Timestamps in ms since 1970, -1 for a record without one. Markers of transactions are no records. Partitions
            that cannot be read now are left out. So are those of a broker that does not answer within 5 s, or half of
            ``timeout_ms`` if that is less.

        Raises:
            KafkaTimeoutError: the time is up, and no partition has a result.

        Example::

            tp = TopicPartition("flights", 0)
            committed = admin.list_group_offsets("billing")[tp].offset
            first = admin.first_records({tp: committed})[tp]
        """
        from pyconsumer.admin import first_records  # which reads logs, as few programs ask an admin client to

        def steps(until: float) -> Steps[dict[TopicPartition, OffsetAndTimestamp | None]]:
            found = yield from first_records.find(self._calls, offsets, until)
            return found.records

        return self._run(steps, timeout_ms)

    # ------------------------------------------------------------ settings

    def list_config_resources(
        self, types: Iterable[ConfigResourceType] = (), *, timeout_ms: int | None = None
    ) -> list[ConfigResource]:
        """Return the topics, brokers and groups that have settings, by type and name (KIP-1142, Kafka 4.1).

        Args:
            types: list only resources of these types. A group is listed if it has settings of its own.

        Raises:
            UnsupportedVersionError: the brokers are too old for this request.

        Example::

            admin.list_config_resources([ConfigResourceType.TOPIC])
        """
        wanted = list(types)
        return self._run(lambda until: configs.list_resources(self._calls, wanted, until), timeout_ms)

    def describe_configs(
        self, resources: Iterable[ConfigResource], *, include_synonyms: bool = False, timeout_ms: int | None = None
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return all settings of topics and brokers, by name.

        Args:
            include_synonyms: also ask for the places that a value may come from, such as a setting of the broker.

        Example::

            topic = ConfigResource("topic", "flights")
            print(admin.describe_configs([topic])[topic]["retention.ms"].value)
        """
        wanted = list(resources)
        return self._run(
            lambda until: configs.describe(self._calls, wanted, until, synonyms=include_synonyms), timeout_ms
        )

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Change the named settings, and no others. The value None resets a setting to its default (KIP-339).

        Example::

            admin.alter_configs({ConfigResource("topic", "flights"): {"retention.ms": "86400000"}})
        """
        return self._run(
            lambda until: configs.alter(self._calls, changes, until, validate_only=validate_only), timeout_ms
        )

    # ------------------------------------------------------------ groups

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout_ms: int | None = None
    ) -> list[GroupListing]:
        """Return the groups of all brokers by id. ``states`` and ``types`` select some of them.

        Example::

            stable = admin.list_groups(states=["Stable"])
        """
        wanted_states, wanted_types = list(states), list(types)
        return self._run(
            lambda until: groups.list_all(self._calls, until, states=wanted_states, types=wanted_types), timeout_ms
        )

    def describe_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False, timeout_ms: int | None = None
    ) -> dict[str, GroupDescription]:
        """Return the state, assignor and members of groups.

        Both the classic and the consumer protocol (KIP-848) are supported.

        Args:
            include_authorized_operations: also ask which operations this client may do with each group (KIP-430).

        Raises:
            GroupIdNotFoundError: a group does not exist, or is a streams group.

        Example::

            group = admin.describe_groups(["billing"])["billing"]
            print(group.state, len(group.members))
        """
        wanted = names_of(group_ids)

        def steps(until: float) -> Steps[dict[str, GroupDescription]]:
            asks = include_authorized_operations
            return results_of((yield from groups.describe_all(self._calls, wanted, until, operations=asks)))

        return self._run(steps, timeout_ms)

    def delete_groups(
        self, group_ids: Iterable[str], *, raise_errors: bool = True, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete empty groups with their offsets. Return the error of each group, or None for success.

        Raises:
            NonEmptyGroupError: a group has members. The message names them.

        Example::

            admin.delete_groups(["billing"])
        """
        wanted = names_of(group_ids)

        def steps(until: float) -> Steps[dict[str, KafkaError | None]]:
            result: dict[str, KafkaError | None] = {}
            for group_id in wanted:
                try:
                    yield from groups.delete(self._calls, group_id, until)
                    result[group_id] = None
                except KafkaError as error:
                    result[group_id] = error
            return result

        return self._run(lambda until: raising(steps(until), raise_errors), timeout_ms)

    def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group, for the given partitions or for all.

        Empty if there is no such group.

        Example::

            for tp, committed in admin.list_group_offsets("billing").items():
                print(tp, committed.offset)
        """
        wanted = None if partitions is None else list(partitions)

        def steps(until: float) -> Steps[dict[TopicPartition, OffsetAndMetadata]]:
            return results_of((yield from groups.offsets_of(self._calls, {group_id: wanted}, until)))[group_id]

        return self._run(steps, timeout_ms)

    def list_offsets_of_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the committed offsets of several groups, with one request to each coordinator (KIP-709).

        They are empty for a group that does not exist.

        Example::

            for group_id, offsets in admin.list_offsets_of_groups(["billing", "audit"]).items():
                print(group_id, len(offsets))
        """
        wanted = names_of(group_ids)

        def steps(until: float) -> Steps[dict[str, dict[TopicPartition, OffsetAndMetadata]]]:
            return results_of((yield from groups.offsets_of(self._calls, dict.fromkeys(wanted), until)))

        return self._run(steps, timeout_ms)

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_ms: int | None = None
    ) -> None:
        """Set the committed offsets of a group that has no members. If the group does not exist, it is created.

        Raises:
            UnknownMemberIdError: the group has members. The message names them.

        Example::

            admin.alter_group_offsets("billing", {TopicPartition("flights", 0): OffsetAndMetadata(42)})
        """
        return self._run(lambda until: groups.commit_offsets(self._calls, group_id, offsets, until), timeout_ms)

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> None:
        """Delete the committed offsets of a group for the given partitions.

        Raises:
            GroupSubscribedToTopicError: members of the group read one of these topics. The message names them.
            GroupIdNotFoundError: there is no such group.

        Example::

            admin.delete_group_offsets("billing", [TopicPartition("flights", 0)])
        """
        wanted = list(partitions)
        return self._run(lambda until: groups.delete_offsets(self._calls, group_id, wanted, until), timeout_ms)

    # ------------------------------------------------------------ transactions

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        min_duration_ms: int | None = None,
        pattern: str | None = None,
        timeout_ms: int | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids that brokers know (KIP-664).

        Args:
            states: return only transactions in these states, such as ``Ongoing``.
            producer_ids: return only transactions of these producers.
            min_duration_ms: return only transactions that have been open for longer (KIP-994).
            pattern: a regular expression that must match the whole id (KIP-1152).

        Example::

            ongoing = admin.list_transactions(states=["Ongoing"])
        """
        wanted_states, wanted_producers = list(states), list(producer_ids)
        return self._run(
            lambda until: transactions.list_all(
                self._calls,
                until,
                states=wanted_states,
                producer_ids=wanted_producers,
                min_duration_ms=min_duration_ms,
                pattern=pattern,
            ),
            timeout_ms,
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, TransactionDescription]:
        """Return state, producer and partitions of transactions.

        Raises:
            TransactionalIdNotFoundError: no producer has recently used one of the ids.

        Example::

            admin.describe_transactions(["invoices-1"])
        """
        wanted = names_of(transactional_ids)

        def steps(until: float) -> Steps[dict[str, TransactionDescription]]:
            found = {}
            for name in wanted:
                found[name] = yield from transactions.describe(self._calls, name, until)
            return found

        return self._run(steps, timeout_ms)

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Return the active producers of partitions, as the leaders know them, with their open transactions.

        Example::

            admin.describe_producers([TopicPartition("flights", 0)])
        """
        wanted = list(partitions)

        def steps(until: float) -> Steps[dict[TopicPartition, list[ProducerState]]]:
            found = {}
            for tp in wanted:
                found[tp] = yield from transactions.describe_producers_of(self._calls, tp, until)
            return found

        return self._run(steps, timeout_ms)

    def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition],
        *,
        max_transaction_timeout_ms: int = 900_000,
        timeout_ms: int | None = None,
    ) -> list[HangingTransaction]:
        """Find hanging transactions: they hold up readers of partitions, and no coordinator will ever end them.

        Args:
            max_transaction_timeout_ms: the brokers' setting ``transaction.max.timeout.ms``. A younger transaction may
                still be ended.

        Example::

            hanging = admin.find_hanging_transactions([TopicPartition("flights", 0)])
        """
        wanted = list(partitions)
        return self._run(
            lambda until: transactions.find_hanging(self._calls, wanted, max_transaction_timeout_ms, until), timeout_ms
        )

    def abort_transaction(self, partition: TopicPartition, start_offset: int, *, timeout_ms: int | None = None) -> None:
        """Abort a hanging transaction in one partition. (A transaction that has a coordinator ends by its timeout.)

        Args:
            start_offset: the first offset of the transaction, from :meth:`describe_producers`.

        Raises:
            InvalidTxnStateError: no open transaction begins at this offset.

        Example::

            admin.abort_transaction(TopicPartition("orders", 0), start_offset=1_234)
        """
        return self._run(lambda until: transactions.abort(self._calls, partition, start_offset, until), timeout_ms)

    def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, tuple[int, int]]:
        """Fence the producers that use these transactional ids, and abort their open transactions (KIP-588).

        Returns:
            The producer id and the new epoch for each transactional id.

        Example::

            admin.fence_producers(["invoices-1"])
        """
        wanted = names_of(transactional_ids)

        def steps(until: float) -> Steps[dict[str, tuple[int, int]]]:
            found = {}
            for name in wanted:
                found[name] = yield from transactions.fence(self._calls, name, until)
            return found

        return self._run(steps, timeout_ms)

    # ------------------------------------------------------------ access

    def create_acls(
        self, acls: Iterable[AclBinding | str], *, raise_errors: bool = True, timeout_ms: int | None = None
    ) -> dict[AclBinding, KafkaError | None]:
        """Create rules for what users may do (KIP-140). Rules that are there already stay.

        Args:
            acls: rules, or lines such as ``"alice: READ topic orders"``. See :func:`pyconsumer.acls.parse_acl`.
            raise_errors: True raises the first error. False returns the errors in the result.

        Returns:
            The error of each rule, or None for success.

        Raises:
            SecurityDisabledError: the brokers have no authorizer.
            ConfigurationError: a rule that is given as text is not written like ``"alice: READ topic orders"``.

        Example::

            admin.create_acls(["alice: READ topic orders", "alice: READ group billing"])
        """
        wanted = access.bindings(acls)
        return self._run(lambda until: raising(access.create(self._calls, wanted, until), raise_errors), timeout_ms)

    def describe_acls(self, acl_filter: AclFilter | None = None, *, timeout_ms: int | None = None) -> list[AclBinding]:
        """Return the rules that a filter selects, sorted by resource and user. Without a filter, return all rules.

        Raises:
            SecurityDisabledError: the brokers have no authorizer.

        Example::

            for acl in admin.describe_acls(AclFilter(ResourceType.TOPIC, "orders", pattern_type=PatternType.MATCH)):
                print(acl)  # alice: READ topic orders
        """
        wanted = AclFilter() if acl_filter is None else acl_filter
        return self._run(lambda until: access.describe(self._calls, wanted, until), timeout_ms)

    def delete_acls(
        self,
        filters: Iterable[AclFilter | AclBinding | str],
        *,
        raise_errors: bool = True,
        timeout_ms: int | None = None,
    ) -> dict[AclFilter, AclDeletion]:
        """Delete the rules that filters select. A rule or a line selects exactly itself.

        Args:
            raise_errors: True raises the first error. False returns the errors in the result.

        Returns:
            The deleted rules of each filter. There may be none.

        Raises:
            SecurityDisabledError: the brokers have no authorizer.

        Example::

            admin.delete_acls(["alice: READ topic orders", AclFilter(principal="User:eve")])
        """
        wanted = access.filters(filters)

        def steps(until: float) -> Steps[dict[AclFilter, AclDeletion]]:
            found = yield from access.delete(self._calls, wanted, until)
            for deletion in found.values():
                if raise_errors and deletion.error is not None:
                    raise deletion.error
            return found

        return self._run(steps, timeout_ms)

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, raise_errors: bool = True, timeout_ms: int | None = None
    ) -> dict[str, ScramUserDescription]:
        """Return the SCRAM mechanisms of users with their iterations, by name (KIP-554). Without names, of all users.

        Args:
            raise_errors: True raises the first error. False returns the errors in the result.

        Raises:
            ResourceNotFoundError: one of the users has no SCRAM credentials.

        Example::

            print(admin.describe_user_scram_credentials(["alice"])["alice"].iterations)
        """
        wanted = None if users is None else names_of(users)

        def steps(until: float) -> Steps[dict[str, ScramUserDescription]]:
            found = yield from access.describe_users(self._calls, wanted, until)
            for user in found.values():
                if raise_errors and user.error is not None:
                    raise user.error
            return found

        return self._run(steps, timeout_ms)

    def alter_user_scram_credentials(
        self,
        alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
        *,
        raise_errors: bool = True,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Set and delete the SCRAM credentials of users (KIP-554). A request may have each user once.

        Args:
            raise_errors: True raises the first error. False returns the errors in the result.

        Returns:
            The error of each user, or None for success.

        Raises:
            ResourceNotFoundError: a credential that is to be deleted does not exist.
            DuplicateResourceError: a user occurs twice.
            UnacceptableCredentialError: a name is empty.

        Example::

            new = UserScramCredentialUpsertion("alice", ScramMechanism.SCRAM_SHA_512, "her password")
            admin.alter_user_scram_credentials([new])
        """
        wanted = list(alterations)
        return self._run(
            lambda until: raising(access.alter_users(self._calls, wanted, until), raise_errors), timeout_ms
        )

    # ------------------------------------------------------------ quotas

    def describe_client_quotas(
        self,
        entity: QuotaEntity | None = None,
        *,
        types: Iterable[str] = (),
        strict: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return quotas of clients (KIP-546), by entity and key. Without arguments, all of them.

        Args:
            entity: only quotas of these names. Other names may be part of an entity too, see ``strict``.
            types: only quotas of entities with these types: ``user``, ``client-id``, ``ip``.
            strict: True selects entities that have no other types.

        Example::

            print(admin.describe_client_quotas(QuotaEntity(user="alice")))
        """
        wanted = quotas.components(entity, types)
        return self._run(lambda until: quotas.describe(self._calls, wanted, strict, until), timeout_ms)

    def alter_client_quotas(
        self,
        alterations: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout_ms: int | None = None,
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Set quotas of clients (KIP-546). Keys that are not given stay as they are, and None removes a key.

        Args:
            alterations: values by key, such as ``producer_byte_rate`` (see :mod:`pyconsumer.quotas`).
            validate_only: True only checks whether the quotas could be set.
            raise_errors: True raises the first error. False returns the errors in the result.

        Raises:
            InvalidRequestError: an entity cannot have this key or value.

        Example::

            admin.alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1_000_000}})
        """
        wanted = {entity: dict(values) for entity, values in alterations.items()}
        return self._run(
            lambda until: raising(quotas.alter(self._calls, wanted, validate_only, until), raise_errors), timeout_ms
        )

    # ------------------------------------------------------------ inside

    def _run(self, steps: Callable[[float], Steps[R]], timeout_ms: int | None) -> R:
        if self._pid != os.getpid():
            raise IllegalStateError("the admin client was made before a fork. Make one in each process")
        timeout = seconds_of(self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)
        deadline = self._clock.now() + timeout
        if not self._lock.acquire(timeout=timeout):
            raise KafkaTimeoutError("calls of other threads took the time of this one")
        try:
            if self._closed:
                raise IllegalStateError("the admin client is closed")
            return self._client.run(steps(deadline), deadline)
        finally:
            self._lock.release()

    # ------------------------------------------------------------ metrics, and the end

    def metrics(self) -> dict[str, dict[str, float | None]]:
        """Return the metrics by group and name. The names are those of Java's admin client.

        Any thread may call this at any time, also while another call waits, and after :meth:`close`. Rates, averages
        and maxima are those of the last minute (``metrics_sample_window_ms``, ``metrics_num_samples``). Without an
        event in that time a rate is 0.0, and an average or a maximum is NaN.

        Example::

            admin.metrics()["admin-client-metrics"]["request-total"]
        """
        return self._metric_source.by_group()

    def metric_table(self) -> list[Metric]:
        """Return each metric with its name, group, tags, unit, description and value.

        Any thread may call this at any time. A value that does not exist is NaN.

        Example::

            nodes = [metric for metric in admin.metric_table() if "node-id" in metric.tags]
        """
        return self._metric_source.table()

    def close(self) -> None:
        """Close all connections. If another thread is making a call, wait for it first. A second close has no effect.

        Example::

            admin.close()
        """
        if self._pid != os.getpid():
            return
        self._metric_source.close()
        with self._lock:
            self._closed = True
            self._client.close()

    def __del__(self, _warn: Callable[..., None] = background_log.warn) -> None:
        # Any thread may run this, in the middle of anything: nothing here waits or takes a lock.
        if self._closed or self._pid != os.getpid():
            return
        shown = repr(self)  # before it is closed
        self._closed = True
        self._abandon()
        _warn(f"unclosed {shown}: {self._how_to_close}", ResourceWarning, source=self)

    def _abandon(self) -> None:
        """Close the descriptors of a client that was dropped without :meth:`close`."""
        self._client.abandon()

    __reduce__ = refuse_pickling

    def __repr__(self) -> str:
        return f"<KafkaAdminClient client_id={self.config.client_id!r}{' closed' if self._closed else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def run_steps(admin: KafkaAdminClient, steps: Callable[[Calls, float], Steps[R]], timeout_ms: int | None) -> R:
    """Run requests for which there is no method, over the connections of an admin client.

    Args:
        steps: a function that returns the call as a generator. Its arguments are the client's :class:`.Calls` and the
            deadline (monotonic seconds).
        timeout_ms: as for the client's methods.

    Raises:
        KafkaTimeoutError: the call did not finish in time.
        IllegalStateError: the client is closed, or was created before a fork.
    """
    return admin._run(lambda until: steps(admin._calls, until), timeout_ms)
