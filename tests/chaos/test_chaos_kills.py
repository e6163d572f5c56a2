"""
kill -9 of prologs, epilogs, clients, servers and agents at random moments, with disks that are
well, that fill up, and that fail.

What holds, whatever happens: a node's numbers are in its job's record once, or the record names it
as missing; what was silent is counted; no file that was written by half is taken for a whole one.
"""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from bad_disk import BadDisk
from campaign import WHOLE, as_root, dice, tell
from processes import BEFORE, CLIENT, Desk, Done, TinyDisk, until, write_tree
from site_desk import SiteDesk, application
from storage import StorageServer, moved

from iostats.base import config as site_config
from iostats.node import delivery
from iostats.wire.client import Refused

_A, _B = "nid00001", "nid00002"
_BOTH = {"SLURM_JOB_NODELIST": "nid0000[1-2]"}


class Killer:
    """Kills some processes at random moments of their lives, and lets others live."""

    def __init__(self, chance, kills):
        self.chance, self.left, self.kills = chance, kills, {}
        self._lasts = {}

    def wait(self, kind, process, kill):
        """Wait for its end, and kill it before if that is to be; (Done, it was killed)."""
        began = time.monotonic()
        if kill:
            try:
                process.wait(self.chance.uniform(0.1, 1.1) * self._lasts.get(kind, 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
        out, err = process.communicate(timeout=100)
        is_killed = process.returncode == -signal.SIGKILL
        if is_killed:
            self.count(kind)
        elif not kill:
            lasts = time.monotonic() - began
            self._lasts[kind] = 0.8 * self._lasts.get(kind, lasts) + 0.2 * lasts
        assert "Traceback" not in err and "bug of ours" not in err, err
        return Done(process.returncode, out, err), is_killed

    def count(self, kind):
        self.kills[kind] = self.kills.get(kind, 0) + 1
        self.left -= 1


class Trouble:
    """A disk, and what happens to it."""

    def __init__(self, kind, directory, chance, size="1m"):
        """`size`: of a disk that fills; larger than what is kept there in the end."""
        self.kind, self.chance, self.struck = kind, chance, 0
        self.disk, self.path = None, directory / "disk"
        if kind == "full":
            self.disk = TinyDisk(self.path, size)
        elif kind == "EIO":
            self.disk = BadDisk(directory / "behind", self.path)
            os.chmod(self.path, 0o700)
        else:
            self.path.mkdir(0o700)

    def worse(self):
        """Perhaps something fails from now on."""
        if self.kind == "full" and self.chance.random() < 0.5:
            self.disk.calm()
            self.disk.fill(but=self.chance.choice((0, 0, 4096, 8192, 65536)))
            self.struck += 1
        elif self.kind == "EIO" and self.chance.random() < 0.7:
            self.calm()
            self.disk.fail(  # type: ignore[union-attr]  # a BadDisk
                self.chance.choice(("create", "open", "read", "write", "write", "fsync", "rename",
                                    "link", "unlink", "readdir", "getattr")),
                self.chance.randrange(1, 12), times=self.chance.choice((1, 1, 2, 50)),
                how=self.chance.choice(("before", "before", "after", "half")))

    def calm(self):
        if self.kind == "EIO":
            self.struck += self.disk.counts()["failed"]  # type: ignore[union-attr]  # a BadDisk
        if self.disk is not None:
            self.disk.calm()

    def close(self):
        if self.disk is not None:
            self.disk.close()


def share(whole, small):
    """How many kills a storm has."""
    return whole if WHOLE else small


def work(root, reads):
    write_tree(root, **{**BEFORE, "reads": BEFORE["reads"] + reads})


def leftovers(directory):
    """{ending: how many files} below a directory."""
    found = {}
    for _, _, names in os.walk(directory):
        for name in names:
            ending = name.rpartition(".")[2]
            found[ending] = found.get(ending, 0) + 1
    return found


# -- prolog, epilog, agent, the site's server ----------------------------------------------------

class Storm:
    """Jobs of two nodes each, of which the second one's prologs and epilogs may be killed."""

    def __init__(self, desk, killer, nodes, site):
        """`nodes`, `site`: the Trouble below the nodes' directories and the server's store."""
        self.desk, self.killer, self.nodes, self.site_disk = desk, killer, nodes, site
        desk.configure(site_deadline=1, harvest_interval=1, node_hook_timeout=60,
                       site_store=site.path / "site.sqlite")
        self.expected, self.silent, self.total = {}, {}, 0     # job -> {node: reads}; {node}
        self.oss = StorageServer(desk)
        self.desk.choices["harvest.cpu_percent"] = 100
        self.oss.show("OST0000", {})
        self.server = desk.site()
        self.agent = self._agent()
        until(lambda: self._rows() is not None, what="the first sweep")

    def _agent(self):
        return self.oss.agent(spool=self.nodes.path / "spool")

    def _rows(self):
        """[(bytes, is a lower bound)] of the agent's job; None before the first whole sweep."""
        try:
            return [(row["write_bytes"], row["lower_bound"]) for row in self.desk.asked(
                "query", level="b", job="9999999")["rows"]]
        except Refused:
            return None

    def _begin(self, role, node, job):
        config = self.desk.directory / f"{node}.cfg"
        text = self.desk.text({**self.desk.choices, "node.hook_dir": self.nodes.path / node})
        if not config.exists() or config.read_text() != text:
            config.write_text(text)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(CLIENT), role, "--root",
             str(self.desk.directory / node), "--config", str(config)],
            env={"SLURMD_NODENAME": node, "SLURM_JOB_ID": job, **_BOTH}, cwd="/",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.desk.started.append(process)
        return process

    def round(self):
        desk, chance, job = self.desk, self.killer.chance, self.desk.new_job()
        number = len(self.expected)
        self.expected[job] = {_A: 23 + 2 * 37 * number, _B: 1_000_003 + 2 * 41 * number}
        quiet = self.silent[job] = {_A, _B}
        for role in ("prolog", "epilog"):
            for node, reads in self.expected[job].items():
                work(desk.directory / node, 0 if role == "prolog" else reads)
            self.nodes.worse()
            self.site_disk.worse()
            running = {node: self._begin(role, node, job) for node in (_A, _B)}
            if role == "epilog" and chance.random() < 0.3:
                time.sleep(chance.random() * 0.3)
                self._kill_server()
            for node in (_B, _A):
                done, is_killed = self.killer.wait(role, running[node], node == _B
                                                   and chance.random() < 0.6)
                if is_killed or done.err or done.status:
                    quiet.discard(node)
            if chance.random() < 0.3:
                self.nodes.calm()
                self.site_disk.calm()
            if self.server.process.poll() is not None:
                self._serve()
        self.total += 1009
        self.oss.show("OST0000", {"9999999": moved(written=self.total)})
        if self.agent.poll() is not None:          # it could not go on with that disk
            assert "Traceback" not in self.agent.communicate()[1]
            self.agent = self._agent()
        elif chance.random() < 0.3:
            self.agent.kill()
            _, err = self.agent.communicate()
            assert "Traceback" not in err and "bug of ours" not in err, err
            self.killer.count("agent")
            self.agent = self._agent()

    def _kill_server(self):
        if self.server.process.poll() is None:
            self.server.kill()
            self.killer.count("site server")
        assert "Traceback" not in self.server.err and "bug of ours" not in self.server.err, (
            self.server.err)

    def _serve(self):
        """A server that listens; with a disk that lets it."""
        while True:
            self.server = self.desk.begin_site(hasty=True)
            until(lambda: self.server.process.poll() is not None
                  or "the site's server on" in self.server.err, what="the site's server")
            if self.server.process.poll() is None:
                return
            assert "Traceback" not in self.server.err, self.server.err
            self.site_disk.calm()

    def end(self):
        """All is well again; what came of it."""
        desk = self.desk
        self.nodes.calm()
        self.site_disk.calm()
        self._kill_server()
        self._serve()
        if self.agent.poll() is not None:
            self.agent = self._agent()
        for node in (_A, _B):
            config = site_config.load(str(desk.directory / f"{node}.cfg"), environ={})
            self._deliver(config, node)
        outcomes, lost = {"counted": 0, "named": 0}, {}
        time.sleep(2)                              # the deadline of [site] is a second
        for job, amounts in self.expected.items():
            def is_right(record, amounts=amounts):
                there = set(amounts) - set(record["coverage"]["missing"])
                got = application(record)["read_calls"] if record["file_systems"] else 0
                return got == sum(amounts[node] for node in there)
            if not self.silent[job] and not desk.records(job):
                # Neither the disks nor the server took anything: it is in the batch system's log.
                outcomes["no record, both said so"] = outcomes.get("no record, both said so", 0) + 2
                continue
            record = desk.record(job, is_right)
            missing = record["coverage"]["missing"]
            assert not self.silent[job] & set(missing), (job, missing, self.silent[job])
            outcomes["counted"] += len(amounts) - len(missing)
            outcomes["named"] += len(missing)
            for why in missing.values():
                lost[why] = lost.get(why, 0) + 1
        until(lambda: [(self.total, False)] == self._rows(),
              what=lambda: f"{self.total}, not {self._rows()}")
        files = leftovers(self.nodes.path)
        assert not files.get("refused"), files
        return outcomes, lost, files


    def _deliver(self, config, node):
        """A quarter of an hour later: what an epilog has left is told."""
        said = []
        until(lambda: 0 == delivery.deliver(config, str(self.desk.directory / node), node,
                                                 time.monotonic() + 10, said.append,
                                                 lambda: time.time() + 900), what=f"{said}")


_STORMS = {                                        # disk of the nodes, of the server; kills
    "well": (None, None, share(430, 11)),
    "the nodes' disk fills": ("full", None, share(130, 0)),
    "the nodes' disk fails": ("EIO", None, share(130, 5)),
    "the server's disk fills": (None, "full", share(70, 0)),
    "the server's disk fails": (None, "EIO", share(70, 0)),
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [pytest.param(name, marks=as_root) for name in _STORMS
                                  if _STORMS[name][2]])
def test_killed_at_random_moments_every_node_is_counted_once_or_named(tmp_path, name):
    """Hooks, agent and the site's server."""
    on_nodes, on_server, kills = _STORMS[name]
    chance = dice(f"storm: {name}")
    (tmp_path / "of-nodes").mkdir()
    (tmp_path / "of-server").mkdir()
    nodes = Trouble(on_nodes, tmp_path / "of-nodes", chance)
    server = Trouble(on_server, tmp_path / "of-server", chance, "16m")
    try:
        (tmp_path / "desk").mkdir()
        with SiteDesk(tmp_path / "desk") as desk:
            storm = Storm(desk, Killer(chance, kills), nodes, server)
            while storm.killer.left > 0:
                storm.round()
            outcomes, lost, files = storm.end()
            tell(f"kill -9, {name}", kills=storm.killer.kills, jobs=len(storm.expected),
                 nodes=outcomes, named=lost, disk_faults=nodes.struck + server.struck,
                 sweeps_total="exact", leftovers=files)
    finally:
        nodes.close()
        server.close()


# -- start, stop, the job's server -----------------------------------------------------------------

_TO_BE_LOST = "will be lost if this server is killed"
_CLIENTS = {"well": (None, share(110, 0)), "the disk fills": ("full", share(40, 0)),
            "the disk fails": ("EIO", share(40, 7))}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [pytest.param(name, marks=as_root) for name in _CLIENTS
                                  if _CLIENTS[name][1]])
def test_start_and_stop_killed_at_random_moments_count_once_or_name_the_node(tmp_path, name):
    """
    Whoever was killed is run again, as users do.  In every second job its server is killed as
    well, and run again: it has what was answered, unless its disk failed, which it has said.
    """
    kind, kills = _CLIENTS[name]
    chance = dice(f"client: {name}")
    disk, killer = Trouble(kind, tmp_path, chance), Killer(chance, kills)
    outcomes, jobs, losses, lost = {"counted": 0, "named": 0}, 0, 0, {}
    try:
        while killer.left > 0:
            jobs += 1
            (tmp_path / f"desk{jobs}").mkdir()
            with Desk(tmp_path / f"desk{jobs}") as desk:
                nodes = {f"nid0000{number}": 23 + 37 * number for number in range(1, 8)}
                options = ("--nodes", "nid0000[1-7]", "--format", "json", "--deadline", 9999)
                state = disk.path / f"state{jobs}"
                desk.journals = disk.path / f"journals{jobs}"
                server, sure, has_lost = desk.server(*options), set(), False
                ports = [server.port]
                for place, (node, reads) in enumerate(nodes.items()):
                    root = desk.tree(node, **BEFORE)

                    def run(role, kill, node=node, root=root, desk=desk, state=state,
                            ports=ports):
                        to = ("--server", f"127.0.0.1:{ports[-1]}") if role == "stop" else ()
                        process = subprocess.Popen(
                            [sys.executable, "-I", "-S", str(CLIENT), role, *to, "--job", desk.job,
                             *map(str, desk.on(node, root, state=state))],
                            env=desk.environment({"IOSTATS_NODE_RETRY_TIMEOUT": "0"}),
                            cwd=desk.directory,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
                        return killer.wait(role, process, kill)
                    disk.worse()
                    if run("start", chance.random() < 0.5)[1]:
                        run("start", False)
                    work(root, reads)
                    disk.worse()
                    if jobs % 2 == 0 and place == 4:
                        server.process.kill()
                        server.process.wait()
                        killer.count("job server")
                        if _TO_BE_LOST in server.err:
                            has_lost = True
                            sure.clear()
                        server = desk.server(*options)
                        ports.append(server.port)
                        if "cannot be read" in server.err:
                            has_lost = True
                            sure.clear()
                    done, _ = run("stop", chance.random() < 0.7)
                    if chance.random() < 0.5:
                        disk.calm()
                    if done.status:
                        done, _ = run("stop", False)
                    if done.status:
                        disk.calm()
                        done, _ = run("stop", False)
                    if done.status == 0:
                        sure.add(node)
                disk.calm()
                done = server.stop()
                record = done.record
                missing = record["coverage"]["missing"]
                there = set(nodes) - set(missing)
                assert sure <= there, (sure, missing)
                if kind is None:
                    assert {} == missing and not has_lost
                losses += has_lost
                got = application(record)["read_calls"] if record["file_systems"] else 0
                assert sum(nodes[node] for node in there) == got, record["coverage"]
                outcomes["counted"] += len(there)
                outcomes["named"] += len(missing)
                for why in missing.values():
                    lost[why] = lost.get(why, 0) + 1
        files = leftovers(disk.path)
        tell(f"kill -9, start and stop, {name}", kills=killer.kills, jobs=jobs, nodes=outcomes,
             servers_that_lost=losses, named=lost, disk_faults=disk.struck, leftovers=files)
        for path in disk.path.rglob("*.delta"):    # whole, or not there
            json.loads(path.read_text())
    finally:
        disk.close()
