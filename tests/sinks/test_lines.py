"""
From sweeps to lines of the line protocol: the two schemas, and names.
"""
from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sink_desk import Site, now_slot

from iostats.sinks.influxdb import lines as influx_lines
from iostats.sinks.influxdb.lines import Lines

OST0, OST1 = ("scratch", "OST0000"), ("scratch", "OST0001")
MDT0, HOME = ("scratch", "MDT0000"), ("home", "OST0000")
NOON = 1_795_176_000


@pytest.fixture
def site():
    """A site with alice's job 4711."""
    one = Site(now_slot())
    one.knows("4711", user="alice", account="physics", cluster="snake", started=one.began)
    return one


def lines_of(site, *entries, schema="full", by_target=False, clock=None):
    """[[line] of each sweep], times as seconds after the first sweep."""
    lines = Lines(schema, by_target, clock or (lambda: site.slot))
    found = []
    for some in entries:
        for _ in lines.walk(site.sweep(some), site):
            pass
        found.append([re.sub(r" (\d+)$", lambda at: f" {int(at[1]) / 1000 - site.began:g}", line)
                      for line in lines.ready.lines()])
    return found


HEAD = "lustre_job,cluster=snake,job=4711,user=alice,account=physics,fs=scratch"


def test_a_job_has_totals_of_all_targets_of_a_file_system(site):
    """Reads and writes with their requests, each operation, and all operations."""
    [lines] = lines_of(site, {
        OST0: {"4711": {"read_bytes": (23, 2300), "write_bytes": (3, 31), "punch": 5}},
        OST1: {"4711": {"read_bytes": (37, 3700)}}, MDT0: {"4711": {"open": 41, "close": 43}}})
    assert [f"{HEAD} close=43i,open=41i,operations=89i,punch=5i,read_bytes=6000i,read_rpcs=60i,"
            f"requests=152i,write_bytes=31i,write_rpcs=3i,lower_bound=0i 0"] == lines


def test_the_same_requests_in_usecs_are_no_operations(site):
    """Since 2.13 `read` and `write` are there besides read_bytes and write_bytes."""
    [[line]] = lines_of(site, {OST0: {"4711": {"read_bytes": (23, 2300), "read": (23, 999),
                                               "write": (0, 0)}}})
    assert f"{HEAD} read_bytes=2300i,read_rpcs=23i,requests=23i,lower_bound=0i 0" == line


def test_a_rename_is_one_operation_and_has_its_kind_too(site):
    """The MDT counts it twice."""
    [[line]] = lines_of(site, {MDT0: {"4711": {"rename": 23, "samedir_rename": 19,
                                               "crossdir_rename": 4}}})
    assert (f"{HEAD} crossdir_rename=4i,operations=23i,rename=23i,requests=23i,samedir_rename=19i,"
            f"lower_bound=0i 0") == line


def test_a_job_that_did_nothing_has_no_point(site):
    """When it does something again there is one of the sweep before, so that rates are right."""
    lines = lines_of(site, {OST0: {"4711": {"write_bytes": (23, 2300)}}}, {}, {},
                     {OST0: {"4711": {"write_bytes": (37, 3700)}}},
                     {OST0: {"4711": {"write_bytes": (41, 4100)}}})
    assert [[f"{HEAD} requests=23i,write_bytes=2300i,write_rpcs=23i,lower_bound=0i 0"], [], [],
            [f"{HEAD} requests=23i,write_bytes=2300i,write_rpcs=23i 40",
             f"{HEAD} requests=37i,write_bytes=3700i,write_rpcs=37i,lower_bound=0i 60"],
            [f"{HEAD} requests=41i,write_bytes=4100i,write_rpcs=41i,lower_bound=0i 80"]] == lines


def test_what_is_new_begins_at_zero_in_the_sweep_before(site):
    """A new job, and a new field of a job that is there."""
    site.knows("53", user="bob")
    lines = lines_of(site, {MDT0: {"4711": {"open": 23}}},
                     {MDT0: {"4711": {"open": 29, "unlink": 7}, "53": {"mkdir": 3}}})
    bob = "lustre_job,job=53,user=bob,fs=scratch"
    assert [f"{HEAD} unlink=0i 0",
            f"{HEAD} open=29i,operations=36i,requests=36i,unlink=7i,lower_bound=0i 20",
            f"{bob} mkdir=0i,operations=0i,requests=0i 0",
            f"{bob} mkdir=3i,operations=3i,requests=3i,lower_bound=0i 20"] == lines[1]


def test_by_target_is_a_choice(site):
    """Then each target has points of its own, and one where nothing was done has none."""
    lines = lines_of(site, {OST0: {"4711": {"write_bytes": (23, 2300)}},
                            OST1: {"4711": {"write_bytes": (37, 3700)}}},
                     {OST1: {"4711": {"write_bytes": (41, 4100)}}}, by_target=True)
    head = HEAD + ",target=scratch-"
    assert [
        [f"{head}OST0000 requests=23i,write_bytes=2300i,write_rpcs=23i,lower_bound=0i 0",
         f"{head}OST0001 requests=37i,write_bytes=3700i,write_rpcs=37i,lower_bound=0i 0"],
        [f"{head}OST0001 requests=41i,write_bytes=4100i,write_rpcs=41i,lower_bound=0i 20"]] == lines


@pytest.mark.parametrize("schema, expected", [
    ("full", [f"{HEAD} read_bytes=2300i,read_rpcs=23i,requests=83i,write_rpcs=60i,lower_bound=0i "
              "0"]),
    ("jobharvest", ["lustre,job=4711,fs=scratch,server=oss read_bytes=2300i,iops=0i 0"])])
def test_a_field_above_what_databases_take_is_left_out_and_reported(site, schema, expected):
    """InfluxDB rejects a point with an integer above 2**63 - 1: two nodes' ids of one job."""
    lines = Lines(schema, False, lambda: site.slot)
    for _ in lines.walk(site.sweep({OST0: {
            "4711:a": {"write_bytes": (23, 2**62), "read_bytes": (23, 2300)},
            "4711:b": {"write_bytes": (37, 2**62)}}}), site):
        pass
    assert expected == [re.sub(r" \d+$", " 0", line) for line in lines.ready.lines()]
    [left_out] = lines.ready.too_large
    assert left_out.startswith("write_bytes of lustre") and "job=4711" in left_out


def test_jobharvests_schema_has_oss_and_mds_apart(site):
    """Totals; iops are all but reads and writes, a rename is one; arrays by their own names."""
    site.knows("12366", job="12345_10")
    lines = lines_of(site, {
        OST0: {"12366": {"read_bytes": (23, 2300), "punch": 5, "setattr": 7}},
        OST1: {"12366": {"write_bytes": (3, 31)}, "4711": {"write_bytes": (1, 47)}},
        MDT0: {"12366": {"open": 41, "rename": 2, "samedir_rename": 2}}, HOME: {}},
        {OST0: {"4711": {"write_bytes": (2, 61)}}}, schema="jobharvest")
    array = "lustre,job=12345_10,fs=scratch,server="
    assert [[f"{array}mds read_bytes=0i,write_bytes=0i,iops=43i 0",
             f"{array}oss read_bytes=2300i,write_bytes=31i,iops=12i 0",
             "lustre,job=4711,fs=scratch,server=oss read_bytes=0i,write_bytes=47i,iops=0i 0"],
            ["lustre,job=4711,fs=scratch,server=oss read_bytes=0i,write_bytes=108i,iops=0i 20"]
            ] == lines


def test_jobharvests_schema_has_no_sweep_of_more_than_an_hour_ago(site):
    """One that an agent had kept while our server was away; the full schema has it."""
    lines = Lines("both", False, lambda: site.slot + 3601)
    for _ in lines.walk(site.sweep({OST0: {"4711": {"write_bytes": (23, 2300)}}}), site):
        pass
    [line] = lines.ready.lines()
    assert line.startswith("lustre_job,")
    assert 1 == lines.too_old


def test_all_ids_of_a_job_are_one(site):
    """Where jobid_name has the node in it."""
    lines = lines_of(site, {OST0: {"4711:n1": {"write_bytes": (23, 2300)},
                                   "4711:n2": {"write_bytes": (37, 3700)}}},
                     {OST0: {"4711:n2": {"write_bytes": (41, 4100)}}})
    assert [[f"{HEAD} requests=60i,write_bytes=6000i,write_rpcs=60i,lower_bound=0i 0"],
            [f"{HEAD} requests=64i,write_bytes=6400i,write_rpcs=64i,lower_bound=0i 20"]] == lines


def test_a_job_that_becomes_known_goes_on_under_its_name(site):
    """With the total that it had in the sweep before, so that no rate is made of the old one."""
    lines = Lines("full", False, lambda: site.slot)
    texts = []
    for number, count in enumerate((23, 37)):
        if number:
            site.knows("12366", job="12345_10", user="bob", started=site.began)
        for _ in lines.walk(site.sweep({MDT0: {"12366": {"open": count}}}), site):
            pass
        texts.append([line.rpartition(" ")[0] for line in lines.ready.lines()])
    now = "lustre_job,job=12345_10,user=bob,fs=scratch"
    assert [["lustre_job,job=12366,fs=scratch open=23i,operations=23i,requests=23i,lower_bound=0i"],
            [f"{now} open=23i,operations=23i,requests=23i",
             f"{now} open=37i,operations=37i,requests=37i,lower_bound=0i"]] == texts


def test_io_of_no_job_is_added_up_and_never_falls(site):
    """From our own beginning; also when the targets forget those ids."""
    entries = ({OST0: {"cp.0": {"read_bytes": (23, 2300)}, "kworker": {"punch": 3}}},
               {OST0: {"cp.0": {"read_bytes": (29, 2900)}, "rm.0": {"punch": 5}}})
    lines = Lines("both", False, lambda: site.slot)
    texts = []
    for some in (*entries, {OST0: {"dd.1000": {"write_bytes": (2, 43)}}}):
        for _ in lines.walk(site.sweep(some), site):
            pass
        texts.append([line.rpartition(" ")[0] for line in lines.ready.lines()])
        site.targets[OST0].drop_ids(["cp.0", "kworker", "rm.0"])
        lines.drop_ids(["cp.0", "kworker", "rm.0"])
    nobody = r"lustre_job,job=(unattributed),fs=scratch"
    assert [[], [f"{nobody} operations=0i,punch=0i,read_bytes=0i,read_rpcs=0i,requests=0i",
                 f"{nobody} operations=5i,punch=5i,read_bytes=600i,read_rpcs=6i,requests=11i,"
                 f"lower_bound=0i"],
            [f"{nobody} write_bytes=0i,write_rpcs=0i",
             f"{nobody} operations=5i,punch=5i,read_bytes=600i,read_rpcs=6i,requests=13i,"
             f"write_bytes=43i,write_rpcs=2i,lower_bound=0i"]] == texts


def test_a_total_that_may_be_too_low_says_so(site):
    """Here: the storage server was started again, and what it did before that is not known."""
    lines = Lines("full", False, lambda: site.slot)
    texts = []
    for count, boot in ((23, "boot"), (37, "another boot"), (41, "another boot")):
        site.boot = boot
        for _ in lines.walk(site.sweep({MDT0: {"4711": {"open": count}}}), site):
            pass
        texts.append(list(lines.ready.lines())[-1].split()[1])
    assert ["open=23i,operations=23i,requests=23i,lower_bound=0i",
            "open=60i,operations=60i,requests=60i,lower_bound=1i",
            "open=64i,operations=64i,requests=64i,lower_bound=1i"] == texts


@pytest.mark.parametrize("told", [True, False], ids=["before", "late"])
def test_a_job_that_began_before_the_harvest_may_have_done_more(told):
    """Whether that is known when it is seen first, or is told later."""
    site = Site(now_slot())
    lines = Lines("full", False, lambda: site.slot)
    low = []
    for number in range(3):
        if told or number == 1:
            site.knows("4711", started=site.began - 10_000)
        for _ in lines.walk(site.sweep({MDT0: {"4711": {"open": 23 + number}}}), site):
            pass
        low.append(list(lines.ready.lines())[-1].split()[1][-2:])
    assert (["1i", "1i", "1i"] if told else ["0i", "1i", "1i"]) == low


def test_totals_that_become_uncertain_with_a_change_are_marked(site):
    """Silent for longer than the interval, no start times, and it only grew: cannot be told."""
    site.starts = False
    lines = Lines("full", False, lambda: site.slot)
    low = []
    for number in range(40):
        some = {MDT0: {"4711": {"open": 23 + number}}} if number in (0, 1, 39) else {}
        for _ in lines.walk(site.sweep(some), site):
            pass
        if some:
            low.append(list(lines.ready.lines())[-1].split()[1][-2:])
    assert site.targets[MDT0].list_suspect_ids() == ["4711"]
    assert ["0i", "0i", "1i"] == low


def test_a_sum_at_the_kernels_limit_may_be_too_low(site):
    """It stays there; also where it is of an earlier entry of the job."""
    limit = 2**63 - 1
    [[before], [after]] = [lines_of(site, {OST0: {"4711": {"read_bytes": (23, amount)}}})
                           for amount in (limit - 1, limit)]
    assert ["lower_bound=0i", "lower_bound=1i"] == [
        line.split()[1].split(",")[-1] for [line] in (before, after)]
    assert ["4711"] == site.targets[OST0].list_suspect_ids()


def parsed(line):
    """{tag: value} of a line: a backslash stands for itself, but before a comma, = or a blank."""
    tags, name = {}, ""
    parts = re.split(r"(?<!\\)([,= ])", line)
    assert "\n" not in line
    words = [parts[0]] + [parts[at] + parts[at + 1] for at in range(1, len(parts), 2)]
    for word in words[1:]:
        if word[0] == " ":
            break
        if word[0] == ",":
            name = word[1:]
        else:
            tags[name] = re.sub(r"\\([,= ])", r"\1", word[1:])
    return tags


@given(st.text(min_size=1))
@example("a b,c=d")
@example("back\\slash at the end\\")
@example("\\, \\= \\\\ ")
@example("a\nb\r\tc\0")
@example("Gr\xf6\xdfe \u2603 \U0001f41f")
@example("\udcff")
def test_every_id_is_one_tag_that_can_be_read_back(job):
    """Whatever is in it: the form of a line is not broken, and no two ids are the same tag."""
    head = f"lustre_job,job={influx_lines.tag(job)},fs=scratch"
    line = influx_lines.format_point(head, [("open", 23)], 41, [])
    tags = parsed(line.encode("utf-8", "backslashreplace").decode())
    assert {"job", "fs"} == set(tags)
    back = re.sub(r"\\x(..)|\\u(....)|\\U(.{8})", lambda found: chr(int(
        found[1] or found[2] or found[3], 16)), tags["job"])
    assert job == back
    assert line.endswith(",fs=scratch open=23i 41")


def test_a_sweep_that_was_left_out_is_in_the_next(site):
    """Its amounts are, since totals are written."""
    lines = Lines("full", False, lambda: site.slot)
    for number, count in enumerate((23, 37, 41)):
        sweep = site.sweep({MDT0: {"4711": {"open": count}}} if number < 2 else {})
        if number != 1:
            for _ in lines.walk(sweep, site):
                pass
    [*_, last] = lines.ready.lines()
    assert "open=37i,operations=37i,requests=37i,lower_bound=0i" == last.split()[1]
