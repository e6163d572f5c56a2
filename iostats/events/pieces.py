"""
Lines of the kernel's log that came in pieces, each a record of its own.

    4,23,758211829,c;LustreError: a          the flag c, and + in older kernels
    4,24,758211841,+; and b

Kernels join them where they can; others' lines may stand between two pieces.  Source:
Documentation/ABI/testing/dev-kmsg.
"""

from __future__ import annotations

LABELS = (b"Lustre: ", b"LustreError: ", b"LNet: ", b"LNetError: ")
_LONGEST = 8192


class Pieces:
    """The pieces of one line, until it ends."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []

    def add(self, data: bytes, at: int) -> list[bytes]:
        """
        The whole records that are there now that `data` came, a piece or not; its text is at `at`.
        """
        fields = data[:at].split(b",")
        is_piece = len(fields) > 3 and fields[3][:1] in (b"c", b"+")
        text = data[at + 1:].partition(b"\n")[0]
        if is_piece and self.waiting and not text.startswith(LABELS):
            if sum(map(len, self.waiting)) < _LONGEST:
                self.waiting.append(text)
            return []
        whole = self.flush()
        if is_piece:
            self.waiting = [b",".join((*fields[:3], b"-;")) + text]
        else:
            whole.append(data)
        return whole

    def flush(self) -> list[bytes]:
        """The record whose pieces are there, if any."""
        pieces, self.waiting = self.waiting, []
        return [b"".join(pieces)] if pieces else []
