"""Declares messages with version ranges, and encodes and decodes them.

The codec of each version is generated on first use, and kept.

A message is a class whose fields have a wire type, the versions that contain them, and Kafka's default::

    @message(ApiKey.HEARTBEAT, "request", versions="0-4", flexible="4+")
    class HeartbeatRequest(Message):
        group_id: str = field(STRING, "0+", default="")
        generation_id: int = field(INT32, "0+", default=0)
        member_id: str = field(STRING, "0+", default="")
        group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)

Rules, all of them Kafka's:

1. Fields are encoded in the order of their declaration. A version without a field does not encode it, and decodes it as
   its default.
2. Encoding a version without a field whose value is not the default raises ``UnsupportedVersionError``, unless the
   field is ``ignorable``.
3. In flexible versions strings, bytes and arrays have compact lengths, and every struct ends with its tagged fields.
   Unknown tags are skipped. A tagged field with its default is not encoded.
4. A null is an error in both directions, unless the version allows it.
5. A length is compared with the bytes that are left before memory is allocated for it.

Not here: the choice of the version and framing (``api.py``), and the formats inside ``records`` fields.
:func:`codec_source` shows the source of a codec.
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, cast, dataclass_transform

from pyconsumer.errors import ProtocolError, UnsupportedVersionError
from pyconsumer.protocol import _codegen
from pyconsumer.protocol.primitives import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UUID,
    Buffer,
    Decoder,
    Encoder,
    FieldSpec,
    Struct,
    Versions,
    WireType,
)

__all__ = [
    "BOOL",
    "BYTES",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "RECORDS",
    "STRING",
    "UINT16",
    "UUID",
    "Encodable",
    "FieldSpec",
    "Message",
    "MessageSchema",
    "Struct",
    "Versions",
    "array",
    "codec_source",
    "field",
    "message",
    "struct",
    "structure",
]

_UNSET: Any = object()

S = TypeVar("S", bound="type[Struct]")


class _Declaration(NamedTuple):
    """The declaration of a field. ``factory`` makes a default that must not be shared."""

    spec: FieldSpec
    factory: Callable[[], Any] | None


class MessageSchema(NamedTuple):
    """The declaration of a message.

    ``kind`` is request, response, header or data. ``api_key`` is -1 for a message without an API.
    """

    name: str
    kind: str
    api_key: int
    versions: Versions
    flexible: Versions


class Encodable(Protocol):
    """A request: a :class:`Message`, or another object that can encode itself."""

    API_KEY: ClassVar[int]

    def encode_parts(self, version: int) -> list[Buffer]:
        """Return the request as a list of buffers. See :meth:`Message.encode_parts`."""


class Message(Struct):
    """A complete message. It is encoded and decoded by itself."""

    __slots__ = ()
    SCHEMA: ClassVar[MessageSchema]
    API_KEY: ClassVar[int]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    _codecs: ClassVar[dict[int, tuple[Encoder, Decoder]]]

    @classmethod
    def declare(cls, schema: MessageSchema) -> None:
        """Set the declaration. :func:`message` calls this."""
        cls.SCHEMA = schema
        cls.API_KEY = schema.api_key
        cls.MIN_VERSION, cls.MAX_VERSION = schema.versions
        cls._codecs = {}

    def encode_parts(self, version: int) -> list[Buffer]:
        """Return the message as a list of buffers, in order. Record sets are not copied.

        Raises:
            UnsupportedVersionError: the version is not supported, or lacks a field that is set.
            ProtocolError: a value does not have the type of its field.
        """
        parts: list[Buffer] = []
        encode = (self._codecs.get(version) or self._codec(version))[0]
        try:
            encode(self, parts.append)
        except (_struct.error, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, ProtocolError):
                raise
            raise ProtocolError(f"cannot encode {type(self).__name__} version {version}: {error}") from error
        return parts

    def encode(self, version: int) -> bytes:
        """Return the message as bytes. See :meth:`encode_parts`."""
        return b"".join(self.encode_parts(version))

    @classmethod
    def decode(cls, data: Buffer, version: int, *, allow_trailing: bool = False) -> Self:
        """Read the message from the whole of ``data``.

        Args:
            data: the message, without a header. Record sets in the result are views of this data.
            allow_trailing: True ignores bytes after the message, which a newer version may have added.

        Raises:
            UnsupportedVersionError: the version is not supported.
            ProtocolError: the bytes are not this message.
        """
        value, end = cls.decode_from(data, version, 0)
        if end != len(data) and not allow_trailing:
            raise ProtocolError(
                f"{cls.__name__} version {version}: {len(data) - end} bytes are left over after its end"
            )
        return value

    @classmethod
    def decode_from(cls, data: Buffer, version: int, position: int) -> tuple[Self, int]:
        """Read the message at ``position``. Return the message and the position after it.

        Errors are those of :meth:`decode`.
        """
        decode = (cls._codecs.get(version) or cls._codec(version))[1]
        try:
            return decode(data if isinstance(data, memoryview) else memoryview(data), position)
        except ProtocolError as error:
            raise ProtocolError(f"{cls.__name__} version {version}: {error}") from None
        except (_struct.error, IndexError):
            raise ProtocolError(f"{cls.__name__} version {version}: the data ends too early") from None
        except ValueError as error:
            raise ProtocolError(f"{cls.__name__} version {version}: {error}") from None

    def encode_with_version(self, version: int) -> bytes:
        """Return the version (int16) followed by the message.

        Embedded protocols and records of internal topics have this form.
        """
        return version.to_bytes(2, "big") + self.encode(version)

    @classmethod
    def decode_with_version(cls, data: Buffer) -> tuple[Self, int]:
        """Read bytes in the form of :meth:`encode_with_version`. Return the message and its version.

        A version that is newer than the newest declared one is read as the newest declared one. Additional bytes are
        ignored, as in Kafka's ``ConsumerProtocol``.

        Raises:
            ProtocolError: the bytes are not this message, or their version is negative or too old.
        """
        if len(data) < 2:
            raise ProtocolError(f"{cls.__name__}: {len(data)} bytes are too short for a version")
        version = int.from_bytes(data[:2], "big", signed=True)
        if version < cls.MIN_VERSION:
            raise ProtocolError(f"{cls.__name__} has versions {cls.SCHEMA.versions}, not {version}")
        newer = version > cls.MAX_VERSION
        return cls.decode(memoryview(data)[2:], min(version, cls.MAX_VERSION), allow_trailing=newer), version

    @classmethod
    def _codec(cls, version: int) -> tuple[Encoder, Decoder]:
        codec = cls._codecs.get(version)
        if codec is None:
            if version not in cls.SCHEMA.versions:
                raise UnsupportedVersionError(f"{cls.__name__} has versions {cls.SCHEMA.versions}, not {version}")
            encode, decode = _codegen.compile_codec(cls, version, version in cls.SCHEMA.flexible)
            codec = cls._codecs[version] = encode, cls.shorten(version, decode)
        return codec

    @classmethod
    def shorten(cls, version: int, decode: Decoder) -> Decoder:
        """Return a faster decoder for a frequent form of the message. By default it is ``decode``."""
        return decode


def field(
    type: WireType,
    versions: str,
    *,
    default: Any,
    nullable: str | None = None,
    tag: int = -1,
    tagged: str | None = None,
    ignorable: bool = False,
    compact: bool = True,
) -> Any:
    """Declare a field of a primitive type.

    Args:
        versions: the versions that contain the field, in Kafka's notation.
        default: the field's default in Kafka.
        nullable: the versions in which the field may be None.
        tag, tagged: the tag, and the versions in which the field is a tagged field.
        ignorable: True if versions without the field silently drop its value.
        compact: False for a string that has a two-byte length even in flexible versions (client id in the header).
    """
    return _declare(type, False, versions, nullable, default, None, tag, tagged, ignorable, compact)


def array(
    type: WireType | type[Struct],
    versions: str,
    *,
    nullable: str | None = None,
    default: Any = _UNSET,
    factory: Callable[[], Any] | None = None,
    tag: int = -1,
    tagged: str | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare a field that is a list of ``type``.

    Pass ``factory=list``, or ``default=None`` if Kafka's default is null.
    """
    return _declare(type, True, versions, nullable, default, factory, tag, tagged, ignorable, True)


def struct(
    type: type[Struct],
    versions: str,
    *,
    nullable: str | None = None,
    default: Any = _UNSET,
    factory: Callable[[], Any] | None = None,
    tag: int = -1,
    tagged: str | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare a field that is one struct.

    Pass ``factory=TheStruct``, or ``default=None`` if Kafka's default is null.
    """
    return _declare(type, False, versions, nullable, default, factory, tag, tagged, ignorable, True)


def _declare(
    type_: WireType | type[Struct],
    is_array: bool,
    versions: str,
    nullable: str | None,
    default: Any,
    factory: Callable[[], Any] | None,
    tag: int,
    tagged: str | None,
    ignorable: bool,
    compact: bool,
) -> Any:
    spec = FieldSpec(
        "",
        type_,
        is_array,
        Versions.parse(versions),
        Versions.parse(nullable),
        default,
        tag,
        Versions.parse(tagged if tagged is not None else versions if tag >= 0 else None),
        ignorable,
        compact,
    )
    if factory is None and default is _UNSET:
        raise TypeError("a field needs a default or a factory")
    return _Declaration(spec, factory)


@dataclass_transform(field_specifiers=(field, array, struct))
def structure(cls: S) -> S:
    """Make a class a struct (decorator). Its fields become slots and arguments of the constructor.

    ``dataclasses`` does the same, but it generates and compiles some hundred constructors at import. A program calls
    only a few of them, and that took a tenth of the time to import a client. Here a constructor is compiled at its
    first call.
    """
    namespace = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    declared = {name: value for name, value in namespace.items() if isinstance(value, _Declaration)}
    for name in declared:
        del namespace[name]

    def compile_and_call(self: Struct, *args: Any, **kwargs: Any) -> None:
        made.take_constructor(_constructor(declared))
        made.__init__(self, *args, **kwargs)

    namespace.update(
        __init__=compile_and_call,
        __slots__=tuple(declared),
        __qualname__=cls.__qualname__,
        __doc__=cls.__doc__ or f"See {cls.__module__}.",
    )
    made: Any = type(cast("Any", cls))(cls.__name__, cls.__bases__, namespace)
    made.declare_fields(
        tuple(
            declaration.spec._replace(
                name=name, default=declaration.spec.default if declaration.factory is None else declaration.factory()
            )
            for name, declaration in declared.items()
        )
    )
    return made  # type: ignore[no-any-return]


def _constructor(declared: dict[str, _Declaration]) -> Callable[..., None]:
    """Compile ``__init__`` of a struct: every field is an argument with its default, as of a dataclass."""
    objects: dict[str, Any] = {"UNSET": _UNSET}
    arguments, lines = [], []
    for name, (spec, factory) in declared.items():
        if factory is None:
            objects[f"default_{name}"] = spec.default
            arguments.append(f"{name}=default_{name}")
            lines.append(f"    self.{name} = {name}")
        else:
            objects[f"make_{name}"] = factory
            arguments.append(f"{name}=UNSET")
            lines.append(f"    self.{name} = make_{name}() if {name} is UNSET else {name}")
    source = "\n".join([f"def __init__(self, {', '.join(arguments)}):", *lines, "    pass"])
    exec(compile(source, "<constructor of a struct>", "exec"), objects)
    return cast("Callable[..., None]", objects["__init__"])


M = TypeVar("M", bound="type[Message]")


@dataclass_transform(field_specifiers=(field, array, struct))
def message(api_key: int, kind: str, *, versions: str, flexible: str) -> Callable[[M], M]:
    """Make a class a message (decorator).

    Args:
        api_key: the key of the API, -1 for a message without an API.
        kind: ``request``, ``response``, ``header`` or ``data``.
        versions: the supported versions.
        flexible: the versions that have compact lengths and tagged fields (KIP-482).
    """

    def decorate(cls: M) -> M:
        made: Any = structure(cls)
        made.declare(
            MessageSchema(cls.__name__, kind, int(api_key), Versions.parse(versions), Versions.parse(flexible))
        )
        return made  # type: ignore[no-any-return]

    return decorate


def codec_source(cls: type[Message], version: int) -> str:
    """Return the Python source of the codec of one version, for debugging."""
    return _codegen.source(cls, version, version in cls.SCHEMA.flexible)
