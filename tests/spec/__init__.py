"""The requirement lists and what tells their state.

`client.tsv`, `broker.tsv` and `transactions.tsv` hold one item a line: id, one sentence that says what is required,
status. A line that starts with `#` is the heading of the section below it. The statuses:

    open                     to be built, or built and not yet shown by a test
    done                     the product does what the sentence says; a passing test names it
    differs: what holds      Apache Kafka 4.x does something else than the sentence, and so do we
    design: what holds       Kafka 4.x's classic client or broker does what the sentence says, and we do this instead
    same as ID               the other item says it already (`same as broker:JG-05` when it is in another list)
    not applicable: why      history, or a remark that asks for nothing

`done`, `differs` and `design` claim something about the product. Each needs a passing test that shows what holds;
where there can be none, a `differs` or `design` ends in `; no test: reason`. Code that does not exist is `open`,
whatever is planned. A `same as` counts as the item that it points at, and points at no other `same as`.

A test names an item by `@pytest.mark.spec("client:FE-22")`, or, in a table, by the same text in a parameter. It names
at most five, asserts something itself or through a helper of the tests, and fails when the rule is broken: try it once.
No command sets a status; it is written by whoever has read sentence, code and test.
`python -m tests.spec` prints what is open; `test_spec.py` keeps lists and tests in step.

Here: nothing but this text. `items` reads and checks the lists, `naming` finds the ids in the tests, `asserting` finds
tests that assert nothing, `plugin` follows a test run.
"""
