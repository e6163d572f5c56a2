"""
A second witness: what the FUSE layer was asked to do, counted apart from the counters.

    truth.json
    {"scratch": {"open": 23, "create": 23, "write": {"calls": 23, "bytes": 871424}, ...}}

These are requests that succeeded, by their FUSE names: `create` is an open that made the file,
`open` one that did not, `mknod` is mknod(2), `opendir` and `open` are apart.  Reads at the end
of the file, which moved nothing, are `eof`, not `read`.

    truth_by_job.json
    {"scratch": {"4711": {"asked": {...}, "sent": {"OST0000": {"write_bytes": [23, 871424]}}}}}

where there are storage servers: the same for each job id, and what was sent for it to each target,
as [requests, sum]: bytes of read_bytes and write_bytes, microseconds of all others.  A request that
had to be sent twice counts once, and it stays here when a target forgets it.
"""
from __future__ import annotations

import json


class Truth:
    """
    `job_of_caller`: gives the job id of the process whose request is served; None: not by job.

    Attributes:
        is_by_job: there is a truth_by_job.json.
    """

    def __init__(self, file_systems, job_of_caller=None):
        self.is_by_job = job_of_caller is not None
        self._requests: dict = {fs: {} for fs in file_systems}
        self._by_job: dict = {fs: {} for fs in file_systems}
        self._job_of_caller = job_of_caller

    def asked(self, fs: str, request: str, job: str | None = None) -> None:
        """`job`: where that is not the caller's."""
        for requests in self._tables(fs, job):
            requests[request] = requests.get(request, 0) + 1

    def moved(self, fs: str, request: str, size_bytes: int) -> None:
        if not size_bytes:
            return self.asked(fs, "eof")
        for requests in self._tables(fs, None):
            total = requests.setdefault(request, {"calls": 0, "bytes": 0})
            total["calls"] += 1
            total["bytes"] += size_bytes

    def sent(self, target: str, job: str, counts: list) -> None:
        """`counts`: [[counter, amount, times], ...] of a request that was answered."""
        fs, _, name = target.rpartition("-")
        sent = self._of_job(fs, job)["sent"].setdefault(name, {})
        for counter, amount, times in counts:
            had = sent.setdefault(counter, [0, 0])
            had[0] += times
            had[1] += amount * times

    def _tables(self, fs: str, job: str | None):
        yield self._requests[fs]
        if self.is_by_job:
            yield self._of_job(fs, self._job_of_caller() if job is None else job)["asked"]

    def _of_job(self, fs: str, job: str) -> dict:
        return self._by_job[fs].setdefault(job, {"asked": {}, "sent": {}})

    def render(self) -> str:
        return json.dumps(self._requests, indent=1, sort_keys=True) + "\n"

    def render_by_job(self) -> str:
        return json.dumps(self._by_job, indent=1, sort_keys=True) + "\n"
