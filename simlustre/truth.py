"""
A second witness: what the FUSE layer was asked to do, counted apart from the counters.

    {"scratch": {"open": 23, "create": 23, "write": {"calls": 23, "bytes": 871424}, ...}}

These are requests that succeeded, by their FUSE names: `create` is an open that made the file,
`open` one that did not, `mknod` is mknod(2), `opendir` and `open` are apart.  Reads at the end
of the file, which moved nothing, are `eof`, not `read`.
"""
from __future__ import annotations

import json


class Truth:
    def __init__(self, file_systems):
        self._requests = {fs: {} for fs in file_systems}

    def asked(self, fs: str, request: str) -> None:
        requests = self._requests[fs]
        requests[request] = requests.get(request, 0) + 1

    def moved(self, fs: str, request: str, size_bytes: int) -> None:
        if not size_bytes:
            return self.asked(fs, "eof")
        total = self._requests[fs].setdefault(request, {"calls": 0, "bytes": 0})
        total["calls"] += 1
        total["bytes"] += size_bytes

    def render(self) -> str:
        return json.dumps(self._requests, indent=1, sort_keys=True) + "\n"
