"""
The kernel's log of a simulated node or storage server: `dev/kmsg`, as records of /dev/kmsg.

    4,417,758211829,-;Lustre: scratch-OST0000: evicting UUID (at NID) by administrative request

The clock is the real one since boot.  A file stands in the place of the device: a read gives what
there is behind what was read before, and at the end nothing, where the device would have it wait;
and the oldest records go when there are too many, while places in the file stay (reads of what is
gone give blank lines).

Source: Documentation/ABI/testing/dev-kmsg (Linux).
"""
from __future__ import annotations

import threading
import time

ERROR, WARNING, INFO = 3, 4, 6          # facility 0, the kernel's
_FIRST = 417                            # what others have said before Lustre was loaded
_MOST_BYTES = 1 << 20


class KernelLog:
    """Records since the start, in the order in which they were said."""

    def __init__(self):
        self._lock = threading.Lock()
        self._text, self._gone, self._next = bytearray(), 0, _FIRST

    def emit(self, level: int, text: str) -> None:
        """A line of Lustre's: `Lustre: ` or `LustreError: ` comes before it."""
        label = "LustreError" if level == ERROR else "Lustre"
        usec = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        with self._lock:
            self._text += f"{level},{self._next},{usec},-;{label}: {text}\n".encode()
            self._next += 1
            if len(self._text) > _MOST_BYTES:
                end = self._text.index(b"\n", len(self._text) - _MOST_BYTES // 2) + 1
                del self._text[:end]
                self._gone += end

    def size(self) -> int:
        """Bytes of the file."""
        with self._lock:
            return self._gone + len(self._text)

    def read(self, size: int, offset: int) -> bytes:
        """Bytes of the file, from `offset` on."""
        with self._lock:
            if offset < self._gone:
                return b"\n" * min(size, self._gone - offset)
            return bytes(self._text[offset - self._gone:offset - self._gone + size])
