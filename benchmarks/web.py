"""
web: the pages, `iostats web`.

    jobs    the list of 500 jobs: the site's answer, from its store to JSON; and the page, from
            that JSON to the last byte of HTML, beside its decoding alone
    live    what one and a hundred watchers of the live page ask the site's server
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time

from measure import HERE, BenchmarkError, Table, environment, median_ratio

_AT_S = 1_795_225_200
_AIM_S = 0.2
_UPDATES = 20


def run(quick):
    """[Table]: CPU seconds of a list of jobs; questions of a live page."""
    done = subprocess.run([sys.executable, f"{HERE}/web.py",
                           *(("1", "500", "10") if quick else ("5", "500", "100"))],
                          env=environment(), stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise BenchmarkError(f"web.py: exit status {done.returncode}")
    found = json.loads(done.stdout)
    rows = []
    for jobs, one in found["jobs"].items():
        best = min(one["page"])
        rows.append([f"{int(jobs):,}", f"{min(one['answer']) * 1e3:.0f} ms",
                     f"{min(one['decode']) * 1e3:.1f} ms", f"{best * 1e3:.0f} ms",
                     f"{median_ratio(one['page'], one['decode']):.1f}",
                     f"{one['bytes'] / 1e6:.2f} MB", "met" if best <= _AIM_S else "missed"])
    live = found["live"]
    return [
        Table("A list of jobs as a page", ["jobs", "the site's answer", "json.loads", "the page",
                                           "to json.loads", "size", f"{_AIM_S * 1e3:.0f} ms"],
              rows, ["CPU seconds, the best of the rounds; the page is with the decoding of the "
                     "answer, and without munge and the network."]),
        Table("A live page of 1,000 rows, while it changes 20 times", [
            "watchers", "questions to the site's server", "CPU"], [
                [watchers, str(one["asked"]), f"{one['cpu'] * 1e3:.0f} ms"]
                for watchers, one in live.items()], [])]


def _child(rounds, jobs, watchers):
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps({"jobs": _jobs(directory, rounds, jobs), "live": _live(watchers)}))


def _jobs(directory, rounds, most):
    import msgspec
    from page_client import request_of

    from iostats.base.config import Config
    from iostats.store.job_index import JobsParams
    from iostats.web.jobs_page import jobs_page
    from iostats.web.pages import Pages, Visit
    from iostats.web.viewer import Viewer
    store = _store(directory, most)
    found = {}
    for jobs in (100, most):
        one = found[str(jobs)] = {"answer": [], "decode": [], "page": []}

        def answers(jobs=jobs):
            parts, after = [], None
            for _ in range(-(-jobs // 5_000)):
                rows, after = store.listed(JobsParams(
                    sort="started", descending=True, limit=min(5_000, jobs), after=after))
                parts.append(msgspec.json.encode({"jobs": rows, "next": after}))
            return parts
        parts = answers()
        pages = Pages(Config())
        pages.site = _Answering(parts)
        for _ in range(rounds):
            for name, work in (("answer", answers),
                               ("decode", lambda parts=parts: list(map(json.loads, parts))),
                               ("page", lambda pages=pages, jobs=jobs: jobs_page(Visit(
                                   pages, request_of(Viewer("root"),
                                                     f"since=now-3650days&limit={jobs}"))))):
                began = time.process_time()
                done = work()
                one[name].append(time.process_time() - began)
        if done.status_code != 200 or done.body.count(b"<tr>") < jobs:
            raise SystemExit(done.body[:500].decode())
        one["bytes"] = len(done.body)
    store.close()
    return found


class _Answering:
    """The site's server, with answers that are there already."""

    def __init__(self, parts):
        self._parts, self.asked = parts, 0

    def rights(self, viewer):
        return {"user": viewer.user, "all": True}

    def ask(self, viewer, method, params):
        self.asked += 1
        return json.loads(self._parts[self.asked % len(self._parts) - 1])


def _store(directory, jobs):
    """A store with this number of finished jobs."""
    from site_store import reported_and_recorded

    from iostats.report.job_summary import Summary
    from iostats.store.record_store import Key, Store
    store = Store(os.path.join(directory, "site.sqlite"))
    for number in range(jobs):
        began = _AT_S - 37 * number
        reported_and_recorded(
            store, Key("orion", str(4711 + number), 0), user=f"user{number % 311}",
            summary=Summary(
                account=f"acc{number % 41}", partition="batch", name=f"run_{number % 997}",
                outcome=("COMPLETED", "COMPLETED", "FAILED", "TIMEOUT")[number % 4],
                exit_code="0:0", started=began, ended=began + number % 9000,
                elapsed_s=number % 9000, nodes=1 + number % 500, reported=1 + number % 500,
                file_systems="scratch,home", source="nodes", read_bytes=number * 7_919_023,
                write_bytes=number * 104_729_037, opens=number, creates=number // 2,
                operations=23 * number, lower_bound=number % 7 == 0, events=number % 3, began=began,
                over=began + number % 9000))
    return store


def _live(many):
    from page_client import request_of

    from iostats.base.config import Config
    from iostats.web.live import Live
    from iostats.web.pages import Pages
    from iostats.web.viewer import Viewer
    row = {"user": "alice", "account": "a", "name": "relax", "nodes": 23, "is_job": True,
           "file_system": "scratch", "write_bytes_per_s": 2.3e9, "read_bytes_per_s": 3.7e6,
           "requests_per_s": 41.0, "metadata_per_s": 23.0, "lower_bound": False}
    answer = json.dumps({
        "at": _AT_S, "kind": "rates", "span_s": 20.0, "began": None, "by": "job", "sort": "write",
        "file_system": "", "user": "", "text": "", "show": [], "file_systems": [], "left_off": 0,
        "missing": {}, "only": "", "rows": [{**row, "job": str(4711 + n)} for n in range(1000)]})

    async def watch(pages, watchers):
        async def part(viewer, query):
            return pages.live_part(request_of(viewer, query))

        async def scope(viewer):
            return pages.find_viewer_scope(viewer)
        live = Live(part, scope, 0.05, 1000)

        async def one(number):
            stream, count = await live.stream(Viewer(f"reader{number}"), "by=job&count=500"), 0
            async for data in stream:
                count += data.startswith(b"event: part")
                if count == _UPDATES:
                    break
            await stream.aclose()  # type: ignore[attr-defined]  # a generator's
        await asyncio.gather(*map(one, range(watchers)))
    found = {}
    for watchers in (1, many):
        pages = Pages(Config())
        pages.site = pages.shared._site = _Answering([answer])
        pages.shared._fresh_s = 0.0
        began = time.process_time()
        asyncio.run(watch(pages, watchers))
        found[str(watchers)] = {"asked": pages.site.asked, "cpu": time.process_time() - began}
    return found


if __name__ == "__main__":
    sys.path[:0] = [os.path.join(HERE, os.pardir, "tests")]
    _child(*map(int, sys.argv[1:]))
