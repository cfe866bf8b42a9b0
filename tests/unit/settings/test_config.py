"""Settings: their machinery, and those of all clients."""

from __future__ import annotations

import pickle
import ssl
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.config import (
    CLIENT_HINTS,
    CLIENT_SETTINGS,
    REQUIRED,
    Address,
    Anything,
    Choice,
    ClientConfig,
    Config,
    Duration,
    File,
    Flag,
    Function,
    Instance,
    Integer,
    Kind,
    ListOf,
    Number,
    Servers,
    Setting,
    Settings,
    Text,
    parse_address,
)

CLIENT = Settings("client", CLIENT_SETTINGS, ClientConfig, hints=CLIENT_HINTS)


def build(**options: Any) -> ClientConfig:
    return CLIENT.build({"bootstrap_servers": "localhost:9092", **options})


# -- machinery ---------------------------------------------------------------------------------------------------------


class Shop(Config):
    name: str
    size: int
    tags: tuple[str, ...]


SHOP = Settings(
    "shop",
    (
        Setting("name", REQUIRED, Text(), "Its name."),
        Setting("size", 3, Integer(1, 10), "Its size.", ("how.big",)),
        Setting("tags", (), ListOf(Text()), "Some words."),
        Setting("secret_key", None, Text(nullable=True), "Not shown.", secret=True),
    ),
    Shop,
    hints={"weight": "weigh it yourself"},
)


def test_defaults_are_filled_in_and_values_are_attributes() -> None:
    shop = SHOP.build({"name": "corner"})
    assert (shop.name, shop.size, shop.tags) == ("corner", 3, ())
    assert shop.given == {"name"}
    assert shop.as_dict() == {"name": "corner", "size": 3, "tags": (), "secret_key": None}


def test_a_required_setting_must_be_given() -> None:
    with pytest.raises(ConfigurationError, match="shop setting name is required"):
        SHOP.build({})


def test_dotted_names_and_aliases_are_taken_and_text_is_read() -> None:
    assert SHOP.build({"name": "a", "how.big": "7", "tags": "x, y,"}).as_dict()["size"] == 7
    assert SHOP.build({"name": "a", "tags": ["x"]}).tags == ("x",)
    with pytest.raises(ConfigurationError, match="whole number"):
        SHOP.build({"name": "a", "size": "7"})


def test_the_same_setting_under_two_names_must_agree() -> None:
    assert SHOP.build({"name": "a", "size": 4, "how.big": "4"}).size == 4
    with pytest.raises(ConfigurationError, match=r"size and how\.big are one setting"):
        SHOP.build({"name": "a", "size": 4, "how.big": 5})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nmae", "did you mean 'name'"),
        ("sizes", "did you mean 'size'"),
        ("secret.kye", r"did you mean 'secret\.key'"),
        ("qwertyuiop", "unknown shop setting 'qwertyuiop'$"),
        ("weight", "weigh it yourself"),
        (5, "unknown shop setting 5"),
    ],
)
def test_an_unknown_name_suggests_the_nearest_one(name: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        SHOP.build({"name": "a", name: 1})


def test_an_invalid_value_names_the_setting_as_it_was_given() -> None:
    with pytest.raises(ConfigurationError, match=r"shop setting how\.big: it must be between 1 and 10, not 11"):
        SHOP.build({"name": "a", "how.big": 11})


def test_a_config_cannot_be_changed_only_replaced() -> None:
    shop = SHOP.build({"name": "a", "size": 4})
    with pytest.raises(AttributeError, match="cannot be changed"):
        shop.size = 5
    with pytest.raises(AttributeError, match="cannot be removed"):
        del shop.size
    other = shop.replace(size=5)
    assert (other.name, other.size, shop.size) == ("a", 5, 4)
    assert shop.replace(size=4) == shop
    assert other != shop
    assert shop != "shop"
    with pytest.raises(ConfigurationError):
        shop.replace(size=50)


def test_secrets_are_not_shown() -> None:
    text = repr(SHOP.build({"name": "a", "secret_key": "hush"}))
    assert text == "Shop(name='a', secret_key=***)"


def test_a_later_declaration_replaces_an_earlier_one() -> None:
    class Other(Config):
        size: int

    table = (*SHOP, Setting("size", 9, Integer(), "Another default."))
    assert Settings("other", table, Other).build({"name": "a"}).size == 9


def test_a_component_may_check_and_complete_settings() -> None:
    class Box(Config):
        low: int
        high: int

        @classmethod
        def finish(cls, values: dict[str, Any], given: frozenset[str]) -> None:
            super().finish(values, given)
            if values["low"] > values["high"]:
                raise ConfigurationError("low is greater than high")
            if "high" not in given:
                values["high"] = values["low"] + 1

    table = (Setting("low", 0, Integer(), ""), Setting("high", 100, Integer(), ""))
    settings = Settings("box", table, Box)
    assert settings.build({"low": 5}).high == 6
    with pytest.raises(ConfigurationError, match="greater"):
        settings.build({"low": 5, "high": 4})


# -- kinds -------------------------------------------------------------------------------------------------------------


class Thing:
    pass


class Talker:
    def say(self) -> str:
        return "hi"


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Integer(0, 5), 3, 3),
        (Integer(0, 5), 3.0, 3),
        (Integer(1, special=(-1,)), -1, -1),
        (Integer(nullable=True), None, None),
        (Duration(), 2**40, 2**40),
        (Number(0, 1), 1, 1.0),
        (Flag(), True, True),
        (Text(), "x", "x"),
        (Text(blank=True), "", ""),
        (Choice("Gzip", "none"), " gZIP", "Gzip"),
        (ListOf(Text()), "one", ("one",)),
        (ListOf(Text()), {"one"}, ("one",)),
        (ListOf(Instance(Thing)), [], ()),
        (Instance(Thing, or_subclass=True), Thing, Thing),
        (Function(), len, len),
        (Anything(), 5, 5),
    ],
)
def test_legal_values(kind: Kind, value: Any, expected: Any) -> None:
    assert kind(value) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Integer(), None),
        (Integer(), True),
        (Integer(), 1.5),
        (Integer(), float("nan")),
        (Integer(), float("inf")),
        (Integer(), "1"),
        (Integer(0, 5), 6),
        (Duration(), -1),
        (Number(0, 1), 1.5),
        (Number(0, 1), "1"),
        (Number(0, 1), True),
        (Flag(), 1),
        (Flag(), "true"),
        (Text(), " "),
        (Text(), b"x"),
        (Choice("a"), "b"),
        (Choice("a"), 1),
        (ListOf(Text(), low=1), []),
        (ListOf(Text()), [1]),
        (ListOf(Text()), 1),
        (Instance(Thing), Thing),
        (Instance(Thing), 1),
        (Instance(Thing, or_subclass=True), int),
        (Function(), 1),
        (Servers(), 1),
        (Servers(), []),
        (Servers(), [1]),
        (File(), "/no/such/file"),
        (File(), 1),
    ],
)
def test_illegal_values(kind: Kind, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        kind(value)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (Integer(), "12", 12),
        (Number(0, 9), "1.5", 1.5),
        (Flag(), " True ", True),
        (Flag(), "false", False),
        (ListOf(Integer()), "1, 2", (1, 2)),
        (Text(), "x", "x"),
    ],
)
def test_text_of_a_properties_file(kind: Kind, text: str, expected: Any) -> None:
    assert kind(text, text=True) == expected


@pytest.mark.parametrize(("kind", "text"), [(Integer(), "1.5"), (Integer(), "x"), (Flag(), "yes"), (Number(0, 1), "x")])
def test_text_that_is_none(kind: Kind, text: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        kind(text, text=True)


def test_a_function_may_be_an_object_with_a_method() -> None:
    talker = Talker()
    assert Function("say")(talker) is talker


def test_a_file_must_be_readable(tmp_path: Path) -> None:
    file = tmp_path / "x.pem"
    file.write_text("x")
    assert File()(file) == str(file)
    with pytest.raises(ValueError, match="no file"):
        File()(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost", ("localhost", 9092)),
        ("localhost:1", ("localhost", 1)),
        (" a.b-c_d:65535 ", ("a.b-c_d", 65535)),
        ("10.0.0.1:9", ("10.0.0.1", 9)),
        ("[::1]:9", ("::1", 9)),
        ("[::1]", ("::1", 9092)),
        ("fe80::1", ("fe80::1", 9092)),
        ("PLAINTEXT://h:9", ("h", 9)),
        ("SASL_SSL://[fe80::1%eth0]:9", ("fe80::1%eth0", 9)),
    ],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":1",
        "h:x",
        "h:0",
        "h:65536",
        "h:-1",
        "[::1",
        "[::1]x",
        "a b:1",
        "h:1/path",
        "h:٣",
        "http://h:9092",
        "kafka://h:1",
        "a:b:c",
        "[h]:1",
        "a\0b:1",
        "h" * 300,
    ],
)
def test_invalid_addresses(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|port"):
        parse_address(text)


def test_an_address_is_printed_as_it_is_written() -> None:
    assert str(Address("::1", 9)) == "[::1]:9"
    assert str(Address("h", 9)) == "h:9"


# -- clients -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "default"),
    [
        pytest.param("request_timeout_ms", 30_000),
        pytest.param("retry_backoff_ms", 100),
        pytest.param("default_api_timeout_ms", 60_000),
        ("retry_backoff_max_ms", 1_000),
        ("reconnect_backoff_ms", 50),
        ("reconnect_backoff_max_ms", 1_000),
        ("socket_connection_setup_timeout_ms", 10_000),
        ("socket_connection_setup_timeout_max_ms", 30_000),
        pytest.param("connections_max_idle_ms", 540_000),
        ("metadata_max_age_ms", 300_000),
        ("metadata_recovery_strategy", "rebootstrap"),
        ("metadata_recovery_rebootstrap_trigger_ms", 300_000),
        ("security_protocol", "PLAINTEXT"),
        ("client_dns_lookup", "use_all_dns_ips"),
        ("client_id", ""),
        ("ssl_check_hostname", True),
        ("sasl_mechanism", None),
        ("send_buffer_bytes", -1),
        ("receive_buffer_bytes", -1),
    ],
)
def test_defaults_are_those_of_javas_client(name: str, default: Any) -> None:
    assert getattr(build(), name) == default


def test_every_setting_is_an_attribute_documented_and_has_a_valid_default() -> None:
    declared = ClientConfig.__annotations__
    for setting in CLIENT_SETTINGS:
        assert setting.name in declared
        assert setting.doc.endswith(".")
        if setting.default is not REQUIRED:
            assert setting.kind(setting.default) == setting.default
    assert set(declared) == {setting.name for setting in CLIENT_SETTINGS}


def test_kafkas_own_names_in_a_mapping() -> None:
    config = CLIENT.build(
        {
            "bootstrap.servers": "a:1,b:2,a:1",
            "request.timeout.ms": "500",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "u",
            "sasl.password": "p",
        }
    )
    assert config.bootstrap_servers == (("a", 1), ("b", 2))
    assert config.request_timeout_ms == 500
    assert config.uses_sasl
    assert not config.uses_tls
    assert "p'" not in repr(config)


def test_bootstrap_servers_may_be_a_list() -> None:
    assert build(bootstrap_servers=["a:1", "b,c:3"]).bootstrap_servers == (("a", 1), ("b", 9092), ("c", 3))
    assert build(bootstrap_servers=[("a", 1)]).bootstrap_servers == (("a", 1),)


@pytest.mark.parametrize("low", ["retry_backoff", "reconnect_backoff", "socket_connection_setup_timeout"])
def test_a_first_pause_above_the_longest_makes_the_backoff_fixed_and_two_given_ones_conflict(low: str) -> None:
    first, longest = f"{low}_ms", f"{low}_max_ms"
    config = build(**{first: 90_000})
    assert getattr(config, longest) == getattr(config, first) == 90_000
    config = build(**{longest: 7})
    assert getattr(config, longest) == getattr(config, first) == 7
    with pytest.raises(ConfigurationError, match=f"{first} .* greater than {longest}"):
        build(**{first: 9, longest: 8})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ssl_cafile": __file__}, "ssl_cafile is given, but security_protocol is PLAINTEXT"),
        ({"sasl_plain_username": "u"}, "sasl_plain_username is given, but security_protocol is PLAINTEXT"),
        ({"security_protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "needs sasl_plain_username"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "needs sasl_oauth_token_provider"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "KERBEROS"}, "must be one of PLAIN"),
        ({"security_protocol": "SSL", "ssl_keyfile": __file__}, "without ssl_certfile"),
        ({"security_protocol": "TLS"}, "must be one of PLAINTEXT"),
        ({"api_version": (2, 0)}, "negotiated"),
        ({"ssl.truststore.location": "x"}, "there is no file 'x'"),
        ({"bootstrap_server": "x"}, "did you mean 'bootstrap_servers'"),
    ],
)
def test_contradictions_and_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build(**options)


def test_a_ready_context_excludes_certificate_files() -> None:
    context = ssl.create_default_context()
    assert build(security_protocol="SSL", ssl_context=context).ssl_context is context
    with pytest.raises(ConfigurationError, match="ssl_context and ssl_cafile"):
        build(security_protocol="SSL", ssl_context=context, ssl_cafile=__file__)


def test_a_config_can_be_sent_to_another_process() -> None:
    config = build(request_timeout_ms=7)
    assert pickle.loads(pickle.dumps(config)) == config
