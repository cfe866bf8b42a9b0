"""The declaration of one setting, and the kinds of legal values. Which settings there are stands in other modules.

A kind checks a value and returns what is kept. It also parses text of a properties file or an environment variable.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from pyconsumer.structs import Address

__all__ = [
    "REQUIRED",
    "Anything",
    "Choice",
    "Duration",
    "File",
    "Flag",
    "Function",
    "Instance",
    "Integer",
    "Kind",
    "ListOf",
    "Methods",
    "Number",
    "Secret",
    "Servers",
    "Setting",
    "Text",
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
    discreet = False  #: True if no message of the kind has a part of the value

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

    def shown(self, value: Any) -> Any:
        """Return the part of a checked value that logs and messages may have."""
        return value


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

    discreet = True

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


class Setting(NamedTuple):
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
    secret: bool = False
    blanks: tuple[float | None, ...] = ()

    @property
    def dotted(self) -> str:
        """The name in Kafka's form, with dots."""
        return self.name.replace("_", ".")

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the setting that a user may give."""
        return (self.name, self.dotted, *self.aliases)
