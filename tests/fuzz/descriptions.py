"""Targets whose bytes are YAML: a description, and Maestro's file of etcd's members."""
from __future__ import annotations

import contextlib

from iostats.base import node_list
from iostats.base.errors import is_printable
from iostats_ldms.description import host_lists
from iostats_ldms.description.convert import to_yaml
from iostats_ldms.description.model import Description
from iostats_ldms.description.problems import DescriptionError
from iostats_ldms.description.read import read_description, read_etcd_members

from .tools import allowed, checked_line, target

_TODAY = b"""\
daemons:
- names: &s "s-[1-3]"
  hosts: "n-[1-3]"
  environment: {A: b}
  endpoints: [{names: &e "s-[1-3]-e[1-2]", ports: "[37-38]", auth: {name: o, plugin: ovis}}]
- {names: a1, hosts: h, stream_enable: true, endpoints: [{names: a1e, ports: 41, bind_all: yes}]}
aggregators:
- daemons: a1
  balance: sets
  capacity: {a1: 0.5}
  peers:
  - {daemons: *s, endpoints: *e, reconnect: 20s, type: active, quota: 7, perm: rw-r--r--,
     updaters: [{interval: 1.5s, offset: -1ms, mode: auto, sets: [{regex: ".*", field: inst}]}]}
  prdcr_listen: [{name: l, regex: x, updaters: [{interval: 1s, producers: "s-[1-2]-e1"}]}]
  subscribe: [{message_tag: m, regex: .*}]
samplers:
- {daemons: *s, plugins: [p], advertise: {names: *s, hosts: h, xprt: sock, port: 41, reconnect: 1s}}
plugins:
  p: &p {name: meminfo, interval: 1s, config: [{schema: m, b: , c: [1, 2]}, "d=e f"]}
  q: {<<: *p, name: store_csv}
stores: {c: {daemons: a1, plugin: q, container: c, schema: m, flush: 10s}}
iostats: [{hosts: "o[1-2]", settings: {harvest: {interval: 10}}}]
"""
_INLINE = b"""\
daemons: [{names: s1, hosts: h, endpoints: [{names: e1, ports: 1}]},
          {names: a1, hosts: h, endpoints: [{names: e2, ports: 2}]}]
samplers: [{daemons: s1, plugins: [{name: m, interval: 1s, config: [{perm: 0o777}]}],
            advertise: [{names: e1, to: e2, reconnect: 1s}]}]
aggregators: [{daemons: a1, peers: [{endpoints: e1, reconnect: 1s, type: active, credits: 5}],
               prdcr_listen: [{names: e1}]}]
stores: [{name: c, daemons: a1, schema: m, plugin: {name: store_csv, config: []}}]
"""
_MEMBERS = b"""\
cluster: v
members:
  - host: 10.128.0.7
    port: 2379
members: [{host: o1}]
"""


@contextlib.contextmanager
def _few_names():
    """A million take a second each time."""
    kept = node_list.MOST_NODES, host_lists.MOST_NAMES
    node_list.MOST_NODES = host_lists.MOST_NAMES = 3000
    try:
        yield
    finally:
        node_list.MOST_NODES, host_lists.MOST_NAMES = kept


@target(lambda: [_TODAY, _INLINE], 4000)
def description_text(data):
    """It is refused in lines with a place, or what is converted of it reads as the same."""
    text = data.decode("utf-8", "surrogateescape")
    with _few_names():
        try:
            found, warnings = read_description(text)
        except DescriptionError as error:
            assert len(error.problems) <= 20
            for line in [*error.format_lines(), str(error)]:
                checked_line(line)
            return
        for warning in warnings:
            checked_line(warning.format_line("FILE"))
        assert all(is_printable(name) and "/" not in name for name in found.daemons)
        if found == Description():
            return                                          # an empty text is none
        again, _ = read_description(to_yaml(found))
    assert found == again


@target(lambda: [_MEMBERS], 1000)
def etcd_members_text(data):
    """URLs, each once, or lines with a place."""
    with allowed(DescriptionError):
        urls = read_etcd_members(data.decode("utf-8", "surrogateescape"))
        assert urls and len(urls) == len(set(urls))
        assert all(url.isprintable() and url.startswith("http://") for url in urls)
