"""
Descriptions of all generations of the schema: what they say, and where they are wrong.
"""

import pytest

from iostats_ldms.description.model import (
    Advertise,
    AgentGroup,
    Auth,
    Endpoint,
    Plugin,
    SetMatch,
    StoragePolicy,
    Updater,
)
from iostats_ldms.description.problems import DescriptionError
from iostats_ldms.description.read import read_description

TODAY = """\
daemons:
  - names: &samplers "s-[1-12]"
    hosts: "n-[01-12]"
    endpoints:
      - names: &sampler-ends "s-[1-12]-ib"
        ports: 10037
        maestro_comm: true
        auth: {name: ovis1, plugin: ovis, conf: /etc/ldms/secret}
  - names: &agg "agg-[1-3]"
    hosts: "admin-[23-25]"
    endpoints: [{names: "agg-[1-3]-10041", ports: 10041, maestro_comm: true}]
aggregators:
  - daemons: *agg
    peers:
      - daemons: *samplers
        endpoints: *sampler-ends
        reconnect: 20s
        type: active
        updaters:
          - {interval: 1.5s, offset: 100ms, sets: [{regex: "mem.*", field: schema}]}
samplers:
  - {daemons: *samplers, plugins: [mem1]}
plugins:
  mem1: {name: meminfo, interval: "1.0s", config: [{schema: meminfo, perm: 0777}]}
  csv1: {name: store_csv, config: [{path: /data, altheader: 0}]}
stores:
  csv: {daemons: *agg, plugin: csv1, container: c, schema: meminfo, flush: 10s}
"""


def read(text):
    """The normal form of a text that nothing is to be said of."""
    found, warnings = read_description(text)
    assert [] == warnings
    return found


def lines(text):
    """The problems of a text that is refused."""
    with pytest.raises(DescriptionError) as refused:
        read_description(text)
    return refused.value.format_lines()


def test_a_description_of_today():
    """Names and hosts are paired as they are written: s-10 is on n-10, and not on n-02."""
    found = read(TODAY)

    assert 15 == len(found.daemons)
    assert "n-10" == found.daemons["s-10"].host
    assert Endpoint("s-10-ib", "n-10", 10037, "sock", Auth("ovis1", "ovis", "/etc/ldms/secret"),
                    True) == found.daemons["s-10"].control
    [group] = found.aggregators
    assert ("agg-[1-3]", ("agg-1", "agg-2", "agg-3"), 1) == (group.name, group.members, group.level)
    assert [f"s-{number}-ib" for number in range(1, 13)] == [one.name for one in group.producers]
    assert {20_000_000} == {one.reconnect_us for one in group.producers}
    [updater] = group.updaters
    assert Updater("updtr_0", 1_500_000, 100_000, "pull",
                   sets=(SetMatch("mem.*", "schema"),)) == updater
    assert Plugin("mem1", "meminfo", ((("schema", "meminfo"), ("perm", "0777")),),
                  1_000_000) == found.plugins["mem1"]
    assert (StoragePolicy("csv", ("agg-1", "agg-2", "agg-3"), "csv1", "c", "meminfo",
                          flush_us=10_000_000),) == found.stores


def test_a_problem_has_its_place():
    assert ["FILE:17:20: aggregators[0].peers[0].reconnect: expected an interval such as 20s, got "
            "'soon'"] == lines(TODAY.replace("20s", "soon"))


# -- what the parts mean -------------------------------------------------------------------------

def cluster(aggregators, more="", l1_more=""):
    """Six samplers s1 to s6 with one endpoint each (e1 to e6), aggregators a1 to a4 (x1 to x4)."""
    return (f"""\
daemons:
  - {{names: "s[1-6]", hosts: "n[1-6]", endpoints: [{{names: "e[1-6]", ports: 10037}}]}}
  - {{names: "a[1-4]", hosts: "m[1-2]",
     endpoints: [{{names: "x[1-4]", ports: "[41-42]"{l1_more}}}]}}
aggregators:
{aggregators}{more}""")


def peers(endpoints, updaters="[{interval: 1s}]", more=""):
    """One entry of peers."""
    return (f"{{endpoints: '{endpoints}', reconnect: 23s, type: active, updaters: {updaters}"
            f"{more}}}")


def test_hosts_have_several_daemons_in_a_row_and_ports_come_by_turns():
    found = read(cluster("  []"))

    assert [("a1", "m1", 41), ("a2", "m1", 42), ("a3", "m2", 41), ("a4", "m2", 42)] == [
        (one.name, one.host, one.endpoints[0].port) for one in found.daemons.values()
        if one.name.startswith("a")]


def test_an_updater_is_for_the_producers_of_its_entry():
    """One for all has none; the same one in two entries is one; `.*` is all."""
    found = read(cluster(
        "  - daemons: a1\n    peers:\n"
        f"    - {peers('e[1-2]', '[{interval: 1s}, {interval: 5s}]')}\n"
        f"    - {peers('e[3-4]')}\n    - {peers('e5', '[]')}\n"
        f"  - daemons: a2\n    peers: [{peers('e[1-6]', '[{interval: 7s}]')}]\n"
        f"  - daemons: a3\n    peers:\n    - {peers('e[1-3]', '[{interval: 7s}]')}\n"
        f"    - {peers('e[4-6]', '[{interval: 7s, mode: push, producers: .*}]')}\n"))

    assert [
        [("updtr_0", 1_000_000, ()), ("updtr_1", 5_000_000, ("^(e1|e2)$",))],
        [("updtr_2", 7_000_000, ())],
        [("updtr_3", 7_000_000, ("^(e1|e2|e3)$",)), ("updtr_4", 7_000_000, ())],
    ] == [[(one.name, one.interval_us, one.producers) for one in group.updaters]
          for group in found.aggregators]


@pytest.mark.parametrize("written, expected", [
    ("s-[1-3]", ("^s-1$", "^s-2$", "^s-3$")), ("s-1,s-2", ("^s-1$", "^s-2$")),
    ("s-1", ("s-1",)), ("^s-[0-9]+$", ("^s-[0-9]+$",)), ("a{1,2}", ("a{1,2}",)),
    ("s.[1-2]", ("s.[1-2]",)), ("[a, b.*]", ("a", "b.*")), ("[{regex: x}]", ("x",)),
])
def test_producers_of_an_updater(written, expected):
    """A host list is names, which match themselves alone: s-1 is not s-10."""
    text = written if written.startswith("[") else f"'{written}'"
    found = read(cluster("  - daemons: a1\n    peers: ["
                         + peers("e1", f"[{{interval: 1s, producers: {text}}}]") + "]\n"))

    assert expected == found.aggregators[0].updaters[0].producers


def test_levels_follow_from_the_producers():
    """In whatever order they are written; one that advertises is below as well."""
    found = read(cluster(
        f"  - daemons: a4\n    peers: [{peers('x3')}]\n"
        f"  - daemons: a3\n    peers: [{peers('x1,e6')}]\n"
        f"  - daemons: a1\n    peers: [{peers('e[1-5]')}]\n"
        "    advertise: {names: a1, hosts: m1, xprt: sock, port: 42, reconnect: 5s}\n"
        "  - daemons: a2\n    prdcr_listen: [{name: lis}]\n"))

    assert {"a4": 3, "a3": 2, "a1": 1, "a2": 2} == {
        group.name: group.level for group in found.aggregators}


def test_a_circle_of_aggregators_is_refused():
    assert ["FILE:6:5: aggregators[0]: these aggregators collect from themselves, through 'a2'"
            ] == lines(cluster(f"  - daemons: a1\n    peers: [{peers('x2')}]\n"
                               f"  - daemons: a2\n    peers: [{peers('x1')}]\n"))


def test_sets_are_balanced_on_the_first_level_alone():
    text = cluster(f"  - {{daemons: 'a[1-2]', balance: sets, peers: [{peers('e1')}]}}\n"
                   f"  - {{daemons: a3, balance: @, peers: [{peers('x[1-2]')}]}}\n")

    assert ["sets", "producers"] == [
        group.balance for group in read(text.replace("@", "producers")).aggregators]
    assert ["FILE:7:5: aggregators[1]: expected balance: producers, got sets: this group is of "
            "level 2, and sets are balanced on level 1"] == lines(text.replace("@", "sets"))


@pytest.mark.parametrize("written, expected", [
    ("2", (("a1", 2.0), ("a2", 2.0))), ("{a2: 0.5}", (("a2", 0.5),)),
    ("{a2: 0.5, a1: 3}", (("a1", 3.0), ("a2", 0.5))),
])
def test_capacity(written, expected):
    [group] = read(cluster(f"  - {{daemons: 'a[1-2]', capacity: {written}}}\n")).aggregators
    assert expected == group.capacity


def test_entries_of_the_same_daemons_are_one_group():
    [group] = read(cluster(f"  - {{daemons: 'a[1-2]', peers: [{peers('e[1-2]')}]}}\n"
                           f"  - {{daemons: 'a[1-2]', peers: [{peers('e[3-5]')}]}}\n")).aggregators

    assert ["e1", "e2", "e3", "e4", "e5"] == [one.name for one in group.producers]
    assert 1 == len(group.updaters)


def test_what_advertises_to_hosts_and_to_endpoints():
    """An endpoint's own port and domain are what is advertised to."""
    text = cluster("  - {daemons: a1, prdcr_listen: [{name: lis}]}\n", """\
samplers:
  - daemons: "s[1-2]"
    plugins: []
    advertise: {names: "s[1-2]", hosts: "m[1-2]", xprt: sock, port: "41", reconnect: 5s, rail: 3}
  - daemons: "s[3-4]"
    plugins: []
    advertise: [{names: e3, to: "x[2-3]", reconnect: 7s, credits: 37}]
""", ", auth: {name: d, plugin: ovis}")
    first, second = read(text).samplers

    assert {"s1": ["s1-m1", "s1-m2"], "s2": ["s2-m1", "s2-m2"]} == {
        daemon: [one.name for one in entries] for daemon, entries in first.advertises}
    assert Advertise("s2-m2", "m2", 41, "sock", 5_000_000, rail=3) == first.advertises[1][1][1]
    domain = Auth("d", "ovis")
    assert (("s3", (Advertise("s3-m1", "m1", 42, "sock", 7_000_000, domain, quota=37),
                    Advertise("s3-m2", "m2", 41, "sock", 7_000_000, domain, quota=37))),
            ) == second.advertises


@pytest.mark.parametrize("written, expected", [
    ("{a: 23, b: , c: [1, ~, '3'], d: ''}",
     (("a", "23"), ("b", None), ("c", "1"), ("c", None), ("c", "3"), ("d", ""))),
    ("{n: null, q: 'null', t: 0777, u: yes, v: 1:30}",
     (("n", None), ("q", "null"), ("t", "0777"), ("u", "yes"), ("v", "1:30"))),
    ("{perm: rw-r-----, x: rw-r-----}", (("perm", "0640"), ("x", "rw-r-----"))),
    ("'a=b  c'", "a=b  c"),
])
def test_a_line_of_a_plugins_configuration(written, expected):
    """Numbers and words stay what was written; nothing is a keyword."""
    found = read(f"daemons: []\nplugins: {{p: {{name: m, config: [{written}]}}}}\n")
    assert (expected,) == found.plugins["p"].config


def test_inline_plugins_with_another_configuration_are_numbered():
    """A line written as a text and as a mapping is the same."""
    text = cluster("  - daemons: a1\n", """\
samplers:
  - {daemons: s1, plugins: [{name: meminfo, interval: 1s, config: ["a=23"]}]}
  - {daemons: s2, plugins: [{name: meminfo, interval: 1s, config: [{a: 23}]}]}
  - {daemons: s3, plugins: [{name: meminfo, interval: 2s, config: [{a: 23}]}]}
""")
    found, [warning] = read_description(text)

    assert [("meminfo",), ("meminfo",), ("meminfo_2",)] == [
        group.plugins for group in found.samplers]
    assert 2_000_000 == found.plugins["meminfo_2"].interval_us
    assert ("FILE:10:29: samplers[2].plugins[0]: this meminfo differs from the first "
            "one: this instance is named meminfo_2") == warning.format_line("FILE")


@pytest.mark.parametrize("written, expected", [
    ("pull", "pull"), ("push", "push"), ("onchange", "onchange"), ("auto", "auto_interval"),
    ("auto_interval", "auto_interval"),
])
def test_the_mode_of_an_updater(written, expected):
    """LDMS makes auto of pull; here pull is pull."""
    found = read(cluster("  - daemons: a1\n    peers: ["
                         + peers("e1", f"[{{interval: 1s, mode: {written}}}]") + "]\n"))

    assert expected == found.aggregators[0].updaters[0].mode


@pytest.mark.parametrize("written, expected_us", [
    ("1.5s", 1_500_000), ("1.5S", 1_500_000), ("2us", 2), ("3m", 180_000_000), ("1.1s", 1_100_000),
    ("1h", 3_600_000_000), ("1d", 86_400_000_000), ("2 ms", 2000), ("1000000", 1_000_000),
    ("0.000001s", 1), (".5s", 500_000),
])
def test_an_interval(written, expected_us):
    """Exactly, and not by way of a float: 1.1 s are 1,100,000 us."""
    found, _ = read_description(f"daemons: []\nplugins: {{p: {{name: m, interval: {written}, "
                           "config: []}}\n")
    assert expected_us == found.plugins["p"].interval_us


def test_daemons_have_environment_and_options():
    """Other keys are ldmsd's options; what is false is not there."""
    found = read("""\
daemons:
  - names: d
    hosts: h
    endpoints: [{names: e, ports: 37, bind_all: true, hosts: ib}]
    environment: {LDMSD_MEM_SZ: 1g, B: "x y"}
    stream_enable: true
    msg_enable: false
    log_level: INFO
    metric_sets_default_authz: {uid: 0, perm: rw-rw-r--}
""").daemons["d"]

    assert (("LDMSD_MEM_SZ", "1g"), ("B", "x y")) == found.environment
    assert (("stream_enable", "true"), ("log_level", "INFO"),
            ("metric_sets_default_authz", (("uid", "0"), ("perm", "0664")))) == found.options
    assert Endpoint("e", "ib", 37, listens_everywhere=True) == found.endpoints[0]


def test_agents_are_groups_with_settings_of_site_cfg():
    found, [warning] = read_description("""\
iostats:
  - {hosts: "oss[1-2].example.org", settings: {harvest: {interval: 10, exports: no}}}
  - {names: mds, hosts: [mds1, oss2], settings: {harvest: {file_systems: [a, b]}}}
""")

    assert (AgentGroup("oss[1-2].example.org", ("oss1", "oss2"),
                       (("harvest.interval", "10"), ("harvest.exports", "no"))),
            AgentGroup("mds", ("mds1", "oss2"), (("harvest.file_systems", "a b"),))
            ) == found.agents
    assert ("FILE:3:25: iostats[1].hosts: oss2 is in oss[1-2].example.org already; that entry "
            "applies"
            ) == warning.format_line("FILE")


@pytest.mark.parametrize("text", ["daemons:\n", "daemons: ~\nsamplers: []\n", "iostats:\n"])
def test_a_file_that_was_cut_off_after_a_section_is_no_empty_description(text):
    with pytest.raises(DescriptionError) as caught:
        read_description(text)
    assert ["FILE:1:1: expected a section daemons, or iostats"] == [
        one.format_line("FILE") for one in caught.value.problems]
