"""Each public call of the assignors has an example."""

from __future__ import annotations

import inspect
import textwrap

import pytest

from pyconsumer import assignors
from pyconsumer.assignors import Assignor, ClusterView, PartitionAssignor

_CALLS = [
    *(
        (f"{owner.__name__}.{name}", inspect.getattr_static(owner, name))
        for owner in (Assignor, PartitionAssignor, ClusterView)
        for name in sorted(vars(owner))
        if not name.startswith("_")
    ),
    *((name, each) for name in assignors.__all__ if inspect.isfunction(each := getattr(assignors, name))),
]


def _example(call: object) -> str:
    documented = call.__func__ if isinstance(call, staticmethod) else call
    _, _, example = (inspect.getdoc(documented) or "").partition("Example::\n\n")
    return textwrap.dedent(example)


@pytest.mark.parametrize(("name", "call"), _CALLS, ids=[name for name, _ in _CALLS])
def test_each_public_call_has_an_example(name: str, call: object) -> None:
    example = _example(call)
    compile(example, name, "exec")
    assert name.rpartition(".")[2] in example


def test_the_examples_of_one_assignor_work_together() -> None:
    written = {name.rpartition(".")[2]: _example(call) for name, call in _CALLS}
    namespace = {**vars(assignors)}
    methods = textwrap.indent("\n".join(written[name] for name in ("name", "assign_partitions")), "    ")
    exec(f"class Mine(PartitionAssignor):\n{methods}", namespace)
    members = {name: assignors.Subscription(("orders",)) for name in "ab"}
    shares = namespace["Mine"]().assign_partitions({"orders": 3}, members)
    assert {name: [each.partition for each in share] for name, share in shares.items()} == {"a": [0, 2], "b": [1]}
