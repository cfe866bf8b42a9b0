"""The commands by which a program changes users, rules and quotas of its own cluster. Their values are plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyconsumer.acls import AclFilter
from pyconsumer.broker.access.authorizer import Authorizer
from pyconsumer.broker.access.recorder import AccessRecorder
from pyconsumer.broker.access.store import acl_from_json, check_binding
from pyconsumer.broker.controller import Controller
from pyconsumer.errors import SecurityDisabledError

__all__ = ["ACCESS_COMMANDS", "run_access_command"]

ACCESS_COMMANDS: Final = frozenset({"access", "add_acls", "record_access", "remove_acls", "restore_access", "set_acls"})


def run_access_command(
    controller: Controller, authorizer: Authorizer | None, name: str, arguments: Mapping[str, Any]
) -> Any:
    """Run one of :data:`ACCESS_COMMANDS`. Raises ``KafkaError`` as the controller does."""
    if name == "access":
        return {**controller.acls.snapshot(), **controller.quotas.snapshot(), **controller.scram.snapshot()}
    if name == "restore_access":
        state = arguments["state"]
        controller.acls.replace(map(acl_from_json, state.get("acls", {}).get("add", ())))
        controller.quotas.restore(state)
        controller.scram.restore(state)
        return None
    if name == "record_access":
        return _record(controller, authorizer, **arguments)
    acls = list(map(acl_from_json, arguments["acls"]))
    if name == "remove_acls":
        return sum(map(len, controller.acls.delete([AclFilter.of(acl) for acl in acls])))
    for acl in acls:
        check_binding(acl)
    if name == "set_acls":
        controller.acls.replace(acls)
    else:
        controller.acls.create(acls)
    return None


def _record(
    controller: Controller, authorizer: Authorizer | None, *, begin: bool, end: bool, allows_all: bool = False
) -> dict[str, Any]:
    """Return the questions that were recorded, and how many were left out.

    Then end the recording, or begin a new one, if that is wanted.
    """
    if authorizer is None:
        raise SecurityDisabledError("the cluster has no authorizer: EmbeddedCluster(acls=[...])")
    recorder = authorizer.recorder
    found = {
        "questions": [] if recorder is None else [question.to_json() for question in recorder.questions()],
        "left_out": 0 if recorder is None else recorder.left_out,
    }
    if end:
        authorizer.record(None)
    if begin:
        authorizer.record(AccessRecorder(list(controller.topics), allows_all=allows_all))
    return found
