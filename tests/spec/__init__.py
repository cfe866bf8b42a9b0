"""The requirement lists and the tools that check their state.

`client.tsv`, `broker.tsv` and `transactions.tsv` hold one item a line: id, one sentence that states the requirement,
status. A line that starts with `#` is the heading of the section below it. The statuses:

    - open                 to be built, or built and not yet shown by a test.
    - done                 the product does as the sentence says, and a passing test shows it.
    - differs: THE RULE    Apache Kafka 4.x does something else than the sentence, and so do we.
    - design: THE RULE     Kafka 4.x's classic client or broker does as the sentence says, and we do this instead.
    - same as ID           the other item says it already (`same as broker:JG-05` when it is in another list).
    - not applicable: WHY  history, or a remark without a requirement.

`done`, `differs` and `design` claim something about the product. Code that does not exist is `open`, even if it is
planned. A `same as` counts as the item that it points at, and points at no other `same as`.

Tests name no items. Each item belongs to an area of the product (`areas`), whose tests guard all of its items together.
That they do is tried by breaking rules on purpose (`mutations`, `mutations.tsv`). `docs/proof/requirements.md` (`page`)
shows areas, tests and broken rules. No command sets a status. It is written by a person who has read sentence, code and
test. `python -m tests.spec` prints the open items, and `test_spec.py` keeps all of it in step.
"""
