"""
Reports that are decoded as the one before them: each answer, and the record, are those of a server
that decodes each for itself.
"""

import copy
import json

import hypothesis
import hypothesis.strategies as st
import msgspec
import pytest

from iostats.base import config as site
from iostats.server.job_server import JobServer, make_totals
from iostats.server.rpc_server import Caller
from iostats.totals.job_totals import Totals
from iostats.wire import jsonrpc

ENDED = 1_795_225_060.25
VALUES = {"read_bytes": 41_003, "read_calls": 23, "open": 37, "open_us": 53, "open_us2": 97}
DELTAS = [{"source": "llite", "file_system": "scratch", "values": VALUES, "proved": True},
          {"source": "osc", "file_system": "scratch", "target": "OST0017", "proved": True,
           "values": {"read_bytes": 4_096, "read_rpcs": 3}},
          {"source": "md_stats", "file_system": "scratch", "target": "MDT0003", "proved": True,
           "values": {"open": 31, "close": 29}}]
NODES = 24


class Desk:
    """A job's server, and one that decodes each report as any message."""

    def __init__(self):
        config = site.load("/dev/null")
        self.servers = [JobServer(make_totals(config, "4711", 1000, Totals), [], config)
                        for _ in range(2)]
        plain = self.servers[1]
        plain.methods["report"].fast_decode = None

    def emit(self, node, deltas, **fields):
        """Both get one report; the answer of both."""
        params = {"protocol": 1, "job": "4711", "node": node, "seq": "one", "ended": ENDED,
                  "elapsed_s": 7.5, "deltas": deltas, **fields}
        return self.send(node, json.dumps({"jsonrpc": "2.0", "method": "report",
                                           "params": params, "id": 1}))

    def send(self, node, text):
        answers = [jsonrpc.dispatch(text.encode(), one.methods, Caller(node, None))
                   for one in self.servers]
        assert answers[0] == answers[1]
        return json.loads(answers[0])

    def records(self):
        found = [msgspec.json.encode(one.totals.record()) for one in self.servers]
        assert found[0] == found[1]
        return json.loads(found[0])


@pytest.fixture
def desk():
    found = Desk()
    for number in range(NODES):
        assert "result" in found.emit(f"nid{number}", with_more(number))
    return found


def with_more(number):
    """DELTAS, each number of it larger by `number`."""
    found = copy.deepcopy(DELTAS)
    for one in found:
        one["values"] = {name: value + number for name, value in one["values"].items()}
    return found


def test_reports_of_one_shape_are_all_counted(desk):
    record = desk.records()
    assert 24 * 41_003 + 23 * 24 // 2 == record["file_systems"][0]["application"]["read_bytes"]
    assert 24 == record["coverage"]["reported"]


def changed(how):
    deltas = with_more(1000)
    how(deltas)
    return deltas


@pytest.mark.parametrize("how", [
    lambda deltas: deltas[0]["values"].pop("open"),
    lambda deltas: deltas[0]["values"].update(close=43),
    lambda deltas: deltas[0]["values"].update(read_bytes=2**62),
    lambda deltas: deltas[0]["values"].update(open_us2=2**63 - 1),
    lambda deltas: deltas[0]["values"].update(read_bytes=-1),
    lambda deltas: deltas[0]["values"].update(read_bytes=2**63),
    lambda deltas: deltas[0]["values"].update(read_bytes="23"),
    lambda deltas: deltas[0]["values"].update(read_bytes=23.0),
    lambda deltas: deltas[0]["values"].update(read_bytes=23.5),
    lambda deltas: deltas[0]["values"].update({"x" * 129: 43}),
    lambda deltas: deltas[0].update(values=dict(reversed(deltas[0]["values"].items()))),
    lambda deltas: deltas[0].update(values=None),
    lambda deltas: deltas[0].update(values={}),
    lambda deltas: deltas[0].update(values=[23, 37]),
    lambda deltas: deltas[0].pop("values"),
    lambda deltas: deltas[0].pop("proved"),
    lambda deltas: deltas[0].update(lower_bound=True),
    lambda deltas: deltas[0].update(why="the counters were cleared"),
    lambda deltas: deltas[0].update(file_system="home"),
    lambda deltas: deltas[0].update(source="x" * 129),
    lambda deltas: deltas[0].update(of_a_later_release=23),
    lambda deltas: deltas[1].update(target="OST0018"),
    lambda deltas: deltas.pop(),
    lambda deltas: deltas.clear(),
    lambda deltas: deltas.append(DELTAS[0]),
    lambda deltas: deltas.reverse(),
    lambda deltas: deltas.append(None),
])
def test_a_report_of_another_shape_is_decoded_as_any_message(desk, how):
    desk.emit("another", changed(how))
    for number in range(3):
        desk.emit(f"late{number}", with_more(2000 + number))
    desk.emit("yet another", changed(how))
    desk.records()


@pytest.mark.parametrize("fields", [
    {"node": "nid3", "seq": "two"}, {"node": "nid3"}, {"job": "23"}, {"protocol": 2},
    {"reason": "no start"}, {"ended": "soon"}, {"clock_ahead_s": 71.0}, {"of_later": [1]},
    {"dirty_bytes": {"scratch": 23}}, {"mounts": {"scratch": ["/work"]}}, {"other_jobs": 2},
    {"phases": [{"name": "read", "elapsed_s": 1.5, "deltas": DELTAS}]},
    {"phases": [{"name": "read", "elapsed_s": 1.5, "deltas": [{"source": "llite"}]}]},
    {"series": {"scratch": {"began": ENDED, "every_s": 60, "read_bytes": [1], "write_bytes": [2],
                            "operations": [3]}}}])
def test_other_fields_of_such_a_report_count_as_in_any(desk, fields):
    fields = dict(fields)
    desk.emit(fields.pop("node", "another"), with_more(1000), **fields)
    desk.records()


def test_a_name_that_stands_twice_counts_as_in_any_report(desk):
    text = json.dumps({"jsonrpc": "2.0", "method": "report", "id": 1, "params": {
        "protocol": 1, "job": "4711", "node": "another", "seq": "one", "ended": ENDED,
        "elapsed_s": 7.5, "deltas": DELTAS}})
    desk.send("another", text.replace('"open": 37', '"open": 37, "open": 43'))
    desk.send("another", text[:-20])
    desk.records()


@pytest.mark.parametrize("name", ['quo"ted', "back\\slash", "line\nend", "größe", "", "a b"])
def test_any_name_will_do(name):
    desk = Desk()
    for number in range(NODES):
        deltas = with_more(number)
        deltas[0]["values"][name] = 23
        desk.emit(f"nid{number}", deltas)
    assert NODES == desk.records()["coverage"]["reported"]


def test_nodes_of_two_shapes_in_turn(desk):
    for number in range(NODES):
        deltas = with_more(number)[:2 + number // 5 % 2]
        desk.emit(f"late{number}", deltas)
    assert 2 * NODES == desk.records()["coverage"]["reported"]


REPORT = {"protocol": 1, "job": "4711", "node": "late", "seq": "one", "ended": ENDED,
          "elapsed_s": 7.5, "user": "alice", "mounts": {"scratch": ["/scratch"], "home": ["/home"]},
          "dirty_bytes": {"scratch": 41}, "events": [], "phases": [], "deltas": with_more(53),
          "series": {"scratch": {"began": 23.5, "every_s": 10, "read_bytes": [23],
                                 "write_bytes": [37], "operations": [41]}}}


def as_json(value, path, chosen, extra):
    """JSON of `value`, in which the object at `chosen` begins with the pair `extra`."""
    if isinstance(value, dict):
        pairs = [f"{json.dumps(name)}:{as_json(one, (*path, name), chosen, extra)}"
                 for name, one in value.items()]
        return "{" + ",".join([extra] * (path == chosen) + pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(as_json(one, (*path, place), chosen, extra)
                              for place, one in enumerate(value)) + "]"
    return json.dumps(value)


def keys_of(value, path=()):
    """(path of an object, one of its keys, what that has), of all objects below `value`."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield path, name, one
            yield from keys_of(one, (*path, name))
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield from keys_of(one, (*path, place))


def without(value, path, names):
    """A copy of `value`, in which the object at `path` lacks `names`."""
    found = copy.deepcopy(value)
    one = found
    for step in path:
        one = one[step]
    for name in names:
        one.pop(name)
    return found


KEYS = list(keys_of(REPORT))
OPTIONAL = {"user", "mounts", "dirty_bytes", "events", "phases", "series", "target", "proved"}
OPTIONAL_FIELDS = {name: value for name, value in REPORT.items() if name in OPTIONAL}


@pytest.fixture(scope="module")
def used_desk():
    """A desk that has had reports with these keys and of this shape."""
    found = Desk()
    for number in range(4):
        assert "result" in found.emit(f"nid{number}", with_more(number), **OPTIONAL_FIELDS)
    return found


@hypothesis.given(twice=st.sampled_from(KEYS), is_same=st.booleans(), is_spaced=st.booleans(),
                  is_escaped=st.booleans(), lacking=st.sets(st.sampled_from(sorted(OPTIONAL))),
                  with_unknown=st.booleans(), warm=st.integers(0, 3))
@hypothesis.settings(max_examples=150, deadline=None, suppress_health_check=list(
    hypothesis.HealthCheck))
def test_a_key_that_stands_twice_is_refused_wherever_it_stands(
        used_desk, twice, is_same, is_spaced, is_escaped, lacking, with_unknown, warm):
    """Also where another key is missing, so that there are as many of them as in other reports."""
    path, name, value = twice
    lacking = [one for one in lacking if any(key[:2] == (path, one) for key in KEYS)
               and one not in (name, *path)]
    for number in range(warm):
        used_desk.emit(f"warm{number}", with_more(59), **OPTIONAL_FIELDS)
    report = without(REPORT, path, lacking)
    if with_unknown:
        report["of_a_later_release"] = "a:b"
    first = value if is_same else {dict: {}, list: [], str: "other"}.get(type(value), 23)
    key = json.dumps(name)
    if is_escaped:
        key = f'"\\u{ord(name[0]):04x}{key[2:]}'
    extra = f"{key}{' ' * is_spaced}:{json.dumps(first)}"
    text = ('{"jsonrpc":"2.0","method":"report","id":1,"params":'
            + as_json(report, (), path, extra) + "}")
    error = used_desk.send("late", text)["error"]
    assert {"code": -32602, "message": (
        f"Invalid params: expected each key once in an object, got '{name}' twice")} == error


def test_params_that_stand_twice_in_a_message_are_refused(used_desk):
    """The second ones would be counted, and the first ones be read by another decoder."""
    body = json.dumps({"jsonrpc": "2.0", "method": "report", "id": 1, "params": REPORT})
    text = body[:-1] + ', "params": {"protocol": 1}}'
    for one in (text, '{"params": {}, ' + body[1:]):
        assert ("Invalid params: expected each key once in an object, got 'params' twice"
                == used_desk.send("late", one)["error"]["message"])
