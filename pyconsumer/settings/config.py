"""Declaration and checks of settings, and the settings of all clients.

A component (consumer, producer, admin client) declares its settings once, as a table, and the shape of the result as
a class::

    class ConsumerConfig(ClientConfig):
        group_id: str | None
        max_poll_records: int

        @classmethod
        def finish(cls, values, given):            # optional: rules that concern several settings
            super().finish(values, given)
            if ...:
                raise ConfigurationError("...")

    SETTINGS = Settings("consumer", CLIENT_SETTINGS + (
        Setting("group_id", None, Text(nullable=True), "The consumer group."),
        Setting("max_poll_records", 500, Integer(1), "..."),
    ), ConsumerConfig, hints=CLIENT_HINTS)

    config = SETTINGS.build(options)               # options: those of the user
    config.max_poll_records                        # checked and typed

A setting has the name that kafka-python uses (``group_id``). Kafka's own dotted name (``group.id``) works as well, in
the same mapping, and then strings are read as in a properties file (``"500"``, ``"true"``, ``"a,b"``). Everything is
checked when the object is built: an unknown name is an error that names the nearest valid one, and two settings that
contradict each other are an error too. Durations are whole milliseconds, sizes bytes.

The order of the module: the machinery (:class:`Kind` and its subclasses, :class:`Setting`, :class:`Config`,
:class:`Settings`), then the settings that every client has (:data:`CLIENT_SETTINGS`, :class:`ClientConfig`). Nothing
here knows what a setting does: :mod:`pyconsumer.network` turns the settings of connections into addresses, TLS contexts
and the like.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Self, TypeVar

from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.foreign_names import CLIENT_NAMES
from pyconsumer.structs import Address

if TYPE_CHECKING:
    import ssl

    from pyconsumer.metrics.source import MetricsReporter

__all__ = [
    "CLIENT_HINTS",
    "CLIENT_SETTINGS",
    "REQUIRED",
    "SASL_MECHANISMS",
    "Address",
    "Anything",
    "Choice",
    "ClientConfig",
    "Config",
    "Duration",
    "File",
    "Flag",
    "Function",
    "Instance",
    "Integer",
    "Kind",
    "ListOf",
    "Number",
    "Secret",
    "Servers",
    "Setting",
    "Settings",
    "Text",
    "nearest",
    "parse_address",
]

REQUIRED: Final[Any] = object()

"""Default of a setting that must be given."""

_MAX_INT32 = 0x7FFFFFFF

_LONGEST_HOST = 255  # RFC 1035, 2.3.4

_LISTENER = re.compile("[A-Z][A-Z0-9_]*")  # by custom; Kafka's tools accept any name in front of an address


def parse_address(text: str, default_port: int = 9092) -> Address:
    """Parse ``host``, ``host:port`` or ``[ipv6]:port``. A leading listener name, such as ``SSL://``, is ignored.

    Raises:
        ValueError: the text has another form, or the port is not between 1 and 65535.
    """
    listener, separator, rest = text.strip().rpartition("://")
    if separator and not _LISTENER.fullmatch(listener):
        raise ValueError(f"{text!r} is not the address of a Kafka broker: give host:port, as in localhost:9092")
    is_ipv6 = rest.startswith("[") or rest.count(":") > 1
    if rest.startswith("["):
        host, bracket, port = rest[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise ValueError(f"{text!r} is not an address such as [::1]:9092")
        port = port[1:]
    elif rest.count(":") > 1:
        host, port = rest, ""  # an IPv6 address without brackets has no port
    else:
        host, _, port = rest.partition(":")
    if is_ipv6 and not _is_ipv6(host):
        raise ValueError(f"{text!r} is not an address such as localhost:9092 or [::1]:9092")
    if len(host) > _LONGEST_HOST:
        raise ValueError(f"{text[:40]!r}... is not an address: a host of {len(host)} characters, 255 are the most")
    if not host or not host.isprintable() or any(c.isspace() or c in "/?#@" for c in host):
        raise ValueError(f"{text!r} is not an address such as localhost:9092")
    if not port:
        return Address(host, default_port)
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{text!r} has no port between 1 and 65535")
    return Address(host, int(port))


def _is_ipv6(host: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    except (OSError, ValueError):
        return False
    return True


class Kind:
    """The legal values of a setting. Subclasses define them by the methods :meth:`check` and :meth:`parse`.

    Args:
        nullable: True if None is legal, too.

    Attributes:
        type_text: the type that users give, in the notation for type checkers and without None. The ``typed_settings``
            modules contain it.
    """

    type_text = "object"

    def __init__(self, *, nullable: bool = False) -> None:
        self.nullable = nullable

    @property
    def annotation(self) -> str:
        """Return the type of legal values for type checkers."""
        return f"{self.type_text} | None" if self.nullable else self.type_text

    def __call__(self, value: Any, *, text: bool = False) -> Any:
        """Return the value to keep. With ``text``, a string is parsed first.

        Raises:
            ValueError, TypeError: the value is illegal. The message describes the legal ones.
        """
        if value is None:
            if self.nullable:
                return None
            raise TypeError("it must not be None")
        if text and isinstance(value, str):
            value = self.parse(value)
        return self.check(value)

    def check(self, value: Any) -> Any:
        """Return ``value``, normalized if necessary, or raise ValueError or TypeError."""
        return value

    def parse(self, text: str) -> Any:
        """Parse a string from a properties file."""
        return text


class Anything(Kind):
    """Any value."""


class Number(Kind):
    """A float between two bounds. The bounds are legal values, too."""

    type_text = "float"

    def __init__(self, low: float, high: float, *, nullable: bool = False) -> None:
        super().__init__(nullable=nullable)
        self.low, self.high = low, high

    def check(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"it must be a number, not {value!r}")
        if not self.low <= value <= self.high:
            raise ValueError(f"it must be between {self.low} and {self.high}, not {value!r}")
        return float(value)

    def parse(self, text: str) -> float:
        return float(text)


class Integer(Kind):
    """A whole number between two bounds. The bounds are legal values, too.

    ``special`` lists more legal values.
    """

    unit = ""
    type_text = "int"

    def __init__(
        self, low: int = 0, high: int = _MAX_INT32, *, special: tuple[int, ...] = (), nullable: bool = False
    ) -> None:
        super().__init__(nullable=nullable)
        self.low, self.high, self.special = low, high, special

    def check(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
            raise TypeError(f"it must be a whole number{self.unit}, not {value!r}")
        if not self.low <= value <= self.high and value not in self.special:
            also = "".join(f", or {number}" for number in self.special)
            raise ValueError(f"it must be between {self.low} and {self.high}{self.unit}{also}, not {value!r}")
        return int(value)

    def parse(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise TypeError(f"it must be a whole number{self.unit}, not {text!r}") from None


class Duration(Integer):
    """Whole milliseconds."""

    unit = " (milliseconds)"

    def __init__(
        self, low: int = 0, high: int = 0x7FFFFFFFFFFFFFFF, *, special: tuple[int, ...] = (), nullable: bool = False
    ) -> None:
        super().__init__(low, high, special=special, nullable=nullable)


class Flag(Kind):
    """True or False."""

    type_text = "bool"

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise TypeError(f"it must be True or False, not {value!r}")
        return value

    def parse(self, text: str) -> bool:
        found = {"true": True, "false": False}.get(text.strip().lower())
        if found is None:
            raise TypeError(f"it must be true or false, not {text!r}")
        return found


class Text(Kind):
    """A string. ``blank`` is True if it may be empty."""

    type_text = "str"

    def __init__(self, *, blank: bool = False, nullable: bool = False) -> None:
        super().__init__(nullable=nullable)
        self.blank = blank

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError(f"it must be a string, not {value!r}")
        if not self.blank and not value.strip():
            raise ValueError("it must not be empty")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"it must be text that UTF-8 has, not {value!r}") from None
        return value


class Secret(Kind):
    """A string that is never shown. With ``function=True``, a function that returns the string is legal, too."""

    def __init__(self, *, function: bool = False, nullable: bool = False) -> None:
        super().__init__(nullable=nullable)
        self._function = function
        self.type_text = "str | Callable[[], str]" if function else "str"

    def check(self, value: Any) -> Any:
        if isinstance(value, str):
            if not value.strip():
                raise ValueError("it must not be empty")
        elif not (self._function and callable(value)):
            wanted = "a string or a function" if self._function else "a string"
            raise TypeError(f"it must be {wanted}, not a value of type {type(value).__name__}")
        return value


class Choice(Kind):
    """One of the given words. Case is ignored. The value gets the spelling of the word in the list."""

    def __init__(self, *words: str, nullable: bool = False) -> None:
        super().__init__(nullable=nullable)
        self.words = words
        self.type_text = f"Literal[{', '.join(f'{chr(34)}{word}{chr(34)}' for word in words)}]"

    def check(self, value: Any) -> str:
        for word in self.words:
            if isinstance(value, str) and value.strip().lower() == word.lower():
                return word
        raise ValueError(f"it must be one of {', '.join(self.words)}, not {value!r}")


class ListOf(Kind):
    """A sequence or set, stored as a tuple. A single value counts as a list with one item.

    In text, commas separate the items.
    """

    def __init__(self, item: Kind, *, low: int = 0, nullable: bool = False) -> None:
        super().__init__(nullable=nullable)
        self.item, self.low = item, low
        self.type_text = f"Iterable[{item.annotation}]"

    def check(self, value: Any) -> tuple[Any, ...]:
        items = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
        if len(items) < self.low:
            raise ValueError(f"it must hold at least {self.low}")
        return tuple(self.item(item) for item in items)

    def parse(self, text: str) -> list[Any]:
        return [self.item(part.strip(), text=True) for part in text.split(",") if part.strip()]


class Instance(Kind):
    """An instance of one of the given classes. With ``or_subclass``, the classes and their subclasses are legal, too.

    A class may be given by its name, ``module.Class``, so that its module is not imported here. As long as the module
    is not imported, no instance can exist.
    """

    def __init__(self, *types: type | str, or_subclass: bool = False, nullable: bool = False) -> None:
        super().__init__(nullable=nullable)
        self._types, self._or_subclass = types, or_subclass
        names = [t if isinstance(t, str) else t.__name__ for t in types]
        self.type_text = " | ".join([*names, *(f"type[{name}]" for name in names if or_subclass)])

    def check(self, value: Any) -> Any:
        types = tuple(t for t in map(_imported, self._types) if t is not None)
        if isinstance(value, types) or (self._or_subclass and isinstance(value, type) and issubclass(value, types)):
            return value
        names = (t.rpartition(".")[2] if isinstance(t, str) else t.__name__ for t in self._types)
        raise TypeError(f"it must be a {' or '.join(names)}, not {value!r}")


def _imported(found: type | str) -> type | None:
    """Return a class given by itself or by name, or None if the module of the name is not imported."""
    if not isinstance(found, str):
        return found
    module, _, name = found.rpartition(".")
    return getattr(sys.modules.get(module), name, None)


class Function(Kind):
    """A callable, or an object with one of the given methods.

    Args:
        type_text: the type of the callable and of the object, in the notation for type checkers.
    """

    def __init__(self, *methods: str, nullable: bool = False, type_text: str = "Callable[..., object]") -> None:
        super().__init__(nullable=nullable)
        self.methods = methods
        self.type_text = type_text

    def check(self, value: Any) -> Any:
        if callable(value) or any(hasattr(value, method) for method in self.methods):
            return value
        raise TypeError(f"it must be a function, not {value!r}")


class Methods(Kind):
    """An object with all of the given methods. A class is refused, because its methods need an object.

    Args:
        type_text: the type of the object, in the notation for type checkers.
    """

    def __init__(self, *methods: str, type_text: str) -> None:
        super().__init__()
        self.methods = methods
        self.type_text = type_text

    def check(self, value: Any) -> Any:
        if isinstance(value, type):
            raise TypeError(f"it must be an object, not the class {value.__name__}. Call the class to make one")
        missing = [method for method in self.methods if not callable(getattr(value, method, None))]
        if missing:
            raise TypeError(f"it must be an object with the methods {', '.join(self.methods)}, not {value!r}")
        return value


class File(Kind):
    """Path of an existing, readable file. It is stored as a string."""

    type_text = "str | os.PathLike[str]"

    def check(self, value: Any) -> str:
        if not isinstance(value, (str, os.PathLike)):
            raise TypeError(f"it must be a path, not {value!r}")
        path = os.fspath(value)
        if not os.path.isfile(path):
            raise ValueError(f"there is no file {path!r}")
        if not os.access(path, os.R_OK):
            raise ValueError(f"the file {path!r} cannot be read")
        return str(path)


class Servers(Kind):
    """Addresses, as ``"a:9092,b:9092"`` or as a list.

    They are stored as a tuple of :class:`Address` without duplicates.
    """

    type_text = "str | Sequence[str | tuple[str, int]]"

    def check(self, value: Any) -> tuple[Address, ...]:
        if not isinstance(value, str) and not isinstance(value, Sequence):
            raise TypeError(f"it must be a string such as 'localhost:9092' or a list of them, not {value!r}")
        found: dict[Address, None] = {}
        for item in [value] if isinstance(value, str) else value:
            if isinstance(item, tuple) and len(item) == 2:
                item = Address(str(item[0]), int(item[1]))
                item = str(item)
            if not isinstance(item, str):
                raise TypeError(f"it must hold strings such as 'localhost:9092', not {item!r}")
            found |= {parse_address(part): None for part in item.split(",") if part.strip()}
        if not found:
            raise ValueError("it must name at least one host:port")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Setting:
    """Declaration of one setting.

    Args:
        name: name of the keyword argument and of the config object's attribute. It ends with the unit (``_ms``,
            ``_bytes``).
        default: a legal value, or :data:`REQUIRED`.
        kind: the kind of the legal values.
        doc: one or more sentences for users. The reference page is generated from them.
        aliases: other names of the setting. Kafka's dotted form of ``name`` is always an alias.
        secret: True if the value must not be shown in messages and in ``repr``.
        blanks: values that mean the default. For some settings kafka-python documents None or infinity, where Kafka has
            a word or a number.
    """

    name: str
    default: Any
    kind: Kind
    doc: str
    aliases: tuple[str, ...] = ()
    secret: bool = field(default=False, kw_only=True)
    blanks: tuple[float | None, ...] = field(default=(), kw_only=True)

    @property
    def dotted(self) -> str:
        """The name in Kafka's form, with dots."""
        return self.name.replace("_", ".")

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the setting that a user may give."""
        return (self.name, self.dotted, *self.aliases)


class Config:
    """The checked settings of one component, as read-only attributes. :meth:`replace` returns a changed copy."""

    _settings: Settings[Any]
    _given: frozenset[str]

    def __init__(self, settings: Settings[Any], values: Mapping[str, Any], given: Iterable[str]) -> None:
        self.__dict__.update(values, _settings=settings, _given=frozenset(given))

    @classmethod
    def finish(cls, values: dict[str, Any], given: frozenset[str]) -> None:
        """Check rules that concern several settings, and fill in defaults that depend on other settings.

        Args:
            values: all settings, each of them legal by itself. The dictionary is changed in place.
            given: names of the settings that the user gave.

        Raises:
            ConfigurationError: two settings contradict each other. The message names them.
        """

    @property
    def given(self) -> frozenset[str]:
        """Names of the settings that the user gave. The others have their defaults."""
        return self._given

    @property
    def settings(self) -> Settings[Any]:
        """The table of the settings."""
        return self._settings

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some settings changed. The new values are checked, too."""
        options = {name: getattr(self, name) for name in self._given}
        found: Self = self._settings.build({**options, **changes})
        return found

    def shown(self) -> dict[str, Any]:
        """Return the values of all settings that are not secret, by name."""
        return {setting.name: getattr(self, setting.name) for setting in self._settings if not setting.secret}

    def as_dict(self) -> dict[str, Any]:
        """Return the values of all settings by name."""
        return {name: getattr(self, name) for name in self._settings.by_name}

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"settings cannot be changed, but {name} was to be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"settings cannot be removed, but {name} was to be")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (
            f"{name}=***" if self._settings.by_name[name].secret else f"{name}={getattr(self, name)!r}"
            for name in sorted(self._given)
        )
        return f"{type(self).__name__}({', '.join(shown)})"


ConfigT = TypeVar("ConfigT", bound=Config)


class Settings(Generic[ConfigT]):
    """The settings of one component.

    Args:
        component: the component's name in messages, such as ``consumer``.
        table: the settings. If two have the same name, the later one replaces the earlier one, for instance to change
            its default.
        config_class: the class of the objects that :meth:`build` returns.
        hints: for names of settings that only other clients have, the advice in the error message.
    """

    def __init__(
        self,
        component: str,
        table: Iterable[Setting],
        config_class: type[ConfigT],
        *,
        hints: Mapping[str, str] | None = None,
    ) -> None:
        self.component = component
        self.by_name = {setting.name: setting for setting in table}
        self.config_class = config_class
        self.hints = dict(hints or {})
        self._by_any_name = {name: setting for setting in self.by_name.values() for name in setting.names}

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.by_name.values())

    def build(self, options: Mapping[str, Any]) -> ConfigT:
        """Check the user's settings and fill in the defaults.

        Args:
            options: the values by name. Both forms are legal: ``request_timeout_ms`` and ``request.timeout.ms``.

        Raises:
            ConfigurationError: a name is unknown, a value is illegal, a required setting is missing, or settings
                contradict each other.
        """
        values: dict[str, Any] = {}
        came_as: dict[str, str] = {}
        for name, value in options.items():
            setting = self._by_any_name.get(name)
            if setting is None:
                raise ConfigurationError(self.unknown(name))
            if setting.blanks and (value is None or isinstance(value, float)) and value in setting.blanks:
                continue
            checked = self.check(name, value, text="." in name)
            if setting.name in values and values[setting.name] != checked:
                raise ConfigurationError(
                    f"{self.component} settings {came_as[setting.name]} and {name} are one setting with two values"
                )
            values[setting.name] = checked
            came_as[setting.name] = name
        given = frozenset(values)
        for setting in self.by_name.values():
            if setting.name not in values:
                if setting.default is REQUIRED:
                    raise ConfigurationError(f"{self.component} setting {setting.name} is required")
                values[setting.name] = setting.default
        self.config_class.finish(values, given)
        return self.config_class(self, values, given)

    def find(self, name: str) -> Setting | None:
        """Return the setting with this name or alias, or None if there is no such setting."""
        return self._by_any_name.get(name)

    def check(self, name: str, value: Any, *, text: bool) -> Any:
        """Return the checked value of a known setting. If ``text`` is True, a string is parsed first.

        Raises:
            ConfigurationError: the value is illegal. The message does not contain a secret.
        """
        setting = self._by_any_name[name]
        try:
            return setting.kind(value, text=text)
        except (TypeError, ValueError) as error:
            reason = str(error)
            if setting.secret and not isinstance(setting.kind, Secret):  # other kinds show the value
                reason = f"a value of type {type(value).__name__} is not legal there (it is not shown)"
            raise ConfigurationError(f"{self.component} setting {name}: {reason}") from None

    def unknown(self, name: object) -> str:
        """Return the error message for an unknown name. If a known name is similar, the message contains it."""
        text = f"unknown {self.component} setting {name!r}"
        if not isinstance(name, str):
            return text
        hint = self.hints.get(name.lower().replace(".", "_"))
        if hint is not None:
            return f"{text}: {hint}"
        near = nearest(name.lower(), self._by_any_name)
        return text if near is None else f"{text}: did you mean {near!r}?"


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to ``name``, or None. This is for the error about a misspelled name.

    Args:
        cutoff: the lowest similarity that counts, from 0 to 1.
    """
    import difflib

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


# ------------------------------------------------------------ settings of every client

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

"""SASL mechanisms that a client can use."""


class ClientConfig(Config):
    """The settings of every client. See :data:`CLIENT_SETTINGS`."""

    bootstrap_servers: tuple[Address, ...]
    client_id: str
    client_dns_lookup: str
    bootstrap_timeout_ms: int | None
    bootstrap_resolve_timeout_ms: int
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    metadata_cluster_check_enable: bool
    send_buffer_bytes: int
    receive_buffer_bytes: int
    security_protocol: str
    ssl_context: ssl.SSLContext | None
    ssl_check_hostname: bool
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_crlfile: str | None
    ssl_password: str | Callable[[], str] | None
    ssl_ciphers: str | None
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_oauth_token_provider: Any
    metrics_sample_window_ms: int
    metrics_num_samples: int
    metric_reporters: tuple[MetricsReporter, ...]

    @property
    def uses_tls(self) -> bool:
        """Return whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Return whether connections authenticate by SASL."""
        return self.security_protocol.startswith("SASL")

    @classmethod
    def finish(cls, values: dict[str, Any], given: frozenset[str]) -> None:
        super().finish(values, given)
        for low, high in _PAIRS:
            if values[low] > values[high]:
                if high in given and low in given:
                    raise ConfigurationError(f"{low} ({values[low]}) is greater than {high} ({values[high]})")
                # The one that was given counts: a fixed time instead of a growing one.
                values[high if low in given else low] = values[low if low in given else high]
        _check_security(values, given)


_PAIRS: tuple[tuple[str, str], ...] = (
    ("retry_backoff_ms", "retry_backoff_max_ms"),
    ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
    ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
)


def _check_security(values: Mapping[str, Any], given: frozenset[str]) -> None:
    protocol = values["security_protocol"]
    tls = {name for name in given if name.startswith("ssl_") and values[name] is not None}
    sasl = {name for name in given if name.startswith("sasl_") and values[name] is not None}
    files = tls - {"ssl_check_hostname"}  # which changes nothing there
    if files and not protocol.endswith("SSL"):
        raise ConfigurationError(f"{min(files)} is given, but security_protocol is {protocol}, which does not use TLS")
    if sasl and not protocol.startswith("SASL"):
        raise ConfigurationError(f"{min(sasl)} is given, but security_protocol is {protocol}, which does not use SASL")
    beside = tls - {"ssl_context", "ssl_check_hostname"}
    if "ssl_context" in tls and beside:
        raise ConfigurationError(f"ssl_context and {min(beside)} are both given: set everything in the context")
    if values["ssl_keyfile"] and not values["ssl_certfile"]:
        raise ConfigurationError("ssl_keyfile is given without ssl_certfile")
    if not protocol.startswith("SASL"):
        return
    mechanism = values["sasl_mechanism"]
    if mechanism is None:
        raise ConfigurationError(f"security_protocol {protocol} needs sasl_mechanism ({', '.join(SASL_MECHANISMS)})")
    if mechanism == "OAUTHBEARER":
        if values["sasl_oauth_token_provider"] is None:
            raise ConfigurationError("sasl_mechanism OAUTHBEARER needs sasl_oauth_token_provider")
    elif values["sasl_plain_username"] is None or values["sasl_plain_password"] is None:
        raise ConfigurationError(f"sasl_mechanism {mechanism} needs sasl_plain_username and sasl_plain_password")


CLIENT_SETTINGS: Final = (
    Setting(
        "bootstrap_servers",
        REQUIRED,
        Servers(),
        "Addresses of brokers to contact first: `host:port`, separated by commas or as a list. The default port is "
        "9092. Any one of them is enough to find the whole cluster.",
    ),
    Setting(
        "client_id",
        "",
        Text(blank=True),
        "Name of this client in the broker's logs and quotas (generated if empty).",
        blanks=(None,),
    ),
    Setting(
        "client_dns_lookup",
        "use_all_dns_ips",
        Choice("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "`use_all_dns_ips`: try all addresses of a host name in turn. `resolve_canonical_bootstrap_servers_only`: "
        "replace each bootstrap host name by the canonical names of its addresses (KIP-235).",
    ),
    Setting(
        "bootstrap_timeout_ms",
        None,
        Duration(1, nullable=True),
        "Raise `NoBrokersAvailableError` when no broker has responded for this long since the client began to connect."
        " None: do not give up, for a cluster that starts later. Each call then waits until its own timeout, and the"
        " log repeats from time to time that no broker answers.",
    ),
    Setting(
        "bootstrap_resolve_timeout_ms",
        0,
        Duration(),
        "Raise `BootstrapResolutionError` when no name in `bootstrap_servers` could be looked up for this long since "
        "the client began to connect. Then you must close the client (KIP-909). 0: keep trying. Names are looked up in "
        "the background either way.",
    ),
    Setting(
        "request_timeout_ms",
        30_000,
        Duration(),
        "Longest time to wait for a response. After that the request fails and the connection is closed.",
    ),
    Setting(
        "default_api_timeout_ms",
        60_000,
        Duration(),
        "Longest duration of a blocking call without a `timeout_ms` of its own (KIP-266).",
    ),
    Setting(
        "retry_backoff_ms",
        100,
        Duration(),
        "Pause before the first retry of a failed request. It doubles with each failure, with 20 % jitter (KIP-580).",
    ),
    Setting("retry_backoff_max_ms", 1_000, Duration(), "Longest pause before a retry of a failed request."),
    Setting(
        "reconnect_backoff_ms",
        50,
        Duration(),
        "Pause before the first new attempt to connect to a broker. It doubles with each failure, with 20 % jitter.",
    ),
    Setting("reconnect_backoff_max_ms", 1_000, Duration(), "Longest pause before a new attempt to connect."),
    Setting(
        "socket_connection_setup_timeout_ms",
        10_000,
        Duration(),
        "Longest time to establish a connection. It doubles with each consecutive failure (KIP-601).",
    ),
    Setting(
        "socket_connection_setup_timeout_max_ms",
        30_000,
        Duration(),
        "Upper limit of `socket_connection_setup_timeout_ms` as it doubles.",
    ),
    Setting(
        "connections_max_idle_ms",
        540_000,
        Duration(special=(-1,)),
        "Close a connection that has been idle for this time (-1: never).",
    ),
    Setting(
        "metadata_max_age_ms",
        300_000,
        Duration(),
        "Refresh topics, partitions and leaders after this time, even if no change is known.",
    ),
    Setting(
        "metadata_recovery_strategy",
        "rebootstrap",
        Choice("rebootstrap", "none"),
        "Action when no known broker can be reached. `rebootstrap`: start over with `bootstrap_servers` (KIP-899). "
        "`none`: keep trying the known brokers.",
    ),
    Setting(
        "metadata_recovery_rebootstrap_trigger_ms",
        300_000,
        Duration(),
        "With the strategy `rebootstrap`: also start over when no metadata has arrived for this time (KIP-1102).",
    ),
    Setting(
        "metadata_cluster_check_enable",
        True,
        Flag(),
        "With the strategy `rebootstrap`: send the expected cluster and node id when connecting, so that a broker of "
        "Apache Kafka 4.4 or newer can reject a misrouted connection. The client then starts over (KIP-1242).",
    ),
    Setting(
        "send_buffer_bytes",
        -1,
        Integer(1, special=(-1,)),
        "Size of the socket's send buffer (SO_SNDBUF). -1: the system's default.",
        blanks=(None,),
    ),
    Setting(
        "receive_buffer_bytes",
        -1,
        Integer(1, special=(-1,)),
        "Size of the socket's receive buffer (SO_RCVBUF). -1: the system's default, which adapts and is faster.",
        blanks=(None,),
    ),
    Setting(
        "security_protocol",
        "PLAINTEXT",
        Choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "Security of connections to brokers: with TLS (`SSL`) or without, with SASL or without.",
    ),
    Setting(
        "ssl_context",
        None,
        Instance("ssl.SSLContext", nullable=True),
        "An `ssl.SSLContext` to use instead of the other `ssl_` settings.",
    ),
    Setting(
        "ssl_check_hostname",
        True,
        Flag(),
        "Check that the broker's certificate is for the host name that the client connects to (KIP-294).",
    ),
    Setting(
        "ssl_cafile",
        None,
        File(nullable=True),
        "PEM file with the certificate authorities to trust (by default the system's).",
    ),
    Setting(
        "ssl_certfile", None, File(nullable=True), "PEM file with the client's certificate and its chain, for mTLS."
    ),
    Setting(
        "ssl_keyfile",
        None,
        File(nullable=True),
        "PEM file with the private key of the client's certificate. By default it is read from `ssl_certfile`.",
    ),
    Setting(
        "ssl_crlfile",
        None,
        File(nullable=True),
        "PEM file with certificate revocation lists. Only the broker's own certificate is checked against them.",
    ),
    Setting(
        "ssl_password",
        None,
        Secret(function=True, nullable=True),
        "Password of the private key, or a function that returns it.",
        ("ssl.key.password",),
        secret=True,
    ),
    Setting("ssl_ciphers", None, Text(nullable=True), "Ciphers in OpenSSL's notation, for TLS 1.2 and older."),
    Setting(
        "sasl_mechanism",
        None,
        Choice(*SASL_MECHANISMS, nullable=True),
        "SASL mechanism to authenticate with.",
    ),
    Setting(
        "sasl_plain_username",
        None,
        Text(nullable=True),
        "User name for PLAIN and SCRAM.",
        ("sasl.username", "sasl_username"),
    ),
    Setting(
        "sasl_plain_password",
        None,
        Secret(nullable=True),
        "Password for PLAIN and SCRAM.",
        ("sasl.password", "sasl_password"),
        secret=True,
    ),
    Setting(
        "sasl_oauth_token_provider",
        None,
        Function("token", nullable=True, type_text="Callable[[], str] | TokenProvider"),
        "For OAUTHBEARER: an object with `token() -> str`, or a function, that returns a valid JWT.",
        secret=True,  # a token given by mistake instead
    ),
    Setting(
        "metrics_sample_window_ms",
        30_000,
        Duration(1),
        "The time of one window in which rates, averages and maxima of the metrics are computed.",
    ),
    Setting(
        "metrics_num_samples",
        2,
        Integer(1),
        "The number of complete windows that count beside the current one.",
    ),
    Setting(
        "metric_reporters",
        (),
        ListOf(Methods("configure", "init", "close", type_text="MetricsReporter")),
        "Objects with the methods `configure`, `init` and `close` of `pyconsumer.metrics.MetricsReporter`: they get the"
        " metrics of this client.",
    ),
)

"""Settings common to all clients. Names are kafka-python's, defaults and meaning those of Java's client 4.x."""

CLIENT_HINTS: Final[Mapping[str, str]] = {
    **CLIENT_NAMES,
    "api_version": "leave it out, versions are negotiated with each broker",
    "api_version_auto_timeout_ms": "leave it out, versions are negotiated with each broker",
    "ssl_truststore_location": "give a PEM file as ssl_cafile, or an ssl.SSLContext as ssl_context",
    "ssl_keystore_location": "give PEM files as ssl_certfile and ssl_keyfile",
    "sasl_jaas_config": "give sasl_mechanism, sasl_plain_username and sasl_plain_password",
    "socket_options": "use send_buffer_bytes and receive_buffer_bytes; TCP_NODELAY is always on",
    "kafka_client": "the client cannot be exchanged",
    "selector": "the client chooses the selector",
}

"""Hints for users of other clients who try a name of theirs. :class:`Settings` takes it as ``hints``."""
