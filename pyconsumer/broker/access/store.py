"""The access control lists: a part of the controller's state. Checks and errors are those of Kafka's controller.

A change is in the cluster's files before it takes effect. It holds for the next request of every connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pyconsumer.acls import CLUSTER_NAME, AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from pyconsumer.broker.access.rules import AclRules
from pyconsumer.errors import InvalidRequestError, PolicyViolationError

__all__ = ["AclStore", "acl_from_json", "acl_to_json", "check_binding", "check_filter"]

#: The most rules of a cluster.
MOST_ACLS: Final = 100_000

#: Stores a change, or calls the first argument and raises ``OSError``.
Save = Callable[[Callable[[], None], Mapping[str, Any]], None]


def check_binding(acl: AclBinding) -> None:
    """Raise ``InvalidRequestError`` if a rule cannot be stored."""
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise InvalidRequestError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        raise InvalidRequestError("Invalid empty resource name")
    for what, value in (("resourceType", acl.resource_type), ("operation", acl.operation)):
        if value.name in ("UNKNOWN", "ANY"):
            raise InvalidRequestError(f"Invalid {what} {value.name}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidRequestError(f"Invalid patternType {acl.pattern_type.name}")
    if acl.permission not in (AclPermission.ALLOW, AclPermission.DENY):
        raise InvalidRequestError(f"Invalid permissionType {acl.permission.name}")
    if ":" not in acl.principal:
        raise InvalidRequestError(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from "
            "the principal name)"
        )


def check_filter(wanted: AclFilter) -> None:
    """Raise ``InvalidRequestError`` if a filter has an unknown part."""
    if ResourceType.UNKNOWN is wanted.resource_type or PatternType.UNKNOWN is wanted.pattern_type:
        raise InvalidRequestError("Unknown patternFilter.")
    if AclOperation.UNKNOWN is wanted.operation or AclPermission.UNKNOWN is wanted.permission:
        raise InvalidRequestError("Unknown entryFilter.")


class AclStore:
    """The rules of a cluster.

    Args:
        save: makes a change durable.

    Attributes:
        rules: the index that decides. ``version`` changes with every change.
    """

    def __init__(self, save: Save) -> None:
        self._save = save
        self._acls: dict[AclBinding, None] = {}
        self.rules = AclRules()
        self.version = 0

    def __len__(self) -> int:
        return len(self._acls)

    # --- the files

    def load(self, change: Mapping[str, Any]) -> None:
        """Apply a change from the cluster's files."""
        found = change.get("acls", {})
        self._apply(map(acl_from_json, found.get("add", ())), map(acl_from_json, found.get("remove", ())))

    def snapshot(self) -> dict[str, Any]:
        """Return the state in the form for the files. Empty if there are no rules."""
        return {"acls": {"add": [acl_to_json(acl) for acl in self._acls]}} if self._acls else {}

    # --- questions and changes

    def matching(self, wanted: AclFilter) -> list[AclBinding]:
        """Return the rules that a filter selects, in the order in which they were created."""
        if (
            wanted.name is not None
            and wanted.principal is not None
            and wanted.host is not None
            and wanted.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
            and wanted.resource_type is not ResourceType.ANY
            and wanted.operation is not AclOperation.ANY
            and wanted.permission is not AclPermission.ANY
        ):
            exact = AclBinding(
                wanted.resource_type,
                wanted.name,
                wanted.principal,
                wanted.operation,
                wanted.host,
                wanted.permission,
                wanted.pattern_type,
            )
            return [exact] if exact in self._acls else []
        return [acl for acl in self._acls if wanted.matches(acl)]

    def create(self, acls: Iterable[AclBinding]) -> None:
        """Add rules that have been checked, in a single write. Rules that are there already are skipped.

        Raises:
            PolicyViolationError: there would be too many rules.
            OSError: the change could not be stored.
        """
        added = [acl for acl in dict.fromkeys(acls) if acl not in self._acls]
        if len(self._acls) + len(added) > MOST_ACLS:
            raise PolicyViolationError(f"there can be at most {MOST_ACLS} access control lists")
        self._change(added, [])

    def delete(self, filters: Sequence[AclFilter]) -> list[list[AclBinding]]:
        """Remove the rules that filters select, in a single write. Return the rules of each filter.

        A rule that several filters select is in the result of each of them.

        Raises:
            OSError: the change could not be stored. No rule was removed.
        """
        found = [self.matching(one) for one in filters]
        self._change([], list(dict.fromkeys(acl for acls in found for acl in acls)))
        return found

    def replace(self, acls: Iterable[AclBinding]) -> None:
        """Let these rules, which have been checked, be the only ones. The errors are those of :meth:`create`."""
        wanted = dict.fromkeys(acls)
        if len(wanted) > MOST_ACLS:
            raise PolicyViolationError(f"there can be at most {MOST_ACLS} access control lists")
        self._change([acl for acl in wanted if acl not in self._acls], [acl for acl in self._acls if acl not in wanted])

    def _change(self, added: list[AclBinding], removed: list[AclBinding]) -> None:
        if not added and not removed:
            return
        self._apply(added, removed)
        self._save(
            lambda: self._apply(removed, added),
            {"acls": {"add": list(map(acl_to_json, added)), "remove": list(map(acl_to_json, removed))}},
        )

    def _apply(self, added: Iterable[AclBinding], removed: Iterable[AclBinding]) -> None:
        for acl in removed:
            if acl in self._acls:
                del self._acls[acl]
                self.rules.remove(acl)
        for acl in added:
            if acl not in self._acls:
                self._acls[acl] = None
                self.rules.add(acl)
        self.version += 1


def acl_to_json(acl: AclBinding) -> list[str]:
    """Return the form of a rule for the cluster's files, with names instead of numbers."""
    return [
        acl.resource_type.name,
        acl.name,
        acl.principal,
        acl.operation.name,
        acl.host,
        acl.permission.name,
        acl.pattern_type.name,
    ]


def acl_from_json(data: Sequence[str]) -> AclBinding:
    """Return the rule. Raises ``KeyError`` or ``ValueError`` if ``data`` has another form."""
    kind, name, principal, operation, host, permission, pattern = data
    return AclBinding(
        ResourceType[kind],
        name,
        principal,
        AclOperation[operation],
        host,
        AclPermission[permission],
        PatternType[pattern],
    )
