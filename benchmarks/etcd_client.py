"""
Figure 15: etcd: what a request, a change that is followed, and a description cost; failures.

The peer is the least that asks etcd's gateway: http.client with one connection, a body that was
made before, and an answer that is read and not looked at.  What is counted is the client's own
process.  The members are real ones on this machine, those of the tests (tests/etcd_desk.py).
"""

import http.client
import os
import resource
import shutil
import statistics
import sys
import tempfile
import threading
import time

from measure import REPOSITORY, BenchmarkError, Table, median_ratio

SAMPLERS = 30_000


def run(quick):
    """The Tables of this figure."""
    if not shutil.which("etcd"):
        raise BenchmarkError("needs Debian's etcd-server and etcd-client")
    sys.path.insert(0, os.path.join(REPOSITORY, "tests"))
    from etcd_desk import EtcdCluster
    directory = tempfile.mkdtemp()
    try:
        with EtcdCluster(os.path.join(directory, "1")) as cluster:
            tables = [_requests(cluster, *((200, 2) if quick else (2000, 7))),
                      _descriptions(cluster, 1000 if quick else SAMPLERS)]
        with EtcdCluster(os.path.join(directory, "3"), members=3) as cluster:
            return [*tables, _failures(cluster, 1 if quick else 3)]
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _requests(cluster, count, rounds):
    from iostats.etcd import answers
    from iostats.etcd.client import Etcd, compare_absent, make_put
    etcd = Etcd(cluster.endpoints, prefix="orion")
    key, value = etcd.key("instances", "a"), b"x" * 100
    bare = http.client.HTTPConnection(cluster.endpoints[0].partition("//")[2])
    import json
    kinds = {
        "get": ("kv/range", answers.make_key_range(key), lambda: etcd.get(key)),
        "put": ("kv/put", answers.put_request(key, value), lambda: etcd.put(key, value)),
        "transaction": ("kv/txn",
                        answers.make_txn_request([compare_absent(key)], [make_put(key, value)]),
                        lambda: etcd.txn([compare_absent(key)], [make_put(key, value)])),
    }
    rows = []
    for name, (path, body, ours) in kinds.items():
        data = json.dumps(body).encode()

        def least(path=path, data=data):
            bare.request("POST", f"/v3/{path}", data)
            bare.getresponse().read()
        spent = {"ours": [], "bare": []}
        for _ in range(rounds):
            for kind, ask in (("ours", ours), ("bare", least)):
                began = _cpu_s()
                for _ in range(count):
                    ask()
                spent[kind].append((_cpu_s() - began) / count * 1e6)
        rows.append([name, f"{statistics.median(spent['ours']):.0f}",
                     f"{statistics.median(spent['bare']):.0f}",
                     f"{median_ratio(spent['ours'], spent['bare']):.2f}"])
    bare.close()
    etcd.close()
    return Table("CPU us of a request to etcd", ["request", "iostats", "http.client", "ratio"],
                 rows, [f"median of {rounds} rounds of {count}"])


def _descriptions(cluster, samplers):
    """A description with a line for each sampler: loaded, read, and seen by one who follows it."""
    from iostats.etcd.client import Etcd, Stop
    from iostats_ldms import published
    etcd = Etcd(cluster.endpoints, prefix="orion")
    texts = ["daemons:\n" + "".join(
        f"  - {{names: node-{n:05}, hosts: n-{n:05}, endpoints: [{{names: ep-{n:05}, "
        f"ports: {port}}}]}}\n" for n in range(samplers)) for port in (11001, 411)]
    seen, stop, began = threading.Event(), Stop(), time.monotonic()
    told = []

    def follow():
        for _ in etcd.follow(etcd.key("current"), stop):
            told.append(time.monotonic())
            seen.set()
    thread = threading.Thread(target=follow)
    thread.start()
    seen.wait(20)
    seen.clear()
    began = time.monotonic()
    one = published.load(etcd, texts[0], (), None, by="benchmark")
    loaded = time.monotonic()
    seen.wait(20)
    _, text = published.read_current_description(etcd)
    read = time.monotonic()
    if text != texts[0]:
        raise BenchmarkError("another description was read than was loaded")
    stop.set()
    thread.join()
    etcd.close()
    return Table(f"A description of {samplers} samplers, one entry each", ["what", "value"], [
        ["text, MB", f"{len(texts[0]) / 1e6:.1f}"], ["parts in etcd", one.parts],
        ["load, s", f"{loaded - began:.2f}"],
        ["its beginning to its being seen by a follower, s", f"{told[1] - began:.2f}"],
        ["read, s", f"{read - loaded:.2f}"]], [])


def _failures(cluster, rounds):
    """Seconds until a put is answered, and until a follower sees it."""
    from iostats.etcd.client import Changes, Etcd, Stop
    rows = []
    for who in ("leader", "follower"):
        for how in ("kill", "hang", "cut_off"):
            answered, seen = [], []
            for _ in range(rounds):
                cluster.make_whole()
                with Etcd(cluster.endpoints, prefix="orion") as etcd:
                    member = getattr(cluster, who)()
                    etcd.members._first = cluster.endpoints.index(member.url)
                    stop, begun, come = Stop(), threading.Event(), threading.Event()
                    told = []

                    def follow(etcd=etcd, stop=stop, begun=begun, come=come, told=told):
                        for news in etcd.follow(etcd.key("a"), stop):
                            begun.set()
                            if isinstance(news, Changes):
                                told.append(time.monotonic())
                                come.set()
                    thread = threading.Thread(target=follow)
                    thread.start()
                    begun.wait(20)
                    getattr(member, how)()
                    began = time.monotonic()
                    etcd.put(etcd.key("a"), b"23")
                    answered.append(time.monotonic() - began)
                    if not come.wait(30):
                        raise BenchmarkError("a change was not seen within 30 s")
                    seen.append(told[0] - began)
                    stop.set()
                    thread.join()
            rows.append([f"{who}: {how.replace('_', ' ')}", f"{statistics.median(answered):.1f}",
                         f"{max(answered):.1f}", f"{statistics.median(seen):.1f}",
                         f"{max(seen):.1f}"])
    return Table("The member that is asked fails: seconds until a put is answered, and followed",
                 ["member", "answered", "longest", "followed", "longest"], rows,
                 [f"of {rounds} times; a member has 2 s to answer"])


def _cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
