"""
A disk of which the n-th write, fsync, rename, read, ... fails (EIO), for each n that there is: in
the hooks' directory, the client's, the agent's spool and the server's store.

What holds: what was said to be done is counted, once; what is not counted is named.
"""

import errno
import os
import time

import pytest
from bad_disk import BadDisk
from campaign import WHOLE, as_root, dice, tell
from processes import BEFORE, Desk, until, write_tree
from site_desk import SiteDesk, a_report, application
from storage import StorageServer, moved

from iostats.base import config as site_config
from iostats.base.errors import NotDelivered
from iostats.cli.site_client import ask_site
from iostats.node import delivery
from iostats.wire.client import Refused

pytestmark = [*as_root, pytest.mark.fuse]
_HOWS = {"write": ("before", "half", "after"), "rename": ("before", "after"),
         "link": ("before", "after"), "unlink": ("before", "after"), "fsync": ("before", "after")}
_OPERATIONS = ("create", "open", "read", "write", "fsync", "rename", "link", "unlink", "readdir",
               "getattr", "mkdir", "truncate", "any")
_MOST = 40


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "desk").mkdir()
    one = BadDisk(tmp_path / "behind", tmp_path / "disk")
    os.chmod(one.path, 0o700)
    yield one
    one.close()


def each_fault(name, phases, run, operations=_OPERATIONS, few=4, times=(1,), hows=_HOWS):
    """
    `run(phase, fault)` for each fault; how many there were, and how many of each operation.

    `run` returns how many operations of the fault's were failed: with none of them the n-th one
    does not exist, and the next kind comes.  Without IOSTATS_CHAOS `few` of them, by dice.
    """
    plan = [(phase, operation, errno.EIO, how, more) for phase in phases
            for operation in operations for how in hows.get(operation, ("before",))
            for more in times if more == 1 or how == "before"]
    struck = {}
    if WHOLE:
        for phase, operation, number, how, more in plan:
            for nth in range(1, _MOST):
                if not run(phase, (operation, nth, number, more, how)):
                    break
                struck[operation] = struck.get(operation, 0) + 1
    else:
        chance = dice(name)
        plan = [one for one in plan if one[1] in ("any", "write", "fsync", "rename")]
        while sum(struck.values()) < few:
            phase, operation, number, how, more = chance.choice(plan)
            if run(phase, (operation, chance.randrange(1, 4), number, more, how)):
                struck[operation] = struck.get(operation, 0) + 1
    return struck


@pytest.mark.timeout(3600)
def test_whatever_fails_in_the_hooks_directory_a_node_is_counted_or_named(tmp_path, disk):
    """A second node, whose disk is well, has told the server who is in the job."""
    with SiteDesk(tmp_path / "desk") as desk:
        desk.configure(site_deadline=1)
        desk.site()
        other, nodes = "nid00002", {"SLURM_JOB_NODELIST": "nid0000[1-2]"}
        directory, expected, silent = disk.path / "hooks", {}, set()

        def run(phase, fault):
            job, failed, said = desk.new_job(), 0, ""
            reads = expected[job] = 1_000_003 + 2 * 41 * len(expected)
            root = desk.tree("nid00001", **BEFORE)
            desk.send(a_report(job, other, "seq", reads=23, about={"nodes": "nid0000[1-2]"}))
            for role in ("prolog", "epilog"):
                if role == phase:
                    disk.fail(*fault)
                done = desk.hook(role, "nid00001", root, job, env=nodes, hook_dir=directory)
                assert 0 == done.status and "Traceback" not in done.err, done
                said += done.err
                if role == phase:
                    failed = disk.counts()["failed"]
                    disk.calm()
                write_tree(root, **{**BEFORE, "reads": BEFORE["reads"] + reads})
            if not said:
                silent.add(job)
            return failed
        struck = each_fault("hooks", ("prolog", "epilog"), run)
        config, words = site_config.load(str(desk.directory / "nid00001.cfg"), environ={}), []
        until(lambda: 0 == delivery.deliver(config, str(desk.directory / "nid00001"),
                                                 "nid00001",
                                                 time.monotonic() + 10, words.append,
                                                 lambda: time.time() + 900), what=f"{words}")
        counted, named = 0, {}
        for job, reads in expected.items():
            def is_right(record, reads=reads):
                is_there = "nid00001" not in record["coverage"]["missing"]
                return application(record)["read_calls"] == 23 + reads * is_there
            missing = desk.record(job, is_right)["coverage"]["missing"]
            assert not (job in silent and missing), (job, missing)
            counted += not missing
            for why in missing.values():
                named[why] = named.get(why, 0) + 1
        left = sorted(os.listdir(directory))
        assert not [name for name in left if name.endswith(".refused")], left
        tell("disk: hooks", faults=struck, jobs=len(expected), counted_once=counted, named=named,
             leftovers=len(left))


@pytest.mark.timeout(3600)
def test_whatever_fails_in_the_clients_directory_a_node_is_counted_or_named(tmp_path, disk):
    with Desk(tmp_path / "desk") as desk:
        names = [f"nid{number:05}" for number in range(1, 2000)]
        server = desk.server("--nodes", f"nid[00001-{len(names):05}]", "--format", "json",
                             "--deadline", 9999)
        root, expected, sure = desk.tree(**BEFORE), {}, set()
        to = ("--server", f"127.0.0.1:{server.port}")
        env = {"IOSTATS_NODE_RETRY_TIMEOUT": "0"}

        def run(phase, fault):
            node, failed = names[len(expected)], 0
            reads = expected[node] = 1_000_003 + 2 * 41 * len(expected)
            write_tree(root, **BEFORE)
            for role in ("start", "stop"):
                if role == phase:
                    disk.fail(*fault)
                done = desk.client(role, *(to if role == "stop" else ()),
                                   *desk.on(node, root, state=disk.path / "state"), env=env)
                assert done.status in (0, 1, 2, 3) and "Traceback" not in done.err, done
                if role == phase:
                    failed = disk.counts()["failed"]
                    disk.calm()
                write_tree(root, **{**BEFORE, "reads": BEFORE["reads"] + reads})
            if done.status:
                done = desk.client("stop", *to, *desk.on(node, root, state=disk.path / "state"),
                                   env=env)
            assert done.status in (0, 2), done         # 2: was not started here
            if done.status == 0:
                sure.add(node)
            return failed
        struck = each_fault("client", ("start", "stop"), run)
        record = server.stop().record
        missing = record["coverage"]["missing"]
        there = set(expected) - set(missing)
        assert sure <= there, sorted(sure - there)
        assert sum(expected[node] for node in there) == application(record)["read_calls"]
        left = sorted(os.listdir(disk.path / "state"))
        tell("disk: start and stop", faults=struck, nodes=len(expected), counted_once=len(there),
             named=len(set(expected) & set(missing)), leftovers=len(left))


@pytest.mark.timeout(3600)
def test_whatever_fails_in_the_spool_the_totals_are_right_in_the_end(tmp_path, disk):
    with SiteDesk(tmp_path / "desk") as desk:
        desk.configure(harvest_interval=1, node_retry_timeout=0, harvest_cpu_percent=100)
        desk.site()
        oss, total, runs = StorageServer(desk), 0, 0
        spool = disk.path / "spool"
        oss.show("OST0000", {})
        until(lambda: 0 == oss.sweep(spool).status, what="the first sweep")

        def run(phase, fault):
            nonlocal total, runs
            runs += 1
            for is_bad in (True, False):
                total += 1009
                oss.show("OST0000", {"4711": moved(written=total)})
                if is_bad:
                    disk.fail(*fault)
                done = oss.sweep(spool)
                assert "Traceback" not in done.err and "bug of ours" not in done.err, done
                if is_bad:
                    failed = disk.counts()["failed"]
                    disk.calm()
            if runs % 10 == 0:
                desk.until_written(total)
            return failed
        struck = each_fault("spool", ("a sweep",), run)
        desk.until_written(total)
        left = sorted(name.rpartition(".")[2] for name in os.listdir(spool))
        tell("disk: spool", faults=struck, sweeps=2 * runs, totals="exact", leftovers=left)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("then", ["killed", "going on"])
def test_whatever_fails_in_the_store_what_was_acknowledged_is_in_a_record_once(tmp_path, disk,
                                                                               then):
    """
    Then the disk is well again, and the server is killed and started, or goes on as it is.
    """
    with SiteDesk(tmp_path / "desk") as desk:
        desk.configure(site_deadline=900, site_store=disk.path / "site.sqlite", harvest_interval=1,
                       node_retry_timeout=0, harvest_cpu_percent=100)
        server, total, expected, refused = desk.site(), 0, {}, 0
        oss = StorageServer(desk)
        oss.show("OST0000", {})
        until(lambda: 0 == oss.sweep().status, what="the first sweep")

        def send(one, within_s=None):
            try:
                return desk.send(one, within_s)["counted"]
            except NotDelivered:
                return False

        def run(phase, fault):
            nonlocal server, total, refused
            job = desk.new_job()
            reports = [a_report(job, f"nid{number:05}", f"seq {number}",
                                reads=1_000_003 + 2 * 41 * (3 * len(expected) + number),
                                about={"nodes": "nid0000[1-3]"}) for number in (1, 2, 3)]
            expected[job] = 3 * 1_000_003 + 2 * 41 * (9 * len(expected) + 6)
            assert send(reports[0])
            disk.fail(*fault)
            # A server that cannot write answers nothing; one that answers later is sent it again.
            taken = [send(one, 2.0) for one in reports[1:]]
            total += 1009
            oss.show("OST0000", {"4711": moved(written=total)})
            oss.sweep()
            # Asked of as well, so that it reads.
            try:
                ask_site(desk.config, "record", {"job": job}, 2.0, True)
            except (Refused, NotDelivered):
                pass
            failed = disk.counts()["failed"]
            disk.calm()
            refused += taken.count(False)
            if then == "killed":
                server.kill()
                server = desk.site()
            assert server.process.poll() is None, server.err
            for one, is_taken in zip(reports[1:], taken):
                if not is_taken:
                    assert send(one), server.err
            oss.sweep()
            assert "Traceback" not in server.err and "bug of ours" not in server.err, server.err
            record = desk.record(job, lambda record: 3 == record["coverage"]["reported"])
            assert expected[job] == application(record)["read_calls"]
            desk.until_written(total)
            return failed
        struck = each_fault(f"store, {then}", ("reports",), run, few=2, times=(1, 1000),
                            operations=("any", "write", "fsync", "read", "truncate", "open",
                                        "create", "unlink"),
                            hows=_HOWS if then == "killed" else {})
        tell(f"disk: store, {then}", faults=struck, jobs=len(expected),
             reports=3 * len(expected), not_acknowledged=refused, counted_once=3 * len(expected))
