"""
What is wrong with a description is told with its place; what looks wrong is a warning.
"""
from __future__ import annotations

import pytest
from fuzz.tools import within
from test_read import TODAY, lines

from iostats_ldms.description.problems import DescriptionError
from iostats_ldms.description.read import read_description

AGENTS = "iostats: [{hosts: 'oss[1-3]', settings: {%s}}]\n"


def changed(old, new, count=1):
    """TODAY with another text in it."""
    assert old in TODAY
    return TODAY.replace(old, new, count)


def placed(line, text):
    """(the text from where a problem points, what it says)."""
    _, row, column, said = line.split(":", 3)
    return text.split("\n")[int(row) - 1][int(column) - 1:], said[1:]


@pytest.mark.parametrize("text, there, expected", [
    (changed('"s-[1-12]"', '"s-[1-3,7-9]"'),
     '"n-[01-12',
     "daemons[0].hosts: expected as many hosts as names (6), or a divisor of that, got 12"),
    (changed('"s-[1-12]"', '"s/[1-12]"'),
     '&samplers "s/[1-12',
     "daemons[0].names: expected a daemon name without a slash (it is the name of a file), got "
     "'s/1'"),
    (changed('"s-[1-12]"', '"[1-12]"'),
     '&samplers "[1-12',
     "daemons[0].names: expected a daemon name with a letter, got '1'"),
    (changed('"s-[1-12]"', '"s-[12-1]"'),
     '&samplers "s-[12-1',
     "daemons[0].names: expected a range such as [1-10], from the lower number to the higher, of "
     "at most 1000000 names, got '12-1'"),
    (changed('"s-[1-12]"', '"s-[1-1000000000]"'),
     '&samplers "s-[1-10',
     "daemons[0].names: expected at most 1000000 names, got 's-[1-1000000000]'"),
    (changed('"s-[1-12]"', '"s-[[1-12]]"'),
     '&samplers "s-[[1-1',
     "daemons[0].names: expected a host list such as node-[1-10], got 's-[[1-12]]': '[1-12' is no "
     "number or range in brackets"),
    (changed('"s-[1-12]"', '"s-1-12]"'),
     '&samplers "s-1-12',
     "daemons[0].names: expected a host list such as node-[1-10], got the name 's-1-12]'"),
    (changed('"s-[1-12]"', "s" * 230),
     "&samplers ssssssss",
     "daemons[0].names: expected names of at most 229 bytes, got one of 230"),
    (changed('"s-[1-12]"', "s" * 227 + "ü\N{EURO SIGN}"),
     "&samplers ssssssss",
     "daemons[0].names: expected names of at most 229 bytes, got one of 232"),
    (changed('"s-[1-12]"', '"s-1\\nload"'),
     '&samplers "s-1\\nlo',
     "daemons[0].names: expected a host list such as node-[1-10], got the name 's-1\\nload'"),
    (changed('"agg-[1-3]"', '"s-[5-7]"'),
     '&agg "s-[5-7',
     "daemons[1].names: daemon 's-5' is defined already"),
    (changed("10037", "10037-10039"),
     "10037-10039",
     "daemons[0].endpoints[0].ports: expected ports from 1 to 65535, got '10037-10039'"),
    (changed("10037", '"[10037-10041]"'),
     '"[10037-10041',
     "daemons[0].endpoints[0].ports: expected as many ports as endpoints (12), or a divisor of "
     "that, got 5"),
    (changed('"s-[1-12]-ib"', '"s-[1-13]-ib"'),
     '&sampler-ends "s-[',
     "daemons[0].endpoints[0].names: expected as many endpoints as daemons (12), or a multiple of "
     "that, got 13"),
    (changed('"agg-[1-3]-10041"', '"s-[1-3]-ib"'),
     '"s-[1-3',
     "daemons[1].endpoints[0].names: endpoint 's-1-ib' is already defined for daemon 's-1'; "
     "endpoint names must be unique, since they name producers"),
    (changed("maestro_comm: true", "maestro_comm: perhaps"),
     "perhaps",
     "daemons[0].endpoints[0].maestro_comm: expected true or false, got 'perhaps'"),
    (changed("endpoints: *sampler-ends", "endpoints: s-[1-13]-ib"),
     "s-[1-13",
     "aggregators[0].peers[0].endpoints: no endpoint 's-13-ib': expected names of "
     "daemons[].endpoints; s-1 has s-1-ib"),
    (changed("- daemons: *samplers\n        end", "- daemons: s-[1-11]\n        end"),
     "*sampler-ends",
     "aggregators[0].peers[0].endpoints: endpoint 's-12-ib' is one of daemon 's-12', which is not "
     "in `daemons` here"),
    (changed("endpoints: *sampler-ends", "endpoints: agg-[1-3]-10041").replace(
             "- daemons: *samplers\n        end", "- end"),
     "agg-[1-3",
     "aggregators[0].peers[0].endpoints: 'agg-1' would collect from itself"),
    (changed("type: active", "type: activ"),
     "activ",
     "aggregators[0].peers[0].type: expected active, passive, advertised or bridge, got 'activ'; "
     "did you mean active?"),
    (changed("        reconnect: 20s\n", ""),
     "daemons: *samplers",
     "aggregators[0].peers[0]: reconnect is missing"),
    (changed("        reconnect: 20s\n", "        reconect: 20s\n"),
     "daemons: *samplers",
     "aggregators[0].peers[0]: reconnect is missing; found 'reconect'"),
    (changed("20s", ""),
     "",
     "aggregators[0].peers[0].reconnect: has no value"),
    (changed("20s", "50s40us"),
     "50s40us",
     "aggregators[0].peers[0].reconnect: expected an interval such as 20s, got '50s40us'"),
    (changed("20s", "${WAIT}"),
     "${WAIT",
     "aggregators[0].peers[0].reconnect: expected an interval such as 20s, got the variable "
     "'${WAIT}'; the balance needs its value"),
    (changed("1.5s", "0s"),
     "0s",
     "aggregators[0].peers[0].updaters[0].interval: expected an interval of more than 0 and at "
     "most a year, got '0s'"),
    (changed("1.5s", "1.5us"),
     "1.5us",
     "aggregators[0].peers[0].updaters[0].interval: expected whole microseconds, got '1.5us'"),
    (changed("1.5s", "99999999999d"),
     "99999999999d",
     "aggregators[0].peers[0].updaters[0].interval: expected an interval of more than 0 and at "
     "most a year, got '99999999999d'"),
    (changed("field: schema", "field: name"),
     "name",
     "aggregators[0].peers[0].updaters[0].sets[0].field: expected inst or schema, got 'name'"),
    (changed("[mem1]", "[mem2]"),
     "mem2",
     "samplers[0].plugins[0]: no plugin instance 'mem2': expected one of `plugins`; did "
     "you mean mem1?"),
    (changed("[mem1]", "mem1"),
     "mem1",
     "samplers[0].plugins: expected a list of plugin instances (each begins with -), got 'mem1'"),
    (changed("[mem1]", "[csv1]"),
     "{name: store_csv",
     "plugins.csv1: interval is missing: a sampler needs one"),
    (changed("name: meminfo, ", ""),
     '{interval: "1.0s"',
     "plugins.mem1: name is missing"),
    (changed("perm: 0777", "perm: {a: b}"),
     "{a: b",
     "plugins.mem1.config[0].perm: expected a text, got a mapping"),
    (changed("path: /data", "path: /my data"),
     "/my data",
     "plugins.csv1.config[0].path: expected a text without blanks, where ldmsd ends a value, got "
     "'/my data'"),
    (changed("plugin: csv1", "plugin: none"),
     "none",
     "stores.csv.plugin: no plugin instance 'none': expected one of `plugins`"),
    (changed("schema: meminfo, flush", "regex: mem.*, flush"),
     "{daemons: *agg",
     "stores.csv: schema is missing; only a store with a decomposition may have none"),
    (changed("schema: meminfo, flush", "decomposition: /d.json, flush"),
     "{daemons: *agg",
     "stores.csv: expected either schema or regex beside decomposition, got neither"),
    (changed("aggregators:", "aggregators:\n  - {daemons: agg-2}"),
     "*agg",
     "aggregators[1].daemons: 'agg-2' is in the group 'agg-2' already"),
    (changed("  - daemons: *agg\n", "  - daemons: *agg\n    capacity: {agg-4: 2}\n"),
     "2",
     "aggregators[0].capacity.agg-4: 'agg-4' is not an aggregator of this group; did you mean "
     "agg-3?"),
    (changed("  - daemons: *agg\n", "  - daemons: *agg\n    capacity: -2\n"),
     "-2",
     "aggregators[0].capacity: expected a number above 0, such as 0.5 or 2, got '-2'"),
    (changed("  - daemons: *agg\n", "  - daemons: *agg\n    balance: weights\n"),
     "weights",
     "aggregators[0].balance: expected producers or sets, got 'weights'"),
    (changed("    peers:\n", "    subscribe: [{stream: a, message_tag: b, regex: .*}]\n    peers:\n"
             ),
     "{stream: a",
     "aggregators[0].subscribe[0]: expected either stream or message_tag, got stream and "
     "message_tag"),
    (changed("    peers:\n", "    prdcr_listen: [{name: a, type: active, reconnect: 1s}]\n    "
             "peers:\n"),
     "{name: a",
     "aggregators[0].prdcr_listen[0]: advertiser_xprt is missing: an active listener connects to "
     "what advertises"),
    (changed("plugins: [mem1]", "plugins: [mem1], advertise: {names: a, hosts: b, xprt: sock, port:"
             " 10041, reconnect: 5s}"),
     "a",
     "samplers[0].advertise.names: expected as many names as daemons (12), got 1"),
    (TODAY + AGENTS % "harvest: {interval: soon}",
     "soon",
     "iostats[0].settings.harvest.interval: expected a number from 0 to 3600, got 'soon'"),
    (TODAY + AGENTS % "harvest: {spool_dir: /x}",
     "/x",
     "iostats[0].settings.harvest.spool_dir: requires a restart; expected interval, "
     "file_systems, exports, cpu_percent, spool_bytes"),
    (TODAY + AGENTS % "harvests: {interval: 20}",
     "{interval: 20",
     "iostats[0].settings.harvests: expected a section of site.cfg that may change at run time, "
     "harvest or events; did you mean harvest?"),
])
def test_a_problem(text, there, expected):
    """The first of the problems, and what stands where it points."""
    place, said = placed(lines(text)[0], text)
    assert expected == said
    assert place.startswith(there)


@pytest.mark.parametrize("text, expected", [
    ("", "1:1: expected a mapping with daemons, samplers, aggregators, got nothing"),
    ("- a\n", "1:1: expected a mapping with daemons, samplers, aggregators, got a list"),
    ("daemons:\n\t- a\n", "2:1: expected blanks as indentation, got a tab"),
    ("daemons: \0\n", "1:10: expected printable text in UTF-8, got a control character, '\\x00'"),
    ("daemons: caf\udce9\n",
     "1:13: expected printable text in UTF-8, got a byte that is not UTF-8, '\\udce9'"),
    ("daemons: []\n---\ndaemons: []\n", "2:1: expected one document, got a second (---)"),
    ("daemons: !!python/object/apply:os.system [ls]\n",
     "1:10: expected no tag, got 'tag:yaml.org,2002:python/object/apply:os.system'"),
    ("daemons: !include x\n", "1:10: expected no tag, got '!include'"),
    ("daemons: *nodes\n", "1:10: expected an anchor &nodes above it"),
    ("daemons: &a [*a]\n", "1:14: *a would be a part of itself"),
    ("daemons:\n- <<: 23\n", "2:7: expected a mapping after <<, got a scalar"),
    ("daemons: []\nsamplers: []\ndaemons: []\n", "3:1: daemons: duplicate key; the first is in "
     "line 1"),
    ("? [a, b]\n: 1\n", "1:3: expected a key, got a list"),
    ("daemons: " + "[" * 50 + "]" * 50, "1:49: expected at most 40 levels"),
    ("daemons: 'a\n", "2:1: expected YAML: found unexpected end of stream"),
    ("daemons: [a: b: c]\n", "1:15: expected YAML: "),
])
def test_what_is_no_description(text, expected):
    [line, *_] = lines(text)
    assert line.startswith(f"FILE:{expected}"), line


PART = """\
daemons:
  - {names: "s[1-2]", hosts: h, endpoints: [{names: "e[1-2]", ports: "[37-38]"}]}
  - {names: "a[1-2]", hosts: h, endpoints: [{names: "x[1-2]", ports: "[41-42]"}]}
"""
PEERS = "peers: [{endpoints: e1, reconnect: 1s, type: active%s}]"
PLUGIN = "plugins: {p: {name: m, interval: 1s, config: []}}\n"
STORE = "{daemons: a1, schema: s, plugin: {name: m, config: []}"


@pytest.mark.parametrize("more, expected", [
    ("plugins: {'a b': {name: m, config: []}}", "plugins.a b: expected a plugin instance's name "
     "without blanks"),
    ("plugins: {a: }", "plugins.a: expected a mapping with name, config, got nothing"),
    ("plugins: {a: {name: m, config: [23, [b]]}}",
     "plugins.a.config[1]: expected a mapping of attributes or a text, got a list"),
    ("plugins: {a: {name: m, config: [{b=: 1}]}}",
     "plugins.a.config[0].b=: expected the name of an attribute as the key, got 'b='"),
    (PLUGIN + "samplers: [{daemons: s1, plugins: [p, p]}]",
     "samplers[0].plugins[1]: 'p' is in this list already"),
    (PLUGIN + "samplers: [{daemons: s1, plugins: [~]}]",
     "samplers[0].plugins[0]: expected the name of a plugin instance, got nothing"),
    (PLUGIN + "samplers: [{daemons: s1, plugins: [p]}, {daemons: 's[1-2]', plugins: [p]}]",
     "samplers[1].plugins: s1 has 'p' already"),
    ("samplers: [{daemons: s3, plugins: []}]",
     "samplers[0].daemons: no daemon 's3': expected names of `daemons`"),
    ("samplers: [{daemons: {a: b}, plugins: []}]",
     "samplers[0].daemons: expected a host list such as node-[1-10], got a mapping"),
    ("samplers: [{daemons: [{a: b}], plugins: []}]",
     "samplers[0].daemons[0]: expected a name, got a mapping"),
    ("samplers: [{daemons: ',', plugins: []}]",
     "samplers[0].daemons: expected a host list such as node-[1-10], got an empty one"),
    ("samplers: [{daemons: s1, plugins: [], advertise: [{names: e2, to: x1, reconnect: 1s}]}]",
     "samplers[0].advertise[0].names: expected endpoints of this entry's daemons, got one of 's2'"),
    ("samplers: [{daemons: s1, plugins: [], advertise: [{names: e1, to: x3, reconnect: 1s}]}]",
     "samplers[0].advertise[0].to: no endpoint 'x3': expected names of "
     "daemons[].endpoints"),
    ("samplers: [{daemons: s1, plugins: [], advertise: {names: s1, hosts: h, xprt: sock, port: 0, "
     "reconnect: 1s}}]", "samplers[0].advertise.port: expected one port from 1 to 65535, or as "
     "many as hosts (1), got '0'"),
    ("aggregators: [{daemons: a1, " + PEERS % ", quota: 1, credits: 2" + "}]",
     "aggregators[0].peers[0].credits: expected quota or credits (its name until LDMS 4.4), got "
     "both"),
    ("aggregators: [{daemons: a1, " + PEERS % ", rail: 0" + "}]",
     "aggregators[0].peers[0].rail: expected a number from 1 to 1024, got '0'"),
    ("aggregators: [{daemons: a1, " + PEERS % ", perm: rwx" + "}]",
     "aggregators[0].peers[0].perm: expected permissions such as 0644 or rw-r--r--, got 'rwx'"),
    ("aggregators: [{daemons: a1, " + PEERS % "" + "}, {daemons: a1, "
     + (PEERS % "").replace("1s", "2s") + "}]",
     "aggregators[1].peers[0].endpoints: 'e1' is already a producer of this group, with "
     "different values"),
    ("aggregators: [{daemons: a1, balance: sets}, {daemons: a1, balance: producers}]",
     "aggregators[1].balance: is sets in another entry of these daemons"),
    ("aggregators: [{daemons: a1, prdcr_listen: [{name: l}, {name: l}]}]",
     "aggregators[0].prdcr_listen[1]: 'l' is already a listener of this group"),
    ("aggregators: [{daemons: a1, prdcr_listen: [{regex: l}]}]",
     "aggregators[0].prdcr_listen[0]: name is missing"),
    (f"stores: [{STORE}, name: c}}, {STORE}, name: c}}]",
     "stores[1]: 'c' is already a store"),
    (f"stores: [{STORE}}}]", "stores[0]: name is missing"),
    (f"stores: {{'a b': {STORE}}}}}",
     "stores.a b: expected the name of a storage policy without blanks"),
    (f"stores: {{a: {STORE}, regex: b}}}}",
     "stores.a.regex: expected no regex without a decomposition"),
    ("iostats: [{hosts: o1, settings: {}}, {hosts: o1, settings: {}}]",
     "iostats[1]: 'o1' is already a group"),
    ("plugins: {a: {name: m, interval: 1s, offset: 501ms, config: []}}",
     "plugins.a.offset: expected up to half of the interval, got '501ms'"),
    ("plugins: {a: {name: m, interval: 1s, offset: -501ms, config: []}}",
     "plugins.a.offset: expected up to half of the interval, got '-501ms'"),
    ("aggregators: [{daemons: a1, " + PEERS % ", updaters: [{interval: 1s, offset: 501ms}]" + "}]",
     "aggregators[0].peers[0].updaters[0].offset: expected up to half of the interval, got "
     "'501ms'"),
    ("iostats: [{hosts: o1, settings: {harvest: {x: 1}}}]",
     "iostats[0].settings.harvest.x: unknown key; expected interval, file_systems, exports, "
     "cpu_percent, spool_bytes"),
])
def test_a_problem_in_a_part(more, expected):
    with pytest.raises(DescriptionError) as refused:
        read_description(PART + more + "\n")
    [problem, *_] = refused.value.problems
    assert expected == f"{problem.path}: {problem.text}"


@pytest.mark.parametrize("more, expected", [
    ("aggregators: [{daemons: a1, " + PEERS % ", updaters: [{interval: 1s}]"
     + ", prdcr_listen: [{name: l, updaters: [{interval: 2s}]}]}]",
     "aggregators[0].prdcr_listen[0].updaters[0]: applies to all producers of the group: without "
     "`producers`, advertised ones cannot be distinguished"),
    ("aggregators: [{daemons: a1, prdcr_listen: [{names: e2}]}]",
     "aggregators[0].prdcr_listen[0].names: the listener is named listen_0 and accepts all "
     "advertised producers; set `regex` to restrict it"),
    ("aggregators: [{daemons: a1, prdcr_listen: [{name: l, auth: {name: d, plugin: own}}]}]",
     "aggregators[0].prdcr_listen[0].auth.plugin: 'own' is not one of LDMS' own: none, ovis, "
     "munge, naive"),
    ("aggregators: [{daemons: a1, prdcr_listen: [{name: l, auth: {name: d, plugin: ovis}}, "
     "{name: k, advertiser_auth: {name: d, plugin: munge, conf: {path: /x}}}]}]",
     "aggregators[0].prdcr_listen[1].advertiser_auth: domain 'd' is ovis elsewhere, and munge "
     "here"),
])
def test_a_warning_in_a_part(more, expected):
    _, [warning] = read_description(PART + more + "\n")
    assert expected == f"{warning.path}: {warning.text}"


BOTH = """\
plugins: {p: {name: m, interval: 1s, config: []}}
daemons:
  - {names: "s[1-4]", hosts: "n-[1-4].x.org", endpoints: [{names: "e[1-4]", ports: 37}]}
  - {names: "t[1-2]", hosts: "10.23.0.[1-2]", endpoints: [{names: "f[1-2]", ports: 37}]}
  - {names: "a[1-2]", hosts: "adm-[1-2]", endpoints: [{names: "x[1-2]", ports: 41}]}
samplers:
  - {daemons: "s[1-4]", plugins: [p],
     advertise: {names: "s[1-3]", hosts: "adm-2.x.org", xprt: sock, port: PORT, reconnect: 1s}}
  - {daemons: "t[1-2]", plugins: [p], advertise: [{names: f2, to: x1, reconnect: 1s}]}
aggregators:
  - daemons: "a[1-2]"
    prdcr_listen: [{name: b, regex: "^login", ip: 10.99.0.0/16}, {name: c, LISTEN}]
    peers: [{endpoints: ["e[2-4]", "f[1-2]"], reconnect: 1s, type: TYPE}]
"""


@pytest.mark.parametrize("listen, names", [
    ("ip: 10.0.0.0/8", "3 peers of this group, such as s2, advertise"),
    ("ip: 10.37.0.0/16", "2 peers of this group, such as s2, advertise"),
    ("regex: '^n-3$'", "2 peers of this group, such as s3, advertise"),
    ("regex: '^n-[[:digit:]].x.org'", "3 peers of this group, such as s2, advertise"),
    ("regex: '^n-1', ip: 10.37.0.0/16", None),
    ("disable_start: yes", None),
    ("PORT", None),
    ("TYPE", None),
])
def test_peers_that_advertise_to_their_own_group_are_warned_of(listen, names):
    """
    s2 and s3 advertise to a2, t2 (whose host's name is not known) to a1; s1 is no peer, and s4
    does not advertise.  Another port is another daemon's, `advertised` peers come only so.
    """
    text = BOTH.replace("PORT", "43" if listen == "PORT" else "41")
    text = text.replace("TYPE", "advertised" if listen == "TYPE" else "active")
    text = text.replace("LISTEN", "ip: 10.23.0.3/32" if listen == "PORT" else
                        "rail: 2" if listen == "TYPE" else listen)
    _, warnings = read_description(text)
    if names is None:
        assert [] == warnings
        return
    [warning] = warnings
    assert (12, 66, "aggregators[0].prdcr_listen[1]", f"{names} to it as well: their sets would be "
            "collected twice, and stored twice; remove them from `peers` or `advertise`, or "
            "exclude them by `regex` or `ip` here") == (
                warning.line, warning.column, warning.path, warning.text)


def bomb(levels, width):
    """Lists of aliases of lists of aliases."""
    text = "a0: &a0 [x]\n"
    for level in range(1, levels):
        text += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]\n"
    return text


MANY = ("daemons:\n- {names: 'd[1-90000]', hosts: h, endpoints: [{names: 'e[1-90000]', ports: 1}]}"
        "\n")


@pytest.mark.parametrize("text", [
    bomb(30, 23),
    "a: &a {" + ", ".join(f"k{number}: 1" for number in range(3000)) + "}\n"
    + "".join(f"b{number}: {{<<: *a}}\n" for number in range(3000)),
    "daemons: " + "[" * 200_000,
    "daemons: " + "- " * 200_000,
    "daemons:\n- names: [" + ", ".join(f"'x{number}-[1-99999]'" for number in range(60)) + "]\n"
    "  hosts: h\n  endpoints: []\n",
    "daemons:\n- {names: 'd[1-9]', hosts: h, endpoints: [{names: 'e[1-90000]', ports: 1}]}\n"
    "aggregators:\n" + "- {daemons: d1, peers: [{endpoints: 'e[10001-90000]', reconnect: 1s, "
    "type: active}]}\n" * 900,
    "a: " + "x" * (33 << 20),
    MANY + "plugins:\n" + "".join(f"  m{n}: {{name: m, interval: 1s, config: []}}\n"
                                  for n in range(400))
    + "samplers:\n- {daemons: 'd[1-90000]', plugins: ["
    + ",".join(f"m{n}" for n in range(400)) + "]}\n",
    MANY + "stores:\n" + "".join(f"  s{n}: {{daemons: 'd[1-90000]', plugin: m, schema: x}}\n"
                                 for n in range(400)),
    MANY + "aggregators:\n- daemons: d1\n  peers:\n  - {endpoints: 'e[2-80000]', reconnect: 1s, "
    "type: active, updaters: [" + ",".join(f"{{interval: {n}s}}" for n in range(1, 900))
    + "]}\n  - {endpoints: e90000, reconnect: 1s, type: active, updaters: [{interval: 1d}]}\n",
    MANY + "aggregators:\n- daemons: d1\n  peers:\n  - {endpoints: e2, reconnect: 1s, "
    "type: active, updaters: [" + ",".join(f"{{interval: {n}s, producers: 'd[1-90000]'}}"
                                           for n in range(1, 900)) + "]}\n",
], ids=["aliases", "merge keys", "depth", "depth in blocks", "names", "producers", "size",
        "plugins of daemons", "stores", "updaters", "producers of updaters"])
def test_a_bomb_is_one_line_and_costs_little(text):
    """TooSlow, where it takes a minute of CPU."""
    with within(60), pytest.raises(DescriptionError) as refused:
        read_description(text)

    assert all(len(line) < 400 for line in refused.value.format_lines())


def test_all_problems_of_a_file_are_told_at_once():
    """In the order of the file, the first twenty."""
    text = TODAY.replace("10037", "0").replace("1.5s", "soon").replace("csv1,", "csv9,")

    assert ["FILE:6", "FILE:20", "FILE:27"] == [
        line[:line.index(":", 5)] for line in lines(text)]
    many = "daemons:\n" + "- {}\n" * 37
    assert 21 == len(lines(many))
    # each lacks names, hosts and endpoints
    assert "FILE: 91 more problems are not shown" == lines(many)[-1]


ADVERTISE = ("plugins: [mem1], advertise: {names: 's-[1-12]', hosts: b, xprt: sock, port: 10041, "
             "reconnect: 5s}")


@pytest.mark.parametrize("text, expected", [
    (changed('"n-[01-12]"', '"n-[01-05]"'),
     "3:12: daemons[0].hosts: expected as many hosts as names (12), or a divisor of that, got 5"),
    (changed('"n-[01-12]"', '"n-[01-05"'),
     "3:12: daemons[0].hosts: expected a host list such as node-[1-10], got 'n-[01-05': 'n-[01-05' "
     "is no number or range in brackets"),
    (changed('    hosts: "n-[01-12]"\n', ""), "2:5: daemons[0]: hosts is missing"),
    (changed("hosts:", "hots:"), "2:5: daemons[0]: hosts is missing; found 'hots'"),
    (changed('"s-[1-12]"', '"s-[1-5]"'),
     "3:12: daemons[0].hosts: expected as many hosts as names (5), or a divisor of that, got 12"),
    (changed('"s-[1-12]"', '"s/[1-12]"').replace("*samplers", "'s-[1-12]'"),
     "2:12: daemons[0].names: expected a daemon name without a slash (it is the name of a file), "
     "got 's/1'"),
    (changed('&samplers "s-[1-12]"', '""').replace("*samplers", "'s-[1-12]'"),
     "2:12: daemons[0].names: has no value"),
    (changed("10037", "70037"),
     "6:16: daemons[0].endpoints[0].ports: expected ports from 1 to 65535, got '70037'"),
    (changed('&sampler-ends "s-[1-12]-ib"', '"s-[1-13]-ib"').replace("*sampler-ends",
                                                                     "s-[1-12]-ib"),
     "5:16: daemons[0].endpoints[0].names: expected as many endpoints as daemons (12), or a "
     "multiple of that, got 13"),
    (changed("    endpoints:\n", "    endpoint:\n"),
     "2:5: daemons[0]: endpoints is missing; found 'endpoint'"),
    (changed("  - daemons: *agg\n", "  - daemons: aggs-[1-3]\n    capacity: {agg-3: 2}\n"),
     "13:14: aggregators[0].daemons: no daemon 'aggs-1' and 2 more: expected names of "
     "`daemons`"),
    (TODAY.replace("{daemons: *samplers, plugins: [mem1]}",
                   "{daemons: 's-[1-13]', %s}" % ADVERTISE),
     "22:15: samplers[0].daemons: no daemon 's-13': expected names of `daemons`"),
    (changed("daemons:\n", "daemon:\n"),
     "1:1: expected a section daemons, or iostats; found 'daemon'"),
    (changed("plugins:\n", "plugin:\n"),
     "22:36: samplers[0].plugins[0]: no plugin instance 'mem1': expected one of "
     "`plugins`; found 'plugin'"),
    (changed('interval: "1.0s"', "interval: {s: 1}"),
     "24:35: plugins.mem1.interval: expected an interval such as 20s, got a mapping"),
    (changed("schema: meminfo, flush", "schema: mem info, flush"),
     "27:60: stores.csv.schema: expected a text without blanks, where ldmsd ends a value, got 'mem "
     "info'"),
    (TODAY + AGENTS % "harvest: {interval: {s: 1}}",
     "28:62: iostats[0].settings.harvest.interval: expected a text, got a mapping"),
])
def test_one_fault_is_one_line(text, expected):
    """What is wrong because something else is wrong is not told, and nothing of it is used."""
    assert [f"FILE:{expected}"] == lines(text)


def test_the_error_is_one_line_for_who_prints_it():
    with pytest.raises(DescriptionError) as refused:
        read_description(TODAY.replace("20s", "soon").replace("1.5s", "then"), "cluster.yaml")

    assert ("cluster.yaml:17:20: aggregators[0].peers[0].reconnect: expected an interval such as "
            "20s, got 'soon' (and 1 more: iostats ldms check)") == str(refused.value)
    assert 1 == refused.value.exit_status


@pytest.mark.parametrize("text, there, expected", [
    (changed("maestro_comm", "maestro_com"),
     "true",
     "daemons[0].endpoints[0].maestro_com: unknown key, which is ignored; did you mean "
     "maestro_comm?"),
    (changed("offset: 100ms", "offsets: 100ms"),
     "100ms",
     "aggregators[0].peers[0].updaters[0].offsets: unknown key, which is ignored; did you mean "
     "offset?"),
    (TODAY + "storage: {}\n",
     "{",
     "storage: unknown key, which is ignored; did you mean stores?"),
    (changed("    hosts:", "    stream_enabled: true\n    hosts:"),
     "true",
     "daemons[0].stream_enabled: treated as an option of ldmsd, --stream_enabled; did you mean "
     "stream_enable?"),
    (changed('"s-[1-12]"', '"s-[1-12,7]"'),
     '&samplers "s-[1-12',
     "daemons[0].names: s-7 is listed twice; the duplicate is ignored"),
    (changed("1.5s", "20").replace("offset: 100ms", "offset: 10us"),
     "20",
     "aggregators[0].peers[0].updaters[0].interval: 20 without a unit is microseconds; write 20s "
     "for seconds"),
    (changed("endpoints: *sampler-ends", "endpoints: s-[1-11]-ib"),
     "s-[1-11",
     "aggregators[0].peers[0].endpoints: no endpoint of 1 of the daemons, such as s-12: they are "
     "not collected"),
    (changed('"admin-[23-25]"', "n-07").replace("10041", "10037"),
     '"agg-[1-3',
     "daemons[1].endpoints[0].names: s-7 and agg-1 both listen at n-07:10037 (sock)"),
    (changed("daemons: *agg, plugin", "daemons: s-3, plugin"),
     "csv: {daemons: s-3",
     "stores: csv: s-3 is not an aggregator, so it stores nothing"),
    (changed('regex: "mem.*"', 'regex: "mem("'),
     '"mem("',
     "aggregators[0].peers[0].updaters[0].sets[0].regex: probably not a regular expression: "
     "missing "
     "), unterminated subpattern at position 3"),
    (changed("{schema: meminfo, perm: 0777}", "perm=0o640"),
     "perm=0o640",
     "plugins.mem1.config[0]: ldmsd reads perm=0o640 as 0, and refuses that; write perm=0640"),
])
def test_a_warning(text, there, expected):
    _, [warning] = read_description(text)
    place, said = placed(warning.format_line("FILE"), text)
    assert expected == said
    assert place.startswith(there)
