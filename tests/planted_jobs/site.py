"""
A site whose time passes as fast as it can be computed: a job beside others, and faults.

What the queueing model (queueing_world.py) makes of the jobs is counted by a kernel for each target
(kernel.py); the agents' own code reads its job_stats, and a SiteServer with its store takes the
sweeps, events and reports of nodes, makes the record, and answers what `iostats why` asks for.
"""

from __future__ import annotations

import pathlib
from collections import namedtuple
from unittest import mock

import queueing_world as model
from events_messages import event
from events_messages import send as send_events
from kernel import NS, Kernel
from site_inside import Inside

from iostats.load.time_lines import parse_history
from iostats.report.newer_release import read_known
from iostats.storage import encoding
from iostats.storage.encoding import SweepEncoder
from iostats.storage.schedule import Pace, SweepClock
from iostats.storage.targets import find_local_targets
from iostats.wire.messages.sweep_decoder import PackedSweep, decode_sweep

JOB = "4711"
NODES = [f"nid{number:05}" for number in range(1, 65)]

Server = namedtuple("Server", "name root kernels encoder waiting")
Answer = namedtuple("Answer", "record history")


class PlantedSite:
    """
    The site of one World.

    Attributes:
        events: [Event] of the storage servers, sent when they are over.
        of_nodes: [event as a node reports it].
        shared: {number of a node: other jobs on it}.
        beside: {metric: amount} of the other jobs on each of those nodes.
        has_reports: False for a job that only the storage servers have seen.
    """

    def __init__(self, directory, world, release):
        self.directory, self.world = pathlib.Path(directory), world
        self.every_s = int(world.every_s)
        self.events, self.of_nodes, self.shared, self.beside = [], [], {}, {}
        self.has_reports = True
        names = self.directory / "names"
        names.write_text("".join(f"10.9.0.{number}@o2ib {node}\n"
                                 for number, node in enumerate(NODES, 1)))
        self.site = Inside(self.directory, model.BEGAN, clients_names=names, batch_system="none",
                           site_deadline=1)
        self.site.store.rows("PRAGMA synchronous = OFF")
        self.servers = [self._server(name, release, [
            target for target in world.targets if target.startswith("MDT") == (name == "mds1")])
            for name in ("oss1", "mds1")]

    def close(self):
        self.site.store.close()

    def _server(self, name, release, targets):
        began = int(model.BEGAN * NS)
        clock = SweepClock(lambda: self.site.now, lambda: self.site.now - model.BEGAN + 41_003)
        with mock.patch.object(encoding.this_node, "read_boot_id", lambda: f"{name} boot"), \
                mock.patch.object(encoding, "find_boot_time_ns", lambda: began - 41_003 * NS):
            encoder = SweepEncoder(name, 3000, clock, Pace(100, lambda: 0.0, lambda: 0.0),
                                   lambda *text: None)
        kernels = {target: Kernel(release, target[:3], began, 600, "scratch", target)
                   for target in targets}
        return Server(name, self.directory / name, kernels, encoder, [])

    # -- time passes -------------------------------------------------------------------------------

    def play(self):
        """All of the world's intervals, and then the job's nodes report; the Answer."""
        world, site = self.world, self.site
        by_job, _, unseen = world.lines()
        world.seen = by_job
        self._sweep()
        to_send = sorted(self.events, key=lambda one: one.last)
        for place in range(world.count):
            site.now = model.BEGAN + (place + 0.5) * self.every_s
            self._count(by_job, place)
            site.now = model.BEGAN + (place + 1) * self.every_s
            if not unseen[place]:
                self._sweep()
            while to_send and to_send[0].last <= site.now:
                send_events(site, [to_send.pop(0)])
            if place == world.last and self.has_reports:
                self._report()
        for one in to_send:
            send_events(site, [one])
        if self.has_reports:
            site.now += 3
        else:                                   # it settles by silence
            for _ in range(0, 2400, self.every_s):
                site.now += self.every_s
                self._sweep()
        site.make_records(lambda: self._has_record())
        [form] = site.records(JOB)
        return Answer(read_known(form), parse_history(site.ask("job_history", {"job": JOB})))

    def _has_record(self):
        try:
            return bool(self.site.records(JOB))
        except Exception:
            return False

    def _count(self, by_job, place):
        """What the kernels count in one interval."""
        now = int(self.site.now * NS)
        for server in self.servers:
            for target, kernel in server.kernels.items():
                for (job, at), found in by_job.items():
                    if at == target and not target.startswith("MDT"):
                        self._count_bulk(kernel, now, job, found, place)
                    elif at == target:
                        for kind in model.METADATA:
                            for number, us in self.world.by_name.get((job, kind), ()):
                                self._count_times(kernel, now, job, kind, number[place], us[place])

    def _count_bulk(self, kernel, now, job, found, place):
        for way in ("read", "write"):
            number = int(found[f"{way}s"][place])
            if number:
                kernel.rpc(now, job, f"{way}_bytes", int(found[f"{way}_bytes"][place] / number),
                           number)
                self._count_times(kernel, now, job, way, number, found[f"{way}s_us"][place])

    @staticmethod
    def _count_times(kernel, now, job, counter, number, us):
        if int(number):
            kernel.rpc(now, job, counter, max(1, round(us / number)), int(number))

    def _sweep(self):
        """All agents read their targets and send what has changed."""
        site, slot = self.site, int(self.site.now)
        for server in self.servers:
            for kernel in server.kernels.values():
                kernel.save(int(site.now * NS), server.root)
            server.encoder.sweep(find_local_targets(str(server.root)), slot, self.every_s, 0.0,
                                 lambda run, seq, message, full, server=server:
                                 server.waiting.append((run, message)))
            for _, message in server.waiting:
                answer = site.server.harvest.receive(
                    decode_sweep(PackedSweep(2, message, 0.0), 1 << 24), server.name)
                assert answer["taken"], answer
            server.waiting.clear()
        site.server._commit()
        site.server.harvest.end_sweep()

    # -- what the job's nodes report ---------------------------------------------------------------

    def _report(self):
        world = self.world
        began, ended = world.period
        record = world.record()
        [fs] = record.file_systems
        llite = {name: value for name, value in fs.application.items() if name != "lower_bound"}
        for name, row in (*fs.operations.items(), *fs.calls.items()):
            llite[name], llite[f"{name}_us"] = row.count, round(row.seconds * 1e6)
        nodes = NODES[:world.nodes]
        for number, node in enumerate(nodes):
            def part(values, number=number):
                return {name: value // len(nodes) + (number < value % len(nodes))
                        for name, value in values.items()}
            mine = part(llite)
            if number in self.shared:
                mine = {name: mine.get(name, 0) + self.beside.get(name, 0)
                        for name in {**mine, **self.beside}}
            deltas = [{"source": "llite", "file_system": "scratch", "values": mine}]
            for target, moved in fs.targets.items():
                values = {f"{way}_{what}": moved[f"{way}_bytes" if what == "bytes" else f"{way}s"]
                          for way in ("read", "write") for what in ("bytes", "rpcs")
                          if f"{way}_bytes" in moved}
                deltas.append({"source": "osc" if target.startswith("OST") else "mdc",
                               "file_system": "scratch", "target": target,
                               "values": part(values)})
            self.site.send(JOB, node, seq=f"{number}", ended=ended, elapsed_s=ended - began,
                           deltas=deltas, other_jobs=self.shared.get(number, 0),
                           events=[one for one in self.of_nodes if one["node"] == node] and [
                               {name: value for name, value in one.items() if name != "node"}
                               for one in self.of_nodes if one["node"] == node],
                           about={"nodes": f"nid[00001-{len(nodes):05}]", "user": "alice"})


def server_event(origin, kind, began, over, target="OST0000", **fields):
    """An Event as the agent of the target's storage server sends it."""
    return event(origin, kind, at=began, node="mds1" if target.startswith("MDT") else "oss1",
                 target=f"scratch-{target}", over=over, last=over, **fields)


def node_event(origin, kind, node, began, over, target="OST0000", **fields):
    """The same as a node of the job reports it, with its name."""
    return {"id": f"{origin:016x}", "time": began, "last": began, "over": over, "severity": 2,
            "kind": kind, "cause": "", "file_system": "scratch", "target": f"scratch-{target}",
            "clients": [], "count": 1, "skipped": 0, "message": "", "node": node, **fields}
