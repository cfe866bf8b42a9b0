"""Admin calls for access: rules for what users may do (KIP-140), and the SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.acls import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType, parse_acl
from pyconsumer.admin.types import (
    AclDeletion,
    ScramUserDescription,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pyconsumer.errors import KafkaError, ProtocolError, for_code
from pyconsumer.network.calls import Calls
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages import (
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_user_scram_credentials,
)
from pyconsumer.scram import ScramMechanism, salt_password

if TYPE_CHECKING:
    from pyconsumer.network.futures import Steps

__all__ = ["alter_users", "bindings", "create", "delete", "describe", "describe_users", "filters"]

_SALT_BYTES: Final = 24


def bindings(acls: Iterable[AclBinding | str]) -> list[AclBinding]:
    """Return rules, some of which may be lines of :func:`pyconsumer.acls.parse_acl`."""
    if isinstance(acls, str):
        raise TypeError(f"a list of rules is needed, not the string {acls!r}")
    return [one for acl in acls for one in (parse_acl(acl) if isinstance(acl, str) else [acl])]


def filters(wanted: Iterable[AclFilter | AclBinding | str]) -> list[AclFilter]:
    """Return filters, some of which may be rules or lines, which select themselves."""
    if isinstance(wanted, str):
        raise TypeError(f"a list of filters is needed, not the string {wanted!r}")
    found = []
    for one in wanted:
        found += [one] if isinstance(one, AclFilter) else [AclFilter.of(acl) for acl in bindings([one])]
    return found


def create(calls: Calls, acls: Sequence[AclBinding], deadline: float) -> Steps[dict[AclBinding, KafkaError | None]]:
    """Create rules. Return each rule's error, or None for success."""
    response = yield from calls.call(
        ApiKey.CREATE_ACLS,
        create_acls.CreateAclsRequest(
            [
                create_acls.AclCreation(
                    int(acl.resource_type),
                    acl.name,
                    int(acl.pattern_type),
                    acl.principal,
                    acl.host,
                    int(acl.operation),
                    int(acl.permission),
                )
                for acl in acls
            ]
        ),
        create_acls.CreateAclsResponse,
        deadline,
        what="creating access control lists",
    )
    _check_count(response.results, acls)
    return {
        acl: _error(result.error_code, result.error_message, str(acl))
        for acl, result in zip(acls, response.results, strict=True)
    }


def describe(calls: Calls, wanted: AclFilter, deadline: float) -> Steps[list[AclBinding]]:
    """Return the rules that a filter selects, sorted by resource and principal."""
    response = yield from calls.call(
        ApiKey.DESCRIBE_ACLS,
        describe_acls.DescribeAclsRequest(*_filter(wanted)),
        describe_acls.DescribeAclsResponse,
        deadline,
        what="reading access control lists",
    )
    if response.error_code:
        raise for_code(response.error_code, response.error_message or "reading access control lists")
    return sorted(
        _binding(resource.resource_type, resource.resource_name, resource.pattern_type, acl)
        for resource in response.resources
        for acl in resource.acls
    )


def delete(calls: Calls, wanted: Sequence[AclFilter], deadline: float) -> Steps[dict[AclFilter, AclDeletion]]:
    """Delete the rules that filters select. Return the deleted rules, or the error, of each filter."""
    response = yield from calls.call(
        ApiKey.DELETE_ACLS,
        delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(*_filter(one)) for one in wanted]),
        delete_acls.DeleteAclsResponse,
        deadline,
        what="deleting access control lists",
    )
    _check_count(response.filter_results, wanted)
    found = {}
    for one, result in zip(wanted, response.filter_results, strict=True):
        error = _error(result.error_code, result.error_message, str(one))
        acls = []
        for acl in result.matching_acls:
            error = error or _error(acl.error_code, acl.error_message, str(one))
            if not acl.error_code:
                acls.append(_binding(acl.resource_type, acl.resource_name, acl.pattern_type, acl))
        found[one] = AclDeletion(tuple(acls), error)
    return found


def describe_users(
    calls: Calls, users: Sequence[str] | None, deadline: float
) -> Steps[dict[str, ScramUserDescription]]:
    """Return the SCRAM mechanisms of users, or their errors. Without names, those of all users."""
    names = None if users is None else [describe_user_scram_credentials.UserName(name) for name in users]
    response = yield from calls.call(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(names),
        describe_user_scram_credentials.DescribeUserScramCredentialsResponse,
        deadline,
        what="reading SCRAM credentials",
    )
    if response.error_code:
        raise for_code(response.error_code, response.error_message or "reading SCRAM credentials")
    return {
        result.user: ScramUserDescription(
            {_member(ScramMechanism, info.mechanism): info.iterations for info in result.credential_infos},
            _error(result.error_code, result.error_message, result.user),
        )
        for result in sorted(response.results, key=lambda result: result.user)
    }


def alter_users(
    calls: Calls,
    alterations: Sequence[UserScramCredentialUpsertion | UserScramCredentialDeletion],
    deadline: float,
) -> Steps[dict[str, KafkaError | None]]:
    """Set and delete SCRAM credentials. Return each user's error, or None for success."""
    request = alter_user_scram_credentials.AlterUserScramCredentialsRequest()
    for item in alterations:
        if isinstance(item, UserScramCredentialDeletion):
            request.deletions.append(
                alter_user_scram_credentials.ScramCredentialDeletion(item.user, int(item.mechanism))
            )
        else:
            salt = item.salt or secrets.token_bytes(_SALT_BYTES)
            request.upsertions.append(
                alter_user_scram_credentials.ScramCredentialUpsertion(
                    item.user,
                    int(item.mechanism),
                    item.iterations,
                    salt,
                    salt_password(item.mechanism, item.password.encode(), salt, item.iterations),
                )
            )
    response = yield from calls.call(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        request,
        alter_user_scram_credentials.AlterUserScramCredentialsResponse,
        deadline,
        target=calls.controller,
        what="changing SCRAM credentials",
    )
    return {result.user: _error(result.error_code, result.error_message, result.user) for result in response.results}


def _filter(wanted: AclFilter) -> tuple[int, str | None, int, str | None, str | None, int, int]:
    return (
        int(wanted.resource_type),
        wanted.name,
        int(wanted.pattern_type),
        wanted.principal,
        wanted.host,
        int(wanted.operation),
        int(wanted.permission),
    )


def _binding(kind: int, name: str, pattern: int, acl: Any) -> AclBinding:
    return AclBinding(
        _member(ResourceType, kind),
        name,
        acl.principal,
        _member(AclOperation, acl.operation),
        acl.host,
        _member(AclPermission, acl.permission_type),
        _member(PatternType, pattern),
    )


def _member(enum: Callable[[int], Any], number: int) -> Any:
    """Return a member by its number. A number of a newer Kafka becomes UNKNOWN or stays a number."""
    try:
        return enum(number)
    except ValueError:
        return number if enum is ScramMechanism else enum(0)


def _error(code: int, message: str | None, what: str) -> KafkaError | None:
    return for_code(code, message or what) if code else None


def _check_count(results: Sequence[object], asked: Sequence[object]) -> None:
    if len(results) != len(asked):
        raise ProtocolError(f"the broker's response has {len(results)} results for {len(asked)} access control lists")
