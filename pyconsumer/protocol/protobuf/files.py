"""Files of Protobuf message types. ``google.protobuf`` and ``grpc_tools`` are imported on demand.

Rules

1. A file is text (``.proto``) or a serialized ``FileDescriptorProto`` in base64, as registries keep both.
2. Text is read by ``protoc``, the compiler of Protobuf itself, which ``grpc_tools`` brings along. It runs in a process
   of its own: text comes from outside, and a fault of the compiler must not end this program.
3. The files of ``google/protobuf`` are those of the library. All other imports are given by name.
4. The classes of a file come from a pool of their own, so files of one name do not meet.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyconsumer.child_python import child_environment, child_python
from pyconsumer.errors import ConfigurationError, SerializationError

__all__ = [
    "ProtoFile",
    "first_message_name",
    "is_built_in",
    "is_descriptor",
    "is_message",
    "message_class",
    "message_path",
    "parse_file",
]

_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}")
#: Known to every reader of Protobuf, so they are no references.
_BUILT_IN: Final = ("google/protobuf/", "google/type/", "confluent/")
_ROOT: Final = "schema.proto"
_TIMEOUT_S: Final = 60.0
_MOST_CHARACTERS: Final = 1_000


def is_descriptor(text: str) -> bool:
    """Return whether a schema has the form of a serialized file in base64. Takes time in proportion to its length."""
    return _BASE64.fullmatch(text.rstrip()) is not None


def is_built_in(name: str) -> bool:
    """Return whether a file is one that registries do not keep."""
    return name.startswith(_BUILT_IN)


def is_message(data: bytes) -> bool:
    """Return whether bytes are a message of some type: a sequence of fields."""
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.message import DecodeError

    try:
        Empty.FromString(data)
    except DecodeError:
        return False
    return True


class ProtoFile:
    """A file of message types, with the files that it imports.

    Attributes:
        proto: the ``FileDescriptorProto``.
        imports: by the name that stands in the import, the files.
    """

    def __init__(self, proto: Any, imports: Mapping[str, ProtoFile]) -> None:
        self.proto = proto
        self.imports = imports
        self._pool: Any = None

    @property
    def base64(self) -> str:
        """The file as registries exchange it."""
        return base64.b64encode(self.proto.SerializeToString()).decode()

    def descriptor_set(self) -> bytes:
        """Return this file as a serialized ``FileDescriptorSet``, after all that it imports but the library's files."""
        from google.protobuf.descriptor_pb2 import FileDescriptorSet

        found = FileDescriptorSet()
        _collect(found, self.imports, set())
        found.file.append(self.proto)
        data: bytes = found.SerializeToString()
        return data

    def message(self, path: Sequence[int]) -> type[Any]:
        """Return the class of a message type.

        Args:
            path: the index of the type in the file, then that of each nested type in its parent.

        Raises:
            SerializationError: there is no such type, or an import is missing.
        """
        from google.protobuf.message_factory import GetMessageClass

        types, name = self.proto.message_type, self.proto.package
        for index in path:
            if not 0 <= index < len(types):
                raise SerializationError(f"the schema has no message type {list(path)}")
            name = f"{name}.{types[index].name}" if name else types[index].name
            types = types[index].nested_type
        found: type[Any] = GetMessageClass(self.pool().FindMessageTypeByName(name))
        return found

    def pool(self) -> Any:
        """Return a pool with this file and all that it imports.

        Raises:
            SerializationError: the file is not valid, or an import is missing.
        """
        if self._pool is None:
            from google.protobuf.descriptor_pool import DescriptorPool

            pool = DescriptorPool()
            try:
                _add(pool, self, self.proto.name, set())
            except TypeError as error:
                raise SerializationError(f"the schema is no Protobuf file: {error}") from None
            self._pool = pool
        return self._pool


def _add(pool: Any, file: ProtoFile, name: str, added: set[str]) -> None:
    if name in added:
        return
    added.add(name)
    for needed in file.proto.dependency:
        if needed in file.imports:
            _add(pool, file.imports[needed], needed, added)
        else:
            _add_built_in(pool, needed, added)
    pool.Add(_named(file.proto, name))


def _named(proto: Any, name: str) -> Any:
    """Return a copy of a file with another name."""
    made = type(proto)()
    made.CopyFrom(proto)
    made.MergeFrom(type(proto)(name=name))
    return made


def _add_built_in(pool: Any, name: str, added: set[str]) -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if name in added:
        return
    added.add(name)
    if not is_built_in(name):
        raise SerializationError(f"the schema imports {name!r}, and no reference has that name")
    try:
        module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except (ImportError, ValueError):
        package = next(each for each in _BUILT_IN if name.startswith(each)).rstrip("/").replace("/", ".")
        if importlib.util.find_spec(package) is not None:
            raise SerializationError(f"the schema imports {name!r}, and there is no such file") from None
        raise ConfigurationError(f"the schema imports {name!r}, which is not installed here") from None
    proto = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    for needed in proto.dependency:
        _add_built_in(pool, needed, added)
    pool.Add(proto)


def parse_file(text: str, imports: Mapping[str, ProtoFile], *, name: str = _ROOT) -> ProtoFile:
    """Return the file that a text stands for.

    Args:
        text: of a registry (rule 1).
        imports: the files that it imports, by name.
        name: of the file, if the text has none.

    Raises:
        SerializationError: it is no file of Protobuf. The message says where.
        ConfigurationError: the library is not installed, or a file of ``google`` or ``confluent`` that is imported.
    """
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.message import DecodeError
    except ImportError:
        raise ConfigurationError("Protobuf needs protobuf: pip install pyconsumer[protobuf]") from None
    if is_descriptor(text):
        try:
            proto = FileDescriptorProto.FromString(base64.b64decode(text))
        except (binascii.Error, ValueError, DecodeError) as error:
            raise SerializationError(f"the schema is no serialized Protobuf file: {error}") from None
    else:
        try:
            data = _compiled(text, imports, name)
        except (UnicodeEncodeError, subprocess.TimeoutExpired) as error:
            raise SerializationError(f"the schema cannot be compiled: {error}") from None
        proto = FileDescriptorProto.FromString(data)
    made = ProtoFile(proto if proto.name else _named(proto, name), imports)
    made.pool()
    return made


def _compiled(text: str, imports: Mapping[str, ProtoFile], name: str) -> bytes:
    """Return the ``FileDescriptorProto`` of a ``.proto`` text, from the compiler."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    try:
        folder_of_tools = Path(str(importlib.import_module("grpc_tools").__file__)).parent
    except ImportError:
        raise ConfigurationError(
            "a Protobuf schema as text needs grpcio-tools: pip install pyconsumer[protobuf]"
        ) from None
    known = FileDescriptorSet()
    _collect(known, imports, set())
    with tempfile.TemporaryDirectory(prefix="pyconsumer-protobuf-") as folder:
        source, given, made = (Path(folder, *parts) for parts in (("in", name), ("given",), ("made",)))
        source.parent.mkdir()
        source.write_text(text, encoding="utf-8")
        given.write_bytes(known.SerializeToString())
        run = subprocess.run(
            child_python(
                "-m",
                "grpc_tools.protoc",
                f"-I{source.parent}",
                f"-I{folder_of_tools / '_proto'}",
                *([f"--descriptor_set_in={given}"] if known.file else []),
                f"--descriptor_set_out={made}",
                name,
            ),
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if run.returncode or not made.exists():
            told = run.stderr.decode(errors="replace").strip() or f"the compiler ended with status {run.returncode}"
            told = told.replace(f"{source.parent}/", "")[:_MOST_CHARACTERS]
            raise SerializationError(f"the schema is no Protobuf file: {told}")
        found = FileDescriptorSet.FromString(made.read_bytes())
    data: bytes = found.file[-1].SerializeToString()
    return data


def _collect(known: Any, imports: Mapping[str, ProtoFile], names: set[str]) -> None:
    for name, file in imports.items():
        if name in names:
            continue
        names.add(name)
        _collect(known, file.imports, names)
        known.file.append(_named(file.proto, name))


def message_path(descriptor: Any) -> list[int]:
    """Return the path of a message type in its file, as :meth:`ProtoFile.message` takes it.

    Args:
        descriptor: the ``DESCRIPTOR`` of its class.
    """
    path: list[int] = []
    while (parent := descriptor.containing_type) is not None:
        path.insert(0, [each.full_name for each in parent.nested_types].index(descriptor.full_name))
        descriptor = parent
    return [list(descriptor.file.message_types_by_name).index(descriptor.name), *path]


def first_message_name(descriptor_set: bytes) -> str:
    """Return the full name of the first message type in the last file of a ``FileDescriptorSet``.

    Raises:
        SerializationError: the file has none.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    file = FileDescriptorSet.FromString(descriptor_set).file[-1]
    if not file.message_type:
        raise SerializationError(f"the schema {file.name} has no message type")
    name: str = file.message_type[0].name
    return f"{file.package}.{name}" if file.package else name


def message_class(descriptor_set: bytes, name: str) -> type[Any]:
    """Return the class of a message type of a serialized ``FileDescriptorSet``.

    ``protoc --include_imports --descriptor_set_out=FILE`` writes such a set.

    Args:
        descriptor_set: the bytes of that file.
        name: the full name of the type, such as ``shop.Order``.

    Raises:
        SerializationError: it is no such set, an import is missing, or it has no such type.
        ConfigurationError: the library is not installed.

    Example:
        ``ProtobufDeserializer(message_class(Path("shop.bin").read_bytes(), "shop.Order"))``
    """
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass
    except ImportError as error:
        raise ConfigurationError(f"Protobuf needs protobuf: pip install pyconsumer[protobuf] ({error})") from None
    pool = DescriptorPool()
    added: set[str] = set()
    try:
        for proto in FileDescriptorSet.FromString(descriptor_set).file:
            given = {each for each in proto.dependency if each not in added}
            for needed in given:
                _add_built_in(pool, needed, added)
            added.add(proto.name)
            pool.Add(proto)
        found: type[Any] = GetMessageClass(pool.FindMessageTypeByName(name))
    except (DecodeError, TypeError) as error:
        raise SerializationError(f"the bytes are no FileDescriptorSet of Protobuf: {error}") from None
    except KeyError:
        raise SerializationError(f"the FileDescriptorSet has no message type {name!r}") from None
    return found
