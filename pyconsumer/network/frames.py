"""Cuts a stream of bytes into frames (a size, then that many bytes).

The caller reads bytes into :meth:`FrameReader.buffer` and reports their number by :meth:`FrameReader.advance`. Between
frames that is a small buffer, so that one read brings a size and a short frame, or several. For the rest of a larger
frame it is the frame itself, so that a fetched megabyte is read straight to where it will be decoded.

The memory of a large frame is reused for the next one if no view of it is left by then. New memory would be filled
with zeros first, which takes as long as reading a fifth of it. So the caller keeps a view of a frame for as long as it
needs the frame.
"""

from __future__ import annotations

from pyconsumer.errors import ProtocolError

__all__ = ["FrameReader", "looks_like_tls"]

_SMALL = 4096
# Memory allocated for a size before its bytes arrive: a false size costs no more than this.
_TRUSTED = 16 << 20
# Sizes of frames whose memory is kept: smaller ones cost nothing, larger ones would be too much for a client at rest.
_KEPT = range(1 << 16, 18 << 20)


class FrameReader:
    """Collects frames from pieces of any size.

    Args:
        max_bytes: the largest frame to accept. It may be changed between frames.
    """

    __slots__ = (
        "_frame",
        "_frame_filled",
        "_frame_size",
        "_frame_view",
        "_last",
        "_small",
        "_small_filled",
        "max_bytes",
    )

    def __init__(self, max_bytes: int = 0x7FFFFFFF) -> None:
        self.max_bytes = max_bytes
        self._small = bytearray(_SMALL)
        self._small_filled = 0
        self._frame: bytearray | None = None
        self._frame_view: memoryview | None = None
        self._last: bytearray | None = None
        self._frame_size = 0
        self._frame_filled = 0

    def accept(self, max_bytes: int) -> None:
        """Change the largest frame to accept. Call this between two frames."""
        self.max_bytes = max_bytes

    @property
    def inside_frame(self) -> bool:
        """Return whether a part of a frame has been received."""
        return self._frame is not None or self._small_filled > 0

    @property
    def head(self) -> bytes:
        """The bytes at the start of the stream that do not form a frame yet, for error messages."""
        return bytes(self._small[: self._small_filled])

    def buffer(self) -> memoryview:
        """Return the memory for the next bytes. It is never empty."""
        if self._frame is None:
            view = memoryview(self._small)
            return view[self._small_filled :] if self._small_filled else view
        if self._frame_view is None:
            self._frame_view = memoryview(self._frame)
        return self._frame_view[self._frame_filled :]

    def advance(self, count: int) -> list[bytearray]:
        """Process ``count`` bytes that were written into the buffer.

        Return the frames that are now complete, without their sizes.

        Raises:
            ProtocolError: a size is negative or above the limit. The stream is no longer usable.
        """
        if self._frame is None:
            filled = self._small_filled + count
            size = int.from_bytes(self._small[:4], "big")
            if filled == size + 4:  # exactly one frame: a response that somebody waits for
                if size > self.max_bytes:
                    raise self._too_large(size)
                self._small_filled = 0
                return [self._small[4:filled]]
            self._small_filled = filled
            return self._cut()
        self._frame_filled += count
        if self._frame_filled < len(self._frame):
            return []
        frame = self._frame
        self._frame_view = None
        if self._frame_filled < self._frame_size:
            frame.extend(bytes(min(len(frame), self._frame_size - len(frame))))
            return []
        self._frame = None
        if self._frame_size in _KEPT:
            self._last = frame
        return [frame]

    def close(self) -> None:
        """Release the memory of frames, because no more bytes will come."""
        self._frame = self._frame_view = self._last = None

    def _cut(self) -> list[bytearray]:
        frames: list[bytearray] = []
        small, start, end = self._small, 0, self._small_filled
        while end - start >= 4:
            size = int.from_bytes(small[start : start + 4], "big", signed=True)
            if not 0 <= size <= self.max_bytes:
                raise self._too_large(size)
            body = start + 4
            if end - body >= size:
                frames.append(small[body : body + size])
                start = body + size
                continue
            frame = self._memory(size)
            frame[: end - body] = small[body:end]
            self._frame, self._frame_size, self._frame_filled = frame, size, end - body
            start = end
            break
        rest = small[start:end]
        small[: len(rest)] = rest
        self._small_filled = len(rest)
        return frames

    def _too_large(self, size: int) -> ProtocolError:
        return ProtocolError(f"a frame of {size} bytes was announced; the limit is {self.max_bytes}")

    def _memory(self, size: int) -> bytearray:
        """Return memory for a frame, or for its beginning if that would be a lot of new memory."""
        if size not in _KEPT:
            return bytearray(min(size, _TRUSTED))
        last, self._last = self._last, None
        if last is not None and size // 2 <= len(last) <= 2 * size:
            try:
                last.append(0)  # refused while there is a view
            except BufferError:
                pass
            else:
                if len(last) < size:
                    last.extend(bytes(size - len(last)))
                else:
                    del last[size:]
                return last
        return bytearray(min(size, _TRUSTED))


def looks_like_tls(head: bytes) -> bool:
    """Return whether the bytes begin like a TLS record. If so, a client without TLS has connected to a TLS port."""
    return len(head) >= 2 and head[0] in (0x15, 0x16) and head[1] == 3
