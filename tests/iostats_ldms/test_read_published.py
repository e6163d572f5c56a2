"""
Every example that Maestro and LDMS publish: it loads, with these counts, or is refused in this
line.

The texts here are ours, the smallest with the same shape and the same fault; the originals are
Maestro 1fbfbab, a184771 and e529e3f (README.md, config/), LDMS v4.5.3 (ldmsd_yaml_parser.rst,
parser_util.py, ldms/scripts/examples/) and LDMS main (ldms/test/yaml-cluster/).
"""
from __future__ import annotations

from pathlib import Path

import pytest
from trees import shared

from iostats_ldms.description.convert import to_yaml
from iostats_ldms.description.problems import DescriptionError
from iostats_ldms.description.read import read_description

# Maestro's README until 2024, and the page that the issue was written from.
SEED = """\
daemons:
  - names : &smplrs "cpu-[1-7]"
    hosts : "c-[1-7]"
    endpoints :
      - names : &ends "c-[1-7]-[10023]"
        ports : &ports "[10023]"
        maestro_comm : True
        xprt  : sock
        auth  : {name : ov1, plugin : ovis, conf : /etc/secret}
      - names : "c-[1-7]-10023/rdma"
        ports : *ports
        xprt  : rdma
        auth  : {name : mu1, plugin : munge}
  - names : &l1 "one-[11-13]"
    hosts : "c-[11-13]"
    endpoints :
      - {names : &l1-ends "c-[11-13]-[10037]", ports : "[10037]",
         auth : {name : mu1, plugin : munge}}
  - names : &l2 "two"
    hosts : "c-15"
    endpoints : [{names : "c-[15]", ports : "[10041]"}]
aggregators:
  - daemons   : *l1
    prdcr_listen : # a comment
      - names : *ends
        reconnect : 20s
    peers     :
      - endpoints : *ends
        reconnect : 20s
        type      : active
        credits   : -1
        rail      : 1
        updaters  :
          - {mode : pull, interval : "1.0s", offset : "0ms", sets : [{regex : .*, field : inst}]}
    subscribe : [{stream : a-stream, regex : .*, rx_rate : -1}]
  - daemons   : *l2
    peers     :
      - endpoints : *l1-ends
        reconnect : 20s
        type      : active
        updaters  : [{mode : pull, interval : "1.0s"}]
samplers:
  - daemons : *smplrs
    advertise: [{names : *ends, to : *l1-ends, reconnect : 20s}]
    plugins :
      - {name : meminfo, interval : "1.0s", config : [{schema : meminfo, perm : "0o777"}]}
      - name     : vmstat
        interval : "1.0s"
        config   : ["schema=vmstat perm=0o777"]
stores:
  - name      : sos-mem
    daemons   : *l2
    container : data
    schema    : meminfo
    plugin : {name : store_sos, config : [{path : /DATA}]}
  - name      : sos-vm
    daemons   : *l2
    container : data
    schema    : vmstat
    flush     : 10s
    plugin : {name : store_sos, config : [{path : /DATA}]}
"""

# Maestro 1fbfbab, config/example_config.yaml: the first peers entry names an endpoint that no
# daemon has; set right, two plugins called meminfo differ.
EXAMPLE_2024 = """\
daemons:
  - {names : "cpu-1", hosts : "c-1", endpoints : [{names : "c-1", ports : 10023}]}
  - names : &smplrs "cpu-[2-7]"
    hosts : "c-[2-7]"
    endpoints : [{names : &ends "c-[2-7]-10023", ports : 10023}]
  - names : &l1 "one-[1-3]"
    hosts : "c-1"
    endpoints :
      - {names : "c-1-[10041-10043]", ports : "[10041-10043]", maestro_comm : True}
      - {names : "lis-[1-3]", hosts : "c-[1-3]", ports : 10044, maestro_comm : False}
aggregators:
  - daemons : *l1
    peers   :
      - daemons   : "cpu-1"
        endpoints : "c-1-10023"
        reconnect : 20s
        type      : active
        updaters  : [{mode : auto, interval : "1.0s"}]
      - daemons   : *smplrs
        endpoints : *ends
        reconnect : 20s
        type      : active
        updaters  : [{mode : auto, interval : "1.0s"}]
samplers:
  - daemons : "cpu-1"
    plugins : [{name : meminfo, interval : 1.0s, config : ['schema=meminfo producer=cpu-1']}]
  - daemons : *smplrs
    plugins : [{name : meminfo, interval : 1.0s, config : [{schema : meminfo}]}]
"""

# Maestro a184771 and e529e3f, config/example_config.yaml and README.md: an endpoint that is one
# blank too far in, and a line that is two too far in.
EXAMPLE_2026 = """\
daemons:
  - names : &smplrs "cpu-[1-7]"
    hosts : "c-[1-7]"
    endpoints :
      - {names : &ends "c-[1-7]-[10023-10024]", ports : "[10023-10024]", maestro_comm : True}
  - names : &l1 "one-[1-3]"
    hosts : "c-[2-4]"
    endpoints :
      - {names : "c-[2-4]-10041", ports : 10041}
@      - names : "lis-[1-3]"
@        hosts : "c-[1-3]"
@        ports : 10044
@        xprt : sock
@         auth : {name : mu1, plugin : munge}
aggregators:
  - daemons : *l1
    peers   :
      - daemons   : *smplrs
        endpoints : *ends
        reconnect : 20s
        type      : active
        updaters  : [{mode : auto, interval : "1.0s", offset : "0ms"}]
samplers:
  - {daemons : *smplrs, plugins : [meminfo1]}
plugins:
  meminfo1 : {name : meminfo, interval : 1.0s, config : [{schema : meminfo}]}
  store_sos1 : {name : store_sos, config : [{path : /DATA}]}
stores :
  - {name : sos-mem, daemons : *l1, container : data, schema : meminfo, flush : 10s,
     plugin : store_sos1}
"""

# a184771, config/example_advertiser_config.yaml: LDMS refuses stores as a list.
ADVERTISERS = """\
daemons:
  - names : &smplrs "cpu-[1-7]"
    hosts : "c-[01-07]"
    endpoints : [{names : "c-[01-07]-10023", ports : 10023}]
  - names : &l1 "one-[1-3]"
    hosts : &l1-hosts "c-[01-03]"
    endpoints : [{names : &l1-ends "c-[01-03]-10041", ports : 10041,
                  auth : {name : mu1, plugin : munge}}]
  - {names : &l2 "two", hosts : "c-01", endpoints : [{names : "c-01-10043", ports : "10043"}]}
aggregators:
  - daemons   : *l1
    prdcr_listen :
      - name   : 'lis'
        reconnect : 20s
        updaters : [{mode : auto, interval : "1.0s", offset : "500ms"}]
  - daemons : *l2
    peers : [{daemons : *l1, endpoints : *l1-ends, reconnect : 20s, type : active,
              updaters : [{mode : onchange, interval : "1.0s"}]}]
samplers:
  - daemons : *smplrs
    advertise : {names : *smplrs, hosts : *l1-hosts, xprt : sock, port : 10041, reconnect : 20s,
                 auth : {name : munge}}
    plugins : [meminfo1]
plugins :
  meminfo1: {name : meminfo, interval : "8.0s", offset : "1ms", config : [{schema : meminfo}]}
  store_sos1 : {name : store_sos, config : [{path : /DATA}]}
stores:
  - {name : sos-mem, daemons : *l2, container : data, schema : meminfo, plugin : store_sos1}
"""

# LDMS v4.5.3, ldms/scripts/examples/yepilog.*: pieces with a shell's variables.
YEPILOG = """\
daemons:
- names: "loc[1-3]"
  hosts: "${HOST}"
  endpoints:
  - {names: "loc[1-3]", ports: "[10023-10025]", xprt: @, auth: {name: none, plugin: none}}
aggregators:
- daemons: "loc3"
  peers:
  - {daemons: "loc[1-2]", endpoints: "loc[1-2]", reconnect: "1.0s", type: active,
     updaters: [{mode: pull, interval: "1.0s", offset: "100ms"}]}
samplers:
- {daemons: "loc[1-2]", plugins: ["${plugname}"]}
plugins:
  ${plugname}: {name: meminfo, interval: "1s", config: [{producer: "loc${i}", perm: "0644"}]}
  store_csv : {name : store_csv, config : [{path: "${STOREDIR}", altheader: 0}]}
stores:
  store_${testname}: {daemons : "loc3", plugin : store_csv, container : node, schema : s,
    flush : 10s}
"""

# LDMS main, ldms/test/yaml-cluster/block_generic.yaml and large_generic.yaml: anchors in a section
# of their own, merge keys; agg and sampler of a node have the same port there, too.
BLOCK = """\
---
defaults:
  port: &OVIS {xprt: sock, auth: {name: ovis, plugin: ovis}, ports: 20023, bind_all: False}
  agg: &AGG {reconnect: "20s", type: active, updaters: [{mode: pull, interval: "1.0s"}]}
  schema: &SCHEMA {component_id: "${COMPONENT_ID}", perm: "0644"}
  comment: "---------------"
  all: &ALL "cn[1-41],adm[1-3]"
  all_ib: &ALL_IB "cn[1-41]-ib0,adm[1-3]-ib0"
  adm: &ADM "adm[1-3]"
  adm_agg: &ADM_AGG "adm[1-3]-agg"
daemons:
- names: *ADM_AGG
  hosts: *ADM
  stream_enable: true
  endpoints: [{names: "adm[1-3]-agg-ovis", <<: *OVIS}]
- names: *ALL
  hosts: *ALL
  endpoints: [{names: *ALL, <<: *OVIS}, {names: *ALL_IB, hosts: *ALL_IB, <<: *OVIS}]
samplers:
- {daemons: *ADM, plugins: [mem_60s]}
- {daemons: "cn[1-41]", plugins: [mem_60s, jobid_60s]}
- {daemons: *ADM_AGG, plugins: [mem_60s]}
aggregators:
- daemons: *ADM_AGG
  peers:
  - {daemons: *ALL, endpoints: *ALL_IB, <<: *AGG}
plugins:
  jobid: &JOBID
    name: jobid
    offset: -100000
    config: [{schema: jobid, <<: *SCHEMA}]
  jobid_60s: {interval: "60s", <<: *JOBID}
  mem: &MEM {name: meminfo, config: [{schema: meminfo, <<: *SCHEMA}]}
  mem_60s: {interval: "60s", <<: *MEM}
"""


def without(text, marks="@"):
    """The text with the lines that begin with a mark in their right place, or without them."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(marks))


def counts(text):
    """
    (daemons; of each aggregator group members, level, producers, updaters; of each sampler group
    members, plugins, daemons that advertise; plugins; stores; warnings)
    """
    found, warnings = read_description(text)
    return (len(found.daemons),
            [(len(group.members), group.level, len(group.producers), len(group.updaters))
             for group in found.aggregators],
            [(len(group.members), len(group.plugins), len(group.advertises))
             for group in found.samplers],
            len(found.plugins), len(found.stores), len(warnings))


@pytest.mark.parametrize("text, expected", [
    # 7 + 3 + 1; `names` of prdcr_listen, peers that advertise, and perm=0o777 in a text are warned
    # of
    (SEED, (11, [(3, 1, 7, 1), (1, 2, 3, 1)], [(7, 2, 7)], 3, 2, 3)),
    (EXAMPLE_2024.replace('"c-1-10023"', '"c-1"'),
     # the two updaters are one and the same; the second meminfo is meminfo_2
     (10, [(3, 1, 7, 1)], [(1, 1, 0), (6, 1, 0)], 2, 0, 1)),
    # two endpoints of each sampler: its sets come twice
    (without(EXAMPLE_2026), (10, [(3, 1, 14, 1)], [(7, 1, 0)], 2, 1, 1)),
    (ADVERTISERS, (11, [(3, 1, 0, 1), (1, 2, 3, 1)], [(7, 1, 7)], 2, 1, 0)),
    (YEPILOG.replace("@", "sock"), (3, [(1, 1, 2, 1)], [(2, 1, 0)], 2, 1, 0)),
    # 41 + 3 daemons that sample, 3 that aggregate; two of a node have one port
    (BLOCK, (47, [(3, 1, 44, 1)], [(3, 1, 0), (41, 2, 0), (3, 1, 0)], 4, 0, 1)),
], ids=["README of 2024", "example_config of 2024, with the endpoint's name set right",
        "example_config of 2026, without the lines that are off", "example_advertiser_config",
        "yepilog, with its variable", "block_generic and large_generic"])
def test_it_loads(text, expected):
    assert expected == counts(text)
    before, _ = read_description(text)
    assert before == read_description(to_yaml(before))[0]


@pytest.mark.parametrize("text, expected", [
    (EXAMPLE_2024, "15:21: aggregators[0].peers[0].endpoints: no endpoint 'c-1-10023': "
                   "expected names of daemons[].endpoints; cpu-1 has c-1"),
    (EXAMPLE_2026.replace("@      -", "       -").replace("@", ""),
     "10:8: expected YAML: expected - or the end of the list; is the line indented as those above "
     "it?"),
    (EXAMPLE_2026.replace("@", ""),
     "14:15: expected YAML: mapping values are not allowed in this context (is the line indented "
     "as those above it?)"),
    (YEPILOG.replace("@", '"${XPRT}"'),
     "5:55: daemons[0].endpoints[0].xprt: expected sock, rdma, ugni or fabric, got '${XPRT}'"),
    ('samplers:\n- daemons: "loc[@min@-@max@]"\n  plugins: [a]\ndaemons: []\n',
     "2:12: samplers[0].daemons: expected a host list such as node-[1-10], got "
     "'loc[@min@-@max@]': '@min@-@max@' is no number or range in brackets"),
    ('daemons:\n- names : "agg-[1-7]"\n  endpoints :\n  - names : "n-[1-7]-[10023]\n'
     '    ports : "[10023]"\n', "5:14: expected YAML: "),
    ("metric_sets_default_authz:\n    uid : 0\n", "1:1: expected a section daemons, or iostats"),
    ("aggregators: {}\nstores\nplugins: {}\n", "3:1: expected YAML: expected ':' after a key"),
], ids=["example_config of 2024: an endpoint that no daemon has",
        "example_config and README of 2026: an item of a list too far in",
        "README of 2026: a line too far in", "yepilog: xprt is a variable",
        "yepilog.samplerMax: a template", "parser_util.py's docstring: a quote is missing",
        "ldmsd_yaml_parser.rst: a fragment", "README of 2026: a store without its colon"])
def test_it_is_refused_in_the_right_line(text, expected):
    with pytest.raises(DescriptionError) as refused:
        read_description(text)
    lines = refused.value.format_lines()
    assert lines[0].startswith("FILE:" + expected), lines


def test_endpoints_belong_to_the_daemons_in_turn():
    """LDMS gives cpu-2 the endpoint c-1-10024, of another node."""
    found, _ = read_description(without(EXAMPLE_2026))

    assert ["c-2-10023", "c-2-10024"] == [
        one.name for one in found.daemons["cpu-2"].endpoints]
    assert [("c-2", 10023), ("c-2", 10024)] == [
        (one.host, one.port) for one in found.daemons["cpu-2"].endpoints]


def test_the_page_that_all_began_with():
    """Maestro's README in its own words: 10 samplers, 4 and 1 aggregators."""
    text = Path(shared("seeds", "maestro.txt")).read_text(encoding="utf-8")
    example = text[text.index("daemons:\n  - names"):text.index("\nAbout\n")]

    assert (15, [(4, 1, 10, 1), (1, 2, 4, 1)], [(10, 3, 10)], 5, 4, 4) == counts(example)
