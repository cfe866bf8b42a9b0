"""``Authorizer``: asks the rules, and logs. ``Access``: the rights of the client of one request.

The log ``pyconsumer.authorizer`` has a line for each decision: a denial at INFO, a permission at DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from pyconsumer.acls import CLUSTER_NAME, AclOperation, ResourceType, java_host
from pyconsumer.background_log import Log
from pyconsumer.broker.access.recorder import AccessRecorder, Question
from pyconsumer.broker.access.rules import Decision
from pyconsumer.broker.access.store import AclStore
from pyconsumer.broker.access.table import Effect, Rule, error_of, rules_of
from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.api_keys import ApiKey

__all__ = ["STANDARD_AUTHORIZER", "Access", "Authorizer", "java_address", "parse_super_users"]

#: The one value of ``authorizer.class.name``.
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_log = Log("pyconsumer.authorizer")

_MOST_REMEMBERED: Final = 20_000
#: The most characters of a name about which a decision is remembered. Names of groups may have many more.
_LONGEST_REMEMBERED: Final = 255


def parse_super_users(text: str | None) -> frozenset[str]:
    """Return the principals in ``super.users``, such as ``User:admin;User:ops``.

    Raises:
        ConfigurationError: one of them has no type.
    """
    found = frozenset(part.strip() for part in (text or "").split(";") if part.strip())
    for principal in found:
        if ":" not in principal:
            raise ConfigurationError(f"super.users: {principal!r} has no type: write User:{principal}")
    return found


class Authorizer:
    """Decides for all brokers of a cluster.

    Args:
        acls: the rules.
        super_users: principals that may do anything.
        allow_without_acl: the decision about resources without a rule (``allow.everyone.if.no.acl.found``).

    Attributes:
        recorder: takes note of the questions about clients, if there is one. See :meth:`record`.
    """

    def __init__(
        self, acls: AclStore, super_users: frozenset[str] = frozenset(), *, allow_without_acl: bool = False
    ) -> None:
        self.recorder: AccessRecorder | None = None
        self._acls = acls
        self._super_users = super_users
        self._allow_without_acl = allow_without_acl
        self._decisions: dict[tuple[str, str, AclOperation, ResourceType, str | None], bool] = {}
        self._accesses: dict[tuple[str, str, int, int], Access] = {}
        self._version = -1

    def access(self, principal: str, client_host: str, api_key: int, version: int) -> Access:
        """Return the rights of the client of a request.

        It is the same object for each such request, and asks the rules each time.
        """
        key = (principal, client_host, api_key, version)
        found = self._accesses.get(key)
        if found is None:
            if len(self._accesses) >= _MOST_REMEMBERED:
                self._accesses.clear()
            found = self._accesses[key] = Access(self, principal, client_host, api_key, version)
        found.begin()
        return found

    def allows(self, principal: str, host: str, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Return whether a client may do something with a resource.

        Args:
            principal: the client, such as ``User:alice``.
            host: its address as Java writes it, see :func:`java_address`.
        """
        if principal in self._super_users:
            return True
        if len(name) > _LONGEST_REMEMBERED:
            return self._decide(principal, host, operation, kind, name)
        if self._version != self._acls.version or len(self._decisions) >= _MOST_REMEMBERED:
            self._forget()
        key = (principal, host, operation, kind, name)
        found = self._decisions.get(key)
        if found is None:
            found = self._decisions[key] = self._decide(*key)
        return found

    def record(self, recorder: AccessRecorder | None) -> None:
        """Let a recorder take note of all questions from now on. None ends that."""
        self.recorder = recorder

    def recorder_of(self, principal: str) -> AccessRecorder | None:
        """Return the recorder of a client's questions. Super users have none."""
        return None if principal in self._super_users else self.recorder

    def _forget(self) -> None:
        """Forget the decisions, which were made by older rules."""
        self._decisions.clear()
        self._version = self._acls.version

    def _decide(self, principal: str, host: str, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        decision = self._acls.rules.decide(principal, host, operation, kind, name)
        return decision is Decision.ALLOWED or (decision is Decision.NO_RULE and self._allow_without_acl)

    def allows_any(self, principal: str, host: str, operation: AclOperation, kind: ResourceType) -> bool:
        """Return whether a client may do something with at least one resource of a type.

        As in Kafka, without rules the setting decides about a name that nobody has.
        """
        if self.allows(principal, host, operation, kind, "hardcode"):
            return True
        key = (principal, host, operation, kind, None)  # the question above has made the decisions present
        found = self._decisions.get(key)
        if found is None:
            found = self._decisions[key] = self._acls.rules.allows_any(principal, host, operation, kind)
        return found


class Access:
    """The rights of the client of one request.

    Args:
        principal, client_host: the client. The address has Kafka's form, such as ``/127.0.0.1``.
        api_key, version: the request.
    """

    __slots__ = ("_api", "_authorizer", "_host", "_logs_allowed", "_principal", "_recorder", "_rows", "rules")

    def __init__(self, authorizer: Authorizer, principal: str, client_host: str, api_key: int, version: int) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = java_address(client_host)
        self._api = _API_NAMES[api_key]
        #: The rows of the table for this request.
        self.rules: tuple[Rule, ...] = rules_of(api_key, version)
        self._rows = {(rule.resource, rule.purpose): rule for rule in self.rules if rule.effect is Effect.ASKED}
        self.begin()

    def begin(self) -> None:
        """Look once, as a request may have many topics, whether somebody wants to know of each permission."""
        self._recorder = self._authorizer.recorder_of(self._principal)
        self._logs_allowed = _log.may_want(logging.DEBUG)

    def may(self, kind: ResourceType, name: str = CLUSTER_NAME, purpose: str = "", *, log_denied: bool = True) -> bool:
        """Return whether the client may do with a resource what the table demands for this request.

        Args:
            purpose: selects the row, if there are several for this type of resource.
            log_denied: False for resources that are only left out of a response.
        """
        return self.fits(self._row(kind, purpose), name, log_denied=log_denied)

    def _row(self, kind: ResourceType, purpose: str) -> Rule:
        found = self._rows.get((kind, purpose))
        if found is None:
            raise LookupError(f"the table has no row of {self._api} for {kind.name} {purpose}")
        return found

    def fits(self, rule: Rule, name: str = CLUSTER_NAME, *, log_denied: bool = True) -> bool:
        """Return whether the client has the right of a row of the table."""
        if rule.or_cluster is not None and self._on_cluster(rule.or_cluster):
            return True
        return self._asks(rule.operation, rule.resource, name, log_denied=log_denied)

    def _on_cluster(self, operation: AclOperation) -> bool:
        """Return whether a right on the cluster stands for the one on the resource."""
        if self._recorder is not None and self._recorder.allows_all:
            return False
        allowed = self._authorizer.allows(self._principal, self._host, operation, ResourceType.CLUSTER, CLUSTER_NAME)
        if allowed and self._logs_allowed:
            self._log("ALLOWED", operation, ResourceType.CLUSTER, CLUSTER_NAME)
        return allowed

    def _asks(self, operation: AclOperation, kind: ResourceType, name: str, *, log_denied: bool) -> bool:
        allowed = self._authorizer.allows(self._principal, self._host, operation, kind, name)
        if self._recorder is not None:
            allowed = self._recorder.note(
                Question(self._principal, operation, kind, name, allowed, not log_denied, self._api)
            )
        if allowed:
            if self._logs_allowed:
                self._log("ALLOWED", operation, kind, name)
        elif log_denied:
            self._log("DENIED", operation, kind, name)
        return allowed

    def _log(self, decision: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
        log = _log.info if decision == "DENIED" else _log.debug
        log(_LINE, self._principal, decision, operation.name, kind.name, name, self._host, self._api)

    def may_any(self, kind: ResourceType) -> bool:
        """Return whether :meth:`may` is True for at least one resource of a type."""
        rule = self._row(kind, "")
        if rule.or_cluster is not None and self._on_cluster(rule.or_cluster):
            return True
        allowed = self._authorizer.allows_any(self._principal, self._host, rule.operation, rule.resource)
        if self._recorder is not None:
            allowed = self._recorder.note(
                Question(self._principal, rule.operation, kind, None, allowed, False, self._api, rule.or_cluster)
            )
        if not allowed:
            self._log("DENIED", rule.operation, kind, "(any)")
        return allowed

    def denied(self, kind: ResourceType, names: Iterable[str], purpose: str = "") -> frozenset[str]:
        """Return the names of which :meth:`may` is False. Each name is asked about, and logged, once."""
        return frozenset(name for name in dict.fromkeys(names) if not self.may(kind, name, purpose))

    def operations(self, kind: ResourceType, name: str, all_operations: int) -> int:
        """Return the allowed ones among some operations, as bits by Kafka's numbers."""
        if self._recorder is not None and self._recorder.allows_all:
            return all_operations
        return sum(
            1 << operation
            for operation in AclOperation
            if all_operations >> operation & 1
            and self._authorizer.allows(self._principal, self._host, operation, kind, name)
        )

    def error(self, kind: ResourceType) -> int:
        """Return the error code of a denial."""
        return error_of(kind)


_API_NAMES: Final[dict[int, str]] = {int(key): key.name for key in ApiKey}
_LINE: Final = "%s is %s %s on %s %s from %s (%s)"

_addresses: dict[str, str] = {}


def java_address(client_host: str) -> str:
    """Return an address as Java writes it, with which rules for a host are compared: IPv6 is not shortened."""
    found = _addresses.get(client_host)
    if found is None:
        if len(_addresses) > _MOST_REMEMBERED:
            _addresses.clear()
        host = client_host.lstrip("/")
        found = _addresses[client_host] = _long_form(host.partition("%")[0]) if ":" in host else host
    return found


def _long_form(host: str) -> str:
    try:
        return java_host(host)
    except ValueError:
        return host
