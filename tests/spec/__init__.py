"""The requirement lists and what tells their state.

`client.tsv`, `broker.tsv` and `transactions.tsv` hold one item a line: id, one sentence that says what is required,
status. A line that starts with `#` is the heading of the section below it. The statuses:

    open                     to be built, or built and not yet shown by a test
    done                     a passing test names it
    differs: what holds      Apache Kafka 4.x does something else than the sentence, and so do we
    same as ID               the other item says it already (`same as broker:JG-05` when it is in another list)
    not applicable: why      history, or a remark that asks for nothing

A test names an item by `@pytest.mark.spec("client:FE-22")`, or, in a table, by the same text in a parameter.
`python -m tests.spec` prints what is open; `test_spec.py` keeps lists and tests in step.

Here: nothing but this text. `items` reads and checks the lists, `naming` finds the ids in the tests, `plugin` follows
a test run.
"""
