"""`iostats targets` and `iostats quota`: rows and cells."""
from __future__ import annotations

from iostats.report import listing
from iostats.report.listing import AS_FITS, NumberForm
from iostats.report.server_tables import (
    DEFAULT_QUOTAS,
    DEFAULT_SERVICES,
    DEFAULT_TARGETS,
    QUOTAS,
    SERVICES,
    TARGETS,
    build_quota_rows,
    make_metrics_cell,
    make_quota_cell,
)

NOW, EXACT = 1_795_333_400.0, NumberForm("binary", None, True, False)
TARGET = {"target": "scratch-OST0003", "file_system": "scratch", "node": "oss1", "time": NOW,
          "seconds": 60.0,
          "values": {"granted_bytes": 41 << 30, "locks": 2300, "lock_timeouts": 7},
          "gained": {"read_rpcs": 4100, "small_read_rpcs": 4099, "write_rpcs": 0,
                     "small_write_rpcs": 0}}
SERVICE = {"service": "ost_io", "node": "oss1", "time": NOW, "seconds": 60.0,
           "values": {"threads": 23, "threads_max": 64, "requests": 99},
           "gained": {"requests": 40, "wait_us": 94_000_000, "queued": 100}, "policy": "tbf jobid"}


def table(table, rows, columns, make_cell, how=AS_FITS):
    return "".join(listing.format_table(rows, table.parse_columns(columns), make_cell(how)))


def test_a_share_is_of_what_was_gained_and_never_100_before_it_is():
    assert """\
Target          Reads SmallReads FragReads Writes SmallWrites FragWrites  Granted Locks
--------------- ----- ---------- --------- ------ ----------- ---------- -------- -----
scratch-OST0003 4,100       99 %         -      0           -          - 41.0 GiB 2,300
""" == table(TARGETS, [TARGET], DEFAULT_TARGETS, make_metrics_cell)


def test_without_a_second_reading_nothing_was_gained():
    first = {**TARGET, "gained": {}}
    assert ["-", "-", "7"] == table(TARGETS, [first], "Reads,SmallReads,LockTimeouts",
                                    make_metrics_cell).split("\n")[2].split()


def test_services():
    assert """\
Server Service Threads MaxThreads Requests   MeanWait QDepth Policy
------ ------- ------- ---------- -------- ---------- ------ ---------
oss1   ost_io       23         64       40 2,350.0 ms    2.5 tbf jobid
""" == table(SERVICES, [SERVICE], DEFAULT_SERVICES, make_metrics_cell)


def test_what_is_more_than_nothing_is_not_shown_as_0():
    """23 us on average, and 1 request of 4,100."""
    quick = {**SERVICE, "gained": {"requests": 40, "wait_us": 920, "queued": 0}}
    assert ["<0.1", "ms", "0.0"] == table(SERVICES, [quick], "MeanWait,QDepth",
                                          make_metrics_cell).split("\n")[2].split()
    few = {**TARGET, "gained": {"read_rpcs": 4100, "small_read_rpcs": 1, "write_rpcs": 41,
                                "small_write_rpcs": 0}}
    assert ["<1", "%", "0", "%"] == table(TARGETS, [few], "SmallReads,SmallWrites",
                                          make_metrics_cell).split("\n")[2].split()


def test_programs_get_exact_values():
    assert ["4100", "99.97", str(41 << 30), "60"] == table(
        TARGETS, [TARGET], "Reads,SmallReads,Granted,Seconds", make_metrics_cell,
        EXACT).split("\n")[2].split()
    assert ["2350.000"] == table(SERVICES, [SERVICE], "MeanWait", make_metrics_cell,
                                 EXACT).split("\n")[2].split()


def a_quota(**fields):
    return {"file_system": "scratch", "pool": "", "kind": "user", "id": 4711, "resource": "space",
            "granted": 41 << 30, "soft": 0, "hard": 100 << 30, "grace_end": 0, "time": NOW,
            **fields}


def test_quotas():
    rows = build_quota_rows({"time": NOW, "quotas": [
        a_quota(granted=100 << 30),
        a_quota(kind="project", resource="inodes", granted=4100, soft=3700, hard=0,
                grace_end=int(NOW) + 1),
        a_quota(id=0, granted=0)]}, lambda kind, number: f"{kind[0]}{number}")
    assert """\
Name  Kind    FileSystem Of       Granted  Soft      Hard GrantedPct State
----- ------- ---------- ------ --------- ----- --------- ---------- -----
u4711 user    scratch    space  100.0 GiB     - 100.0 GiB      100 % full
p4711 project scratch    inodes     4,100 3,700         -      110 % soft
u0    user    scratch    space    0 bytes     - 100.0 GiB        0 % -
""" == table(QUOTAS, rows, DEFAULT_QUOTAS, make_quota_cell)
    assert ["4711", "-", "-"] == table(QUOTAS, rows[:1], "Id,Pool,GraceEnd",
                                       make_quota_cell).split("\n")[2].split()
