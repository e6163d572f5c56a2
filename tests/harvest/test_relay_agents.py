"""
From the files of storage servers to the tables of two clusters: agents read `exports` as kernels of
three releases print them, one server hears the agents and relays, and each cluster's commands show
its own nodes.
"""

import threading
import time

import pytest
from exports_kernel import ExportsKernel
from processes import until
from relay_desk import RelaySite, added, relay, second
from storage import StorageServer

OURS, ALSO, THEIRS = "10.9.0.11@o2ib2", "10.9.0.12@o2ib2", "10.5.0.23@tcp5"
CLIENTS = (OURS, ALSO, THEIRS)


class GData:
    """The storage servers of gdata: two with OSTs, one with an MDT; they send to a RelaySite."""

    def __init__(self, desk):
        desk.configure(harvest_interval=1, harvest_exports="yes", harvest_cpu_percent=100)
        now = time.time_ns()
        made = [("oss1", ExportsKernel("2.12", "OST", now, "gdata", number=0)),
                ("oss1", ExportsKernel("2.12", "OST", now, "gdata", number=1)),
                ("oss2", ExportsKernel("2.17", "OST", now, "gdata", number=2)),
                ("mds1", ExportsKernel("2.15.2", "MDT", now, "gdata", number=0))]
        self.servers = {name: StorageServer(desk, name) for name in ("oss1", "oss2", "mds1")}
        self.kernels = {name: [kernel for server, kernel in made if server == name]
                        for name in self.servers}
        for _, kernel in made:
            for nid in CLIENTS:
                kernel.mount(now, nid, nid)
        self.sweep()

    def sweep(self, *names):
        """These, or all, read and send what there is."""
        second()
        for name in names or self.servers:
            for kernel in self.kernels[name]:
                kernel.save(time.time_ns(), self.servers[name].root)
            done = self.servers[name].sweep()
            assert done.status == 0, done.err

    def truth(self, nid):
        """[of CLIENT_METRICS]: what a client has really done."""
        return added(*([*kernel.truth[nid][:4], *(
            (kernel.truth[nid][4], 0) if kernel.kind == "OST" else (0, kernel.truth[nid][4]))]
            for kernels in self.kernels.values() for kernel in kernels))


@pytest.fixture
def desks(tmp_path):
    with RelaySite(tmp_path / "alkindi", "alkindi") as alkindi, RelaySite(
            tmp_path / "xe", "xe") as xe, RelaySite(tmp_path / "vu", "vu") as vu:
        (xe.directory / "nodes").write_text(f"{OURS} xe1\n{ALSO} xe2\n")
        xe.configure(clients_names=xe.directory / "nodes")
        relay(alkindi, xe, "o2ib2", "gdata; o2ib2")
        relay(alkindi, vu, "tcp5", "gdata; tcp5")
        yield alkindi, xe, vu


def test_two_clusters_show_what_their_nodes_did(desks):
    """Exact numbers; a cluster is killed and comes back; what a clear has taken is marked there."""
    alkindi, xe, vu = desks
    alkindi.site(), vu.site()
    first = xe.site()
    gdata = GData(alkindi)
    (ost0, ost1), (ost2,), (mdt,) = gdata.kernels.values()
    until(lambda: xe.did(nodes=["xe1"]), what="the first sweep")
    until(lambda: xe.asked("nodes", since=0.0, nodes=["xe1"])["nodes"][0]["nids"] == [OURS],
          what="xe1")
    now = time.time_ns()
    ost0.write(now, OURS, 41_003, 23)
    ost1.read(now, OURS, 53_007, 37)
    ost2.request(now, OURS, "punch", 43)
    mdt.request(now, OURS, "open", 61)
    ost2.write(now, THEIRS, 8117, 5)
    gdata.sweep()
    xe.until_lows({"xe1": gdata.truth(OURS)})
    vu.until_lows({THEIRS: gdata.truth(THEIRS)})
    assert gdata.truth(OURS) == [53_007 * 37, 41_003 * 23, 37, 23, 43, 61]

    first.kill()
    ost2.read(time.time_ns(), OURS, 1009, 11)
    gdata.sweep("oss2")
    mdt.request(time.time_ns(), ALSO, "getattr", 7)
    ost0.unmount(OURS)                              # evicted, and back
    ost0.mount(time.time_ns(), OURS, "again")
    ost0.write(time.time_ns(), "again", 4096, 3)
    gdata.sweep()
    vu.until_lows({THEIRS: gdata.truth(THEIRS)})
    xe.site()
    both = {"xe1": gdata.truth(OURS), "xe2": gdata.truth(ALSO)}
    xe.until_lows(both)
    assert both["xe1"][0] == 53_007 * 37 + 1009 * 11 and both["xe2"][5] == 7

    def shown():                                    # the command of an administrator of xe
        gdata.sweep()
        done = xe.iostats("nodes", "-P", "-n", "--noconvert", "-o",
                          "Node,FileSystems,ReadBytes,WriteBytes,MDTOps")
        return [line.replace(">= ", "") for line in done.out.splitlines()]
    until(lambda: shown() == [f"xe1|gdata|{both['xe1'][0]}|{both['xe1'][1]}|61",
                              "xe2|gdata|0|0|7"], what=lambda: str(shown()))

    began = time.time()
    ost2.clear_one(time.time_ns(), OURS)
    ost2.write(time.time_ns(), OURS, 31, 2)
    gdata.sweep()
    until(lambda: any("counters" in note and "oss2@alkindi" in note
                      for note in xe.did(began).get("xe1", [[]] * 3)[2]),
          what=lambda: f"a note: {xe.did(began)}")


def test_top_of_a_cluster_shows_the_shared_file_system_beside_its_own(desks):
    """As its administrator sees it, with a storage server of its own."""
    alkindi, xe, _ = desks
    alkindi.site()
    xe.site()

    def shown():
        both = [threading.Thread(target=desk.clients, args=(server, name, {nid: amounts}))
                for desk, server, name, nid, amounts in (
                    (alkindi, "oss1", "gdata", OURS, (0, 23 << 20, 0, 37, 0, 0)),
                    (xe, "oss9", "home", ALSO, (0, 41 << 20, 0, 53, 0, 0)))]
        for one in both:
            one.start()
        for one in both:
            one.join(60)
        time.sleep(0.3)
        done = xe.iostats("top", "--once", "--by", "node")
        return sorted(line.split()[:4] for line in done.out.splitlines()
                      if line.startswith(("xe1", "xe2")))
    until(lambda: shown() == [["xe1", "gdata", "23.0", "0.0"], ["xe2", "home", "41.0", "0.0"]],
          what=lambda: xe.iostats("top", "--once", "--by", "node").out)
