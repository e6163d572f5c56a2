"""
Rates by job and by node, while a storage server's clock is set: what is divided by is measured by a
clock that nobody sets.
"""
from __future__ import annotations

import shutil

import pytest
from client_messages import decoded
from exports_kernel import ExportsKernel
from harvest_inside import BEGAN, NS, HarvestInside
from kernel import Kernel

from iostats.answers.load_queries import LoadAnswers, LoadParams, QueryParams
from iostats.base.cooperative import run_to_end
from iostats.load import table
from iostats.storage.clients import Clients
from iostats.storage.encoding import SweepEncoder
from iostats.storage.schedule import Pace, SweepClock
from iostats.storage.targets import find_local_targets
from iostats.wire.messages.clients_encoder import find_method
from iostats.wire.messages.sweep_decoder import PackedSweep, decode_sweep

MIB = 1 << 20
NID = "10.77.0.11@tcp"


class ClockedServer:
    """
    A storage server of which a job on one client gets 1 MiB a second, and a site's server.

    Attributes:
        ahead: its clock less the true time, s.
    """

    def __init__(self, path, release):
        self.site, self.root, self.ahead = HarvestInside(path / "site.sqlite"), path / "oss1", 0.0
        clock = SweepClock(lambda: self.site.now + self.ahead, lambda: self.site.now - BEGAN + 41)
        pace = Pace(100, sleep=lambda seconds: None)
        self.clock, self.encoder = clock, SweepEncoder("oss1", 100_000, clock, pace, print)
        self.clients = Clients(str(path / "clients.state"), [], clock, pace, print, self.now_ns)
        self.jobs = Kernel(release, "OST", self.now_ns())
        self.exports = ExportsKernel(release, "OST", self.now_ns())
        self.exports.mount(self.now_ns(), NID, "mount 1")
        self.sweep()

    def now_ns(self):
        """Its own clock."""
        return int((self.site.now + self.ahead) * NS)

    def work(self, seconds=20):
        """So many seconds of the job, and a sweep."""
        counter = next(name for name in self.jobs.units if name.startswith("write"))
        for _ in range(seconds):
            self.site.now += 1
            self.jobs.rpc(self.now_ns(), "4711", counter, MIB)
            self.exports.write(self.now_ns(), "mount 1", MIB)
        self.sweep()

    def sweep(self):
        """What the agent reads is taken."""
        site, kept = self.site, []
        self.exports.save(self.now_ns(), self.root)
        self.jobs.save(self.now_ns(), self.root)
        if self.clock.reset_if_wrong():
            self.encoder.is_broken = True
        self.encoder.sweep(find_local_targets(str(self.root)), int(site.now), 20,
                           self.clock.now() - site.now,
                           lambda run, seq, message, full: kept.append(message), self.clients)
        for message in kept:
            taken = (decoded(message) if find_method(message) == "packed_clients"
                     else decode_sweep(PackedSweep(2, message, self.ahead), 1 << 24))
            assert site.harvest.receive(taken, "oss1")["taken"]
        site.store.commit()
        site.turn()

    def rates(self):
        """{level: (MiB/s written, is it an estimate)}."""
        answers = {by: run_to_end(LoadAnswers().load(self.site.harvest, LoadParams(by), None))
                   for by in ("job", "node", "target", "fs")}
        return {by: (round(row["write_bytes_per_s"] / MIB, 3), row["rates_estimated"])
                for by, answer in answers.items() for row in answer["rows"]}


@pytest.mark.parametrize("by", [400, -400, 37, 7200, -7200, 86_400, -86_400])
@pytest.mark.parametrize("release", ["2.12", "2.16"])
def test_a_rate_is_right_while_the_storage_servers_clock_is_set(release, by, tmp_path):
    """+400 s: 0.33 by job and 0.13 by node of 1.0 MiB/s; -400 s: 1.11 for more than an hour."""
    server = ClockedServer(tmp_path, release)
    for at in range(9):
        server.work()
        if at == 3:
            server.ahead += by
        assert dict.fromkeys(("job", "node", "target", "fs"), (1.0, False)) == server.rates(), at
    shutil.rmtree(server.root)


def test_a_rate_over_a_time_that_nothing_has_measured_is_an_estimate(tmp_path):
    """Messages without since_boot_s; then a target that has just moved to another server."""
    site = HarvestInside(tmp_path / "site.sqlite")

    def answer(question="load", **params):
        site.turn()
        ask = QueryParams if question == "query" else LoadParams
        return run_to_end(getattr(LoadAnswers(), question)(site.harvest, ask(**params), None))

    def read(amount, node="oss1", boot_id="b" * 32, since_boot_s=None):
        site.now += 20
        site.send(node, site.block(ids=["4711"], started=BEGAN + 3, write_bytes=(1, amount),
                                   head={"since_boot_s": since_boot_s}), boot_id=boot_id)
    site.send("oss1", site.block())
    read(20 * MIB)
    found = answer()
    [row] = found["rows"]
    assert (MIB, True, False) == (row["write_bytes_per_s"], row["rates_estimated"],
                                  row["lower_bound"])
    text = "\n".join(table.format_lines(found))
    assert "~1.0" in text and "rates are estimates (~)" in text
    [row] = answer("query", level="c")["rows"]
    assert row["rates_estimated"]
    [row] = answer("query", level="e")["rows"]
    assert row["rates_estimated"]
    assert all("rates_estimated" not in row for row in answer("query", level="b")["rows"])
    for at, is_estimated in ((41, True), (61, False)):
        read(20 * MIB * (1 + at), since_boot_s=float(at))
        assert [is_estimated] == [row["rates_estimated"] for row in answer()["rows"]]
    site.now += 20
    site.send("oss1", boot_id="b" * 32)
    read(20 * MIB, "oss2", "c" * 32, 4711.0)
    assert [True] == [row["rates_estimated"] for row in answer()["rows"]]
    read(40 * MIB, "oss2", "c" * 32, 4731.0)
    assert [False] == [row["rates_estimated"] for row in answer()["rows"]]
