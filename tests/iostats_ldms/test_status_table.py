"""`iostats ldms status`, by values alone: what it says, in lines of any width."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.errors import is_printable
from iostats.base.text import measure_width
from iostats.events.event import make_event
from iostats_ldms.cli.status import ClusterStatus, to_json_object
from iostats_ldms.published import Revision
from iostats_ldms.status.document import AGGREGATOR, SAMPLER, DaemonRow, GroupStatus
from iostats_ldms.status.table import format_lines, format_time

NOW = 1_795_333_379.0
EVENT = make_event("", "ldms-orion", ("a",), "aggregator_down", NOW - 43, message="agg-2: refused")
AGGREGATORS = GroupStatus("agg-[1-2]", AGGREGATOR, 1, 37, NOW - 3, "mgmt1.4711", (
    DaemonRow("agg-1", "up", NOW - 3600, "", 0, True, (), 23, 19, 41, 1.93),
    DaemonRow("agg-2", "down", NOW - 43, "connection refused", 3, event=EVENT.id)), 0, 0, (EVENT,))
SAMPLERS = GroupStatus("node[001-100]", SAMPLER, 0, 36, NOW - 7, "mgmt2.4713", (
    DaemonRow("node007", "hung", NOW - 61, "no answer within 5 s"),
    DaemonRow("node011", "up", NOW - 61, wrong=("no plugin meminfo1",))), 98)
SEEN = ClusterStatus("orion", Revision(37, 1, "", "alice@mgmt1", NOW - 600, "two more racks"),
            [SAMPLERS, AGGREGATORS], {"agg-[1-2]": "mgmt1.4711"},
            {"mgmt1.4711": {"since": NOW - 7200, "version": "0.1.0", "ready": True},
             "mgmt2.4713": {"since": "?", "version": "0.1.0"}},
            {"oss1": {"revision": 37, "group": "all", "time": NOW - 12, "version": "0.1.0",
                      "problem": "", "sweep_every_s": 10, "settings": {
                          "harvest.interval": 10, "harvest.exports": "auto",
                          "harvest.file_systems": ["a", "b"]}},
             "oss2": {"revision": 36, "group": "all", "time": NOW - 400, "version": "0.1.0",
                      "problem": "harvest.interval: expected a number, got 'soon'"}}, [])


def test_all_of_it():
    at = [format_time(NOW - ago, NOW) for ago in (600, 61, 7, 3600, 43)]
    assert [line.rstrip() for line in f"""\
orion: description 37, loaded {at[0]} by alice@mgmt1: two more racks

  instance    version  runs for  groups
  mgmt1.4711  0.1.0    2 h            1
  mgmt2.4713  0.1.0    -              0  has no description yet

samplers node[001-100]: 99 of 100 up, no owner, as of {at[2]}, 1 not as described, still description 36
  sampler  state  since     restarts
  node007  hung   {at[1]}         0  no answer within 5 s
  node011  up     {at[1]}         0  no plugin meminfo1

level 1 aggregators agg-[1-2]: 1 of 2 up, by mgmt1.4711, 3 s ago
  aggregator  state  since     restarts  producers  connected  sets  load
  agg-1       up     {at[3]}         0         23         19    41  1.93
  agg-2       down   {at[4]}         3          -          -     -     -  connection refused

last events
  {_day(NOW - 43)} {at[4]} critical aggregator_down: agg-2: refused

storage servers' agents
  storage server  description  group  version  for
  oss2                     36  all    0.1.0    6 min  harvest.interval: expected a number, got 'soon'
  oss1                     37  all    0.1.0    12 s   sweeps every 10 s, harvest.interval = 10, harvest.file_systems = a b
""".splitlines()] == list(format_lines(SEEN, NOW, None))     # noqa: E501


def _day(time):
    from datetime import datetime
    return f"{datetime.fromtimestamp(time):%F}"


def test_a_level_above_that_leaves_a_hung_one_says_so_at_80_columns():
    text = "producer agg-2 is stopped while agg-2 does not answer"
    top = GroupStatus("top-1", AGGREGATOR, 2, 37, NOW - 3, "mgmt1.4711", (
        DaemonRow("top-1", "up", NOW - 3600, "", 0, True, (text,), 2, 1, 41, 1.0),))
    seen = SEEN._replace(groups=[top], owners={"top-1": "mgmt1.4711"})
    assert "level 2 aggregators top-1: 1 of 1 up, by mgmt1.4711, 3 s ago, 1 partly stopped" in (
        list(format_lines(seen, NOW, 80)))
    assert any(line.endswith(text) for line in format_lines(seen, NOW, None))


def test_nothing_is_there():
    assert ["orion: no description was loaded yet: iostats ldms load FILE",
            "no instance of `iostats ldms run` is running: nothing is monitored",
            "cannot be parsed: /orion/status/a: expected zlib"] == list(format_lines(ClusterStatus(
                "orion", None, [], {}, {}, {}, ["/orion/status/a: expected zlib"]), NOW, 200))


def test_a_description_that_cannot_be_read_is_not_none():
    seen = ClusterStatus("orion", None, [], {}, {}, {}, [], "etcd: /orion/current: expected 23")
    assert ["orion: the description cannot be read: etcd: /orion/current: expected 23",
            "no instance of `iostats ldms run` is running: nothing is monitored"
            ] == list(format_lines(seen, NOW, 200))


@pytest.mark.parametrize("ago, said", [
    (600, "no report from mgmt1.4711 for 10 min, or its clock is behind"),
    (97, "no report from mgmt1.4711 for 97 s, or its clock is behind"),
    (71, "by mgmt1.4711, 71 s ago"),
    (-300, "by mgmt1.4711, whose clock is 5 min ahead of this host's"),
    (-3, "by mgmt1.4711, 0 s ago")])
def test_an_owner_that_says_nothing_or_has_another_time_is_told(ago, said):
    one = GroupStatus("agg-[1-2]", AGGREGATOR, 1, 37, NOW - ago)
    [line] = [line for line in format_lines(SEEN._replace(groups=[one]), NOW, None) if "level"
              in line]
    assert line.endswith(f": 0 of 0 up, {said}")


def test_the_age_is_of_the_numbers_where_these_are_older_than_the_status():
    """A status is written when it changes, with sets that were read up to five polls before."""
    one = GroupStatus("agg-[1-2]", AGGREGATOR, 1, 37, NOW - 3, read_at=NOW - 11)
    [line] = [line for line in format_lines(SEEN._replace(groups=[one]), NOW, None) if "level"
              in line]
    assert line.endswith(": 0 of 0 up, by mgmt1.4711, 11 s ago")
    [group] = to_json_object(SEEN._replace(groups=[one]), NOW)["groups"]
    assert (11, NOW - 3, NOW - 11) == (group["age_s"], group["time"], group["read_at"])


def test_of_many_samplers_the_first_are_shown():
    many = GroupStatus("n", SAMPLER, rows=tuple(
        DaemonRow(f"node{number}", "down") for number in range(100)), unlisted=37)
    told = list(format_lines(SEEN._replace(groups=[many]), NOW, None))
    assert "  and 117 more" in told
    assert "  and 37 more" in list(format_lines(SEEN._replace(groups=[many]), NOW, None,
                                                every=True))


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width):
    assert all(measure_width(line) <= width for line in format_lines(SEEN, NOW, width))


texts = st.text(max_size=30) | st.integers() | st.none() | st.floats() | st.lists(st.text())


@given(st.dictionaries(st.text(max_size=9), st.dictionaries(st.sampled_from(
    ["since", "version", "ready", "revision", "group", "time", "problem", "settings"]), texts)))
def test_whatever_instances_and_agents_say_of_themselves_is_fit_for_a_terminal(found):
    made_of = {"".join(c for c in name if c.isprintable()): one for name, one in found.items()}
    for line in format_lines(SEEN._replace(instances=made_of, agents=made_of), NOW, 80):
        assert is_printable(line) and measure_width(line) <= 80
