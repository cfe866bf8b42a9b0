"""Rules of data contracts. None is run: one that would apply is an error, as in clients without its executor."""

from __future__ import annotations

from typing import Any, Final, Literal

from pyconsumer.errors import SerializationError

__all__ = ["refuse_rules"]

_MODES: Final = {
    "read": frozenset({"READ", "WRITEREAD"}),
    "write": frozenset({"WRITE", "WRITEREAD"}),
    "upgrade": frozenset({"UPGRADE", "UPDOWN"}),
}


def refuse_rules(schema: Any, direction: Literal["read", "write", "upgrade"], name: str) -> None:
    """Raise an error if a schema has a rule for a direction.

    Rules of the other direction, rules that are disabled, and tags are ignored.

    Args:
        schema: of the registry.
        direction: ``upgrade`` asks for the rules between versions, the others for those of values and bytes.
        name: the name of the schema, for messages.

    Raises:
        SerializationError: there is such a rule.
    """
    rule_set = getattr(schema, "rule_set", None)
    if rule_set is None:
        return
    if direction == "upgrade":
        rules = rule_set.migration_rules or ()
    else:
        rules = (*(rule_set.domain_rules or ()), *(getattr(rule_set, "encoding_rules", None) or ()))
    for rule in rules:
        mode = getattr(rule.mode, "value", rule.mode)
        if mode in _MODES[direction] and not rule.disabled:
            raise SerializationError(
                f"the rule {rule.name!r} ({rule.type}, {mode}) of {name} would have to be applied, and this client runs"
                " no rules. Disable the rule, or use a client with its executor"
            )
