"""Generates the source of encode and decode functions from a message's declaration.

Only :mod:`pyconsumer.protocol.schema` uses this. A struct inside a message gets functions of its own in the same
namespace. Everything else is inlined. Names in generated code: ``m`` the value, ``a`` appends a buffer to the output,
``b`` the input (a memoryview), ``p`` the position in it.

Decoding truncated input raises ``IndexError`` or ``struct.error`` from the generated code, or ``ProtocolError`` from an
explicit check. The caller turns all of them into ``ProtocolError``. No state: a :class:`_Writer` lives for one
generation.
"""

from __future__ import annotations

import struct as _struct
from typing import TYPE_CHECKING, Any

from pyconsumer.errors import UnsupportedVersionError
from pyconsumer.protocol import primitives

if TYPE_CHECKING:
    from pyconsumer.protocol.primitives import Decoder, Encoder, FieldSpec, Struct

_UV = tuple(primitives.encode_uvarint(n) for n in range(128))


def _unsupported(name: str, version: int) -> None:
    raise UnsupportedVersionError(f"version {version} has no field for {name}, which is set")


class _Writer:
    """Collects lines of source, and the objects that they refer to."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.depth = 0
        self.namespace: dict[str, Any] = {
            "UV": _UV,
            "uv": primitives.encode_uvarint,
            "uvt": primitives.read_uvarint_tail,
            "bad_null": primitives.bad_null,
            "bad_length": primitives.bad_length,
            "bad_tag_size": primitives.bad_tag_size,
            "too_long": primitives.too_long,
            "unsupported": _unsupported,
            "pack": _struct.pack,
            "unpack_from": _struct.unpack_from,
        }
        self._done: set[tuple[str, str]] = set()
        self._serial = 0

    def indent(self) -> None:
        """Begin a block: the next lines are indented by one more level."""
        self.depth += 1

    def dedent(self) -> None:
        """End a block."""
        self.depth -= 1

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + text)

    def constant(self, value: Any, hint: str) -> str:
        """Bind an object to a new name in the namespace. Return the name, which begins with ``hint``."""
        name = f"{hint}_{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def packer(self, letters: str, method: str) -> str:
        """Return the name of a method of ``struct.Struct``, bound to a big-endian format."""
        name = f"{method}_{letters.replace('?', 'o')}"
        if name not in self.namespace:
            self.namespace[name] = getattr(_struct.Struct(">" + letters), method)
        return name

    def temporary(self) -> str:
        """Return a new name for a local variable."""
        self._serial += 1
        return f"t{self._serial}"

    def claim(self, kind: str, name: str) -> bool:
        """Return True at the first call with this kind and name, when the function must be written."""
        if (kind, name) in self._done:
            return False
        self._done.add((kind, name))
        return True


def _is_fixed(spec: FieldSpec) -> bool:
    return not spec.is_array and isinstance(spec.type, tuple) and spec.type.size > 0


def _split(cls: type[Struct], version: int, flexible: bool) -> tuple[list[FieldSpec], list[FieldSpec]]:
    """Return the fields in the body, and the tagged fields in the order of their tags."""
    body, tagged = [], []
    for spec in cls.FIELDS:
        if version not in spec.versions:
            continue
        if flexible and spec.tag >= 0 and version in spec.tagged:
            tagged.append(spec)
        else:
            body.append(spec)
    return body, sorted(tagged, key=lambda spec: spec.tag)


def _min_size(cls: type[Struct], version: int, flexible: bool) -> int:
    """Return the smallest size of a struct in bytes, at least 1, against which the length of an array is checked."""
    body, _ = _split(cls, version, flexible)
    return max(1, sum(_field_min_size(spec, version, flexible) for spec in body) + flexible)


def _field_min_size(spec: FieldSpec, version: int, flexible: bool) -> int:
    compact = flexible and spec.compact
    if spec.is_array:
        return 1 if compact else 4
    if isinstance(spec.type, tuple):
        if spec.type.size:
            return spec.type.size
        if spec.type.name == "string":
            return 1 if compact else 2
        return 1 if compact else 4
    if version in spec.nullable:
        return 1
    return _min_size(spec.type, version, flexible)


# ---------------------------------------------------------------- encoding


def _encoder(w: _Writer, cls: type[Struct]) -> str:
    name = f"enc_{cls.__name__}"
    if not w.claim("enc", name):
        return name
    body, tagged = _split(cls, w.version, w.flexible)
    for spec in cls.FIELDS:  # the functions that this one calls
        if w.version in spec.versions and not isinstance(spec.type, tuple):
            _encoder(w, spec.type)
    w.line(f"def {name}(m, a):")
    w.indent()
    start = len(w.lines)
    for spec in cls.FIELDS:
        if w.version not in spec.versions and not spec.ignorable:
            default = w.constant(spec.default, "default")
            w.line(f"if m.{spec.name} != {default}: unsupported({cls.__name__ + '.' + spec.name!r}, {w.version})")
    run: list[FieldSpec] = []
    for spec in body:
        if _is_fixed(spec):
            run.append(spec)
            continue
        _encode_run(w, run)
        run = []
        _encode_value(w, spec, f"m.{spec.name}", cls.__name__)
    if w.flexible:
        _encode_end(w, run, tagged, cls.__name__)
    else:
        _encode_run(w, run)
    if len(w.lines) == start:
        w.line("pass")
    w.dedent()
    w.line("")
    return name


def _encode_run(w: _Writer, run: list[FieldSpec], *more: str) -> None:
    """Write one ``struct`` call for adjacent fields of fixed size, and for the one-byte values ``more`` after them."""
    if run:
        letters = "".join(spec.type.letter for spec in run)  # type: ignore[union-attr]
        values = ", ".join([*(f"m.{spec.name}" for spec in run), *more])
        w.line(f"a({w.packer(letters + 'B' * len(more), 'pack')}({values}))")


def _encode_end(w: _Writer, run: list[FieldSpec], tagged: list[FieldSpec], owner: str) -> None:
    """Write the last fields of fixed size and the tagged fields, which are usually all absent."""
    defaults = [w.constant(spec.default, "default") for spec in tagged]
    if tagged:
        equal = [
            f"m.{spec.name} == {default}" if isinstance(spec.type, tuple) else f"m.{spec.name} is {default}"
            for spec, default in zip(tagged, defaults, strict=True)
        ]
        w.line(f"if {' and '.join(equal)}:")
        w.indent()
    if run:
        _encode_run(w, run, "0")
    else:
        w.line("a(b'\\0')")
    if not tagged:
        return
    w.dedent()
    w.line("else:")
    w.indent()
    _encode_run(w, run)
    _encode_tagged(w, tagged, defaults, owner)
    w.dedent()


def _encode_tagged(w: _Writer, tagged: list[FieldSpec], defaults: list[str], owner: str) -> None:
    w.line("tags = []")
    for spec, default in zip(tagged, defaults, strict=True):
        w.line(f"if m.{spec.name} != {default}:")
        w.indent()
        w.line("sub = []")
        w.line("outer = a; a = sub.append")
        if _is_fixed(spec):
            _encode_run(w, [spec])
        else:
            _encode_value(w, spec, f"m.{spec.name}", owner)
        w.line("a = outer")
        w.line(f"data = b''.join(sub); tags.append(uv({spec.tag}) + uv(len(data)) + data)")
        w.dedent()
    w.line("if tags:")
    w.line("    a(uv(len(tags)))")
    w.line("    for tag in tags: a(tag)")
    w.line("else: a(b'\\0')")


def _encode_value(w: _Writer, spec: FieldSpec, source: str, owner: str) -> None:
    """Write a field of variable size."""
    label = f"{owner}.{spec.name}"
    compact = w.flexible and spec.compact
    nullable = w.version in spec.nullable
    value = w.temporary()
    w.line(f"{value} = {source}")
    is_struct = not isinstance(spec.type, tuple)
    type_name = "" if is_struct or spec.is_array else spec.type.name  # type: ignore[union-attr]
    if is_struct and not spec.is_array and not nullable:
        w.line(f"{_encoder(w, spec.type)}({value}, a)")  # type: ignore[arg-type]
        return
    w.line(f"if {value} is None:")
    w.indent()
    if not nullable and type_name != "records":
        w.line(f"bad_null({label!r})")
    elif is_struct and not spec.is_array:
        # The marker of a null struct is an unsigned varint in a tagged field, elsewhere a signed byte.
        w.line("a(b'\\0')" if spec.tag >= 0 else "a(b'\\xff')")
    elif compact:
        w.line("a(b'\\0')")
    else:
        w.line("a(b'\\xff\\xff')" if type_name == "string" else "a(b'\\xff\\xff\\xff\\xff')")
    w.dedent()
    w.line("else:")
    w.indent()
    if is_struct and not spec.is_array:
        w.line("a(b'\\1')")
        w.line(f"{_encoder(w, spec.type)}({value}, a)")  # type: ignore[arg-type]
    elif spec.is_array:
        _encode_length(w, f"len({value})", compact, "i")
        _encode_elements(w, spec, value, label)
    elif type_name == "string":
        w.line(f"d = {value}.encode(); n = len(d)")
        w.line(f"if n > 32767: too_long({label!r}, n, 32767)")
        _encode_length(w, "n", compact, "h")
        w.line("a(d)")
    else:
        _encode_length(w, f"len({value})", compact, "i")
        w.line(f"a({value})")
    w.dedent()


def _encode_length(w: _Writer, length: str, compact: bool, letter: str) -> None:
    if compact:
        w.line(f"n = {length} + 1; a(UV[n] if n < 128 else uv(n))")
    else:
        w.line(f"a({w.packer(letter, 'pack')}({length}))")


def _encode_elements(w: _Writer, spec: FieldSpec, value: str, label: str) -> None:
    if not isinstance(spec.type, tuple):
        item = w.temporary()
        w.line(f"for {item} in {value}: {_encoder(w, spec.type)}({item}, a)")
        return
    if spec.type.size:
        if spec.type.name == "uuid":
            w.line(f"for d in {value}: a({w.packer('16s', 'pack')}(d))")
        else:
            w.line(f"a(pack('>%d{spec.type.letter}' % len({value}), *{value}))")
        return
    compact = w.flexible and spec.compact
    item = w.temporary()
    w.line(f"for {item} in {value}:")
    w.indent()
    if spec.type.name == "string":
        w.line(f"d = {item}.encode(); n = len(d)")
        w.line(f"if n > 32767: too_long({label!r}, n, 32767)")
        _encode_length(w, "n", compact, "h")
        w.line("a(d)")
    else:
        _encode_length(w, f"len({item})", compact, "i")
        w.line(f"a({item})")
    w.dedent()


# ---------------------------------------------------------------- decoding


def _decoder(w: _Writer, cls: type[Struct]) -> str:
    name = f"dec_{cls.__name__}"
    if not w.claim("dec", name):
        return name
    body, tagged = _split(cls, w.version, w.flexible)
    for spec in cls.FIELDS:
        if w.version in spec.versions and not isinstance(spec.type, tuple):
            _decoder(w, spec.type)
    w.line(f"def {name}(b, p):")
    w.indent()
    run: list[FieldSpec] = []
    for spec in body:
        if _is_fixed(spec):
            run.append(spec)
            continue
        has_length = w.flexible and spec.compact and (spec.is_array or isinstance(spec.type, tuple))
        _decode_run(w, run, *(("n",) if has_length else ()))
        _decode_value(w, spec, cls.__name__, length_is_read=bool(run) and has_length)
        run = []
    absent = {spec.name: _absent(w, spec) for spec in tagged}
    values = {spec.name: f"f_{spec.name}" for spec in body}
    made = w.constant(cls, "cls")
    if w.flexible:
        _decode_run(w, run, "k")
        if not run:
            w.line("k = b[p]; p += 1")
        present = values | absent
        arguments = [present.get(spec.name) or _default_expression(w, spec) for spec in cls.FIELDS]
        w.line(f"if not k: return {made}({', '.join(arguments)}), p")
        _decode_tagged(w, tagged, absent, cls.__name__)
        values |= {spec.name: f"f_{spec.name}" for spec in tagged}
    else:
        _decode_run(w, run)
    arguments = [values.get(spec.name) or _default_expression(w, spec) for spec in cls.FIELDS]
    w.line(f"return {made}({', '.join(arguments)}), p")
    w.dedent()
    w.line("")
    return name


def _default_expression(w: _Writer, spec: FieldSpec) -> str:
    if spec.default is None:
        return "None"
    if spec.is_array:
        return "[]"
    if not isinstance(spec.type, tuple):
        return f"{w.constant(spec.type, 'cls')}()"
    return repr(spec.default)


def _absent(w: _Writer, spec: FieldSpec) -> str:
    """Return the value of an absent tagged field. One struct serves all if its fields are fixed."""
    if spec.is_array or isinstance(spec.type, tuple) or not all(map(_is_fixed, spec.type.FIELDS)):
        return _default_expression(w, spec)
    return w.constant(spec.type(), "absent")


def _decode_run(w: _Writer, run: list[FieldSpec], *more: str) -> None:
    """Write one ``struct`` call for adjacent fields of fixed size, and for the one-byte names ``more`` after them."""
    if run:
        letters = "".join(spec.type.letter for spec in run) + "B" * len(more)  # type: ignore[union-attr]
        size = sum(spec.type.size for spec in run) + len(more)  # type: ignore[union-attr, misc]
        names = ", ".join([*(f"f_{spec.name}" for spec in run), *more])
        w.line(f"{names}, = {w.packer(letters, 'unpack_from')}(b, p); p += {size}")


def _decode_length(w: _Writer, compact: bool, letter: str, *, is_read: bool = False, more_by: int = 0) -> None:
    """Write code that reads a length into ``n``, negative for null.

    Args:
        is_read: whether ``n`` is the first byte of it already.
        more_by: 1 to keep a compact length as it is encoded, greater by one.
    """
    if compact:
        if not is_read:
            w.line("n = b[p]; p += 1")
        w.line("if n > 127:")
        w.line("    h = b[p]")
        w.line("    if h < 128: n += (h - 1) << 7; p += 1")  # two bytes, as in most record sets
        w.line("    else: n, p = uvt(b, p, n)")
        if not more_by:
            w.line("n -= 1")
    else:
        w.line(f"n, = {w.packer(letter, 'unpack_from')}(b, p); p += {4 if letter == 'i' else 2}")


def _decode_value(w: _Writer, spec: FieldSpec, owner: str, *, length_is_read: bool = False) -> None:
    label = f"{owner}.{spec.name}"
    target = f"f_{spec.name}"
    compact = w.flexible and spec.compact
    nullable = w.version in spec.nullable
    if not isinstance(spec.type, tuple) and not spec.is_array:
        if nullable:
            w.line(f"n, = {w.packer('b', 'unpack_from')}(b, p); p += 1")
            w.line(f"if n {'<=' if spec.tag >= 0 else '<'} 0: {target} = None")
            w.line(f"else: {target}, p = {_decoder(w, spec.type)}(b, p)")
        else:
            w.line(f"{target}, p = {_decoder(w, spec.type)}(b, p)")
        return
    is_string = not spec.is_array and spec.type.name == "string"  # type: ignore[union-attr]
    more = 1 if compact else 0
    _decode_length(w, compact, "h" if is_string else "i", is_read=length_is_read, more_by=more)
    if spec.is_array:
        w.line(f"if n > {more}:")
        w.indent()
        if more:
            w.line("n -= 1")
        _decode_elements(w, spec, target, label)
        w.dedent()
        w.line(f"elif n == {more}: {target} = []")
    else:
        w.line("if n:" if more else "if n >= 0:")
        w.indent()
        if more:
            w.line("n -= 1")
        _decode_blob(w, spec.type.name, target, label, compact)  # type: ignore[union-attr]
        w.dedent()
    allowed = nullable or (not spec.is_array and spec.type.name == "records")  # type: ignore[union-attr]
    w.line(f"else: {target} = None" if allowed else f"else: bad_null({label!r})")


def _decode_blob(w: _Writer, type_name: str, target: str, label: str, compact: bool) -> None:
    if compact and type_name == "string":  # Kafka's limit, which the encoder checks too
        w.line(f"if n > 32767: too_long({label!r}, n, 32767)")
    w.line("q = p + n; d = b[p:q]")
    w.line(f"if len(d) != n: bad_length({label!r}, n, len(d))")
    if type_name == "string":
        w.line(f"{target} = str(d, 'utf-8', 'replace'); p = q")
    elif type_name == "bytes":
        w.line(f"{target} = bytes(d); p = q")
    else:
        w.line(f"{target} = d; p = q")


def _decode_elements(w: _Writer, spec: FieldSpec, target: str, label: str) -> None:
    compact = w.flexible and spec.compact
    if isinstance(spec.type, tuple):
        element_size = spec.type.size or (1 if compact else 2 if spec.type.name == "string" else 4)
    else:
        element_size = _min_size(spec.type, w.version, w.flexible)
    w.line(f"if n * {element_size} > len(b) - p: bad_length({label!r}, n, len(b) - p)")
    if isinstance(spec.type, tuple) and spec.type.size and spec.type.name != "uuid":
        w.line(f"{target} = list(unpack_from('>%d{spec.type.letter}' % n, b, p)); p += n * {spec.type.size}")
        return
    append = w.temporary()
    counter = w.temporary()
    w.line(f"{target} = []; {append} = {target}.append")
    w.line(f"for {counter} in range(n):")
    w.indent()
    if not isinstance(spec.type, tuple):
        w.line(f"x, p = {_decoder(w, spec.type)}(b, p); {append}(x)")
    elif spec.type.name == "uuid":
        w.line(f"{append}(bytes(b[p:p + 16])); p += 16")
    else:
        _decode_length(w, compact, "h" if spec.type.name == "string" else "i")
        w.line(f"if n < 0: bad_null({label + '[]'!r})")
        _decode_blob(w, spec.type.name, "x", label + "[]", compact)
        w.line(f"{append}(x)")
    w.dedent()


def _decode_tagged(w: _Writer, tagged: list[FieldSpec], absent: dict[str, str], owner: str) -> None:
    """Write code that reads tagged fields: ``k`` > 0 of them, or more if ``k`` is the first byte of a longer number."""
    for spec in tagged:
        w.line(f"f_{spec.name} = {absent[spec.name]}")
    w.line("if k > 127: k, p = uvt(b, p, k)")
    if tagged:
        w.line("whole = b")
    w.line("for _ in range(k):")
    w.indent()
    w.line("tag = b[p]; p += 1")
    w.line("if tag > 127: tag, p = uvt(b, p, tag)")
    w.line("size = b[p]; p += 1")
    w.line("if size > 127: size, p = uvt(b, p, size)")
    w.line("end = p + size")
    w.line(f"if end > len(b): bad_length({owner + ' tagged field'!r}, size, len(b) - p)")
    for spec in tagged:
        w.line(f"if tag == {spec.tag}:")
        w.indent()
        w.line("b = whole[p:end]; p = 0")
        if _is_fixed(spec):
            _decode_run(w, [spec])
        else:
            _decode_value(w, spec, owner)
        w.line("b = whole")
        w.line(f"if p != size: bad_tag_size({owner + '.' + spec.name!r}, size, p)")
        w.dedent()
    w.line("p = end")
    w.dedent()


# ---------------------------------------------------------------- entry points


def _write(cls: type[Struct], version: int, flexible: bool) -> tuple[_Writer, str, str]:
    writer = _Writer(version, flexible)
    return writer, _encoder(writer, cls), _decoder(writer, cls)


def source(cls: type[Struct], version: int, flexible: bool) -> str:
    """Return the generated source, with both functions of every struct."""
    return "\n".join(_write(cls, version, flexible)[0].lines) + "\n"


def compile_codec(cls: type[Struct], version: int, flexible: bool) -> tuple[Encoder, Decoder]:
    """Return the encode and the decode function of a message at a version."""
    writer, encode, decode = _write(cls, version, flexible)
    code = compile("\n".join(writer.lines) + "\n", f"<{cls.__name__} v{version}>", "exec")
    exec(code, writer.namespace)
    return writer.namespace[encode], writer.namespace[decode]
