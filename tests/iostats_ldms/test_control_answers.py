"""
What ldmsd 4.4.6 and 4.5.3 answer -> what they have; anything else is told in one line.

The texts are written after the handlers' print statements, with numbers of our own.
"""
from __future__ import annotations

import json
import time

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from iostats_ldms.control import answers
from iostats_ldms.control.errors import ProtocolError
from iostats_ldms.control.observed import (
    CollectedSet,
    ObservedListener,
    ObservedPlugin,
    ObservedPolicy,
    ObservedProducer,
    ObservedUpdater,
    SetInfo,
)

PRODUCERS = {
    "4.4": '[{ "name":"node-23","type":"active","host":"10.0.0.23","port":411,"transport":"sock",'
           '"reconnect_us":"2000000","state":"CONNECTED","sets": [{ "inst_name":"node-23/meminfo",'
           '"schema_name":"meminfo","state":"READY"}]},\n{ "name":"node-37","type":"active","host":'
           '"10.0.0.37","port":413,"transport":"sock","reconnect_us":"3000000","state":"STOPPED",'
           '"sets": []}]',
    "4.5": '[{ "name":"node-23","type":"active","host":"10.0.0.23","port":411,"transport":"sock",'
           '"auth":"DEFAULT","rail":"1","quota":"-1","rx_rate":"-1","reconnect_us":"2000000",'
           '"state":"CONNECTED","sets": [{ "inst_name":"node-23/meminfo","schema_name":"meminfo",'
           '"state":"READY"}]},\n{ "name":"node-37","type":"active","host":"10.0.0.37","port":413,'
           '"transport":"sock","auth":"DEFAULT","rail":"1","quota":"-1","rx_rate":"-1",'
           '"reconnect_us":"3000000","state":"STOPPED","sets": []}]'}


@pytest.mark.parametrize("text", PRODUCERS.values(), ids=PRODUCERS)
def test_producers(text):
    """One that collects, and one that was never started."""
    found = answers.parse_producers(text)
    assert found == {
        "node-23": ObservedProducer("node-23", "active", "10.0.0.23", 411, "sock", 2000000,
                                "CONNECTED",
                                (CollectedSet("node-23/meminfo", "meminfo", "READY"),)),
        "node-37": ObservedProducer("node-37", "active", "10.0.0.37", 413, "sock", 3000000,
                                    "STOPPED")}
    assert [one.is_started for one in found.values()] == [True, False]


@pytest.mark.parametrize("more", ["", ',"outstanding count":0,"oversampled count":0'],
                         ids=["4.5", "4.4"])
def test_updaters(more):
    """Their producers are in the one answer, their rules in the other."""
    status = ('[{"name":"updtr_0","interval":"1000000","offset":"100000","sync":"true","mode":'
              '"Pull","auto":"false","state":"RUNNING","producers":[{"name":"node-23","host":"h",'
              f'"port":411,"transport":"sock","state":"CONNECTED"}}]{more}}},\n'
              '{"name":"updtr_1","interval":"41000000","offset":"0","sync":"true","mode":"Push on '
              'Change","auto":"false","state":"STOPPED","producers":[]' + more + '},\n'
              '{"name":"updtr_2","interval":"43000000","offset":"0","sync":"true","mode":"Push on '
              'Request","auto":"true","state":"STOPPED","producers":[]' + more + '}]')
    rules = ('[{"name":"updtr_0","match":[{"regex":"^node\\.23/mem","selector":"inst"},\n'
             '{"regex":"say "meminfo"","selector":"schema"}]},\n{"name":"updtr_1","match":[]}]')
    assert answers.parse_updaters(status, rules) == {
        "updtr_0": ObservedUpdater("updtr_0", 1000000, 100000, "pull", False,
                                   "RUNNING", ("node-23",),
                               (("^node\\.23/mem", "inst"), ('say "meminfo"', "schema"))),
        "updtr_1": ObservedUpdater("updtr_1", 41000000, 0, "onchange", False, "STOPPED"),
        "updtr_2": ObservedUpdater("updtr_2", 43000000, 0, "push", True, "STOPPED")}


def test_plugins_of_4_5():
    """What they run with is not said."""
    status = ('[{"name":"mem1","plugin":"meminfo","type":"sampler[M]","libpath":"/opt/lib/'
              'libmeminfo.so"},\n{"name":"csv1","plugin":"store_csv","type":"store[M]","libpath":'
              '"/opt/lib/libstore_csv.so"}]')
    made = '[{"plugin":"mem1","sets":["node-23/mem1","node-23/other"]}]'
    assert answers.parse_plugins(status, made) == {
        "mem1": ObservedPlugin("mem1", "meminfo", "sampler",
                               sets=("node-23/mem1", "node-23/other")),
        "csv1": ObservedPlugin("csv1", "store_csv", "store")}


def test_plugins_of_4_4():
    """A store is told by another name than it is loaded by; a store's interval says nothing."""
    status = ('[{"name":"csv","type":"store","sample_interval_us":1000000,"sample_offset_us":0,'
              '"libpath":"/opt/lib/libstore_csv.so"},\n{"name":"meminfo","type":"sampler",'
              '"sample_interval_us":23000000,"sample_offset_us":41,"libpath":'
              '"/opt/lib/libmeminfo.so"}]')
    assert answers.parse_plugins(status, "[]") == {
        "store_csv": ObservedPlugin("store_csv", "store_csv", "store"),
        "meminfo": ObservedPlugin("meminfo", "meminfo", "sampler", 23000000, 41)}


def test_policies_and_listens():
    """A dash is none."""
    policy = ('[{"name":"csv","container":"c","schema":"meminfo","regex":"-","plugin":"csv1",'
              '"flush":"23.000041","state":"RUNNING","decomp":"-","producers":["node-.*"],'
              '"metrics":["a"]}]')
    assert answers.parse_policies(policy) == {"csv": ObservedPolicy(
        "csv", "csv1", "c", "meminfo", "", "", 23000041, "RUNNING", ("node-.*",))}
    listen = ('[{"name":"l","state":"running","regex":"node-.*","IP range":"-","quota":"-1",'
              '"rx_rate":"-1","type":"passive","producers":["node-23:411"]}]')
    assert answers.parse_listens(listen) == {"l": ObservedListener("l", True, "node-.*",
                                                                   "", ("node-23:411",))}


def directory(info='{"key":"updt_hint_us","value":"23000000:41"}'):
    return ('{ "directory" : [ {"name":"node-23/mem","schema":"meminfo","digest":"0A",'
            '"flags":"CL ","meta_size":2968,"data_size":544,"heap_size":0,"uid":23,"gid":37,'
            '"perm":"-rwxr-x---",'
            '"card":60,"array_card":1,"meta_gn":1,"data_gn":2,"timestamp":{"sec":1700000023,'
            f'"usec":500000}},"duration":{{"sec":0,"usec":250000}},"info":[{info}]}}]}}')


@pytest.mark.parametrize("info, hint, offset", [
    ('{"key":"updt_hint_us","value":"23000000:41"}', 23000000, 41),
    ('{"key":"updt_hint_us","value":"23000000:"}', 23000000, None),
    ('{"key":"updt_hint_us","value":"0:0"}', None, None),
    ('{"key":"other","value":"23"}', None, None), ("", None, None),
    ('{"key":"updt_hint_us","value":"often"}', None, None)],
    ids=["both", "no offset", "zero", "another key", "none", "no number"])
def test_a_set_and_its_hint(info, hint, offset):
    """How often it is sampled, where its sampler was started."""
    assert answers.parse_sets(directory(info)) == [SetInfo(
        "node-23/mem", "meminfo", 544, 2968, hint, offset, 1700000023.5)]


def test_an_empty_directory():
    """As ldmsd prints it."""
    assert answers.parse_sets('{ "directory" : []}') == []


@pytest.mark.parametrize("text, dialect, expected", [
    ('{ "LDMSD Version":"4.5.3",  "LDMS Protocol Version": "4.2.0.0"}', "4.5", "4.5.3"),
    ("LDMS Version: 4.2.0.0\nLDMSD Version: 3.2.2.0", "4.4", "4.4"),
    ("LDMS Version: 4.2.0.0\nLDMSD Version: 3.2.2.0", "4.5", "4.5"),
    ('{ "LDMSD Version":"4.5.3\\u001b[2J"}', "4.5", "4.5")],
    ids=["4.5.3", "4.4.6", "4.5.1", "not to be shown"])
def test_the_release(text, dialect, expected):
    """Before 4.5.2 the text has the version of another thing."""
    assert answers.parse_release(text, dialect) == expected


@pytest.mark.parametrize("read, text, words", [
    (answers.parse_config_counter, "many",
     "cfg_cntr: expected a number, got 'many'"),
    (answers.parse_config_counter, "9" * 5000, "expected a number"),
    (answers.parse_producers, "{}", "prdcr_status: expected a list"),
    (answers.parse_producers, "[23]", "expected an object, got '23'"),
    (answers.parse_producers, '[{"name":23}]', "name: expected a text, got '23'"),
    (answers.parse_producers, PRODUCERS["4.5"].replace(":411", ':"x"'), "port: expected a number"),
    (answers.parse_producers, PRODUCERS["4.5"][:-40], "expected JSON"),
    (answers.parse_producers, "[" * 100_000, "expected JSON"),
    (answers.parse_policies, '[{"name":"p","plugin":"c","container":"c","flush":"often"}]',
     "flush: expected seconds with six decimals"),
    (answers.parse_sets, '{"directory":"none"}',
     "the directory: directory: expected "
                                           "a list"),
    (answers.parse_sets, directory().replace("544", "null"), "data_size: expected a number"),
], ids=range(11))
def test_nonsense_is_told(read, text, words):
    """Who, what it was asked, what was expected, what came."""
    with pytest.raises(ProtocolError) as error:
        read(text, where="node-23:411")
    assert str(error.value).startswith("node-23:411: unexpected answer to ")
    assert words in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("text", [
    "[" + "[]," * (5 << 20) + "[]]", "[" + "{}," * (5 << 20) + "{}]",
    '["a"' + '"' * (8 << 20) + "]", '["' + "\\" * (16 << 20) + '"]',
    '[{"name":' + "[" * 900 + "1," * (8 << 20)],
    ids=["lists", "objects", "quotes", "backslashes", "numbers"])
def test_nonsense_without_end_is_told_at_once(text):
    """Of what is so dense that ldmsd never wrote it, nothing is read: it took minutes."""
    began = time.process_time()
    with pytest.raises(ProtocolError, match="prdcr_status: expected JSON, got "):
        answers.parse_producers(text)
    assert time.process_time() - began < 1.0


def test_of_a_list_the_first_that_is_wrong_is_told():
    """What follows it is not read."""
    with pytest.raises(ProtocolError, match="name: expected a text, got '23'"):
        answers.parse_producers('[{"name":23},oops')


@pytest.mark.parametrize("text", ["[{}{}]", "[{},]", "[{}] {}", "[,{}]", "[{} oops", "[{}"])
def test_a_list_is_json(text):
    with pytest.raises(ProtocolError, match="expected JSON"):
        answers.parse_plugins("", text.replace("{}", '{"plugin":"p"}'))


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
JSON = st.recursive(LEAVES, lambda inner: (
    st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([
        "name", "sets", "state", "producers", "match", "directory", "info", "timestamp", "flush",
        "data_size", "regex"]), inner, max_size=5)), max_leaves=20)


@given(JSON, st.integers(0, 100))
@settings(max_examples=examples(300), deadline=None)
def test_any_answer_is_read_or_told(value, cut):
    """Of any question."""
    text = json.dumps(value)
    for read in (answers.parse_config_counter, answers.parse_daemon_state, answers.parse_producers,
                 answers.parse_policies,
                 answers.parse_updaters, answers.parse_plugins, answers.parse_listens,
                 answers.parse_sets):
        for one in (text, text[:cut]):
            try:
                read(one)
            except ProtocolError as error:
                assert "\n" not in str(error)
