"""
The node's own I/O: from the epilog of one job and the prolog of the next one to the record.

Prologs and epilogs run in this process here, with clocks since boot that the test sets: the idle
times are of minutes.  What a node does by itself in one of 10,000 s is 2,300 stats and 37,000
bytes read.
"""
from __future__ import annotations

import json

import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from processes import AFTER, INSTANCE, LLITE, UUID, put

from iostats.base import config as site_config
from iostats.lustre.paths import File
from iostats.node import identity, idle_time, prolog_epilog
from iostats.totals import snapshot as snapshots
from iostats.totals.job_totals import Totals
from iostats.wire.messages.report import NodeReport

STATS = """snapshot_time             1795225000.000000000 secs.nsecs
start_time                1795220000.000000000 secs.nsecs
elapsed_time              5000.000000000 secs.nsecs
read_bytes                {reads} samples [bytes] 1 4096 {read_bytes} 0
open                      {opens} samples [usecs] 1 4096 {opens} 0
getattr                   {stats} samples [usecs] 1 4096 {stats} 0
"""


class Node:
    """A node with one mount of "scratch", whose hooks run here."""

    def __init__(self, directory, monkeypatch):
        self.root, self.hooks = directory / "root", directory / "hooks"
        self.hooks.mkdir(mode=0o700)
        self.now_s, self.boot_id, self.said = 50_000.0, "b" * 32, []
        self.scheduler = "slurm"
        self.counters = {"reads": 100, "read_bytes": 100_000, "opens": 100, "stats": 1000}
        self.config = site_config.load(environ={})
        for key, value in (("node.hook_dir", str(self.hooks)), ("node.reader", ""),
                           ("node.public_dir", ""), ("events.sources", "")):
            if key in self.config.options:
                self.config.set_value(key, value, "test")
        monkeypatch.setattr(identity, "read_boot_id", lambda root="/": self.boot_id)
        monkeypatch.setattr(identity, "read_seconds_since_boot", lambda: self.now_s)
        monkeypatch.setattr(identity.time, "clock_gettime_ns", lambda clock: int(self.now_s * 1e9))
        self.write()

    def write(self):
        put(self.root, LLITE, STATS.format(**self.counters))
        put(self.root, UUID, "a-b-c\n")

    def does(self, seconds, **gains):
        """So much time goes by, in which the counters gain that."""
        self.now_s += seconds
        for name, gain in gains.items():
            self.counters[name] += gain
        self.write()

    def idles(self, seconds=10_000.0):
        """By itself: what this file's first lines say, whatever the time is."""
        self.does(seconds, stats=2300, reads=23, read_bytes=37_000)

    def prolog(self, job):
        prolog_epilog.run_prolog(self.config, str(self.root), "nid00001", job, {}, self.said.append)

    def epilog(self, job):
        """The report's `idle`; None where it has none."""
        prolog_epilog.run_epilog(self.config, str(self.root), "nid00001", job,
                                 {"scheduler": self.scheduler}, self.said.append)
        [path] = self.hooks.glob(f"{job}%20*.delta")
        report = json.loads(path.read_text())
        path.unlink()
        self.report = report
        return report.get("idle")

    def job(self, job, seconds=100.0, **gains):
        self.prolog(job)
        self.does(seconds, opens=500, **gains)
        return self.epilog(job)

    def files(self):
        return sorted(path.name for path in self.hooks.iterdir())

    @property
    def quiet(self):
        return self.hooks / "nid00001.quiet"

    @property
    def idle(self):
        return self.hooks / "nid00001.idle"


@pytest.fixture
def node(tmp_path, monkeypatch):
    return Node(tmp_path, monkeypatch)


MEASURED = {"scratch": {"seconds": 10_000.0, "values": {
    "getattr": 2300, "read_bytes": 37_000, "read_calls": 23}}}


# -- an idle time between two jobs ---------------------------------------------------------------

def test_what_a_node_does_between_two_jobs_is_in_the_report_of_the_second(node):
    """And nothing of what either job did."""
    assert None is node.job("4711", stats=41)
    node.idles()
    assert MEASURED == node.job("4713", stats=43)
    assert ["nid00001.idle", "nid00001.quiet"] == node.files()
    assert [] == node.said


def test_a_node_that_does_nothing_is_known_to_do_nothing(node):
    """Which is another matter than not to be known."""
    node.job("4711")
    node.does(10_000.0)
    assert {"scratch": {"seconds": 10_000.0, "values": {}}} == node.job("4713")


def test_jobs_that_follow_each_other_closely_have_what_was_measured_before(node):
    """What is done right after a job, as by a clean-up, is not what a node does all day."""
    node.job("4711")
    node.idles()
    node.job("4713")
    node.does(59.0, stats=10_000)
    assert MEASURED == node.job("4717")
    node.does(60.0, stats=23)
    assert {"scratch": {"seconds": 10_060.0, "values": {
        "getattr": 2323, "read_bytes": 37_000, "read_calls": 23}}} == node.job("4721")


def test_the_last_four_hours_of_idle_time_count(node):
    """Of 10,000 s and then 7,200 s the first count as 7,200; after 5 h nothing counts of them."""
    node.job("4711")
    node.idles()
    node.job("4713")
    node.does(7200.0, stats=44)
    found = node.job("4717")["scratch"]
    assert 14_400.0 == found["seconds"]
    assert {"getattr": 1700.0, "read_bytes": 26_640.0, "read_calls": 16.56} == found["values"]
    node.does(18_000.0, opens=47)
    assert {"scratch": {"seconds": 18_000.0, "values": {"open": 47}}} == node.job("4721")


def test_a_second_prolog_of_a_job_changes_nothing(node):
    """As after a restart of the batch system's daemon."""
    node.job("4711")
    node.idles()
    node.prolog("4713")
    node.does(1000.0, stats=5000)
    node.prolog("4713")
    assert MEASURED == node.epilog("4713")


# -- what is no idle time ------------------------------------------------------------------------

def test_jobs_that_share_the_node_are_not_taken_for_the_node(node):
    """From the first one's start to the last one's end there is no idle time."""
    node.job("4711")
    node.idles()
    node.prolog("4713")
    node.does(100.0, stats=300)
    node.prolog("4717")
    node.does(100.0, stats=300)
    assert MEASURED == node.epilog("4713")
    assert not node.quiet.exists()
    node.does(10_000.0, stats=300)
    assert MEASURED == node.epilog("4717")
    assert node.quiet.exists()
    node.does(4400.0, opens=47)
    found = node.job("4721")["scratch"]
    assert (14_400.0, 47) == (found["seconds"], found["values"]["open"])


def test_two_prologs_at_once_leave_no_idle_time(node, monkeypatch):
    """Either may have begun before the other one's start was read."""
    node.job("4711")
    node.idles()
    real = prolog_epilog.Work.start

    def with_another(work):
        monkeypatch.setattr(prolog_epilog.Work, "start", real)
        node.prolog("4717")
        node.does(100.0, stats=5000)
        return real(work)
    monkeypatch.setattr(prolog_epilog.Work, "start", with_another)
    node.prolog("4713")
    assert None is node.epilog("4713")
    assert None is node.epilog("4717")


@pytest.mark.parametrize("lost", ["a prolog that was killed", "an epilog that never came"])
def test_a_job_that_was_not_measured_is_no_idle_time(node, monkeypatch, lost):
    """Its hooks were killed: nothing that it did is taken for the node's."""
    node.job("4711")
    node.does(100.0)
    if lost == "a prolog that was killed":
        with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
            patched.setattr(prolog_epilog.Work, "start", lambda work: 1 / 0)
            node.prolog("4713")
    else:
        node.prolog("4713")
    node.does(5000.0, stats=5000)
    node.prolog("4717")
    assert not node.quiet.exists()
    assert [] == list(node.hooks.glob("4717*.quiet"))


def test_a_job_whose_epilog_alone_runs_ends_an_idle_time(node):
    """Its prolog has not run at all."""
    node.job("4711")
    node.does(5000.0, stats=5000)
    assert None is node.epilog("4713")
    assert not node.quiet.exists()


def test_a_job_that_only_its_cgroup_tells_of_is_no_idle_time(node):
    """Of a batch system's other partition, whose jobs have no prolog."""
    other = node.root / "sys/fs/cgroup/system.slice/slurmstepd.scope/job_4719"
    node.job("4711")
    node.idles()
    other.mkdir(parents=True)
    assert None is node.job("4713")
    assert not node.quiet.exists()
    other.rmdir()
    node.job("4717")
    node.idles()
    assert MEASURED == node.job("4721")


def test_where_hooks_run_on_first_nodes_alone_there_is_no_idle_time(node):
    """In Grid Engine another job's second node may be this one: no file of it is here."""
    node.scheduler = "sge"
    node.job("4711")
    assert [] == node.files()
    node.idles()
    assert None is node.job("4713")


@pytest.mark.parametrize("above", ["user.slice", "systemd/user.slice"])
@pytest.mark.parametrize("when", ["at its begin", "at its end"])
def test_a_time_with_a_user_at_the_node_is_no_idle_time(node, above, when):
    """A session of a system user, or of root, is the node's own."""
    session = node.root / "sys/fs/cgroup" / above / "user-1003.slice"
    session.with_name("user-0.slice").mkdir(parents=True)
    if when == "at its begin":
        session.mkdir()
    node.job("4711")
    node.idles()
    if when == "at its end":
        session.mkdir()
    assert None is node.job("4713")
    session.rmdir()
    node.job("4717")
    node.idles()
    assert MEASURED == node.job("4721")


@pytest.mark.parametrize("seconds", [59.9, 86_401.0])
def test_too_short_and_too_long_are_no_idle_times(node, seconds):
    """Of more than a day: the hooks may have been switched off."""
    node.job("4711")
    node.idles(seconds)
    assert None is node.job("4713")


def test_another_boot_begins_anew(node):
    """With what was measured in the one before."""
    node.job("4711")
    node.idles()
    node.job("4713")
    node.boot_id, node.now_s = "c" * 32, 70_000.0
    assert None is node.job("4717")
    node.idles()
    assert MEASURED == node.job("4721")


def test_a_clock_that_is_set_changes_nothing(node, monkeypatch):
    """The wall clock is not looked at."""
    node.job("4711")
    monkeypatch.setattr(identity.time, "time_ns", lambda: 23)
    node.idles()
    assert MEASURED == node.job("4713")


@pytest.mark.parametrize("what", ["cleared", "mounted again", "unmounted", "not readable"])
def test_counters_that_began_again_tell_nothing_of_idle_time(node, what):
    """Not even a lower bound, which would be shown as if it were all."""
    node.job("4711")
    node.does(10_000.0)
    if what == "cleared":
        node.counters.update(stats=7, opens=7)
    node.write()
    if what == "mounted again":
        put(node.root, UUID, "another\n")
    if what == "unmounted":
        (node.root / LLITE).unlink()
    if what == "not readable":
        put(node.root, LLITE, "torn")
    node.prolog("4713")
    node.write()
    assert None is node.epilog("4713")


@pytest.mark.parametrize("name", ["quiet", "idle"])
@pytest.mark.parametrize("data", [b"", b"{", b'{"boot_id": 23, "file_systems": []}', b"\xff" * 99,
                                  b'{"boot_id": "BOOT", "file_systems": {"scratch": 23}}',
                                  b'{"boot_id": "BOOT", "file_systems": {"scratch": '
                                  b'{"at": 1, "seconds": 1e999, "values": {}}}}',
                                  b'{"boot_id": "BOOT", "file_systems": {"scratch": '
                                  b'{"at": 60000, "seconds": 600, "values": {"open": -1}}}}'],
                         ids=["empty", "cut off", "of another form", "no text", "no file system",
                              "endless", "below 0"])
def test_a_damaged_file_is_none(node, name, data):
    """The job is measured, and one of the two idle times is known: not both, or 20,000 s."""
    node.job("4711")
    node.idles()
    node.job("4713")
    (node.hooks / f"nid00001.{name}").write_bytes(data.replace(b"BOOT", b"b" * 32))
    node.idles()
    assert MEASURED == node.job("4717")
    assert 500 == node.report["deltas"][0]["values"]["open"]


def test_a_directory_in_the_place_of_a_file_keeps_no_job_from_its_report(node):
    node.job("4711")
    node.quiet.unlink()
    node.quiet.mkdir()
    node.idle.mkdir()
    node.idles()
    node.job("4713")
    assert 500 == node.report["deltas"][0]["values"]["open"]


def test_only_what_is_needed_is_kept(node):
    """The files of one mount, not of its thousand targets."""
    put(node.root, f"proc/fs/lustre/osc/scratch-OST0000-osc-{INSTANCE}/rpc_stats", "x")
    node.job("4711")
    kept = snapshots.decode(node.quiet.read_bytes(), "")
    assert {"llite", "uuid"} == {file.source for file in kept.files}


# -- the way to the record -----------------------------------------------------------------------

def test_the_record_has_what_falls_into_the_job(node):
    """The job took 100 s, a hundredth of the idle time: 23 stats, 370 bytes read."""
    import msgspec
    node.job("4711")
    node.idles()
    node.job("4713")
    totals = Totals("4713", 1)
    totals.add(msgspec.convert(node.report, NodeReport))
    [fs] = totals.record().file_systems
    assert {"nodes": 1, "seconds": 10_000.0,
            "expected": {"getattr": 23, "read_bytes": 370}} == fs.idle


def test_has_users_of_a_node_without_cgroups(tmp_path):
    assert not idle_time.has_users(str(tmp_path))


def test_files_of_other_sources_are_no_counters(node):
    """A snapshot with nothing of llite is not kept."""
    end = snapshots.Snapshot("4711", "nid00001", "1", "b", 1, 1, (File("osc", "x", "x", 0, ""),))
    idle_time.store_idle_start(str(node.hooks), "nid00001", end, str(node.root))
    assert [] == node.files()


def test_prolog_and_epilog_as_processes_tell_the_sites_server(site):
    """The file of the last job's end is made 10,000 s older, as if so much time had gone by."""
    first, second = site.new_job(), site.new_job()
    name = f"nid{first:0>5}"
    site.work(first, name)
    path = site.hooks / name / f"{name}.quiet"
    kept = snapshots.decode(path.read_bytes(), str(path))
    path.write_bytes(snapshots.encode(kept._replace(boot_ns=kept.boot_ns - 10**13)))
    own = {**AFTER, "opens": AFTER["opens"] + 41_000_000}
    then = {**own, "opens": own["opens"] + 43}
    site.work(second, name, own, then)
    [fs] = site.record(first)["file_systems"]
    assert None is fs["idle"]
    record = site.record(second)
    [fs] = record["file_systems"]
    assert (1, ["open"]) == (fs["idle"]["nodes"], list(fs["idle"]["expected"]))
    assert 10_000 <= fs["idle"]["seconds"] < 11_000
    expected = 41_000_000 * record["job"]["elapsed_s"] / fs["idle"]["seconds"]
    assert expected == pytest.approx(fs["idle"]["expected"]["open"], rel=0.02)
    assert "note: scratch: all of 43 open" not in site.iostats("report", second).out    # so few


# -- whatever happens ----------------------------------------------------------------------------

class Killed(BaseException):
    """As the alarm of a hook that has had its time."""


# Where a prolog or an epilog may be killed: before or after each of these.
WORK = prolog_epilog.Work
POINTS = {"prolog": [(idle_time, idle_time.claim), (WORK, WORK.start),
                     (idle_time, idle_time.is_over)],
          "epilog": [(idle_time, idle_time.is_over), (WORK, WORK.end),
                     (idle_time, idle_time.report_idle_io),
                     (idle_time, idle_time.store_idle_start), (idle_time, idle_time.delete)]}
KILLS = st.one_of(st.none(), st.none(), st.tuples(st.integers(0, 4), st.booleans()))
STEPS = st.lists(st.tuples(st.sampled_from(["begins", "ends", "goes unseen", "idle", "idle"]),
                           st.integers(0, 3), KILLS, st.sampled_from([7, 61, 600, 20_000])),
                 min_size=4, max_size=16)


def killed(place, after):
    """A patch of one of POINTS."""
    owner, real = place

    def dies(*args, **options):
        if after:
            real(*args, **options)
        raise Killed
    return owner, real.__name__, dies


EACH_POINT = [[("begins", 0, None, 61), ("ends", 0, (point, after), 61), ("begins", 0, None, 61),
               ("ends", 0, None, 61)] for point in range(5) for after in (False, True)]
UNSEEN = [("begins", 0, None, 7), ("ends", 0, None, 600), ("begins", 0, (0, False), 600),
          ("ends", 0, None, 600), ("begins", 0, None, 7), ("ends", 0, None, 7)]


@settings(max_examples=examples(60))
@given(STEPS)
@example(UNSEEN)
@example([step for steps in EACH_POINT for step in steps])
def test_nothing_that_a_job_did_is_ever_taken_for_the_nodes_own(tmp_path_factory, steps):
    """
    Jobs overlap, hooks are killed or never come.  Jobs stat as long as they are there, and the node
    opens a file each second: what is known of idle time is one open a second, and no stat.
    """
    with pytest.MonkeyPatch.context() as patches:
        node = Node(tmp_path_factory.mktemp("node"), patches)
        node.config.set_value("node.hook_timeout", "60", "test")
        running, number, told, unseen = [], 4710, [], set()

        def hook(role, job, kill):
            with pytest.MonkeyPatch.context() as one:
                if kill:
                    points = POINTS[role]
                    one.setattr(*killed(points[kill[0] % len(points)], kill[1]))
                try:
                    getattr(prolog_epilog, f"run_{role}")(
                        node.config, str(node.root), "nid00001", job, {}, node.said.append)
                except Killed:
                    pass
            for path in node.hooks.glob("*.delta"):
                told.append(json.loads(path.read_text()).get("idle"))
                path.unlink()
        for step, which, kill, seconds in steps:
            if step == "begins" and len(running) < 3:
                number += 1
                if kill and not kill[0] % 3 and not kill[1]:
                    unseen.add(str(number))
                hook("prolog", str(number), kill)
                running.append(str(number))
            elif step in ("ends", "goes unseen") and running:
                job = running.pop(which % len(running))
                # A job whose hooks have both done nothing cannot be known of.
                if step == "ends" or job in unseen:
                    hook("epilog", job, None if job in unseen else kill)
            node.does(seconds, opens=seconds, stats=seconds * bool(running))
        for found in filter(None, told):
            scratch = found["scratch"]
            assert scratch["values"] == {"open": pytest.approx(scratch["seconds"])}
        assert not [line for line in node.said if "by itself" in line]
