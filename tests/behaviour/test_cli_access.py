"""``pyconsumer acls``, ``pyconsumer users``, and a broker of one's own with users and rules."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyconsumer import KafkaAdminClient, KafkaProducer
from pyconsumer.admin import NewTopic, QuotaEntity, ScramMechanism, UserScramCredentialDeletion
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.cli import _run
from pyconsumer.errors import AuthenticationError, TopicAuthorizationFailedError
from tests.support.certificates import Certificates
from tests.support.process import GuardedProcess, wait_until

Here = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(
        data_dir=":memory:",
        users={"admin": "admin-secret", "dave": "dave-secret"},
        acls=[],
        listeners=("SASL_PLAINTEXT",),
        config={"super.users": "User:admin"},
    ) as made:
        yield made


@pytest.fixture
def here(secured: EmbeddedCluster, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Here:
    """Run a command as the administrator, whose login is in a file."""
    settings = tmp_path / "admin.properties"
    login = secured.login("admin", style="java")
    settings.write_text("".join(f"{name}={value}\n" for name, value in login.items()))

    def command(*arguments: str) -> tuple[int, str, str]:
        status = _run([*arguments, "--config", str(settings)])
        out, err = capfd.readouterr()
        return status, out, err

    return command


def test_rules_are_added_listed_and_removed(here: Here, tmp_path: Path) -> None:
    rule, denial = "alice: READ,WRITE topic orders", "deny eve: ALL topic orders* from 10.0.0.7"
    assert here("acls", "add", rule, "--dry-run") == (
        0,
        "would add: alice: READ topic orders\nwould add: alice: WRITE topic orders\n",
        "",
    )
    assert here("acls", "list") == (0, "", "there are no such rules\n")
    assert here("acls", "list", "--json") == (0, "", "")
    (tmp_path / "rules").write_text(f"# who may do what\n\n{denial}\nalice: READ group billing\n")
    status, out, _ = here("acls", "add", rule, f"@{tmp_path / 'rules'}")
    assert (status, len(out.splitlines())) == (0, 4)
    assert here("acls", "add", "alice: READ topic orders") == (0, "present: alice: READ topic orders\n", "")
    status, out, _ = here("acls", "list", "--json", "--type", "topic", "--name", "orders-new")
    assert [json.loads(line) for line in out.splitlines()] == [
        {
            "rule": denial,
            "principal": "User:eve",
            "permission": "DENY",
            "operation": "ALL",
            "resource_type": "topic",
            "name": "orders",
            "pattern_type": "prefixed",
            "host": "10.0.0.7",
        }
    ]
    status, out, _ = here("acls", "list", "--user", "alice")
    assert "User:alice\tALLOW\tREAD\tgroup\tbilling\tliteral\t*" in out
    assert here("acls", "remove", denial, "--dry-run")[1] == f"would remove: {denial}\n"
    status, out, _ = here("acls", "remove", rule, denial, "bob: READ topic x", "alice: READ group billing", "--json")
    assert [json.loads(line)["outcome"] for line in out.splitlines()] == ["removed"] * 3 + ["absent", "removed"]
    assert here("acls", "list") == (0, "", "there are no such rules\n")


def test_lists_of_a_cluster_without_any(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    settings = tmp_path / "client.properties"
    with EmbeddedCluster(data_dir=":memory:", acls=[], config={"super.users": "User:ANONYMOUS"}) as cluster:
        settings.write_text(f"bootstrap.servers={cluster.bootstrap_servers}\n")
        for command in ("acls", "quotas", "users"):
            assert _run([command, "list", "--json", "--config", str(settings)]) == 0
            assert capfd.readouterr() == ("", "")


def test_mistakes_with_rules(here: Here, tmp_path: Path) -> None:
    assert here("acls", "add", "alice may read")[0] == 2
    status, _, err = here("acls", "add", "alice: REED topic orders")
    assert (status, "'REED' is none of ALL, READ" in err) == (2, True)
    status, _, err = here("acls", "add", f"@{tmp_path / 'none'}")
    assert (status, "No such file" in err) == (2, True)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("alice: WRITE group billing", "WRITE is no operation on a group: it has READ, DELETE, DESCRIBE,"),
        ("alice: READ cluster", "READ is no operation on a cluster: it has CREATE,"),
        ("alice: READ topic or*ders", "no topic has a * in its name"),
        ("alice: READ topic *orders*", "no topic has a * in its name"),
        ("alice: READ topic orders from 10.0.0.0/8", "the host '10.0.0.0/8' is no address"),
        ("alice: READ topic orders from build.internal", "the host 'build.internal' is no address"),
        ("alice: READ topic orders from ::1", "a broker writes the host '::1' as 0:0:0:0:0:0:0:1: use that form"),
    ],
)
def test_rules_that_can_never_apply_are_not_added(here: Here, secured: EmbeddedCluster, rule: str, text: str) -> None:
    status, out, err = here("acls", "add", "alice: READ topic orders", rule)
    assert (status, out) == (2, "")
    assert text in err
    assert here("acls", "list")[1] == ""
    secured.add_acls(rule)  # by another tool. It can be removed
    assert here("acls", "remove", rule)[0] == 0


@pytest.mark.parametrize("rule", ["*: ALL topic *", "alice: ALL group g*", 'x: READ group "g*"', "x: ALL cluster"])
def test_rules_that_apply_are_added(here: Here, rule: str) -> None:
    assert here("acls", "add", rule, "--dry-run")[0] == 0


@pytest.mark.parametrize(
    ("command", "right"),
    [
        (("acls", "list"), "DESCRIBE"),
        (("acls", "add", "alice: READ topic orders"), "ALTER"),
        (("acls", "remove", "alice: READ topic orders"), "ALTER"),
        (("users", "list"), "DESCRIBE"),
        (("users", "set", "bob", "--password-file", "{password}"), "ALTER"),
        (("users", "delete", "bob"), "ALTER"),
        (("quotas", "list"), "DESCRIBE_CONFIGS"),
        (("quotas", "set", "--user", "bob", "producer_byte_rate=1"), "ALTER_CONFIGS"),
        (("quotas", "remove", "--user", "bob", "producer_byte_rate"), "ALTER_CONFIGS"),
    ],
)
def test_a_refusal_names_the_right_which_is_enough(
    secured: EmbeddedCluster, capfd: pytest.CaptureFixture[str], tmp_path: Path, command: tuple[str, ...], right: str
) -> None:
    settings, password = tmp_path / "dave.properties", tmp_path / "password"
    password.write_text("secret\n")
    settings.write_text("".join(f"{name}={value}\n" for name, value in secured.login("dave", style="java").items()))
    arguments = [part.format(password=password) for part in command] + ["--config", str(settings)]
    assert _run(arguments) == 1
    assert f"You need {right} on the cluster, such as by the rule 'USER: {right} cluster'" in capfd.readouterr().err
    try:
        secured.add_acls(f"dave: {right} cluster")
        _run(arguments)
        assert "AUTHORIZATION" not in capfd.readouterr().err
    finally:
        secured.set_acls()
        with KafkaAdminClient(**secured.login("admin")) as admin:
            if "bob" in admin.describe_user_scram_credentials():
                admin.alter_user_scram_credentials([UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512)])
            if admin.describe_client_quotas():
                admin.alter_client_quotas({QuotaEntity(user="bob"): {"producer_byte_rate": None}})


def test_quotas_are_set_listed_and_removed(here: Here) -> None:
    alice = ("--user", "alice", "--default-client-id")
    what = "client-id <default>, user 'alice'"
    assert here("quotas", "set", *alice, "producer_byte_rate=1e6", "--dry-run") == (
        0,
        f"would set: {what}: producer_byte_rate 1e+06\n",
        "",
    )
    assert here("quotas", "list") == (0, "", "there are no such quotas\n")
    assert here("quotas", "list", "--json") == (0, "", "")
    assert here("quotas", "set", *alice, "producer_byte_rate=1e6", "request_percentage=12.5")[0] == 0
    assert here("quotas", "set", *alice, "producer_byte_rate=1e6")[1].startswith("present: ")
    assert here("quotas", "set", "--default-ip", "connection_creation_rate=100")[0] == 0
    _, out, _ = here("quotas", "list", "--json", "--user", "alice")
    row = {"user": "alice", "client-id": "<default>", "ip": ""}
    assert [json.loads(line) for line in out.splitlines()] == [
        row | {"key": "producer_byte_rate", "value": 1e6},
        row | {"key": "request_percentage", "value": 12.5},
    ]
    status, out, _ = here("quotas", "remove", *alice, "producer_byte_rate", "request_percentage", "x", "--json")
    assert (status, [json.loads(line)["outcome"] for line in out.splitlines()]) == (0, ["removed", "removed", "absent"])
    assert here("quotas", "remove", "--default-ip", "connection_creation_rate")[0] == 0
    assert here("quotas", "list") == (0, "", "there are no such quotas\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("set", "producer_byte_rate=1"), "name the clients"),
        (("set", "--user", "a", "producer_byte_rate"), "KEY=NUMBER"),
        (("set", "--user", "", "producer_byte_rate=1"), "the name is empty"),
        (("set", "--user", "User:a", "producer_byte_rate=1"), "write the user without a type: a"),
        (("remove", "--user", "a", "--default-user", "producer_byte_rate"), "exclude each other"),
    ],
)
def test_mistakes_with_quotas(here: Here, arguments: tuple[str, ...], text: str) -> None:
    status, _, err = here("quotas", *arguments)
    assert (status, text in err) == (2, True)


@pytest.mark.parametrize("arguments", [("--user", "a", "producer_byte_rte=1"), ("--ip", "::1", "producer_byte_rate=1")])
def test_a_wrong_key_of_a_quota_names_the_right_ones(here: Here, arguments: tuple[str, ...]) -> None:
    status, _, err = here("quotas", "set", *arguments)
    assert (status, "Invalid configuration key producer_byte_r" in err) == (1, True)
    assert "Users and client ids have producer_byte_rate, " in err
    assert "Addresses have connection_creation_rate" in err


def test_users_are_created_changed_and_deleted(here: Here, tmp_path: Path, secured: EmbeddedCluster) -> None:
    secret = tmp_path / "password"
    secret.write_text("carol-secret\n")
    given = ("--password-file", str(secret))
    assert here("users", "set", "carol", *given, "--dry-run") == (0, "would create carol (SCRAM-SHA-512)\n", "")
    assert here("users", "set", "carol", *given) == (0, "created carol (SCRAM-SHA-512)\n", "")
    _, out, _ = here("users", "set", "carol", *given, "--iterations", "8192", "--json")
    assert json.loads(out) == {"outcome": "changed", "user": "carol", "mechanism": "SCRAM-SHA-512"}
    status, out, _ = here("users", "list", "carol", "--json")
    assert (status, [json.loads(line) for line in out.splitlines()]) == (
        0,
        [{"user": "carol", "mechanism": "SCRAM-SHA-512", "iterations": 8192}],
    )
    status, out, _ = here("users", "list", "--json")
    assert (status, {json.loads(line)["user"] for line in out.splitlines()}) == (0, {"admin", "carol", "dave"})
    _, out, _ = here("users", "list", "carol")
    assert out.splitlines()[1] == "carol\tSCRAM-SHA-512\t8192"
    login = secured.login("admin", mechanism="SCRAM-SHA-512") | {
        "sasl_plain_username": "carol",
        "sasl_plain_password": "carol-secret",
    }
    with KafkaProducer(login) as producer, pytest.raises(TopicAuthorizationFailedError):
        producer.send("orders", b"x").result(10)
    assert here("users", "delete", "carol", "--dry-run")[1] == "would delete carol (SCRAM-SHA-512)\n"
    assert here("users", "delete", "carol") == (0, "deleted carol (SCRAM-SHA-512)\n", "")
    assert here("users", "delete", "carol") == (1, "", "Error: there is no SCRAM user 'carol'\n")
    status, out, err = here("users", "list", "carol", "--json")
    assert (status, out) == (1, ""), err
    assert "write the user without a type: eve" in here("users", "set", "User:eve", *given)[2]
    (tmp_path / "empty").write_text("\n")
    assert here("users", "set", "carol", "--password-file", str(tmp_path / "empty"))[0] == 2


def unsigned(user: str) -> Callable[[], str]:
    """Return a provider of tokens that anybody can write."""

    def token() -> str:
        now_s = int(time.time())
        parts = ({"alg": "none"}, {"sub": user, "iat": now_s, "exp": now_s + 3600})
        return "".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") + "." for part in parts)

    return token


def test_a_broker_with_listeners_tokens_and_quotas(tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "pyconsumer", "broker", "--brokers", "2", "--data-dir", ":memory:"),
        *("--listener", "INSIDE://127.0.0.1:0", "--listener", "TOKENS://[::1]:0"),
        *("--config", "listener.security.protocol.map=INSIDE:PLAINTEXT,TOKENS:SASL_PLAINTEXT"),
        *("--advertised-listener", "TOKENS://localhost:0", "--oauth", "unsecured=true"),
        *("--quota", "user=alice client-id=<default> producer_byte_rate=1000"),
        *("--quota", "ip=::1 connection_creation_rate=9"),
    ]
    with GuardedProcess(command, output=tmp_path / "out") as process:
        wait_until(lambda: "listening on" in (tmp_path / "out").read_text(), 30, "the broker listens")
        lines = dict(line.rsplit(maxsplit=1) for line in (tmp_path / "out").read_text().splitlines())
        assert len(lines["listening on"].split(",")) == len(lines["listener TOKENS at"].split(",")) == 2
        assert lines["listener TOKENS at"].startswith("localhost:")
        with KafkaAdminClient(bootstrap_servers=lines["listening on"]) as admin:
            assert admin.describe_client_quotas() == {
                QuotaEntity(user="alice", client_id=""): {"producer_byte_rate": 1000},
                QuotaEntity(ip="::1"): {"connection_creation_rate": 9},
            }
        token = {
            "bootstrap_servers": lines["listener TOKENS at"].replace("localhost", "[::1]"),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": unsigned("alice"),
        }
        with KafkaAdminClient(token) as admin:
            assert len(admin.describe_cluster().brokers) == 2
        assert process.running


@pytest.mark.parametrize("auth", ["requested", "required"])
def test_a_broker_that_asks_for_certificates(tmp_path: Path, certificates: Certificates, auth: str) -> None:
    command = [
        *(sys.executable, "-m", "pyconsumer", "broker", "--data-dir", ":memory:"),
        *("--listener", "OUTSIDE://127.0.0.1:0", "--config", "listener.security.protocol.map=OUTSIDE:SSL"),
        *("--tls-cert", str(certificates.server_pem), "--tls-client-ca", str(certificates.ca_pem)),
        *("--config", f"listener.name.outside.ssl.client.auth={auth}"),
        *("--config", "listener.name.outside.ssl.principal.mapping.rules=RULE:^CN=([^,]*).*$/$1-by-rule/U"),
        *("--acl", "CLIENT-BY-RULE: CREATE topic *"),
    ]
    with GuardedProcess(command, output=tmp_path / "out") as process:
        wait_until(lambda: "listening on" in (tmp_path / "out").read_text(), 30, "the broker listens")
        address = (tmp_path / "out").read_text().split("listening on ")[1].split()[0]
        settings = {"bootstrap_servers": address, "security_protocol": "SSL", "ssl_cafile": certificates.ca_pem}
        with KafkaAdminClient(settings | {"ssl_certfile": certificates.client_pem}) as admin:
            admin.create_topics([NewTopic("t", 1)])
        with (
            KafkaAdminClient(settings) as nobody,
            pytest.raises(AuthenticationError if auth == "required" else TopicAuthorizationFailedError),
        ):
            nobody.create_topics([NewTopic("u", 1)])
        assert process.running


def test_a_broker_with_users_and_rules(tmp_path: Path) -> None:
    (tmp_path / "users.properties").write_text("alice=alice-secret\n")
    command = [
        *(sys.executable, "-m", "pyconsumer"),
        *("broker", "--port", "0", "--users", str(tmp_path / "users.properties")),
        *("--acl", "alice: WRITE,CREATE topic orders"),
    ]
    with GuardedProcess(command, output=tmp_path / "out") as process:
        wait_until(lambda: "listening on" in (tmp_path / "out").read_text(), 30, "the broker listens")
        address = (tmp_path / "out").read_text().split("listening on ")[1].split()[0]
        login = {
            "bootstrap_servers": address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": "alice",
            "sasl_plain_password": "alice-secret",
        }
        with KafkaProducer(login) as producer:
            assert producer.send("orders", b"x").result(20).offset == 0
            with pytest.raises(TopicAuthorizationFailedError):
                producer.send("payments", b"x").result(20)
        assert process.running
