"""The decoders and the encoder in use: the compiled ones, or their twins if those were not built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyconsumer.protocol.compiled import load_compiled

__all__ = ["REVISION", "ColumnProgram", "ColumnsDecoder", "Decoder", "Encoder", "PrefixDecoder"]

#: The ``REVISION`` of ``native/_native.pyx``: a build of other sources is not used.
REVISION: Final = 8

if TYPE_CHECKING:
    from pyconsumer.protocol.avro._pure import Decoder, Encoder, PrefixDecoder
    from pyconsumer.protocol.avro._pure_columns import ColumnProgram, ColumnsDecoder
else:
    _native, _reason = load_compiled("pyconsumer.protocol.avro._native", REVISION)
    if _native is None:
        from pyconsumer.protocol.avro._pure import Decoder, Encoder, PrefixDecoder
        from pyconsumer.protocol.avro._pure_columns import ColumnProgram, ColumnsDecoder
    else:
        Decoder, Encoder, PrefixDecoder = _native.Decoder, _native.Encoder, _native.PrefixDecoder
        ColumnProgram, ColumnsDecoder = _native.ColumnProgram, _native.ColumnsDecoder
