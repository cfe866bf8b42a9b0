"""The requirement lists and what tells their state.

`client.tsv`, `broker.tsv` and `transactions.tsv` hold one item a line: id, one sentence that says what is required,
status. A line that starts with `#` is the heading of the section below it. The statuses:

    open                     to be built, or built and not yet shown by a test
    done                     the product does what the sentence says; a passing test names it
    differs: what holds      Apache Kafka 4.x does something else than the sentence, and so do we
    design: what holds       Kafka 4.x's classic client or broker does what the sentence says, and we do this instead
    same as ID               the other item says it already (`same as broker:JG-05` when it is in another list)
    not applicable: why      history, or a remark that asks for nothing

`done`, `differs` and `design` claim something about the product. Code that does not exist is `open`, whatever is
planned. A `same as` counts as the item that it points at, and points at no other `same as`.

Tests name no items. Each item belongs to an area of the product (`areas`), whose tests guard all of its items together.
That they do is tried by breaking rules on purpose (`mutations`, `mutations.tsv`). `docs/proof/requirements.md` (`page`)
shows areas, tests and broken rules. No command sets a status; it is written by whoever has read sentence, code and
test. `python -m tests.spec` prints what is open; `test_spec.py` keeps all of it in step.
"""
