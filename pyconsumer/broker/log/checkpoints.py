"""Small text files in Kafka's formats: leader epochs of a log, and the checkpoints of a broker's logs.

:class:`LeaderEpochs` is owned by its log. The functions at the end have no state.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from pyconsumer.background_log import Log
from pyconsumer.broker.log.storage import Storage
from pyconsumer.structs import TopicPartition

__all__ = ["LeaderEpochs", "format_offsets", "parse_offsets"]

_log = Log(__name__)

_EPOCHS_FILE = "leader-epoch-checkpoint"


class LeaderEpochs:
    """The leader epochs of a log and their start offsets. They are stored in ``leader-epoch-checkpoint`` (KIP-101).

    An epoch is added when its first batch is appended. If the file cannot be written at that time, the append succeeds
    all the same. :meth:`write` is called again before a checkpoint or a clean shutdown relies on the file.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._unwritten = False
        self._epochs: list[int] = []
        self._starts: list[int] = []
        content = storage.read_small(_EPOCHS_FILE)
        if content is not None:
            try:
                self._parse(content.decode())
            except (ValueError, UnicodeDecodeError):
                self._epochs, self._starts = [], []  # recovery finds them again in the batches

    def _parse(self, text: str) -> None:
        lines = text.split("\n")
        if lines[0] != "0":
            raise ValueError("unknown version")
        for line in lines[2 : 2 + int(lines[1])]:
            epoch, start = line.split()
            self._epochs.append(int(epoch))
            self._starts.append(int(start))

    @property
    def latest(self) -> int:
        """Return the newest epoch, or -1 if there is none."""
        return self._epochs[-1] if self._epochs else -1

    def entries(self) -> list[tuple[int, int]]:
        """Return pairs of epoch and start offset, the oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int, *, write: bool = True) -> None:
        """Add an epoch whose first batch is at ``start_offset``.

        If it is not greater than the latest epoch, do nothing.

        Args:
            write: True writes the file now. An epoch without batches need not be in the file, because a crash cannot
                lose a batch of it.
        """
        if self._epochs and epoch <= self._epochs[-1]:
            return
        while self._starts and self._starts[-1] >= start_offset:  # epochs without a batch
            self._starts.pop()
            self._epochs.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._unwritten = True
        if write:
            self._changed()

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the greatest known epoch that is not above ``epoch``, and its end offset (KIP-320).

        If there is none, return (-1, -1).
        """
        if not self._epochs or epoch < 0:
            return -1, -1
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        if epoch > self._epochs[-1]:
            return -1, -1
        index = bisect_right(self._epochs, epoch)
        if index == 0:
            return epoch, self._starts[0]
        return self._epochs[index - 1], self._starts[index]

    def epoch_of(self, offset: int) -> int:
        """Return the epoch of the batch at ``offset``, or -1 if it is unknown."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else -1

    def truncate_from_end(self, end_offset: int, *, write: bool = True) -> None:
        """Remove the epochs that begin at or after the new end of the log.

        With ``write=False`` the file is written later.
        """
        count = len(self._starts)
        while count and self._starts[count - 1] >= end_offset:
            count -= 1
        if count < len(self._starts):
            del self._starts[count:]
            del self._epochs[count:]
            self._unwritten = True
            if write:
                self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that end at or before the new start of the log.

        The first remaining epoch then begins there.
        """
        index = bisect_right(self._starts, start_offset) - 1
        if index > 0:
            del self._starts[:index]
            del self._epochs[:index]
        if self._starts and self._starts[0] < start_offset:
            self._starts[0] = start_offset
            index = 1
        if index > 0:
            self._changed()

    def rebuild(self, batches: list[tuple[int, int]]) -> None:
        """Replace all entries by pairs of epoch and start offset."""
        if batches != self.entries():
            self._epochs = [epoch for epoch, _ in batches]
            self._starts = [start for _, start in batches]
            self._changed()

    def _changed(self) -> None:
        self._unwritten = True
        try:
            self.write()
        except OSError as error:
            _log.warning("leader epochs could not be written and will be written later: %s", error)

    def write(self) -> None:
        """Write the file if the entries have changed. Raises ``OSError`` if that fails."""
        if self._unwritten:
            lines = ["0", str(len(self._epochs)), *(f"{epoch} {start}" for epoch, start in self.entries())]
            # Without fsync: after a crash of the machine, recovery finds the epochs in the batches.
            self._storage.write_small(_EPOCHS_FILE, ("\n".join(lines) + "\n").encode(), sync=False)
            self._unwritten = False


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the content of a checkpoint file: version 0, the count, then ``topic partition offset`` lines."""
    lines = ["0", str(len(offsets))]
    lines += (f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items()))
    return ("\n".join(lines) + "\n").encode()


def parse_offsets(content: bytes) -> dict[TopicPartition, int]:
    """Return the offsets in a checkpoint file. Raises ``ValueError`` if the content has another format."""
    lines = content.decode().split("\n")
    if lines[0] != "0":
        raise ValueError(f"unknown version {lines[0]!r} of a checkpoint file")
    offsets = {}
    for line in lines[2 : 2 + int(lines[1])]:
        topic, partition, offset = line.split()
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets
