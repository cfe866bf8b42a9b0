"""Users of certificates by ``ssl.principal.mapping.rules``. The results are those of Kafka's ``SslPrincipalMapper``."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyconsumer.broker.principal_rules import PrincipalRules
from pyconsumer.errors import ConfigurationError
from tests.support.java import tools

NAME = "CN=Alice Example,OU=Ops,O=Shop"
CASES = [
    ("DEFAULT", NAME),
    ("", NAME),
    (r"RULE:^CN=([^,]*),.*$/$1/, DEFAULT", NAME),
    (r"RULE:^CN=([^,]*),.*$/$1/L", NAME),
    (r"RULE:^CN=([^,]*),.*$/$1/U,DEFAULT", NAME),
    (r"RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L , DEFAULT", NAME),
    (r"RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$4/", NAME),
    (r"RULE:^CN=(.*?),.*$/$12/", NAME),
    (r"RULE:^CN=(.*?),.*$/a\$1 \\b/", NAME),
    (r"RULE:^CN=(?<who>.*?),.*$/${who}!/", NAME),
    (r"RULE:.*/x/", NAME),
    (r"RULE:^UID=.*$/no/,RULE:^CN=Alice Example,.*$/admin/,DEFAULT", NAME),
    (r"RULE:CN=Alice/part/,DEFAULT", NAME),
    (r"RULE:^CN=([^\/]*)\/.*$/$1/,DEFAULT", "CN=a/b"),
    (r"RULE:^(CN)=(X)?.*$/[$2]$1/", "CN=Y"),
    (r"RULE:^CN=nobody$/x/", NAME),
]
USERS = [
    NAME,
    None,
    "Alice Example",
    "alice example",
    "ALICE EXAMPLE",
    "alice example@ops",
    "Alice Example@$4",
    "Alice Example2",
    "a$1 \\b",
    "Alice Example!",
    "xx",
    "admin",
    NAME,
    "a",
    "[]CN",
    None,
]


@pytest.mark.parametrize(("rules", "subject", "user"), [(*case, user) for case, user in zip(CASES, USERS, strict=True)])
def test_the_first_rule_that_matches_counts(rules: str, subject: str, user: str | None) -> None:
    assert PrincipalRules(rules).user(subject) == user


@pytest.mark.kafka
def test_kafka_gives_the_same_users(tmp_path: Path) -> None:
    source = tmp_path / "Mapper.java"
    pairs = "".join(
        "{" + ", ".join('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in case) + "},"
        for case in CASES
    )
    source.write_text(
        "import org.apache.kafka.common.security.ssl.SslPrincipalMapper;\n"
        "public class Mapper { public static void main(String[] a) {\n"
        f"String[][] cases = {{{pairs}}};\n"
        "for (String[] c : cases) { String user; try { user = SslPrincipalMapper.fromRules(c[0]).getName(c[1]); }\n"
        'catch (java.io.IOException e) { user = "<none>"; } System.out.println(user); } } }\n'
    )
    printed = tools().run_source(source).stdout.splitlines()
    assert printed == ["<none>" if user is None else user for user in USERS]


@pytest.mark.parametrize("rules", ["RULE:^CN=(.*$/$1/", "RULE:abc", "default", "RULE:a/b/X", "DEFAULT DEFAULT"])
def test_other_forms_are_refused(rules: str) -> None:
    with pytest.raises(ConfigurationError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules)


def test_no_user_has_an_empty_name() -> None:
    assert PrincipalRules("RULE:^CN=([^,]*).*$/$1/L").user("CN=,O=x") is None
    assert PrincipalRules("DEFAULT").user("") is None
